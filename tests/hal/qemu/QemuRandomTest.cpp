// Random sequences against a few lines of expectation: whatever the order, the device answers as edu is
// specified.
#include "tests/hal/qemu/EduDriver.h"
#include <cstring>
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// What edu's state must be, as far as these sequences touch it.
struct Expectation {
  uint32_t liveness = 0, factorial = 0, irqStatus = 0;
  uint64_t source = 0, target = 0, count = 0;
  std::vector<uint8_t> buffer = std::vector<uint8_t>(4096);
  std::vector<uint8_t> memory;
};

uint32_t factorialOf(uint32_t n) {
  uint32_t result = 1;
  while (n > 0)
    result *= n--;
  return result;
}

void runSequence(uint64_t seed, int steps) {
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Edu edu;
  MapRequest request;
  request.size = 3 * 4096;
  request.iova = 4096 * (0x100 + random() % 0xe000);
  MemoryRegion region = must(edu.target->map(request));
  Expectation expected;
  expected.memory.resize(region.size);
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    switch (random() % 9) {
    case 0:
      expected.liveness = ~uint32_t(random());
      edu.write(eduLiveness, uint32_t(~expected.liveness));
      break;
    case 1: REQUIRE(edu.read(eduLiveness) == expected.liveness); break;
    case 2: {
      uint32_t n = uint32_t(random() % 40);
      expected.factorial = factorialOf(n);
      REQUIRE(edu.factorial(n) == expected.factorial);
      break;
    }
    case 3: REQUIRE(edu.read(eduFactorial) == expected.factorial); break;
    case 4: {
      uint32_t bits = uint32_t(random());
      expected.irqStatus |= bits;
      edu.write(eduIrqRaise, bits);
      if (expected.irqStatus)
        REQUIRE(must(edu.target->waitInterrupt(0, 10 * second)).fired);
      break;
    }
    case 5: {
      uint32_t bits = uint32_t(random());
      expected.irqStatus &= ~bits;
      edu.write(eduIrqAck, bits);
      REQUIRE(edu.read(eduIrqStatus) == expected.irqStatus);
      break;
    }
    case 6: {
      for (int i = 0; i < 50; ++i) {
        uint64_t at = random() % region.size;
        region.host[at] = expected.memory[at] = uint8_t(random());
      }
      break;
    }
    case 7: {
      uint64_t offset = random() % 4095, count = 1 + random() % (4095 - offset);
      uint64_t from = random() % (region.size - count + 1);
      edu.dma(Edu::ToDevice, region.iova + from, offset, count);
      std::memcpy(expected.buffer.data() + offset, expected.memory.data() + from, count);
      expected.source = region.iova + from;
      expected.target = eduBuffer + offset;
      expected.count = count;
      break;
    }
    case 8: {
      uint64_t offset = random() % 4095, count = 1 + random() % (4095 - offset);
      uint64_t to = random() % (region.size - count + 1);
      edu.dma(Edu::FromDevice, region.iova + to, offset, count);
      std::memcpy(expected.memory.data() + to, expected.buffer.data() + offset, count);
      expected.source = eduBuffer + offset;
      expected.target = region.iova + to;
      expected.count = count;
      break;
    }
    }
    if (step % 16 == 0) {
      REQUIRE(std::memcmp(region.host, expected.memory.data(), region.size) == 0);
      REQUIRE(edu.read(eduDmaSource, 8) == expected.source);
      REQUIRE(edu.read(eduDmaTarget, 8) == expected.target);
      REQUIRE(edu.read(eduDmaCount, 8) == expected.count);
    }
    if (random() % 100 == 0) {
      must(edu.target->reset(ResetKind::Default));
      std::vector<uint8_t> memory = std::move(expected.memory);
      expected = Expectation();
      expected.memory = std::move(memory);
    }
  }
  REQUIRE(std::memcmp(region.host, expected.memory.data(), region.size) == 0);
}

} // namespace

TEST_CASE("random registers, DMA, interrupts and resets are as expected") {
  TB_NEED_QEMU();
  for (uint64_t seed = 1; seed <= 6; ++seed)
    runSequence(seed, 400);
}
