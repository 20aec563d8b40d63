#include "hal/qemu/QemuDevices.h"

namespace tapeback {
namespace {

constexpr QemuDevice table[] = {
    {"edu", "edu", 0x1234, 0x11e8, 0x0fffffff, QemuInterrupts::Msi, QemuMedium::None,
     "educational device: registers, DMA, interrupts"},
    {"nvme", "nvme,serial=tapeback,drive=medium", 0x1b36, 0x0010, ~uint64_t(0), QemuInterrupts::None,
     QemuMedium::Disk, "NVMe controller with one namespace on a private medium"},
};

} // namespace

llvm::ArrayRef<QemuDevice> qemuDevices() {
  return table;
}

const QemuDevice *findQemuDevice(llvm::StringRef name) {
  for (const QemuDevice &device : table)
    if (name == device.name)
      return &device;
  return nullptr;
}

} // namespace tapeback
