#include "recorder/ring/RingProducer.h"
#include "recorder/ring/Futex.h"
#include <csignal>
#include <cstring>
#include <fcntl.h>

namespace tapeback::ring {

uint64_t Producer::now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
}

void Producer::openLimit(LaneWriter &writer) {
  if (fences || !counterStamps || writer.shared || writer.groups || writer.dropped)
    return;
  uint64_t all = writer.mask + 1;
  const uint64_t free = writer.tailSeen + all - (dropWhenFull ? all / 8 : 0);
  writer.limit.store(free < writer.touched ? free : writer.touched, std::memory_order_seq_cst);
  if (!recording()) // Stopped in between: either stop() was later, or we see it.
    writer.limit.store(0, std::memory_order_relaxed);
}

void Producer::lockShared(LaneWriter &writer) {
  if (writer.shared)
    pthread_mutex_lock(&sharedLock);
}
void Producer::unlockShared(LaneWriter &writer) {
  if (writer.shared)
    pthread_mutex_unlock(&sharedLock);
}

LaneWriter *Producer::enter() {
  LaneWriter *own = recording() ? writer() : nullptr;
  if (!own)
    return nullptr;
  lockShared(*own);
  own->limit.store(0, std::memory_order_relaxed);
  if (own->groups++ == 0)
    begin(*own);
  return own;
}

void Producer::leave(LaneWriter *own) {
  if (--own->groups == 0)
    own->joined = 0;
  end(*own);
  unlockShared(*own);
}

void Producer::countUnrecorded() {
  if (header)
    header->unrecorded.fetch_add(1, std::memory_order_relaxed);
}

