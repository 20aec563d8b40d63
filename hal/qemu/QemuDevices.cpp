#include "hal/qemu/QemuDevices.h"

namespace tapeback {
namespace {

constexpr QemuDevice table[] = {
    {"edu", "edu", 0x1234, 0x11e8, 0x0fffffff, QemuInterrupts::Msi,
     "educational device: registers, DMA, interrupts"},
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
