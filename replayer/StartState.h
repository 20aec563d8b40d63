// Where a tape begins: at a reset device, or in the middle of a run with a keyframe that says what was there.
#pragma once

#include "replayer/TapeSource.h"

namespace tapeback {

class DeviceBinding;
struct WaitLimits;

struct StartState {
  std::vector<Keyframe>
      keyframes; ///< To be restored before the first packet; empty: the tape begins at a reset.
  std::vector<uint8_t>
      resetKinds;            ///< By device: how the recording reset it (ResetKind; 0 if it did not say).
  bool lateStart = false;    ///< Recording began in the middle of the run.
  bool stateUnknown = false; ///< The state at the start could not be restored, and the user said to go on.
};

/// Reads the head of the tape. A tape that begins in the middle without a restorable keyframe is refused
/// (Usage, "not-restorable") with the reason, unless `fromReset`.
llvm::Expected<StartState> findStartState(TapeSource &source, bool fromReset);

} // namespace tapeback