/// The collector holds a lock on the file that the kernel drops when it dies, whatever becomes of its process
/// id.
bool Producer::collectorAlive() const {
  if (header->collectorState.load(std::memory_order_acquire) != uint32_t(CollectorState::Running))
    return false;
  if (!ringPath[0])
    return true;
  // Opened anew each time: a program may close descriptors that it does not know, and reuse their numbers.
  int fd = open(ringPath, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return errno != ENOENT && kill(pid_t(header->collectorPid), 0) == 0;
  struct flock query = {};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;
  int result = fcntl(fd, F_OFD_GETLK, &query);
  close(fd);
  return result != 0 || query.l_type != F_UNLCK;
}

/// Looks at the collector's position if need be.
bool Producer::roomFor(LaneWriter &writer, uint64_t slots) const {
  uint64_t all = writer.mask + 1, used = writer.head - writer.tailSeen;
  if (used <= all && all - used >= slots)
    return true;
  writer.tailSeen = writer.lane->tail.load(std::memory_order_seq_cst);
  used = writer.head - writer.tailSeen;
  return used <= all && all - used >= slots;
}

/// `dataWanted` is not 0.
void Producer::wakeCollector(LaneWriter &writer) {
  if (header->dataWanted.load(std::memory_order_relaxed) == WantsMuch) {
    writer.tailSeen = writer.lane->tail.load(std::memory_order_acquire);
    writer.wakeAt = writer.tailSeen + (writer.mask + 1) / 4;
    if (writer.head < writer.wakeAt)
      return;
  }
  if (header->dataWanted.exchange(0))
    futexWakeAll(header->dataWanted);
}

/// False: the collector is dead or the ring destroyed; nothing more will be recorded.
bool Producer::waitForSpace(LaneWriter &writer, uint64_t slots) {
  if (writer.head + slots > writer.touched) [[unlikely]]
    touchAhead(writer, slots);
  if (roomFor(writer, slots))
    return true;
  unsigned repairs = 0;
  uint64_t repairsBegan = 0;
  Lane &lane = *writer.lane;
  bool found = true;
  // Nothing of ours holds others up meanwhile, but a group that is begun: it comes out in parts.
  lane.busy.store(writer.groups ? BusyWaiting : BusyNot, publishOrder);
  while (!roomFor(writer, slots)) {
    if (writer.head - lane.tail.load(std::memory_order_acquire) > writer.mask + 1) {
      // The program wrote over the positions. Told ours again, the collector counts a loss and comes to it:
      // in its time, which on a busy machine is long, and waking us for each piece of what it skips.
      constexpr uint64_t patienceNs = 10'000'000'000;
      if (repairs++ == 0)
        repairsBegan = now();
      if (repairs > 100 && now() - repairsBegan > patienceNs) {
        found = false;
        break;
      }
      lane.head.store(writer.head, std::memory_order_seq_cst);
    }
    lane.spaceWanted.store(1, std::memory_order_seq_cst);
    if (roomFor(writer, slots))
      break;
    if (header->dataWanted.exchange(0)) // However little it thinks there is.
      futexWakeAll(header->dataWanted);
    uint64_t before = lane.tail.load(std::memory_order_acquire);
    futexWait(lane.spaceWanted, 1, 100);
    if (lane.tail.load(std::memory_order_acquire) == before && !collectorAlive()) {
      found = false;
      break;
    }
  }
  if (!found)
    stop();
  if (writer.groups)
    begin(writer);
  return found;
}

/// With DropWhenFull, before an operation or event of so many slots: true if it is not recorded, but counted.
bool Producer::drops(LaneWriter &writer, uint64_t slots) {
  // Some is kept for completions, which always wait: their operations are in the ring already, and they are
  // few.
  if (!roomFor(writer, slots + (writer.mask + 1) / 8)) {
    ++writer.dropped;
    writer.limit.store(0, std::memory_order_relaxed);
    return true;
  }
  if (writer.dropped) {
    Record record = {};
    record.type = RecordType::Dropped;
    record.value = writer.dropped;
    if (putFrame(writer, record, 0, nullptr, 0, 0))
      writer.dropped = 0;
  }
  return false;
}

/// Returns its name; 0 if the collector is gone.
uint64_t Producer::putFrame(LaneWriter &writer, const Record &record, uint8_t addedFlags, const void *payload,
                            uint64_t bytes, uint64_t total) {
  bool extended =
      record.type != RecordType::Chunk &&
      ((record.mask | record.expected | record.deadline | record.length | record.link | record.count) != 0 ||
       total != bytes || record.type == RecordType::Complete);
  uint64_t size = 1 + uint64_t(extended) + slotsFor(bytes), index = writer.head & writer.mask,
           toEnd = writer.mask + 1 - index;
  const uint64_t needed = size <= toEnd ? size : toEnd + size;
  // What the short way of register accesses was opened up to is known to be free.
  if (writer.head + needed > writer.limit.load(std::memory_order_relaxed)) {
    if (!waitForSpace(writer, needed))
      return 0;
    openLimit(writer);
  }
  begin(writer);
  if (size > toEnd) {
    Slot &pad = writer.slots[index];
    pad.type = RecordType::Pad;
    pad.slots = uint16_t(toEnd);
    pad.hints = 0;
    pad.state.store(SlotState::Completed, std::memory_order_relaxed);
    writer.head += toEnd;
    index = 0;
  }
  Slot &slot = writer.slots[index];
  // Stamped after waiting for space: the time in the ring is not the device's.
  uint64_t time = record.time ? record.time : stamp();
  slot.issue = record.type == RecordType::Complete ? 0 : time;
  slot.complete = record.type == RecordType::Issue ? 0 : time;
  slot.address = record.address;
  slot.value = record.value;
  // Word by word: see Access.
  auto put = [&slot](size_t offset, uint64_t word) {
    memcpy(reinterpret_cast<char *>(&slot) + offset, &word, sizeof(word));
  };
  put(offsetof(Slot, payloadBytes), bytes | size << 32 | uint64_t(record.device) << 48);
  put(offsetof(Slot, space), uint64_t(record.space) | uint64_t(record.thread) << 16 |
                                 uint64_t(record.type) << 32 | uint64_t(record.kind) << 40 |
                                 uint64_t(record.width) << 48 | uint64_t(record.flags | addedFlags) << 56);
  const unsigned hints =
      (record.hints & SamePayload) | (extended ? unsigned(HasExtension) : 0u) | writer.joined;
  put(offsetof(Slot, completion), uint64_t(record.completion) | uint64_t(record.origin) << 8 |
                                      uint64_t(hints) << 16 | uint64_t(SlotState::Completed) << 32);
  slot.spare = 0;
  if (extended) {
    uint64_t link = record.type == RecordType::Complete ? record.sequence : record.link;
    Extension extension = {record.mask, record.expected, record.deadline, record.length,
                           link,        record.count,    total,           0};
    memcpy(static_cast<void *>(&writer.slots[index + 1]), &extension, sizeof(extension));
  }
  if (bytes)
    memcpy(static_cast<void *>(&writer.slots[index + 1 + extended]), payload, bytes);
  uint64_t name = nameOf(writer.index, writer.head);
  uint8_t joined = writer.joined;
  publish(writer, size);
  if (record.type == RecordType::Chunk)
    writer.joined = joined; // It is a part of what follows, which may be the group's first.
  fetchAhead(writer.slots, writer.head, writer.mask);
  end(writer);
  wakeIfWanted(writer);
  return name;
}

uint64_t Producer::append(const Record &record, const void *payload, uint64_t bytes) {
  LaneWriter *own = recording() ? writer() : nullptr;
  if (!own)
    return 0;
  lockShared(*own);
  uint64_t name = recording() ? appendTo(*own, record, payload, bytes) : 0;
  unlockShared(*own);
  return name;
}

uint64_t Producer::appendTo(LaneWriter &writer, const Record &record, const void *payload, uint64_t bytes) {
  uint8_t addedFlags = 0;
  uint64_t most = isCaptured(record) ? limit : maxPayloadBytes(limit);
  if (bytes > most) {
    bytes = most;
    addedFlags = Truncated;
  }
  bool mayDrop = record.type == RecordType::Issue || record.type == RecordType::Event;
  if (dropWhenFull && mayDrop && drops(writer, 2 + slotsFor(bytes)))
    return 0;
  uint64_t total = bytes;
  const auto *rest = static_cast<const uint8_t *>(payload);
  for (; bytes > chunkBytes; bytes -= chunkBytes, rest += chunkBytes) {
    Record chunk = {};
    chunk.type = RecordType::Chunk;
    chunk.thread = record.thread;
    chunk.address = total - bytes;
    chunk.value = total;
    if (!putFrame(writer, chunk, 0, rest, chunkBytes, total))
      return 0;
  }
  uint64_t name = putFrame(writer, record, addedFlags, rest, bytes, total);
  return name && record.type == RecordType::Complete ? record.sequence : name;
}

static Record recordOf(const Access &access) {
  Record record = {};
  record.address = access.address;
  record.value = access.value;
  record.device = uint16_t(access.sizes >> 48);
  record.space = uint16_t(access.what);
  record.thread = uint16_t(access.what >> 16);
  record.kind = uint8_t(access.kind());
  record.width = uint8_t(access.what >> 48);
  record.origin = access.origin;
  return record;
}

uint64_t Producer::appendElsewhere(const Access &event, const void *payload, uint64_t bytes) {
  Record record = recordOf(event);
  record.type = RecordType::Event;
  return append(record, payload, bytes);
}

/// All but the short way: no lane of its own, perhaps no room, a group, a clock or a fence that costs anyway.
IssuedAccess Producer::issueElsewhere(LaneWriter *own, const Access &access) {
  if (!own || !recording())
    return {};
  if (own->shared) {
    Record issue = recordOf(access);
    issue.type = RecordType::Issue;
    return {append(issue), nullptr, nullptr};
  }
  if ((dropWhenFull && drops(*own, 1)) || !waitForSpace(*own, 1))
    return {};
  Slot &slot = own->slots[own->head & own->mask];
  fetchAhead(own->slots, own->head, own->mask);
  begin(*own);
  slot.issue = stamp();
  fillIn(slot, access, uint8_t(CompletesInPlace | own->joined));
  publish(*own, 1);
  end(*own);
  wakeIfWanted(*own);
  openLimit(*own);
  return {own->names + own->head, &slot, own};
}

void Producer::completeElsewhere(const IssuedAccess &underway, const Access &access, Completion completion,
                                 uint64_t value) {
  if (!underway.name)
    return;
  if (!underway.slot) {
    Record record = recordOf(access);
    record.type = RecordType::Complete;
    if (access.kind() != PacketKind::RegisterWrite)
      record.value = value;
    record.completion = uint8_t(completion);
    record.sequence = underway.name;
    append(record);
    return;
  }
  Slot &slot = *underway.slot;
  LaneWriter &own = *underway.writer;
  begin(own);
  slot.complete = stamp();
  if (access.kind() != PacketKind::RegisterWrite)
    slot.value = value;
  slot.completion = uint8_t(completion);
  slot.state.store(SlotState::Completed, publishOrder);
  own.joined = own.groups ? uint8_t(Joined) : uint8_t(0); // What follows in the group follows on this.
  end(own);
}

} // namespace tapeback::ring
