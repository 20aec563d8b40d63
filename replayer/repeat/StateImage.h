// What devices show of their state, kept to be compared with what they show another time.
#pragma once

#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

class Player;

/// Of all devices of a replay: the device's time, internal windows (where the target can be peeked), mapped
/// memory, registers (those that hold state and can be read without changing it, and the fingerprint's),
/// exact counters, and interrupts that came and were not waited for. Contents as digests.
struct StateImage {
  struct Entry {
    uint16_t device = 0;
    std::string name, value;
    bool operator==(const Entry &) const = default;
  };
  std::vector<Entry> entries; ///< In an order that depends on the player alone.
};

/// Takes interrupts and device time: who looks puts the device back by a snapshot. What a device does not
/// show is told as that. A Target failure if it cannot go on; nothing else fails.
llvm::Expected<StateImage> lookAtState(Player &player);

/// In words what of `after` is not as in `before`, the first of it; nothing if they are equal.
std::optional<std::string> stateDifference(const StateImage &before, const StateImage &after);

} // namespace tapeback
