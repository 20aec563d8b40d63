// What the collector takes out of the ring for register accesses: slots, and what ran at the same time.
#pragma once

#include "recorder/ring/RingFormat.h"

namespace tapeback::ring {

/// A slot copied out of the lane. `issue` and `complete` are nanoseconds once it was given out.
struct SlotCopy {
  uint64_t issue, complete;
  uint64_t address, value;
  uint32_t payloadBytes;
  uint16_t slots, device, space, thread;
  RecordType type;
  uint8_t kind, width, flags;
  uint8_t completion, origin, hints, reserved;
  SlotState state;
  uint64_t spare;
};
static_assert(sizeof(SlotCopy) == sizeof(Slot) && offsetof(SlotCopy, thread) == offsetof(Slot, thread) &&
              offsetof(SlotCopy, hints) == offsetof(Slot, hints) &&
              offsetof(SlotCopy, state) == offsetof(Slot, state));

/// When operations of other lanes ran, as far as is known: those that completed did so until `until`, the
/// next began at `from`. Whatever begins later and ends earlier overlaps none.
struct Others {
  uint64_t until = 0, from = ~uint64_t(0);
  bool overlap(uint64_t issue, uint64_t complete) const {
    return (until && issue <= until) || complete >= from;
  }
};

} // namespace tapeback::ring
