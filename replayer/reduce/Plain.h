// Delta debugging as published, which knows nothing of packets: what reduce is compared with.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <vector>

namespace tapeback {

/// ddmin (A. Zeller and R. Hildebrandt, 2002): the items are cut into n parts; if a part alone fails, it is
/// all that is left; if all but a part fails, that part goes; otherwise n is doubled, until each part is one
/// item. `fails` says whether the items (in order) still fail; `over` ends the search with what is left then.
llvm::Expected<std::vector<uint32_t>>
plainDdmin(std::vector<uint32_t> items,
           llvm::function_ref<llvm::Expected<bool>(const std::vector<uint32_t> &items)> fails,
           llvm::function_ref<bool()> over);

} // namespace tapeback
