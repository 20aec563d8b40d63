// Driving Minnow by hand, in tests of its reference model: register names, commands, and one open device.
#pragma once

#include "tests/hal/Targets.h"
#include <array>
#include <cstring>
#include <initializer_list>

namespace tapeback::test {

enum MinnowRegister : uint64_t {
  Control = 0x00c,
  Status = 0x010,
  IrqStatus = 0x014,
  IrqEnable = 0x018,
  ErrCode = 0x020,
  ErrQueue = 0x024,
  ErrIndex = 0x028,
  ErrOpcode = 0x02c,
  ErrAddr = 0x030,
  DbgAddr = 0x040,
  DbgData = 0x044,
  TimeLo = 0x050,
  TimeHi = 0x054,
  BaseLo = 0x100, // Of queue 0; queue 1's are 0x40 further.
  BaseHi = 0x104,
  Size = 0x108,
  Head = 0x10c,
  Tail = 0x110,
  Doorbell = 0x114,
  Done = 0x118,
  CntControl = 0x200,
};

constexpr uint32_t halted = 2, idle = 4, enable = 1, softReset = 2, resume = 8;

using Words = std::array<uint32_t, 16>;

inline uint32_t lo(uint64_t value) {
  return uint32_t(value);
}
inline uint32_t hi(uint64_t value) {
  return uint32_t(value >> 32);
}

// Commands; the flag is bit 0 of the flags.
inline Words nop(uint32_t tag = 0) {
  return {tag << 16};
}
inline Words dma(bool store, uint64_t host, uint32_t scratchpad, uint32_t rowBytes, uint32_t rows = 1,
                 uint32_t hostStride = 0, uint32_t scratchpadStride = 0) {
  return {store ? 2u : 1u, 0, lo(host), hi(host), scratchpad, rowBytes, rows, hostStride, scratchpadStride};
}
inline Words chain(uint64_t first) {
  return {3, 0, lo(first), hi(first)};
}
inline Words gemm(uint32_t a, uint32_t b, uint32_t c, uint32_t m, uint32_t n, uint32_t k, uint32_t lda,
                  uint32_t ldb, uint32_t ldc, bool accumulate = false) {
  return {0x10u | uint32_t(accumulate) << 8, 0, a, b, c, m, n, k, lda, ldb, ldc};
}
/// Takes about 2 ms.
inline Words slow() {
  return gemm(0, 0, 4096, 256, 256, 192, 0, 0, 0);
}
inline Words vector(uint32_t opcode, uint32_t a, uint32_t b, uint32_t d, uint32_t rows, uint32_t cols,
                    uint32_t lda, uint32_t ldb, uint32_t ldd, bool flag = false) {
  return {opcode | uint32_t(flag) << 8, 0, a, b, d, rows, cols, lda, ldb, ldd};
}
inline Words requant(uint32_t a, uint32_t d, uint32_t rows, uint32_t cols, uint32_t lda, uint32_t ldd,
                     int32_t multiplier, uint32_t shift, int32_t zeroPoint, bool relu = false) {
  return {0x23u | uint32_t(relu) << 8, 0, a, 0, d, rows, cols, lda, 0, ldd, uint32_t(multiplier), shift,
          uint32_t(zeroPoint)};
}
inline Words maxpool(uint32_t a, uint32_t d, uint32_t height, uint32_t width, uint32_t channels,
                     uint32_t window, uint32_t stride) {
  return {0x24, 0, a, 0, d, height, width, channels, window, stride};
}
inline Words fence(uint64_t host, uint64_t value, bool interrupt = false) {
  return {0x30u | uint32_t(interrupt) << 8, 0, lo(host), hi(host), lo(value), hi(value)};
}
inline Words signal(uint32_t semaphore) {
  return {0x31, 0, semaphore};
}
inline Words wait(uint32_t semaphore) {
  return {0x32, 0, semaphore};
}
inline Words barrier() {
  return {0x33};
}

/// A device and 1 MiB of host memory: the rings at its beginning, 64 KiB each, then `data`.
struct Minnow {
  static constexpr uint64_t iova = 0x1000000, bytes = 1 << 20, data = iova + 0x20000;

  explicit Minnow(const std::string &uri = "model:minnow") : target(open(uri)) {
    MapRequest request;
    request.size = bytes;
    request.iova = iova;
    memory = must(target->map(request));
  }
  /// Enabled, with both queues of this size.
  static Minnow ready(uint32_t size = 16, const std::string &uri = "model:minnow") {
    Minnow minnow(uri);
    minnow.setUp(0, size);
    minnow.setUp(1, size);
    minnow.write(Control, enable);
    return minnow;
  }

