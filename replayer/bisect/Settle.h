// Between windows that end with commands outstanding, two devices are rarely at the same place. They are once
// both have done all that they were told: on endpoints that are thrown away afterwards, that can be waited
// for.
#pragma once

#include "replayer/bisect/Lockstep.h"

namespace tapeback {

/// Lets both sides work until every device with queues is idle by its description; true if they are. Sides
/// that stay busy (a queue waits for the other, a halt) may be anywhere: false. Disturbs; bounded in the
/// targets' time and ours.
llvm::Expected<bool> settle(Lockstep &run);

/// Packets of [from, to) that hand over entries of a queue.
llvm::Expected<std::vector<uint64_t>> doorbellsIn(TapeSource &source, uint64_t from, uint64_t to);

} // namespace tapeback
