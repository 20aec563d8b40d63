// GEMM against a plain triple loop, at every kind of edge; and how fast the array is.
#include "tests/hal/minnow/rtl/Device.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Gemm {
  uint32_t m, n, k, lda, ldb, ldc, a, b, c;
  bool accumulate;
};

/// What the scratchpad must be afterwards.
Bytes expected(Bytes pad, const Gemm &g) {
  Bytes result = pad;
  for (uint32_t i = 0; i < g.m; ++i)
    for (uint32_t j = 0; j < g.n; ++j) {
      size_t at = g.c + i * g.ldc + 4 * j;
      uint32_t sum = g.accumulate ? uint32_t(int32At(pad, at)) : 0;
      for (uint32_t l = 0; l < g.k; ++l)
        sum += uint32_t(int32_t(int8_t(pad[g.a + i * g.lda + l])) * int8_t(pad[g.b + l * g.ldb + j]));
      std::memcpy(&result[at], &sum, 4);
    }
  return result;
}

minnow_command command(const Gemm &g) {
  return minnow_gemm(g.a, g.b, g.c, g.m, g.n, g.k, g.lda, g.ldb, g.ldc, g.accumulate ? MINNOW_ACCUMULATE : 0);
}

} // namespace

TEST_CASE("GEMM of every small size, and of random ones") {
  RTL_OR_SKIP();
  Device minnow;
  std::mt19937 random(7);
  uint64_t macs = 0;
  int cases = 0;
  auto check = [&](const Gemm &g) {
    Bytes pad = noise(0x10000, random());
    minnow.load(0, pad);
    minnow.run({command(g)});
    macs += uint64_t(g.m) * g.n * g.k;
    ++cases;
    if (minnow.scratchpad() != expected(pad, g))
      FAIL_CHECK("m=" << g.m << " n=" << g.n << " k=" << g.k << " lda=" << g.lda << " ldb=" << g.ldb
                      << " ldc=" << g.ldc << " accumulate=" << g.accumulate);
  };
  for (uint32_t m : {1u, 2u, 7u, 8u, 9u, 17u})
    for (uint32_t n : {1u, 2u, 3u, 5u, 8u, 9u, 16u})
      for (uint32_t k : {1u, 7u, 8u, 9u, 24u})
        check({m, n, k, up8(k), up8(n) + 8, up8(4 * n), 0, 0x1000, 0x4000, (m + n + k) % 2 == 0});
  for (int i = 0; i < 60; ++i) {
    auto pick = [&](uint32_t low, uint32_t high) { return low + random() % (high - low + 1); };
    Gemm g{};
    g.m = pick(1, 40), g.n = pick(1, 40), g.k = pick(1, 90);
    g.lda = up8(g.k) + 8 * pick(0, 3), g.ldb = up8(g.n) + 8 * pick(0, 3),
    g.ldc = up8(4 * g.n) + 8 * pick(0, 3);
    g.a = 8 * pick(0, 500), g.b = 0x2800 + 8 * pick(0, 500), g.c = 0x8000 + 8 * pick(0, 500);
    g.accumulate = pick(0, 1);
    check(g);
  }
  check({1024, 1, 16, 16, 8, 8, 0, 0x8000, 0x9000, false});
  check({1, 1024, 8, 8, 1024, 4096, 0, 0x1000, 0x8000, true});
  check({2, 8, 1024, 1024, 8, 32, 0, 0x1000, 0x8000, false});
  check({9, 9, 16, 0, 0, 64, 0x100, 0x200, 0x300, false}); // Strides of zero: one row for all.
  CHECK(cases == 6 * 7 * 5 + 64);
  CHECK(minnow.counter(MINNOW_CNT_MACS) == macs);
}

TEST_CASE("GEMM wraps modulo 2^32 and knows the extremes of int8") {
  RTL_OR_SKIP();
  Device minnow;
  Bytes ones(0x400, 0x80); // −128 · −128 · 64 = 2^20
  minnow.load(0, ones);
  Bytes c(256);
  for (int i = 0; i < 64; ++i) {
    int32_t value = i % 2 ? 0x7fffffff : -0x7fffffff;
    std::memcpy(&c[4 * i], &value, 4);
  }
  minnow.load(0x1000, c);
  minnow.run({minnow_gemm(0, 0x200, 0x1000, 8, 8, 64, 64, 8, 32, MINNOW_ACCUMULATE)});
  Bytes out = minnow.scratchpad(0x1000, 256);
  for (int i = 0; i < 64; ++i)
    CHECK(uint32_t(int32At(out, 4 * i)) == uint32_t(int32At(c, 4 * i)) + (1u << 20));
}

TEST_CASE("the array is kept busy") {
  RTL_OR_SKIP();
  Device minnow;
  struct {
    uint32_t m, n, k;
    double least; // MACs per busy cycle: 512 in 20 cycles are 25.6.
  } cases[] = {{64, 64, 64, 28}, {32, 64, 128, 32}, {8, 64, 256, 34}, {25, 64, 64, 22}};
  for (const auto &g : cases) {
    uint64_t macs = minnow.counter(MINNOW_CNT_MACS), busy = minnow.counter(MINNOW_CNT_ARRAY_BUSY);
    minnow.run({minnow_gemm(0, 0x4000, 0x8000, g.m, g.n, g.k, g.k, g.n, 4 * g.n, 0)});
    double rate =
        double(minnow.counter(MINNOW_CNT_MACS) - macs) / double(minnow.counter(MINNOW_CNT_ARRAY_BUSY) - busy);
    MESSAGE("m=" << g.m << " n=" << g.n << " k=" << g.k << ": " << rate << " MACs a cycle");
    CHECK(rate > g.least);
  }
}
