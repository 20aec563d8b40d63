// Driving Minnow by hand, in tests: registers, rings, a piece of host memory.
#pragma once

#include "hal/minnow/driver/Commands.h"
#include "tests/hal/Targets.h"
#include "tests/support/Skip.h"
#include <cstring>
#include <random>

#ifdef TAPEBACK_HAS_RTL
#define RTL_OR_SKIP()
#else
#define RTL_OR_SKIP() TB_SKIP("verilator was not found when this was built")
#endif

namespace tapeback::test {

using Bytes = std::vector<uint8_t>;

/// The next multiple of 8.
inline uint32_t up8(uint32_t value) {
  return (value + 7) & ~7u;
}

/// One open Minnow with a megabyte of host memory: rings at its start, everything else from `data` on.
struct Device {
  static constexpr uint64_t base = 0x1000000, size = 1 << 20, data = base + 0x20000;

  explicit Device(const std::string &options = "", uint32_t entries = 64)
      : target(open("rtl:minnow" + (options.empty() ? "" : "?" + options))) {
    MapRequest request;
    request.size = size;
    request.iova = base;
    memory = must(target->map(request));
    start(entries);
  }

  uint32_t read(uint64_t offset) { return uint32_t(must(target->read(0, offset, 4))); }
  void write(uint64_t offset, uint32_t value) { must(target->write(0, offset, 4, value)); }
  static uint64_t queueRegister(unsigned q, uint64_t offset) {
    return MINNOW_QUEUE + MINNOW_QUEUE_STRIDE * q + offset;
  }
  uint32_t queue(unsigned q, uint64_t offset) { return read(queueRegister(q, offset)); }

  /// Both rings, empty, and ENABLE.
  void start(uint32_t entries = 64) {
    for (unsigned q = 0; q < 2; ++q) {
      write(queueRegister(q, MINNOW_Q_BASE_LO), uint32_t(ring(q)));
      write(queueRegister(q, MINNOW_Q_BASE_HI), 0);
      write(queueRegister(q, MINNOW_Q_SIZE), entries);
      tail[q] = 0;
    }
    ringSize = entries;
    write(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  }
  static uint64_t ring(unsigned q) { return base + q * 0x10000; }

  uint8_t *at(uint64_t address) { return memory.host + (address - base); }
  uint64_t word(uint64_t address) {
    uint64_t value;
    std::memcpy(&value, at(address), 8);
    return value;
  }
  void put(uint64_t address, const void *from, size_t bytes) { std::memcpy(at(address), from, bytes); }

  /// Writes commands and rings the doorbell; lets no more time pass than that takes.
  void submit(unsigned q, const std::vector<minnow_command> &commands) {
    for (const minnow_command &command : commands) {
      put(ring(q) + 64 * tail[q], &command, 64);
      tail[q] = (tail[q] + 1) % ringSize;
    }
    write(queueRegister(q, MINNOW_Q_DOORBELL), tail[q]);
  }
  /// Until nothing more happens by itself; returns STATUS.
  uint32_t settle() {
    must(target->advance(1000000000));
    return read(MINNOW_STATUS);
  }
  /// Commands that must succeed, to their end.
  void run(const std::vector<minnow_command> &commands, unsigned q = 0) {
    submit(q, commands);
    uint32_t status = settle();
    if (status & MINNOW_STATUS_HALTED)
      FAIL("halted: error " << read(MINNOW_ERR_CODE) << " at command " << read(MINNOW_ERR_INDEX)
                            << ", address 0x" << std::hex << read(MINNOW_ERR_ADDR_LO));
    REQUIRE((status & MINNOW_STATUS_IDLE) != 0);
  }

  /// Puts bytes (a multiple of 8) into the scratchpad, through the end of host memory.
  void load(uint32_t address, const void *from, size_t bytes) {
    put(base + size - 0x10000, from, bytes);
    run({minnow_dma(MINNOW_DMA_LOAD, base + size - 0x10000, address, uint32_t(bytes), 1, 0, 0)});
  }
  void load(uint32_t address, const Bytes &bytes) { load(address, bytes.data(), bytes.size()); }
  Bytes scratchpad(uint64_t offset = 0, size_t bytes = MINNOW_SCRATCHPAD_SIZE) {
    Bytes out(bytes);
    must(target->peek("scratchpad", offset, out));
    return out;
  }
  uint64_t counter(uint32_t id) { return must(target->counter(id)); }
  uint64_t time() { return must(target->deviceTime()); }

  std::unique_ptr<Target> target;
  MemoryRegion memory;
  uint32_t tail[2] = {}, ringSize = 64;
};

/// Random bytes from a seed; never all the same.
inline Bytes noise(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes out(bytes);
  for (uint8_t &byte : out)
    byte = uint8_t(random());
  return out;
}

inline int32_t int32At(const Bytes &bytes, size_t offset) {
  int32_t value;
  std::memcpy(&value, bytes.data() + offset, 4);
  return value;
}

} // namespace tapeback::test
