// Options of rtl:minnow: how slow and how regular memory is, and what the device does wrong.
#pragma once

#include "hal/model/tapeback_model.h"
#include <cstdint>
#include <string>

namespace tapeback::minnow {

struct RtlOptions {
  uint32_t latency = 8; ///< Cycles from a burst's request to its answer.
  uint32_t jitter = 0;  ///< At most as many more, drawn for each burst.
  uint64_t seed = 1;    ///< Of the drawing.
  uint8_t errata = 0;   ///< By bit, as in MinnowTypes.sv.
};

/// Limits: a burst must be over well within the 1,000 cycles that a reset may take.
constexpr uint32_t maxLatency = 256, maxJitter = 256;

/// The names of errata, in the order of their bits; ERRATA.md describes them.
constexpr const char *erratumNames[] = {
    "dma-4k-last-beat", "requant-wrap",   "fence-overtake", "stale-scratchpad",
    "counter-stall",    "wrap-full-hang", "chain-prefetch", "reset-head",
};

/// False: an option is unknown or has a bad value, which `error` says with a list of what there is.
bool parseRtlOptions(const tapeback_model_option *given, uint32_t count, RtlOptions &options,
                     std::string &error);

} // namespace tapeback::minnow
