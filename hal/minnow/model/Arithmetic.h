// What the array and the vector unit compute (SPEC.md, section 4). Pure functions over checked operands.
//
// Rows are converted in ascending order, a row being read before it is written: that is what makes d = a
// well-defined where the manual allows it. Bytes between the end of a row's elements and the next multiple of
// 8 are not touched.
#pragma once

#include "hal/minnow/model/Command.h"
#include "hal/minnow/model/Scratchpad.h"

namespace minnow {

/// C = (accumulate ? C : 0) + A·B, modulo 2^32.
void gemm(Matrix a, Matrix b, Matrix c, uint32_t m, uint32_t n, uint32_t k, bool accumulate);

/// d = a + b modulo 2^32. A broadcast b has stride 0.
void addInt32(Matrix a, Matrix b, Matrix d, uint32_t rows, uint32_t cols);

/// d = a + b, saturated.
void addInt8(Matrix a, Matrix b, Matrix d, uint32_t rows, uint32_t cols);

/// d = max(a, 0).
void reluInt8(Matrix a, Matrix d, uint32_t rows, uint32_t cols);

struct Requantisation {
  int32_t multiplier; ///< 1 … 2^31 − 1
  uint32_t shift;     ///< 0 … 62
  int32_t zeroPoint;
  bool relu;
};

/// One element: scale, round half up, shift, add the zero point, saturate.
int8_t requantise(int32_t value, const Requantisation &how);

/// The whole matrix, int32 → int8.
void requantise(Matrix a, Matrix d, uint32_t rows, uint32_t cols, const Requantisation &how);

struct Pooling {
  uint32_t height, width, channels, window, stride;
};

void maxPool(const uint8_t *a, uint8_t *d, const Pooling &shape);

/// Carries out the computing command `command` (GEMM … MAXPOOL8), which was checked, on the scratchpad.
void compute(const Command &command, uint8_t *scratchpad);

} // namespace minnow
