// Memory for blocks. Internal to format/.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/mman.h>
#include <utility>

namespace tapeback {

/// Uninitialised, 8-byte aligned memory that only grows; Cap'n Proto reads in place from it. From half a
/// large page on it is whole large pages, where the kernel has some: a page that is touched for the first
/// time costs 0.5 to 20 microseconds in a virtual machine, and a block has hundreds of small ones.
class WordBuffer {
public:
  /// That many bytes; their content is undefined after growth.
  llvm::MutableArrayRef<uint8_t> bytes(size_t count) {
    if (count > capacity) {
      memory.reset(); // First: both need not be there at once.
      const bool large = count >= largePage / 2;
      const size_t room = large ? (count + largePage - 1) & ~(largePage - 1) : (count + 7) & ~size_t(7);
      memory.reset(static_cast<uint8_t *>(large ? std::aligned_alloc(largePage, room) : std::malloc(room)));
      if (!memory)
        llvm::report_bad_alloc_error("a block does not fit into memory");
      if (large)
        ::madvise(memory.get(), room, MADV_HUGEPAGE); // A kernel without them says no, and nothing is lost.
      capacity = room;
    }
    return {memory.get(), count};
  }
  /// The same; its first `kept` bytes are what they were. Grows by half at least.
  llvm::MutableArrayRef<uint8_t> keep(size_t count, size_t kept) {
    if (count > capacity) {
      WordBuffer larger;
      (void)larger.bytes(count + capacity / 2);
      if (memory)
        std::memcpy(larger.memory.get(), memory.get(), std::min(kept, capacity));
      std::swap(*this, larger);
    }
    return {memory.get(), count};
  }
  size_t capacityBytes() const { return capacity; }

private:
  struct Free {
    void operator()(uint8_t *bytes) const { std::free(bytes); }
  };
  static constexpr size_t largePage = 2u << 20;
  std::unique_ptr<uint8_t[], Free> memory;
  size_t capacity = 0; ///< Bytes.
};

} // namespace tapeback
