// Queues: order, wrapping, concurrency, semaphores, the barrier, fences.
#include "tests/hal/minnow/rtl/Device.h"

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("a queue wraps many times and counts on") {
  RTL_OR_SKIP();
  for (uint32_t entries : {2u, 4u, 16u}) {
    Device minnow("", entries);
    uint64_t value = 0;
    for (int round = 0; round < 20; ++round) {
      std::vector<minnow_command> commands;
      for (uint32_t i = 0; i + 1 < entries; ++i)
        commands.push_back(minnow_fence(Device::data, ++value, 0));
      minnow.run(commands, 1); // Exactly full.
      CHECK(minnow.word(Device::data) == value);
      CHECK(minnow.queue(1, MINNOW_Q_HEAD) == value % entries);
      CHECK(minnow.queue(1, MINNOW_Q_DONE) == value);
    }
    CHECK(minnow.counter(MINNOW_CNT_COMMANDS) == value);
    CHECK(minnow.queue(0, MINNOW_Q_DONE) == 0);
  }
}

TEST_CASE("the largest ring is used to its last entry") {
  RTL_OR_SKIP();
  Device minnow("", 1024);
  std::vector<minnow_command> commands;
  for (uint32_t i = 0; i < 1023; ++i)
    commands.push_back(minnow_fence(Device::data + 8 * i, i + 1, 0));
  minnow.run(commands);
  minnow.run({minnow_fence(Device::data + 8 * 1023, 1024, 0)});
  for (uint32_t i = 0; i < 1024; ++i)
    REQUIRE(minnow.word(Device::data + 8 * i) == i + 1);
  CHECK(minnow.queue(0, MINNOW_Q_HEAD) == 0);
}

TEST_CASE("a store is in memory before the fence's interrupt, whatever the jitter") {
  RTL_OR_SKIP();
  for (const char *options : {"", "latency=40&jitter=200&seed=3", "jitter=256&seed=9"}) {
    Device minnow(options);
    minnow.write(MINNOW_IRQ_ENABLE, 1);
    for (uint32_t i = 1; i <= 50; ++i) {
      Bytes content = noise(256, i);
      minnow.load(0, content);
      std::memset(minnow.at(Device::data), 0, 512);
      minnow.submit(0, {minnow_dma(MINNOW_DMA_STORE, Device::data, 0, 256, 1, 0, 0),
                        minnow_fence(Device::data + 256, i, MINNOW_INTERRUPT)});
      REQUIRE(must(minnow.target->waitInterrupt(0, 1000000)).fired);
      REQUIRE(minnow.word(Device::data + 256) == i);
      REQUIRE(std::memcmp(minnow.at(Device::data), content.data(), 256) == 0);
      CHECK(minnow.read(MINNOW_STATUS) == (MINNOW_STATUS_ENABLED | MINNOW_STATUS_IDLE));
      minnow.write(MINNOW_IRQ_STATUS, 1);
    }
  }
}

TEST_CASE("two queues run at the same time") {
  RTL_OR_SKIP();
  Device minnow;
  minnow_command gemm = minnow_gemm(0, 0x2000, 0x4000, 64, 32, 64, 64, 64, 256, 0);
  minnow_command dma = minnow_dma(MINNOW_DMA_LOAD, Device::data, 0xc000, 4096, 4, 4096, 4096);
  auto time = [&](bool first, bool second) {
    uint64_t start = minnow.time();
    if (first)
      minnow.submit(0, {gemm, gemm, gemm});
    if (second)
      minnow.submit(1, {dma, dma});
    minnow.settle();
    return minnow.time() - start;
  };
  uint64_t alone0 = time(true, false), alone1 = time(false, true), together = time(true, true);
  MESSAGE("alone " << alone0 << " and " << alone1 << " ns, together " << together << " ns");
  CHECK(together < std::max(alone0, alone1) + std::min(alone0, alone1) / 2);
}

TEST_CASE("units that both queues want are shared, and every command gets its turn") {
  RTL_OR_SKIP();
  Device minnow;
  Bytes content = noise(0x8000, 5);
  minnow.load(0, content);
  std::vector<minnow_command> mine[2];
  for (unsigned q = 0; q < 2; ++q)
    for (uint32_t i = 0; i < 8; ++i) {
      uint32_t from = 0x4000 * q + 0x400 * i;
      mine[q].push_back(minnow_relu8(from, 0x8000 + from, 8, 64, 64, 64));
      mine[q].push_back(minnow_dma(MINNOW_DMA_STORE, Device::data + from, 0x8000 + from, 512, 1, 0, 0));
    }
  minnow.submit(0, mine[0]);
  minnow.submit(1, mine[1]);
  CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
  for (unsigned q = 0; q < 2; ++q)
    for (uint32_t i = 0; i < 8; ++i)
      for (uint32_t b = 0; b < 512; ++b) {
        uint32_t from = 0x4000 * q + 0x400 * i + b;
        REQUIRE(*minnow.at(Device::data + from) == (content[from] & 0x80 ? 0 : content[from]));
      }
}

