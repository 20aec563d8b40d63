// The reference model against the device that it is a model of: the same random accesses must be answered
// alike. What QEMU 7.2 dies of, and what it does in real time, is left out; hal/edu/README.md lists it.
#include "tests/hal/Edu.h"
#include "tests/support/NeedQemu.h"
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t iova = 0x1000000, memorySize = 4 * 4096;

/// Waits until nothing runs any more. QEMU's factorial is a thread of the host's: it needs real time.
void settle(Edu &edu) {
  timespec start, now;
  ::clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    must(edu.target->advance(100000000));
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    REQUIRE(now.tv_sec - start.tv_sec < 20);
  } while ((edu.read(0x20) & 1) || (edu.read(0x98) & 1));
}

/// One random step; what was seen, as text.
std::string step(Edu &edu, std::mt19937_64 &random) {
  static const uint64_t registers[] = {0x00, 0x04, 0x08, 0x0c, 0x20, 0x24, 0x28, 0x60, 0x64,  0x80,
                                       0x84, 0x88, 0x8c, 0x90, 0x94, 0x98, 0x9c, 0xa0, 0x1000};
  uint64_t pick = random(), value = random() >> random() % 64,
           reg = registers[random() % std::size(registers)];
  Target &target = *edu.target;
  switch (pick % 10) {
  case 0:
  case 1:
  case 2: {
    unsigned width = 1u << random() % 4;
    reg -= reg % width;
    return "read " + std::to_string(reg) + "/" + std::to_string(width) + " " +
           std::to_string(must(target.read(0, reg, width)));
  }
  case 3:
  case 4: {
    unsigned width = 1u << random() % 4;
    reg -= reg % width;
    if (reg == 0x08)
      value %= 1000;                            // QEMU really multiplies: 2^32 takes it seconds.
    bool mayStart = reg == 0x98 && (value & 1); // A transfer of who knows what: QEMU could die of it.
    if (!mayStart)
      must(target.write(0, reg, width, value));
    settle(edu);
    return "write";
  }
  case 5: edu.write(0x04, uint32_t(value)); return "liveness";
  case 6:
    edu.write(0x20, value & 0x80 ? 0x80 : 0);
    edu.write(0x08, uint32_t(value % 14));
    settle(edu);
    return "factorial " + std::to_string(edu.read(0x08)) + " " + std::to_string(edu.read(0x20));
  case 7: edu.write(value & 1 ? 0x60 : 0x64, uint32_t(value)); return "interrupt";
  case 8: {
    uint8_t bytes[1024];
    for (uint8_t &byte : bytes)
      byte = uint8_t(random());
    must(target.writeMemory(iova + value % (memorySize - sizeof bytes), bytes));
    return "memory";
  }
  default: {
    bool from = value & 1;
    uint64_t count = 1 + random() % 4095, inside = random() % (4096 - count),
             host = random() % (memorySize - count);
    uint64_t high = (random() % 3) << 28; // Beyond the 28 bits: dropped.
    edu.write(0x80, from ? 0x40000 + inside : (iova + host) | high);
    edu.write(0x88, from ? (iova + host) | high : 0x40000 + inside);
    edu.write(0x90, count);
    edu.write(0x98, 1 | (from ? 2 : 0) | (value & 0xf4));
    settle(edu);
    return "dma " + std::to_string(edu.read64(0x98));
  }
  }
}

std::string state(Edu &edu) {
  std::string text;
  for (uint64_t reg : {0x00, 0x04, 0x08, 0x20, 0x24})
    text += std::to_string(edu.read(reg)) + " ";
  for (uint64_t reg : {0x80, 0x88, 0x90, 0x98})
    text += std::to_string(edu.read64(reg)) + " ";
  std::vector<uint8_t> memory(memorySize);
  must(edu.target->readMemory(iova, memory));
  text.append(memory.begin(), memory.end());
  return text + (must(edu.target->waitInterrupt(0, 0)).fired ? " irq" : " quiet");
}

/// Where the two first differ; empty if they do not.
std::string firstDifference(const std::string &one, const std::string &other, uint64_t seed, int steps) {
  Edu a(one, iova, memorySize), b(other, iova, memorySize);
  std::mt19937_64 randomA(seed), randomB(seed);
  for (int i = 0; i < steps; ++i) {
    std::string sawA = step(a, randomA), sawB = step(b, randomB);
    std::string place = "seed " + std::to_string(seed) + ", step " + std::to_string(i) + ": ";
    if (sawA != sawB)
      return place + sawA + " against " + sawB;
    if (i % 8 == 7 && state(a) != state(b))
      return place + "states differ after " + sawA;
  }
  return "";
}

} // namespace

TEST_CASE("the model answers as QEMU's edu does") {
  TB_NEED_QEMU();
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    CHECK(firstDifference("model:edu", "qemu:edu", seed, 300) == "");
  }
}

TEST_CASE("the comparison finds each fault") {
  // Between two models, so that it runs everywhere.
  CHECK(firstDifference("model:edu", "model:edu?access-time=2000", 1, 1000) == "");
  for (const char *fault : {"dma-last-byte", "factorial", "irq-sticky", "liveness&after=5"}) {
    CAPTURE(fault);
    CHECK(firstDifference("model:edu", "model:edu?fault=" + std::string(fault), 1, 1000) != "");
  }
}
