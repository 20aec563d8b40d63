// Snapshots of Minnow, taken in the middle of things.
#include "tests/hal/minnow/model/Stream.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// All that can be seen, registers with side effects and memory included.
std::string look(Minnow &minnow) {
  std::string seen;
  auto add = [&](const std::vector<uint8_t> &bytes) { seen.append(bytes.begin(), bytes.end()); };
  for (uint64_t offset = 0; offset < 0x2a0; offset += 4)
    seen += std::to_string(minnow.read(offset)) + " ";
  for (uint32_t id = 0; id < 12; ++id)
    seen += std::to_string(minnow.counter(id)) + " ";
  seen += std::to_string(must(minnow.target->deviceTime()));
  add(minnow.scratchpad());
  add(minnow.hostBytes(Minnow::iova, Minnow::bytes));
  return seen;
}

/// What a run from here looks like, at several moments and at its end.
std::vector<std::string> future(Minnow &minnow) {
  std::vector<std::string> seen;
  for (uint64_t time : {10u, 500u, 3000u, 20000u, 100000u}) {
    minnow.pass(time);
    seen.push_back(look(minnow));
  }
  seen.push_back("irq " + std::to_string(must(minnow.target->waitInterrupt(0, 100000)).count));
  minnow.settle();
  seen.push_back(look(minnow));
  return seen;
}

} // namespace

TEST_CASE("what follows a restore is what followed the snapshot, from any moment of a stream") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Minnow minnow = Minnow::ready(64, "model:minnow?jitter=" + std::to_string(seed));
    minnow.write(IrqEnable, 7);
    for (uint64_t i = 0; i < 0xc0000; ++i)
      *minnow.host(Minnow::data + i) = uint8_t(i * seed * 2654435761u >> 11);
    Stream stream(seed);
    std::vector<Words> commands[2];
    for (int i = 0; i < 4; ++i)
      stream.next(commands);
    for (unsigned q : {0u, 1u}) {
      for (const Words &words : commands[q])
        minnow.put(q, words);
      minnow.put(q, q ? signal(7) : Words{0xff}); // A halt among it.
      minnow.doorbell(q);
    }
    minnow.pass(seed * 1237);
    uint64_t snapshot = must(minnow.target->snapshot());
    std::string now = look(minnow);
    std::vector<std::string> first = future(minnow);
    CHECK(first.back() != now);
    must(minnow.target->restore(snapshot));
    CHECK(look(minnow) == now);
    must(minnow.target->restore(snapshot));
    look(minnow);
    CHECK(future(minnow) == first);
    CHECK(future(minnow) != first);
  }
}

TEST_CASE("each kind of moment: in a chain, in a GEMM, blocked, halting, halted, resetting") {
  auto check = [](Minnow &minnow, const char *what) {
    CAPTURE(what);
    uint64_t snapshot = must(minnow.target->snapshot());
    std::string now = look(minnow);
    minnow.pass(5000000);
    std::string later = look(minnow);
    must(minnow.target->restore(snapshot));
    CHECK(look(minnow) == now);
    minnow.pass(5000000);
    CHECK(look(minnow) == later);
  };
  uint64_t list = Minnow::data;
  Minnow chained = Minnow::ready();
  for (uint32_t i = 0; i < 20; ++i) {
    uint64_t descriptor[8] = {Minnow::data + 0x1000, i * 64 | uint64_t(64) << 32, 3,
                              64 | uint64_t(i == 19 ? 2 : 0) << 32, list + 64 * (i + 1)};
    std::memcpy(chained.host(list + 64 * i), descriptor, 64);
  }
  chained.submit(0, {chain(list), fence(Minnow::data + 0x800, 1)});
  for (int i = 0; i < 9; ++i) {
    chained.pass(1300);
    check(chained, "in a chain");
    must(chained.target->restore(must(chained.target->snapshot())));
  }

  Minnow computing = Minnow::ready();
  computing.submit(0, {gemm(0, 0, 4096, 256, 256, 192, 0, 0, 0)});
  computing.submit(1, {barrier()});
  computing.pass(5000);
  check(computing, "in a GEMM, the other in a barrier");

  Minnow halting = Minnow::ready();
  halting.submit(0, {gemm(0, 0, 4096, 256, 256, 192, 0, 0, 0), nop()});
  halting.pass(5000);
  halting.submit(1, {{0xff}});
  halting.pass(5000);
  CHECK(halting.read(ErrCode) == 1);
  CHECK(!halting.isHalted());
  check(halting, "halting");
  halting.settle();
  check(halting, "halted");
  halting.write(Control, softReset);
  check(halting, "resetting");
}

TEST_CASE("a restored halt can be resumed, again and again") {
  Minnow minnow = Minnow::ready();
  minnow.submit(0, {{0xff}, fence(Minnow::data, 9)});
  minnow.settle();
  uint64_t snapshot = must(minnow.target->snapshot());
  for (int i = 0; i < 3; ++i) {
    CHECK(errorOf(minnow) == "code 1 queue 0 index 0 opcode 0xff address 0x0");
    CHECK(*minnow.host(Minnow::data) == 0);
    minnow.write(Control, enable | resume);
    minnow.settle();
    CHECK(*minnow.host(Minnow::data) == 9);
    must(minnow.target->restore(snapshot));
  }
}
