// Driving edu by hand, in tests.
#pragma once

#include "tests/hal/Targets.h"

namespace tapeback::test {

/// One open edu and a mapped range of host memory.
struct Edu {
  explicit Edu(const std::string &uri, uint64_t iova = 0x1000000, uint64_t size = 4 * 4096)
      : target(open(uri)) {
    MapRequest request;
    request.size = size;
    request.iova = iova;
    memory = must(target->map(request));
  }

  uint32_t read(uint64_t offset) { return uint32_t(must(target->read(0, offset, 4))); }
  uint64_t read64(uint64_t offset) { return must(target->read(0, offset, 8)); }
  void write(uint64_t offset, uint64_t value) {
    must(target->write(0, offset, offset >= 0x80 ? 8 : 4, value));
  }

  /// Reads until the bits of `mask` are clear; returns how often, at most `most`.
  int poll(uint64_t offset, uint32_t mask, int most = 1000) {
    int reads = 1;
    while ((read(offset) & mask) && reads < most)
      ++reads;
    CHECK(reads < most);
    return reads;
  }

  uint32_t factorial(uint32_t operand) {
    write(0x08, operand);
    poll(0x20, 1);
    return read(0x08);
  }

  /// A whole transfer. Leaves it to the caller to look at interrupts.
  void dma(uint64_t source, uint64_t destination, uint64_t count, uint64_t command) {
    write(0x80, source);
    write(0x88, destination);
    write(0x90, count);
    write(0x98, command);
    must(target->advance(100000000));
    CHECK((read(0x98) & 1) == 0);
  }

  std::vector<uint8_t> buffer() {
    std::vector<uint8_t> bytes(4096);
    must(target->peek("buffer", 0, bytes));
    return bytes;
  }
  std::vector<uint8_t> host() { return {memory.host, memory.host + memory.size}; }

  std::unique_ptr<Target> target;
  MemoryRegion memory;
};

} // namespace tapeback::test
