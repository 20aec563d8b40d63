#include "recorder/durable/DurableFile.h"
#include "format/Failure.h"
#include "llvm/Support/JSON.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;

namespace tapeback {

Expected<DurableMode> parseDurableMode(StringRef text) {
  if (text == "off")
    return DurableMode::Off;
  if (text == "may-hang")
    return DurableMode::MayHang;
  if (text == "all")
    return DurableMode::All;
  return failUsage("bad-option", "--durable is off, may-hang or all, not '" + text.str() + "'", "--durable");
}

std::string durableLogOf(StringRef partial) {
  return partial.str() + ".durable";
}

static Error durableFailure(const std::string &what, const std::string &path) {
  return failSystem("durable-failed", what + ": " + std::strerror(errno), path,
                    "without the log, leave out --durable");
}

static bool putText(char (&out)[capture::nameBytes], StringRef text) {
  if (text.size() >= sizeof(out) || text.contains('\0'))
    return false;
  std::memset(out, 0, sizeof(out));
  std::memcpy(out, text.data(), text.size());
  return true;
}

/// The bytes of a log in which nothing is logged yet.
static Expected<std::vector<uint8_t>> emptyLog(DurableMode mode, ArrayRef<DurableSource> sources,
                                               const std::string &id) {
  std::vector<durable::DeviceRow> devices(capture::maxDevices);
  std::vector<durable::RegisterRow> registers;
  for (size_t i = 0; i < sources.size() && i < devices.size(); ++i) {
    if (!putText(devices[i].alias, sources[i].alias))
      return failUsage("bad-alias", "the device's alias is too long for the durable log", sources[i].alias);
    if (mode != DurableMode::MayHang || !sources[i].description)
      continue;
    for (const RegisterDescription &reg : sources[i].description->registers) {
      if (reg.policy != ReplayPolicy::MayHang)
        continue;
      durable::RegisterRow row = {};
      row.offset = reg.offset;
      row.width = reg.width;
      row.device = uint32_t(i);
      if (!putText(row.space, reg.space) || registers.size() == durable::maxRegisters)
        return failUsage("description-too-large", "too much may hang for the durable log", sources[i].alias);
      registers.push_back(row);
    }
  }
  durable::Header header = {};
  std::memcpy(header.magic, durable::magic, sizeof(durable::magic));
  header.version = durable::version;
  header.headerBytes = durable::headerBytes;
  std::memcpy(header.id, id.data(), std::min(id.size(), sizeof(header.id)));
  header.devicesOffset = durable::headerBytes;
  header.registersOffset = header.devicesOffset + devices.size() * sizeof(durable::DeviceRow);
  uint64_t end = header.registersOffset + registers.size() * sizeof(durable::RegisterRow);
  header.entriesOffset = (end + 4095) / 4096 * 4096;
  header.registerCount = uint32_t(registers.size());
  header.entryCount = durable::entryCount;
  header.everything = mode == DurableMode::All;
  std::vector<uint8_t> bytes(header.entriesOffset + uint64_t(durable::entryCount) * durable::entryBytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + header.devicesOffset, devices.data(),
              devices.size() * sizeof(durable::DeviceRow));
  if (!registers.empty())
    std::memcpy(bytes.data() + header.registersOffset, registers.data(),
                registers.size() * sizeof(durable::RegisterRow));
  return bytes;
}

/// The file's name is on stable storage, too.
static void syncFolderOf(const std::string &path) {
  std::string folder = path.substr(0, path.find_last_of('/') + 1);
  int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return;
  fsync(fd); // Some file systems cannot; those have no names to lose.
  close(fd);
}

Expected<std::unique_ptr<DurableFile>> DurableFile::create(const std::string &partial, DurableMode mode,
                                                           ArrayRef<DurableSource> sources,
                                                           const std::string &id) {
  Expected<std::vector<uint8_t>> bytes = emptyLog(mode, sources, id);
  if (!bytes)
    return bytes.takeError();
  std::unique_ptr<DurableFile> file(new DurableFile);
  std::string path = durableLogOf(partial);
  struct stat status;
  if (lstat(path.c_str(), &status) == 0 &&
      rename(path.c_str(), durableLogOf(partial + ".stale").c_str()) != 0)
    return durableFailure("cannot move the log of an earlier recording away", path);
  file->fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file->fd < 0)
    return durableFailure("cannot create the durable log", path);
  // The program opens it from wherever it is.
  char real[PATH_MAX];
  file->filePath = realpath(path.c_str(), real) ? real : path;
  for (size_t done = 0; done < bytes->size();) {
    ssize_t written = write(file->fd, bytes->data() + done, bytes->size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return durableFailure("cannot write the durable log", path);
    done += size_t(written);
  }
  if (fsync(file->fd) != 0)
    return durableFailure("cannot write the durable log", path);
  syncFolderOf(file->filePath);
  return file;
}

DurableFile::~DurableFile() {
  if (fd < 0)
    return;
  if (!kept)
    unlink(filePath.c_str());
  close(fd);
}

durable::Cost DurableFile::cost() const {
  durable::Cost cost = {};
  if (pread(fd, &cost, sizeof(cost), offsetof(durable::Header, cost)) != ssize_t(sizeof(cost)))
    return {};
  // Somebody took it away: what was done since then is in no log, and nobody could count it here.
  struct stat own, there;
  if (fstat(fd, &own) != 0 || stat(filePath.c_str(), &there) != 0 || own.st_dev != there.st_dev ||
      own.st_ino != there.st_ino)
    cost.failures = std::max<uint64_t>(cost.failures, 1);
  return cost;
}

bool DurableLog::logs(uint32_t device, StringRef space, uint64_t offset, uint32_t width) const {
  if (everything)
    return true;
  return std::any_of(registers.begin(), registers.end(), [&](const Register &reg) {
    return reg.device == device && space == reg.space && offset < reg.offset + reg.width &&
           reg.offset < offset + width;
  });
}

static std::string textOf(const char (&text)[capture::nameBytes]) {
  return json::fixUTF8(StringRef(text, strnlen(text, sizeof(text))));
}

static bool isWhole(const durable::Entry &entry, const DurableLog &log) {
  if (entry.issueCheck != durable::issueCheckOf(entry) || entry.device >= log.devices.size() ||
      entry.space >= log.devices[entry.device].spaces.size())
    return false;
  switch (PacketKind(entry.kind)) {
  case PacketKind::RegisterRead:
  case PacketKind::RegisterWrite:
  case PacketKind::Poll: break;
  default: return false;
  }
  if (entry.answered && entry.completion != uint8_t(Completion::Done) &&
      entry.completion != uint8_t(Completion::Failed) && entry.completion != uint8_t(Completion::TimedOut))
    return false;
  return entry.width == 1 || entry.width == 2 || entry.width == 4 || entry.width == 8;
}

namespace {
/// A descriptor that is closed.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0)
      close(fd);
  }
};
} // namespace

