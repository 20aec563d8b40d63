// The two clocks of the benchmarks: the counter that is the floor of a stamp, and real time.
#pragma once

#include <cstdint>
#include <ctime>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tapeback::bench {

inline uint64_t nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
}

/// The time-stamp counter, where there is one; its ticks are only compared with each other.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return nanoseconds();
#endif
}

} // namespace tapeback::bench
