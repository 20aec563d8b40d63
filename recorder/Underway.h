// The operations that were issued and have not come back: at most one a thread.
#pragma once

#include "recorder/ZeroedArray.h"
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tapeback {

/// Finding, adding and taking cost the same however many there are, and allocate nothing once the most at a
/// time has been reached. Pointers are valid until the next add or take.
template <typename T>
class UnderwayTable {
public:
  UnderwayTable() : places(65536) {}

  bool empty() const { return items.empty(); }
  std::size_t size() const { return items.size(); }
  /// Null if the thread has none.
  T *find(uint16_t thread) { return places[thread] ? &items[places[thread] - 1].second : nullptr; }
  /// Any of them; there must be one.
  T &any() { return items.front().second; }
  template <typename Visit>
  void visit(Visit visitor) const {
    for (const auto &[thread, item] : items)
      visitor(item);
  }
  /// The thread must have none.
  void add(uint16_t thread, T item) {
    items.emplace_back(thread, std::move(item));
    places[thread] = uint32_t(items.size());
  }
  /// The thread must have one.
  T take(uint16_t thread) {
    uint32_t place = places[thread];
    places[thread] = 0;
    T taken = std::move(items[place - 1].second);
    if (place != items.size()) {
      items[place - 1] = std::move(items.back());
      places[items[place - 1].first] = place;
    }
    items.pop_back();
    return taken;
  }
  /// All of them, in no order; none are left.
  std::vector<T> takeAll() {
    std::vector<T> all;
    for (auto &[thread, item] : items) {
      places[thread] = 0;
      all.push_back(std::move(item));
    }
    items.clear();
    return all;
  }

private:
  ZeroedArray<uint32_t> places; ///< By thread: 1 + index of its item; 0: none.
  std::vector<std::pair<uint16_t, T>> items;
};

} // namespace tapeback
