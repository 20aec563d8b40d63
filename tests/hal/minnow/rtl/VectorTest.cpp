// The vector unit against plain loops over elements.
#include "tests/hal/minnow/rtl/Device.h"
#include <algorithm>
#include <functional>

using namespace tapeback;
using namespace tapeback::test;

namespace {

int8_t saturate(__int128 value, int low = -128) {
  return int8_t(value < low ? low : value > 127 ? 127 : value);
}

int8_t requant(int32_t a, int32_t multiplier, unsigned shift, int32_t zeroPoint, bool relu) {
  __int128 p = __int128(a) * multiplier;
  __int128 r = shift == 0 ? p : (p + (__int128(1) << (shift - 1))) >> shift;
  return saturate(r + zeroPoint, relu ? 0 : -128);
}

struct Area {
  uint32_t rows, cols;
};
const Area areas[] = {{1, 1}, {1, 8}, {3, 7}, {2, 9}, {8, 64}, {5, 33}, {64, 2}, {1, 2048}, {40, 3}};

/// Runs one command on random content and compares the whole scratchpad.
void check(Device &minnow, const minnow_command &command, const std::function<void(Bytes &)> &apply,
           uint32_t seed) {
  Bytes pad = noise(0x10000, seed);
  // Extremes often.
  for (size_t i = 0; i < pad.size(); i += 5)
    pad[i] = seed % 2 ? 0x80 : 0x7f;
  minnow.load(0, pad);
  minnow.run({command});
  Bytes result = minnow.scratchpad();
  apply(pad);
  if (result == pad)
    return;
  size_t at = size_t(std::mismatch(pad.begin(), pad.end(), result.begin()).first - pad.begin());
  FAIL_CHECK("opcode " << std::hex << command.w[0] << " rows " << command.w[5] << " cols " << command.w[6]
                       << ": at " << at << " " << int(result[at]) << " instead of " << int(pad[at]));
}

} // namespace

TEST_CASE("VADD32 adds modulo 2^32, with and without BROADCAST, in place and not") {
  RTL_OR_SKIP();
  Device minnow;
  uint32_t seed = 1;
  for (const Area &s : areas)
    for (uint32_t broadcast : {0u, 1u})
      for (uint32_t d : {0x9000u, 0x0u, 0x4000u}) {
        if (d == 0x4000 && broadcast)
          continue; // The row that all share would change on the way.
        uint32_t lda = up8(4 * s.cols) + 8, ldb = up8(4 * s.cols),
                 ldd = d == 0        ? lda
                       : d == 0x4000 ? ldb
                                     : lda + 16;
        uint32_t stride = broadcast ? 0 : ldb;
        check(
            minnow,
            // BROADCAST ignores w8, even if misaligned.
            minnow_vadd(MINNOW_VADD32, 0, 0x4000, d, s.rows, s.cols, lda, broadcast ? 12345 : ldb, ldd,
                        broadcast),
            [&](Bytes &pad) {
              for (uint32_t i = 0; i < s.rows; ++i)
                for (uint32_t j = 0; j < s.cols; ++j) {
                  uint32_t sum = uint32_t(int32At(pad, i * lda + 4 * j)) +
                                 uint32_t(int32At(pad, 0x4000 + i * stride + 4 * j));
                  std::memcpy(&pad[d + i * ldd + 4 * j], &sum, 4);
                }
            },
            ++seed);
      }
  CHECK(seed > 40);
}

TEST_CASE("VADD8 saturates, RELU8 clips") {
  RTL_OR_SKIP();
  Device minnow;
  uint32_t seed = 100;
  for (const Area &s : areas) {
    uint32_t ld = up8(s.cols), ldd = ld + 8;
    check(
        minnow, minnow_vadd(MINNOW_VADD8, 0, 0x4000, 0x9000, s.rows, s.cols, ld, ld, ldd, 1),
        [&](Bytes &pad) {
          for (uint32_t i = 0; i < s.rows; ++i)
            for (uint32_t j = 0; j < s.cols; ++j)
              pad[0x9000 + i * ldd + j] =
                  uint8_t(saturate(int8_t(pad[i * ld + j]) + int8_t(pad[0x4000 + i * ld + j])));
        },
        ++seed);
    for (uint32_t d : {0u, 0x9000u})
      check(
          minnow, minnow_relu8(0, d, s.rows, s.cols, ld, d ? ldd : ld),
          [&](Bytes &pad) {
            for (uint32_t i = 0; i < s.rows; ++i)
              for (uint32_t j = 0; j < s.cols; ++j)
                pad[d + i * (d ? ldd : ld) + j] = uint8_t(std::max<int8_t>(0, int8_t(pad[i * ld + j])));
          },
          ++seed);
  }
  CHECK(seed == 100 + 3 * std::size(areas));
}

