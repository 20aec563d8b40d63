// Counters: what they count, FREEZE, SNAPSHOT, CLEAR, widths (SPEC.md, section 8).
#include "tests/hal/minnow/model/Minnow.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

enum : uint32_t {
  Cycles,
  Macs,
  ArrayBusy,
  ReadBytes,
  WriteBytes,
  ReadBursts,
  WriteBursts,
  DmaBusy,
  WaitSync,
  WaitQueue,
  WaitScratchpad,
  Commands,
  Count
};
constexpr uint32_t freeze = 1, snapshot = 2, clear = 4;

} // namespace

TEST_CASE("a snapshot shows all counters of one instant, and stays") {
  Minnow minnow = Minnow::ready();
  minnow.run({gemm(0, 0, 4096, 3, 5, 7, 8, 8, 24), dma(false, Minnow::data, 0, 200, 3, 200, 200),
              dma(true, Minnow::data, 0, 72, 2), fence(Minnow::data, 1), nop()});
  for (uint32_t id = 0; id < Count; ++id)
    CHECK(minnow.snapshotCounter(id) == 0); // No SNAPSHOT yet.
  minnow.write(CntControl, snapshot);
  CHECK(minnow.read(CntControl) == 0);
  CHECK(minnow.snapshotCounter(Macs) == 105);
  CHECK(minnow.snapshotCounter(ReadBytes) == 600);
  CHECK(minnow.snapshotCounter(ReadBursts) == 12);
  CHECK(minnow.snapshotCounter(WriteBytes) == 144);
  CHECK(minnow.snapshotCounter(WriteBursts) == 4);
  CHECK(minnow.snapshotCounter(Commands) == 5);
  uint64_t cycles = minnow.snapshotCounter(Cycles);
  CHECK(cycles > 100);
  minnow.run(nop());
  CHECK(minnow.snapshotCounter(Cycles) == cycles);
  CHECK(minnow.snapshotCounter(Commands) == 5);
  CHECK(minnow.counter(Commands) == 6); // By id: the running one.
  CHECK(minnow.counter(Cycles) > cycles);
}

TEST_CASE("FREEZE stops all of them; CLEAR zeroes; SNAPSHOT with CLEAR copies first") {
  Minnow minnow = Minnow::ready();
  minnow.run({slow(), dma(false, Minnow::data, 0, 64)});
  minnow.write(CntControl, freeze);
  CHECK(minnow.read(CntControl) == 1);
  std::vector<uint64_t> before;
  for (uint32_t id = 0; id < Count; ++id)
    before.push_back(minnow.counter(id));
  minnow.submit(1, {wait(0)});
  minnow.submit(0, {slow(), dma(true, Minnow::data, 0, 64)});
  minnow.pass(10000000);
  CHECK(minnow.readQueue(0, Done) == 4);
  for (uint32_t id = 0; id < Count; ++id)
    CHECK(minnow.counter(id) == before[id]);
  minnow.write(CntControl, freeze | snapshot | clear);
  for (uint32_t id = 0; id < Count; ++id) {
    CHECK(minnow.snapshotCounter(id) == before[id]);
    CHECK(minnow.counter(id) == 0);
  }
  minnow.write(CntControl, 0);
  minnow.pass(1000);
  CHECK(minnow.counter(Cycles) >= 100);
  minnow.write(CntControl, clear);
  CHECK(minnow.counter(Cycles) == 0);
  CHECK(minnow.snapshotCounter(Macs) == before[Macs]);
}

TEST_CASE("cycles count time while enabled: 10 ns each, to the nanosecond in the long run") {
  Minnow minnow("model:minnow?access-time=0");
  minnow.pass(12345);
  CHECK(minnow.counter(Cycles) == 0);
  minnow.write(Control, enable);
  uint64_t start = must(minnow.target->deviceTime());
  for (int i = 0; i < 1000; ++i)
    minnow.pass(7);
  CHECK(minnow.counter(Cycles) == (start + 7000) / 10 - start / 10);
  minnow.write(Control, 0);
  uint64_t stopped = minnow.counter(Cycles);
  minnow.pass(1000);
  CHECK(minnow.counter(Cycles) == stopped);
  minnow.write(Control, enable);
  minnow.pass(uint64_t(10) << 48); // 48 bits wrap.
  CHECK(minnow.counter(Cycles) == stopped);
}

TEST_CASE("the burst counter is narrow: 65,536 bursts are none") {
  Minnow minnow = Minnow::ready();
  for (int i = 0; i < 16; ++i)
    minnow.run(dma(false, Minnow::data, 0, 8, 4096, 0, 0));
  CHECK(minnow.counter(ReadBursts) == 0);
  CHECK(minnow.counter(ReadBytes) == 524288);
  minnow.run(dma(false, Minnow::data, 0, 8));
  CHECK(minnow.counter(ReadBursts) == 1);
  for (int i = 0; i < 16; ++i)
    minnow.run(dma(true, Minnow::data, 0, 8, 4096, 0, 0));
  CHECK(minnow.counter(WriteBursts) == 65536);
}

TEST_CASE("waiting and being busy are counted, per queue where the manual says so") {
  Minnow minnow("model:minnow?access-time=0");
  minnow.setUp(0, 16);
  minnow.setUp(1, 16);
  minnow.write(Control, enable);
  minnow.pass(10000);
  CHECK(minnow.counter(WaitQueue) == 2000); // Two empty queues.
  minnow.writeQueue(1, Size, 0);
  minnow.pass(10000);
  CHECK(minnow.counter(WaitQueue) == 3000); // One is off.
  minnow.setUp(1, 16);
  minnow.submit(0, {wait(0)});
  minnow.submit(1, {wait(1)});
  minnow.pass(10000);
  uint64_t blocked = minnow.counter(WaitSync);
  CHECK(blocked > 1000);
  CHECK(blocked < 2000);
  CHECK(minnow.counter(WaitQueue) == 3000);
  minnow.pass(10000);
  CHECK(minnow.counter(WaitSync) == blocked + 2000);
  CHECK(minnow.counter(ArrayBusy) == 0);
  CHECK(minnow.counter(DmaBusy) == 0);
}

TEST_CASE("two queues at the scratchpad get into each other's way; one alone does not") {
  for (bool both : {false, true}) {
    Minnow minnow = Minnow::ready();
    minnow.submit(0, {slow()});
    if (both)
      minnow.submit(1, {dma(false, Minnow::data, 0x8000, 64, 100, 64, 64)});
    minnow.settle();
    CHECK((minnow.counter(WaitScratchpad) > 0) == both);
    CHECK(minnow.counter(ArrayBusy) > 1000);
    CHECK((minnow.counter(DmaBusy) > 100) == both);
    CHECK(minnow.counter(ArrayBusy) < minnow.counter(Cycles));
  }
}
