// DMA: rows, strides, chains, and the counters that count exactly.
#include "tests/hal/minnow/rtl/Device.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Shape {
  uint32_t rowBytes, rows, hostStride, scratchpadStride, scratchpad;
  uint64_t host;
};

const Shape shapes[] = {
    {8, 1, 0, 0, 0, 0},          {64, 1, 0, 0, 8, 8},
    {72, 1, 0, 0, 0xffb8, 0x18}, {8, 100, 24, 16, 0x40, 0xff8},
    {56, 33, 4096, 64, 0, 0x38}, {1000, 7, 1008, 1000, 0x100, 0xfd0},
    {65536, 1, 0, 0, 0, 0x1000}, {128, 4, 0, 128, 0, 0},
    {16, 4096, 16, 16, 0, 0},
};

} // namespace

TEST_CASE("loads and stores of every shape move their rows and nothing else") {
  RTL_OR_SKIP();
  for (const char *options : {"", "latency=1", "latency=30&jitter=50&seed=2"}) {
    Device minnow(options);
    for (const Shape &shape : shapes) {
      Bytes before = noise(0x10000, 11), source = noise(0x90000, shape.rowBytes);
      minnow.load(0, before);
      minnow.put(Device::data, source.data(), source.size());
      uint64_t read = minnow.counter(MINNOW_CNT_READ_BYTES),
               readBursts = minnow.counter(MINNOW_CNT_READ_BURSTS);
      uint64_t written = minnow.counter(MINNOW_CNT_WRITE_BYTES),
               writeBursts = minnow.counter(MINNOW_CNT_WRITE_BURSTS);
      minnow.run({minnow_dma(MINNOW_DMA_LOAD, Device::data + shape.host, shape.scratchpad, shape.rowBytes,
                             shape.rows, shape.hostStride, shape.scratchpadStride)});
      Bytes expected = before;
      for (uint32_t r = 0; r < shape.rows; ++r)
        std::memcpy(&expected[shape.scratchpad + r * shape.scratchpadStride],
                    &source[shape.host + uint64_t(r) * shape.hostStride], shape.rowBytes);
      CHECK(minnow.scratchpad() == expected);

      std::memset(minnow.at(Device::data), 0x55, source.size());
      minnow.run({minnow_dma(MINNOW_DMA_STORE, Device::data + shape.host, shape.scratchpad, shape.rowBytes,
                             shape.rows, shape.hostStride, shape.scratchpadStride)});
      Bytes host(source.size(), 0x55);
      for (uint32_t r = 0; r < shape.rows; ++r)
        std::memcpy(&host[shape.host + uint64_t(r) * shape.hostStride],
                    &expected[shape.scratchpad + r * shape.scratchpadStride], shape.rowBytes);
      CHECK(std::memcmp(minnow.at(Device::data), host.data(), host.size()) == 0);
      CHECK(minnow.scratchpad() == expected);

      uint64_t bytes = uint64_t(shape.rowBytes) * shape.rows,
               bursts = (shape.rowBytes + 63) / 64 * uint64_t(shape.rows);
      CHECK(minnow.counter(MINNOW_CNT_READ_BYTES) == read + bytes);
      CHECK(minnow.counter(MINNOW_CNT_WRITE_BYTES) == written + bytes);
      CHECK(minnow.counter(MINNOW_CNT_READ_BURSTS) == (readBursts + bursts) % 0x10000);
      CHECK(minnow.counter(MINNOW_CNT_WRITE_BURSTS) == writeBursts + bursts);
    }
  }
}

TEST_CASE("READ_BURSTS is 16 bits wide and wraps") {
  RTL_OR_SKIP();
  Device minnow;
  for (int i = 0; i < 17; ++i)
    minnow.run({minnow_dma(MINNOW_DMA_LOAD, Device::data, 0, 8, 4096, 0, 8)});
  CHECK(minnow.counter(MINNOW_CNT_READ_BURSTS) == 4096);
  CHECK(minnow.counter(MINNOW_CNT_READ_BYTES) == 17 * 4096 * 8);
}

TEST_CASE("counters: snapshot, clear, freeze, and only while enabled") {
  RTL_OR_SKIP();
  Device minnow;
  auto snapshot = [&](uint32_t id) {
    return minnow.read(MINNOW_CNT_LO + 8 * id) | uint64_t(minnow.read(MINNOW_CNT_HI + 8 * id)) << 32;
  };
  minnow.run({minnow_dma(MINNOW_DMA_LOAD, Device::data, 0, 128, 3, 128, 128), minnow_nop()});
  CHECK(snapshot(MINNOW_CNT_COMMANDS) == 0); // Nothing was taken yet.
  minnow.write(MINNOW_CNT_CONTROL, MINNOW_CNT_SNAPSHOT | MINNOW_CNT_CLEAR);
  CHECK(minnow.read(MINNOW_CNT_CONTROL) == 0);
  CHECK(snapshot(MINNOW_CNT_COMMANDS) == 2);
  CHECK(snapshot(MINNOW_CNT_READ_BYTES) == 384);
  CHECK(snapshot(MINNOW_CNT_READ_BURSTS) == 6);
  CHECK(snapshot(MINNOW_CNT_WRITE_BURSTS) == 0);
  CHECK(snapshot(MINNOW_CNT_CYCLES) > 50);
  CHECK(snapshot(MINNOW_CNT_DMA_BUSY) > 24);
  CHECK(snapshot(MINNOW_CNT_DMA_BUSY) < snapshot(MINNOW_CNT_CYCLES));
  CHECK(snapshot(MINNOW_CNT_WAIT_QUEUE) > 0);
  CHECK(minnow.counter(MINNOW_CNT_COMMANDS) == 0);
  minnow.write(MINNOW_CNT_CONTROL, MINNOW_CNT_FREEZE);
  CHECK(minnow.read(MINNOW_CNT_CONTROL) == MINNOW_CNT_FREEZE);
  uint64_t cycles = minnow.counter(MINNOW_CNT_CYCLES);
  minnow.run({minnow_nop()});
  CHECK(minnow.counter(MINNOW_CNT_CYCLES) == cycles);
  CHECK(minnow.counter(MINNOW_CNT_COMMANDS) == 0);
  minnow.write(MINNOW_CNT_CONTROL, 0);
  minnow.run({minnow_nop()});
  CHECK(minnow.counter(MINNOW_CNT_COMMANDS) == 1);
  minnow.write(MINNOW_CONTROL, 0);
  cycles = minnow.counter(MINNOW_CNT_CYCLES);
  minnow.read(MINNOW_ID);
  CHECK(minnow.counter(MINNOW_CNT_CYCLES) == cycles);
}

