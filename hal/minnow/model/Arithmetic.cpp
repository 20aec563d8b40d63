#include "hal/minnow/model/Arithmetic.h"
#include <cstring>

namespace minnow {
namespace {

constexpr uint32_t mostK = 1024, mostCols = 4096;

/// GEMM works on this many columns of B at a time, transposed and widened, so that the inner loop is a dot
/// product of 16-bit numbers, which every vector unit has an instruction for. 64 KiB: half of a small
/// second-level cache.
constexpr uint32_t panelColumns = 32;

void widenPanel(int16_t (*panel)[mostK], Matrix b, uint32_t first, uint32_t columns, uint32_t k) {
  for (uint32_t l = 0; l < k; ++l) {
    auto *row = reinterpret_cast<const int8_t *>(b.row(l)) + first;
    for (uint32_t j = 0; j < columns; ++j)
      panel[j][l] = int16_t(+row[j]);
  }
}

/// Cannot overflow: 1024 products of at most 2^14.
int32_t dot(const int16_t *a, const int16_t *b, uint32_t k) {
  int32_t sum = 0;
  for (uint32_t l = 0; l < k; ++l)
    sum += int32_t(a[l]) * int32_t(b[l]);
  return sum;
}

} // namespace

void gemm(Matrix a, Matrix b, Matrix c, uint32_t m, uint32_t n, uint32_t k, bool accumulate) {
  int16_t panel[panelColumns][mostK];
  int16_t row[mostK];
  uint32_t sums[panelColumns];
  for (uint32_t first = 0; first < n; first += panelColumns) {
    uint32_t columns = n - first < panelColumns ? n - first : panelColumns;
    widenPanel(panel, b, first, columns, k);
    for (uint32_t i = 0; i < m; ++i) {
      auto *from = reinterpret_cast<const int8_t *>(a.row(i));
      for (uint32_t l = 0; l < k; ++l)
        row[l] = int16_t(+from[l]);
      uint8_t *to = c.row(i) + uint64_t(first) * 4;
      if (accumulate)
        memcpy(sums, to, columns * 4);
      else
        memset(sums, 0, columns * 4);
      for (uint32_t j = 0; j < columns; ++j)
        sums[j] += uint32_t(dot(row, panel[j], k));
      memcpy(to, sums, columns * 4);
    }
  }
}

void addInt32(Matrix a, Matrix b, Matrix d, uint32_t rows, uint32_t cols) {
  uint32_t x[mostCols], y[mostCols];
  for (uint32_t i = 0; i < rows; ++i) {
    memcpy(x, a.row(i), cols * 4);
    memcpy(y, b.row(i), cols * 4);
    for (uint32_t j = 0; j < cols; ++j)
      x[j] += y[j];
    memcpy(d.row(i), x, cols * 4);
  }
}

void addInt8(Matrix a, Matrix b, Matrix d, uint32_t rows, uint32_t cols) {
  int8_t x[mostCols], y[mostCols];
  for (uint32_t i = 0; i < rows; ++i) {
    memcpy(x, a.row(i), cols);
    memcpy(y, b.row(i), cols);
    for (uint32_t j = 0; j < cols; ++j) {
      int sum = x[j] + y[j];
      x[j] = int8_t(sum > 127 ? 127 : sum < -128 ? -128 : sum);
    }
    memcpy(d.row(i), x, cols);
  }
}

void reluInt8(Matrix a, Matrix d, uint32_t rows, uint32_t cols) {
  int8_t x[mostCols];
  for (uint32_t i = 0; i < rows; ++i) {
    memcpy(x, a.row(i), cols);
    for (uint32_t j = 0; j < cols; ++j)
      x[j] = x[j] > 0 ? x[j] : int8_t(0);
    memcpy(d.row(i), x, cols);
  }
}

int8_t requantise(int32_t value, const Requantisation &how) {
  // |p| <= 2^31·(2^31 − 1) < 2^62, the rounding term is at most 2^61, the zero point at most 2^31: all fits
  // into 64 bits, so the manual's 65-bit sum needs none here.
  int64_t p = int64_t(value) * how.multiplier;
  int64_t half = how.shift ? int64_t(1) << (how.shift - 1) : 0;
  int64_t v = ((p + half) >> how.shift) + how.zeroPoint;
  int64_t least = how.relu ? 0 : -128;
  return int8_t(v > 127 ? 127 : v < least ? least : v);
}

void requantise(Matrix a, Matrix d, uint32_t rows, uint32_t cols, const Requantisation &how) {
  int32_t x[mostCols];
  int8_t y[mostCols];
  for (uint32_t i = 0; i < rows; ++i) {
    memcpy(x, a.row(i), cols * 4);
    for (uint32_t j = 0; j < cols; ++j)
      y[j] = requantise(x[j], how);
    memcpy(d.row(i), y, cols);
  }
}

void maxPool(const uint8_t *a, uint8_t *d, const Pooling &shape) {
  auto *in = reinterpret_cast<const int8_t *>(a);
  auto *out = reinterpret_cast<int8_t *>(d);
  uint32_t outHeight = (shape.height - shape.window) / shape.stride + 1;
  uint32_t outWidth = (shape.width - shape.window) / shape.stride + 1;
  for (uint32_t y = 0; y < outHeight; ++y)
    for (uint32_t x = 0; x < outWidth; ++x, out += shape.channels) {
      memset(out, -128, shape.channels);
      for (uint32_t dy = 0; dy < shape.window; ++dy)
        for (uint32_t dx = 0; dx < shape.window; ++dx) {
          uint32_t pixel = (y * shape.stride + dy) * shape.width + x * shape.stride + dx;
          const int8_t *from = in + uint64_t(pixel) * shape.channels;
          for (uint32_t c = 0; c < shape.channels; ++c)
            out[c] = from[c] > out[c] ? from[c] : out[c];
        }
    }
}

void compute(const Command &command, uint8_t *scratchpad) {
  const uint32_t *w = command.word;
  auto matrix = [&](unsigned address, unsigned stride) { return Matrix{scratchpad + w[address], w[stride]}; };
  switch (command.opcode()) {
  case Gemm: gemm(matrix(2, 8), matrix(3, 9), matrix(4, 10), w[5], w[6], w[7], command.flag()); break;
  case Vadd32: {
    Matrix b = command.flag() ? Matrix{scratchpad + w[3], 0} : matrix(3, 8);
    addInt32(matrix(2, 7), b, matrix(4, 9), w[5], w[6]);
    break;
  }
  case Vadd8: addInt8(matrix(2, 7), matrix(3, 8), matrix(4, 9), w[5], w[6]); break;
  case Relu8: reluInt8(matrix(2, 7), matrix(4, 9), w[5], w[6]); break;
  case Requant:
    requantise(matrix(2, 7), matrix(4, 9), w[5], w[6],
               {int32_t(w[10]), w[11], int32_t(w[12]), command.flag()});
    break;
  case Maxpool8: maxPool(scratchpad + w[2], scratchpad + w[4], {w[5], w[6], w[7], w[8], w[9]}); break;
  default: break;
  }
}

} // namespace minnow
