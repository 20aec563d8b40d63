// Register accesses in bulk: what most packets are. A run of them becomes packets without a stop at each:
// checked by shape (AccessKeys), applied to the shadow state by key, and appended together. What is not that
// plain goes the way of every other record, and the tape is the same either way.
#include "recorder/Collector.h"
#include "recorder/CollectorParts.h"
#include <algorithm>

using namespace llvm;

namespace tapeback {

/// Whether accesses may be taken without their issue being looked at apart from their completion.
bool Collector::takesRuns() const {
  return phase == Phase::Recording && underway.empty() && held.empty();
}

void Collector::acceptAccesses(ArrayRef<ring::SlotCopy> accesses, uint64_t firstName, bool concurrent) {
  while (!accesses.empty()) {
    size_t taken = takesRuns() ? takeRun(accesses, firstName, concurrent) : 0;
    if (!taken) {
      acceptOne(accesses.front(), firstName, concurrent);
      taken = 1;
    }
    accesses = accesses.drop_front(taken);
    firstName += taken;
  }
}

/// As two records, the issue and the completion.
void Collector::acceptOne(const ring::SlotCopy &access, uint64_t name, bool concurrent) {
  ring::Record record = {};
  record.type = ring::RecordType::Issue;
  record.kind = access.kind;
  record.width = access.width;
  record.flags = access.flags;
  record.sequence = name;
  record.time = access.issue;
  record.address = access.address;
  record.value = access.value;
  record.device = access.device;
  record.thread = access.thread;
  record.space = access.space;
  record.origin = access.origin;
  record.completion = access.completion;
  accept(record, {});
  record.type = ring::RecordType::Complete;
  record.time = access.complete;
  ring::Others others;
  if (concurrent)
    others.from = 0;
  accept(record, {}, others);
}

void Collector::forgetAccessKeys() {
  keys.clear();
  for (Device *device : byNumber)
    device->shadow->forgetAccessKeys();
  keysGeneration = options.observer ? options.observer->filterGeneration() : 0;
}

/// Looks such accesses up for the first time. False if they cannot be taken in runs, for want of room or
/// because they make no sense.
bool Collector::addAccessKey(const ring::SlotCopy &access) {
  Device *device = opened(access.device);
  const bool width = access.width == 1 || access.width == 2 || access.width == 4 || access.width == 8;
  if (keys.full() || !width || !device || access.space == 0 || access.space > device->spaces.size() ||
      !useSpace(*device, access.space))
    return false;
  AccessKeys::Row row;
  row.address = access.address;
  row.device = access.device;
  row.space = access.space;
  row.width = access.width;
  row.tapeDevice = device->number;
  row.tapeShape = AccessKeys::Row::shapeOf(device->spaces[access.space - 1], access.width);
  std::optional<uint32_t> key = device->shadow->accessKey(row.tapeSpace(), row.address, row.width);
  row.plain = key.has_value();
  row.shadowKey = key.value_or(0);
  if (options.observer) {
    Packet packet;
    packet.device = row.tapeDevice;
    packet.space = row.tapeSpace();
    packet.address = row.address;
    packet.width = row.width;
    packet.kind = PacketKind::RegisterRead;
    row.reads = options.observer->filterOf(packet);
    packet.kind = PacketKind::RegisterWrite;
    row.writes = options.observer->filterOf(packet);
  }
  keys.add(row);
  return true;
}

static bool isPlain(const ring::SlotCopy &access) {
  return access.kind <= uint8_t(PacketKind::RegisterWrite) && access.flags == 0 &&
         access.completion == uint8_t(Completion::Done) && access.origin == uint8_t(Origin::Program);
}
static_assert(uint8_t(PacketKind::RegisterRead) == 0 && uint8_t(PacketKind::RegisterWrite) == 1);

/// Makes packets of accesses of one device from the front. The last of them is `special` if it may be more
/// than a register's value to the shadow state or the observer, whatever its value.
size_t Collector::makeRun(ArrayRef<ring::SlotCopy> accesses, bool concurrent, bool &special) {
  const uint8_t flags = concurrent ? uint8_t(Concurrent) : uint8_t(0);
  special = false;
  size_t count = 0;
  for (const ring::SlotCopy &access : accesses.take_front(runLength)) {
    if (!isPlain(access))
      break;
    const AccessKeys::Row *row = keys.find(access);
    if (!row) {
      // A new shape may bring a new space, and with it new keys.
      if (count || !addAccessKey(access))
        break;
      row = keys.find(access);
    }
    if (count && row->tapeDevice != run[0].device)
      break;
    Packet &packet = run[count];
    row->make(packet, access, flags);
    runKeys[count++] = row->shadowKey;
    const triggers::KeyFilter *filter = access.kind ? row->writes : row->reads;
    special = !row->plain || (filter && filter->passes(packet.value));
    if (special)
      break;
  }
  return count;
}

/// Takes accesses from the front, and returns how many; 0 if the first has to go the way of every record.
/// Those that are more than a register's value (for the shadow state, the observer or the stop condition) are
/// put one by one.
size_t Collector::takeRun(ArrayRef<ring::SlotCopy> accesses, uint64_t firstName, bool concurrent) {
  if (options.observer && keysGeneration != options.observer->filterGeneration())
    forgetAccessKeys();
  bool special = false;
  const size_t count = makeRun(accesses, concurrent, special);
  const ArrayRef<Packet> packets(run.data(), count);
  const ArrayRef<uint32_t> ofPackets(runKeys.data(), count);
  const bool stops = options.stop && options.stop->mayMatch(PacketKind::RegisterWrite);
  size_t done = 0;
  while (done < count && takesRuns()) {
    Device &device = *byNumber[packets[done].device];
    present = std::max(present, packets[done].completeTime);
    if (!device.keyframeDue && !stops) {
      flushLoss();
      endDueWindow();
      const size_t most = count - special - done;
      const size_t plain = device.shadow->applyPlain(writer.packetCount(), packets.slice(done, most),
                                                     ofPackets.slice(done, most));
      putRun(packets.slice(done, plain), firstName + done);
      done += plain;
    }
    if (done == count || !takesRuns())
      break;
    Item item;
    item.ring.packet = packets[done];
    item.sequence = firstName + done;
    present = std::max(present, item.ring.packet.completeTime);
    put(item);
    lastWasMemoryWrite = false;
    ++done;
  }
  return done;
}

/// Packets that are nothing but what they say: the shadow state knows them.
void Collector::putRun(ArrayRef<Packet> packets, uint64_t firstName) {
  if (packets.empty())
    return;
  for (const Packet &packet : packets)
    present = std::max(present, packet.completeTime);
  const uint64_t ordinal = writer.packetCount();
  if (!facts.writeFailure)
    wrote(writer.append(packets));
  const uint64_t written = writer.packetCount() - ordinal;
  facts.diskErrors += packets.size() - std::min<uint64_t>(written, packets.size());
  ordinals.addRun(firstName, ordinal, packets);
  lastWasMemoryWrite = false;
  if (!options.observer)
    return;
  options.observer->passed(ordinal, packets);
  // A deadline that was over.
  if (const ObserverWishes *wishes = options.observer->takeWishes(); wishes && writer.packetCount())
    carryOut(writer.packetCount() - 1, *wishes);
}

} // namespace tapeback
