// Memory for blocks. Internal to format/.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace tapeback {

/// Uninitialised, 8-byte aligned memory that only grows; Cap'n Proto reads in place from it.
class WordBuffer {
public:
  /// That many bytes; their content is undefined after growth.
  llvm::MutableArrayRef<uint8_t> bytes(size_t count) {
    const size_t words = (count + 7) / 8;
    if (words > capacity) {
      memory.reset(new uint64_t[words]);
      capacity = words;
    }
    return {reinterpret_cast<uint8_t *>(memory.get()), count};
  }
  /// The same; its first `kept` bytes are what they were. Grows by half at least.
  llvm::MutableArrayRef<uint8_t> keep(size_t count, size_t kept) {
    if ((count + 7) / 8 > capacity) {
      WordBuffer larger;
      (void)larger.bytes(count + capacityBytes() / 2);
      if (memory)
        std::memcpy(larger.memory.get(), memory.get(), std::min(kept, capacityBytes()));
      std::swap(*this, larger);
    }
    return {reinterpret_cast<uint8_t *>(memory.get()), count};
  }
  size_t capacityBytes() const { return capacity * 8; }

private:
  std::unique_ptr<uint64_t[]> memory;
  size_t capacity = 0;
};

} // namespace tapeback
