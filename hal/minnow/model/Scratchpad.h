// The scratchpad's size, and an operand as the arithmetic sees it.
#pragma once

#include <cstdint>

namespace minnow {

constexpr uint32_t scratchpadBytes = 64 * 1024;

/// A matrix in the scratchpad: row i begins at at + i·stride. Checked before it gets here.
struct Matrix {
  uint8_t *at;
  uint32_t stride;

  uint8_t *row(uint32_t i) const { return at + uint64_t(i) * stride; }
};

} // namespace minnow
