// Where the memory of a tape is in this replay: live ranges, recorded address against placed address. Pure.
#pragma once

#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tapeback {

struct PlacedRange {
  uint64_t recorded = 0, placed = 0, size = 0;
  uint64_t delta() const { return placed - recorded; } ///< Modulo 2^64.
};

/// One device's. Ranges never overlap, neither as recorded nor as placed.
class AddressMap {
public:
  /// What lies behind a range, up to here, belongs to it: a row that runs off its end, the address that a
  /// device reports for it. Ranges that are moved keep at least this distance.
  static constexpr uint64_t guard = 1 << 20;

  /// Usage failures "relocation-overlap" and "relocation-range", with both ranges named.
  llvm::Error add(const PlacedRange &range);
  void remove(uint64_t recorded);

  /// Some live range is not where it was recorded.
  bool moves() const { return moved != 0; }
  size_t movedRanges() const { return moved; }

  /// The live range that has the recorded address.
  const PlacedRange *find(uint64_t recorded) const;
  const PlacedRange *findPlaced(uint64_t placed) const;
  /// Where a recorded address is now. One that no range has goes with the range in front of it if that is
  /// near, and stays otherwise.
  uint64_t toPlaced(uint64_t recorded) const;
  /// Usage failure "relocation-clash" if the address was not mapped in the recording, and would be now.
  llvm::Error check(uint64_t recorded) const;
  /// Whether a device that was given toPlaced() addresses may tell `placed` where it told `recorded`: mapped
  /// addresses only in one way, others may have come from any range.
  bool agree(uint64_t recorded, uint64_t placed, uint64_t mask) const;
  /// The recorded address of a placed one; nothing if no range has it.
  std::optional<uint64_t> toRecorded(uint64_t placed) const;

  /// One piece of [recorded, recorded + size): as long as placed addresses follow each other as the recorded
  /// ones do.
  struct Piece {
    uint64_t placed, size;
  };
  Piece piece(uint64_t recorded, uint64_t size) const;

  const std::map<uint64_t, PlacedRange> &ranges() const { return byRecorded; }
  /// True if [placed, placed + size) with `distance` around it touches no live range.
  bool isFree(uint64_t placed, uint64_t size, uint64_t distance) const;

private:
  std::map<uint64_t, PlacedRange> byRecorded;
  std::map<uint64_t, uint64_t> byPlaced; ///< Placed start, recorded start.
  size_t moved = 0;
};

} // namespace tapeback
