// The few words of PCI's configuration space that targets touch (PCI Local Bus 3.0, section 6.1), and names
// of devices that have a description of their own.
#pragma once

#include "hal/vfio/PciDevice.h"

namespace tapeback {

constexpr uint64_t pciCommandOffset = 4;
constexpr uint16_t pciCommandMemory = 1 << 1;
constexpr uint16_t pciCommandMaster = 1 << 2;
/// Class code and revision: never all ones in a device that answers.
constexpr uint64_t pciClassOffset = 8;

/// The name under which a description of the device is installed ("edu"), or "VVVV:DDDD".
std::string pciDeviceName(const PciDevice &device);

} // namespace tapeback