  uint32_t read(uint64_t offset) { return uint32_t(must(target->read(0, offset, 4))); }
  uint64_t read64(uint64_t offset) { return read(offset) | uint64_t(read(offset + 4)) << 32; }
  void write(uint64_t offset, uint32_t value) { must(target->write(0, offset, 4, value)); }
  uint32_t readQueue(unsigned q, uint64_t offset) { return read(offset + 0x40 * q); }
  void writeQueue(unsigned q, uint64_t offset, uint32_t value) { write(offset + 0x40 * q, value); }

  uint64_t ring(unsigned q) const { return iova + 0x10000 * q; }
  void setUp(unsigned q, uint32_t size) {
    writeQueue(q, BaseLo, lo(ring(q)));
    writeQueue(q, BaseHi, hi(ring(q)));
    writeQueue(q, Size, size);
    sizes[q] = size;
    tails[q] = 0;
  }
  /// Into the ring, without the doorbell. Returns its index.
  uint32_t put(unsigned q, const Words &words) {
    uint32_t index = tails[q];
    std::memcpy(host(ring(q) + 64 * index), words.data(), 64);
    tails[q] = (index + 1) % sizes[q];
    return index;
  }
  void doorbell(unsigned q) { writeQueue(q, Doorbell, tails[q]); }
  void submit(unsigned q, std::initializer_list<Words> commands) {
    for (const Words &words : commands)
      put(q, words);
    doorbell(q);
  }
  bool isIdle() { return read(Status) & idle; }
  bool isHalted() { return read(Status) & halted; }
  void pass(uint64_t nanoseconds) { must(target->advance(nanoseconds)); }
  /// Until the device is idle or halted.
  void settle() {
    for (uint64_t step = 500, i = 0; i < 200; ++i, step = std::min<uint64_t>(step * 5 / 4, 100000000)) {
      if (read(Status) & (idle | halted))
        return;
      pass(step);
    }
    FAIL("the device does not come to rest");
  }
  /// One after the other on queue 0, as the ring has room; all must succeed.
  void run(const std::vector<Words> &commands) {
    for (const Words &words : commands) {
      submit(0, {words});
      settle();
    }
    CHECK(read(ErrCode) == 0);
    CHECK((read(Status) & (idle | halted)) == idle);
  }
  void run(const Words &words) { run(std::vector<Words>{words}); }

  /// Host memory as the device sees it.
  uint8_t *host(uint64_t address) { return memory.host + (address - iova); }
  std::vector<uint8_t> hostBytes(uint64_t address, size_t size) {
    return {host(address), host(address) + size};
  }
  std::vector<uint8_t> scratchpad(uint64_t offset = 0, size_t size = 65536) {
    std::vector<uint8_t> out(size);
    must(target->peek("scratchpad", offset, out));
    return out;
  }
  template <typename T>
  std::vector<T> scratch(uint64_t offset, size_t count) {
    std::vector<uint8_t> from = scratchpad(offset, count * sizeof(T));
    std::vector<T> out(count);
    std::memcpy(out.data(), from.data(), from.size());
    return out;
  }
  /// Puts content into the scratchpad, by DMA through the last 64 KiB of host memory.
  template <typename T>
  void fill(uint32_t offset, const std::vector<T> &content) {
    size_t size = content.size() * sizeof(T), whole = (size + 7) / 8 * 8;
    uint64_t through = iova + bytes - 65536;
    std::vector<uint8_t> padded = scratchpad(offset, whole);
    std::memcpy(padded.data(), content.data(), size);
    std::memcpy(host(through), padded.data(), whole);
    run(dma(false, through, offset, uint32_t(whole)));
  }

  uint64_t counter(uint32_t id) { return must(target->counter(id)); }
  /// As SNAPSHOT and the registers give it.
  uint64_t snapshotCounter(uint32_t id) { return read64(0x240 + 8 * id); }

  std::unique_ptr<Target> target;
  MemoryRegion memory;
  uint32_t sizes[2] = {}, tails[2] = {};
};

/// What the error registers say, in one line; "none" if nothing.
inline std::string errorOf(Minnow &minnow) {
  uint32_t code = minnow.read(ErrCode);
  if (code == 0)
    return "none";
  char text[128];
  std::snprintf(text, sizeof text, "code %u queue %u index %u opcode 0x%x address 0x%llx", code,
                minnow.read(ErrQueue), minnow.read(ErrIndex), minnow.read(ErrOpcode),
                static_cast<unsigned long long>(minnow.read64(ErrAddr)));
  return text;
}

} // namespace tapeback::test
