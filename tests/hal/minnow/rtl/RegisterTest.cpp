// Registers, interrupts and the debug port, section by section of the manual.
#include "tests/hal/minnow/rtl/Device.h"

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("minnow introduces itself") {
  RTL_OR_SKIP();
  auto target = open("rtl:minnow");
  CHECK(target->identity().kind == "rtl");
  CHECK(target->identity().name == "minnow");
  REQUIRE(target->spaces().size() == 1);
  CHECK(target->spaces()[0].name == "bar0");
  CHECK(target->spaces()[0].size == 0x10000);
  TargetCapabilities can = target->capabilities();
  CHECK(can.memory);
  CHECK(can.interrupts);
  CHECK(can.snapshots);
  CHECK(can.deviceTime);
  CHECK(can.counters);
  CHECK(can.peek);
  CHECK(can.interruptVectors == 1);
}

TEST_CASE("registers after power-on") {
  RTL_OR_SKIP();
  auto target = open("rtl:minnow");
  auto read = [&](uint64_t offset) { return uint32_t(must(target->read(0, offset, 4))); };
  CHECK(read(0x000) == 0x4d4e5731);
  CHECK(read(0x004) == 0x00010000);
  CHECK(read(0x008) == 0x00400802);
  CHECK(read(0x00c) == 0);
  CHECK(read(0x010) == 0x4);
  for (uint64_t offset : {0x014, 0x018, 0x020, 0x024, 0x028, 0x02c, 0x030, 0x034, 0x040, 0x200})
    CHECK_MESSAGE(read(offset) == 0, offset);
  for (uint64_t offset = 0x100; offset < 0x180; offset += 4)
    CHECK_MESSAGE(read(offset) == 0, offset);
  for (uint64_t offset = 0x240; offset < 0x2a0; offset += 4)
    CHECK_MESSAGE(read(offset) == 0, offset);
  CHECK(read(0x054) == 0);
}

TEST_CASE("unlisted offsets read zero and ignore writes") {
  RTL_OR_SKIP();
  Device minnow;
  for (uint64_t offset : {0x01c, 0x038, 0x03c, 0x048, 0x058, 0x0fc, 0x11c, 0x13c, 0x15c, 0x180, 0x204, 0x23c,
                          0x2a0, 0x1000, 0x1100, 0x8100, 0xfffc}) {
    minnow.write(offset, 0xffffffff);
    CHECK_MESSAGE(minnow.read(offset) == 0, offset);
  }
  // Read-only ones, too, ignore writes.
  for (uint64_t offset : {0x000, 0x004, 0x008, 0x010, 0x020, 0x10c, 0x110, 0x118, 0x240}) {
    uint32_t before = minnow.read(offset);
    minnow.write(offset, 0xffffffff);
    CHECK_MESSAGE(minnow.read(offset) == before, offset);
  }
}

TEST_CASE("other widths and alignments are bus errors without effect") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.write(MINNOW_IRQ_ENABLE, 5);
  for (unsigned width : {1u, 2u, 8u}) {
    CHECK(failure(minnow.target->read(0, 0x18, width)).code == "bus-error");
    CHECK(failure(minnow.target->write(0, 0x18, width, 0)).code == "bus-error");
  }
  CHECK(minnow.read(MINNOW_IRQ_ENABLE) == 5);
}

TEST_CASE("device time advances only inside calls, by a fixed amount per access") {
  RTL_OR_SKIP();
  Device minnow;
  uint64_t start = minnow.time();
  CHECK(minnow.time() == start);
  minnow.read(MINNOW_ID);
  CHECK(minnow.time() == start + 80);
  minnow.write(MINNOW_IRQ_ENABLE, 0);
  CHECK(minnow.time() == start + 160);
  minnow.scratchpad();
  CHECK(minnow.time() == start + 160);
}

TEST_CASE("the timestamp runs at 25 MHz; its high half is latched") {
  RTL_OR_SKIP();
  Device minnow;
  uint64_t time = minnow.time();
  uint32_t low = minnow.read(MINNOW_TIME_LO);
  for (int i = 0; i < 1000; ++i)
    minnow.read(MINNOW_ID);
  uint32_t later = minnow.read(MINNOW_TIME_LO);
  int64_t ticks = int64_t(later) - low, expected = int64_t(minnow.time() - time) / 40;
  CHECK(std::abs(ticks - expected) <= 3);
  CHECK(minnow.read(MINNOW_TIME_HI) == 0);
  // A soft reset does not touch it.
  minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET);
  while (minnow.read(MINNOW_STATUS) & MINNOW_STATUS_RESETTING)
    ;
  CHECK(minnow.read(MINNOW_TIME_LO) > later);
}

