// Fences, interrupts, semaphores and barriers (SPEC.md, sections 4 and 7).
#include "tests/hal/minnow/model/Minnow.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

uint64_t word(Minnow &minnow, uint64_t address) {
  uint64_t value;
  std::memcpy(&value, minnow.host(address), 8);
  return value;
}

} // namespace

TEST_CASE("a fence writes its 64 bits, after everything before it") {
  Minnow minnow = Minnow::ready();
  minnow.write(IrqEnable, 7);
  minnow.fill(0, std::vector<uint8_t>(4096, 0x77));
  uint64_t to = Minnow::data + 0x1000;
  minnow.submit(0, {dma(true, to, 0, 4096), fence(Minnow::data, 0x1122334455667788, true), slow()});
  CHECK(word(minnow, Minnow::data) == 0);
  while (minnow.read(IrqStatus) == 0)
    minnow.pass(10);
  CHECK(word(minnow, Minnow::data) == 0x1122334455667788);
  CHECK(minnow.hostBytes(to, 4096) == std::vector<uint8_t>(4096, 0x77));
  CHECK(minnow.read(IrqStatus) == 1);
  CHECK(minnow.readQueue(0, Done) == 3); // The filling was the first.
  CHECK(minnow.counter(6) == 64);        // A fence is no DMA row.
}

TEST_CASE("a wait for the fence's interrupt ends when it is raised, with the store done") {
  for (unsigned q : {0u, 1u}) {
    Minnow minnow = Minnow::ready();
    minnow.write(IrqEnable, 1u << q);
    minnow.submit(q, {slow(), fence(Minnow::data, 5, true), slow()});
    uint64_t start = must(minnow.target->deviceTime());
    CHECK(must(minnow.target->waitInterrupt(0, 1000000000)).count == 1);
    uint64_t passed = must(minnow.target->deviceTime()) - start;
    CHECK(passed > 100000);
    CHECK(passed < 10000000);
    CHECK(word(minnow, Minnow::data) == 5);
    CHECK(minnow.read(IrqStatus) == 1u << q);
    CHECK(minnow.readQueue(q, Head) == 2);
  }
}

TEST_CASE("messages: when a bit rises while enabled, and when enabling uncovers one") {
  Minnow minnow = Minnow::ready();
  auto messages = [&] { return must(minnow.target->waitInterrupt(0, 0)).count; };
  minnow.run(fence(Minnow::data, 1)); // Without INTERRUPT.
  CHECK(minnow.read(IrqStatus) == 0);
  minnow.run(fence(Minnow::data, 1, true));
  CHECK(minnow.read(IrqStatus) == 1);
  CHECK(messages() == 0); // Not enabled.
  minnow.write(IrqEnable, 2);
  CHECK(messages() == 0);
  minnow.write(IrqEnable, 3);
  CHECK(messages() == 1);
  minnow.write(IrqEnable, 3); // Was enabled already.
  CHECK(messages() == 0);
  minnow.run(fence(Minnow::data, 1, true)); // Was set already.
  CHECK(messages() == 0);
  minnow.submit(1, {fence(Minnow::data, 1, true)});
  minnow.settle();
  CHECK(messages() == 1);
  CHECK(minnow.read(IrqStatus) == 3);
  minnow.write(IrqEnable, 0);
  minnow.write(IrqEnable, 7); // Two bits, one message for the write.
  CHECK(messages() == 1);
  minnow.write(IrqStatus, 2);
  CHECK(minnow.read(IrqStatus) == 1);
  minnow.write(IrqStatus, 0);
  CHECK(minnow.read(IrqStatus) == 1);
  minnow.write(IrqStatus, 0xffffffff);
  CHECK(minnow.read(IrqStatus) == 0);
  minnow.run(fence(Minnow::data, 1, true));
  CHECK(messages() == 1);
  minnow.submit(0, {{0xff}});
  minnow.settle();
  CHECK(messages() == 1);
  CHECK(minnow.read(IrqStatus) == 5);
}

