// What Minnow computes, against plain loops written here from the manual.
#include "tests/hal/minnow/model/Minnow.h"
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

using Random = std::mt19937_64;

/// Numbers with a liking for the extremes.
template <typename T>
std::vector<T> numbers(Random &random, size_t count) {
  std::vector<T> out(count);
  for (T &number : out) {
    uint64_t pick = random();
    switch (pick % 5) {
    case 0: number = std::numeric_limits<T>::min(); break;
    case 1: number = std::numeric_limits<T>::max(); break;
    default: number = T(pick >> 8); break;
    }
  }
  return out;
}

uint32_t roundUp(uint32_t value) {
  return (value + 7) / 8 * 8;
}

int64_t clamp(__int128 value, int64_t least, int64_t most) {
  return int64_t(value < least ? least : value > most ? most : value);
}

/// The manual's text, in numbers too wide to overflow.
int8_t expectedRequant(int32_t a, int32_t multiplier, uint32_t shift, int32_t zeroPoint, bool relu) {
  __int128 p = __int128(a) * multiplier;
  __int128 divisor = __int128(1) << shift;
  __int128 sum = shift ? p + divisor / 2 : p;
  __int128 r = sum / divisor; // Towards zero …
  if (sum % divisor < 0)      // … so down by hand.
    --r;
  return int8_t(clamp(r + zeroPoint, relu ? 0 : -128, 127));
}

void checkGemm(Minnow &minnow, Random &random, uint32_t m, uint32_t n, uint32_t k, bool accumulate) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  uint32_t lda = roundUp(k) + 8, ldb = roundUp(n), ldc = roundUp(n * 4) + 16;
  uint32_t a = 0, b = a + m * lda, c = b + k * ldb;
  REQUIRE(c + m * ldc <= 65536);
  std::vector<int8_t> content = numbers<int8_t>(random, c + m * ldc);
  minnow.fill(0, content);
  std::vector<int8_t> expected = content;
  for (uint32_t i = 0; i < m; ++i)
    for (uint32_t j = 0; j < n; ++j) {
      uint32_t sum = 0;
      if (accumulate)
        std::memcpy(&sum, &content[c + i * ldc + j * 4], 4);
      for (uint32_t l = 0; l < k; ++l)
        sum += uint32_t(int32_t(content[a + i * lda + l]) * content[b + l * ldb + j]);
      std::memcpy(&expected[c + i * ldc + j * 4], &sum, 4);
    }
  minnow.run(gemm(a, b, c, m, n, k, lda, ldb, ldc, accumulate));
  CHECK(minnow.scratch<int8_t>(0, expected.size()) == expected); // Nothing else was touched either.
}

} // namespace

TEST_CASE("GEMM at sizes that are and are not multiples of 8") {
  Minnow minnow = Minnow::ready();
  Random random(1);
  for (uint32_t m : {1u, 7u, 8u, 17u})
    for (uint32_t n : {1u, 5u, 8u, 31u, 33u})
      for (uint32_t k : {1u, 3u, 8u, 25u})
        checkGemm(minnow, random, m, n, k, (m + n + k) % 2);
  checkGemm(minnow, random, 64, 64, 64, true);
  checkGemm(minnow, random, 1, 1, 1024, false);
  checkGemm(minnow, random, 1, 1024, 50, true);
  checkGemm(minnow, random, 1024, 1, 9, true);
  checkGemm(minnow, random, 2, 60, 600, false);
}

TEST_CASE("GEMM wraps at 32 bits and reaches the largest sums") {
  Minnow minnow = Minnow::ready();
  minnow.fill(0, std::vector<int8_t>(1024, -128));
  minnow.fill(1024, std::vector<int8_t>(8 * 1024, -128));
  minnow.fill(0x4000, std::vector<int32_t>{0x7fffffff, int32_t(0x80000000), -1, 0});
  minnow.run(gemm(0, 1024, 0x4000, 1, 4, 1024, 0, 8, 16, true));
  CHECK(minnow.scratch<uint32_t>(0x4000, 4) ==
        std::vector<uint32_t>{0x80ffffff, 0x81000000, 0x00ffffff, 0x01000000});
  minnow.run(gemm(0, 1024, 0x4000, 1, 4, 1024, 0, 8, 16));
  CHECK(minnow.scratch<uint32_t>(0x4000, 4) == std::vector<uint32_t>(4, 0x01000000));
}

TEST_CASE("GEMM with leading dimensions of zero uses one row again and again") {
  Minnow minnow = Minnow::ready();
  minnow.fill(0, std::vector<int8_t>{1, 2, 3, 4, 5, 6, 7, 8});
  minnow.fill(8, std::vector<int8_t>{1, -1, 2, -2, 3, -3, 4, -4});
  minnow.run(gemm(0, 8, 64, 3, 8, 8, 0, 0, 32));
  std::vector<int32_t> row{36, -36, 72, -72, 108, -108, 144, -144}, three;
  for (int i = 0; i < 3; ++i)
    three.insert(three.end(), row.begin(), row.end());
  CHECK(minnow.scratch<int32_t>(64, 24) == three);
}

