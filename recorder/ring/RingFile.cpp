#include "recorder/ring/RingFile.h"
#include "format/Failure.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace llvm;

namespace tapeback::ring {

static Error systemFailure(const std::string &what, const std::string &where) {
  return failSystem("ring-failed", what + ": " + std::strerror(errno), where,
                    "the ring needs shared memory: check the free space of /dev/shm and TMPDIR");
}

/// Where the ring may lie: shared memory first (never written to a disk), then where temporary files go.
static std::vector<std::string> ringParents() {
  std::vector<std::string> parents{"/dev/shm"};
  if (const char *temporary = std::getenv("TMPDIR"); temporary && *temporary == '/')
    parents.push_back(temporary);
  parents.push_back("/tmp");
  return parents;
}

static std::string ringPrefix() {
  return "tapeback-" + std::to_string(geteuid()) + "-";
}

static uint64_t roundUp(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

Expected<std::unique_ptr<RingFile>> RingFile::create(ArrayRef<uint8_t> table, const RingOptions &options) {
  removeStaleRings();
  std::unique_ptr<RingFile> file(new RingFile);
  std::string tried;
  for (const std::string &parent : ringParents()) {
    std::string pattern = parent + "/" + ringPrefix() + "XXXXXX";
    if (mkdtemp(pattern.data())) { // 0700 by definition.
      file->directory = pattern;
      break;
    }
    tried += (tried.empty() ? "" : "; ") + parent + ": " + std::strerror(errno);
  }
  if (file->directory.empty())
    return failSystem("ring-failed", "no place for the ring between program and recorder (" + tried + ")", {},
                      "make /dev/shm or TMPDIR writable");
  // Locked before it has its name: whoever sees "ring" can tell a living collector from a dead one.
  std::string fresh = file->directory + "/ring.new";
  file->fd = open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file->fd < 0)
    return systemFailure("cannot create the ring", fresh);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(file->fd, F_OFD_SETLK, &lock) != 0)
    return systemFailure("cannot lock the ring", fresh);
  if (Error error = file->map(table, options))
    return error;
  file->filePath = file->directory + "/ring";
  if (rename(fresh.c_str(), file->filePath.c_str()) != 0)
    return systemFailure("cannot name the ring", file->filePath);
  return file;
}

Expected<std::unique_ptr<RingFile>> RingFile::createAnonymous(ArrayRef<uint8_t> table,
                                                              const RingOptions &options) {
  std::unique_ptr<RingFile> file(new RingFile);
  if (Error error = file->map(table, options))
    return error;
  return file;
}

Error RingFile::map(ArrayRef<uint8_t> table, const RingOptions &options) {
  if (table.size() > maxTableBytes)
    return failUsage("description-too-large", "the descriptions make a capture table of " +
                                                  std::to_string(table.size()) + " bytes; the limit is " +
                                                  std::to_string(maxTableBytes));
  dataSize = std::bit_ceil(std::clamp(options.dataBytes, minDataBytes, maxDataBytes));
  dataOffset = roundUp(headerBytes + table.size(), 4096);
  size = dataOffset + dataSize;
  if (fd >= 0) {
    // Allocated now: a full /dev/shm must not become a SIGBUS in the program.
    if (int code = posix_fallocate(fd, 0, off_t(size))) {
      errno = code;
      return systemFailure("cannot allocate " + std::to_string(size) + " bytes for the ring", directory);
    }
  }
  int flags = fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
  mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (mapping == MAP_FAILED) {
    mapping = nullptr;
    return systemFailure("cannot map the ring", directory);
  }
  Header *header = new (mapping) Header{};
  header->version = version;
  header->headerBytes = headerBytes;
  header->tableOffset = headerBytes;
  header->tableBytes = table.size();
  header->dataOffset = dataOffset;
  header->dataBytes = dataSize;
  header->captureLimit = std::min(options.captureLimit, maxCaptureLimit);
  header->chunkBytes = uint32_t(std::clamp<uint64_t>(options.chunkBytes, 64, dataSize / 4) & ~7u);
  header->flags = options.dropWhenFull ? uint32_t(DropWhenFull) : 0;
  header->collectorPid = uint32_t(getpid());
  header->collectorState.store(uint32_t(CollectorState::Running));
  if (!table.empty())
    std::memcpy(static_cast<char *>(mapping) + headerBytes, table.data(), table.size());
  std::memcpy(header->magic, magic, sizeof(magic));
  return Error::success();
}

RingFile::~RingFile() {
  if (mapping) {
    header().collectorState.store(uint32_t(CollectorState::Closed));
    munmap(mapping, size);
  }
  if (!directory.empty()) {
    unlink((directory + "/ring").c_str());
    unlink((directory + "/ring.new").c_str());
    rmdir(directory.c_str());
  }
  if (fd >= 0)
    close(fd);
}

/// True if the ring in `directory` has no living collector.
static bool isStale(const std::string &directory) {
  std::string path = directory + "/ring";
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    // Being made just now, or its maker was killed while making it: old enough to tell.
    struct stat status;
    return errno == ENOENT && lstat(directory.c_str(), &status) == 0 &&
           time(nullptr) - status.st_mtime > 3600;
  }
  struct flock query = {};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;
  bool stale = fcntl(fd, F_OFD_GETLK, &query) == 0 && query.l_type == F_UNLCK;
  close(fd);
  return stale;
}

unsigned removeStaleRings() {
  unsigned removed = 0;
  for (const std::string &parent : ringParents()) {
    DIR *listing = opendir(parent.c_str());
    if (!listing)
      continue;
    std::vector<std::string> stale;
    while (dirent *entry = readdir(listing)) {
      struct stat status;
      std::string path = parent + "/" + entry->d_name;
      if (StringRef(entry->d_name).starts_with(ringPrefix()) && lstat(path.c_str(), &status) == 0 &&
          S_ISDIR(status.st_mode) && status.st_uid == geteuid() && isStale(path))
        stale.push_back(path);
    }
    closedir(listing);
    for (const std::string &path : stale) {
      unlink((path + "/ring").c_str());
      unlink((path + "/ring.new").c_str());
      removed += rmdir(path.c_str()) == 0;
    }
  }
  return removed;
}

} // namespace tapeback::ring
