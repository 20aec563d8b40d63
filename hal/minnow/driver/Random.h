// splitmix64: numbers that a seed decides, the same on every machine.
#pragma once

#include <cstdint>

namespace tapeback::minnow {

class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In [low, high].
  int32_t between(int32_t low, int32_t high) {
    return int32_t(low + int64_t(next() % uint64_t(int64_t(high) - low + 1)));
  }

private:
  uint64_t state;
};

} // namespace tapeback::minnow
