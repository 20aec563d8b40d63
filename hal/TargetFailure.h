// Failures that every target words alike.
#pragma once

#include "format/Failure.h"
#include "hal/Target.h"
#include "llvm/ADT/Twine.h"

namespace tapeback {

/// Names the operation's packet as the place ("packet 1234"), before whatever place the failure had. Error
/// must be set.
llvm::Error atPacket(llvm::Error error, uint64_t packet);

/// Failure "unsupported": "KIND: target 'NAME' WHAT".
llvm::Error unsupportedByTarget(const TargetIdentity &identity, const llvm::Twine &what);

/// Usage failure unless the access is of a legal width and inside one of `spaces`.
llvm::Error checkAccess(llvm::ArrayRef<TargetSpace> spaces, TargetSpaceId space, uint64_t address,
                        unsigned width);

} // namespace tapeback
