// How sure a rate is that was counted in a few runs.
#pragma once

#include <cstdint>

namespace tapeback {

struct RateInterval {
  double rate = 0, low = 0, high = 1;
};

/// Wilson's score interval at 95 % for `hits` of `runs` independent runs (E. B. Wilson, 1927): with
/// z = 1.959964, centre (k + z²/2) / (n + z²), half width z sqrt(k (n - k) / n + z²/4) / (n + z²). Unlike the
/// usual one it says something at 0 of n and n of n, too. No runs: rate 0 in [0, 1].
RateInterval wilsonInterval(uint64_t hits, uint64_t runs);

/// Fisher's exact test, two-sided: how probable it is that two counts of one rate differ as much as these or
/// more. At 1 % or less they are called different. 1 where one of them has no runs.
double ratesDiffer(uint64_t hits, uint64_t runs, uint64_t otherHits, uint64_t otherRuns);

} // namespace tapeback
