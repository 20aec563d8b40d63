// The C API's functions that nvme-exercise uses, over Linux VFIO and without Tapeback: with it the exerciser
// is a VFIO program that does not know of us, for `record --preload`. Registers by pread and pwrite, memory
// looked at where it lies; checks are the program's own.
#include "recorder/tapeback.h"
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

struct tb_device {
  struct Range {
    uint64_t iova, size;
    uint8_t *memory;
  };
  int container = -1, group = -1, device = -1;
  uint64_t registers = 0; ///< Offset of BAR 0 in the device's file.
  uint64_t nextIova = 0x8000000;
  std::vector<Range> ranges;
};

namespace {

char message[256];
using Clock = std::chrono::steady_clock;

int failed(const char *what) {
  snprintf(message, sizeof message, "%.180s: %.60s", what, strerror(errno));
  return TB_E_TARGET;
}

int openAt(tb_device &vfio, const char *address) {
  char path[256], link[256];
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group", address);
  ssize_t length = readlink(path, link, sizeof link - 1);
  if (length <= 0)
    return failed(path);
  link[length] = 0;
  snprintf(path, sizeof path, "/dev/vfio%s", strrchr(link, '/'));
  vfio.container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
  vfio.group = open(path, O_RDWR | O_CLOEXEC);
  if (vfio.container < 0 || vfio.group < 0)
    return failed(path);
  if (ioctl(vfio.group, VFIO_GROUP_SET_CONTAINER, &vfio.container) != 0 ||
      ioctl(vfio.container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) != 0)
    return failed("the container");
  vfio.device = ioctl(vfio.group, VFIO_GROUP_GET_DEVICE_FD, address);
  if (vfio.device < 0)
    return failed("GET_DEVICE_FD");
  vfio_region_info bar = {}, config = {};
  bar.argsz = config.argsz = sizeof bar;
  bar.index = VFIO_PCI_BAR0_REGION_INDEX;
  config.index = VFIO_PCI_CONFIG_REGION_INDEX;
  if (ioctl(vfio.device, VFIO_DEVICE_GET_REGION_INFO, &bar) != 0 ||
      ioctl(vfio.device, VFIO_DEVICE_GET_REGION_INFO, &config) != 0)
    return failed("GET_REGION_INFO");
  vfio.registers = bar.offset;
  uint16_t command = 0;
  constexpr uint16_t memoryAndMaster = 6;
  if (pread(vfio.device, &command, 2, off_t(config.offset) + 4) != 2)
    return failed("reading COMMAND");
  command |= memoryAndMaster;
  if (pwrite(vfio.device, &command, 2, off_t(config.offset) + 4) != 2)
    return failed("writing COMMAND");
  return TB_OK;
}

/// Until `holds` or the deadline.
template <typename Holds>
int waitFor(uint64_t deadline, Holds holds) {
  const auto end = Clock::now() + std::chrono::nanoseconds(deadline);
  for (unsigned turn = 0;; ++turn) {
    int answer = holds();
    if (answer)
      return answer > 0 ? TB_OK : answer;
    if (Clock::now() > end) {
      snprintf(message, sizeof message, "waited in vain");
      return TB_E_TIMEOUT;
    }
    if (turn > 64)
      usleep(50);
  }
}

} // namespace

/// `name` is the device's address.
int tb_open(const char *name, tb_device **device) {
  static tb_device only;
  if (!name) {
    snprintf(message, sizeof message, "--device DOMAIN:BUS:DEVICE.FUNCTION");
    return TB_E_NO_TARGET;
  }
  *device = &only;
  return openAt(only, name);
}

int tb_close(tb_device *device) {
  close(device->device);
  close(device->group);
  close(device->container);
  return TB_OK;
}

const char *tb_error() {
  return message;
}

int tb_read32(tb_device *device, const char *, uint64_t offset, uint32_t *value) {
  return pread(device->device, value, 4, off_t(device->registers + offset)) == 4 ? TB_OK : failed("pread");
}

int tb_write32(tb_device *device, const char *, uint64_t offset, uint32_t value) {
  return pwrite(device->device, &value, 4, off_t(device->registers + offset)) == 4 ? TB_OK : failed("pwrite");
}

int tb_poll(tb_device *device, const char *space, uint64_t offset, unsigned, uint64_t mask, uint64_t expected,
            uint64_t deadline, uint64_t *) {
  return waitFor(deadline, [&] {
    uint32_t value = 0;
    int code = tb_read32(device, space, offset, &value);
    return code < 0 ? code : int((value & mask) == expected);
  });
}

int tb_alloc(tb_device *device, size_t size, size_t, uint64_t *iova, void **pointer) {
  size = (size + 4095) & ~size_t(4095);
  void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return failed("mmap");
  vfio_iommu_type1_dma_map map = {sizeof map, VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
                                  uint64_t(uintptr_t(memory)), device->nextIova, size};
  if (ioctl(device->container, VFIO_IOMMU_MAP_DMA, &map) != 0)
    return failed("MAP_DMA");
  *iova = device->nextIova;
  *pointer = memory;
  device->ranges.push_back({*iova, size, static_cast<uint8_t *>(memory)});
  device->nextIova += size;
  return TB_OK;
}

/// Where that address lies with us; there always is a pointer.
static const uint8_t *bytesAt(const tb_device *device, uint64_t iova) {
  for (const tb_device::Range &range : device->ranges)
    if (iova >= range.iova && iova - range.iova < range.size)
      return range.memory + (iova - range.iova);
  fprintf(stderr, "0x%llx is not mapped\n", (unsigned long long)iova);
  abort();
}

int tb_mem_read(tb_device *, uint64_t, void *, size_t) {
  return TB_E_UNSUPPORTED;
}
int tb_mem_write(tb_device *, uint64_t, const void *, size_t) {
  return TB_E_UNSUPPORTED;
}
int tb_acquire(tb_device *, uint64_t, size_t) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return TB_OK;
}

int tb_wait_mem(tb_device *device, uint64_t iova, unsigned, uint64_t mask, uint64_t expected,
                uint64_t deadline, uint64_t *) {
  const auto *word = reinterpret_cast<const uint32_t *>(bytesAt(device, iova));
  return waitFor(deadline, [&] { return int((__atomic_load_n(word, __ATOMIC_ACQUIRE) & mask) == expected); });
}

int tb_mark(tb_device *, const char *) {
  return TB_OK;
}
int tb_check(tb_device *, const char *, int holds) {
  return holds ? 1 : 0;
}
int tb_check_memory(tb_device *device, const char *, uint64_t iova, const void *expected, size_t size) {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return memcmp(bytesAt(device, iova), expected, size) == 0;
}
