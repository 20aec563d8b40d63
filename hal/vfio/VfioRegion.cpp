#include "hal/vfio/VfioRegion.h"
#include "format/Failure.h"
#include "hal/vfio/Mmio.h"
#include "llvm/ADT/StringExtras.h"
#include <cerrno>
#include <cstring>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tapeback {

llvm::Expected<VfioRegion> VfioRegion::open(int device, uint32_t index, bool useMaps) {
  VfioRegion region;
  region.device = device;
  region.index = index;
  std::vector<uint8_t> buffer(sizeof(vfio_region_info));
  for (int attempt = 0;; ++attempt) {
    auto *info = reinterpret_cast<vfio_region_info *>(buffer.data());
    std::memset(buffer.data(), 0, buffer.size());
    info->argsz = uint32_t(buffer.size());
    info->index = index;
    if (::ioctl(device, VFIO_DEVICE_GET_REGION_INFO, info) != 0) {
      if (errno == EINVAL) // The device does not have this region.
        return region;
      return failTarget("region-unavailable",
                        "region " + std::to_string(index) + ": " + std::strerror(errno));
    }
    if (info->argsz <= buffer.size())
      break;
    if (attempt == 3 || info->argsz > (1u << 20))
      return failSystem("region-unavailable",
                        "the description of region " + std::to_string(index) + " keeps growing");
    buffer.resize(info->argsz);
  }
  const auto *info = reinterpret_cast<const vfio_region_info *>(buffer.data());
  region.flags = info->flags;
  region.bytes = info->size;
  region.fileOffset = info->offset;
  if (useMaps && region.bytes && (info->flags & VFIO_REGION_INFO_FLAG_MMAP))
    if (llvm::Error error = region.mapAreas(device, buffer))
      return error;
  return region;
}

llvm::Error VfioRegion::mapAreas(int, const std::vector<uint8_t> &buffer) {
  const auto *info = reinterpret_cast<const vfio_region_info *>(buffer.data());
  bool sparse = false;
  if ((info->flags & VFIO_REGION_INFO_FLAG_CAPS) && info->cap_offset)
    for (uint32_t at = info->cap_offset, steps = 0;
         at >= sizeof(vfio_region_info) && at + sizeof(vfio_info_cap_header) <= buffer.size() && steps < 64;
         ++steps) {
      vfio_info_cap_header header;
      std::memcpy(&header, buffer.data() + at, sizeof header);
      if (header.id == VFIO_REGION_INFO_CAP_SPARSE_MMAP) {
        sparse = true;
        vfio_region_info_cap_sparse_mmap cap;
        if (at + sizeof cap > buffer.size())
          break;
        std::memcpy(&cap, buffer.data() + at, sizeof cap);
        for (uint32_t i = 0; i < cap.nr_areas; ++i) {
          vfio_region_sparse_mmap_area area;
          size_t from = at + sizeof cap + size_t(i) * sizeof area;
          if (from + sizeof area > buffer.size())
            break;
          std::memcpy(&area, buffer.data() + from, sizeof area);
          mapArea(area.offset, area.size);
        }
      }
      at = header.next;
    }
  if (!sparse)
    mapArea(0, bytes);
  return llvm::Error::success();
}

/// An area that cannot be mapped is reached through the file: slower, and as exact.
void VfioRegion::mapArea(uint64_t first, uint64_t size) {
  if (!size || first > bytes || size > bytes - first)
    return;
  int protection = (readable() ? PROT_READ : 0) | (writable() ? PROT_WRITE : 0);
  void *host = ::mmap(nullptr, size, protection, MAP_SHARED, device, off_t(fileOffset + first));
  if (host != MAP_FAILED)
    maps.push_back({first, size, static_cast<volatile uint8_t *>(host)});
}

VfioRegion::VfioRegion(VfioRegion &&other) noexcept
    : device(other.device), index(other.index), flags(other.flags), bytes(other.bytes),
      fileOffset(other.fileOffset), maps(std::move(other.maps)) {
  other.maps.clear();
}

VfioRegion::~VfioRegion() {
  for (const Map &map : maps)
    ::munmap(const_cast<uint8_t *>(map.host), map.size);
}

bool VfioRegion::readable() const {
  return flags & VFIO_REGION_INFO_FLAG_READ;
}
bool VfioRegion::writable() const {
  return flags & VFIO_REGION_INFO_FLAG_WRITE;
}

volatile uint8_t *VfioRegion::locate(uint64_t offset, unsigned width) const {
  for (const Map &map : maps)
    if (offset >= map.first && offset - map.first < map.size && map.size - (offset - map.first) >= width)
      return map.host + (offset - map.first);
  return nullptr;
}

llvm::Error VfioRegion::checkShape(uint64_t offset, unsigned width, bool throughFile) const {
  std::string where = "region " + std::to_string(index) + " + 0x" + llvm::utohexstr(offset, true);
  if (offset % width)
    return failUsage("misaligned", "an access of " + std::to_string(width) + " bytes is not aligned", where,
                     "the bus would see several accesses; use narrower ones");
  if (throughFile && width == 8)
    return failUsage("width-unsupported", "the kernel's VFIO would split an access of 8 bytes here", where,
                     "use two accesses of 4 bytes, or map the region (no `access=file`)");
  return llvm::Error::success();
}

llvm::Expected<uint64_t> VfioRegion::read(uint64_t offset, unsigned width) const {
  volatile uint8_t *host = locate(offset, width);
  if (llvm::Error error = checkShape(offset, width, !host))
    return error;
  if (host)
    return mmio::load(host, width);
  uint64_t value = 0;
  ssize_t n = ::pread(device, &value, width, off_t(fileOffset + offset));
  if (n != ssize_t(width))
    return failTarget("access-failed",
                      std::string("the read failed: ") + (n < 0 ? std::strerror(errno) : "short"),
                      "region " + std::to_string(index) + " + 0x" + llvm::utohexstr(offset, true));
  return value; // Little-endian hosts only; checked where the target is opened.
}

llvm::Error VfioRegion::write(uint64_t offset, unsigned width, uint64_t value) const {
  volatile uint8_t *host = locate(offset, width);
  if (llvm::Error error = checkShape(offset, width, !host))
    return error;
  if (host) {
    mmio::store(host, width, value);
    return llvm::Error::success();
  }
  ssize_t n = ::pwrite(device, &value, width, off_t(fileOffset + offset));
  if (n != ssize_t(width))
    return failTarget("access-failed",
                      std::string("the write failed: ") + (n < 0 ? std::strerror(errno) : "short"),
                      "region " + std::to_string(index) + " + 0x" + llvm::utohexstr(offset, true));
  return llvm::Error::success();
}

} // namespace tapeback
