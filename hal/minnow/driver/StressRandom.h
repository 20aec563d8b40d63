// Random numbers as the stress plan draws them.
#pragma once

#include "hal/minnow/driver/Random.h"
#include <initializer_list>

namespace tapeback::stress {

class Random : public minnow::Random {
public:
  using minnow::Random::Random;
  /// In [0, bound), 0 if that is empty; the bias of the remainder matters to nobody here.
  uint32_t below(uint32_t bound) { return bound ? uint32_t(next() % bound) : 0; }
  /// In [least, most].
  uint32_t between(uint32_t least, uint32_t most) { return least + below(most - least + 1); }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <typename T>
  T oneOf(std::initializer_list<T> values) {
    return values.begin()[below(uint32_t(values.size()))];
  }
};

} // namespace tapeback::stress