Expected<DurableLog> readDurableLog(const std::string &path) {
  Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    return failUsage("no-durable-log", std::string("cannot open the durable log: ") + std::strerror(errno),
                     path);
  struct stat status;
  auto read = [&](void *out, size_t count, uint64_t offset) {
    return pread(file.fd, out, count, off_t(offset)) == ssize_t(count);
  };
  durable::Header header;
  constexpr uint64_t deviceBytes = capture::maxDevices * sizeof(durable::DeviceRow);
  if (fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode) || !read(&header, sizeof(header), 0) ||
      std::memcmp(header.magic, durable::magic, sizeof(durable::magic)) != 0)
    return failTape("bad-durable-log", "this is no durable log", path);
  auto size = uint64_t(status.st_size);
  auto fits = [&](uint64_t offset, uint64_t count) { return offset <= size && count <= size - offset; };
  if (header.version != durable::version)
    return failTape("bad-durable-log", "a durable log of another version", path);
  if (header.registerCount > durable::maxRegisters || header.entryCount != durable::entryCount ||
      !fits(header.devicesOffset, deviceBytes) ||
      !fits(header.registersOffset, uint64_t(header.registerCount) * sizeof(durable::RegisterRow)) ||
      !fits(header.entriesOffset, uint64_t(durable::entryCount) * durable::entryBytes))
    return failTape("bad-durable-log", "the durable log is damaged", path);
  DurableLog log;
  log.id = json::fixUTF8(StringRef(header.id, strnlen(header.id, sizeof(header.id))));
  log.everything = header.everything;
  for (uint32_t i = 0; i < capture::maxDevices; ++i) {
    durable::DeviceRow row;
    if (!read(&row, sizeof(row), header.devicesOffset + i * sizeof(durable::DeviceRow)))
      return failTape("bad-durable-log", "the durable log cannot be read", path);
    DurableLog::Device device{textOf(row.alias), {}};
    for (uint32_t space = 0; space < std::min(row.spaceCount, durable::maxSpaces); ++space)
      device.spaces.push_back(textOf(row.spaces[space]));
    log.devices.push_back(std::move(device));
  }
  for (uint32_t i = 0; i < header.registerCount; ++i) {
    durable::RegisterRow row;
    if (!read(&row, sizeof(row), header.registersOffset + i * sizeof(durable::RegisterRow)))
      return failTape("bad-durable-log", "the durable log cannot be read", path);
    log.registers.push_back({row.offset, row.width, row.device, textOf(row.space)});
  }
  for (uint32_t i = 0; i < durable::entryCount; ++i) {
    durable::Entry entry;
    if (!read(&entry, sizeof(entry), header.entriesOffset + uint64_t(i) * durable::entryBytes))
      return failTape("bad-durable-log", "the durable log cannot be read", path);
    if (!entry.number)
      continue;
    if (!isWhole(entry, log)) {
      ++log.damaged;
      continue;
    }
    if (entry.answered && entry.answerCheck != durable::answerCheckOf(entry))
      entry.answered = 0; // The answer was torn; that there was one is not certain.
    log.entries.push_back(entry);
  }
  std::sort(log.entries.begin(), log.entries.end(),
            [](const durable::Entry &a, const durable::Entry &b) { return a.number < b.number; });
  return log;
}

} // namespace tapeback
