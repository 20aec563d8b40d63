// The halt: what stops, what goes on, and what RESUME does (SPEC.md, section 6).
#include "tests/hal/minnow/model/Minnow.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr Words bad{0xff};

} // namespace

TEST_CASE("RESUME steps over the failing command, and only while halted") {
  Minnow minnow = Minnow::ready();
  minnow.submit(0, {nop(), bad, fence(Minnow::data, 7)});
  minnow.settle();
  CHECK(errorOf(minnow) == "code 1 queue 0 index 1 opcode 0xff address 0x0");
  CHECK(minnow.readQueue(0, Head) == 1);
  CHECK(minnow.readQueue(0, Done) == 1);
  minnow.pass(1000000);
  CHECK(*minnow.host(Minnow::data) == 0);

  minnow.write(Control, enable | resume);
  CHECK(minnow.read(Control) == enable);
  minnow.settle();
  CHECK(errorOf(minnow) == "none");
  CHECK(minnow.read(Status) == 5);
  CHECK(minnow.readQueue(0, Head) == 3);
  CHECK(minnow.readQueue(0, Done) == 3);
  CHECK(minnow.counter(11) == 2); // The one stepped over was not completed.
  CHECK(*minnow.host(Minnow::data) == 7);
  CHECK(minnow.read(IrqStatus) == 4); // Not cleared by RESUME.
  for (uint64_t offset : {ErrQueue, ErrIndex, ErrOpcode, ErrAddr})
    CHECK(minnow.read(offset) == 0);

  minnow.write(Control, enable | resume); // Not halted: nothing.
  minnow.pass(10000);
  CHECK(minnow.readQueue(0, Head) == 3);
  CHECK(minnow.readQueue(0, Done) == 3);
}

TEST_CASE("RESUME without ENABLE leaves the halt and starts nothing") {
  Minnow minnow = Minnow::ready();
  minnow.submit(0, {bad, fence(Minnow::data, 7)});
  minnow.settle();
  minnow.write(Control, resume);
  minnow.pass(1000000);
  CHECK(minnow.read(Status) == 1u << 8);
  CHECK(minnow.readQueue(0, Head) == 1);
  CHECK(*minnow.host(Minnow::data) == 0);
  minnow.write(Control, enable);
  minnow.settle();
  CHECK(*minnow.host(Minnow::data) == 7);
}

TEST_CASE("the other queue's running command ends before the halt; RESUME comes too early until then") {
  Minnow minnow = Minnow::ready();
  minnow.submit(1, {slow(), fence(Minnow::data, 1)});
  minnow.pass(2000); // It runs.
  minnow.submit(0, {bad, fence(Minnow::data + 8, 1)});
  minnow.pass(10000);
  CHECK(minnow.read(ErrCode) == 1);
  CHECK(minnow.read(IrqStatus) == 4);
  CHECK(minnow.read(Status) == (1u | 3u << 8));
  minnow.write(Control, enable | resume);
  CHECK(minnow.read(ErrCode) == 1);
  CHECK(minnow.readQueue(0, Head) == 0);
  minnow.settle();
  CHECK(minnow.read(Status) == (1u | halted | 3u << 8));
  CHECK(minnow.readQueue(1, Head) == 1); // It has ended, and the next has not begun.
  CHECK(minnow.counter(1) == 256 * 256 * 192);
  minnow.pass(1000000);
  CHECK(*minnow.host(Minnow::data) == 0);
  minnow.write(Control, enable | resume);
  minnow.settle();
  CHECK(*minnow.host(Minnow::data) == 1);
  CHECK(*minnow.host(Minnow::data + 8) == 1);
}

TEST_CASE("a queue blocked in WAIT or BARRIER stays blocked over halt and RESUME") {
  for (bool inBarrier : {false, true}) {
    Minnow minnow = Minnow::ready();
    minnow.submit(1, {inBarrier ? barrier() : wait(2), fence(Minnow::data, 1)});
    minnow.pass(10000);
    minnow.submit(0, {bad, nop()});
    minnow.settle();
    CHECK(minnow.read(Status) == (1u | halted | 3u << 8));
    minnow.write(Control, enable | resume);
    minnow.pass(100000);
    CHECK(minnow.readQueue(0, Head) == 2);
    CHECK(minnow.readQueue(1, Head) == 0);
    minnow.submit(0, {inBarrier ? barrier() : signal(2)});
    minnow.settle();
    CHECK(minnow.readQueue(1, Head) == 2);
    CHECK(*minnow.host(Minnow::data) == 1);
  }
}

