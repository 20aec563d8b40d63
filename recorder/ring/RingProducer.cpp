#include "recorder/ring/RingProducer.h"
#include "recorder/ring/Fence.h"
#include "recorder/ring/Futex.h"
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>

namespace tapeback::ring {

constinit thread_local ThreadLane threadLane = {0, nullptr};
static constinit std::atomic<uint64_t> attachments{0};

uint64_t Producer::now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
}

bool readLayout(const Header &header, uint64_t bytes, Layout &layout) {
  if (bytes < headerBytes || memcmp(header.magic, magic, sizeof(magic)) != 0 || header.version != version ||
      header.headerBytes != headerBytes)
    return false;
  layout = {header.tableOffset,  header.tableBytes,     header.lanesOffset,
            header.dataOffset,   header.firstLaneSlots, header.laneSlots,
            header.captureLimit, header.laneCount,      header.chunkBytes};
  auto legal = [](uint64_t slots) {
    return slots >= minLaneBytes / slotBytes && slots <= maxLaneBytes / slotBytes && !(slots & (slots - 1));
  };
  // Each part is bounded before they are added up.
  if (!legal(layout.firstLaneSlots) || !legal(layout.laneSlots) || layout.laneCount < 2 ||
      layout.laneCount > maxLanes || layout.dataOffset > bytes || layout.dataOffset % 4096 ||
      layout.slotsAt(layout.laneCount) > bytes)
    return false;
  return layout.tableOffset <= bytes && layout.tableBytes <= maxTableBytes &&
         layout.tableBytes <= bytes - layout.tableOffset && layout.tableOffset % 8 == 0 &&
         layout.lanesOffset <= bytes && layout.laneCount * sizeof(Lane) <= bytes - layout.lanesOffset &&
         layout.lanesOffset % alignof(Lane) == 0 && layout.captureLimit <= maxCaptureLimit &&
         layout.chunkBytes >= minChunkBytes && layout.chunkBytes <= maxChunkBytes &&
         layout.chunkBytes % slotBytes == 0 &&
         layout.chunkBytes <=
             (layout.firstLaneSlots < layout.laneSlots ? layout.firstLaneSlots : layout.laneSlots) *
                 slotBytes / 4;
}

