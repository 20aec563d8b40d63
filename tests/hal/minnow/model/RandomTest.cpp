// Random legal command streams: the same twice, and the same whatever the timing.
#include "tests/hal/minnow/model/Stream.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Outcome {
  std::vector<uint8_t> scratchpad, memory;
  std::vector<uint64_t> exact; ///< Counters.
  uint64_t time = 0;
};

void fillMemory(Minnow &minnow, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (uint64_t at = Minnow::data; at < Minnow::iova + Minnow::bytes; at += 8) {
    uint64_t value = random();
    std::memcpy(minnow.host(at), &value, 8);
  }
}

Outcome runStream(uint64_t seed, const std::string &options, bool clipped = false) {
  Minnow minnow = Minnow::ready(64, "model:minnow" + options);
  fillMemory(minnow, seed);
  for (uint32_t part = 0; part < 16; ++part) // So that it computes with something.
    minnow.run(dma(false, Minnow::data + part * 4096, part * 4096, 4096));
  Stream stream(seed);
  for (int turn = 0; turn < 12; ++turn) {
    std::vector<Words> commands[2];
    for (int i = 0; i < 4; ++i)
      stream.next(commands);
    for (unsigned q : {turn % 2u, 1u - turn % 2u}) {
      for (const Words &words : commands[q])
        minnow.put(q, words);
      minnow.doorbell(q);
    }
    minnow.settle();
    REQUIRE(errorOf(minnow) == "none");
  }
  Outcome outcome{minnow.scratchpad(), minnow.hostBytes(Minnow::data, Minnow::bytes - 0x20000), {}, 0};
  for (uint32_t id : {1u, 3u, 4u, 5u, 6u, 11u})
    outcome.exact.push_back(minnow.counter(id));
  outcome.time = must(minnow.target->deviceTime());
  if (clipped) // A difference of one bit, for the test of the comparison.
    outcome.scratchpad[12345] ^= 1;
  return outcome;
}

#ifdef TAPEBACK_SANITIZED
constexpr uint64_t seeds = 6;
#else
constexpr uint64_t seeds = 40;
#endif

} // namespace

TEST_CASE("two runs of a stream are the same, in memory, counters and time") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Outcome first = runStream(seed, "?jitter=99"), second = runStream(seed, "?jitter=99");
    CHECK(first.scratchpad == second.scratchpad);
    CHECK(first.memory == second.memory);
    CHECK(first.exact == second.exact);
    CHECK(first.time == second.time);
    CHECK(first.exact[0] > 0);
    CHECK(first.exact[5] > 200);
  }
}

TEST_CASE("what is ordered does not depend on timing") {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    Outcome plain = runStream(seed, "");
    for (const char *options :
         {"?jitter=1", "?jitter=0xdeadbeef&memory-latency=500", "?memory-latency=0&access-time=7"}) {
      CAPTURE(options);
      Outcome other = runStream(seed, options);
      CHECK(plain.scratchpad == other.scratchpad);
      CHECK(plain.memory == other.memory);
      CHECK(plain.exact == other.exact);
      CHECK(plain.time != other.time);
    }
  }
}

TEST_CASE("and the comparison sees one bit, and another seed") {
  Outcome one = runStream(1, "");
  CHECK(one.scratchpad != runStream(1, "", true).scratchpad);
  Outcome two = runStream(2, "");
  CHECK(one.scratchpad != two.scratchpad);
  CHECK(one.memory != two.memory);
}

TEST_CASE("garbage in the rings ends in errors, each stepped over, never in anything worse") {
  std::mt19937_64 random(7);
  Minnow minnow = Minnow::ready(64);
  uint64_t errors = 0;
  for (int turn = 0; turn < 200; ++turn) {
    for (unsigned q : {0u, 1u})
      for (int i = 0; i < 8; ++i) {
        Words words;
        for (uint32_t &word : words)
          word = uint32_t(random()) >> random() % 32;
        // Mostly real opcodes, mostly aligned, often in range. No WAIT or BARRIER: nobody answers.
        constexpr uint32_t opcodes[] = {0, 1, 2, 3, 0x10, 0x20, 0x21, 0x22, 0x23, 0x24, 0x30, 0x31};
        if (random() % 8)
          words[0] = opcodes[random() % 12] | uint32_t(random() % 2) << 8;
        else if ((words[0] & 0xff) == 0x32 || (words[0] & 0xff) == 0x33)
          words[0] = 0;
        if (random() % 8)
          for (unsigned w : {2, 3, 4, 7, 8, 9, 10})
            words[w] &= w == 7 && (words[0] & 0xff) == 0x10 ? 0x3f : random() % 8 ? 0xfff8 : ~7u;
        if (random() % 2)
          words[3] = 0, words[2] += uint32_t(Minnow::data);
        minnow.put(q, words);
      }
    minnow.doorbell(0);
    minnow.doorbell(1);
    for (int i = 0; i < 40; ++i) {
      minnow.settle();
      if (!(minnow.read(Status) & halted))
        break;
      ++errors;
      uint32_t code = minnow.read(ErrCode);
      CHECK(code >= 1);
      CHECK(code <= 7);
      minnow.write(Control, enable | resume);
    }
    REQUIRE((minnow.read(Status) & (idle | halted)) == idle);
  }
  CHECK(minnow.readQueue(0, Done) == 1600);
  CHECK(minnow.readQueue(1, Done) == 1600);
  CHECK(errors > 500);
  CHECK(errors + minnow.counter(11) == 3200);
  CHECK(minnow.counter(11) > 300);
}
