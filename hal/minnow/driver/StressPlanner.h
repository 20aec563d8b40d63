// The maker of a stress plan's rounds: what it knows of the device while it plans. Used by Stress.cpp only.
#pragma once

#include "hal/minnow/driver/Hazards.h"
#include "hal/minnow/driver/Stress.h"
#include "hal/minnow/driver/StressCommands.h"

namespace tapeback::stress {

class StressPlan::Planner {
public:
  explicit Planner(const StressOptions &options);

  std::vector<StressStep> next();

  uint64_t submitted = 0;
  Evaluation evaluation;

private:
  // ---- Where things are in the arena (offsets) ----
  static constexpr uint32_t ringRegion = 0x4000, fences = 0x8000, fenceSlots = 512, descriptors = 0x9000,
                            descriptorSlots = 448, data = 0x10000;

  struct Queue {
    uint32_t size = 0, head = 0; ///< HEAD = TAIL between rounds.
    uint32_t base = 0, done = 0;
    uint32_t budget = 0; ///< Commands that may still be put into this round.
  };

  struct Entry {
    unsigned queue = 0;
    minnow_command command = {};
    Verdict verdict = {};
    uint64_t number = 0, knows = 0; ///< Hazards' numbers: its own, and what it knows of the other queue.
    uint32_t index = 0;             ///< In the ring.
    bool fetchFails = false;        ///< The ring is not mapped there.
    std::vector<StressStep> whenHalted = {}; ///< Only where the other queue stands still.
  };

  /// What a semaphore may be used for in this round: whatever orders the queues must have one direction.
  enum class Use : uint8_t { Free, From0, From1 };

  // ---- Steps ----
  void mark(const char *name);
  void write(uint32_t offset, uint64_t value);
  void read(const char *name, uint32_t offset, uint64_t value);
  void poll(const char *name, uint32_t offset, uint64_t mask, uint64_t value);
  void fill(uint32_t at, const void *from, size_t bytes);
  void awaitInterrupt();
  void quiet();
  uint32_t queueRegister(unsigned q, uint32_t offset) const {
    return MINNOW_QUEUE + q * MINNOW_QUEUE_STRIDE + offset;
  }

  // ---- Before a round (StressPlanner.cpp) ----
  void setUpRing(unsigned q, uint32_t size, uint32_t base);
  void setUpRings();
  void beginRound();
  void changeSettings();
  void fillData();
  void useDebugPort(std::vector<StressStep> &into);

  // ---- Commands (StressPlanner.cpp) ----
  uint64_t address(uint32_t offset) const { return evaluation.arena + offset; }
  Entry &emit(unsigned q, const minnow_command &command);
  bool tryEmit(unsigned q, const minnow_command &command);
  bool handshake(unsigned from, unsigned to);
  bool barrier();
  bool fence(unsigned q);
  void closingFences();
  void useSemaphore(unsigned q);
  bool randomCommand(unsigned q);
  bool chain(unsigned q, bool fails);
  uint64_t chainOf(std::vector<minnow_descriptor> links, uint64_t behind);
  bool failingCommand(unsigned q, bool alone);
  bool randomAlone(unsigned q);
  void commands(uint32_t count, bool first, bool second);

  // ---- The rounds (StressRounds.cpp) ----
  void start();
  void ordinaryRound();
  void disabledRound();
  void fullRound();
  void errorRound();
  void ringErrorRound();
  void overflowRound();
  void selfModifyingRound();
  void pausedRound();
  void manyBurstsRound();
  void resetRound();
  void resetIdle();
  void resetHalted();
  void resetBlocked();
  void resetRunning();
  void afterReset();

  // ---- From the commands to the end of the round (StressRounds.cpp) ----
  void submit();
  void ring(unsigned q, std::vector<const Entry *> &entries);
  void resumeAll(bool alone);
  void halt(const Entry &entry, bool alone, bool resumes);
  void finish(bool mustBeIdle);
  void awaitFences(bool all);
  void settle();
  void checkStores(const Entry *upTo);
  void checkRegisters();
  void checkCounters();

  Random random;
  StressOptions options;
  CommandSource source;
  Hazards hazards;
  Queue queues[2];
  uint32_t semaphores[MINNOW_SEMAPHORES] = {};
  Use uses[MINNOW_SEMAPHORES] = {};
  uint32_t freeWaits[MINNOW_SEMAPHORES] =
      {}; ///< Signals of earlier rounds that a WAIT may take without asking.
  uint32_t irqStatus = 0, irqEnable = 0;
  bool fromOutside = false; ///< How this reset is done.
  bool idle = true;         ///< The last round ended with both queues known to be empty.
  bool started = false, freeze = false;
  uint32_t fenceSlot = 0, descriptorSlot = 0;
  uint64_t fenceValue;
  bool hostStores = true; ///< Commands may write host memory.

  std::vector<StressStep> steps;
  std::vector<Entry> program; ///< Of this round, in the order of evaluation.
};

} // namespace tapeback::stress
