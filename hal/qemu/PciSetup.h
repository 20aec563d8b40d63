// What firmware would do for one PCI device: find it, place its BARs, switch it on, aim its interrupts.
//
// Configuration mechanism 1 (ports 0xcf8/0xcfc), PCI Local Bus Specification 3.0, sections 3.2.2.3, 6.2.5
// and 6.8.1. The same steps give the same addresses, so a device is found where it was after a restart.
#pragma once

#include "hal/qemu/QemuDevices.h"
#include "hal/qemu/QtestClient.h"
#include <vector>

namespace tapeback {

struct PciBar {
  unsigned index = 0;
  uint64_t address = 0, size = 0;
  bool operator==(const PciBar &) const = default;
};

struct PciFunction {
  uint8_t device = 0; ///< On bus 0; always function 0.
  uint8_t revision = 0;
  uint32_t classCode = 0;
  std::vector<PciBar> bars; ///< Memory BARs, by index. I/O BARs stay switched off.
};

/// Where the device's message goes and what it writes there (32 bits, the upper 16 being 0).
struct MsiMessage {
  uint64_t address = 0;
  uint16_t data = 0;
};

/// Target failures: those of the client, "no-such-device", "bad-pci-device" (it contradicts the
/// specification).
llvm::Expected<PciFunction> setUpPciDevice(QtestClient &client, const QemuDevice &device, MsiMessage message);

} // namespace tapeback
