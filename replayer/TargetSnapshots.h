// Snapshots of several targets, taken at one place.
#pragma once

#include "hal/Target.h"
#include "llvm/ADT/StringRef.h"
#include <utility>
#include <vector>

namespace tapeback {

/// Of targets that outlive it. What is not released stays the targets' until they go. One thread.
class TargetSnapshots {
public:
  /// Takes one of `target`. The target's own failure; those taken before stay.
  llvm::Error take(Target &target);
  /// Puts all of them back. The failure of the target that could not be.
  llvm::Error restoreEach() const;
  /// The same; target failure "restore-failed" with `hint` names that target.
  llvm::Error restore(llvm::StringRef hint) const;
  /// Gives all back to the targets; all failures together.
  llvm::Error release();

private:
  std::vector<std::pair<Target *, uint64_t>> taken;
};

} // namespace tapeback
