#include "recorder/ring/RingFile.h"
#include "format/Failure.h"
#include "recorder/flight/QuietThread.h"
#include "recorder/ring/Fence.h"
#include "recorder/ring/StampClock.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <optional>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

using namespace llvm;

namespace tapeback::ring {

static Error systemFailure(const std::string &what, const std::string &where) {
  return failSystem("ring-failed", what + ": " + std::strerror(errno), where,
                    "the ring needs shared memory: check the free space of /dev/shm and TMPDIR");
}

/// Where the ring may lie: where the user says, or shared memory first (never written to a disk), then where
/// temporary files go.
static std::vector<std::string> ringParents() {
  if (const char *wanted = std::getenv("TAPEBACK_RING_DIRECTORY"); wanted && *wanted == '/')
    return {wanted};
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
  Expected<std::unique_ptr<RingFile>> file = reserve(options);
  if (!file)
    return file;
  if (Error error = (*file)->begin(table))
    return error;
  if (Error error = (*file)->awaitMemory())
    return error;
  return file;
}

Expected<std::unique_ptr<RingFile>> RingFile::reserve(const RingOptions &options) {
  removeStaleRings();
  std::unique_ptr<RingFile> file(new RingFile(options));
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
  file->plan(0);
  if (int code = file->allocateHead())
    return file->noMemory(code);
  try {
    file->allocator = startQuietThread([made = file.get()] { made->allocation = made->allocate(); });
  } catch (const std::system_error &) {
    file->allocation = file->allocate();
  }
  return file;
}

static Error checkTable(ArrayRef<uint8_t> table) {
  if (table.size() <= maxTableBytes)
    return Error::success();
  return failUsage("description-too-large", "the descriptions make a capture table of " +
                                                std::to_string(table.size()) + " bytes; the limit is " +
                                                std::to_string(maxTableBytes));
}

Error RingFile::begin(ArrayRef<uint8_t> table) {
  if (Error error = checkTable(table))
    return error;
  if (headerBytes + table.size() > layout.lanesOffset) {
    // More than there is room for: everything lies further behind.
    if (Error error = awaitMemory())
      return error;
    plan(table.size());
    int code = allocateHead();
    if (code == 0)
      code = allocate();
    if (code != 0)
      return noMemory(code);
  }
  if (Error error = map(table))
    return error;
  filePath = directory + "/ring";
  if (rename((directory + "/ring.new").c_str(), filePath.c_str()) != 0)
    return systemFailure("cannot name the ring", filePath);
  return Error::success();
}

Error RingFile::awaitMemory() {
  if (allocator.joinable())
    allocator.join();
  return allocation ? noMemory(allocation) : Error::success();
}

/// The file's size, and what we write ourselves: to find that missing would be a SIGBUS.
int RingFile::allocateHead() const {
  return ftruncate(fd, off_t(size)) != 0 ? errno : posix_fallocate(fd, 0, off_t(layout.slotsAt(0)));
}

/// The first lane and the shared one. The others are by the threads that take them, which share the last one
/// if there is no memory.
int RingFile::allocate() const {
  int code = posix_fallocate(fd, off_t(layout.slotsAt(0)), off_t(layout.slotsAt(1) - layout.slotsAt(0)));
  return code ? code
              : posix_fallocate(fd, off_t(layout.slotsAt(layout.laneCount - 1)),
                                off_t(layout.laneSlots * slotBytes));
}

Error RingFile::noMemory(int code) const {
  errno = code;
  return systemFailure("cannot allocate " + std::to_string(layout.slotsAt(1) + layout.laneSlots * slotBytes) +
                           " bytes for the ring",
                       directory);
}

Expected<std::unique_ptr<RingFile>> RingFile::createAnonymous(ArrayRef<uint8_t> table,
                                                              const RingOptions &options) {
  if (Error error = checkTable(table))
    return error;
  std::unique_ptr<RingFile> file(new RingFile(options));
  file->plan(table.size());
  if (Error error = file->map(table))
    return error;
  return file;
}

/// Where everything lies, with room for a table of `tableBytes`; what most need does not change it.
void RingFile::plan(uint64_t tableBytes) {
  constexpr uint64_t usualTableBytes = (32 << 10) - headerBytes;
  uint64_t laneBytes = std::bit_ceil(std::clamp(options.dataBytes, minLaneBytes, maxLaneBytes));
  layout.laneCount = std::clamp(options.lanes, 2u, maxLanes);
  layout.firstLaneSlots = laneBytes / slotBytes;
  layout.laneSlots = std::max(laneBytes / 4, minLaneBytes) / slotBytes;
  layout.tableOffset = headerBytes;
  layout.lanesOffset = roundUp(headerBytes + std::max(tableBytes, usualTableBytes), 4096);
  layout.dataOffset = roundUp(layout.lanesOffset + layout.laneCount * sizeof(Lane), 4096);
  layout.captureLimit = std::min(options.captureLimit, maxCaptureLimit);
  layout.chunkBytes =
      std::clamp<uint32_t>(options.chunkBytes, minChunkBytes,
                           uint32_t(std::min<uint64_t>(maxChunkBytes, layout.laneSlots * slotBytes / 4))) &
      ~(slotBytes - 1);
  // A limit on the size of files is meant for other files; with fewer lanes we keep it.
  struct rlimit most;
  if (fd >= 0 && getrlimit(RLIMIT_FSIZE, &most) == 0)
    while (layout.laneCount > 2 && layout.slotsAt(layout.laneCount) > most.rlim_cur)
      --layout.laneCount;
  size = layout.slotsAt(layout.laneCount);
}

Error RingFile::map(ArrayRef<uint8_t> table) {
  std::optional<StampChoice> own;
  const StampChoice &stamps = options.stamps ? *options.stamps : own.emplace(options.monotonicStamps);
  layout.tableBytes = table.size();
  int flags = fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
  mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
  if (mapping == MAP_FAILED) {
    mapping = nullptr;
    return systemFailure("cannot map the ring", directory);
  }
  if (fd >= 0)
    guard.emplace(mapping, size, fd);
  // A page fault costs as much as a thousand records. Where the kernel does not know this, they come one by
  // one. A program in another process sees to its own view of the lanes, as far as it gets
  // (Producer::touchAhead), and we read what it has written many pages at a time.
  (void)madvise(mapping, layout.slotsAt(fd >= 0 ? 0 : 1), MADV_POPULATE_WRITE);
  Header *header = new (mapping) Header{};
  header->version = version;
  header->headerBytes = headerBytes;
  header->tableOffset = layout.tableOffset;
  header->tableBytes = layout.tableBytes;
  header->lanesOffset = layout.lanesOffset;
  header->dataOffset = layout.dataOffset;
  header->firstLaneSlots = layout.firstLaneSlots;
  header->laneSlots = layout.laneSlots;
  header->captureLimit = layout.captureLimit;
  header->laneCount = layout.laneCount;
  header->chunkBytes = layout.chunkBytes;
  header->flags = (options.dropWhenFull ? uint32_t(DropWhenFull) : 0) |
                  (options.fullFences || !canFenceProducers() ? uint32_t(FullFences) : 0);
  header->collectorPid = uint32_t(getpid());
  header->collectorState.store(uint32_t(CollectorState::Running));
  for (unsigned i = 0; i < layout.laneCount; ++i)
    new (&lane(i)) Lane{};
  if (!table.empty())
    std::memcpy(static_cast<char *>(mapping) + layout.tableOffset, table.data(), table.size());
  clockFacts = header->clock = stamps.finish();
  reason = stamps.reason();
  std::memcpy(header->magic, magic, sizeof(magic));
  return Error::success();
}

Lane &RingFile::lane(unsigned index) const {
  return reinterpret_cast<Lane *>(static_cast<char *>(mapping) + layout.lanesOffset)[index];
}
Slot *RingFile::slots(unsigned index) const {
  return reinterpret_cast<Slot *>(static_cast<char *>(mapping) + layout.slotsAt(index));
}

/// True if a living collector holds the lock on the ring.
static bool isLocked(int fd) {
  struct flock query = {};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;
  return fcntl(fd, F_OFD_GETLK, &query) == 0 && query.l_type != F_UNLCK;
}

Expected<std::unique_ptr<RingFile>> RingFile::openLeftBehind(const std::string &path) {
  std::unique_ptr<RingFile> file(new RingFile(RingOptions{}));
  file->leftBehind = true;
  file->filePath = path;
  file->fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat status;
  if (file->fd < 0 || fstat(file->fd, &status) != 0)
    return failSystem("no-ring", std::string("cannot open the ring: ") + std::strerror(errno), path);
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || uint64_t(status.st_size) < headerBytes)
    return failUsage("no-ring", "this is not a ring that a recording of yours left behind", path);
  if (isLocked(file->fd))
    return failUsage("ring-in-use", "the recording still runs", path, "stop it, or wait for its end");
  file->size = uint64_t(status.st_size);
  file->mapping = mmap(nullptr, file->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file->fd, 0);
  if (file->mapping == MAP_FAILED) {
    file->mapping = nullptr;
    return failSystem("no-ring", std::string("cannot map the ring: ") + std::strerror(errno), path);
  }
  if (!readLayout(file->header(), file->size, file->layout))
    return failUsage("no-ring", "this is not a ring of this version of tapeback", path);
  file->clockFacts = file->header().clock;
  return file;
}

