// Large arrays of zeroes of which much is never used.
#pragma once

#include "llvm/Support/MemAlloc.h"
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <type_traits>

namespace tapeback {

/// Its memory comes from the system as it is touched: a vector of three megabytes takes as long to make as a
/// short recording takes otherwise. T's with zeroes in all of it must make sense.
template <typename T>
class ZeroedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

public:
  explicit ZeroedArray(size_t count)
      : elements(static_cast<T *>(llvm::safe_calloc(count, sizeof(T)))), count(count) {}

  T &operator[](size_t at) { return elements.get()[at]; }
  const T &operator[](size_t at) const { return elements.get()[at]; }
  const T *begin() const { return elements.get(); }
  const T *end() const { return elements.get() + count; }

private:
  struct Free {
    void operator()(T *memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> elements;
  size_t count;
};

} // namespace tapeback
