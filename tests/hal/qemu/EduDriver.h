// What the tests of qemu:edu share: opening it, its registers, and the few things one does with it.
#pragma once

#include "format/Failure.h"
#include "hal/Target.h"
#include "tests/support/NeedQemu.h"
#include <chrono>
#include <doctest/doctest.h>
#include <string>

namespace tapeback::test {

enum EduRegister : uint64_t {
  eduIdent = 0x00,
  eduLiveness = 0x04,
  eduFactorial = 0x08,
  eduStatus = 0x20,
  eduIrqStatus = 0x24,
  eduIrqRaise = 0x60,
  eduIrqAck = 0x64,
  eduDmaSource = 0x80,
  eduDmaTarget = 0x88,
  eduDmaCount = 0x90,
  eduDmaCommand = 0x98,
};
constexpr uint64_t eduBuffer = 0x40000;
constexpr uint64_t second = 1'000'000'000;

/// The failure in an Error or Expected that must be one.
inline Failure failureOf(llvm::Error error) {
  REQUIRE(bool(error));
  return toFailure(std::move(error));
}
template <typename T>
Failure failureOf(llvm::Expected<T> value) {
  REQUIRE(!value);
  return toFailure(value.takeError());
}

inline std::string told(llvm::Error error) {
  return error ? llvm::toString(std::move(error)) : std::string();
}

/// Success, or the test case ends with what went wrong.
inline void must(llvm::Error error) {
  std::string problem = told(std::move(error));
  REQUIRE_MESSAGE(problem.empty(), problem);
}
template <typename T>
T must(llvm::Expected<T> value) {
  if (!value)
    must(value.takeError());
  return std::move(*value);
}

struct Edu {
  std::unique_ptr<Target> target;

  explicit Edu(const std::string &uri = "qemu:edu") : target(must(openTarget(uri))) {}

  uint64_t read(uint64_t offset, unsigned width = 4) { return must(target->read(0, offset, width)); }
  void write(uint64_t offset, uint64_t value, unsigned width = 4) {
    must(target->write(0, offset, width, value));
  }

  /// Reads until the masked value is there, at most ten seconds of host and of device time.
  uint64_t poll(uint64_t offset, unsigned width, uint64_t mask, uint64_t wanted) {
    auto start = std::chrono::steady_clock::now();
    uint64_t advanced = 0;
    while (true) {
      uint64_t value = read(offset, width);
      if ((value & mask) == wanted)
        return value;
      bool late = std::chrono::steady_clock::now() - start > std::chrono::seconds(10);
      REQUIRE_MESSAGE(!(late && advanced > 10 * second), "poll timed out");
      must(target->advance(1'000'000));
      advanced += 1'000'000;
    }
  }

  uint32_t factorial(uint32_t n) {
    write(eduFactorial, n);
    poll(eduStatus, 4, 1, 0);
    return uint32_t(read(eduFactorial));
  }

  enum Direction : uint64_t { ToDevice = 0, FromDevice = 2 };
  void startDma(Direction direction, uint64_t iova, uint64_t offset, uint64_t count, bool interrupt = false) {
    uint64_t host = iova, device = eduBuffer + offset;
    write(eduDmaSource, direction == ToDevice ? host : device, 8);
    write(eduDmaTarget, direction == ToDevice ? device : host, 8);
    write(eduDmaCount, count, 8);
    write(eduDmaCommand, 1 | direction | (interrupt ? 4 : 0), 8);
  }
  void dma(Direction direction, uint64_t iova, uint64_t offset, uint64_t count) {
    startDma(direction, iova, offset, count);
    poll(eduDmaCommand, 8, 1, 0);
  }
};

} // namespace tapeback::test