TEST_CASE("the largest GEMM there is ends in bounded real time") {
  Minnow minnow = Minnow::ready(16, "model:minnow?timeout=120000"); // Sanitizers on a busy machine.
  minnow.fill(0, std::vector<int8_t>(1024, 127));
  minnow.submit(0, {gemm(0, 0, 4096, 1024, 1024, 1024, 0, 0, 0)});
  CHECK(must(minnow.target->waitInterrupt(0, 1000000000)).fired == false);
  CHECK(minnow.isIdle());
  CHECK(minnow.scratch<int32_t>(4096, 1024) == std::vector<int32_t>(1024, 127 * 127 * 1024));
  CHECK(minnow.counter(1) == uint64_t(1) << 30);
}

TEST_CASE("VADD32 wraps; with BROADCAST b is one row and its stride means nothing") {
  Minnow minnow = Minnow::ready();
  Random random(2);
  for (auto [rows, cols] : {std::pair(1u, 1u), {3u, 5u}, {4u, 64u}, {100u, 7u}})
    for (bool broadcast : {false, true}) {
      CAPTURE(cols);
      CAPTURE(broadcast);
      uint32_t ld = roundUp(cols * 4), b = rows * ld, d = 2 * rows * ld;
      std::vector<uint32_t> x = numbers<uint32_t>(random, 3 * rows * ld / 4), expected = x;
      minnow.fill(0, x);
      for (uint32_t i = 0; i < rows; ++i)
        for (uint32_t j = 0; j < cols; ++j)
          expected[d / 4 + i * ld / 4 + j] = x[i * ld / 4 + j] + x[b / 4 + (broadcast ? 0 : i * ld / 4) + j];
      minnow.run(vector(0x20, 0, b, d, rows, cols, ld, broadcast ? 12345 : ld, ld, broadcast));
      CHECK(minnow.scratch<uint32_t>(0, x.size()) == expected);
    }
}

TEST_CASE("VADD8 saturates: all 65,536 pairs") {
  Minnow minnow = Minnow::ready();
  std::vector<int8_t> all(256);
  for (int i = 0; i < 256; ++i)
    all[size_t(i)] = int8_t(i - 128);
  minnow.fill(0, all);
  for (int b = -128; b < 128; ++b) {
    minnow.fill(256, std::vector<int8_t>(256, int8_t(b)));
    // The flag means nothing here.
    minnow.run(vector(0x21, 0, 256, 512, 1, 256, 0, 0, 0, b % 2));
    std::vector<int8_t> expected(256);
    for (int a = -128; a < 128; ++a)
      expected[size_t(a + 128)] = int8_t(clamp(a + b, -128, 127));
    CHECK(minnow.scratch<int8_t>(512, 256) == expected);
  }
}

TEST_CASE("RELU8, and results in the place of an operand") {
  Minnow minnow = Minnow::ready();
  Random random(3);
  std::vector<int8_t> x = numbers<int8_t>(random, 4096), y = numbers<int8_t>(random, 4096);
  auto relu = [](int8_t v) { return v > 0 ? v : int8_t(0); };
  minnow.fill(0, x);
  minnow.run(Words{0x22, 0, 0, 0, 0, 10, 13, 16, 0, 16}); // In place; columns 13 to 15 stay.
  std::vector<int8_t> expected = x;
  for (uint32_t i = 0; i < 10; ++i)
    for (uint32_t j = 0; j < 13; ++j)
      expected[i * 16 + j] = relu(x[i * 16 + j]);
  CHECK(minnow.scratch<int8_t>(0, 4096) == expected);

  for (bool onB : {false, true}) {
    minnow.fill(0, x);
    minnow.fill(4096, y);
    minnow.run(vector(0x21, 0, 4096, onB ? 4096 : 0, 1, 4096, 0, 0, 0));
    for (size_t j = 0; j < 4096; ++j)
      expected[j] = int8_t(clamp(int(x[j]) + y[j], -128, 127));
    CHECK(minnow.scratch<int8_t>(onB ? 4096 : 0, 4096) == expected);
  }
}

