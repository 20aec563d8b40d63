// Whether a candidate still fails often enough, decided in as few runs as that takes.
#pragma once

#include <cstdint>

namespace tapeback {

/// Wald's sequential probability ratio test of a rate (A. Wald, 1945): H1 "at least `high`" against H0 "at
/// most `low`", both kinds of error at most `wrongly`. After k failures in n runs the logarithm of the ratio
/// is k ln(high / low) + (n - k) ln((1 - high) / (1 - low)); H1 is taken from ln((1 - wrongly) / wrongly) on,
/// H0 below its negative.
class SequentialTest {
public:
  enum class Answer : uint8_t { Open, High, Low };

  /// `wronglyHigh`: how often High may be wrong, if that is to be another than `wrongly`; its bound then is
  /// ln((1 - wrongly) / wronglyHigh).
  /// 0 < low < high < 1, 0 < wrongly < 0.5. Rates at the ends are moved inside.
  SequentialTest(double low, double high, double wrongly, double wronglyHigh = 0);

  /// One more run.
  Answer add(bool failed);
  Answer answer() const;
  uint64_t runs() const { return runCount; }

private:
  double perFailure, perPass, bound, boundHigh, ratio = 0;
  uint64_t runCount = 0;
};

} // namespace tapeback
