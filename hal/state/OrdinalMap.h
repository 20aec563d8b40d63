// Packet ordinals by address: who last wrote each byte of an address space, or who mapped it.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace tapeback {

/// Bounded: beyond `maxIntervals` the oldest half (lowest ordinals) is forgotten, and then unknown, never
/// wrong. assign and forget take amortised O(log n). Ranges are given by first and last byte, so that none
/// overflows.
class OrdinalMap {
public:
  explicit OrdinalMap(size_t maxIntervals) : maxIntervals(maxIntervals < 4 ? 4 : maxIntervals) {}

  void assign(uint64_t first, uint64_t last, uint64_t ordinal);
  void forget(uint64_t first, uint64_t last);
  void clear() { intervals.clear(); }
  std::optional<uint64_t> find(uint64_t address) const;
  /// First byte at or after `address` that has an ordinal, if any.
  std::optional<uint64_t> nextFrom(uint64_t address) const;
  void visit(llvm::function_ref<void(uint64_t first, uint64_t last, uint64_t ordinal)> visitor) const;
  size_t size() const { return intervals.size(); }
  /// True once something was forgotten for want of room.
  bool evicted() const { return wasEvicted; }

private:
  struct Interval {
    uint64_t last, ordinal;
  };
  void evictOldest();

  size_t maxIntervals;
  bool wasEvicted = false;
  std::map<uint64_t, Interval> intervals; ///< By first byte; they do not overlap.
};

} // namespace tapeback
