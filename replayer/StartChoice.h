// Where a tape of a range may begin so that it still replays: shared by trim and captures.
#pragma once

#include "replayer/History.h"

namespace tapeback {

struct ChosenStart {
  uint64_t packet = 0, window = 0;
  std::vector<std::unique_ptr<History>> histories; ///< What each device had been told before `packet`.
  bool withKeyframe = false;
};

/// Whether a tape of packets [from, end) can begin at a window (which must not lie behind `from`) with
/// keyframes: all devices restorable there, and nothing in the range depends on what a keyframe does not
/// restore. Fills `chosen` if so; otherwise `why` says why not.
llvm::Expected<bool> tryKeyframe(TapeSource &source, uint64_t window, uint64_t from, uint64_t end,
                                 ChosenStart &chosen, std::string &why);

/// Windows before `firstWindow` at whose start all devices are restorable, nearest first, not too far back.
llvm::Expected<std::vector<uint64_t>> restorableWindows(TapeSource &source, uint64_t firstWindow);

/// The first packet of [first, last) at which packets are missing.
llvm::Expected<std::optional<uint64_t>> findLoss(TapeSource &source, uint64_t first, uint64_t last);

/// The recorded outcome as it concerns packets [from, end) of a tape that begins at `start`; its packet
/// counts from there. A signature's marker keeps its name and the commands since it, but is counted from the
/// new start; if it lies before the start, commands count from there. `inside`: the failure is in the range.
llvm::Expected<Outcome> outcomeOfRange(TapeSource &source, uint64_t start, uint64_t from, uint64_t end,
                                       bool &inside);

} // namespace tapeback
