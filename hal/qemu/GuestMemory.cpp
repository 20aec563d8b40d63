#include "hal/qemu/GuestMemory.h"
#include "format/Failure.h"
#include "format/MessageText.h"
#include "hal/IovaSpace.h"
#include "llvm/Support/MathExtras.h"
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>

namespace tapeback {
namespace {

/// From the interrupt page to the end of the legacy hole.
constexpr uint64_t reservedEnd = 0x100000;
constexpr size_t freeRangesTold = 8;

} // namespace

GuestMemory::GuestMemory(FileDescriptor file, uint8_t *base, uint64_t bytes, uint64_t end)
    : file(std::move(file)), base(base), bytes(bytes), end(end) {
  used.emplace(interruptPage, Used{reservedEnd - interruptPage, true});
}

GuestMemory::~GuestMemory() {
  ::munmap(base, bytes);
}

llvm::Expected<std::unique_ptr<GuestMemory>> GuestMemory::create(uint64_t bytes, uint64_t dmaMask) {
  auto failed = [&](const char *what) {
    return failSystem("out-of-memory", std::string("guest memory of ") + hexText(bytes) + " bytes: " + what +
                                           ": " + std::strerror(errno));
  };
  FileDescriptor file(::memfd_create("tapeback-guest-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file)
    return failed("memfd_create");
  if (::ftruncate(file.get(), off_t(bytes)) != 0)
    return failed("ftruncate");
  // A memory file that somebody shrinks under us is a SIGBUS.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed("sealing");
  void *base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (base == MAP_FAILED)
    return failed("mmap");
  uint64_t end = dmaMask < bytes ? llvm::alignDown(dmaMask + 1, pageSize) : bytes;
  return std::unique_ptr<GuestMemory>(
      new GuestMemory(std::move(file), static_cast<uint8_t *>(base), bytes, end));
}

bool GuestMemory::isFree(uint64_t iova, uint64_t length) const {
  if (iova >= end || end - iova < length)
    return false;
  auto next = used.lower_bound(iova);
  if (next != used.end() && next->first - iova < length)
    return false;
  if (next == used.begin())
    return true;
  auto before = std::prev(next);
  return iova - before->first >= before->second.length;
}

std::optional<uint64_t> GuestMemory::findFree(uint64_t length, uint64_t alignment) const {
  uint64_t candidate = llvm::alignTo(firstDeviceAddress, alignment);
  for (const auto &[start, range] : used) {
    if (start + range.length <= candidate)
      continue;
    if (start > candidate && start - candidate >= length)
      break;
    candidate = llvm::alignTo(start + range.length, alignment);
  }
  if (!isFree(candidate, length))
    return std::nullopt;
  return candidate;
}

std::string GuestMemory::freeRanges() const {
  std::string text = "free are";
  size_t count = 0;
  uint64_t from = 0;
  auto tell = [&](uint64_t to) {
    if (to > from && ++count <= freeRangesTold)
      text += (count > 1 ? ", " : " ") + hexText(from) + "–" + hexText(to - 1);
  };
  for (const auto &[start, range] : used) {
    tell(std::min(start, end));
    from = start + range.length;
  }
  tell(end);
  if (count == 0)
    return "nothing is free";
  if (count > freeRangesTold)
    text += " and " + std::to_string(count - freeRangesTold) + " more ranges";
  return text;
}

llvm::Error GuestMemory::clear(uint64_t iova, uint64_t length) {
  // A hole reads as zero through every mapping and takes no memory.
  if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(iova), off_t(length)) != 0)
    return failSystem("out-of-memory", std::string("cannot clear guest memory: ") + std::strerror(errno));
  return llvm::Error::success();
}

llvm::Expected<MemoryRegion> GuestMemory::map(const MapRequest &request) {
  if (request.size == 0)
    return failUsage("bad-map-request", "memory of no size was asked for");
  if (!llvm::isPowerOf2_64(request.alignment) || request.alignment > end)
    return failUsage("bad-map-request",
                     "alignment " + hexText(request.alignment) + " is not a power of two in reach");
  if (request.size > end)
    return failUsage(request.iova ? "iova-unavailable" : "no-device-memory",
                     hexText(request.size) + " bytes are more than the device can reach", {},
                     "it reaches " + hexText(end) + " bytes; ram=SIZE changes how much there is");
  if (used.size() >= maxRegions)
    return failUsage("no-device-memory",
                     "there are " + std::to_string(maxRegions) + " memory regions already");
  uint64_t length = llvm::alignTo(request.size, pageSize);
  MemoryRegion region;
  region.size = length;
  if (request.iova) {
    if (*request.iova % pageSize)
      return failUsage("iova-unavailable",
                       "device address " + hexText(*request.iova) + " is not on a 4 KiB boundary");
    if (!isFree(*request.iova, length))
      return failUsage("iova-unavailable",
                       hexText(length) + " bytes at device address " + hexText(*request.iova) +
                           " are not free",
                       {}, freeRanges());
    region.iova = *request.iova;
  } else {
    std::optional<uint64_t> found = findFree(length, std::max(request.alignment, pageSize));
    if (!found)
      return failUsage("no-device-memory", "no device memory is left for " + hexText(length) + " bytes", {},
                       freeRanges() + "; ram=SIZE gives more");
    region.iova = *found;
  }
  if (llvm::Error error = clear(region.iova, length))
    return error;
  region.host = base + region.iova;
  used.emplace(region.iova, Used{length, false});
  return region;
}

llvm::Error GuestMemory::unmap(uint64_t iova) {
  auto it = used.find(iova);
  if (it == used.end() || it->second.reserved)
    return failUsage("unmapped-memory", "no memory is mapped that starts at device address " + hexText(iova));
  uint64_t length = it->second.length;
  used.erase(it);
  return clear(iova, length);
}

llvm::Expected<uint8_t *> GuestMemory::locate(uint64_t iova, uint64_t length) const {
  auto next = used.upper_bound(iova);
  if (next != used.begin()) {
    const auto &[start, range] = *std::prev(next);
    uint64_t into = iova - start;
    if (!range.reserved && into < range.length && range.length - into >= length)
      return base + iova;
  }
  return failUsage("unmapped-memory", hexText(length) + " bytes at device address " + hexText(iova) +
                                          " are not in one mapped region");
}

uint32_t GuestMemory::takeInterruptWord() {
  auto *word = reinterpret_cast<uint32_t *>(base + interruptPage);
  std::atomic_ref<uint32_t> shared(*word);
  if (shared.load(std::memory_order_relaxed) == 0)
    return 0;
  return shared.exchange(0, std::memory_order_acq_rel);
}

} // namespace tapeback