RingFile::~RingFile() {
  if (allocator.joinable())
    allocator.join();
  if (mapping) {
    if (!leftBehind)
      header().collectorState.store(uint32_t(CollectorState::Closed));
    guard.reset();
    munmap(mapping, size);
  }
  if (!directory.empty()) {
    unlink((directory + "/ring").c_str());
    unlink((directory + "/ring.new").c_str());
    unlink((directory + "/session").c_str());
    unlink((directory + "/session.new").c_str());
    rmdir(directory.c_str());
  }
  if (fd >= 0)
    close(fd);
}

namespace {
/// A ring without a living collector.
struct StaleRing {
  std::string directory;
  time_t made;
  bool unread = false; ///< It holds what is not in its tape's file.
  TapeName tape = {};
};
} // namespace

static bool readHeader(int fd, Header &header, Layout &layout) {
  struct stat status;
  return fstat(fd, &status) == 0 &&
         pread(fd, static_cast<void *>(&header), sizeof(header), 0) == sizeof(header) &&
         readLayout(header, uint64_t(status.st_size), layout);
}

static bool hasUnread(int fd, const Layout &layout, bool hasTape) {
  Lane lanes[maxLanes];
  auto bytes = ssize_t(layout.laneCount * sizeof(Lane));
  if (pread(fd, static_cast<void *>(lanes), size_t(bytes), off_t(layout.lanesOffset)) != bytes)
    return false;
  return std::any_of(lanes, lanes + layout.laneCount, [&](const Lane &lane) {
    return lane.head.load() != (hasTape ? lane.written : lane.tail).load();
  });
}

