// Rings: wrapping, exactly full, switched off, and ENABLE (SPEC.md, section 3).
#include "tests/hal/minnow/model/Minnow.h"

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("commands run in order, across the ring's end, many times round") {
  for (uint32_t size : {2u, 4u, 16u, 1024u}) {
    CAPTURE(size);
    Minnow minnow = Minnow::ready(size);
    uint32_t total = 0;
    for (int turn = 0; turn < 9; ++turn) {
      uint32_t batch = std::min(size - 1, 1u + uint32_t(turn) * 3);
      for (uint32_t i = 0; i < batch; ++i, ++total)
        minnow.put(0, fence(Minnow::data + 8 * uint64_t(total), total + 1));
      minnow.doorbell(0);
      minnow.settle();
      CHECK(minnow.readQueue(0, Head) == total % size);
      CHECK(minnow.readQueue(0, Tail) == total % size);
      CHECK(minnow.readQueue(0, Done) == total);
    }
    for (uint32_t i = 0; i < total; ++i)
      CHECK(*minnow.host(Minnow::data + 8 * uint64_t(i)) == uint8_t(i + 1));
    CHECK(minnow.counter(11) == total);
  }
}

TEST_CASE("an exactly full ring: SIZE - 1 commands, from every start") {
  for (uint32_t start = 0; start < 8; ++start) {
    CAPTURE(start);
    Minnow minnow = Minnow::ready(8);
    for (uint32_t i = 0; i < start; ++i)
      minnow.run(nop());
    minnow.write(Control, 0);
    for (uint32_t i = 0; i < 7; ++i)
      minnow.put(0, fence(Minnow::data + 8 * i, i + 1));
    minnow.doorbell(0);
    CHECK(minnow.readQueue(0, Head) == start);
    CHECK((minnow.readQueue(0, Tail) + 1) % 8 == minnow.readQueue(0, Head));
    CHECK(minnow.read(Status) == 1u << 8);
    minnow.write(Control, enable);
    minnow.settle();
    CHECK(minnow.readQueue(0, Head) == (start + 7) % 8);
    CHECK(minnow.readQueue(0, Done) == start + 7);
    for (uint32_t i = 0; i < 7; ++i)
      CHECK(*minnow.host(Minnow::data + 8 * i) == i + 1);
  }
}

TEST_CASE("one queue wraps while the other is exactly full") {
  Minnow minnow = Minnow::ready(4);
  minnow.submit(1, {wait(0), nop(), nop()});
  for (uint32_t i = 0; i < 9; ++i) {
    minnow.submit(0, {fence(Minnow::data + 8 * i, i + 1)});
    minnow.pass(10000);
    CHECK(*minnow.host(Minnow::data + 8 * i) == i + 1);
  }
  CHECK(minnow.readQueue(1, Head) == 0);
  minnow.submit(0, {signal(0)});
  minnow.settle();
  CHECK(minnow.readQueue(1, Done) == 3);
  CHECK(minnow.readQueue(0, Done) == 10);
}

TEST_CASE("DOORBELL is taken modulo SIZE and reads 0; a queue that is off takes none") {
  Minnow minnow = Minnow::ready(4);
  minnow.put(0, fence(Minnow::data, 1));
  minnow.writeQueue(0, Doorbell, 0xfffffff1);
  minnow.settle();
  CHECK(minnow.readQueue(0, Doorbell) == 0);
  CHECK(minnow.readQueue(0, Tail) == 1);
  CHECK(minnow.readQueue(0, Head) == 1);
  minnow.writeQueue(1, Size, 3);
  minnow.writeQueue(1, Doorbell, 1);
  minnow.pass(10000);
  CHECK(minnow.readQueue(1, Tail) == 0);
  CHECK(minnow.read(Status) == 5);
}

TEST_CASE("BASE and SIZE can be written only while the queue is empty; SIZE starts over") {
  Minnow minnow = Minnow::ready(8);
  minnow.run({nop(), nop(), nop()});
  minnow.submit(0, {wait(0)});
  minnow.pass(10000);
  minnow.writeQueue(0, BaseLo, 0x40);
  minnow.writeQueue(0, BaseHi, 1);
  minnow.writeQueue(0, Size, 16);
  CHECK(minnow.readQueue(0, BaseLo) == lo(minnow.ring(0)));
  CHECK(minnow.readQueue(0, BaseHi) == 0);
  CHECK(minnow.readQueue(0, Size) == 8);
  CHECK(minnow.readQueue(0, Head) == 3);
  minnow.submit(1, {signal(0)});
  minnow.settle();
  minnow.writeQueue(0, Size, 8); // The same value too.
  CHECK(minnow.readQueue(0, Head) == 0);
  CHECK(minnow.readQueue(0, Tail) == 0);
  CHECK(minnow.readQueue(0, Done) == 4); // Since reset.
  CHECK(minnow.readQueue(1, Done) == 1);
}

TEST_CASE("clearing ENABLE lets the running command finish and starts none") {
  Minnow minnow = Minnow::ready();
  minnow.submit(0, {gemm(0, 0, 4096, 64, 64, 64, 0, 0, 256), fence(Minnow::data, 1)});
  minnow.pass(3000);
  minnow.write(Control, 0);
  CHECK(minnow.readQueue(0, Head) == 0);
  minnow.pass(10000000);
  CHECK(minnow.readQueue(0, Head) == 1);
  CHECK(*minnow.host(Minnow::data) == 0);
  CHECK(minnow.counter(1) == 0); // Counters run while the device is enabled.
  minnow.write(Control, enable);
  minnow.settle();
  CHECK(*minnow.host(Minnow::data) == 1);
}

TEST_CASE("the device is off until ENABLE, whatever is in its rings") {
  Minnow minnow;
  minnow.setUp(0, 16);
  minnow.submit(0, {fence(Minnow::data, 1)});
  minnow.pass(1000000);
  CHECK(minnow.read(Status) == 1u << 8);
  CHECK(*minnow.host(Minnow::data) == 0);
  minnow.write(Control, enable);
  minnow.settle();
  CHECK(*minnow.host(Minnow::data) == 1);
}

TEST_CASE("software that rings nonsense harms only itself") {
  Minnow minnow = Minnow::ready(8);
  minnow.submit(0, {wait(0)});
  minnow.pass(10000);
  minnow.writeQueue(0, Doorbell, 0); // Empty, says the doorbell, while a command is executed.
  minnow.writeQueue(0, Size, 2);
  minnow.submit(1, {signal(0)});
  minnow.pass(1000000);
  CHECK(minnow.readQueue(0, Head) < 2);
  minnow.write(Control, softReset);
  minnow.pass(20000);
  CHECK(minnow.read(Status) == 4);
}
