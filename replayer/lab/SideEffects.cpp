#include "replayer/lab/SideEffects.h"
#include "replayer/Needs.h"
#include "replayer/StartState.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

namespace tapeback {
namespace {

constexpr size_t mostGroups = 4096, shownValues = 4;

/// One pass over the tape.
class EffectSearch {
public:
  EffectSearch(TapeSource &source, const ReplayOptions &options) : source(source), options(options) {
    for (size_t i = 0; i < source.deviceCount(); ++i)
      rules.emplace_back(source.description(uint16_t(i)), source.spaceNames(),
                         options.player.binding.allowRegisters);
  }
  llvm::Expected<SideEffects> run();

private:
  /// Adds to its group; null if there are too many.
  SideEffect *group(const char *kind, uint16_t device, llvm::StringRef space, llvm::StringRef reg,
                    uint64_t address, std::optional<uint64_t> packet);
  llvm::Error atStart();
  void afterFailure();
  void look(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);
  void registerAccess(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);

  TapeSource &source;
  const ReplayOptions &options;
  std::vector<AccessRules> rules;
  std::map<std::string, size_t> places; ///< Group's key to its index.
  SideEffects found;
};

SideEffect *EffectSearch::group(const char *kind, uint16_t device, llvm::StringRef space, llvm::StringRef reg,
                                uint64_t address, std::optional<uint64_t> packet) {
  // What has a name is one thing; what has none is grouped by page.
  std::string key = std::to_string(device) + " " + kind + " " + space.str() + " " +
                    (reg.empty() ? "@" + std::to_string(address >> 12) : reg.str());
  auto [place, isNew] = places.try_emplace(key, found.groups.size());
  if (isNew && found.groups.size() == mostGroups) {
    places.erase(place);
    ++found.ungrouped;
    return nullptr;
  }
  if (isNew) {
    SideEffect effect;
    effect.kind = kind;
    effect.device = device;
    effect.space = space.str();
    effect.reg = reg.str();
    effect.address = effect.lastAddress = address;
    effect.firstPacket = packet;
    found.groups.push_back(std::move(effect));
  }
  SideEffect &effect = found.groups[place->second];
  ++effect.count;
  effect.address = std::min(effect.address, address);
  effect.lastAddress = std::max(effect.lastAddress, address);
  if (packet)
    effect.lastPacket = packet;
  return &effect;
}

void EffectSearch::registerAccess(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  const AccessRule &rule = rules[packet.device].find(packet.space, packet.address, packet.width);
  std::string space = source.spaceName(packet.space);
  bool left = packet.completion == Completion::Pending && (rule.forbidden || rule.mayHang);
  if (left || isBusConfigurationSpace(source.description(packet.device), space))
    return; // Never issued again.
  llvm::StringRef name = rule.reg ? llvm::StringRef(rule.reg->name) : "";
  if (packet.kind == PacketKind::RegisterWrite) {
    SideEffect *effect = group("register-write", packet.device, space, name, packet.address, ordinal);
    if (rule.forbidden) {
      ++found.forbidden;
      found.firstForbidden = std::min(found.firstForbidden.value_or(ordinal), ordinal);
    }
    if (!effect)
      return;
    effect->bytes += packet.width;
    effect->forbidden |= rule.forbidden != nullptr;
    if (llvm::find(effect->values, packet.value) != effect->values.end())
      return;
    if (effect->values.size() < shownValues)
      effect->values.push_back(packet.value);
    else
      effect->moreValues = true;
    return;
  }
  bool changes =
      rule.reg && (rule.reg->cls == RegisterClass::ReadToClear || rule.reg->cls == RegisterClass::Fifo ||
                   rule.reg->policy == ReplayPolicy::SideEffect || rule.mayHang);
  if (changes)
    if (SideEffect *effect = group("read-with-effect", packet.device, space, name, packet.address, ordinal)) {
      effect->bytes += packet.width;
      effect->note = rule.mayHang ? "may hang" : "reading it changes it";
    }
  if (packet.kind == PacketKind::Poll)
    if (SideEffect *effect = group("wait", packet.device, space, name, packet.address, ordinal))
      effect->longestWait =
          std::max(effect->longestWait, std::min(extra.deadline, options.player.waits.maxDeadline));
}

void EffectSearch::look(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  auto memory = [&](const char *kind) {
    if (SideEffect *effect = group(kind, packet.device, "memory", "", packet.address, ordinal))
      effect->bytes += extra.length;
  };
  auto wait = [&](const char *space, llvm::StringRef name) {
    if (SideEffect *effect = group("wait", packet.device, space, name, packet.address, ordinal))
      effect->longestWait =
          std::max(effect->longestWait, std::min(extra.deadline, options.player.waits.maxDeadline));
  };
  if (packet.origin == Origin::Recorder && packet.kind != PacketKind::Reset)
    return; // What the recorder did by itself is not done again.
  switch (packet.kind) {
  case PacketKind::RegisterRead:
  case PacketKind::RegisterWrite:
  case PacketKind::Poll: registerAccess(ordinal, packet, extra); return;
  case PacketKind::MemoryWrite: memory("memory-write"); return;
  case PacketKind::Submit: memory("submit"); return;
  case PacketKind::MemoryMap: memory("memory-map"); return;
  case PacketKind::MemoryUnmap: memory("memory-unmap"); return;
  case PacketKind::MemoryWait: wait("memory", ""); return;
  case PacketKind::Interrupt: wait("", "interrupt " + std::to_string(packet.address)); return;
  case PacketKind::Reset:
    if (SideEffect *effect = group("reset", packet.device, "", "", packet.value << 12, ordinal)) {
      effect->address = effect->lastAddress = 0;
      effect->values = {packet.value};
    }
    return;
  default: return;
  }
}

/// Reset, fingerprint, and what a keyframe restores.
llvm::Error EffectSearch::atStart() {
  llvm::Expected<StartState> start = findStartState(source, /*fromReset=*/true);
  if (!start)
    return start.takeError();
  llvm::Expected<StartState> restored = findStartState(source, options.fromReset);
  if (restored)
    start = std::move(restored);
  else
    llvm::consumeError(restored.takeError()); // The replay would refuse, and says why then.
  const char *before = "before the first packet";
  for (size_t i = 0; i < source.deviceCount(); ++i) {
    uint16_t device = uint16_t(i);
    if (SideEffect *effect = group("reset-at-start", device, "", "", 0, std::nullopt)) {
      effect->note = before;
      effect->values = {i < start->resetKinds.size() ? start->resetKinds[i] : uint64_t(0)};
    }
    if (const Description *description = source.description(device))
      for (const FingerprintEntry &entry : description->fingerprint) {
        const RegisterDescription &reg = description->registers[entry.reg];
        if (SideEffect *effect =
                group("fingerprint-read", device, reg.space, reg.name, reg.offset, std::nullopt)) {
          effect->bytes += reg.width;
          effect->note = before;
        }
      }
  }
  for (const Keyframe &keyframe : start->keyframes) {
    auto restore = [&](const char *kind, llvm::ArrayRef<KeyframeExtent> extents) {
      for (const KeyframeExtent &extent : extents)
        if (SideEffect *effect = group(kind, keyframe.device, "", kind, extent.address, std::nullopt)) {
          effect->bytes += extent.length;
          effect->note = before;
        }
    };
    restore("restore-mapping", keyframe.mappings);
    restore("restore-memory", keyframe.memory);
    restore("restore-window", keyframe.internal);
    for (const KeyframeRegister &reg : keyframe.registers)
      if (SideEffect *effect = group("restore-register", keyframe.device, source.spaceName(reg.space), "",
                                     reg.address, std::nullopt)) {
        effect->bytes += reg.width;
        effect->note = before;
      }
  }
  return llvm::Error::success();
}

void EffectSearch::afterFailure() {
  for (size_t i = 0; i < source.deviceCount(); ++i)
    if (const Description *description = source.description(uint16_t(i)))
      for (unsigned index : description->postMortem) {
        const RegisterDescription &reg = description->registers[index];
        if (SideEffect *effect =
                group("post-mortem-read", uint16_t(i), reg.space, reg.name, reg.offset, std::nullopt)) {
          effect->bytes += reg.width;
          effect->note = "only after a failure";
        }
      }
}

llvm::Expected<SideEffects> EffectSearch::run() {
  if (llvm::Error error = atStart())
    return error;
  auto block = [&](const PacketBatch &batch, size_t count) -> llvm::Expected<bool> {
    for (size_t i = 0; i < count; ++i)
      if (batch.packets[i].device < rules.size())
        look(batch.firstOrdinal + i, batch.packets[i], batch.extra(batch.packets[i]));
    return true;
  };
  if (llvm::Error error = source.eachBlock(options.endPacket, block))
    return error;
  afterFailure();
  std::stable_sort(
      found.groups.begin(), found.groups.end(),
      [](const SideEffect &left, const SideEffect &right) { return left.device < right.device; });
  return std::move(found);
}

} // namespace

llvm::Expected<SideEffects> findSideEffects(TapeSource &source, const ReplayOptions &options) {
  return EffectSearch(source, options).run();
}

std::string sideEffectText(const SideEffect &effect) {
  auto hexOf = [](uint64_t value) { return "0x" + llvm::utohexstr(value, /*LowerCase=*/true); };
  std::string text = std::to_string(effect.count) + " " + effect.kind;
  if (!effect.space.empty())
    text += " " + effect.space;
  if (!effect.reg.empty() && effect.reg != effect.kind)
    text += " " + effect.reg;
  else if (!effect.space.empty() || effect.bytes)
    text += " " + hexOf(effect.address) +
            (effect.lastAddress != effect.address ? ".." + hexOf(effect.lastAddress) : "");
  for (size_t i = 0; i < effect.values.size(); ++i)
    text += (i ? ", " : " = ") + hexOf(effect.values[i]);
  if (effect.moreValues)
    text += " …";
  if (effect.bytes)
    text += ", " + std::to_string(effect.bytes) + " bytes";
  if (effect.longestWait)
    text += ", at most " + std::to_string(effect.longestWait / 1000) + " us each";
  if (effect.firstPacket && effect.lastPacket == effect.firstPacket)
    text += ", packet " + std::to_string(*effect.firstPacket);
  else if (effect.firstPacket)
    text += ", packets " + std::to_string(*effect.firstPacket) + " to " + std::to_string(*effect.lastPacket);
  if (!effect.note.empty())
    text += " (" + effect.note + ")";
  if (effect.forbidden)
    text += "  FORBIDDEN";
  return text;
}

} // namespace tapeback