TEST_CASE("REQUANT: every corner of rounding and saturation") {
  Minnow minnow = Minnow::ready(64);
  std::vector<int32_t> values{0,          1,          -1,          2,
                              -2,         3,          -3,          127,
                              128,        -128,       -129,        255,
                              256,        0x3fffffff, 0x40000000,  -0x40000000,
                              0x7ffffffe, 0x7fffffff, -0x7fffffff, std::numeric_limits<int32_t>::min()};
  minnow.fill(0, values);
  auto count = uint32_t(values.size());
  for (int32_t multiplier : {1, 2, 3, 0x40000000, 0x7ffffffe, 0x7fffffff})
    for (uint32_t shift : {0u, 1u, 2u, 7u, 30u, 31u, 32u, 55u, 61u, 62u})
      for (int32_t zero :
           {0, 1, -1, -128, 127, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()})
        for (bool relu : {false, true}) {
          CAPTURE(multiplier);
          CAPTURE(shift);
          CAPTURE(zero);
          minnow.submit(0, {requant(0, 1024, 1, count, 0, 0, multiplier, shift, zero, relu)});
          minnow.settle();
          std::vector<int8_t> expected;
          for (int32_t value : values)
            expected.push_back(expectedRequant(value, multiplier, shift, zero, relu));
          CHECK(minnow.scratch<int8_t>(1024, count) == expected);
        }
  CHECK(minnow.read(ErrCode) == 0);
}

TEST_CASE("REQUANT: known answers, so that the expectation above is not alone") {
  Minnow minnow = Minnow::ready();
  minnow.fill(0, std::vector<int32_t>{1, -1, 3, -3, 5, -5, 253, -257});
  minnow.run(requant(0, 64, 1, 8, 0, 0, 1, 1, 0)); // Halves go up: 0.5 → 1, −0.5 → 0.
  CHECK(minnow.scratch<int8_t>(64, 8) == std::vector<int8_t>{1, 0, 2, -1, 3, -2, 127, -128});
  minnow.run(requant(0, 64, 1, 8, 0, 0, 1, 1, -2, true));
  CHECK(minnow.scratch<int8_t>(64, 8) == std::vector<int8_t>{0, 0, 0, 0, 1, 0, 125, 0});
}

TEST_CASE("REQUANT in place, rows closing up") {
  Minnow minnow = Minnow::ready();
  Random random(5);
  for (uint32_t ldd : {40u, 8u}) {
    std::vector<int32_t> x = numbers<int32_t>(random, 200);
    minnow.fill(0, x);
    std::vector<int8_t> expected = minnow.scratch<int8_t>(0, 800);
    for (uint32_t i = 0; i < 20; ++i)
      for (uint32_t j = 0; j < 7; ++j)
        expected[i * ldd + j] = expectedRequant(x[i * 10 + j], 1000, 30, 5, false);
    minnow.run(requant(0, 0, 20, 7, 40, ldd, 1000, 30, 5));
    CHECK(minnow.scratch<int8_t>(0, 800) == expected);
  }
}

TEST_CASE("MAXPOOL8 at odd shapes, windows and strides") {
  Minnow minnow = Minnow::ready();
  Random random(4);
  struct {
    uint32_t height, width, channels, window, stride;
  } cases[] = {{1, 1, 8, 1, 1}, {8, 8, 8, 2, 2},    {7, 9, 16, 3, 2}, {8, 8, 24, 8, 8},
               {5, 5, 8, 2, 3}, {2, 256, 64, 2, 1}, {10, 4, 8, 4, 8}, {256, 3, 40, 3, 5}};
  for (auto &[height, width, channels, window, stride] : cases) {
    CAPTURE(height);
    std::vector<int8_t> x = numbers<int8_t>(random, size_t(height) * width * channels);
    if (height == 1)
      std::fill(x.begin(), x.end(), -128);
    uint32_t oh = (height - window) / stride + 1, ow = (width - window) / stride + 1;
    std::vector<int8_t> expected;
    for (uint32_t y = 0; y < oh; ++y)
      for (uint32_t z = 0; z < ow; ++z)
        for (uint32_t c = 0; c < channels; ++c) {
          int most = -999;
          for (uint32_t u = 0; u < window * window; ++u)
            most = std::max<int>(
                most, x[((y * stride + u / window) * width + z * stride + u % window) * channels + c]);
          expected.push_back(int8_t(most));
        }
    uint32_t d = 65536 - uint32_t(expected.size());
    REQUIRE(x.size() <= d);
    minnow.fill(0, x);
    minnow.run(maxpool(0, d, height, width, channels, window, stride));
    CHECK(minnow.scratch<int8_t>(d, expected.size()) == expected);
    CHECK(minnow.scratch<int8_t>(0, x.size()) == x);
  }
}

TEST_CASE("a 64×64×64 GEMM takes tens of microseconds of real time") {
  Minnow minnow = Minnow::ready(1024);
  for (int i = 0; i < 1000; ++i)
    minnow.put(0, gemm(0, 4096, 8192, 64, 64, 64, 64, 64, 256));
  double each = milliseconds([&] {
    minnow.doorbell(0);
    minnow.pass(1000000000);
  });
  CHECK(minnow.isIdle());
  CHECK(minnow.counter(1) == 1000 * 64 * 64 * 64);
#ifdef TAPEBACK_SANITIZED
  CHECK(each < 10000);
#else
  CHECK(each < 200); // Microseconds; generous, for a busy machine.
#endif
}
