// "null:" — a target with nothing behind it.
#pragma once

#include "hal/Target.h"
#include "hal/TargetUri.h"

namespace tapeback {

/// Accepts every legal access and answers zero; interrupts have always just come; time stands still. What it
/// answers means nothing (capabilities().answers is false). It exists to measure everything else: an access
/// costs a few nanoseconds. Its memory is real memory. Options: hal/null/README.md.
llvm::Expected<std::unique_ptr<Target>> openNullTarget(const TargetUri &uri);

} // namespace tapeback
