#include "recorder/client/DirtyPages.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tapeback::client {

namespace {

constexpr uint64_t pageBytes = 4096;

// Newer than Debian 12's headers. Source: Linux, include/uapi/linux/userfaultfd.h and fs.h (6.7), and
// Documentation/admin-guide/mm/pagemap.rst.
constexpr uint64_t featureShmem = 1 << 12, featureUnpopulated = 1 << 13, featureAsync = 1 << 15;
constexpr int userModeOnly = 1;
constexpr uint64_t scanProtectMatching = 1 << 0, scanCheckAsync = 1 << 1, pageIsWritten = 1 << 1;
struct PageRegion {
  uint64_t start, end, categories;
};
struct ScanArguments {
  uint64_t size, flags, start, end, walkEnd, regions, regionCount, maxPages;
  uint64_t categoryInverted, categoryMask, categoryAnyOfMask, returnMask;
};
constexpr unsigned long pagemapScan = _IOWR('f', 16, ScanArguments);

/// Of an entry of /proc/PID/pagemap (pagemap.rst).
constexpr uint64_t softDirtyBit = uint64_t(1) << 55;

void closeIt(int &fd) {
  if (fd >= 0)
    close(fd);
  fd = -1;
}

} // namespace

const char *DirtyPages::name(Kind kind) {
  switch (kind) {
  case Kind::Scan: return "PAGEMAP_SCAN";
  case Kind::SoftDirty: return "soft-dirty bits";
  case Kind::None: return "comparing";
  }
  return "comparing";
}

DirtyPages::Kind DirtyPages::start(Kind best) {
  stop();
  if (best == Kind::None)
    return how;
  pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0)
    return how;
  if (best == Kind::Scan && startScan() && works())
    return how;
  closeIt(faults);
  if (startSoftDirty() && works())
    return how;
  stop();
  return how;
}

void DirtyPages::stop() {
  for (Area &area : areas)
    free(area.dirty);
  areas.release();
  closeIt(pagemap);
  closeIt(faults);
  closeIt(clearRefs);
  how = Kind::None;
}

bool DirtyPages::startScan() {
  faults = int(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | userModeOnly));
  if (faults < 0)
    return false;
  uffdio_api api = {};
  api.api = UFFD_API;
  // Unpopulated too: a page that a device's process made and this one only reads must not look stored to.
  api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | featureShmem | featureUnpopulated | featureAsync;
  how = Kind::Scan;
  return ioctl(faults, UFFDIO_API, &api) == 0;
}

bool DirtyPages::startSoftDirty() {
  clearRefs = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  how = Kind::SoftDirty;
  return clearRefs >= 0;
}

/// A page of our own is stored to, and not: told apart?
bool DirtyPages::works() {
  void *page = mmap(nullptr, 2 * pageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return false;
  auto *bytes = static_cast<volatile uint8_t *>(page);
  bytes[0] = 1;
  bytes[pageBytes] = 1;
  bool right = false;
  if (add(page, 2 * pageBytes)) {
    uint64_t clean = 0, dirty = 0;
    bool told = collect(page, 2 * pageBytes, [](uint8_t *, uint64_t) {});
    told = told && collect(page, 2 * pageBytes, [&](uint8_t *, uint64_t n) { clean += n; });
    bytes[pageBytes] = 2;
    told = told && collect(page, 2 * pageBytes, [&](uint8_t *at, uint64_t n) {
             dirty += at == static_cast<uint8_t *>(page) + pageBytes ? n : 2 * pageBytes;
           });
    // With more threads soft-dirty says that all is dirty: right, but no proof. Then its bits are looked at.
    right = told && dirty == pageBytes && clean == 0;
    remove(page);
  }
  munmap(page, 2 * pageBytes);
  return right;
}

bool DirtyPages::protect(uintptr_t start, uint64_t bytes) const {
  uffdio_writeprotect protect = {};
  protect.range = {start, bytes};
  protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  return ioctl(faults, UFFDIO_WRITEPROTECT, &protect) == 0;
}

bool DirtyPages::add(void *memory, uint64_t bytes) {
  auto start = reinterpret_cast<uintptr_t>(memory);
  if (!bytes || start % pageBytes || bytes % pageBytes)
    return false;
  Area area = {start, bytes, nullptr};
  if (how == Kind::SoftDirty) {
    area.dirty = static_cast<uint64_t *>(calloc((bytes / pageBytes + 63) / 64, sizeof(uint64_t)));
    if (!area.dirty)
      return false;
  }
  if (!areas.push(area)) {
    free(area.dirty);
    return false;
  }
  if (how != Kind::Scan)
    return true;
  uffdio_register watched = {};
  watched.range = {start, bytes};
  watched.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(faults, UFFDIO_REGISTER, &watched) == 0) {
    if (protect(start, bytes))
      return true;
    uffdio_range range = {start, bytes};
    ioctl(faults, UFFDIO_UNREGISTER, &range);
  }
  areas.truncate(areas.size() - 1);
  return false;
}

