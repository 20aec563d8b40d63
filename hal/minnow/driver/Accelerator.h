// Minnow as its driver sees it: two rings, fences, counters; through Tapeback's C API and nothing else.
//
// One Accelerator per open device, one thread. The first failure sticks: every later call answers false and
// does nothing. What failed is in `problem()`, and whether the target itself did in `targetFailed()`; a
// device that hangs or reports an error is a failed check (tb_fail), not a failed target.
#pragma once

#include "hal/minnow/driver/Commands.h"
#include "recorder/tapeback.h"
#include <deque>
#include <string>
#include <vector>

namespace tapeback::minnow {

struct AcceleratorOptions {
  uint32_t ringEntries = 16; ///< A power of two from 8 to 1024.
  /// How long a fence may take, in the device's time.
  uint64_t deadlineNs = 200'000'000;
  /// Checks that do not hold are counted and do not stop anything.
  bool keepGoing = false;
};

/// What the counters that are exact must show. Never cleared while a network runs: they wrap at their width.
struct ExactCounters {
  uint64_t macs = 0, readBytes = 0, writeBytes = 0, readBursts = 0, writeBursts = 0, commands = 0;
};

class Accelerator {
public:
  Accelerator(tb_device *device, const AcceleratorOptions &options);
  Accelerator(const Accelerator &) = delete;
  Accelerator &operator=(const Accelerator &) = delete;

  /// Soft reset, rings, interrupts, counters. May be called again.
  bool start();
  /// Soft reset, and nothing is set up behind it.
  bool stop();

  /// Memory for the device. Freed by releaseMemory, or with the device.
  struct Memory {
    uint64_t iova = 0;
    uint8_t *pointer = nullptr; ///< Null if the target has no coherent view of it.
    size_t size = 0;
  };
  bool allocate(size_t size, Memory &memory);
  bool releaseMemory(const Memory &memory);
  /// Stores, or tb_mem_write where there is no view.
  bool fill(const Memory &memory, size_t offset, const void *bytes, size_t size);

  /// Puts a command into the ring. `chain` are the descriptors of a DMA_CHAIN, for the counters' sake. Rings
  /// the bell and waits for earlier fences if the ring is full.
  bool push(unsigned queue, const minnow_command &command, const minnow_descriptor *chain = nullptr);
  struct Fence {
    unsigned queue = 0;
    uint64_t number = 0;
    bool interrupt = false;
  };
  /// Puts a fence behind what was pushed so far, and rings the bell.
  bool fence(unsigned queue, bool interrupt, Fence &fence);
  /// Until its value is in memory. One with an interrupt is waited for by that first: time then stands where
  /// the device believes that all before it is done. Acknowledge it afterwards, as soon as what matters was
  /// looked at.
  bool wait(const Fence &fence);
  /// The cause must be the fence's and no other.
  bool acknowledge(const Fence &fence);
  /// Both queues drained, to the last command's end.
  bool waitIdle();
  /// A snapshot of the counters; those that are exact, against what was pushed. When idle.
  bool checkCounters();

  const ExactCounters &expected() const { return counters; }
  tb_device *handle() const { return device; }

  /// Outcomes of tb_ calls; for callers' own calls, too.
  bool good(const char *what, int code);
  bool held(const char *name, int outcome);

  bool failed() const { return broken; }
  bool targetFailed() const { return deadTarget; }
  uint64_t wrong() const { return wrongChecks; }
  const std::string &problem() const { return text; }

private:
  struct Queue {
    Memory ring, fences;
    uint32_t tail = 0;        ///< Index of the next command.
    uint32_t rung = 0;        ///< The tail the device knows.
    uint32_t outstanding = 0; ///< Entries not known to be done.
    uint32_t sinceFence = 0;  ///< Entries behind the last fence.
    uint64_t fencesPut = 0, fencesSeen = 0;
    std::deque<uint32_t> entries; ///< Of each fence not seen yet: how many entries it completes,
    std::deque<uint64_t> values;  ///< and its value.
  };

  bool reset();
  bool write(uint32_t offset, uint32_t value);
  bool read(uint32_t offset, uint32_t &value);
  bool readAndCheck(const char *name, uint32_t offset, uint32_t expected);
  bool put(unsigned queue, const minnow_command &command);
  bool ring(unsigned queue);
  bool ringAll();
  bool putFence(unsigned queue, bool interrupt);
  bool waitOldest(unsigned queue);
  void count(const minnow_command &command, const minnow_descriptor *chain);
  bool hung(const char *name);

  tb_device *device;
  AcceleratorOptions options;
  Queue queues[MINNOW_QUEUES];
  ExactCounters counters;
  uint64_t fenceValues = 0; ///< Never the same twice, so that no fence is taken for another.
  bool broken = false, deadTarget = false;
  uint64_t wrongChecks = 0;
  std::string text;
};

} // namespace tapeback::minnow
