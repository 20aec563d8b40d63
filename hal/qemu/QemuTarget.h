// qemu:DEVICE — a device of QEMU, driven through the qtest socket of a virtual machine of its own.
//
// See README.md for the options, how time passes, and what the target cannot do.
#pragma once

#include "hal/Target.h"
#include "hal/TargetUri.h"

namespace tapeback {

llvm::Expected<std::unique_ptr<Target>> openQemuTarget(const TargetUri &uri);

} // namespace tapeback
