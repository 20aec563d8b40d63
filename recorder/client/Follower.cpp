#include "recorder/client/Follower.h"
#include "recorder/client/Device.h"
#include <cstring>

namespace tapeback::client {

static constexpr uint32_t noSpace = ~uint32_t(0);

static uint64_t onesOf(uint32_t bytes) {
  return bytes >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * bytes)) - 1;
}
/// `value` moved up by `shift` bits (down if negative); |shift| < 64.
static uint64_t moved(uint64_t value, int shift) {
  return shift >= 0 ? value << shift : value >> -shift;
}

bool Follower::attach(const capture::Table *newTable, const capture::Device *newDevice,
                      const tb_device &owner) {
  table = newTable;
  device = newDevice;
  tableSpaces.clear();
  values.clear();
  active.clear();
  if (!queues.attach(table, device))
    return false;
  tracked.attach(device && device->handOver != capture::HandOver::AsDescribed);
  if (!device)
    return true;
  const auto *names = capture::elements<capture::Name>(table, table->spaces);
  for (const DeviceSpace &space : owner.spaces) {
    uint32_t found = noSpace;
    for (uint32_t i = 0; i < table->spaces.count && found == noSpace; ++i)
      if (strcmp(names[i].text, space.name) == 0)
        found = i;
    if (!tableSpaces.push(found))
      return false;
  }
  for (uint32_t i = 0; i < device->registers.count; ++i)
    if (!values.push(0))
      return false;
  reset();
  return true;
}

void Follower::reset() {
  active.clear();
  queues.reset();
  if (!device)
    return;
  const auto *registers =
      capture::elements<capture::Register>(table, table->registers) + device->registers.first;
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = registers[i].reset;
}

template <typename Visit>
void Follower::overlapping(uint32_t space, uint64_t offset, uint32_t width, Visit visit) const {
  if (!device || space >= tableSpaces.size() || tableSpaces[space] == noSpace)
    return;
  uint32_t wanted = tableSpaces[space];
  const auto *registers =
      capture::elements<capture::Register>(table, table->registers) + device->registers.first;
  // The first register that could reach into the access: none is wider than 8 bytes.
  uint64_t from = offset < 7 ? 0 : offset - 7;
  uint32_t low = 0, high = device->registers.count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const capture::Register &reg = registers[middle];
    if (reg.space < wanted || (reg.space == wanted && reg.offset < from))
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < device->registers.count; ++low) {
    const capture::Register &reg = registers[low];
    if (reg.space != wanted || (reg.offset >= offset && reg.offset - offset >= width))
      return;
    if (reg.offset < offset && offset - reg.offset >= reg.width)
      continue;
    int shift = reg.offset <= offset ? int(offset - reg.offset) * 8 : -int(reg.offset - offset) * 8;
    visit(reg, low, shift);
  }
}

void Follower::beforeWrite(tb_device &owner, uint32_t space, uint64_t offset, uint32_t width,
                           uint64_t value) {
  bool handsOver = tracked.present() && device->handOver == capture::HandOver::AnyWrite;
  // All bytes first: a start may refer to another register that the same access writes.
  overlapping(space, offset, width, [&](const capture::Register &reg, uint32_t index, int shift) {
    uint64_t written = moved(onesOf(width), shift) & onesOf(reg.width);
    values[index] = (values[index] & ~written) | (moved(value & onesOf(width), shift) & written);
  });
  overlapping(space, offset, width, [&](const capture::Register &reg, uint32_t index, int shift) {
    uint64_t written = moved(onesOf(width), shift) & onesOf(reg.width);
    const auto *conditions =
        capture::elements<capture::Condition>(table, table->conditions) + reg.starts.first;
    for (uint32_t i = 0; i < reg.starts.count; ++i)
      if (conditions[i].holds(values[index]) && (conditions[i].any || (conditions[i].mask & written)))
        start(owner, conditions[i].activity, values[index]);
    if (queues.present())
      queuesWritten(owner, reg);
    const auto *all = capture::elements<capture::Condition>(table, table->conditions);
    for (uint32_t i = 0; i < reg.handsOver.count; ++i) {
      const capture::Condition &condition = all[reg.handsOver.first + i];
      handsOver |= condition.holds(values[index]) && (condition.any || (condition.mask & written));
    }
    const auto *resets = all + reg.resets.first;
    for (uint32_t i = 0; i < reg.resets.count; ++i)
      if ((resets[i].any || (resets[i].mask & written)) && resets[i].holds(values[index]))
        reset();
  });
  if (handsOver && tracked.present())
    tracked.handOver(owner);
}

uint64_t Follower::valueOf(uint32_t reg) const {
  // Other devices' registers are none of ours.
  return reg >= device->registers.first && reg - device->registers.first < values.size()
             ? values[reg - device->registers.first]
             : 0;
}

