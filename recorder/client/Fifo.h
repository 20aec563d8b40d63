// A queue of plain values, without a C++ run-time library.
#pragma once

#include "recorder/client/Array.h"
#include <cstring>

namespace tapeback::client {

/// Pushed at one end, taken from the other. Like Array, its memory is kept; allocation failure is reported.
template <typename T>
class Fifo {
public:
  [[nodiscard]] bool push(const T &value) { return items.push(value); }
  void pop() {
    if (++taken * 2 < items.size())
      return;
    // Amortised: at least as many were taken as are moved.
    size_t left = items.size() - taken;
    if (left)
      memmove(items.begin(), items.begin() + taken, left * sizeof(T));
    items.truncate(left);
    taken = 0;
  }
  void clear() {
    items.clear();
    taken = 0;
  }
  void release() {
    items.release();
    taken = 0;
  }
  size_t size() const { return items.size() - taken; }
  T &front() { return items[taken]; }
  T *begin() { return items.begin() + taken; }
  T *end() { return items.end(); }
  const T *begin() const { return items.begin() + taken; }
  const T *end() const { return items.end(); }

private:
  Array<T> items;
  size_t taken = 0;
};

} // namespace tapeback::client