TEST_CASE("a chain's descriptors are carried out one after the other") {
  RTL_OR_SKIP();
  Device minnow;
  Bytes source = noise(0x4000, 3);
  minnow.put(Device::data, source.data(), source.size());
  uint64_t at = Device::data + 0x8000, out = Device::data + 0x10000;
  minnow_descriptor chain[] = {
      minnow_make_descriptor(Device::data, 0x100, 64, 4, 256, 64, 0, at + 0x400),
      minnow_make_descriptor(out, 0x100, 256, 1, 0, 0, MINNOW_DESCRIPTOR_STORE, at + 0x80),
      minnow_make_descriptor(out + 0x1000, 0x140, 16, 2, 32, 8,
                             MINNOW_DESCRIPTOR_STORE | MINNOW_DESCRIPTOR_LAST, ~0ull),
  };
  std::memset(chain[0].ignored, 0xff, 24);
  minnow.put(at, &chain[0], 64);
  minnow.put(at + 0x400, &chain[1], 64);
  minnow.put(at + 0x80, &chain[2], 64);
  minnow.run({minnow_dma_chain(at)});
  for (int r = 0; r < 4; ++r)
    CHECK(std::memcmp(minnow.at(out + 64 * r), &source[256 * r], 64) == 0);
  CHECK(std::memcmp(minnow.at(out + 0x1000), &source[256], 16) == 0);
  CHECK(std::memcmp(minnow.at(out + 0x1020), &source[256 + 8], 16) == 0);
  // Neither the command nor the descriptors count.
  CHECK(minnow.counter(MINNOW_CNT_READ_BYTES) == 256);
  CHECK(minnow.counter(MINNOW_CNT_READ_BURSTS) == 4);
  CHECK(minnow.counter(MINNOW_CNT_WRITE_BYTES) == 256 + 32);
  CHECK(minnow.counter(MINNOW_CNT_WRITE_BURSTS) == 4 + 2);
  CHECK(minnow.counter(MINNOW_CNT_COMMANDS) == 1);
}

TEST_CASE("a chain may write its own next descriptor: it is read only when its turn comes") {
  RTL_OR_SKIP();
  Device minnow("jitter=20");
  uint64_t at = Device::data, out = Device::data + 0x1000;
  minnow_descriptor last =
      minnow_make_descriptor(out, 0x200, 8, 1, 0, 0, MINNOW_DESCRIPTOR_STORE | MINNOW_DESCRIPTOR_LAST, 0);
  minnow.load(0x100, &last, 64);
  uint64_t value = 0x1122334455667788;
  minnow.load(0x200, &value, 8);
  // The first writes the second, which in memory is one that would store elsewhere.
  minnow_descriptor first =
      minnow_make_descriptor(at + 64, 0x100, 64, 1, 0, 0, MINNOW_DESCRIPTOR_STORE, at + 64);
  minnow_descriptor stale = last;
  stale.host_address = out + 64;
  minnow.put(at, &first, 64);
  minnow.put(at + 64, &stale, 64);
  minnow.run({minnow_dma_chain(at)});
  CHECK(minnow.word(out) == value);
  CHECK(minnow.word(out + 64) == 0);
}

TEST_CASE("a chain has at most 256 descriptors") {
  RTL_OR_SKIP();
  Device minnow;
  auto make = [&](uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      minnow_descriptor d =
          minnow_make_descriptor(Device::data + 0x10000, 8 * i, 8, 1, 0, 0,
                                 i + 1 == count ? MINNOW_DESCRIPTOR_LAST : 0, Device::data + 64 * (i + 1));
      minnow.put(Device::data + 64 * i, &d, 64);
    }
  };
  make(256);
  minnow.run({minnow_dma_chain(Device::data)});
  make(257);
  minnow.submit(0, {minnow_dma_chain(Device::data)});
  CHECK((minnow.settle() & MINNOW_STATUS_HALTED) != 0);
  CHECK(minnow.read(MINNOW_ERR_CODE) == MINNOW_CHAIN_TOO_LONG);
  CHECK(minnow.read(MINNOW_ERR_ADDR_LO) == Device::data + 64 * 255);
  CHECK(minnow.counter(MINNOW_CNT_READ_BYTES) == 8 * (256 + 255));
}
