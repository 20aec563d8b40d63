// Trying many changes with few runs: all at once, and where that does not go, in ever smaller groups.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <cstddef>
#include <vector>

namespace tapeback {

/// Items `first` to `last` - 1.
struct Group {
  size_t first = 0, last = 0;
  bool refused = false; ///< It is known that not all of them can be changed at once.
  size_t size() const { return last - first; }
};

/// Changes as many items as it can: a group at once; one that cannot be is halved, its later half first. Of a
/// group that cannot be changed and whose later half could, the earlier half cannot, and is not tried. Coarse
/// groups come before finer ones. Returns the items that could not be changed alone, in order (those not
/// tried either, if `over`). With items that depend on each other another order might change more. `change`
/// says whether that group could be changed, and has changed it then.
llvm::Expected<std::vector<size_t>> changeInGroups(std::vector<Group> groups,
                                                   llvm::function_ref<llvm::Expected<bool>(Group)> change,
                                                   llvm::function_ref<bool()> over);

} // namespace tapeback
