#include "recorder/client/DurableLog.h"
#include "recorder/client/Device.h"
#include "recorder/ring/RingProducer.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tapeback::client {

using namespace durable;

constinit DurableLog *durableLog = nullptr;

/// Registers of one space of a device that are logged, by address; `everything` needs none.
struct LoggedRegister {
  uint64_t offset;
  uint32_t width;
  uint32_t space;
};

struct DurableLog {
  char path[4096];
  dev_t device;
  ino_t inode;
  Header header;
  RegisterRow *rows;
  Array<LoggedRegister> registers[capture::maxDevices];
  uint64_t entriesOffset;

  pthread_mutex_t lock;
  uint64_t number;
  uint32_t *ordinals;           ///< By thread number.
  uint8_t underway[entryCount]; ///< Places whose access has not come back.
  Cost cost;
  bool failed; ///< The first failure was told.
};

/// Opened anew each time: a program may close descriptors that it does not know, and reuse their numbers.
static int openLog(const DurableLog &log, int flags) {
  int fd = open(log.path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags);
  if (fd < 0)
    return -1;
  struct stat status;
  if (fstat(fd, &status) == 0 && status.st_dev == log.device && status.st_ino == log.inode)
    return fd;
  close(fd);
  errno = ESTALE;
  return -1;
}

static bool put(int fd, const void *bytes, size_t count, uint64_t offset) {
  return pwrite(fd, bytes, count, off_t(offset)) == ssize_t(count);
}

static bool readAll(int fd, void *out, size_t count, uint64_t offset) {
  return pread(fd, out, count, off_t(offset)) == ssize_t(count);
}

static DurableLog *load(int fd, const char *path) {
  struct stat status;
  auto *log = static_cast<DurableLog *>(calloc(1, sizeof(DurableLog)));
  if (!log)
    return nullptr;
  Header &header = log->header;
  bool good = strlen(path) < sizeof(log->path) && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
              status.st_uid == geteuid() && readAll(fd, &header, sizeof(header), 0) &&
              memcmp(header.magic, magic, sizeof(magic)) == 0 && header.version == version &&
              header.entryCount == entryCount && header.registerCount <= maxRegisters &&
              header.entriesOffset <= uint64_t(status.st_size) &&
              uint64_t(status.st_size) - header.entriesOffset >= uint64_t(entryCount) * entryBytes;
  size_t bytes = sizeof(RegisterRow) * header.registerCount;
  if (good) {
    log->rows = static_cast<RegisterRow *>(malloc(bytes ? bytes : 1));
    log->ordinals = static_cast<uint32_t *>(calloc(65536, sizeof(uint32_t)));
    good = log->rows && log->ordinals && readAll(fd, log->rows, bytes, header.registersOffset);
  }
  if (!good) {
    free(log->rows);
    free(log->ordinals);
    free(log);
    return nullptr;
  }
  strcpy(log->path, path);
  log->device = status.st_dev;
  log->inode = status.st_ino;
  log->entriesOffset = header.entriesOffset;
  pthread_mutex_init(&log->lock, nullptr);
  // Another process may have used it before us.
  Entry entry;
  for (uint32_t i = 0; i < entryCount; ++i) {
    if (!readAll(fd, &entry, sizeof(entry), log->entriesOffset + uint64_t(i) * entryBytes) || !entry.number)
      continue;
    log->number = entry.number > log->number ? entry.number : log->number;
    log->underway[i] = entry.answered == 0;
    if (entry.ordinal > log->ordinals[entry.thread])
      log->ordinals[entry.thread] = entry.ordinal;
  }
  log->cost = header.cost;
  return log;
}

void attachDurableLog(char *error, size_t size) {
  const char *path = secure_getenv(environmentName);
  if (!path || !*path)
    return;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    // The recorder has ended and taken it away: nothing is recorded any more.
    if (errno != ENOENT)
      snprintf(error, size, "cannot open the durable log %s: %s", path, strerror(errno));
    return;
  }
  durableLog = load(fd, path);
  if (!durableLog)
    snprintf(error, size,
             "%s is not a durable log of this version: libtapeback.so (%s) and tapeback must be of one "
             "installation",
             path, TAPEBACK_VERSION);
  close(fd);
}

