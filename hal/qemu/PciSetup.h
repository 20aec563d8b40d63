// What firmware would do for one PCI device: find it, place its BARs, switch it on, aim its interrupts.
//
// Configuration mechanism 1 (ports 0xcf8/0xcfc), PCI Local Bus Specification 3.0, sections 3.2.2.3, 6.2.5
// and 6.8.1. The same steps give the same addresses, so a device is found where it was after a restart.
#pragma once

#include "hal/qemu/QemuDevices.h"
#include "hal/qemu/QtestClient.h"
#include <optional>
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

/// What our devices' messages write. Any number but 0 will do.
constexpr uint16_t interruptMessageData = 0x5442;

/// What the set-up has to know of a device, and finds out by asking it.
struct PciLayout {
  struct Bar {
    unsigned index = 0;
    uint64_t size = 0;
    bool wide = false; ///< 64 bits: takes the next place, too.
    bool operator==(const Bar &) const = default;
  };
  uint8_t device = 0;
  std::vector<Bar> bars; ///< Memory BARs, by index.
  uint8_t msiAt = 0;     ///< Offset of the MSI capability; 0: none is used.
  uint32_t msiHead = 0;  ///< Its first word.
  bool operator==(const PciLayout &) const = default;
};

/// A write to configuration space; 32 bits.
struct PciWrite {
  uint8_t offset = 0;
  uint32_t value = 0;
};
struct PciSetupPlan {
  std::vector<PciBar> bars;
  std::vector<PciWrite> writes; ///< In this order: BARs, interrupts, and the switch for memory and DMA last.
};

/// What is to be written to a device of that layout: the whole of the set-up, which a machine gets from
/// setUpPciDevice and a script from `tapeback export`. Usage failure "bad-pci-device" if the BARs do not fit.
llvm::Expected<PciSetupPlan> planPciSetup(const PciLayout &layout, MsiMessage message);
/// The two port writes of 4 bytes that make `write`.
struct PciPortWrites {
  uint16_t addressPort, dataPort;
  uint32_t address, data;
};
PciPortWrites portWritesOf(const PciLayout &layout, PciWrite write);

/// The layout that the device has on QEMU's q35 machine as we start it, without asking: for scripts. A test
/// holds it to QEMU's answers. Nothing for a device whose layout is not known.
std::optional<PciLayout> knownPciLayout(const QemuDevice &device);

/// Asks the device. Target failures: those of the client, "no-such-device", "bad-pci-device" (it contradicts
/// the specification).
llvm::Expected<PciLayout> readPciLayout(QtestClient &client, const QemuDevice &device);

/// readPciLayout, planPciSetup, and the writes. Target failures: as readPciLayout.
llvm::Expected<PciFunction> setUpPciDevice(QtestClient &client, const QemuDevice &device, MsiMessage message);

} // namespace tapeback
