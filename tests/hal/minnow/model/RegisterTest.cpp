// Minnow's registers: map, reset state, access rules, debug port, timestamp, resets, options.
#include "tests/hal/minnow/model/Minnow.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// All of the register space, as far as reading changes nothing.
std::vector<uint32_t> allRegisters(Minnow &minnow) {
  std::vector<uint32_t> values;
  for (uint64_t offset = 0; offset < 0x400; offset += 4)
    if (offset != DbgData && offset != TimeLo && offset != TimeHi)
      values.push_back(minnow.read(offset));
  return values;
}

} // namespace

TEST_CASE("minnow introduces itself") {
  Minnow minnow;
  CHECK(minnow.target->identity().name == "minnow");
  REQUIRE(minnow.target->spaces().size() == 1);
  CHECK(minnow.target->spaces()[0].name == "bar0");
  CHECK(minnow.target->spaces()[0].size == 65536);
  CHECK(minnow.target->capabilities().peek);
  CHECK(minnow.target->capabilities().snapshots);
  CHECK(minnow.target->capabilities().counters);
  CHECK(minnow.read(0) == 0x4d4e5731);
  CHECK(minnow.read(4) == 0x00010000);
  CHECK(minnow.read(8) == 0x00400802);
}

TEST_CASE("everything else is zero after power-on, but IDLE") {
  Minnow minnow;
  for (uint64_t offset = 0x0c; offset < 0x10000; offset += offset < 0x400 ? 4 : 0x3fc)
    if (offset != TimeLo && offset != TimeHi) {
      CAPTURE(offset);
      CHECK(minnow.read(offset) == (offset == Status ? 4u : 0u));
    }
  CHECK(minnow.scratchpad() == std::vector<uint8_t>(65536, 0));
  for (uint32_t id = 0; id < 12; ++id)
    CHECK(minnow.counter(id) == 0);
}

TEST_CASE("only 32-bit aligned accesses; others are bus errors without effect") {
  Minnow minnow;
  Target &target = *minnow.target;
  for (uint8_t width : {1, 2, 8}) {
    CHECK(failure(target.read(0, IrqEnable, width)).code == "bus-error");
    CHECK(failure(target.write(0, IrqEnable, width, 7)).code == "bus-error");
  }
  CHECK(failure(target.write(0, IrqEnable + 2, 4, 0xffffffff)).code == "bus-error");
  CHECK(failure(target.read(0, 2, 4)).code == "bus-error");
  CHECK(minnow.read(IrqEnable) == 0);
}

TEST_CASE("which bits of which registers can be written") {
  Minnow minnow;
  std::vector<uint32_t> before = allRegisters(minnow);
  // Read-only ones and holes.
  for (uint64_t offset : {0x000, 0x004, 0x008, 0x010, 0x01c, 0x020, 0x02c, 0x034, 0x10c, 0x110, 0x118, 0x11c,
                          0x140 + 0x0c, 0x204, 0x240, 0x29c, 0x2a0, 0x3fc})
    minnow.write(offset, 0xffffffff);
  CHECK(allRegisters(minnow) == before);
  minnow.write(IrqEnable, 0xffffffff);
  CHECK(minnow.read(IrqEnable) == 7);
  minnow.write(DbgAddr, 0xffffffff);
  CHECK(minnow.read(DbgAddr) == 0xfffc);
  minnow.writeQueue(1, BaseLo, 0xffffffff);
  minnow.writeQueue(1, BaseHi, 0xfedcba98);
  CHECK(minnow.readQueue(1, BaseLo) == 0xffffffc0);
  CHECK(minnow.readQueue(1, BaseHi) == 0xfedcba98);
  CHECK(minnow.readQueue(0, BaseLo) == 0);
  minnow.write(Control, 0xfffffff5); // All but SOFT_RESET and RESUME.
  CHECK(minnow.read(Control) == 1);
  CHECK(minnow.read(Status) == 5);
  minnow.write(Control, 0);
  CHECK(minnow.read(Status) == 4);
  minnow.write(CntControl, 0xffffffff);
  CHECK(minnow.read(CntControl) == 1);
}

TEST_CASE("SIZE takes powers of two from 2 to 1024; anything else is off") {
  Minnow minnow;
  for (uint32_t size : {2u, 4u, 64u, 512u, 1024u}) {
    minnow.writeQueue(0, Size, size);
    CHECK(minnow.readQueue(0, Size) == size);
  }
  for (uint32_t size : {0u, 1u, 3u, 24u, 1023u, 2048u, 0x80000000u, 0xffffffffu}) {
    minnow.writeQueue(0, Size, 16);
    minnow.writeQueue(0, Size, size);
    CHECK(minnow.readQueue(0, Size) == 0);
  }
}

TEST_CASE("the debug port walks through the scratchpad and wraps") {
  Minnow minnow;
  minnow.write(DbgAddr, 0xfff8);
  for (uint32_t value : {0x11223344u, 0x55667788u, 0x99aabbccu})
    minnow.write(DbgData, value);
  CHECK(minnow.read(DbgAddr) == 4);
  CHECK(minnow.scratchpad(0xfff8, 8) == std::vector<uint8_t>{0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55});
  CHECK(minnow.scratchpad(0, 4) == std::vector<uint8_t>{0xcc, 0xbb, 0xaa, 0x99});
  minnow.write(DbgAddr, 0xfffc);
  CHECK(minnow.read(DbgData) == 0x55667788);
  CHECK(minnow.read(DbgData) == 0x99aabbcc);
  CHECK(minnow.read(DbgAddr) == 4);
}

