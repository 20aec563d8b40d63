// The target "pci-sysfs:DOMAIN:BUS:DEVICE.FUNCTION": registers of a PCI device through sysfs' resource files,
// for boards without an IOMMU. Registers only: no DMA memory, no interrupts.
#pragma once

#include "hal/Target.h"
#include "hal/TargetUri.h"

namespace tapeback {

llvm::Expected<std::unique_ptr<Target>> openSysfsTarget(const TargetUri &uri);

} // namespace tapeback
