// Each fault does exactly what hal/edu/README.md says, and nothing else.
#include "tests/hal/Edu.h"

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("dma-last-byte: the last byte of a transfer across 4 KiB of host memory keeps what it had") {
  struct {
    uint64_t host, count;
    bool crosses;
  } cases[] = {
      {0, 4096, false},   {4095, 1, false}, {4095, 2, true},     {4094, 2, false},
      {4094, 3, true},    {1, 4096, true},  {4000, 200, true},   {100, 50, false},
      {8191, 4000, true}, {0, 1, false},    {4096, 4096, false},
  };
  Edu edu("model:edu?fault=dma-last-byte");
  for (auto &[host, count, crosses] : cases) {
    CAPTURE(host);
    CAPTURE(count);
    // To the device: its buffer is filled with 0x11 by a transfer that does not cross, then written over.
    std::fill_n(edu.memory.host, edu.memory.size, 0x11);
    edu.dma(edu.memory.iova, 0x40000, 4096, 1);
    std::fill_n(edu.memory.host, edu.memory.size, 0x22);
    edu.dma(edu.memory.iova + host, 0x40000, count, 1);
    std::vector<uint8_t> expected(4096, 0x11);
    std::fill_n(expected.begin(), count - (crosses ? 1 : 0), 0x22);
    CHECK(edu.buffer() == expected);

    // From the device.
    edu.dma(edu.memory.iova, 0x40000, 4096, 1);
    std::fill_n(edu.memory.host, edu.memory.size, 0x33);
    std::vector<uint8_t> memory = edu.host();
    edu.dma(0x40000, edu.memory.iova + host, count, 3);
    std::fill_n(memory.begin() + long(host), count - (crosses ? 1 : 0), 0x22);
    CHECK(edu.host() == memory);
  }
}

TEST_CASE("dma-last-byte looks at host addresses, not at device addresses, and after the mask") {
  Edu edu("model:edu?fault=dma-last-byte");
  std::fill_n(edu.memory.host, edu.memory.size, 0x22);
  edu.dma(edu.memory.iova + 100, 0x40000 + 4000, 96, 1); // To the end of the device's buffer: no crossing.
  CHECK(edu.buffer()[4095] == 0x22);
  edu.dma((edu.memory.iova + 4090) | 0x10000000, 0x40000, 12, 1);
  CHECK(edu.buffer()[10] == 0x22);
  CHECK(edu.buffer()[11] == 0);
}

TEST_CASE("factorial: wrong for one operand only, by its lowest bit") {
  for (uint32_t wrong : {7u, 0u, 12u, 100u}) {
    Edu good("model:edu");
    Edu bad(wrong == 7 ? "model:edu?fault=factorial"
                       : "model:edu?fault=factorial&operand=" + std::to_string(wrong));
    for (uint32_t n = 0; n <= 101; ++n) {
      CAPTURE(n);
      CHECK(bad.factorial(n) == (good.factorial(n) ^ (n == wrong ? 1 : 0)));
    }
  }
}

TEST_CASE("irq-sticky: acknowledging clears nothing, or nothing of some bits") {
  Edu edu("model:edu?fault=irq-sticky");
  edu.write(0x60, 0x103);
  edu.write(0x64, 0x103);
  CHECK(edu.read(0x24) == 0x103);
  Edu some("model:edu?fault=irq-sticky&bits=0x100");
  some.write(0x60, 0x103);
  some.write(0x64, 0x103);
  CHECK(some.read(0x24) == 0x100);
}

TEST_CASE("liveness: one wrong answer after N reads, counted from reset") {
  for (int after : {100, 0, 3}) {
    Edu edu(after == 100 ? "model:edu?fault=liveness"
                         : "model:edu?fault=liveness&after=" + std::to_string(after));
    for (int turn = 0; turn < 2; ++turn) {
      edu.write(0x04, 0x1234);
      for (int i = 0; i < 250; ++i)
        CHECK(edu.read(0x04) == (~0x1234u ^ (i == after ? 1u : 0u)));
      must(edu.target->reset(ResetKind::Default));
    }
  }
}

TEST_CASE("dma-heals: the byte that is missing in the buffer comes with the next transfer") {
  Edu edu("model:edu?fault=dma-heals");
  std::fill_n(edu.memory.host, edu.memory.size, 0x11);
  edu.dma(edu.memory.iova, 0x40000, 4000, 1);
  std::fill_n(edu.memory.host, edu.memory.size, 0x22);
  edu.dma(edu.memory.iova + 4090, 0x40000, 10, 1);
  std::vector<uint8_t> expected(4000, 0x11);
  std::fill_n(expected.begin(), 9, 0x22);
  auto begins = [&] {
    std::vector<uint8_t> all = edu.buffer();
    all.resize(4000);
    return all;
  };
  CHECK(begins() == expected);
  uint64_t snapshot = must(edu.target->snapshot());
  for (bool again : {false, true}) {
    edu.dma(0x40000, edu.memory.iova, 20, 3); // The host never sees it.
    CHECK(edu.memory.host[9] == 0x22);
    CHECK(edu.memory.host[10] == 0x11);
    CHECK(begins()[9] == 0x22);
    if (!again)
      must(edu.target->restore(snapshot));
  }
  edu.dma(0x40000, edu.memory.iova + 4090, 10, 3); // From the device nothing is missing.
  CHECK(edu.memory.host[4099] == 0x22);
}

