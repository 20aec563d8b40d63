#include "hal/vfio/VfioWatch.h"
#include "format/Failure.h"
#include "llvm/ADT/StringRef.h"
#include <cerrno>
#include <cstring>
#include <linux/vfio.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

namespace tapeback {
namespace {

/// Asks for `event` to be signalled at `index`. Not every device has both; one that has not is not watched
/// for it.
bool subscribe(int device, uint32_t index, int event) {
  alignas(vfio_irq_set) uint8_t buffer[sizeof(vfio_irq_set) + sizeof(int32_t)] = {};
  auto *set = reinterpret_cast<vfio_irq_set *>(buffer);
  set->argsz = sizeof buffer;
  set->flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
  set->index = index;
  set->count = 1;
  int32_t fd = event;
  std::memcpy(buffer + sizeof(vfio_irq_set), &fd, sizeof fd);
  return ::ioctl(device, VFIO_DEVICE_SET_IRQS, set) == 0;
}

void signalEvent(int fd) {
  uint64_t one = 1;
  // An eventfd refuses only when its counter is full: then it is readable already, which is all that is
  // wanted.
  [[maybe_unused]] ssize_t n = ::write(fd, &one, sizeof one);
}

} // namespace

llvm::Expected<std::unique_ptr<VfioWatch>> VfioWatch::open(int device) {
  std::unique_ptr<VfioWatch> watch(new VfioWatch());
  for (FileDescriptor *fd : {&watch->request, &watch->error, &watch->stopped, &watch->quit}) {
    fd->reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!*fd)
      return failSystem("eventfd", std::string("no eventfd: ") + std::strerror(errno));
  }
  if (!subscribe(device, VFIO_PCI_REQ_IRQ_INDEX, watch->request.get()))
    watch->request.reset();
  if (!subscribe(device, VFIO_PCI_ERR_IRQ_INDEX, watch->error.get()))
    watch->error.reset();
  auto run = [](void *self) -> void * {
    static_cast<VfioWatch *>(self)->run();
    return nullptr;
  };
  if (int code = watch->helper.start(watch->thread, run, watch.get()))
    return failSystem("no-thread",
                      std::string("cannot start the thread that watches the device: ") + std::strerror(code),
                      {}, "let this user have more processes and threads (ulimit -u), or end some of them");
  watch->running = true;
  return watch;
}

VfioWatch::~VfioWatch() {
  if (!running)
    return;
  signalEvent(quit.get());
  ::pthread_join(thread, nullptr);
}

void VfioWatch::run() {
  for (;;) {
    // poll ignores negative descriptors: what could not be subscribed to.
    pollfd fds[3] = {{quit.get(), POLLIN, 0}, {request.get(), POLLIN, 0}, {error.get(), POLLIN, 0}};
    const int ready = ::poll(fds, 3, HelperThread::lookMs);
    if (ready == 0) {
      helper.look();
      continue;
    }
    if (ready < 0) {
      if (errno == EINTR)
        continue;
      return;
    }
    if (fds[0].revents)
      return;
    state.store(int(fds[1].revents ? News::Unplugged : News::BusError), std::memory_order_relaxed);
    signalEvent(stopped.get());
    if (fds[1].revents)
      return;
    // The bus error stays until the target is closed; go on watching for the unplug only.
    error.reset();
  }
}

llvm::Error VfioWatch::check(llvm::StringRef device) const {
  switch (news()) {
  case News::None: return llvm::Error::success();
  case News::Unplugged:
    return failTarget("device-unplugged", "the kernel takes the device back (unplugged or unbound)",
                      device.str(),
                      "plug it in again and bind it to vfio-pci; `tapeback targets` shows when it is back");
  case News::BusError:
    return failTarget("bus-error", "the bus reported an uncorrectable error of the device (AER)",
                      device.str(), "look at the kernel's log: dmesg | grep -i aer");
  }
  return llvm::Error::success();
}

} // namespace tapeback
