// A program that uses the toy, and is recorded as the recorder would: packets in order, contents, windows.
#pragma once

#include "hal/state/ShadowState.h"
#include "tests/replayer/MemoryTape.h"
#include "tests/replayer/ScriptedTarget.h"
#include <memory>
#include <random>

namespace tapeback::test {

/// Each call does something on the target and appends the packets of it. Throws std::runtime_error where the
/// target fails (unless told to expect it).
class ToyProgram {
public:
  explicit ToyProgram(ToyOptions options = {}, bool described = true);

  MemoryTape &tape() { return *theTape; }
  std::unique_ptr<MemoryTape> finish(); ///< Ends the open window; the program is over.

  uint64_t open();
  uint64_t map(uint64_t iova, uint64_t length);
  uint64_t unmap(uint64_t iova);
  uint64_t write(uint64_t offset, uint64_t value, unsigned width = 4);
  uint64_t read(uint64_t offset, unsigned width = 4);
  uint64_t poll(uint64_t offset, uint64_t mask, uint64_t expected, uint64_t deadline = 1'000'000'000,
                unsigned width = 4);
  uint64_t store(uint64_t iova, llvm::ArrayRef<uint8_t> content); ///< MemoryWrite.
  uint64_t load(uint64_t iova, uint64_t length);                  ///< MemoryRead.
  uint64_t acquire(uint64_t iova, uint64_t length);
  uint64_t waitMemory(uint64_t iova, unsigned width, uint64_t mask, uint64_t expected);
  uint64_t waitInterrupt(uint64_t deadline = 1'000'000'000);
  uint64_t counter(uint64_t id);
  uint64_t marker(llvm::StringRef name);
  uint64_t reset();
  uint64_t checkEqual(llvm::StringRef name, uint64_t link, uint64_t expected);
  uint64_t check(llvm::StringRef name, bool holds);
  uint64_t checkMemory(llvm::StringRef name, uint64_t iova, llvm::ArrayRef<uint8_t> expected);
  uint64_t loss(uint64_t count, LossCause cause = LossCause::RingFull);
  uint64_t raw(Packet packet, PacketExtra extra = {});

  struct Dma {
    uint64_t descriptor, doorbell, poll, completion, window;
  };
  /// A whole transfer: registers, doorbell, poll, completion.
  Dma dma(bool toDevice, uint64_t host, uint64_t bufferOffset, uint64_t length, bool interrupt = false);
  /// Writes n, polls, reads the square. Returns the write's ordinal.
  uint64_t square(uint64_t n);

  ScriptedTarget &target() { return *device; }
  uint64_t packets() const { return theTape->packets.size(); }
  uint64_t openWindow() const { return theTape->windows.size(); }
  std::vector<uint8_t> memory(uint64_t iova, uint64_t length);

private:
  uint64_t append(Packet packet, PacketExtra extra = {});
  Packet packetOf(PacketKind kind, uint64_t address, unsigned width = 0);

  std::unique_ptr<MemoryTape> theTape;
  ToyOptions options;
  std::unique_ptr<ScriptedTarget> device;
  Description parsed;
  std::unique_ptr<ShadowState> shadow;
  uint64_t time = 1000;
};

/// A random workload of `operations`: transfers both ways, squares, interrupts, scratch accesses, checks.
/// Each operation has a marker. Memory: one mapping of 8 KiB at 0x200000.
struct ToyWorkload {
  std::unique_ptr<MemoryTape> tape;
  std::vector<ToyProgram::Dma> dmas;                   ///< By ordinal.
  std::vector<std::pair<uint64_t, uint64_t>> dmaShape; ///< Offset in the buffer, length.
  std::vector<bool> dmaToDevice;
  std::vector<uint64_t> acknowledges; ///< Packet of each IRQ_ACK write.
  std::vector<uint64_t>
      reads; ///< Packet of each register read (RegisterRead, and each read of a Poll in order).
};
constexpr uint64_t toyMemory = 0x200000, toyMemorySize = 8192;
ToyWorkload makeWorkload(uint64_t seed, unsigned operations, ToyOptions options = {});

} // namespace tapeback::test
