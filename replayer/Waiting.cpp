#include "replayer/Waiting.h"
#include <algorithm>

namespace tapeback {

llvm::Expected<WaitResult> waitForCondition(Target &target,
                                            llvm::function_ref<llvm::Expected<uint64_t>()> read,
                                            uint64_t mask, uint64_t expected, uint64_t deadline,
                                            const WaitLimits &limits) {
  constexpr uint64_t shortestStep = 1'000, longestStep = 10'000'000, hostShare = 1'000'000'000;
  deadline = std::min(deadline, limits.maxDeadline);
  HostTimer host;
  WaitResult result;
  for (uint64_t passed = 0;;) {
    llvm::Expected<uint64_t> value = read();
    if (!value)
      return value.takeError();
    result.value = *value;
    ++result.reads;
    if ((*value & mask) == expected) {
      result.met = true;
      return result;
    }
    uint64_t hostPassed = host.elapsed();
    if ((passed >= deadline && hostPassed >= std::min(deadline, hostShare)) ||
        hostPassed >= limits.maxHostTime)
      return result;
    uint64_t step = std::clamp(passed / 8, shortestStep, longestStep);
    if (llvm::Error error = target.advance(step))
      return error;
    passed += step;
  }
}

} // namespace tapeback
