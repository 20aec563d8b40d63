#include "replayer/repeat/Interval.h"
#include <algorithm>
#include <cmath>

namespace tapeback {

RateInterval wilsonInterval(uint64_t hits, uint64_t runs) {
  if (!runs)
    return {};
  constexpr double z = 1.959963984540054; // The normal distribution's 97.5 % quantile.
  double n = double(runs), k = double(std::min(hits, runs));
  double centre = (k + z * z / 2) / (n + z * z);
  double half = z * std::sqrt(k * (n - k) / n + z * z / 4) / (n + z * z);
  // At the ends the formula is exact, but not its rounding.
  return {k / n, k == 0 ? 0 : std::max(0.0, centre - half), k == n ? 1 : std::min(1.0, centre + half)};
}

} // namespace tapeback
