// Two Minnows carry out the same stress plan, step by step, and are compared with each other and with the
// plan.
#pragma once

#include "hal/Target.h"
#include "hal/minnow/driver/Stress.h"
#include <optional>
#include <string>

namespace tapeback::test {

struct LockstepOptions {
  std::string first = "rtl:minnow", second = "model:minnow";
  stress::StressOptions plan; ///< `arena` is chosen here.
  bool verbose = false;       ///< Print every step.
  /// For tests: in the second round a bit of host memory is turned over on this side (0, 1), or on both (2).
  std::optional<unsigned> plant;
};

struct LockstepOutcome {
  std::string difference; ///< Empty: none. Otherwise the first one, in words.
  uint64_t commands = 0, rounds = 0, steps = 0, comparisons = 0;
};

/// What is compared: every register read, memory and fences that are checked, the deadlines of polls and
/// interrupts, and whenever nothing is going on, all of scratchpad, arena and exact counters.
LockstepOutcome runLockstep(const LockstepOptions &options);
/// Registers written and read at random, while no command runs.
LockstepOutcome runRegisters(const std::string &first, const std::string &second, uint64_t seed,
                             unsigned accesses);

/// URIs for a seed: latencies, jitters and their seeds all vary.
std::string rtlFor(uint64_t seed);
std::string modelFor(uint64_t seed);

} // namespace tapeback::test