void durableOpened(const tb_device *device) {
  if (!durableLog || device->id >= capture::maxDevices)
    return;
  DurableLog &log = *durableLog;
  DeviceRow row = {};
  strcpy(row.alias, device->alias);
  Locked lock(log.lock);
  auto &registers = log.registers[device->id];
  registers.clear();
  for (uint32_t space = 0; space < device->spaces.size() && space < maxSpaces; ++space) {
    strcpy(row.spaces[space], device->spaces[space].name);
    row.spaceCount = space + 1;
    for (uint32_t i = 0; i < log.header.registerCount; ++i)
      if (log.rows[i].device == device->id &&
          strncmp(log.rows[i].space, row.spaces[space], capture::nameBytes) == 0 &&
          !registers.push({log.rows[i].offset, log.rows[i].width, space}))
        ++log.cost.failures; // Out of memory: its accesses will not be logged.
  }
  int fd = openLog(log, O_DSYNC);
  if (fd < 0 || !put(fd, &row, sizeof(row), log.header.devicesOffset + device->id * sizeof(DeviceRow)))
    ++log.cost.failures;
  if (fd >= 0)
    close(fd);
}

/// Descriptions call few registers so: a search in order of the table is enough.
bool isDurable(const tb_device *device, uint32_t space, uint64_t offset, uint32_t width) {
  const DurableLog &log = *durableLog;
  if (log.header.everything)
    return true;
  for (const LoggedRegister &reg : log.registers[device->id])
    if (reg.space == space && offset < reg.offset + reg.width && reg.offset < offset + width)
      return true;
  return false;
}

/// Told once, in the recording: it is the user who has to know.
static void tellFailure(DurableLog &log, const tb_device *device, int code) {
  if (log.failed)
    return;
  log.failed = true;
  char text[512];
  int length = snprintf(text, sizeof(text),
                        "accesses could not be put into the durable log (%s): they were made all the same",
                        strerror(code));
  ring::Record note = blankRecord(device, PacketKind::Tick);
  note.type = ring::RecordType::Note;
  startedSession().producer.append(note, text, uint64_t(length));
}

static uint64_t placeOf(const DurableLog &log, uint32_t slot) {
  return log.entriesOffset + uint64_t(slot - 1) * entryBytes;
}

void durableIssue(DurableAccess &access, const tb_device *device, PacketKind kind, uint32_t space,
                  uint64_t offset, uint32_t width, uint64_t value) {
  DurableLog &log = *durableLog;
  if (!startedSession().producer.recording())
    return;
  Entry &entry = access.entry;
  if (kind != PacketKind::Poll)
    entry.mask = entry.expected = entry.deadline = 0;
  entry.completion = entry.reserved = 0;
  entry.answered = entry.answer = 0;
  entry.answerCheck = entry.spare = 0;
  entry.address = offset;
  entry.value = value;
  entry.thread = threadNumber();
  entry.kind = uint8_t(kind);
  entry.width = uint8_t(width);
  entry.device = uint8_t(device->id);
  entry.space = uint8_t(space);
  {
    Locked lock(log.lock);
    entry.ordinal = ++log.ordinals[entry.thread];
    for (uint32_t tries = 0; tries < entryCount && !access.slot; ++tries) {
      entry.number = ++log.number;
      uint32_t place = uint32_t(entry.number) & (entryCount - 1);
      if (log.underway[place])
        continue; // What never came back stays.
      log.underway[place] = 1;
      access.slot = place + 1;
    }
    if (!access.slot) {
      ++log.cost.unlogged;
      return;
    }
  }
  entry.time = ring::Producer::now();
  entry.issueCheck = issueCheckOf(entry);
  int fd = openLog(log, O_DSYNC);
  bool good = fd >= 0 && put(fd, &entry, sizeof(entry), placeOf(log, access.slot));
  int code = errno;
  if (fd >= 0)
    close(fd);
  uint64_t took = ring::Producer::now() - entry.time;
  Locked lock(log.lock);
  Cost &cost = log.cost;
  if (!good) {
    ++cost.failures;
    tellFailure(log, device, code);
    return;
  }
  ++cost.accesses;
  cost.totalNs += took;
  cost.mostNs = took > cost.mostNs ? took : cost.mostNs;
  cost.leastNs = cost.accesses == 1 || took < cost.leastNs ? took : cost.leastNs;
}

void durableAnswer(DurableAccess &access, Completion completion, uint64_t value) {
  DurableLog &log = *durableLog;
  Entry &entry = access.entry;
  entry.completion = uint8_t(completion);
  entry.answer = value;
  entry.answered = ring::Producer::now();
  entry.answerCheck = answerCheckOf(entry);
  // Not synchronised: it costs the program a copy, and is there unless the host itself goes down.
  int fd = openLog(log, 0);
  if (fd >= 0)
    (void)put(fd, &entry, sizeof(entry), placeOf(log, access.slot));
  Locked lock(log.lock);
  if (fd >= 0) {
    (void)put(fd, &log.cost, sizeof(log.cost), offsetof(Header, cost));
    close(fd);
  }
  log.underway[access.slot - 1] = 0;
  access.slot = 0;
}

} // namespace tapeback::client
