#include "hal/vfio/VfioContainer.h"
#include "format/Failure.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

namespace tapeback {
namespace {

std::string reason() {
  return std::strerror(errno);
}

/// Which process has `path` open, for the message "held by". Looks through /proc; empty if it cannot be told.
std::string holderOf(const std::string &path) {
  std::error_code error;
  for (llvm::sys::fs::directory_iterator process("/proc", error), end; process != end && !error;
       process.increment(error)) {
    std::string pid = llvm::sys::path::filename(process->path()).str();
    if (!llvm::all_of(pid, llvm::isDigit))
      continue;
    std::error_code inner;
    for (llvm::sys::fs::directory_iterator fd("/proc/" + pid + "/fd", inner); fd != end && !inner;
         fd.increment(inner)) {
      char target[PATH_MAX];
      ssize_t n = ::readlink(fd->path().c_str(), target, sizeof target);
      if (n > 0 && llvm::StringRef(target, size_t(n)) == path)
        return pid;
    }
  }
  return {};
}

std::string memlockText() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return "unlimited";
  return std::to_string(limit.rlim_cur) + " bytes";
}

} // namespace

llvm::Expected<std::unique_ptr<VfioContainer>> VfioContainer::open(const PciDevice &device) {
  if (llvm::Error error = checkVfioReady(device))
    return error;
  std::unique_ptr<VfioContainer> result(new VfioContainer());
  result->container.reset(::open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC));
  if (!result->container)
    return failUsage("no-vfio", "/dev/vfio/vfio: " + reason(), device.folder,
                     "load VFIO (as root): modprobe vfio-pci");
  int container = result->container.get();
  if (int version = ::ioctl(container, VFIO_GET_API_VERSION); version != VFIO_API_VERSION)
    return failSystem("vfio-version",
                      "the kernel speaks VFIO version " + std::to_string(version) + ", not 0");
  if (!::ioctl(container, VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU))
    return failUsage("no-iommu", "the kernel has no type-1 IOMMU for VFIO", device.folder,
                     "load it (as root): modprobe vfio_iommu_type1");

  std::string path = "/dev/vfio/" + std::to_string(*device.iommuGroup);
  result->group.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!result->group) {
    if (errno == EBUSY) {
      std::string holder = holderOf(path);
      return failUsage("device-busy",
                       "another process drives the device" +
                           (holder.empty() ? std::string() : " (process " + holder + ")"),
                       path,
                       holder.empty() ? "stop it; `fuser -v " + path + "` (as root) names it"
                                      : "stop it: kill " + holder);
    }
    return failUsage("no-permission", path + ": " + reason(), device.folder,
                     "let this user use it (as root): chown " + std::to_string(::getuid()) + " " + path);
  }
  vfio_group_status status{};
  status.argsz = sizeof status;
  if (::ioctl(result->group.get(), VFIO_GROUP_GET_STATUS, &status) != 0)
    return failSystem("vfio-group", "the status of the IOMMU group cannot be read: " + reason(), path);
  if (!(status.flags & VFIO_GROUP_FLAGS_VIABLE))
    return failUsage("group-not-viable", "the kernel says that the IOMMU group is not viable", path,
                     "every device of the group must be unbound or bound to vfio-pci: ls " + device.folder +
                         "/iommu_group/devices");
  if (::ioctl(result->group.get(), VFIO_GROUP_SET_CONTAINER, &container) != 0)
    return failSystem("vfio-group", "the IOMMU group cannot be put into a container: " + reason(), path);
  if (::ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) != 0)
    return failSystem(
        "vfio-iommu", "the IOMMU cannot be set up: " + reason(), path,
        errno == EPERM
            ? "no interrupt remapping? (as root) modprobe vfio_iommu_type1 allow_unsafe_interrupts=1"
            : "look at the kernel's log: dmesg | tail");
  if (llvm::Error error = result->queryRanges())
    return error;
  return result;
}

