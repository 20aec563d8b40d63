#include "replayer/DeviceBinding.h"
#include "format/Failure.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cstring>

namespace tapeback {

DeviceBinding::DeviceBinding(const TapeSource &source, uint16_t device, Target &target,
                             const BindingOptions &options, const DeviceNeeds &needs)
    : source(&source), desc(source.description(device)), number(device), dut(&target),
      can(target.capabilities()), poison(options.poison), maxMappedBytes(options.maxMappedBytes),
      tapeSpaces(source.spaceNames()),
      rules(source.description(device), source.spaceNames(), options.allowRegisters),
      moving(desc, tapeSpaces, options.layout, needs.extent) {
  for (const std::string &name : tapeSpaces) {
    spaceIds.push_back(target.findSpace(name));
    busSpaces.push_back(isBusConfigurationSpace(source.description(device), name));
  }
}

llvm::Expected<DeviceBinding> DeviceBinding::bind(const TapeSource &source, uint16_t device, Target &target,
                                                  const BindingOptions &options, const DeviceNeeds &needs) {
  DeviceBinding binding(source, device, target, options, needs);
  for (const auto &[space, packet] : needs.spaces) {
    if (space < binding.spaceIds.size() && binding.spaceIds[space])
      continue;
    std::string has;
    for (const TargetSpace &one : target.spaces())
      has += (has.empty() ? "" : ", ") + one.name;
    return failUsage("missing-space",
                     "the target has no register space " + source.spaceName(space) + ", which packet " +
                         std::to_string(packet) + " of the tape needs",
                     "target '" + target.identity().uri + "'", "it has: " + (has.empty() ? "none" : has));
  }
  if (needs.memory && !binding.can.memory)
    return failUsage("no-memory",
                     "the target has no memory that a device can see, which packet " +
                         std::to_string(*needs.memory) + " of the tape needs",
                     "target '" + target.identity().uri + "'",
                     "use a target with memory: `tapeback targets`");
  return binding;
}

llvm::Expected<TargetSpaceId> DeviceBinding::space(uint16_t tapeSpace) const {
  if (tapeSpace < spaceIds.size() && spaceIds[tapeSpace])
    return *spaceIds[tapeSpace];
  return failUsage("missing-space", "the target has no register space '" + source->spaceName(tapeSpace) + "'",
                   "target '" + dut->identity().uri + "'");
}

std::optional<uint16_t> DeviceBinding::tapeSpace(llvm::StringRef name) const {
  for (size_t i = 0; i < tapeSpaces.size(); ++i)
    if (tapeSpaces[i] == name)
      return uint16_t(i);
  return std::nullopt;
}

std::vector<IdentityDifference> DeviceBinding::identityDifferences() const {
  std::vector<IdentityDifference> differences;
  const DeviceRecord &record = source->reader().devices()[number];
  const TargetIdentity &identity = dut->identity();
  std::map<std::string, std::string> facts = identity.facts;
  facts.emplace("kind", identity.kind);
  facts.emplace("name", identity.name);
  // A fact that only one of them states contradicts nothing.
  for (const auto &[key, recorded] : record.identity) {
    auto fact = facts.find(key);
    if (fact != facts.end() && fact->second != recorded)
      differences.push_back({key, recorded, fact->second});
  }
  return differences;
}

llvm::Error DeviceBinding::map(uint64_t iova, uint64_t length) {
  if (!length)
    return failUsage("empty-mapping", "a mapping of 0 bytes at 0x" + llvm::utohexstr(iova, true));
  if (length > maxMappedBytes - mappedBytes)
    return failUsage("memory-limit",
                     "mapping " + std::to_string(length) + " bytes at 0x" + llvm::utohexstr(iova, true) +
                         " exceeds the replay's limit of " + std::to_string(maxMappedBytes) + " bytes",
                     {}, "raise it with --max-memory if the tape is to be trusted");
  llvm::Expected<MemoryRegion> region = moving.place(*dut, iova, length);
  if (!region)
    return region.takeError();
  // Accounting is by what was asked for: rounding is the target's business.
  MemoryRegion kept = *region;
  kept.size = length;
  mapped[iova] = kept;
  mappedBytes += length;
  // Nothing that a target without answers does with it could be seen.
  return can.answers ? poisonRegion(kept) : llvm::Error::success();
}

llvm::Error DeviceBinding::poisonRegion(const MemoryRegion &region) {
  if (region.host) {
    std::memset(region.host, poison, region.size);
    return llvm::Error::success();
  }
  std::vector<uint8_t> piece(std::min<uint64_t>(region.size, 1 << 20), poison);
  for (uint64_t done = 0; done < region.size;) {
    uint64_t size = std::min<uint64_t>(piece.size(), region.size - done);
    if (llvm::Error error = dut->writeMemory(region.iova + done, llvm::ArrayRef<uint8_t>(piece.data(), size)))
      return error;
    done += size;
  }
  return llvm::Error::success();
}

llvm::Error DeviceBinding::unmap(uint64_t iova) {
  auto region = mapped.find(iova);
  if (region == mapped.end())
    return failUsage("not-mapped", "nothing is mapped at 0x" + llvm::utohexstr(iova, true));
  mappedBytes -= region->second.size;
  uint64_t placed = region->second.iova;
  lives.overwritten(iova, region->second.size);
  rings.erase(rings.lower_bound(iova), rings.lower_bound(iova + region->second.size));
  mapped.erase(region);
  moving.unmapped(iova);
  return dut->unmap(placed);
}

llvm::Error DeviceBinding::unmapAll() {
  while (!mapped.empty())
    if (llvm::Error error = unmap(mapped.begin()->first))
      return error;
  return llvm::Error::success();
}

bool DeviceBinding::isMapped(uint64_t iova, uint64_t length) const {
  if (can.flatMemory)
    return true;
  auto after = mapped.upper_bound(iova);
  if (after == mapped.begin())
    return false;
  const auto &[start, region] = *std::prev(after);
  uint64_t offset = iova - start;
  return offset <= region.size && length <= region.size - offset;
}

llvm::Error DeviceBinding::readMemory(uint64_t address, llvm::MutableArrayRef<uint8_t> out) const {
  if (LLVM_LIKELY(!moving.moves())) {
    if (llvm::Error error = dut->readMemory(address, out))
      return error;
    lives.revert(address, out);
    return llvm::Error::success();
  }
  for (size_t done = 0; done < out.size();) {
    AddressMap::Piece piece = moving.map.piece(address + done, out.size() - done);
    if (llvm::Error error = dut->readMemory(piece.placed, out.slice(done, piece.size)))
      return error;
    done += piece.size;
  }
  moving.pointers.revert(address, out);
  lives.revert(address, out);
  return llvm::Error::success();
}

llvm::Error DeviceBinding::writeMemory(uint64_t address, llvm::ArrayRef<uint8_t> in) {
  lives.overwritten(address, in.size());
  if (LLVM_LIKELY(!moving.moves()))
    return dut->writeMemory(address, in);
  std::vector<uint8_t> changed;
  std::vector<PointerPatches::Rest> rest;
  if (moving.pointers.any(address, in.size())) {
    changed = in.vec();
    moving.pointers.apply(address, changed, rest);
    in = changed;
  }
  for (const PointerPatches::Rest &pointer : rest) {
    uint8_t bytes[8];
    for (unsigned i = 0; i < pointer.width; ++i)
      bytes[i] = uint8_t(pointer.value >> (8 * i));
    if (llvm::Error error = writeMemory(pointer.address, llvm::ArrayRef<uint8_t>(bytes, pointer.width)))
      return error;
  }
  for (size_t done = 0; done < in.size();) {
    AddressMap::Piece piece = moving.map.piece(address + done, in.size() - done);
    if (llvm::Error error = dut->writeMemory(piece.placed, in.slice(done, piece.size)))
      return error;
    done += piece.size;
  }
  return llvm::Error::success();
}

llvm::Error DeviceBinding::reset(ResetKind kind, uint64_t packet,
                                 std::vector<FingerprintDifference> &differences) {
  if (can.reset)
    if (llvm::Error error = dut->reset(kind))
      return error;
  moving.reset();
  lives.clear();
  rings.clear();
  fingerprint.clear();
  fresh = true;
  freshKind = kind;
  if (!desc || !can.registers || !can.answers)
    return llvm::Error::success();
  for (const FingerprintEntry &entry : desc->fingerprint) {
    const RegisterDescription &reg = desc->registers[entry.reg];
    if (!tapeSpace(reg.space))
      continue; // Not in the tape's table of spaces: the recorded program never went there.
    llvm::Expected<uint64_t> value = readRegister(reg);
    if (!value)
      return value.takeError();
    fingerprint.push_back({entry.reg, entry.mask, *value, packet});
    if (entry.value && ((*value ^ *entry.value) & entry.mask & widthMask(reg.width)))
      differences.push_back(
          {reg.name, *entry.value & entry.mask, *value & entry.mask & widthMask(reg.width), false, packet});
  }
  return llvm::Error::success();
}

std::optional<FingerprintDifference> DeviceBinding::compareFingerprint(uint16_t space, uint64_t address,
                                                                       uint64_t recorded, bool *compared) {
  *compared = false;
  if (!desc || space >= tapeSpaces.size())
    return std::nullopt;
  for (const FingerprintValue &ours : fingerprint) {
    const RegisterDescription &reg = desc->registers[ours.reg];
    if (reg.space != tapeSpaces[space] || reg.offset != address)
      continue;
    *compared = true;
    uint64_t mask = ours.mask & widthMask(reg.width);
    if (((ours.value ^ recorded) & mask) == 0)
      return std::nullopt;
    return FingerprintDifference{reg.name, recorded & mask, ours.value & mask, true, ours.packet};
  }
  return std::nullopt;
}

llvm::Expected<uint64_t> DeviceBinding::readRegister(const RegisterDescription &reg) {
  std::optional<TargetSpaceId> id = dut->findSpace(reg.space);
  if (!id)
    return failUsage("missing-space", "the target has no register space '" + reg.space + "'");
  return dut->read(*id, reg.offset, reg.width);
}

llvm::Error DeviceBinding::writeRegister(const RegisterDescription &reg, uint64_t value) {
  std::optional<TargetSpaceId> id = dut->findSpace(reg.space);
  if (!id)
    return failUsage("missing-space", "the target has no register space '" + reg.space + "'");
  return dut->write(*id, reg.offset, reg.width, value);
}

} // namespace tapeback
