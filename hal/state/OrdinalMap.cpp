#include "hal/state/OrdinalMap.h"

#include <algorithm>
#include <vector>

namespace tapeback {

void OrdinalMap::forget(uint64_t first, uint64_t last) {
  if (first > last)
    return;
  auto it = intervals.upper_bound(first);
  if (it != intervals.begin() && std::prev(it)->second.last >= first) {
    --it;
    const Interval old = it->second;
    if (it->first < first) { // Its head stays.
      it->second.last = first - 1;
      ++it;
    } else {
      it = intervals.erase(it);
    }
    if (old.last > last) { // Its tail stays.
      intervals.emplace_hint(it, last + 1, old);
      return;
    }
  }
  while (it != intervals.end() && it->first <= last) {
    if (it->second.last > last) {
      const Interval tail = it->second;
      it = intervals.erase(it);
      intervals.emplace_hint(it, last + 1, tail);
      return;
    }
    it = intervals.erase(it);
  }
}

void OrdinalMap::assign(uint64_t first, uint64_t last, uint64_t ordinal) {
  if (first > last)
    return;
  forget(first, last);
  auto next = intervals.lower_bound(first);
  if (next != intervals.end() && last != ~uint64_t(0) && next->first == last + 1 &&
      next->second.ordinal == ordinal) {
    last = next->second.last;
    next = intervals.erase(next);
  }
  if (next != intervals.begin()) {
    auto before = std::prev(next);
    if (before->second.ordinal == ordinal && before->second.last + 1 == first) {
      before->second.last = last;
      return;
    }
  }
  intervals.emplace_hint(next, first, Interval{last, ordinal});
  if (intervals.size() > maxIntervals)
    evictOldest();
}

void OrdinalMap::evictOldest() {
  std::vector<uint64_t> ordinals;
  ordinals.reserve(intervals.size());
  for (const auto &[first, interval] : intervals)
    ordinals.push_back(interval.ordinal);
  auto middle = ordinals.begin() + ptrdiff_t(ordinals.size() / 2);
  std::nth_element(ordinals.begin(), middle, ordinals.end());
  // All of one ordinal (a packet that touched many places) may be the whole map: then everything goes.
  uint64_t oldest = *middle;
  wasEvicted = true;
  std::erase_if(intervals, [&](const auto &entry) { return entry.second.ordinal <= oldest; });
}

std::optional<uint64_t> OrdinalMap::find(uint64_t address) const {
  auto it = intervals.upper_bound(address);
  if (it == intervals.begin() || std::prev(it)->second.last < address)
    return std::nullopt;
  return std::prev(it)->second.ordinal;
}

std::optional<uint64_t> OrdinalMap::nextFrom(uint64_t address) const {
  if (find(address))
    return address;
  auto it = intervals.lower_bound(address);
  return it == intervals.end() ? std::nullopt : std::optional(it->first);
}

void OrdinalMap::visit(llvm::function_ref<void(uint64_t, uint64_t, uint64_t)> visitor) const {
  for (const auto &[first, interval] : intervals)
    visitor(first, interval.last, interval.ordinal);
}

} // namespace tapeback