void DirtyPages::remove(void *memory) {
  auto start = reinterpret_cast<uintptr_t>(memory);
  for (size_t i = 0; i < areas.size(); ++i) {
    if (areas[i].start != start)
      continue;
    if (how == Kind::Scan) {
      // Fails where the range was unmapped already, which ends the watch as well.
      uffdio_range range = {areas[i].start, areas[i].bytes};
      ioctl(faults, UFFDIO_UNREGISTER, &range);
    }
    free(areas[i].dirty);
    areas.erase(i);
    return;
  }
}

bool DirtyPages::collectRuns(uintptr_t start, uint64_t bytes, Array<Run> &runs) {
  switch (how) {
  case Kind::Scan: return scan(start, bytes, runs);
  case Kind::SoftDirty: return softDirty(start, bytes, runs);
  case Kind::None: return runs.push({start, bytes});
  }
  return false;
}

/// Looking and protecting anew is one step for each page: no store falls in between.
bool DirtyPages::scan(uintptr_t start, uint64_t bytes, Array<Run> &runs) const {
  PageRegion found[128];
  ScanArguments arguments = {};
  arguments.size = sizeof(arguments);
  arguments.flags = scanProtectMatching | scanCheckAsync;
  arguments.end = start + bytes;
  arguments.regions = reinterpret_cast<uintptr_t>(found);
  arguments.regionCount = sizeof(found) / sizeof(*found);
  arguments.categoryMask = arguments.returnMask = pageIsWritten;
  for (uint64_t from = start; from < start + bytes; from = arguments.walkEnd) {
    arguments.start = from;
    long count = ioctl(pagemap, pagemapScan, &arguments);
    if (count < 0 || arguments.walkEnd <= from)
      return false;
    for (long i = 0; i < count; ++i)
      if (!runs.push({uintptr_t(found[i].start), found[i].end - found[i].start}))
        return false;
  }
  return true;
}

/// Moves the kernel's bits of an area into its own.
bool DirtyPages::harvest(Area &area) const {
  uint64_t entries[512], pages = area.bytes / pageBytes;
  for (uint64_t page = 0; page < pages;) {
    uint64_t count = pages - page < 512 ? pages - page : 512;
    ssize_t got = pread(pagemap, entries, count * 8, off_t((area.start / pageBytes + page) * 8));
    if (got <= 0 || got % 8)
      return false;
    for (uint64_t i = 0; i < uint64_t(got) / 8; ++i, ++page)
      if (entries[i] & softDirtyBit)
        area.dirty[page / 64] |= uint64_t(1) << (page % 64);
  }
  return true;
}

/// The bits are cleared for the whole process, so those of every area are taken first.
bool DirtyPages::harvest() {
  for (Area &area : areas)
    if (!harvest(area))
      return false;
  return pwrite(clearRefs, "4", 1, 0) == 1;
}

bool DirtyPages::softDirty(uintptr_t start, uint64_t bytes, Array<Run> &runs) {
  if (!__libc_single_threaded)
    return runs.push({start, bytes});
  if (!harvest())
    return false;
  for (Area &area : areas) {
    if (start < area.start || start - area.start >= area.bytes)
      continue;
    uint64_t first = (start - area.start) / pageBytes, last = first + bytes / pageBytes;
    for (uint64_t page = first; page < last; ++page) {
      uint64_t bit = uint64_t(1) << (page % 64);
      if (!(area.dirty[page / 64] & bit))
        continue;
      area.dirty[page / 64] &= ~bit;
      uintptr_t at = area.start + page * pageBytes;
      if (runs.size() && runs[runs.size() - 1].start + runs[runs.size() - 1].bytes == at)
        runs[runs.size() - 1].bytes += pageBytes;
      else if (!runs.push({at, pageBytes}))
        return false;
    }
    return true;
  }
  return false;
}

} // namespace tapeback::client
