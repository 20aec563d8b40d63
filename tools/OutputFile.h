// Where a verb may write.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tapeback {

/// Refuses, before any work is done: `out` is the same file as `in` (by whatever name), `out` exists and
/// `force` is not set, `out` is not a regular file (a directory, a device, a pipe), or its directory is not
/// there or not writable. Class Usage. `in` may be empty.
llvm::Error checkOutputFile(llvm::StringRef out, llvm::StringRef in, bool force);

} // namespace tapeback