TEST_CASE("CONTROL keeps only ENABLE, and STATUS shows it") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.write(MINNOW_CONTROL, 0xfffffffd & ~0xau);
  CHECK(minnow.read(MINNOW_CONTROL) == 1);
  CHECK(minnow.read(MINNOW_STATUS) == (MINNOW_STATUS_ENABLED | MINNOW_STATUS_IDLE));
  minnow.write(MINNOW_CONTROL, 0);
  CHECK(minnow.read(MINNOW_CONTROL) == 0);
  CHECK(minnow.read(MINNOW_STATUS) == MINNOW_STATUS_IDLE);
  // RESUME without a halt does nothing.
  minnow.write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
  CHECK(minnow.read(MINNOW_CONTROL) == 1);
  CHECK(minnow.queue(0, MINNOW_Q_DONE) == 0);
}

TEST_CASE("queue registers: alignment of BASE, legal sizes, doorbell modulo SIZE") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.write(MINNOW_CONTROL, 0);
  for (unsigned q = 0; q < 2; ++q) {
    auto at = [&](uint64_t offset) { return Device::queueRegister(q, offset); };
    minnow.write(at(MINNOW_Q_BASE_LO), 0xffffffff);
    minnow.write(at(MINNOW_Q_BASE_HI), 0x12345678);
    CHECK(minnow.read(at(MINNOW_Q_BASE_LO)) == 0xffffffc0);
    CHECK(minnow.read(at(MINNOW_Q_BASE_HI)) == 0x12345678);
    for (uint32_t size : {0u, 1u, 3u, 6u, 1023u, 1025u, 2048u, 0x80000000u, 0x10002u}) {
      minnow.write(at(MINNOW_Q_SIZE), size);
      CHECK_MESSAGE(minnow.read(at(MINNOW_Q_SIZE)) == 0, size);
      minnow.write(at(MINNOW_Q_DOORBELL), 1); // Off: no effect.
      CHECK(minnow.read(at(MINNOW_Q_TAIL)) == 0);
    }
    for (uint32_t size = 2; size <= 1024; size *= 2) {
      minnow.write(at(MINNOW_Q_SIZE), size);
      CHECK(minnow.read(at(MINNOW_Q_SIZE)) == size);
      minnow.write(at(MINNOW_Q_DOORBELL), 5 * size + 1);
      CHECK(minnow.read(at(MINNOW_Q_TAIL)) == 1);
      CHECK(minnow.read(at(MINNOW_Q_DOORBELL)) == 0);
      // Not empty: BASE and SIZE are fixed.
      minnow.write(at(MINNOW_Q_SIZE), 4);
      minnow.write(at(MINNOW_Q_BASE_LO), 0);
      minnow.write(at(MINNOW_Q_BASE_HI), 0);
      CHECK(minnow.read(at(MINNOW_Q_SIZE)) == size);
      CHECK(minnow.read(at(MINNOW_Q_BASE_LO)) == 0xffffffc0);
      CHECK(minnow.read(at(MINNOW_Q_BASE_HI)) == 0x12345678);
      CHECK((minnow.read(MINNOW_STATUS) & (MINNOW_STATUS_Q0_BUSY << q)) != 0);
      CHECK((minnow.read(MINNOW_STATUS) & MINNOW_STATUS_IDLE) == 0);
      minnow.write(at(MINNOW_Q_DOORBELL), 0);
      CHECK((minnow.read(MINNOW_STATUS) & MINNOW_STATUS_IDLE) != 0);
    }
  }
}

TEST_CASE("writing SIZE while empty sets HEAD and TAIL to zero, not DONE") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.run({minnow_nop(), minnow_nop(), minnow_nop()});
  CHECK(minnow.queue(0, MINNOW_Q_HEAD) == 3);
  CHECK(minnow.queue(0, MINNOW_Q_TAIL) == 3);
  CHECK(minnow.queue(0, MINNOW_Q_DONE) == 3);
  minnow.write(Device::queueRegister(0, MINNOW_Q_SIZE), 7);
  CHECK(minnow.queue(0, MINNOW_Q_HEAD) == 0);
  CHECK(minnow.queue(0, MINNOW_Q_TAIL) == 0);
  CHECK(minnow.queue(0, MINNOW_Q_DONE) == 3);
}

