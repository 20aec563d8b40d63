// Register traffic in bulk: what most accesses are, a value in a register and nothing else, applied without a
// look at the rest of the state. Which accesses these are follows from the description, and for registers
// that are looked at to learn something (a status that ends an activity) from the value that was read.
#include "hal/state/ShadowState.h"

#include "hal/state/StateParts.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

ShadowState::State::Plain ShadowState::State::plainOf(const RegisterShadow::Place &place) const {
  Plain result;
  result.place = place;
  if (place.reg == RegisterShadow::Place::undescribed)
    return result;
  bool isData = llvm::any_of(windows, [&](const WindowState &window) {
    return window.window->port && window.window->port->data == place.reg;
  });
  result.read = !isData;
  result.watched = activities.mayEnd(place.reg) || queues.listensTo(place.reg);
  result.write = !isData && !activities.mayStart(place.reg) && !queues.heeds(place.reg);
  result.disturbs = !isPort(place.reg);
  return result;
}

bool ShadowState::State::tellsNothing(unsigned reg, uint64_t value) const {
  return !activities.mayEnd(reg, value) && !queues.maySee(reg, value);
}

std::optional<uint32_t> ShadowState::accessKey(uint16_t space, uint64_t address, uint8_t width) {
  bool good = width == 1 || width == 2 || width == 4 || width == 8;
  if (!good || state->plain.size() >= maxAccessKeys)
    return std::nullopt;
  std::optional<RegisterShadow::Place> place = state->registers.placeOf(space, address, width);
  if (!place)
    return std::nullopt;
  state->plain.push_back(state->plainOf(*place));
  return uint32_t(state->plain.size() - 1);
}

void ShadowState::forgetAccessKeys() {
  state->plain.clear();
}

size_t ShadowState::State::applyPlain(uint64_t firstOrdinal, llvm::ArrayRef<Packet> packets,
                                      llvm::ArrayRef<uint32_t> keys) {
  size_t i = 0;
  for (; i < packets.size(); ++i) {
    const Packet &packet = packets[i];
    Plain &access = plain[keys[i]];
    const bool described = access.place.reg != RegisterShadow::Place::undescribed;
    if (packet.kind == PacketKind::RegisterWrite) {
      if (!access.write)
        break;
      registers.writeAt(access.place, firstOrdinal + i, packet.value);
      if (access.disturbs)
        disturbedAt = step + i + 1;
      continue;
    }
    const uint64_t seen = packet.value & (~uint64_t(0) >> (64 - 8 * access.place.width));
    if (!access.read || (access.watched && !tellsNothing(access.place.reg, seen)))
      break;
    registers.readAt(access.place, seen);
    if (described)
      seenAt[access.place.reg] = step + i + 1;
  }
  if (i) {
    step += i;
    synchronised = endsWithCompletions = false;
  }
  return i;
}

size_t ShadowState::applyPlain(uint64_t firstOrdinal, llvm::ArrayRef<Packet> packets,
                               llvm::ArrayRef<uint32_t> keys) {
  return state->applyPlain(firstOrdinal, packets, keys);
}

} // namespace tapeback