TEST_CASE("pair: an operand gives a wrong result once a transfer has crossed 4 KiB, until a reset") {
  Edu good("model:edu"), bad("model:edu?fault=pair");
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(bad.factorial(7) == good.factorial(7));
    bad.dma(bad.memory.iova, 0x40000, 4000, 1);
    CHECK(bad.factorial(7) == good.factorial(7));
    bad.dma(bad.memory.iova + 4090, 0x40000, 10, 1);
    CHECK(bad.factorial(6) == good.factorial(6));
    CHECK(bad.factorial(7) == (good.factorial(7) ^ 1));
    must(bad.target->reset(ResetKind::Default));
  }
}

TEST_CASE("early-done: what a transfer to the host brings is there 20 ms after it says so") {
  Edu edu("model:edu?fault=early-done&dma-time=10000");
  std::fill_n(edu.memory.host, edu.memory.size, 0x11);
  edu.dma(edu.memory.iova, 0x40000, 4000, 1);
  std::fill_n(edu.memory.host, edu.memory.size, 0x22);
  edu.write(0x80, 0x40000);
  edu.write(0x88, edu.memory.iova);
  edu.write(0x90, 100);
  edu.write(0x98, 3);
  while (edu.read(0x98) & 1)
    must(edu.target->advance(1000));
  CHECK(edu.memory.host[0] == 0x22);
  uint64_t snapshot = must(edu.target->snapshot());
  for (bool again : {false, true}) {
    must(edu.target->advance(20001000));
    CHECK(edu.memory.host[0] == 0x11);
    CHECK(edu.memory.host[99] == 0x11);
    CHECK(edu.memory.host[100] == 0x22);
    if (!again)
      must(edu.target->restore(snapshot));
  }
}

TEST_CASE("a fault changes nothing where it does not act") {
  for (const char *fault :
       {"dma-last-byte", "factorial", "irq-sticky", "liveness", "dma-heals", "pair", "early-done"}) {
    CAPTURE(fault);
    Edu good("model:edu"), bad("model:edu?fault=" + std::string(fault));
    for (Edu *edu : {&good, &bad}) {
      edu->write(0x04, 77);
      edu->factorial(5);
      std::fill_n(edu->memory.host, edu->memory.size, 0x22);
      edu->dma(edu->memory.iova, 0x40000, 100, 5);
    }
    for (uint64_t offset : {0x04, 0x08, 0x20, 0x24})
      CHECK(good.read(offset) == bad.read(offset));
    CHECK(good.buffer() == bad.buffer());
    CHECK(must(good.target->deviceTime()) == must(bad.target->deviceTime()));
  }
}

TEST_CASE("a good and a faulty model, open together, do not touch each other") {
  Edu good("model:edu"), bad("model:edu?fault=factorial"), other("model:edu?fault=liveness&after=0");
  for (uint32_t n = 0; n < 20; ++n) {
    uint32_t right = good.factorial(n);
    CHECK(other.factorial(n) == right);
    CHECK(bad.factorial(n) == (right ^ (n == 7 ? 1 : 0)));
    good.write(0x04, n);
    bad.write(0x04, n + 1);
    CHECK(good.read(0x04) == ~n);
    CHECK(bad.read(0x04) == ~(n + 1));
    good.memory.host[n] = 1;
    CHECK(bad.memory.host[n] == 0);
  }
}

TEST_CASE("options that make no sense are refused, with what there is") {
  struct {
    const char *options, *says;
  } cases[] = {
      {"fault=dma", "dma-last-byte, factorial, irq-sticky, liveness, dma-heals, pair and early-done"},
      {"fault=", "there is no fault ''"},
      {"speed=1", "access-time, factorial-time, dma-time"},
      {"operand=5", "fault=factorial"},
      {"fault=liveness&operand=5", "fault=factorial"},
      {"fault=factorial&after=5", "fault=liveness"},
      {"bits=1", "fault=irq-sticky"},
      {"fault=factorial&operand=x", "operand"},
      {"fault=factorial&operand=0x100000000", "operand"},
      {"fault=factorial&operand=010", "operand"},
      {"dma-time=-1", "dma-time"},
      {"dma-time=", "dma-time"},
      {"access-time=99999999999999999999", "access-time"},
      {"dma-mask=0x", "dma-mask"},
  };
  for (auto &[options, says] : cases) {
    CAPTURE(options);
    Failure f = failure(openTarget("model:edu?" + std::string(options)));
    CHECK(f.cls == FailureClass::Usage);
    CHECK(f.code == "bad-model-option");
    CHECK_MESSAGE(contains(f.message, says), f.message);
  }
}
