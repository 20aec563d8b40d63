#include "hal/vfio/VfioInterrupts.h"
#include "format/Failure.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/vfio.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>

namespace tapeback {
namespace {

struct Mode {
  VfioInterruptMode mode;
  uint32_t index;
  const char *name;
};
constexpr Mode modes[] = {{VfioInterruptMode::MsiX, VFIO_PCI_MSIX_IRQ_INDEX, "msix"},
                          {VfioInterruptMode::Msi, VFIO_PCI_MSI_IRQ_INDEX, "msi"},
                          {VfioInterruptMode::IntX, VFIO_PCI_INTX_IRQ_INDEX, "intx"}};

/// MSI-X has at most 2,048 vectors; more than this many are left out: no device here needs them, descriptors
/// are finite.
constexpr uint32_t mostVectors = 256;

uint64_t now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000u + uint64_t(t.tv_nsec);
}

} // namespace

llvm::Expected<VfioInterrupts> VfioInterrupts::open(int device, VfioInterruptMode wanted) {
  VfioInterrupts result;
  result.device = device;
  if (wanted == VfioInterruptMode::None)
    return result;
  for (const Mode &mode : modes) {
    if (wanted != VfioInterruptMode::Auto && wanted != mode.mode)
      continue;
    vfio_irq_info info{};
    info.argsz = sizeof info;
    info.index = mode.index;
    if (::ioctl(device, VFIO_DEVICE_GET_IRQ_INFO, &info) != 0 || info.count == 0 ||
        !(info.flags & VFIO_IRQ_INFO_EVENTFD))
      continue;
    result.mode = mode.mode;
    result.index = mode.index;
    for (uint32_t i = 0; i < std::min(info.count, mostVectors); ++i) {
      FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      if (!event)
        return failSystem("eventfd",
                          std::string("no eventfd for an interrupt vector: ") + std::strerror(errno));
      result.events.push_back(std::move(event));
    }
    if (llvm::Error error = result.arm())
      return error;
    return result;
  }
  if (wanted != VfioInterruptMode::Auto)
    return failUsage("no-such-interrupt", "the device does not have interrupts of this kind", "option 'irq'",
                     "leave the option out: what the device has is then used");
  return result;
}

const char *VfioInterrupts::modeName() const {
  for (const Mode &row : modes)
    if (row.mode == mode)
      return row.name;
  return "none";
}

llvm::Error VfioInterrupts::arm() {
  std::vector<uint8_t> buffer(sizeof(vfio_irq_set) + events.size() * sizeof(int32_t));
  auto *set = reinterpret_cast<vfio_irq_set *>(buffer.data());
  set->argsz = uint32_t(buffer.size());
  set->flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
  set->index = index;
  set->start = 0;
  set->count = uint32_t(events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    int32_t fd = events[i].get();
    std::memcpy(buffer.data() + sizeof(vfio_irq_set) + i * sizeof fd, &fd, sizeof fd);
  }
  if (::ioctl(device, VFIO_DEVICE_SET_IRQS, set) != 0)
    return failTarget("interrupts-unavailable", std::string("interrupts (") + modeName() +
                                                    ") cannot be set up: " + std::strerror(errno));
  return llvm::Error::success();
}

llvm::Error VfioInterrupts::rearm() {
  if (events.empty())
    return llvm::Error::success();
  vfio_irq_set off{};
  off.argsz = sizeof off;
  off.flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
  off.index = index;
  if (::ioctl(device, VFIO_DEVICE_SET_IRQS, &off) != 0)
    return failTarget("interrupts-unavailable",
                      std::string("interrupts cannot be switched off: ") + std::strerror(errno));
  for (const FileDescriptor &event : events) {
    uint64_t count;
    while (::read(event.get(), &count, sizeof count) == ssize_t(sizeof count))
      ;
  }
  return arm();
}

llvm::Expected<InterruptResult> VfioInterrupts::wait(uint32_t vector, uint64_t deadlineNs, int stop) {
  if (vector >= events.size())
    return failUsage("unknown-vector", "there is no interrupt vector " + std::to_string(vector), "",
                     "the device has " + std::to_string(events.size()) + " (" + modeName() + ")");
  const uint64_t start = now();
  bool unmasked = false;
  for (;;) {
    uint64_t count = 0;
    if (::read(events[vector].get(), &count, sizeof count) == ssize_t(sizeof count))
      return InterruptResult{true, count};
    if (mode == VfioInterruptMode::IntX && !unmasked) {
      // After the look at the eventfd: an interrupt that is already there must be delivered before a new one
      // is let in.
      vfio_irq_set unmask{};
      unmask.argsz = sizeof unmask;
      unmask.flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK;
      unmask.index = index;
      unmask.count = 1;
      if (::ioctl(device, VFIO_DEVICE_SET_IRQS, &unmask) != 0)
        return failTarget("interrupts-unavailable",
                          std::string("INTx cannot be unmasked: ") + std::strerror(errno));
      unmasked = true;
      continue;
    }
    uint64_t elapsed = now() - start;
    if (elapsed >= deadlineNs)
      return InterruptResult{};
    uint64_t left = std::min<uint64_t>(deadlineNs - elapsed, 3'600'000'000'000u);
    timespec timeout{time_t(left / 1'000'000'000u), long(left % 1'000'000'000u)};
    pollfd fds[2] = {{events[vector].get(), POLLIN, 0}, {stop, POLLIN, 0}};
    int n = ::ppoll(fds, 2, &timeout, nullptr);
    if (n < 0 && errno != EINTR)
      return failSystem("poll", std::string("waiting for an interrupt: ") + std::strerror(errno));
    if (n > 0 && fds[1].revents && !fds[0].revents)
      return InterruptResult{}; // The caller looks at why it was stopped.
  }
}

} // namespace tapeback
