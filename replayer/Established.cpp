#include "replayer/Established.h"
#include "replayer/AccessRules.h"
#include "replayer/History.h"
#include "replayer/Rows.h"
#include "replayer/bisect/Writers.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include <memory>

namespace tapeback {
namespace {

/// Whether what is read from the register is state that somebody wrote before. Other registers tell of the
/// present.
bool holdsState(const RegisterDescription &reg) {
  if (reg.policy == ReplayPolicy::Ignore || reg.policy == ReplayPolicy::Substitute)
    return false;
  switch (reg.cls) {
  case RegisterClass::Stable:
  case RegisterClass::Status:
  case RegisterClass::W1C:
  case RegisterClass::AddressLow:
  case RegisterClass::AddressHigh: return true;
  default: return false;
  }
}

class Walk {
public:
  Walk(TapeSource &source, const Description &description, uint16_t device, uint64_t from)
      : source(source), description(description), device(device), from(from) {
    for (const RestoreStep &step : description.restore)
      if (step.kind == RestoreStep::Kind::Register)
        established.insert(step.reg);
  }

  std::optional<std::string> look(const History &history, uint64_t ordinal, const Packet &packet,
                                  const PacketExtra &extra);

private:
  std::optional<std::string> lookAtRead(const ShadowState &state, uint64_t ordinal, const Packet &packet);
  std::optional<std::string> lookAtMemory(const ShadowState &state, uint64_t ordinal, const Packet &packet,
                                          const PacketExtra &extra);
  void written(const Packet &packet);