uint64_t Follower::baseOf(const capture::Place &place) const {
  const auto *registers = capture::elements<capture::Register>(table, table->registers);
  uint64_t base = valueOf(place.base);
  if (place.baseHigh != capture::none && registers[place.base].width < 8)
    base |= valueOf(place.baseHigh) << (8 * registers[place.base].width);
  return base;
}

uint64_t Follower::sizeOf(const capture::Place &place) const {
  uint64_t value = valueOf(place.size) >> place.sizeLow;
  return (place.sizeBits >= 64 ? value : value & ((uint64_t(1) << place.sizeBits) - 1)) + place.sizePlus;
}

void Follower::queuesWritten(tb_device &owner, const capture::Register &reg) {
  const auto *roles = capture::elements<capture::Role>(table, table->roles) + reg.roles.first;
  const auto *rings = capture::elements<capture::Completions>(table, table->rings);
  for (uint32_t i = 0; i < reg.roles.count; ++i) {
    if (roles[i].kind == capture::Role::CompletionDoorbell) {
      queues.handedBack(owner, roles[i].queue, valueOf(rings[roles[i].queue].doorbell));
      continue;
    }
    if (roles[i].kind == capture::Role::Rewind) {
      queues.rewound(roles[i].queue);
    } else if (roles[i].kind == capture::Role::Doorbell) {
      // Before the first entry: from then on the device may write completions.
      for (uint32_t ring = device->rings.first; ring < device->rings.first + device->rings.count; ++ring)
        if (rings[ring].place.base != capture::none)
          queues.ringIsAt(owner, ring, baseOf(rings[ring].place), sizeOf(rings[ring].place));
      const capture::Queue &queue = capture::elements<capture::Queue>(table, table->queues)[roles[i].queue];
      if (queue.place.base != capture::none)
        queues.rung(owner, roles[i].queue, baseOf(queue.place), sizeOf(queue.place), valueOf(queue.doorbell));
      else
        queues.rungCreated(owner, roles[i].queue, valueOf(queue.doorbell));
    }
  }
}

void Follower::queuesRead(tb_device &owner, const capture::Register &reg, uint32_t index, uint64_t value) {
  const auto *roles = capture::elements<capture::Role>(table, table->roles) + reg.roles.first;
  const auto *described = capture::elements<capture::Queue>(table, table->queues);
  for (uint32_t i = 0; i < reg.roles.count; ++i) {
    switch (roles[i].kind) {
    case capture::Role::Head:
      if (described[roles[i].queue].place.size != capture::none)
        queues.sawHead(owner, roles[i].queue, sizeOf(described[roles[i].queue].place), value);
      break;
    case capture::Role::Done: queues.sawDone(owner, roles[i].queue, reg.width, value); break;
    case capture::Role::Config: values[index] = value; break; // What the device made of what was written.
    default: break;
    }
  }
  const auto *idle = capture::elements<capture::Condition>(table, table->conditions) + reg.idle.first;
  for (uint32_t i = 0; i < reg.idle.count; ++i)
    if (idle[i].holds(value)) {
      queues.sawIdle(owner);
      break;
    }
}

void Follower::start(tb_device &owner, uint32_t activityIndex, uint64_t value) {
  if (activityIndex == capture::none)
    return; // A hostile table.
  const capture::Activity &activity =
      capture::elements<capture::Activity>(table, table->activities)[activityIndex];
  const auto *transfers =
      capture::elements<capture::Transfer>(table, table->transfers) + activity.transfers.first;
  const auto *registers = capture::elements<capture::Register>(table, table->registers);
  for (uint32_t i = 0; i < activity.transfers.count; ++i) {
    const capture::Transfer &transfer = transfers[i];
    if (!transfer.when.holds(value))
      continue;
    ring::Record record = blankRecord(&owner, PacketKind::MemoryWrite);
    record.address = valueOf(transfer.host);
    if (transfer.hostHigh != capture::none && registers[transfer.host].width < 8)
      record.address |= valueOf(transfer.hostHigh) << (8 * registers[transfer.host].width);
    record.length = valueOf(transfer.count);
    // For transfers from the device as well: what the device fails to write, the program reads.
    eventWithMemory(&owner, record);
    record.kind = uint8_t(PacketKind::DmaDescriptor);
    record.value = valueOf(transfer.deviceSide);
    record.flags = transfer.toDevice ? TransferToDevice : TransferFromDevice;
    record.link = activity.index;
    record.hints = transfer.toDevice ? uint32_t(ring::SamePayload) : 0;
    uint64_t sequence = event(record);
    if (!sequence)
      continue;
    if (active.size() == maxActive)
      active.erase(0);
    // Without memory to remember it the transfer has no completion on the tape; its descriptor is there.
    (void)active.push({activityIndex, transfer.toDevice != 0, record.address, record.length, sequence});
  }
}

