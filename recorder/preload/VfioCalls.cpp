#include "recorder/preload/VfioCalls.h"
#include "recorder/preload/RealCalls.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/vfio.h>
#include <sys/mman.h>

using namespace tapeback;
using namespace tapeback::client;

namespace tapeback::preload {
namespace {

/// How long a replay waits for an interrupt that the program read: the program never says how long it would
/// have waited.
constexpr uint64_t interruptDeadlineNs = 10'000'000'000;

/// Keeps errno as the real call left it, whatever recording does.
class KeepErrno {
public:
  KeepErrno() : saved(errno) {}
  ~KeepErrno() { errno = saved; }

private:
  int saved;
};

//===- Polls
//----------------------------------------------------------------------------------------------------===//

/// How long a replay waits for what the program polled for: the program never says.
constexpr uint64_t pollDeadlineNs = 10'000'000'000;

/// The reads so far were no poll after all, since something else comes first: one read of what they saw last.
/// Call with the device's lock held, before anything else is recorded of the device.
void settlePoll(DeviceState &state) {
  OpenPoll poll = state.poll;
  state.poll.reads = 0;
  if (!poll.reads)
    return;
  Operation operation(&state.device, PacketKind::RegisterRead);
  operation.record.space = uint16_t(poll.space + 1);
  operation.record.address = poll.address;
  operation.record.width = poll.width;
  operation.record.time = poll.since;
  operation.issue();
  operation.complete(Completion::Done, poll.value);
}

/// A read that came back with `value`. Repeated reads of a register that ends an activity become one poll,
/// with the condition that ended it: how often the program looked depends on the machine, that it waited does
/// not.
void recordRead(DeviceState &state, uint16_t space, uint64_t at, uint8_t width, uint64_t value,
                uint64_t since) {
  tb_device &device = state.device;
  OpenPoll &poll = state.poll;
  if (poll.reads && (poll.space != space || poll.address != at || poll.width != width))
    settlePoll(state);
  uint64_t mask = 0, expected = 0;
  Follower::Look look = device.follower.look(space, at, width, value, mask, expected);
  if (look == Follower::Look::Waiting) {
    poll = OpenPoll{poll.reads + 1, poll.reads ? poll.since : since, at, value, space, width};
    return;
  }
  ring::Producer::Group group(session().producer);
  bool polled = poll.reads != 0;
  Operation operation(&device, polled ? PacketKind::Poll : PacketKind::RegisterRead);
  operation.record.space = uint16_t(space + 1);
  operation.record.address = at;
  operation.record.width = width;
  operation.record.time = polled ? poll.since : since;
  if (polled) {
    operation.record.mask = mask;
    operation.record.expected = expected;
    operation.record.deadline = pollDeadlineNs;
  }
  operation.issue();
  operation.complete(Completion::Done, value, polled ? poll.reads + 1 : 0);
  poll.reads = 0;
  device.follower.afterRead(device, space, at, width, value);
}

//===- Memory
//---------------------------------------------------------------------------------------------------===//

/// Mappings of a container, also from before its devices were opened.
struct Mapping {
  int container;
  uint64_t iova, size;
  uint8_t *host;
};
Array<Mapping> mappings;
pthread_mutex_t mappingsLock = PTHREAD_MUTEX_INITIALIZER;

void recordMap(tb_device &device, const Mapping &mapping) {
  Locked lock(device.lock);
  Operation operation(&device, PacketKind::MemoryMap);
  operation.record.address = mapping.iova;
  operation.record.length = mapping.size;
  operation.issue();
  operation.complete(Completion::Done);
  // Without memory for the entry, what the device reads there is recorded as not captured.
  Region region = {mapping.iova, mapping.size, mapping.host};
  if (device.regions.push(region))
    device.follower.mapped(device, region, 0);
}

void recordUnmap(tb_device &device, uint64_t iova, uint64_t size) {
  Locked lock(device.lock);
  // The kernel unmaps whole mappings inside the range.
  for (size_t i = 0; i < device.regions.size();) {
    const Region region = device.regions[i];
    if (region.iova < iova || region.iova - iova >= size) {
      ++i;
      continue;
    }
    Operation operation(&device, PacketKind::MemoryUnmap);
    operation.record.address = region.iova;
    operation.record.length = region.size;
    operation.issue();
    operation.complete(Completion::Done);
    device.follower.unmapped(region);
    device.regions.erase(i);
  }
}

template <typename Visit>
void forDevicesOf(int container, Visit visit) {
  for (unsigned i = 0; DeviceState *state = deviceAt(i); ++i)
    if (state->device.open.load(std::memory_order_acquire) && containerOf(state) == container)
      visit(*state);
}

//===- Devices
//--------------------------------------------------------------------------------------------------===//

const char *regionName(uint32_t index, char (&buffer)[16]) {
  if (index == VFIO_PCI_CONFIG_REGION_INDEX)
    return "config";
  if (index == VFIO_PCI_ROM_REGION_INDEX)
    return "rom";
  snprintf(buffer, sizeof(buffer), "bar%u", index);
  return buffer;
}

/// Where the device's regions lie in its file: the kernel says, we do not assume.
bool readRegions(DeviceState &state, int fd) {
  state.regions.clear();
  state.device.spaces.clear();
  for (uint32_t index = VFIO_PCI_BAR0_REGION_INDEX; index <= VFIO_PCI_CONFIG_REGION_INDEX; ++index) {
    vfio_region_info info{};
    info.argsz = sizeof info;
    info.index = index;
    if (real().ioctl(fd, VFIO_DEVICE_GET_REGION_INFO, &info) != 0 || info.size == 0)
      continue;
    DeviceSpace space = {};
    char buffer[16];
    strcpy(space.name, regionName(index, buffer));
    space.size = info.size;
    if (!state.device.spaces.push(space) ||
        !state.regions.push({info.offset, info.size, uint16_t(state.device.spaces.size() - 1)}))
      return false;
  }
  return true;
}

/// The DeviceOpen record: its spaces, and how it was recorded.
void recordOpen(const tb_device &device) {
  char payload[1024];
  size_t used = 0;
  auto put = [&](const char *text) {
    size_t length = strlen(text) + 1;
    if (length <= sizeof(payload) - used) {
      memcpy(payload + used, text, length);
      used += length;
    }
  };
  char number[16];
  snprintf(number, sizeof(number), "%zu", device.spaces.size());
  put(number);
  for (size_t i = 0; i < device.spaces.size(); ++i)
    put(device.spaces[i].name);
  put("kind");
  put("vfio");
  put("capture");
  put("preload");
  ring::Record record = blankRecord(&device, PacketKind::Open);
  record.type = ring::RecordType::DeviceOpen;
  session().producer.append(record, payload, used);
}

void note(const tb_device &device, const char *text) {
  ring::Record record = blankRecord(&device, PacketKind::Tick);
  record.type = ring::RecordType::Note;
  session().producer.append(record, text, strlen(text));
}

void deviceOpened(int fd, int group, const char *name) {
  DeviceState *state = deviceByName(name);
  if (!state || forked())
    return;
  if (!state->device.open.load(std::memory_order_acquire)) {
    const capture::Table *table = session().table();
    const auto *described = &capture::elements<capture::Device>(table, table->devices)[state->device.id];
    if (!readRegions(*state, fd) || !state->device.follower.attach(table, described, state->device))
      return; // Out of memory: the program goes on unrecorded, and the tape says that it recorded nothing.
    state->group = group;
    state->device.regions.clear();
    recordOpen(state->device);
    state->device.open.store(true, std::memory_order_release);
    int container = fileOf(group).container;
    Locked lock(mappingsLock);
    for (const Mapping &mapping : mappings)
      if (mapping.container == container)
        recordMap(state->device, mapping);
  }
  setFile(fd, File{FileKind::Device, -1, group, state, 0});
}

void learnInterrupts(DeviceState &state, const vfio_irq_set &set) {
  bool ours = set.index == VFIO_PCI_INTX_IRQ_INDEX || set.index == VFIO_PCI_MSI_IRQ_INDEX ||
              set.index == VFIO_PCI_MSIX_IRQ_INDEX;
  if (!ours || !(set.flags & VFIO_IRQ_SET_DATA_EVENTFD) || !(set.flags & VFIO_IRQ_SET_ACTION_TRIGGER))
    return;
  for (uint32_t i = 0; i < set.count && sizeof(set) + (i + 1) * sizeof(int32_t) <= set.argsz; ++i) {
    int32_t fd = -1;
    memcpy(&fd, set.data + i * sizeof fd, sizeof fd);
    if (fd >= 0)
      setFile(fd, File{FileKind::Interrupt, -1, -1, &state, set.start + i});
  }
}

int recordedReset(DeviceState &state, int fd, unsigned long request, void *argument, uint64_t kind) {
  Locked lock(state.device.lock);
  settlePoll(state);
  Operation operation(&state.device, PacketKind::Reset);
  operation.record.value = kind;
  operation.issue();
  int result = real().ioctl(fd, request, argument);
  KeepErrno keep;
  state.device.follower.reset();
  operation.complete(result == 0 ? Completion::Done : Completion::Failed, kind);
  return result;
}

const FileRegion *regionAt(const DeviceState &state, uint64_t offset) {
  for (size_t i = 0; i < state.regions.size(); ++i)
    if (offset >= state.regions[i].offset && offset - state.regions[i].offset < state.regions[i].size)
      return &state.regions[i];
  return nullptr;
}

/// The widest access that the kernel makes of what is left: aligned, at most 4 bytes (vfio_pci_rdwr).
unsigned accessWidth(uint64_t offset, size_t left) {
  for (unsigned width : {4u, 2u})
    if (left >= width && offset % width == 0)
      return width;
  return 1;
}

} // namespace

int containerIoctl(int fd, unsigned long request, void *argument) {
  int result = real().ioctl(fd, request, argument);
  KeepErrno keep;
  if (result != 0 || !argument || forked())
    return result;
  if (request == VFIO_IOMMU_MAP_DMA) {
    vfio_iommu_type1_dma_map map;
    memcpy(&map, argument, sizeof map);
    // The kernel's interface has the pointer as a number. NOLINTNEXTLINE(performance-no-int-to-ptr)
    auto *host = reinterpret_cast<uint8_t *>(static_cast<uintptr_t>(map.vaddr));
    Mapping mapping{fileOf(fd).container, map.iova, map.size, host};
    {
      Locked lock(mappingsLock);
      (void)mappings.push(mapping); // As above: without memory it is not captured, and said to be so.
    }
    forDevicesOf(mapping.container, [&](DeviceState &state) { recordMap(state.device, mapping); });
  } else if (request == VFIO_IOMMU_UNMAP_DMA) {
    vfio_iommu_type1_dma_unmap unmap;
    memcpy(&unmap, argument, sizeof unmap);
    int container = fileOf(fd).container;
    const uint64_t first = unmap.iova,
                   size = unmap.size; // A struct with a flexible array cannot be captured.
    forDevicesOf(container, [&](DeviceState &state) { recordUnmap(state.device, first, size); });
    Locked lock(mappingsLock);
    for (size_t i = 0; i < mappings.size();)
      if (mappings[i].container == container && mappings[i].iova >= first && mappings[i].iova - first < size)
        mappings.erase(i);
      else
        ++i;
  }
  return result;
}

int groupIoctl(int fd, unsigned long request, void *argument) {
  int result = real().ioctl(fd, request, argument);
  KeepErrno keep;
  if (request == VFIO_GROUP_SET_CONTAINER && result == 0 && argument) {
    int container = -1;
    memcpy(&container, argument, sizeof container);
    File file = fileOf(fd);
    file.container = fileOf(container).container;
    setFile(fd, file);
  } else if (request == VFIO_GROUP_GET_DEVICE_FD && result >= 0 && argument) {
    deviceOpened(result, fd, static_cast<const char *>(argument));
  }
  return result;
}

int deviceIoctl(int fd, unsigned long request, void *argument) {
  DeviceState *state = fileOf(fd).device;
  if (!state || forked())
    return real().ioctl(fd, request, argument);
  if (request == VFIO_DEVICE_RESET)
    return recordedReset(*state, fd, request, argument, 0);
  if (request == VFIO_DEVICE_PCI_HOT_RESET)
    return recordedReset(*state, fd, request, argument, 2);
  int result = real().ioctl(fd, request, argument);
  KeepErrno keep;
  if (result == 0 && argument && request == VFIO_DEVICE_GET_REGION_INFO) {
    // Without the flag a program that follows the interface uses pread and pwrite, which we see.
    auto *info = static_cast<vfio_region_info *>(argument);
    info->flags &= ~uint32_t(VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS);
    info->cap_offset = 0;
  } else if (result == 0 && argument && request == VFIO_DEVICE_SET_IRQS) {
    learnInterrupts(*state, *static_cast<const vfio_irq_set *>(argument));
  }
  return result;
}

ssize_t deviceRead(int fd, void *out, size_t size, off_t offset) {
  DeviceState *state = fileOf(fd).device;
  const FileRegion *region = state && !forked() ? regionAt(*state, uint64_t(offset)) : nullptr;
  if (!region || size == 0)
    return real().pread(fd, out, size, offset);
  tb_device &device = state->device;
  size_t done = 0;
  while (done < size) {
    uint64_t at = uint64_t(offset) + done - region->offset;
    if (at >= region->size)
      break;
    unsigned width = accessWidth(at, size - done);
    Locked lock(device.lock);
    uint64_t value = 0, since = session().producer.stamp();
    ssize_t n = real().pread(fd, &value, width, off_t(uint64_t(offset) + done));
    KeepErrno keep;
    if (n != ssize_t(width)) {
      settlePoll(*state);
      Operation operation(&device, PacketKind::RegisterRead);
      operation.record.space = uint16_t(region->space + 1);
      operation.record.address = at;
      operation.record.width = uint8_t(width);
      operation.record.time = since;
      operation.issue();
      operation.complete(Completion::Failed);
      return done ? ssize_t(done) : n;
    }
    recordRead(*state, region->space, at, uint8_t(width), value, since);
    memcpy(static_cast<char *>(out) + done, &value, width);
    done += width;
  }
  return ssize_t(done);
}

ssize_t deviceWrite(int fd, const void *in, size_t size, off_t offset) {
  DeviceState *state = fileOf(fd).device;
  const FileRegion *region = state && !forked() ? regionAt(*state, uint64_t(offset)) : nullptr;
  if (!region || size == 0)
    return real().pwrite(fd, in, size, offset);
  tb_device &device = state->device;
  size_t done = 0;
  while (done < size) {
    uint64_t at = uint64_t(offset) + done - region->offset;
    if (at >= region->size)
      break;
    unsigned width = accessWidth(at, size - done);
    uint64_t value = 0;
    memcpy(&value, static_cast<const char *>(in) + done, width);
    Locked lock(device.lock);
    settlePoll(*state);
    Operation operation(&device, PacketKind::RegisterWrite);
    operation.record.space = uint16_t(region->space + 1);
    operation.record.address = at;
    operation.record.width = uint8_t(width);
    operation.record.value = value;
    {
      ring::Producer::Group group(session().producer);
      device.follower.beforeWrite(device, region->space, at, width, value);
      operation.issue();
    }
    ssize_t n = real().pwrite(fd, &value, width, off_t(uint64_t(offset) + done));
    KeepErrno keep;
    operation.complete(n == ssize_t(width) ? Completion::Done : Completion::Failed, value);
    if (n != ssize_t(width))
      return done ? ssize_t(done) : n;
    done += width;
  }
  return ssize_t(done);
}

ssize_t interruptRead(int fd, void *out, size_t size) {
  File file = fileOf(fd);
  if (!file.device || forked() || !file.device->device.open.load(std::memory_order_acquire))
    return real().read(fd, out, size);
  // The device's lock is not held while waiting: what is waited for may be another thread's doing.
  Operation operation(&file.device->device, PacketKind::Interrupt);
  operation.record.address = file.vector;
  operation.record.deadline = interruptDeadlineNs;
  uint64_t begin = session().producer.stamp();
  ssize_t n = real().read(fd, out, size);
  KeepErrno keep;
  if (n != ssize_t(sizeof(uint64_t)))
    return n; // No interrupt was there (a descriptor that does not block): nothing happened.
  uint64_t count = 0;
  memcpy(&count, out, sizeof count);
  Locked lock(file.device->device.lock);
  ring::Producer::Group group(session().producer);
  settlePoll(*file.device);
  operation.record.time = begin;
  operation.issue();
  operation.complete(Completion::Done, 0, count);
  return n;
}

void *refuseMap(int fd) {
  DeviceState *state = fileOf(fd).device;
  if (state && !state->mapRefused) {
    state->mapRefused = true;
    char text[256];
    snprintf(text, sizeof(text),
             "device '%s': the program maps the device's registers although the region query says that they "
             "cannot be "
             "mapped; refused, since accesses through a mapping cannot be seen",
             state->device.alias);
    note(state->device, text);
    fprintf(stderr, "tapeback: %s\n", text);
  }
  errno = ENODEV;
  return MAP_FAILED;
}

void deviceClosed(DeviceState *state) {
  if (!state || forked() || isOpen(state))
    return;
  KeepErrno keep;
  Locked lock(state->device.lock);
  settlePoll(*state);
  if (state->device.open.exchange(false, std::memory_order_acq_rel))
    event(blankRecord(&state->device, PacketKind::Close));
}

} // namespace tapeback::preload