TEST_CASE("SIGNAL and WAIT, in both orders, each of the eight") {
  for (uint32_t semaphore = 0; semaphore < 8; ++semaphore)
    for (bool waitFirst : {false, true}) {
      Minnow minnow = Minnow::ready();
      auto waits = [&] { minnow.submit(1, {wait(semaphore), fence(Minnow::data, 1), wait(semaphore)}); };
      if (waitFirst)
        waits();
      minnow.pass(10000);
      CHECK(minnow.readQueue(1, Head) == 0);
      minnow.submit(0, {signal((semaphore + 1) % 8)});
      minnow.pass(10000);
      CHECK(minnow.readQueue(1, Head) == 0);
      minnow.submit(0, {signal(semaphore)});
      if (!waitFirst)
        waits();
      minnow.pass(10000);
      CHECK(word(minnow, Minnow::data) == 1);
      CHECK(minnow.readQueue(1, Head) == 2); // One signal ends one wait.
    }
}

TEST_CASE("a WAIT is satisfied by the same queue's earlier SIGNAL, and blocks on what is not there") {
  Minnow minnow = Minnow::ready();
  minnow.submit(0, {signal(4), signal(4), wait(4), wait(4), wait(4)});
  minnow.pass(100000);
  CHECK(minnow.readQueue(0, Head) == 4);
  CHECK(minnow.read(Status) == (1u | 1u << 8));
}

TEST_CASE("a semaphore holds 255; one more is an error that leaves it") {
  Minnow minnow = Minnow::ready(512);
  for (int i = 0; i < 256; ++i)
    minnow.put(0, signal(6));
  minnow.doorbell(0);
  minnow.settle();
  CHECK(errorOf(minnow) == "code 7 queue 0 index 255 opcode 0x31 address 0x6");
  minnow.write(Control, enable | resume);
  for (int i = 0; i < 256; ++i)
    minnow.put(1, wait(6));
  minnow.doorbell(1);
  minnow.pass(10000000);
  CHECK(minnow.readQueue(1, Done) == 255);
}

TEST_CASE("a barrier holds whoever comes first") {
  for (unsigned first : {0u, 1u}) {
    Minnow minnow = Minnow::ready();
    unsigned second = 1 - first;
    minnow.submit(first, {barrier(), fence(Minnow::data, 1), barrier(), fence(Minnow::data, 2)});
    minnow.pass(100000);
    CHECK(minnow.readQueue(first, Head) == 0);
    minnow.submit(second, {slow(), barrier()});
    minnow.pass(10000);
    CHECK(minnow.readQueue(first, Head) == 0);
    minnow.pass(10000000);
    CHECK(minnow.readQueue(second, Head) == 2);
    CHECK(minnow.readQueue(first, Head) == 2); // Held by the second barrier.
    CHECK(word(minnow, Minnow::data) == 1);
    minnow.submit(second, {barrier()});
    minnow.settle();
    CHECK(word(minnow, Minnow::data) == 2);
  }
}

TEST_CASE("a WAIT does not answer a BARRIER") {
  Minnow minnow = Minnow::ready();
  minnow.submit(0, {wait(0)});
  minnow.submit(1, {barrier()});
  minnow.pass(1000000);
  CHECK(minnow.read(Status) == (1u | 3u << 8));
  CHECK(minnow.readQueue(1, Head) == 0);
}

TEST_CASE("with ENABLE cleared, running commands still end each other's waits") {
  Minnow minnow = Minnow::ready();
  minnow.submit(1, {wait(0), nop()});
  minnow.submit(0, {slow()});
  minnow.pass(3000);
  minnow.write(Control, 0);
  minnow.pass(10000000);
  CHECK(minnow.readQueue(0, Head) == 1);
  CHECK(minnow.readQueue(1, Head) == 0); // Blocked, and nobody signals.
  minnow.submit(0, {signal(0)});
  minnow.write(Control, enable);
  minnow.settle();
  CHECK(minnow.readQueue(1, Head) == 2);
}

TEST_CASE("both queues make progress side by side") {
  Minnow minnow = Minnow::ready();
  minnow.submit(0, {dma(false, Minnow::data, 0, 64, 1024, 64, 0)});
  minnow.submit(1, {slow()});
  minnow.pass(20000);
  uint64_t moved = minnow.counter(3);
  CHECK(moved > 0);
  CHECK(minnow.read(Status) == (1u | 3u << 8 | 1u << 10));
  minnow.pass(20000);
  CHECK(minnow.counter(3) > moved);
  minnow.settle();
}
