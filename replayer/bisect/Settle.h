// Between windows that end with commands outstanding, two devices are rarely at the same place. They are once
// both have done all that they were told: on endpoints that are thrown away afterwards, that can be waited
// for.
#pragma once

#include "replayer/bisect/Lockstep.h"

namespace tapeback {

/// What became of two sides that were given time.
struct Settled {
  bool comparable = false; ///< Every device with queues is idle by its description, on both sides.
  bool waited = false;     ///< For that it had to be given time, which the recorded host did not.
  /// One side has done everything and the other has not: the register that says so. A difference in itself.
  struct Unequal {
    uint16_t device = 0;
    unsigned reg = 0;
    uint64_t mask = 0, good = 0, bad = 0;
  };
  std::optional<Unequal> unequal;
};

/// Lets both sides work until they are idle. Sides that stay busy both (a queue waits for the other, a halt)
/// may be anywhere: not comparable. Disturbs; bounded in the targets' time and ours.
llvm::Expected<Settled> settle(Lockstep &run);

/// Packets of [from, to) that hand over entries of a queue.
llvm::Expected<std::vector<uint64_t>> doorbellsIn(TapeSource &source, uint64_t from, uint64_t to);

} // namespace tapeback
