// Performance counters (SPEC.md, section 8).
#pragma once

#include "hal/minnow/model/State.h"

namespace minnow {

enum Counter : uint32_t {
  Cycles,
  Macs,
  ArrayBusy,
  ReadBytes,
  WriteBytes,
  ReadBursts,
  WriteBursts,
  DmaBusy,
  WaitSync,
  WaitQueue,
  WaitScratchpad,
  Commands,
};

/// Adds to a running counter if counters run, modulo its width.
void count(State &state, Counter counter, uint64_t amount);

/// What `nanoseconds` in which nothing changes add to the counters of cycles.
void countTime(State &state, uint64_t nanoseconds);

/// A write of CNT_CONTROL.
void writeCounterControl(State &state, uint32_t value);

} // namespace minnow