TEST_CASE("interrupts: a message when an enabled bit rises, and when a set bit is enabled") {
  RTL_OR_SKIP();
  Device minnow;
  auto messages = [&] { return must(minnow.target->waitInterrupt(0, 1000)).count; };
  minnow.run({minnow_fence(Device::data, 1, MINNOW_INTERRUPT)}, 0);
  CHECK(minnow.read(MINNOW_IRQ_STATUS) == MINNOW_IRQ_FENCE0);
  CHECK(messages() == 0);
  minnow.run({minnow_fence(Device::data, 1, MINNOW_INTERRUPT)}, 1);
  CHECK(minnow.read(MINNOW_IRQ_STATUS) == 3);
  minnow.write(MINNOW_IRQ_ENABLE, 3); // Two bits, one message for the write.
  CHECK(messages() == 1);
  minnow.write(MINNOW_IRQ_ENABLE, 7); // No set bit becomes enabled.
  CHECK(messages() == 0);
  minnow.run({minnow_fence(Device::data, 1, MINNOW_INTERRUPT)}, 0); // Set already.
  CHECK(messages() == 0);
  minnow.write(MINNOW_IRQ_STATUS, 1);
  CHECK(minnow.read(MINNOW_IRQ_STATUS) == 2);
  minnow.run({minnow_fence(Device::data, 1, MINNOW_INTERRUPT), minnow_fence(Device::data, 2, 0)}, 0);
  CHECK(messages() == 1);
  CHECK(minnow.read(MINNOW_IRQ_STATUS) == 3);
  minnow.write(MINNOW_IRQ_STATUS, 0xffffffff);
  CHECK(minnow.read(MINNOW_IRQ_STATUS) == 0);
  CHECK(messages() == 0);
  CHECK(minnow.read(MINNOW_IRQ_ENABLE) == 7);
}

TEST_CASE("the debug port reads and writes the scratchpad while not enabled or halted") {
  RTL_OR_SKIP();
  Device minnow;
  Bytes content = noise(0x10000, 1);
  minnow.load(0, content);
  minnow.write(MINNOW_DBG_ADDR, 0x1004);
  CHECK(minnow.read(MINNOW_DBG_DATA) == 0xffffffff); // Enabled.
  minnow.write(MINNOW_DBG_DATA, 0);
  CHECK(minnow.read(MINNOW_DBG_ADDR) == 0x1004);
  CHECK(minnow.scratchpad() == content);

  minnow.write(MINNOW_CONTROL, 0);
  for (uint32_t at : {0u, 4u, 8u, 0x1004u, 0xfff8u}) {
    minnow.write(MINNOW_DBG_ADDR, at | 0xffff0003);
    CHECK(minnow.read(MINNOW_DBG_ADDR) == at);
    CHECK(minnow.read(MINNOW_DBG_DATA) == uint32_t(int32At(content, at)));
    CHECK(minnow.read(MINNOW_DBG_DATA) == uint32_t(int32At(content, at + 4)));
    CHECK(minnow.read(MINNOW_DBG_ADDR) == (at + 8) % 0x10000);
  }
  minnow.write(MINNOW_DBG_ADDR, 0xfffc);
  minnow.write(MINNOW_DBG_DATA, 0x11223344);
  minnow.write(MINNOW_DBG_DATA, 0x55667788); // Wrapped.
  CHECK(minnow.read(MINNOW_DBG_ADDR) == 4);
  uint32_t last = 0x11223344, first = 0x55667788;
  std::memcpy(&content[0xfffc], &last, 4);
  std::memcpy(&content[0], &first, 4);
  CHECK(minnow.scratchpad() == content);

  minnow.write(MINNOW_CONTROL, 1);
  minnow.submit(0, {minnow_make(0x7f, 0)});
  CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
  CHECK(minnow.read(MINNOW_DBG_DATA) == uint32_t(int32At(content, 4)));
}

TEST_CASE("clearing ENABLE lets the running command finish and starts no other") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.submit(0, {minnow_dma(MINNOW_DMA_LOAD, Device::data, 0, 4096, 4, 4096, 4096), minnow_nop()});
  minnow.write(MINNOW_CONTROL, 0);
  minnow.settle();
  CHECK(minnow.queue(0, MINNOW_Q_DONE) == 1);
  CHECK((minnow.read(MINNOW_STATUS) & MINNOW_STATUS_Q0_BUSY) != 0);
  minnow.write(MINNOW_CONTROL, 1);
  minnow.settle();
  CHECK(minnow.queue(0, MINNOW_Q_DONE) == 2);
}
