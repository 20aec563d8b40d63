// How a process comes to a ring, and its threads to their lanes.
#include "recorder/ring/Fence.h"
#include "recorder/ring/RingProducer.h"
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>

namespace tapeback::ring {

// The attributes again: in a file that has this and its users, GCC forgets those of the declaration.
[[gnu::visibility("hidden"), gnu::tls_model("initial-exec")]] constinit thread_local ThreadLane threadLane = {
    0, nullptr};
static constinit std::atomic<uint64_t> attachments{0};

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
  if (status.st_uid != geteuid()) { // Root may open what is another user's.
    close(fd);
    errno = EACCES;
    return Attach::Failed;
  }
  if (!S_ISREG(status.st_mode) || uint64_t(status.st_size) < headerBytes ||
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
  if (path) { // The file has all of the first lane.
    writers[0].backed = true;
    writers[0].touched = writers[0].head;
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

/// Maps the pages of the next slots, many at a time: a fault for each costs as much as a thousand records,
/// and all of the first lane's at once as long as a short program needs to start. They are the file's
/// already.
void Producer::touchAhead(LaneWriter &writer, uint64_t slots) {
  constexpr uint64_t most = (512 << 10) / slotBytes;
  const uint64_t all = writer.mask + 1, index = writer.touched & writer.mask;
  uint64_t count = slots > most ? slots : most;
  if (count > all - index)
    count = all - index;
  const int saved = errno;
  auto from = reinterpret_cast<uintptr_t>(&writer.slots[index]) & ~uintptr_t(4095);
  const auto end = reinterpret_cast<uintptr_t>(&writer.slots[index + count]);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const bool known = madvise(reinterpret_cast<void *>(from), end - from, MADV_POPULATE_WRITE) == 0;
  errno = saved;
  // Where the kernel does not know this, they come one by one.
  writer.touched = !known || index + count == all ? ~uint64_t(0) : writer.touched + count;
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

} // namespace tapeback::ring