void Follower::complete(tb_device &owner, const Active &transfer) {
  ring::Record record = blankRecord(&owner, PacketKind::DmaCompletion);
  record.address = transfer.address;
  record.length = transfer.length;
  record.link = transfer.sequence;
  record.flags = transfer.toDevice ? TransferToDevice : TransferFromDevice;
  if (transfer.toDevice)
    event(record);
  else
    eventWithMemory(&owner, record);
}

void Follower::afterRead(tb_device &owner, uint32_t space, uint64_t offset, uint32_t width, uint64_t value) {
  if (active.size() == 0 && !queues.present())
    return;
  overlapping(space, offset, width, [&](const capture::Register &reg, uint32_t index, int shift) {
    uint64_t seen = moved(onesOf(width), shift) & onesOf(reg.width);
    uint64_t inPlace = moved(value & onesOf(width), shift) & seen;
    const auto *conditions = capture::elements<capture::Condition>(table, table->conditions) + reg.done.first;
    for (uint32_t i = 0; i < reg.done.count; ++i) {
      const capture::Condition &condition = conditions[i];
      if (!condition.any && ((condition.mask & onesOf(reg.width) & ~seen) || !condition.holds(inPlace)))
        continue;
      for (size_t at = 0; at < active.size();) {
        if (active[at].activity != condition.activity) {
          ++at;
          continue;
        }
        complete(owner, active[at]);
        active.erase(at);
      }
    }
    if (queues.present() && seen == onesOf(reg.width))
      queuesRead(owner, reg, index, inPlace);
  });
}

Follower::Look Follower::look(uint32_t space, uint64_t offset, uint32_t width, uint64_t value, uint64_t &mask,
                              uint64_t &expected) const {
  Look result = Look::Nothing;
  overlapping(space, offset, width, [&](const capture::Register &reg, uint32_t, int shift) {
    uint64_t seen = moved(onesOf(width), shift) & onesOf(reg.width);
    uint64_t inPlace = moved(value & onesOf(width), shift) & seen;
    const auto *conditions = capture::elements<capture::Condition>(table, table->conditions) + reg.done.first;
    for (uint32_t i = 0; i < reg.done.count; ++i) {
      const capture::Condition &condition = conditions[i];
      uint64_t wanted = condition.mask & onesOf(reg.width);
      if (condition.any || (wanted & ~seen))
        continue;
      if (result == Look::Nothing)
        result = Look::Waiting;
      if (result == Look::Waiting && condition.holds(inPlace)) {
        result = Look::Ended;
        mask = moved(wanted, -shift);
        expected = moved(condition.value, -shift);
      }
    }
  });
  return result;
}

void Follower::acquired(tb_device &owner, uint64_t iova, uint64_t length, const void *content) {
  for (size_t at = 0; at < active.size();) {
    const Active &transfer = active[at];
    bool covered = !transfer.toDevice && transfer.address >= iova && transfer.length <= length &&
                   transfer.address - iova <= length - transfer.length;
    if (!covered) {
      ++at;
      continue;
    }
    complete(owner, transfer);
    active.erase(at);
  }
  if (!content)
    return;
  tracked.learn(iova, content, length, length <= session().producer.captureLimit());
  if (!queues.present())
    return;
  queues.sawMemory(owner, iova, content, length);
  queues.acquired(owner, iova, length);
}

bool Follower::sawMemory(tb_device &owner, uint64_t iova, const void *content, uint64_t length) {
  tracked.learn(iova, content, length, length <= session().producer.captureLimit());
  return queues.present() && queues.sawMemory(owner, iova, content, length);
}
void Follower::mapped(tb_device &owner, const Region &region, uint64_t known) {
  queues.mapped(region.iova, region.size, known);
  tracked.mapped(owner, region, known);
}
void Follower::unmapped(const Region &region) {
  queues.unmapped(region.iova);
  tracked.unmapped(region);
}
void Follower::stored(uint64_t iova, const void *content, uint64_t length, bool captured) {
  tracked.learn(iova, content, length, captured);
  if (queues.present())
    queues.stored(iova, static_cast<const uint8_t *>(content), length, captured);
}
void Follower::published(tb_device &owner, uint64_t iova, uint64_t length) {
  const Region *region = findRegion(&owner, iova, length);
  const uint8_t *content = region && region->host ? region->host + (iova - region->iova) : nullptr;
  stored(iova, content, length, content && length <= session().producer.captureLimit());
}
void Follower::closed(const tb_device &owner) {
  tracked.closed(owner);
  (void)queues.attach(nullptr, nullptr); // Gives back the memory it used; cannot fail without a table.
}

} // namespace tapeback::client
