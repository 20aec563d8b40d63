// Waiting for a condition, bounded twice: by the tape's deadline and by ours.
#pragma once

#include "hal/Target.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <chrono>

namespace tapeback {

/// All times in nanoseconds.
struct WaitLimits {
  /// Deadlines on the tape are cut to this (a hostile one may say centuries).
  uint64_t maxDeadline = 60'000'000'000;
  /// Where the tape has none: restores, probes, hand-made poll loops.
  uint64_t defaultDeadline = 1'000'000'000;
  /// Of host time, for one wait, whatever the target's clock says.
  uint64_t maxHostTime = 60'000'000'000;
};

struct WaitResult {
  bool met = false;
  uint64_t value = 0; ///< Last one read.
  uint64_t reads = 0;
};

/// Reads until (value & mask) == expected. Lets time pass on the target in between: in steps of an eighth of
/// what has passed, 1 us to 10 ms. Gives up when `deadline` has passed on the target's clock *and* the host's
/// (at most 1 s of the latter: some devices work in host time while their clock jumps), which is the rule
/// that the recording side follows too. One read is always made.
llvm::Expected<WaitResult> waitForCondition(Target &target,
                                            llvm::function_ref<llvm::Expected<uint64_t>()> read,
                                            uint64_t mask, uint64_t expected, uint64_t deadline,
                                            const WaitLimits &limits);

/// Nanoseconds of host time since construction.
class HostTimer {
public:
  uint64_t elapsed() const {
    return uint64_t(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
            .count());
  }

private:
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

} // namespace tapeback
