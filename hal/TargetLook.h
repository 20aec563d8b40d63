// Looking at a device as if nobody had: what some targets can do besides what every Target can.
#pragma once

#include "hal/TargetTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace tapeback {

class Target;

/// What is asked for, and what was seen.
struct TargetLook {
  std::vector<TargetOperation> registers; ///< Reads; `value` is filled in.
  std::vector<uint32_t> counters;
  std::vector<uint64_t> counterValues; ///< Filled in, by the place in `counters`.
  std::vector<std::string> windows;
  /// Whole, by the place in `windows`. Filled in; the target's, until its next look or its end.
  std::vector<llvm::ArrayRef<uint8_t>> contents;
};

/// A target that shows registers, counters and internal windows without side effect and without device time.
/// Threads, errors: as for Target.
class LookableTarget {
public:
  virtual ~LookableTarget() = default;
  /// Whether this one can. What it can show is asked for, and refused with a Usage failure.
  virtual bool canLook() const = 0;
  /// Everything at one instant.
  virtual llvm::Error look(TargetLook &look) = 0;
};

/// The target as one that can be looked at; null if it cannot.
LookableTarget *lookableTarget(Target &target);

} // namespace tapeback