Producer::Attach Producer::attach(const char *path) {
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0)
    return Attach::Failed;
  struct stat status;
  if (fstat(fd, &status) != 0) {
    close(fd);
    return Attach::Failed;
  }
  constexpr uint64_t mostBytes = maxTableBytes + maxLaneBytes * maxLanes + (1 << 20);
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || uint64_t(status.st_size) < headerBytes ||
      uint64_t(status.st_size) > mostBytes) {
    close(fd);
    return Attach::Foreign;
  }
  void *mapping =
      mmap(nullptr, size_t(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (mapping == MAP_FAILED)
    return Attach::Failed;
  Attach result = attachMapping(mapping, uint64_t(status.st_size), path);
  if (result != Attach::Attached)
    munmap(mapping, size_t(status.st_size));
  return result;
}

Producer::Attach Producer::attachMapping(void *mapping, uint64_t bytes, const char *path) {
  auto *candidate = static_cast<Header *>(mapping);
  auto *base = static_cast<uint8_t *>(mapping);
  Layout layout;
  if (!readLayout(*candidate, bytes, layout))
    return Attach::Foreign;
  if (path && strlen(path) >= sizeof(ringPath))
    return Attach::Foreign;
  // A copy: a program that writes over the ring must not lead us out of it afterwards.
  auto *copy = static_cast<capture::Table *>(malloc(layout.tableBytes ? layout.tableBytes : 1));
  if (!copy)
    return Attach::Failed;
  memcpy(copy, base + layout.tableOffset, layout.tableBytes);
  if (!capture::validTable(copy, layout.tableBytes)) {
    free(copy);
    return Attach::Foreign;
  }

  // One process at a time: its order is the tape's. A dead one's place may be taken.
  uint32_t self = uint32_t(getpid()), holder = 0;
  while (!candidate->producerPid.compare_exchange_strong(holder, self)) {
    if (holder == self)
      break;
    if (holder && (kill(pid_t(holder), 0) == 0 || errno != ESRCH)) {
      free(copy);
      return Attach::Busy;
    }
  }
  header = candidate;
  table = copy;
  limit = layout.captureLimit;
  chunkBytes = layout.chunkBytes;
  laneCount = layout.laneCount;
  dropWhenFull = candidate->flags & DropWhenFull;
  // The collector's fences reach us if it makes them and we ask for them.
  fences = !registerForFences() || (candidate->flags & FullFences);
  counterStamps = candidate->clock.source == StampSource::Counter;
  for (unsigned i = 0; i < laneCount; ++i) {
    LaneWriter &writer = *new (&writers[i]) LaneWriter;
    writer.lane = reinterpret_cast<Lane *>(base + layout.lanesOffset) + i;
    writer.slots = reinterpret_cast<Slot *>(base + layout.slotsAt(i));
    writer.mask = layout.slotsOf(i) - 1;
    writer.index = uint16_t(i);
    writer.names = nameOf(i, 0) - 1;
    writer.shared = i == laneCount - 1;
    writer.backed = writer.shared;
    // What a process before this one left, at whatever point it ended.
    writer.lane->owner.store(0);
    writer.lane->busy.store(0);
    writer.head = writer.lane->head.load();
    writer.tailSeen = writer.lane->tail.load();
  }
  candidate->producersSeen.fetch_add(1);
  if (path)
    strcpy(ringPath, path);
  else
    ringPath[0] = 0;
  attachment = attachments.fetch_add(1) + 1;
  live.store(candidate->collectorState.load() == uint32_t(CollectorState::Running),
             std::memory_order_release);
  return Attach::Attached;
}

/// Any thread: what others have begun they finish.
void Producer::stop() {
  live.store(false, std::memory_order_seq_cst);
  for (LaneWriter &writer : writers)
    writer.limit.store(0, std::memory_order_seq_cst);
}

void Producer::openLimit(LaneWriter &writer) {
  if (fences || !counterStamps || writer.shared || writer.groups || writer.dropped)
    return;
  uint64_t all = writer.mask + 1;
  writer.limit.store(writer.tailSeen + all - (dropWhenFull ? all / 8 : 0), std::memory_order_seq_cst);
  if (!recording()) // Stopped in between: either stop() was later, or we see it.
    writer.limit.store(0, std::memory_order_relaxed);
}

void Producer::detach() {
  if (!header)
    return;
  stop();
  uint32_t self = uint32_t(getpid());
  header->producerPid.compare_exchange_strong(self, 0);
}

void Producer::release() {
  detach();
  free(const_cast<capture::Table *>(table));
  table = nullptr;
  header = nullptr;
  attachment = 0;
}

void Producer::threadEnds() {
  if (!attachment || threadLane.attachment != attachment)
    return;
  LaneWriter *own = threadLane.writer;
  threadLane = {0, nullptr};
  if (!own->shared)
    own->lane->owner.store(0, std::memory_order_release);
}

/// Makes sure that the lane has memory, all of it: later there is nobody to tell that there is none.
bool Producer::back(LaneWriter &writer) {
  if (writer.backed)
    return true;
  auto page = reinterpret_cast<uintptr_t>(writer.slots);
  uint64_t bytes = (writer.mask + 1) * slotBytes;
  int saved = errno;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  writer.backed = madvise(reinterpret_cast<void *>(page), bytes, MADV_POPULATE_WRITE) == 0;
  if (!writer.backed && errno == EINVAL) {
    // A kernel that does not know this: the file at least must have it.
    int fd = ringPath[0] ? open(ringPath, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    auto offset = off_t(reinterpret_cast<uint8_t *>(writer.slots) - reinterpret_cast<uint8_t *>(header));
    writer.backed = !ringPath[0] || (fd >= 0 && posix_fallocate(fd, offset, off_t(bytes)) == 0);
    if (fd >= 0)
      close(fd);
  }
  errno = saved;
  return writer.backed;
}

/// The calling thread's lane, at its first record: a free one, otherwise the shared one.
LaneWriter *Producer::claim() {
  if (!attachment)
    return nullptr;
  int saved = errno;
  pthread_mutex_lock(&claimLock);
  auto self = uint32_t(syscall(SYS_gettid));
  LaneWriter *own = nullptr;
  // One that it has already: it used another producer in between.
  for (unsigned i = 0; i + 1 < laneCount && !own; ++i)
    if (writers[i].lane->owner.load(std::memory_order_acquire) == self)
      own = &writers[i];
  for (unsigned i = 0; i + 1 < laneCount && !own; ++i) {
    uint32_t nobody = 0;
    if (!writers[i].lane->owner.compare_exchange_strong(nobody, self))
      continue;
    own = &writers[i];
    if (!back(*own)) {
      own->lane->owner.store(0);
      own = nullptr;
      break; // No memory for more lanes.
    }
  }
  // One whose thread ended without a word: it jumped over its destructors, or was not the client library's.
  for (unsigned i = 0; i + 1 < laneCount && !own; ++i) {
    uint32_t before = writers[i].lane->owner.load(std::memory_order_acquire);
    if (before && syscall(SYS_tgkill, getpid(), before, 0) != 0 && errno == ESRCH &&
        writers[i].lane->owner.compare_exchange_strong(before, self))
      own = &writers[i];
  }
  if (!own)
    own = &writers[laneCount - 1];
  pthread_mutex_unlock(&claimLock);
  errno = saved;
  threadLane = {attachment, own};
  return own;
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
    uint64_t quarter = (writer.mask + 1) / 4;
    if (writer.head - writer.tailSeen < quarter)
      return;
    writer.tailSeen = writer.lane->tail.load(std::memory_order_acquire);
    if (writer.head - writer.tailSeen < quarter)
      return;
  }
  if (header->dataWanted.exchange(0))
    futexWakeAll(header->dataWanted);
}

/// False: the collector is dead or the ring destroyed; nothing more will be recorded.
bool Producer::waitForSpace(LaneWriter &writer, uint64_t slots) {
  if (roomFor(writer, slots))
    return true;
  unsigned repairs = 0;
  Lane &lane = *writer.lane;
  bool found = true;
  // Nothing of ours holds others up meanwhile, but a group that is begun: it comes out in parts.
  lane.busy.store(writer.groups ? BusyWaiting : BusyNot, std::memory_order_release);
  while (!roomFor(writer, slots)) {
    if (writer.head - lane.tail.load(std::memory_order_acquire) > writer.mask + 1) {
      // The program wrote over the positions. Told ours again, the collector counts a loss and comes to it.
      if (++repairs > 20) {
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
    if (putFrame(writer, record, nullptr, 0, 0))
      writer.dropped = 0;
  }
  return false;
}

/// Returns its name; 0 if the collector is gone.
uint64_t Producer::putFrame(LaneWriter &writer, const Record &record, const void *payload, uint64_t bytes,
                            uint64_t total) {
  bool extended = record.type != RecordType::Chunk &&
                  (record.mask || record.expected || record.deadline || record.length || record.link ||
                   record.count || total != bytes || record.type == RecordType::Complete);
  uint64_t size = 1 + uint64_t(extended) + slotsFor(bytes), index = writer.head & writer.mask,
           toEnd = writer.mask + 1 - index;
  if (!waitForSpace(writer, size <= toEnd ? size : toEnd + size))
    return 0;
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
  slot.payloadBytes = uint32_t(bytes);
  slot.slots = uint16_t(size);
  slot.device = record.device;
  slot.space = record.space;
  slot.thread = record.thread;
  slot.type = record.type;
  slot.kind = record.kind;
  slot.width = record.width;
  slot.flags = record.flags;
  slot.completion = record.completion;
  slot.origin = record.origin;
  slot.hints = uint8_t((record.hints & SamePayload) | (extended ? HasExtension : 0) | writer.joined);
  slot.reserved = 0;
  slot.state.store(SlotState::Completed, std::memory_order_relaxed);
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
  publish(writer, size);
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

uint64_t Producer::appendTo(LaneWriter &writer, const Record &given, const void *payload, uint64_t bytes) {
  Record record = given;
  uint64_t most = isCaptured(record) ? limit : maxPayloadBytes(limit);
  if (bytes > most) {
    bytes = most;
    record.flags |= Truncated;
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
    if (!putFrame(writer, chunk, rest, chunkBytes, total))
      return 0;
  }
  uint64_t name = putFrame(writer, record, rest, bytes, total);
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

/// All but the short way: no lane of its own, perhaps no room, a group, a clock or a fence that costs anyway.
Underway Producer::issueElsewhere(LaneWriter *own, const Access &access) {
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

void Producer::completeElsewhere(const Underway &underway, const Access &access, Completion completion,
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
  slot.state.store(SlotState::Completed, std::memory_order_release);
  own.joined = own.groups ? uint8_t(Joined) : uint8_t(0); // What follows in the group follows on this.
  end(own);
}

} // namespace tapeback::ring
