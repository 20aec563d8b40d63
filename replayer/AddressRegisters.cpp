#include "replayer/AddressRegisters.h"
#include "hal/description/AddressPair.h"
#include "replayer/AccessRules.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <tuple>

namespace tapeback {

AddressRegisters::AddressRegisters(const Description *description, const std::vector<std::string> &spaces)
    : description(description), spaces(spaces) {
  if (!description)
    return;
  for (const QueueDescription &queue : description->queues)
    if (queue.base)
      addSlot(*queue.base, queue.baseHigh);
  for (const RingDescription &ring : description->completionQueues)
    if (ring.base)
      addSlot(*ring.base, ring.baseHigh);
  for (unsigned reg = 0; reg < description->registers.size(); ++reg) {
    const RegisterDescription &low = description->registers[reg];
    bool isAddress = low.cls == RegisterClass::AddressLow || low.policy == ReplayPolicy::Relocate;
    if (!isAddress || low.cls == RegisterClass::AddressHigh || !low.aliasOf.empty())
      continue;
    addSlot(reg, upperHalfOf(*description, reg));
  }
  for (const ActivityDescription &activity : description->activities)
    for (const TransferDescription &transfer : activity.transfers)
      addSlot(transfer.hostAddress, upperHalfOf(*description, transfer.hostAddress));
  // What an activity uses as an address of the device's own is not one of the host's, then.
  for (Slot &slot : slots) {
    bool host = false, device = false;
    for (const ActivityDescription &activity : description->activities)
      for (const TransferDescription &transfer : activity.transfers) {
        host |= transfer.hostAddress == slot.low;
        device |= transfer.deviceAddress == slot.low;
      }
    slot.mayBeDevice = device;
    slot.mayBeHost = host || !device;
  }
  llvm::sort(parts, [](const Part &a, const Part &b) {
    return std::tie(a.space, a.offset) < std::tie(b.space, b.offset);
  });
}

void AddressRegisters::addSlot(unsigned low, std::optional<unsigned> high) {
  auto known = [&](unsigned reg) {
    return llvm::any_of(slots, [&](const Slot &slot) { return slot.low == reg || slot.high == reg; });
  };
  if (known(low) || (high && known(*high)))
    return;
  Slot slot;
  slot.low = low;
  slot.high = high;
  slot.readOnly = description->registers[low].access == RegisterAccess::ReadOnly;
  unsigned shift = 0;
  for (std::optional<unsigned> reg : {std::optional<unsigned>(low), high}) {
    if (!reg)
      continue;
    const RegisterDescription &which = description->registers[*reg];
    for (size_t space = 0; space < spaces.size(); ++space)
      if (spaces[space] == which.space)
        parts.push_back({uint16_t(space), which.offset, which.width, *reg, unsigned(slots.size()), shift});
    shift += 8 * which.width;
  }
  slots.push_back(slot);
  isPartOf.resize(description->registers.size());
  isPartOf[low] = true;
  if (high)
    isPartOf[*high] = true;
  reset();
}

void AddressRegisters::reset() {
  for (Slot &slot : slots) {
    uint64_t low = description->registers[slot.low].reset.value_or(0);
    uint64_t high = slot.high ? description->registers[*slot.high].reset.value_or(0) : 0;
    unsigned shift = 8 * description->registers[slot.low].width;
    slot.recorded = slot.issued = low | (shift < 64 ? high << shift : 0);
    slot.translated = false;
  }
}

llvm::SmallVector<AddressRegisters::Touched, 2> AddressRegisters::touched(uint16_t space, uint64_t address,
                                                                          unsigned width) const {
  llvm::SmallVector<Touched, 2> result;
  // A hostile tape's word for a width: no access is wider than a register.
  if (width > 8)
    return result;
  auto at = std::upper_bound(
      parts.begin(), parts.end(), std::make_pair(space, address),
      [](const auto &place, const Part &part) { return place < std::make_pair(part.space, part.offset); });
  if (at != parts.begin())
    --at;
  for (; at != parts.end() && (at->space < space || (at->space == space && at->offset < address + width));
       ++at) {
    if (at->space != space || at->offset + at->width <= address)
      continue;
    uint64_t first = std::max(address, at->offset), last = std::min(address + width, at->offset + at->width);
    unsigned low = at->shift + unsigned(first - at->offset) * 8, bits = unsigned(last - first) * 8;
    if (low >= 64)
      continue; // Above what an address has.
    uint64_t mask = (bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1) << low;
    result.push_back({at->slot, mask, int(low) - int(first - address) * 8});
  }
  return result;
}

bool AddressRegisters::touches(uint16_t space, uint64_t address, unsigned width) const {
  return !parts.empty() && !touched(space, address, width).empty();
}

llvm::Error AddressRegisters::look(TapeSource &source, uint64_t first, uint64_t count) {
  uint64_t total = source.reader().summary().packets;
  ahead.clear();
  if (first >= total)
    return llvm::Error::success();
  return source.reader().readPackets(first, std::min(count, total - first), ahead);
}

/// A register that is an address of the host in one direction and of the device in the other: what the
/// device is told next decides.
llvm::Expected<bool> AddressRegisters::isHost(TapeSource &source, uint64_t ordinal, unsigned slot,
                                              uint16_t device) {
  constexpr uint64_t lookAhead = 256;
  const Slot &here = slots[slot];
  if (!here.mayBeDevice || !here.mayBeHost)
    return here.mayBeHost;
  if (llvm::Error error = look(source, ordinal, lookAhead))
    return error;
  for (const Packet &packet : ahead.packets) {
    if (packet.kind != PacketKind::RegisterWrite || packet.device != device || packet.space >= spaces.size())
      continue;
    for (const ActivityDescription &activity : description->activities) {
      const RegisterDescription &reg = description->registers[activity.starts.reg];
      if (reg.space != spaces[packet.space] || reg.offset != packet.address ||
          !activity.starts.holds(packet.value))
        continue;
      for (const TransferDescription &transfer : activity.transfers)
        if (transfer.when.holds(packet.value) &&
            (transfer.hostAddress == here.low || transfer.deviceAddress == here.low))
          return transfer.hostAddress == here.low;
    }
  }
  return true; // Never used: what is mapped is taken for an address of the host.
}

/// The address as it will be once the half that is written next has come.
llvm::Expected<uint64_t> AddressRegisters::completed(TapeSource &source, uint64_t ordinal,
                                                     const Packet &packet, const Touched &part,
                                                     uint64_t present, bool *final) {
  constexpr uint64_t lookAhead = 64;
  *final = true;
  uint64_t open = ~part.mask;
  if (!slots[part.slot].high && part.mask == ~uint64_t(0))
    return present;
  if (llvm::Error error = look(source, ordinal + 1, lookAhead))
    return error;
  for (const Packet &next : ahead.packets) {
    if (next.kind != PacketKind::RegisterWrite || next.device != packet.device)
      continue;
    for (const Touched &other : touched(next.space, next.address, next.width)) {
      if (other.slot != part.slot)
        continue;
      if (!(other.mask & open))
        return present; // Written anew: what came before was complete.
      *final = false;
      present = (present & ~other.mask) | other.toAddress(next.value);
      open &= ~other.mask;
    }
    // Told to do something with it: no half can come any more.
    if (description && llvm::any_of(description->queues, [&](const QueueDescription &queue) {
          const RegisterDescription &bell = description->registers[queue.doorbell];
          return next.space < spaces.size() && bell.space == spaces[next.space] &&
                 bell.offset == next.address;
        }))
      break;
  }
  return present;
}

llvm::Expected<uint64_t> AddressRegisters::write(TapeSource &source, const AddressMap &map, uint64_t ordinal,
                                                 const Packet &packet, llvm::SmallVectorImpl<Extra> &before) {
  uint64_t value = packet.value;
  for (const Touched &part : touched(packet.space, packet.address, packet.width)) {
    Slot &slot = slots[part.slot];
    slot.recorded = (slot.recorded & ~part.mask) | part.toAddress(packet.value);
    uint64_t wanted = slot.recorded;
    slot.translated = false;
    if (map.moves()) {
      llvm::Expected<bool> host = isHost(source, ordinal, part.slot, packet.device);
      if (!host)
        return host.takeError();
      bool final = true;
      if (*host) {
        llvm::Expected<uint64_t> whole = completed(source, ordinal, packet, part, slot.recorded, &final);
        if (!whole)
          return whole.takeError();
        if (llvm::Error error = map.check(*whole))
          return error;
        wanted = map.toPlaced(*whole);
        slot.translated = true;
      }
      // The other half, if it must be another by now and the tape does not write it.
      uint64_t wrong = (slot.issued ^ wanted) & ~part.mask;
      for (const Part &other : parts) {
        uint64_t bits = widthMask(other.width) << other.shift;
        if (!final || other.slot != part.slot || other.space != packet.space || !(wrong & bits))
          continue;
        before.push_back({other.reg, (wanted & bits) >> other.shift});
        slot.issued = (slot.issued & ~bits) | (wanted & bits);
        ++rewritten;
      }
    }
    slot.issued = (slot.issued & ~part.mask) | (wanted & part.mask);
    uint64_t changed = (value & ~part.toValue(~uint64_t(0))) | part.toValue(wanted);
    rewritten += changed != value;
    value = changed;
  }
  return value;
}

void AddressRegisters::note(const Packet &packet) {
  for (const Touched &part : touched(packet.space, packet.address, packet.width)) {
    Slot &slot = slots[part.slot];
    uint64_t bits = part.toAddress(packet.value);
    // What write() has changed is issued already.
    if ((slot.recorded & part.mask) == bits && slot.translated)
      continue;
    slot.recorded = (slot.recorded & ~part.mask) | bits;
    slot.issued = (slot.issued & ~part.mask) | bits;
  }
}

uint64_t AddressRegisters::recorded(const AddressMap &map, unsigned reg, uint64_t value) const {
  auto part = llvm::find_if(parts, [&](const Part &one) { return one.reg == reg; });
  if (!map.moves() || part == parts.end())
    return value;
  const Slot &slot = slots[part->slot];
  uint64_t bits = widthMask(part->width) << part->shift;
  if (!slot.translated && !slot.readOnly)
    return value;
  uint64_t told = (slot.issued & ~bits) | ((value << part->shift) & bits);
  std::optional<uint64_t> meant = map.toRecorded(told);
  return meant ? (*meant & bits) >> part->shift : value;
}

/// Of a register that only the device writes: what the tape reads of the other half nearby.
llvm::Expected<uint64_t> AddressRegisters::otherHalf(TapeSource &source, uint64_t ordinal,
                                                     const Packet &packet, const Touched &part,
                                                     uint64_t present) {
  constexpr uint64_t distance = 16;
  uint64_t first = ordinal > distance ? ordinal - distance : 0;
  if (llvm::Error error = look(source, first, 2 * distance + 1))
    return error;
  uint64_t best = ~uint64_t(0);
  for (size_t i = 0; i < ahead.packets.size(); ++i) {
    const Packet &other = ahead.packets[i];
    if (other.kind != PacketKind::RegisterRead || other.device != packet.device)
      continue;
    uint64_t at = ahead.firstOrdinal + i, away = at > ordinal ? at - ordinal : ordinal - at;
    for (const Touched &half : touched(other.space, other.address, other.width))
      if (half.slot == part.slot && !(half.mask & part.mask) && away < best) {
        best = away;
        present = (present & ~half.mask) | half.toAddress(other.value);
      }
  }
  return present;
}

llvm::Expected<uint64_t> AddressRegisters::read(TapeSource &source, const AddressMap &map, uint64_t ordinal,
                                                const Packet &packet, uint64_t actual) {
  uint64_t value = actual;
  if (!map.moves())
    return value;
  for (const Touched &part : touched(packet.space, packet.address, packet.width)) {
    Slot &slot = slots[part.slot];
    if (!slot.mayBeHost || (!slot.readOnly && !slot.translated))
      continue;
    uint64_t whole = slot.readOnly ? 0 : slot.recorded;
    if (slot.readOnly) {
      llvm::Expected<uint64_t> other = otherHalf(source, ordinal, packet, part, 0);
      if (!other)
        return other.takeError();
      whole = *other;
    }
    // As the device answered: it may not keep all bits that were written.
    whole = (whole & ~part.mask) | part.toAddress(packet.value);
    uint64_t told = part.toAddress(actual);
    uint64_t meant = part.toAddress(packet.value);
    // What only the device writes may be an address or, for other errors, a number that looks like one.
    bool same = map.agree(whole, told, part.mask) || (slot.readOnly && told == meant);
    if (!same) {
      uint64_t placed = (map.toPlaced(whole) & ~part.mask) | told;
      std::optional<uint64_t> recorded = map.toRecorded(placed);
      // Somewhere else than it should be. Never the recorded value: it differs.
      meant = recorded && ((*recorded ^ whole) & part.mask)
                  ? *recorded & part.mask
                  : (whole ^ map.toPlaced(whole) ^ told) & part.mask;
    }
    value = (value & ~part.toValue(~uint64_t(0))) | part.toValue(meant);
  }
  return value;
}

llvm::Expected<uint64_t>
AddressRegisters::restore(TapeSource &source, const AddressMap &map, uint64_t firstPacket, unsigned reg,
                          uint64_t value, llvm::function_ref<std::optional<uint64_t>(unsigned reg)> valueOf) {
  auto part = llvm::find_if(parts, [&](const Part &one) { return one.reg == reg; });
  if (part == parts.end())
    return value;
  Slot &slot = slots[part->slot];
  unsigned shift = 8 * description->registers[slot.low].width;
  uint64_t whole = valueOf(slot.low).value_or(0);
  if (slot.high)
    whole |= valueOf(*slot.high).value_or(0) << shift;
  slot.recorded = whole;
  slot.translated = false;
  if (map.moves()) {
    llvm::Expected<bool> host = isHost(source, firstPacket, part->slot, 0);
    if (!host)
      return host.takeError();
    if (*host) {
      whole = map.toPlaced(whole);
      slot.translated = true;
    }
  }
  uint64_t bits = widthMask(part->width) << part->shift;
  slot.issued = (slot.issued & ~bits) | (whole & bits);
  return (whole & bits) >> part->shift;
}

} // namespace tapeback
