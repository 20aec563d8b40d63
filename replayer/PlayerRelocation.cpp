// The part of Player that deals with memory which is elsewhere than the tape has it.
#include "replayer/PacketRoles.h"
#include "replayer/Player.h"
#include "llvm/ADT/SmallVector.h"

namespace tapeback {

/// Packets that must be looked at one by one, so that addresses can be changed.
bool Player::concernsRelocation(const Packet &packet, const AccessRule *rule) const {
  const Relocation &relocation = bindings[packet.device].relocation();
  if (!rule)
    return true; // Memory.
  if (packet.kind == PacketKind::RegisterWrite && relocation.hasLists())
    return true;
  return relocation.registers.touches(packet.space, packet.address, packet.width);
}

/// What to write for `value`; lists in memory and other halves of addresses are dealt with first.
llvm::Expected<uint64_t> Player::relocatedValue(const Packet &packet, uint64_t ordinal, uint64_t value) {
  DeviceBinding &binding = bindings[packet.device];
  Relocation &relocation = binding.relocation();
  if (!relocation.moves())
    return value;
  const AccessRule &rule = binding.rule(packet.space, packet.address, packet.width);
  if (rule.whole)
    if (llvm::Error error = relocation.written(binding, binding.description()->indexOf(*rule.reg)))
      return error;
  if (!relocation.registers.touches(packet.space, packet.address, packet.width))
    return value;
  llvm::SmallVector<AddressRegisters::Extra, 2> before;
  llvm::Expected<uint64_t> changed =
      relocation.registers.write(source, relocation.map, ordinal, packet, before);
  if (!changed)
    return changed.takeError();
  for (const AddressRegisters::Extra &extra : before)
    if (llvm::Error error = binding.writeRegister(binding.description()->registers[extra.reg], extra.value))
      return error;
  return changed;
}

/// An address that was read, in recorded terms.
llvm::Error Player::recordedValue(const Packet &packet, uint64_t ordinal, Observation &o) {
  Relocation &relocation = bindings[packet.device].relocation();
  if (!relocation.moves() || o.state != Observation::State::Done || packet.completion != Completion::Done)
    return llvm::Error::success();
  if (!relocation.registers.touches(packet.space, packet.address, packet.width))
    return llvm::Error::success();
  llvm::Expected<uint64_t> value =
      relocation.registers.read(source, relocation.map, ordinal, packet, o.value);
  if (!value)
    return value.takeError();
  o.value = *value;
  return llvm::Error::success();
}

} // namespace tapeback
