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

double ratesDiffer(uint64_t hits, uint64_t runs, uint64_t otherHits, uint64_t otherRuns) {
  hits = std::min(hits, runs);
  otherHits = std::min(otherHits, otherRuns);
  if (!runs || !otherRuns)
    return 1;
  uint64_t together = hits + otherHits;
  // Of all ways to share the hits among the runs: how many fall to the first. From one count to the next the
  // probability changes by a ratio; those no more probable than what was seen are added up.
  uint64_t least = together > otherRuns ? together - otherRuns : 0, most = std::min(together, runs);
  auto step = [&](uint64_t k) { // log P(k + 1) / P(k)
    return std::log(double(together - k)) + std::log(double(runs - k)) - std::log(double(k + 1)) -
           std::log(double(otherRuns - together + k + 1));
  };
  double seen = 0, at = 0, highest = 0;
  for (uint64_t k = least; k <= most; ++k) {
    if (k == hits)
      seen = at;
    highest = std::max(highest, at);
    if (k < most)
      at += step(k);
  }
  double all = 0, extreme = 0;
  at = 0;
  for (uint64_t k = least; k <= most; ++k) {
    double p = std::exp(at - highest);
    all += p;
    if (at <= seen + 1e-9)
      extreme += p;
    if (k < most)
      at += step(k);
  }
  return extreme / all;
}

} // namespace tapeback
