// The disk of a device that has one: a memory file with a pattern on it, which only QEMU and we can reach.
#pragma once

#include "hal/FileDescriptor.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace tapeback {

struct MediumOptions {
  /// Zero. Index: each 8 bytes are their own number, little-endian, so that a misplaced block shows where it
  /// belongs. Random: what the seed decides, the same everywhere.
  enum class Pattern : uint8_t { Zero, Index, Random };
  uint64_t bytes = uint64_t(4) << 20;
  Pattern pattern = Pattern::Zero;
  uint64_t seed = 1;
  uint64_t readIops = 0, writeIops = 0; ///< Most a second; 0: no limit.
};

/// Sealed: it can be written, but neither shrinks nor grows. System failure if there is no memory.
llvm::Expected<FileDescriptor> makeMedium(const MediumOptions &options);

} // namespace tapeback