TEST_CASE("of two failing commands the first one's error is kept; the other is executed again") {
  Minnow minnow = Minnow::ready();
  minnow.write(IrqEnable, 4);
  // Queue 1 is inside a long DMA that will fail at its end, when queue 0 fails.
  uint64_t end = Minnow::iova + Minnow::bytes;
  std::memset(minnow.host(end - 4096), 0x11, 4096);
  minnow.submit(1, {dma(false, end - 64 * 64, 0, 64, 65, 64, 64), nop()});
  minnow.pass(3000);
  minnow.submit(0, {bad, nop()});
  minnow.settle();
  CHECK(errorOf(minnow) == "code 1 queue 0 index 0 opcode 0xff address 0x0");
  CHECK(minnow.readQueue(1, Head) == 0);
  CHECK(minnow.counter(3) == 4096);
  CHECK(must(minnow.target->waitInterrupt(0, 0)).count == 1);

  minnow.write(IrqStatus, 4);
  std::memset(minnow.host(end - 4096), 0x22, 4096); // So that one sees it move again.
  minnow.write(Control, enable | resume);
  minnow.settle();
  CHECK(errorOf(minnow) == "code 5 queue 1 index 0 opcode 0x1 address 0x1100000");
  CHECK(minnow.readQueue(0, Head) == 2);
  CHECK(minnow.counter(3) == 8192);
  CHECK(minnow.scratchpad(0, 4096) == std::vector<uint8_t>(4096, 0x22));
  CHECK(minnow.read(IrqStatus) == 4);
  minnow.write(Control, enable | resume);
  minnow.settle();
  CHECK(minnow.readQueue(1, Head) == 2);
  CHECK(minnow.readQueue(1, Done) == 2);
}

TEST_CASE("two commands that fail at the same moment: each is reported once") {
  Minnow minnow;
  minnow.setUp(0, 16);
  minnow.setUp(1, 16);
  minnow.submit(0, {bad});
  minnow.submit(1, {{0xfe}});
  minnow.write(Control, enable);
  std::vector<std::string> errors;
  for (int i = 0; i < 2; ++i) {
    minnow.settle();
    errors.push_back(errorOf(minnow));
    minnow.write(Control, enable | resume);
  }
  std::sort(errors.begin(), errors.end());
  CHECK(errors[0] == "code 1 queue 0 index 0 opcode 0xff address 0x0");
  CHECK(errors[1] == "code 1 queue 1 index 0 opcode 0xfe address 0x0");
  minnow.settle();
  CHECK(minnow.read(Status) == 5);
}

TEST_CASE("while halted queues can be filled, but BASE and SIZE of a busy one not changed") {
  Minnow minnow = Minnow::ready();
  minnow.submit(0, {bad});
  minnow.settle();
  minnow.submit(1, {fence(Minnow::data, 1)});
  minnow.submit(0, {fence(Minnow::data + 8, 1)});
  minnow.writeQueue(0, Size, 4);
  minnow.writeQueue(0, BaseLo, 0);
  CHECK(minnow.readQueue(0, Size) == 16);
  CHECK(minnow.readQueue(0, BaseLo) == lo(minnow.ring(0)));
  minnow.pass(1000000);
  CHECK(*minnow.host(Minnow::data) == 0);
  minnow.write(Control, enable | resume);
  minnow.settle();
  CHECK(*minnow.host(Minnow::data) == 1);
  CHECK(*minnow.host(Minnow::data + 8) == 1);
}

TEST_CASE("a failing command at the ring's last index is stepped over to index 0") {
  Minnow minnow = Minnow::ready(2);
  minnow.run(nop());
  minnow.submit(0, {bad});
  minnow.settle();
  CHECK(minnow.read(ErrIndex) == 1);
  minnow.write(Control, enable | resume);
  CHECK(minnow.readQueue(0, Head) == 0);
  CHECK(minnow.read(Status) == 5);
}

TEST_CASE("a soft reset ends a halt") {
  Minnow minnow = Minnow::ready();
  minnow.submit(0, {bad});
  minnow.settle();
  minnow.write(Control, softReset);
  minnow.pass(10000);
  CHECK(minnow.read(Status) == 4);
  CHECK(errorOf(minnow) == "none");
  minnow.setUp(0, 16);
  minnow.write(Control, enable);
  minnow.run(fence(Minnow::data, 3));
  CHECK(*minnow.host(Minnow::data) == 3);
}