/// True if the file at `path` is the one that the ring was drained into.
static bool isTape(const TapeName &tape, const std::string &path) {
  struct stat status;
  return tape.inode && stat(path.c_str(), &status) == 0 && status.st_dev == tape.device &&
         status.st_ino == tape.inode;
}

/// Where the ring's unfinished tape is now; empty: nowhere. The next recording to the same place moves it
/// away.
static std::string tapeOf(const TapeName &tape) {
  std::string path(tape.path, strnlen(tape.path, sizeof(tape.path)));
  for (const char *suffix : {"", ".stale"})
    if (isTape(tape, path + suffix))
      return path + suffix;
  return "";
}

/// The ring in `directory` if it has no living collector.
static std::optional<StaleRing> findStale(const std::string &directory) {
  struct stat status;
  if (lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
    return std::nullopt;
  StaleRing ring{directory, status.st_mtime};
  int fd = open((directory + "/ring").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    // Being made just now, or its maker was killed while making it: old enough to tell.
    bool old = errno == ENOENT && time(nullptr) - status.st_mtime > 3600;
    return old ? std::optional(ring) : std::nullopt;
  }
  bool stale = !isLocked(fd);
  Header header;
  Layout layout;
  if (stale && readHeader(fd, header, layout)) {
    ring.unread = hasUnread(fd, layout, header.tape.inode != 0);
    ring.tape = header.tape;
  }
  close(fd);
  return stale ? std::optional(ring) : std::nullopt;
}

static std::vector<StaleRing> staleRings() {
  std::vector<StaleRing> stale;
  for (const std::string &parent : ringParents()) {
    DIR *listing = opendir(parent.c_str());
    if (!listing)
      continue;
    while (dirent *entry = readdir(listing))
      if (StringRef(entry->d_name).starts_with(ringPrefix()))
        if (std::optional<StaleRing> ring = findStale(parent + "/" + entry->d_name))
          stale.push_back(*ring);
    closedir(listing);
  }
  std::sort(stale.begin(), stale.end(),
            [](const StaleRing &a, const StaleRing &b) { return a.made > b.made; });
  return stale;
}

void RingFile::nameTape(const std::string &partial) {
  struct stat status;
  char real[PATH_MAX];
  TapeName &tape = header().tape;
  if (stat(partial.c_str(), &status) != 0)
    return;
  const char *path = realpath(partial.c_str(), real) ? real : "";
  if (std::strlen(path) < sizeof(tape.path))
    std::strcpy(tape.path, path);
  tape.device = status.st_dev;
  tape.inode = status.st_ino;
}

std::vector<KeptRing> keptRings() {
  std::vector<KeptRing> kept;
  for (const StaleRing &ring : staleRings())
    if (std::string tape = tapeOf(ring.tape); ring.unread && !tape.empty())
      kept.push_back({ring.directory + "/ring", tape});
  return kept;
}

std::string findRingOf(const std::string &partial) {
  for (const StaleRing &ring : staleRings())
    if (isTape(ring.tape, partial))
      return ring.directory + "/ring";
  return "";
}

unsigned removeStaleRings(bool evenUnread) {
  constexpr time_t longest = 24 * 3600;
  constexpr unsigned mostKept = 4;
  unsigned removed = 0, kept = 0;
  for (const StaleRing &ring : staleRings()) {
    // What is in no file, for as long as its tape waits for it. Without a tape, for a day, a few.
    bool wanted = ring.unread && !tapeOf(ring.tape).empty();
    bool recent = ring.unread && !ring.tape.inode && time(nullptr) - ring.made < longest && kept < mostKept;
    if (!evenUnread && (wanted || recent)) {
      kept += !wanted;
      continue;
    }
    unlink((ring.directory + "/ring").c_str());
    unlink((ring.directory + "/ring.new").c_str());
    unlink((ring.directory + "/session").c_str());
    unlink((ring.directory + "/session.new").c_str());
    removed += rmdir(ring.directory.c_str()) == 0;
  }
  return removed;
}

} // namespace tapeback::ring