  TapeSource &source;
  const Description &description;
  uint16_t device;
  uint64_t from;
  llvm::DenseSet<unsigned> established;
  /// Something since the cut that may change what registers read besides those it names.
  bool told = false;
};

std::optional<std::string> Walk::look(const History &history, uint64_t ordinal, const Packet &packet,
                                      const PacketExtra &extra) {
  bool refersBack = packet.kind == PacketKind::Oracle || packet.kind == PacketKind::DmaCompletion ||
                    packet.kind == PacketKind::LateCompletion;
  if (packet.device == device && refersBack && extra.link < from)
    return "packet " + std::to_string(ordinal) + " refers to what packet " + std::to_string(extra.link) +
           " brought before the cut";
  if (packet.device != device || packet.completion != Completion::Done || packet.origin == Origin::Recorder)
    return std::nullopt;
  switch (packet.kind) {
  case PacketKind::Reset:
  case PacketKind::Submit: told = true; return std::nullopt;
  case PacketKind::Interrupt:
    return told ? std::nullopt
                : std::optional<std::string>("packet " + std::to_string(ordinal) +
                                             " waits for an interrupt whose cause lies before the cut");
  case PacketKind::RegisterRead: return lookAtRead(history.state(), ordinal, packet);
  case PacketKind::RegisterWrite: written(packet); return std::nullopt;
  case PacketKind::MemoryRead:
  case PacketKind::Acquire: return lookAtMemory(history.state(), ordinal, packet, extra);
  // Content that was captured before the cut and left alone since is not on the tape again.
  case PacketKind::DmaDescriptor:
    return (packet.flags & TransferToDevice) && extra.link == noLink
               ? lookAtMemory(history.state(), ordinal, packet, extra)
               : std::nullopt;
  default: return std::nullopt;
  }
}

std::optional<std::string> Walk::lookAtRead(const ShadowState &state, uint64_t ordinal,
                                            const Packet &packet) {
  const RegisterDescription *reg =
      description.find(source.spaceName(packet.space), packet.address, packet.width);
  if (!reg)
    return "packet " + std::to_string(ordinal) + " reads an undescribed register, which no recipe restores";
  if (!holdsState(*reg) || established.contains(description.indexOf(*reg)))
    return std::nullopt;
  // Never touched before the cut, or as a reset leaves it: a reset establishes it.
  std::optional<uint64_t> value = state.registerValue(packet.space, reg->offset);
  if (!value || (reg->reset && *value == *reg->reset)) {
    // Unless the device had changed it by itself, or on a write that does not say so.
    if (told || !reg->reset || packet.width > 8 || packet.address < reg->offset ||
        packet.address - reg->offset >= reg->width)
      return std::nullopt;
    unsigned shift = unsigned(packet.address - reg->offset) * 8;
    uint64_t compared = (reg->compareMask >> shift) & widthMask(packet.width);
    if (!((packet.value ^ (*reg->reset >> shift)) & compared))
      return std::nullopt;
    return "packet " + std::to_string(ordinal) + " reads a value of " + reg->name +
           " that came about before the cut, and that the restore recipe does not restore";
  }
  return "packet " + std::to_string(ordinal) + " reads " + reg->name +
         ", which was written before the cut and which the restore recipe does not restore";
}

void Walk::written(const Packet &packet) {
  const RegisterDescription *reg =
      description.find(source.spaceName(packet.space), packet.address, packet.width);
  if (!reg) {
    told = true;
    return;
  }
  established.insert(description.indexOf(*reg));
  told |= reg->policy == ReplayPolicy::SideEffect || reg->cls == RegisterClass::Fifo;
  if (!startsActivity(source, packet))
    return;
  told = true;
  // What tells of an activity's end is made by the activity.
  for (const ActivityDescription &activity : description.activities)
    if (activity.starts.reg == description.indexOf(*reg))
      for (const RegisterCondition &done : activity.done)
        established.insert(done.reg);
}

std::optional<std::string> Walk::lookAtMemory(const ShadowState &state, uint64_t ordinal,
                                              const Packet &packet, const PacketExtra &extra) {
  constexpr uint64_t piece = 1 << 20, most = uint64_t(64) << 20;
  if (!extra.payload)
    return std::nullopt; // Not compared.
  llvm::Expected<Rows> rows = Rows::of(packet, extra);
  if (!rows)
    return "packet " + std::to_string(ordinal) + ": " + llvm::toString(rows.takeError());
  std::vector<uint8_t> bytes(std::min(rows->rowBytes, piece));
  std::unique_ptr<bool[]> known(new bool[bytes.size()]);
  for (uint64_t row = 0; row < rows->count && row * rows->rowBytes < most; ++row)
    for (uint64_t at = 0; at < std::min(rows->rowBytes, most); at += piece) {
      uint64_t address = rows->rowAddress(row) + at;
      size_t size = size_t(std::min(piece, rows->rowBytes - at));
      size_t count = state.memoryContent(address, llvm::MutableArrayRef<uint8_t>(bytes.data(), size),
                                         llvm::MutableArrayRef<bool>(known.get(), size));
      if (count < size)
        return "packet " + std::to_string(ordinal) + " reads memory at 0x" + llvm::utohexstr(address, true) +
               " whose content before the cut is not on the tape";
    }
  return std::nullopt;
}

} // namespace

llvm::Expected<std::optional<std::string>> findUnestablished(TapeSource &source, uint16_t device,
                                                             uint64_t from, uint64_t to) {
  const Description *description = source.description(device);
  if (!description)
    return std::optional<std::string>();
  llvm::Expected<std::unique_ptr<History>> history = History::before(source, device, from, /*contents=*/true);
  if (!history)
    return history.takeError();
  Walk walk(source, *description, device, from);
  PacketBatch batch;
  for (uint64_t position = from; position < to; position += batch.packets.size()) {
    if (llvm::Error error = source.reader().readBlockFrom(position, batch))
      return error;
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size() && position + i < to; ++i) {
      const Packet &packet = batch.packets[i];
      std::optional<std::string> missing = walk.look(**history, position + i, packet, batch.extra(packet));
      if (missing)
        return missing;
      if (llvm::Error error = (*history)->advanceTo(position + i + 1))
        return error;
    }
  }
  return std::optional<std::string>();
}

} // namespace tapeback
