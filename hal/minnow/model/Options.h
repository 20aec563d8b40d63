// Options of the model: its timing. None changes a result of a program that is ordered as the manual asks.
#pragma once

#include "hal/model/tapeback_model.h"
#include <cstddef>
#include <cstdint>

namespace minnow {

struct Options {
  uint64_t accessTime = 100;   ///< access-time: nanoseconds of device time per register access.
  uint64_t memoryLatency = 40; ///< memory-latency: core cycles until host memory answers.
  uint64_t jitter = 0;         ///< jitter: a seed; every step takes up to 31 cycles more. 0: none.
};

/// False: something is wrong, which `error` (`size` bytes) says in one sentence.
bool parseOptions(const tapeback_model_option *given, uint32_t count, Options &options, char *error,
                  size_t size);

} // namespace minnow
