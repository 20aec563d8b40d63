// Random legal command streams for both queues: ordered where they touch the same bytes, so that timing must
// not matter.
#pragma once

#include "tests/hal/minnow/model/Minnow.h"
#include <random>

namespace tapeback::test {

/// Each queue has half of the scratchpad and a part of host memory of its own. From time to time one hands a
/// piece over to the other, by SIGNAL and WAIT or by BARRIER.
class Stream {
public:
  explicit Stream(uint64_t seed) : random(seed) {}

  /// The next commands, for both queues: at least one each, at most 8.
  void next(std::vector<Words> (&out)[2]) {
    for (unsigned q : {0u, 1u})
      for (uint64_t count = 1 + random() % 5; count; --count)
        out[q].push_back(one(q));
    switch (random() % 4) {
    case 0:
      out[0].push_back(barrier());
      out[1].push_back(barrier());
      break;
    case 1: { // Queue `from` gives a buffer in host memory to the other, and gets it back.
      auto from = unsigned(random() % 2);
      auto semaphore = uint32_t(random() % 4);
      uint64_t shared = Minnow::data + 0xa0000;
      out[from].push_back(dma(true, shared, half(from), 512));
      out[from].push_back(signal(semaphore));
      out[1 - from].push_back(wait(semaphore));
      out[1 - from].push_back(dma(false, shared, half(1 - from) + 1024, 512));
      out[1 - from].push_back(signal(semaphore + 4));
      out[from].push_back(wait(semaphore + 4));
      break;
    }
    default: break;
    }
  }

private:
  uint32_t pick(uint32_t least, uint32_t most) { return least + uint32_t(random() % (most - least + 1)); }
  static uint32_t half(unsigned q) { return q * 32768; }
  static uint32_t up(uint32_t value) { return (value + 7) / 8 * 8; }
  uint64_t host(unsigned q) { return Minnow::data + 0x50000 * q + random() % 0x8000 / 8 * 8; }
  /// Somewhere in an eighth of the queue's half; a different one for each operand.
  uint32_t place(unsigned q, uint32_t eighth) { return half(q) + eighth * 4096 + pick(0, 64) * 8; }

  Words one(unsigned q) {
    switch (random() % 10) {
    case 0:
    case 1: {
      uint32_t row = 8 * pick(1, 40), rows = pick(1, 8);
      return dma(random() % 2, host(q), place(q, pick(0, 6)), row, rows, 8 * pick(0, 64), up(row));
    }
    case 2:
    case 3: {
      uint32_t m = pick(1, 20), n = pick(1, 20), k = pick(1, 40);
      return gemm(place(q, 0), place(q, 1), place(q, 2), m, n, k, up(k), up(n), up(4 * n), random() % 2);
    }
    case 4: {
      uint32_t rows = pick(1, 8), cols = pick(1, 60), ld = up(cols * 4);
      return vector(0x20, place(q, 2), place(q, 3), place(q, 4), rows, cols, ld, ld, ld, random() % 2);
    }
    case 5: {
      uint32_t rows = pick(1, 8), cols = pick(1, 300), ld = up(cols);
      return vector(0x21, place(q, 0), place(q, 1), place(q, 5), rows, cols, ld, ld, ld);
    }
    case 6: {
      uint32_t rows = pick(1, 8), cols = pick(1, 300), ld = up(cols);
      return vector(0x22, place(q, 5), 0, place(q, 6), rows, cols, ld, 0, ld);
    }
    case 7: {
      uint32_t rows = pick(1, 8), cols = pick(1, 60);
      return requant(place(q, 2), place(q, 0), rows, cols, up(cols * 4), up(cols),
                     int32_t(pick(1, 0x7fffffff)), pick(0, 62), int32_t(random()), random() % 2);
    }
    case 8: {
      uint32_t size = pick(2, 10), window = pick(1, std::min(size, 8u));
      return maxpool(place(q, 6), place(q, 3), size, size, 8 * pick(1, 3), window, pick(1, 8));
    }
    default: return fence(host(q), random(), random() % 2);
    }
  }

  std::mt19937_64 random;
};

} // namespace tapeback::test