TEST_CASE("SIGNAL and WAIT order the queues; a blocked queue is busy and everything stands still") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.submit(0, {minnow_wait(3), minnow_fence(Device::data, 1, 0)});
  CHECK(minnow.settle() == (MINNOW_STATUS_ENABLED | MINNOW_STATUS_Q0_BUSY));
  CHECK(minnow.word(Device::data) == 0);
  uint64_t before = minnow.time();
  must(minnow.target->advance(1000000000)); // Nothing can happen: returns at once.
  CHECK(minnow.time() == before);
  minnow.submit(1, {minnow_signal(2), minnow_signal(3)});
  CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
  CHECK(minnow.word(Device::data) == 1);
  // Semaphore 2 has kept its one, and 3 has none left.
  minnow.run({minnow_wait(2)});
  minnow.submit(0, {minnow_wait(3)});
  CHECK((minnow.settle() & MINNOW_STATUS_Q0_BUSY) != 0);
  minnow.submit(1, {minnow_wait(3)}); // Two wait; two signals are needed, but both queues are blocked.
  CHECK((minnow.settle() & (MINNOW_STATUS_Q0_BUSY | MINNOW_STATUS_Q1_BUSY)) ==
        (MINNOW_STATUS_Q0_BUSY | MINNOW_STATUS_Q1_BUSY));
}

TEST_CASE("semaphores count to 255") {
  RTL_OR_SKIP();
  Device minnow("", 512);
  minnow.run(std::vector<minnow_command>(255, minnow_signal(7)));
  minnow.run(std::vector<minnow_command>(255, minnow_wait(7)), 1);
  minnow.submit(1, {minnow_wait(7)});
  CHECK((minnow.settle() & MINNOW_STATUS_Q1_BUSY) != 0);
}

TEST_CASE("a producer and a consumer through semaphores, both ways") {
  RTL_OR_SKIP();
  Device minnow("jitter=30&seed=4", 256);
  // Queue 0 loads block i into one of two buffers; queue 1 stores it elsewhere. 0: full, 1: free.
  Bytes content = noise(32 * 64, 6);
  minnow.put(Device::data, content.data(), content.size());
  std::vector<minnow_command> producer, consumer{minnow_signal(1), minnow_signal(1)};
  for (uint32_t i = 0; i < 32; ++i) {
    producer.push_back(minnow_wait(1));
    producer.push_back(minnow_dma(MINNOW_DMA_LOAD, Device::data + 64 * i, 64 * (i % 2), 64, 1, 0, 0));
    producer.push_back(minnow_signal(0));
    consumer.push_back(minnow_wait(0));
    consumer.push_back(
        minnow_dma(MINNOW_DMA_STORE, Device::data + 0x10000 + 64 * i, 64 * (i % 2), 64, 1, 0, 0));
    consumer.push_back(minnow_signal(1));
  }
  minnow.submit(0, producer);
  minnow.submit(1, consumer);
  CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
  CHECK(std::memcmp(minnow.at(Device::data + 0x10000), content.data(), content.size()) == 0);
  CHECK(minnow.counter(MINNOW_CNT_WAIT_SYNC) > 0);
}

TEST_CASE("BARRIER completes in both queues or in none") {
  RTL_OR_SKIP();
  Device minnow;
  minnow.submit(0, {minnow_barrier(), minnow_fence(Device::data, 1, 0)});
  CHECK((minnow.settle() & MINNOW_STATUS_Q0_BUSY) != 0);
  CHECK(minnow.queue(0, MINNOW_Q_DONE) == 0);
  minnow.submit(1, {minnow_nop(), minnow_fence(Device::data + 8, 2, 0)});
  minnow.settle();
  CHECK(minnow.word(Device::data) == 0);
  CHECK(minnow.word(Device::data + 8) == 2);
  minnow.submit(1, {minnow_barrier()});
  CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
  CHECK(minnow.word(Device::data) == 1);
  for (int i = 0; i < 10; ++i) { // One barrier each time, never two of the same queue.
    minnow.submit(i % 2, {minnow_barrier(), minnow_barrier()});
    minnow.submit(1 - i % 2, {minnow_barrier(), minnow_barrier()});
    CHECK((minnow.settle() & MINNOW_STATUS_IDLE) != 0);
  }
}

TEST_CASE("unlisted words, flags and tags are ignored") {
  RTL_OR_SKIP();
  Device minnow;
  minnow_command nop = minnow_nop();
  std::memset(nop.w, 0xff, sizeof nop.w);
  nop.w[0] = 0xffffff00;
  minnow_command barrier = nop, fence = nop;
  barrier.w[0] = 0xffffff33;
  fence.w[0] = 0xfffffe30; // All flags but INTERRUPT.
  fence.w[2] = uint32_t(Device::data);
  fence.w[3] = 0;
  minnow.submit(0, {nop, barrier, fence});
  minnow.submit(1, {nop, barrier});
  CHECK(minnow.settle() == (MINNOW_STATUS_ENABLED | MINNOW_STATUS_IDLE));
  CHECK(minnow.word(Device::data) == ~uint64_t(0));
  CHECK(minnow.read(MINNOW_IRQ_STATUS) == 0);
}
