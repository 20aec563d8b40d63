// Values of this run in host memory, where the recording has others: in commands that a program made with a
// value that it had read (a flush id, a tag), and where a device writes such a value back (a fence).
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <map>
#include <vector>

namespace tapeback {

/// One device's. Addresses are recorded ones. Pure; bounded: what does not fit is left as it is, and differs.
class LiveMemory {
public:
  /// At `address`, in the bits of `mask` of a number of `width` bytes (1 to 8), `live` is written instead of
  /// `recorded`, now or when the device gets there.
  void learn(uint64_t address, unsigned width, uint64_t mask, uint64_t recorded, uint64_t live);
  /// The host stores something else there.
  void overwritten(uint64_t address, uint64_t size);
  /// Puts recorded values where `content`, which came from `address`, has the live ones.
  void revert(uint64_t address, llvm::MutableArrayRef<uint8_t> content) const;
  /// Such a value may stand in the range.
  bool any(uint64_t address, uint64_t size) const;
  bool empty() const { return places.empty(); }
  void clear() { places.clear(); }

private:
  struct Value {
    uint64_t mask, recorded, live; ///< In place.
  };
  struct Place {
    unsigned width;
    std::vector<Value> values; ///< Newest last.
  };
  static constexpr size_t mostPlaces = 1 << 16, mostValues = 16;
  std::map<uint64_t, Place>::const_iterator firstAt(uint64_t address) const;

  std::map<uint64_t, Place> places;
};

} // namespace tapeback