TEST_CASE("the debug port is shut while the device is enabled and not halted") {
  Minnow minnow;
  minnow.write(DbgData, 0x1234);
  minnow.write(Control, enable);
  minnow.write(DbgAddr, 0);
  CHECK(minnow.read(DbgData) == 0xffffffff);
  minnow.write(DbgData, 0x5678);
  CHECK(minnow.read(DbgAddr) == 0);
  CHECK(minnow.scratch<uint32_t>(0, 1)[0] == 0x1234);
  minnow.setUp(0, 16);
  minnow.submit(0, {{0xff}});
  minnow.settle();
  CHECK(minnow.isHalted());
  CHECK(minnow.read(DbgData) == 0x1234);
  minnow.write(DbgData, 0x5678);
  CHECK(minnow.scratch<uint32_t>(4, 1)[0] == 0x5678);
}

TEST_CASE("the timestamp counts at 25 MHz and is latched by its low half") {
  Minnow minnow("model:minnow?access-time=40");
  CHECK(minnow.read(TimeHi) == 0);
  uint32_t first = minnow.read(TimeLo);
  minnow.pass(4000);
  CHECK(minnow.read(TimeLo) == first + 101);
  CHECK(must(minnow.target->deviceTime()) / 40 == first + 101);
  minnow.pass(uint64_t(40) << 32);
  CHECK(minnow.read(TimeHi) == 0); // Not latched yet.
  uint32_t low = minnow.read(TimeLo);
  CHECK(minnow.read(TimeHi) == 1);
  CHECK(low == first + 103); // Two more reads.
}

TEST_CASE("an access takes the time it is told to; a peek and a counter take none") {
  Minnow minnow("model:minnow?access-time=250");
  uint64_t start = must(minnow.target->deviceTime());
  minnow.read(0);
  minnow.write(DbgAddr, 4);
  minnow.scratchpad();
  minnow.counter(0);
  CHECK(must(minnow.target->deviceTime()) == start + 500);
}

TEST_CASE("a soft reset puts all into the reset state within 1,000 cycles, in the middle of things") {
  Minnow fresh, minnow = Minnow::ready();
  minnow.write(DbgAddr, 64);
  minnow.write(IrqEnable, 7);
  minnow.fill(0, std::vector<uint8_t>(4096, 0x5a));
  minnow.run({fence(Minnow::data, 1, true), signal(3), {0x32, 0, 3}, signal(5)});
  minnow.write(CntControl, 3);
  minnow.submit(1, {wait(0)});
  minnow.submit(0, {dma(true, Minnow::data, 0, 4096, 16), {0xff}});
  uint64_t before = must(minnow.target->deviceTime());
  uint32_t ticks = minnow.read(TimeLo);
  must(minnow.target->waitInterrupt(0, 0));

  minnow.write(Control, softReset | enable | resume);
  CHECK((minnow.read(Status) >> 31) == 1);
  CHECK(must(minnow.target->deviceTime()) > before);
  CHECK(minnow.read(TimeLo) >= ticks); // Runs on.
  minnow.write(DbgAddr, 8);            // Lost: the reset is not done.
  CHECK((minnow.read(Status) >> 31) == 1);
  minnow.pass(10000);
  CHECK(allRegisters(minnow) == allRegisters(fresh));
  CHECK(minnow.read(Status) == 4);
  CHECK(minnow.read(TimeHi) == 0);
  CHECK(minnow.scratchpad() == std::vector<uint8_t>(65536, 0));
  for (uint32_t id = 0; id < 12; ++id)
    CHECK(minnow.counter(id) == 0);
  CHECK(!must(minnow.target->waitInterrupt(0, 1000000)).fired);

  // Semaphores too: 5 was at one.
  minnow.setUp(0, 16);
  minnow.write(Control, enable);
  minnow.submit(0, {wait(5)});
  minnow.pass(100000);
  CHECK(minnow.readQueue(0, Head) == 0);
}

TEST_CASE("a reset of the target is at once, of every kind") {
  Minnow fresh;
  for (ResetKind kind : {ResetKind::Default, ResetKind::Function, ResetKind::Bus, ResetKind::Power}) {
    Minnow minnow = Minnow::ready();
    minnow.fill(0, std::vector<uint8_t>(64, 1));
    minnow.submit(0, {{0xff}});
    minnow.settle();
    uint64_t before = must(minnow.target->deviceTime());
    must(minnow.target->reset(kind));
    CHECK(must(minnow.target->deviceTime()) == before); // Goes on.
    CHECK(minnow.read(Status) == 4);
    CHECK(allRegisters(minnow) == allRegisters(fresh));
    CHECK(minnow.scratchpad() == std::vector<uint8_t>(65536, 0));
  }
}

TEST_CASE("options: what there is, and what is refused") {
  for (const char *options : {"access-time=0x10", "memory-latency=0", "jitter=18446744073709551615"})
    CHECK(open(std::string("model:minnow?") + options) != nullptr);
  Failure unknown = failure(openTarget("model:minnow?errata=all"));
  CHECK(unknown.cls == FailureClass::Usage);
  CHECK(contains(unknown.message, "access-time"));
  CHECK(contains(unknown.message, "memory-latency"));
  CHECK(contains(unknown.message, "jitter"));
  for (const char *bad : {"access-time=1000001", "access-time=", "jitter=-1", "jitter=18446744073709551616",
                          "memory-latency=010", "memory-latency=0x", "memory-latency=1e3"})
    CHECK(failure(openTarget(std::string("model:minnow?") + bad)).cls == FailureClass::Usage);
}
