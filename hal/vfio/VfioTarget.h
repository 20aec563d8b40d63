// The target "vfio:DOMAIN:BUS:DEVICE.FUNCTION": silicon, through Linux VFIO with the type-1 IOMMU.
#pragma once

#include "hal/Target.h"
#include "hal/TargetUri.h"

namespace tapeback {

llvm::Expected<std::unique_ptr<Target>> openVfioTarget(const TargetUri &uri);

} // namespace tapeback
