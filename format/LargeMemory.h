// Large pages for what is made once and large. Internal to format/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/mman.h>
#include <vector>

namespace tapeback {

/// Room for `count` T's; what is new of it is asked for in large pages, where the kernel has some. A page
/// that is touched for the first time costs 0.5 to 20 microseconds in a virtual machine, and a block's
/// packets take two thousand small ones.
template <typename T>
void reserveLarge(std::vector<T> &elements, size_t count) {
  constexpr size_t largePage = 2u << 20;
  if (count <= elements.capacity())
    return;
  elements.reserve(count);
  const size_t bytes = elements.capacity() * sizeof(T),
               skipped = size_t(-reinterpret_cast<uintptr_t>(elements.data())) & (largePage - 1),
               whole = bytes > skipped ? (bytes - skipped) & ~(largePage - 1) : 0;
  if (whole) // A kernel without them says no, and nothing is lost.
    ::madvise(reinterpret_cast<uint8_t *>(elements.data()) + skipped, whole, MADV_HUGEPAGE);
}

} // namespace tapeback
