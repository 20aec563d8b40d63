// A program that drives Minnow's queues, and is recorded as the recorder would: for tests of how a replay
// treats entries, transfers in rows, and queues that are faster or slower than the recorded ones.
#pragma once

#include "hal/Target.h"
#include "hal/minnow/driver/Commands.h"
#include "hal/state/ShadowState.h"
#include "tests/replayer/MemoryTape.h"
#include <functional>
#include <memory>

namespace tapeback::test {

/// Forwards to a target of its own; reads, memory and capabilities can be tampered with.
class FilterTarget : public Target {
public:
  explicit FilterTarget(std::unique_ptr<Target> inner) : inner(std::move(inner)) {}

  std::function<uint64_t(uint64_t address, uint64_t value)> onRead;
  std::function<void(uint64_t iova, llvm::ArrayRef<uint8_t> in)> afterWriteMemory;
  std::function<void(uint64_t iova, llvm::MutableArrayRef<uint8_t> out)> onReadMemory;
  bool peeks = true;
  uint64_t memoryWrites = 0, memoryReads = 0, reads = 0;

  const TargetIdentity &identity() const override { return inner->identity(); }
  TargetCapabilities capabilities() const override;
  llvm::ArrayRef<TargetSpace> spaces() const override { return inner->spaces(); }
  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override;
  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override {
    return inner->write(space, address, width, value);
  }
  llvm::Error flush() override { return inner->flush(); }
  llvm::Expected<MemoryRegion> map(const MapRequest &request) override { return inner->map(request); }
  llvm::Error unmap(uint64_t iova) override { return inner->unmap(iova); }
  llvm::Error readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) override;
  llvm::Error writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) override;
  llvm::Expected<InterruptResult> waitInterrupt(uint32_t vector, uint64_t deadlineNs) override {
    return inner->waitInterrupt(vector, deadlineNs);
  }
  llvm::Error advance(uint64_t nanoseconds) override { return inner->advance(nanoseconds); }
  llvm::Error reset(ResetKind kind) override { return inner->reset(kind); }
  llvm::Expected<uint64_t> counter(uint32_t id) override { return inner->counter(id); }
  llvm::Error peek(llvm::StringRef window, uint64_t offset, llvm::MutableArrayRef<uint8_t> out) override {
    return inner->peek(window, offset, out);
  }

private:
  std::unique_ptr<Target> inner;
};

std::unique_ptr<FilterTarget> openMinnow(const std::string &uri = "model:minnow");

/// Throws std::runtime_error where the target fails. Memory: 1 MiB at `base`, rings at its start.
class QueueProgram {
public:
  static constexpr uint64_t base = 0x1000000, size = 1 << 20, data = base + 0x20000;

  explicit QueueProgram(uint32_t entries = 16, const std::string &uri = "model:minnow");

  MemoryTape &tape() { return *theTape; }
  std::unique_ptr<MemoryTape> finish();
  Target &target() { return *device; }
  uint64_t packets() const { return theTape->packets.size(); }

  uint64_t write(uint64_t offset, uint32_t value);
  uint64_t read(uint64_t offset);
  uint64_t queueRead(unsigned q, uint64_t offset) {
    return read(MINNOW_QUEUE + MINNOW_QUEUE_STRIDE * q + offset);
  }
  uint64_t store(uint64_t iova, llvm::ArrayRef<uint8_t> content);
  uint64_t marker(llvm::StringRef name);
  uint64_t wait(uint64_t iova, uint64_t value, bool timesOut = false);
  uint64_t acquire(uint64_t iova, uint64_t length);
  uint64_t raw(Packet packet, PacketExtra extra = {});

  struct Submitted {
    uint64_t submit = 0;
    std::optional<uint64_t> descriptor;
  };
  /// The Submit and, for loads and stores, the DmaDescriptor. `flags` are added to the descriptor's.
  Submitted submit(unsigned q, const minnow_command &command, uint8_t flags = 0);
  uint64_t doorbell(unsigned q);
  /// Writes SIZE again, which empties the ring.
  uint64_t rewind(unsigned q);
  /// The completion of a store, as the memory is now; `again`: at the next synchronisation point.
  uint64_t completion(uint64_t descriptor, bool again = false);

  void settle();
  std::vector<uint8_t> memory(uint64_t iova, uint64_t length);

private:
  uint64_t append(Packet packet, PacketExtra extra = {});

  std::unique_ptr<MemoryTape> theTape;
  std::unique_ptr<Target> device;
  Description parsed;
  std::unique_ptr<ShadowState> shadow;
  uint32_t entries, tail[2] = {0, 0};
  uint64_t submits[2] = {0, 0};
  uint64_t time = 1000;
};

} // namespace tapeback::test