TEST_CASE("REQUANT rounds half up, shifts arithmetically, and saturates") {
  RTL_OR_SKIP();
  Device minnow;
  struct {
    uint32_t multiplier, shift;
    int32_t zeroPoint;
  } scales[] = {{1, 0, 0},
                {1, 25, -3},
                {0x40000000, 54, 5},
                {0x7fffffff, 62, -128},
                {0x7fffffff, 0, 1},
                {12345, 38, 127},
                {1, 1, -2147483647 - 1},
                {1, 24, 2147483647},
                {0x7fffffff, 55, 0},
                {0x55555555, 54, 10},
                {3, 62, -1},
                {0x12345678, 31, 2147483647}};
  uint32_t seed = 200;
  for (const Area &s : areas)
    for (const auto &scale : scales)
      for (uint32_t relu : {0u, 1u}) {
        bool inPlace = seed % 3 == 0;
        uint32_t lda = up8(4 * s.cols) + 8 * (seed % 2), ldd = up8(s.cols), d = inPlace ? 0 : 0x9000;
        check(
            minnow,
            minnow_requant(0, d, s.rows, s.cols, lda, ldd, scale.multiplier, scale.shift, scale.zeroPoint,
                           relu),
            [&](Bytes &pad) {
              for (uint32_t i = 0; i < s.rows; ++i)
                for (uint32_t j = 0; j < s.cols; ++j)
                  pad[d + i * ldd + j] =
                      uint8_t(requant(int32At(pad, i * lda + 4 * j), int32_t(scale.multiplier), scale.shift,
                                      scale.zeroPoint, relu));
            },
            ++seed);
      }
  CHECK(seed > 400);
}

TEST_CASE("REQUANT at the corners of saturation and rounding") {
  RTL_OR_SKIP();
  Device minnow;
  // Halves around the limits: (a·1 + 1) >> 1.
  std::vector<int32_t> in;
  for (int32_t a = -262; a <= 262; ++a)
    in.push_back(a);
  in.insert(in.end(), {2147483647, -2147483647 - 1, 0});
  minnow.load(0, in.data(), in.size() * 4);
  minnow.run({minnow_requant(0, 0x8000, 1, uint32_t(in.size()), 0, 0, 1, 1, 0, 0)});
  Bytes out = minnow.scratchpad(0x8000, in.size());
  for (size_t i = 0; i < in.size(); ++i)
    CHECK(int8_t(out[i]) == saturate((int64_t(in[i]) + 1) >> 1));
  minnow.run({minnow_requant(0, 0x8000, 1, uint32_t(in.size()), 0, 0, 1, 1, 0, MINNOW_REQUANT_RELU)});
  out = minnow.scratchpad(0x8000, in.size());
  for (size_t i = 0; i < in.size(); ++i)
    CHECK(int8_t(out[i]) == saturate((int64_t(in[i]) + 1) >> 1, 0));
}

TEST_CASE("MAXPOOL8 over windows and strides of every size") {
  RTL_OR_SKIP();
  Device minnow;
  uint32_t seed = 1000, done = 0;
  struct {
    uint32_t height, width, channels;
  } images[] = {{8, 8, 8}, {9, 5, 24}, {1, 1, 512}, {17, 31, 8}, {25, 5, 64}, {256, 2, 8}, {3, 256, 16}};
  for (const auto &image : images)
    for (uint32_t window = 1; window <= std::min({8u, image.height, image.width}); ++window)
      for (uint32_t stride : {1u, 2u, 3u, 8u}) {
        uint32_t oh = (image.height - window) / stride + 1, ow = (image.width - window) / stride + 1,
                 d = 0x8000;
        check(
            minnow, minnow_maxpool8(0, d, image.height, image.width, image.channels, window, stride),
            [&](Bytes &pad) {
              for (uint32_t y = 0; y < oh; ++y)
                for (uint32_t x = 0; x < ow; ++x)
                  for (uint32_t c = 0; c < image.channels; ++c) {
                    int8_t most = -128;
                    for (uint32_t dy = 0; dy < window; ++dy)
                      for (uint32_t dx = 0; dx < window; ++dx)
                        most = std::max(
                            most,
                            int8_t(pad[((y * stride + dy) * image.width + x * stride + dx) * image.channels +
                                       c]));
                    pad[d + (y * ow + x) * image.channels + c] = uint8_t(most);
                  }
            },
            ++seed);
        ++done;
      }
  CHECK(done == 4 * (8 + 5 + 1 + 8 + 5 + 2 + 3));
}
