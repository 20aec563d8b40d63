#include "replayer/AddressMap.h"
#include "format/Failure.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>

namespace tapeback {

static std::string rangeText(uint64_t start, uint64_t size) {
  return std::to_string(size) + " bytes at 0x" + llvm::utohexstr(start, true);
}

llvm::Error AddressMap::add(const PlacedRange &range) {
  uint64_t last = range.size - 1;
  if (!range.size || range.recorded + last < range.recorded || range.placed + last < range.placed)
    return failUsage("relocation-range", rangeText(range.recorded, range.size) + " cannot be placed at 0x" +
                                             llvm::utohexstr(range.placed, true) +
                                             ": it would leave the address space");
  auto after = byRecorded.upper_bound(range.recorded + last);
  if (after != byRecorded.begin()) {
    const PlacedRange &before = std::prev(after)->second;
    if (before.recorded + (before.size - 1) >= range.recorded)
      return failUsage("relocation-overlap", rangeText(range.recorded, range.size) +
                                                 " overlaps what the tape has mapped already: " +
                                                 rangeText(before.recorded, before.size));
  }
  if (!isFree(range.placed, range.size, 0)) {
    auto behind = byPlaced.upper_bound(range.placed + last);
    const PlacedRange &other = byRecorded.at(std::prev(behind)->second);
    return failUsage("relocation-overlap",
                     rangeText(range.recorded, range.size) + ", placed at 0x" +
                         llvm::utohexstr(range.placed, true) +
                         ", would overlap a live range: " + rangeText(other.recorded, other.size) +
                         ", placed at 0x" + llvm::utohexstr(other.placed, true));
  }
  byRecorded.emplace(range.recorded, range);
  byPlaced.emplace(range.placed, range.recorded);
  moved += range.delta() != 0;
  return llvm::Error::success();
}

void AddressMap::remove(uint64_t recorded) {
  auto found = byRecorded.find(recorded);
  if (found == byRecorded.end())
    return;
  moved -= found->second.delta() != 0;
  byPlaced.erase(found->second.placed);
  byRecorded.erase(found);
}

bool AddressMap::isFree(uint64_t placed, uint64_t size, uint64_t distance) const {
  uint64_t first = placed > distance ? placed - distance : 0;
  uint64_t last = placed + (size - 1);
  last = last > ~uint64_t(0) - distance ? ~uint64_t(0) : last + distance;
  auto behind = byPlaced.upper_bound(last);
  if (behind == byPlaced.begin())
    return true;
  const PlacedRange &before = byRecorded.at(std::prev(behind)->second);
  return before.placed + (before.size - 1) < first;
}

const PlacedRange *AddressMap::find(uint64_t recorded) const {
  auto after = byRecorded.upper_bound(recorded);
  if (after == byRecorded.begin())
    return nullptr;
  const PlacedRange &range = std::prev(after)->second;
  return recorded - range.recorded < range.size ? &range : nullptr;
}

const PlacedRange *AddressMap::findPlaced(uint64_t placed) const {
  auto after = byPlaced.upper_bound(placed);
  if (after == byPlaced.begin())
    return nullptr;
  const PlacedRange &range = byRecorded.at(std::prev(after)->second);
  return placed - range.placed < range.size ? &range : nullptr;
}

uint64_t AddressMap::toPlaced(uint64_t recorded) const {
  auto after = byRecorded.upper_bound(recorded);
  if (after == byRecorded.begin())
    return recorded;
  const PlacedRange &range = std::prev(after)->second;
  return recorded - range.recorded < range.size + guard ? recorded + range.delta() : recorded;
}

llvm::Error AddressMap::check(uint64_t recorded) const {
  if (find(recorded))
    return llvm::Error::success();
  const PlacedRange *range = findPlaced(toPlaced(recorded));
  if (!range)
    return llvm::Error::success();
  return failUsage("relocation-clash", "the tape uses address 0x" + llvm::utohexstr(recorded, true) +
                                           " while nothing is mapped there, where this replay has placed " +
                                           rangeText(range->recorded, range->size));
}

bool AddressMap::agree(uint64_t recorded, uint64_t placed, uint64_t mask) const {
  auto same = [&](uint64_t wanted) { return ((wanted ^ placed) & mask) == 0; };
  if (same(toPlaced(recorded)))
    return true;
  if (find(recorded))
    return false;
  return same(recorded) || std::any_of(byRecorded.begin(), byRecorded.end(), [&](const auto &entry) {
           return same(recorded + entry.second.delta());
         });
}

std::optional<uint64_t> AddressMap::toRecorded(uint64_t placed) const {
  const PlacedRange *range = findPlaced(placed);
  return range ? std::optional<uint64_t>(placed - range->delta()) : std::nullopt;
}

AddressMap::Piece AddressMap::piece(uint64_t recorded, uint64_t size) const {
  const PlacedRange *range = find(recorded);
  if (!range)
    return {toPlaced(recorded), size};
  uint64_t left = range->size - (recorded - range->recorded);
  Piece piece{recorded + range->delta(), std::min(size, left)};
  // Neighbours that have moved alike are one; nothing mapped behind it: the target's to refuse.
  while (piece.size < size) {
    const PlacedRange *next = find(recorded + piece.size);
    if (next && next->delta() != range->delta())
      break;
    piece.size = next ? std::min(size, piece.size + next->size) : size;
  }
  return piece;
}

} // namespace tapeback
