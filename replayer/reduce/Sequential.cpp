#include "replayer/reduce/Sequential.h"
#include <algorithm>
#include <cmath>

namespace tapeback {

SequentialTest::SequentialTest(double low, double high, double wrongly, double wronglyHigh) {
  constexpr double edge = 1e-6;
  high = std::clamp(high, 2 * edge, 1 - edge);
  low = std::clamp(low, edge, high / 2);
  wrongly = std::clamp(wrongly, edge, 0.5 - edge);
  perFailure = std::log(high / low);
  perPass = std::log((1 - high) / (1 - low));
  bound = std::log((1 - wrongly) / wrongly);
  boundHigh = wronglyHigh > 0 ? std::log((1 - wrongly) / std::clamp(wronglyHigh, edge, 0.5 - edge)) : bound;
}

SequentialTest::Answer SequentialTest::add(bool failed) {
  ++runCount;
  ratio += failed ? perFailure : perPass;
  return answer();
}

SequentialTest::Answer SequentialTest::answer() const {
  return ratio >= boundHigh ? Answer::High : ratio <= -bound ? Answer::Low : Answer::Open;
}

} // namespace tapeback
