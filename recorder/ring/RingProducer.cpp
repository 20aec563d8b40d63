#include "recorder/ring/RingProducer.h"
#include "format/Packet.h"
#include "recorder/ring/Futex.h"
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace tapeback::ring {

uint64_t Producer::now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
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
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || uint64_t(status.st_size) < headerBytes ||
      uint64_t(status.st_size) > headerBytes + maxTableBytes + maxDataBytes + (1 << 20)) {
    close(fd);
    return Attach::Foreign;
  }
  void *mapping = mmap(nullptr, size_t(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapping == MAP_FAILED)
    return Attach::Failed;
  Attach result = attachMapping(mapping, uint64_t(status.st_size), path);
  if (result != Attach::Attached)
    munmap(mapping, size_t(status.st_size));
  return result;
}

Producer::Attach Producer::attachMapping(void *mapping, uint64_t bytes, const char *path) {
  Header *candidate = static_cast<Header *>(mapping);
  if (bytes < headerBytes || memcmp(candidate->magic, magic, sizeof(magic)) != 0 ||
      candidate->version != version || candidate->headerBytes != headerBytes)
    return Attach::Foreign;
  uint64_t size = candidate->dataBytes, at = candidate->dataOffset;
  uint64_t tableAt = candidate->tableOffset, tableBytes = candidate->tableBytes;
  if (size < minDataBytes || size > maxDataBytes || (size & (size - 1)) || at > bytes || size > bytes - at ||
      at % 64 || tableAt > bytes || tableBytes > bytes - tableAt || tableAt % 8 ||
      candidate->captureLimit > maxCaptureLimit || candidate->chunkBytes < 64 ||
      candidate->chunkBytes > size / 4)
    return Attach::Foreign;
  if (path && strlen(path) >= sizeof(ringPath))
    return Attach::Foreign;
  // A copy: a program that writes over the ring must not lead us out of it afterwards.
  auto *copy = static_cast<capture::Table *>(malloc(tableBytes ? tableBytes : 1));
  if (!copy)
    return Attach::Failed;
  memcpy(copy, static_cast<const char *>(mapping) + tableAt, tableBytes);
  if (!capture::validTable(copy, tableBytes)) {
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
  data = static_cast<uint8_t *>(mapping) + at;
  table = copy;
  dataBytes = size;
  limit = candidate->captureLimit;
  chunkBytes = candidate->chunkBytes;
  flags = candidate->flags;
  head = candidate->head.load(std::memory_order_relaxed);
  tailSeen = candidate->tail.load(std::memory_order_acquire);
  // Names stay unique over the processes that attach in turn.
  sequence = uint64_t(candidate->producersSeen.fetch_add(1)) << 40;
  if (path)
    strcpy(ringPath, path);
  live.store(candidate->collectorState.load() == uint32_t(CollectorState::Running),
             std::memory_order_release);
  return Attach::Attached;
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
}

void Producer::enter() {
  pthread_mutex_lock(&lock);
}
void Producer::leave() {
  pthread_mutex_unlock(&lock);
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

bool Producer::roomFor(uint64_t bytes) {
  uint64_t used = head - tailSeen;
  if (used <= dataBytes && dataBytes - used >= bytes)
    return true;
  tailSeen = header->tail.load(std::memory_order_seq_cst);
  used = head - tailSeen;
  return used <= dataBytes && dataBytes - used >= bytes;
}

void Producer::publishHead() {
  header->head.store(head, std::memory_order_seq_cst);
  uint32_t wanted = header->dataWanted.load(std::memory_order_seq_cst);
  if (!wanted)
    return;
  if (wanted == WantsMuch && head - tailSeen < dataBytes / 4)
    return;
  if (wanted == WantsMuch) {
    tailSeen = header->tail.load(std::memory_order_acquire);
    if (head - tailSeen < dataBytes / 4)
      return;
  }
  wakeCollector();
}

void Producer::wakeCollector() {
  if (header->dataWanted.exchange(0))
    futexWakeAll(header->dataWanted);
}

/// False: the collector is dead or the ring destroyed; nothing more will be recorded.
bool Producer::waitForSpace(uint64_t bytes) {
  unsigned repairs = 0;
  while (!roomFor(bytes)) {
    if (head - header->tail.load(std::memory_order_acquire) > dataBytes) {
      // The program wrote over the positions. Told ours again, the collector counts a loss and comes to it.
      if (++repairs > 20)
        return false;
      publishHead();
    }
    header->spaceWanted.store(1, std::memory_order_seq_cst);
    if (roomFor(bytes))
      break;
    if (header->dataWanted.load(std::memory_order_seq_cst))
      wakeCollector(); // However little it thinks there is.
    uint64_t before = header->tail.load(std::memory_order_acquire);
    futexWait(header->spaceWanted, 1, 100);
    if (header->tail.load(std::memory_order_acquire) == before && !collectorAlive())
      return false;
  }
  return true;
}

/// Asks for the lines that the next records but some will be written to: the collector had them last, and a
/// line takes as long from core to core as ten records. (The compiler's built-in does not emit this one.)
static void fetchAhead(const uint8_t *at) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0\n\tprefetchw %1" : : "m"(at[0]), "m"(at[64]));
#else
  __builtin_prefetch(at, 1);
  __builtin_prefetch(at + 64, 1);
#endif
}
static constexpr uint64_t aheadBytes = 3072;

bool Producer::putFrame(const Record &record, const void *payload) {
  uint64_t size = record.size, index = head & (dataBytes - 1), toEnd = dataBytes - index;
  uint64_t needed = size <= toEnd ? size : toEnd + size;
  if (!waitForSpace(needed))
    return false;
  if (size > toEnd) {
    // 8 bytes always fit: every frame is a multiple of 8.
    Record pad = {};
    pad.size = uint32_t(toEnd);
    pad.type = RecordType::Pad;
    memcpy(data + index, &pad, 8);
    head += toEnd;
    index = 0;
  }
  memcpy(data + index, &record, sizeof(record));
  if (record.payloadBytes)
    memcpy(data + index + sizeof(record), payload, record.payloadBytes);
  head += size;
  fetchAhead(data + ((head + aheadBytes) & (dataBytes - 1)));
  publishHead();
  return true;
}

void Producer::reportDropped() {
  Record record = {};
  record.type = RecordType::Dropped;
  record.size = sizeof(Record);
  record.time = now();
  record.value = dropped;
  if (roomFor(sizeof(Record) * 2) && putFrame(record, nullptr))
    dropped = 0;
}

uint64_t Producer::append(const Record &given, const void *payload, uint64_t bytes) {
  if (!recording())
    return 0;
  Group group(*this);
  if (!recording())
    return 0;
  Record record = given;
  uint64_t most = isCaptured(record) ? limit : maxPayloadBytes(limit);
  if (bytes > most) {
    bytes = most;
    record.flags |= Truncated;
  }
  if (flags & DropWhenFull) {
    // Completions always wait: their operations are in the ring already, and they are few.
    bool mayDrop = record.type == RecordType::Issue || record.type == RecordType::Event;
    if (mayDrop && !roomFor(bytes + dataBytes / 8)) {
      ++dropped;
      return 0;
    }
    if (dropped)
      reportDropped();
  }
  record.payloadTotal = bytes;
  const uint8_t *rest = static_cast<const uint8_t *>(payload);
  while (bytes > chunkBytes) {
    Record chunk = {};
    chunk.type = RecordType::Chunk;
    chunk.thread = record.thread;
    chunk.address = record.payloadTotal - bytes;
    chunk.payloadBytes = chunkBytes;
    chunk.payloadTotal = record.payloadTotal;
    chunk.size = uint32_t(alignFrame(sizeof(Record) + chunkBytes));
    if (!putFrame(chunk, rest)) {
      stop();
      return 0;
    }
    rest += chunkBytes;
    bytes -= chunkBytes;
  }
  record.payloadBytes = uint32_t(bytes);
  record.size = uint32_t(alignFrame(sizeof(Record) + bytes));
  if (record.type != RecordType::Complete && !record.sequence)
    record.sequence = ++sequence;
  // An issue is stamped after waiting for space: the time in the ring is not the device's.
  if (!record.time) {
    if (!waitForSpace(record.size)) {
      stop();
      return 0;
    }
    record.time = now();
  }
  if (!putFrame(record, rest)) {
    stop();
    return 0;
  }
  return record.sequence;
}

} // namespace tapeback::ring