llvm::Error VfioContainer::queryRanges() {
  // The kernel says how much it has to tell; bounded, though it is trusted: capabilities are a few hundred
  // bytes.
  std::vector<uint8_t> buffer(sizeof(vfio_iommu_type1_info));
  for (int attempt = 0;; ++attempt) {
    auto *info = reinterpret_cast<vfio_iommu_type1_info *>(buffer.data());
    std::memset(buffer.data(), 0, buffer.size());
    info->argsz = uint32_t(buffer.size());
    if (::ioctl(container.get(), VFIO_IOMMU_GET_INFO, info) != 0)
      return failSystem("vfio-iommu", "the IOMMU does not say what it can do: " + reason());
    if (info->argsz <= buffer.size())
      break;
    if (attempt == 3 || info->argsz > (1u << 20))
      return failSystem("vfio-iommu", "the IOMMU's description keeps growing");
    buffer.resize(info->argsz);
  }
  const auto *info = reinterpret_cast<const vfio_iommu_type1_info *>(buffer.data());
  if ((info->flags & VFIO_IOMMU_INFO_CAPS) && info->cap_offset)
    for (uint32_t at = info->cap_offset, steps = 0;
         at >= sizeof(vfio_iommu_type1_info) && at + sizeof(vfio_info_cap_header) <= buffer.size() &&
         steps < 64;
         ++steps) {
      vfio_info_cap_header header;
      std::memcpy(&header, buffer.data() + at, sizeof header);
      if (header.id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE) {
        vfio_iommu_type1_info_cap_iova_range cap;
        if (at + sizeof cap > buffer.size())
          break;
        std::memcpy(&cap, buffer.data() + at, sizeof cap);
        for (uint32_t i = 0; i < cap.nr_iovas; ++i) {
          vfio_iova_range range;
          size_t from = at + sizeof cap + size_t(i) * sizeof range;
          if (from + sizeof range > buffer.size())
            break;
          std::memcpy(&range, buffer.data() + from, sizeof range);
          usable.push_back({range.start, range.end});
        }
      }
      at = header.next;
    }
  if (usable.empty()) // Kernels before 5.4 do not tell; what does not fit then shows at map().
    usable.push_back({0, (uint64_t(1) << 39) - 1});
  return llvm::Error::success();
}

bool VfioContainer::inRanges(uint64_t iova, uint64_t size) const {
  return size != 0 && llvm::any_of(usable, [&](const IovaRange &range) {
           return iova >= range.first && iova <= range.last && size - 1 <= range.last - iova;
         });
}

std::string VfioContainer::rangesText() const {
  std::string text;
  for (const IovaRange &range : usable)
    text += (text.empty() ? "0x" : ", 0x") + llvm::utohexstr(range.first, true) + "..0x" +
            llvm::utohexstr(range.last, true);
  return text;
}

llvm::Expected<FileDescriptor> VfioContainer::deviceDescriptor(const PciDevice &device) {
  FileDescriptor fd(::ioctl(group.get(), VFIO_GROUP_GET_DEVICE_FD, device.address.str().c_str()));
  if (!fd)
    return failTarget("device-unavailable", "VFIO does not hand out the device: " + reason(), device.folder,
                      "look at the kernel's log: dmesg | tail");
  ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  return fd;
}

llvm::Error VfioContainer::map(uint64_t iova, void *host, uint64_t size) {
  vfio_iommu_type1_dma_map map{};
  map.argsz = sizeof map;
  map.flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE;
  map.vaddr = reinterpret_cast<uintptr_t>(host);
  map.iova = iova;
  map.size = size;
  if (::ioctl(container.get(), VFIO_IOMMU_MAP_DMA, &map) == 0)
    return llvm::Error::success();
  std::string where = "IOVA 0x" + llvm::utohexstr(iova, true) + ", " + std::to_string(size) + " bytes";
  if (errno == ENOMEM)
    return failUsage("memlock-limit",
                     "the memory cannot be pinned: the limit of locked memory is " + memlockText(), where,
                     "raise it: ulimit -l unlimited (as root, or in /etc/security/limits.conf)");
  if (errno == EINVAL || errno == EEXIST || errno == EFAULT)
    return failUsage("iova-unavailable", "the IOMMU does not take this address: " + reason(), where,
                     "usable addresses: " + rangesText());
  return failSystem("vfio-map", "the memory cannot be mapped for the device: " + reason(), where);
}

llvm::Error VfioContainer::unmap(uint64_t iova, uint64_t size) {
  vfio_iommu_type1_dma_unmap unmap{};
  unmap.argsz = sizeof unmap;
  unmap.iova = iova;
  unmap.size = size;
  if (::ioctl(container.get(), VFIO_IOMMU_UNMAP_DMA, &unmap) != 0 || unmap.size != size)
    return failSystem("vfio-unmap", "the mapping cannot be taken back: " + reason(),
                      "IOVA 0x" + llvm::utohexstr(iova, true));
  return llvm::Error::success();
}

} // namespace tapeback
