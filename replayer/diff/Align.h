// Which elements of two sequences go together: the longest common subsequence, in bounded time.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <utility>
#include <vector>

namespace tapeback {

/// Pairs of indices of equal keys, both ascending: a longest common subsequence (Myers' O(ND) algorithm) if
/// it takes at most `maxEdits` insertions and deletions, otherwise a common subsequence that is found by
/// halves. Time: O((a + b) * maxEdits) at most; memory: O(maxEdits^2).
std::vector<std::pair<size_t, size_t>> alignKeys(llvm::ArrayRef<uint64_t> a, llvm::ArrayRef<uint64_t> b,
                                                 size_t maxEdits = 1024);

} // namespace tapeback
