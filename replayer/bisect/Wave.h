// A waveform of one window of a tape, and of nothing else.
#pragma once

#include "replayer/bisect/Lockstep.h"

namespace tapeback {

struct WaveReport {
  bool written = false;
  std::string file;
  const char *side = "bad"; ///< Which endpoint it shows: "bad", or "good" if the bad one has none.
  uint64_t window = 0, firstPacket = 0, endPacket = 0;
  std::string reason; ///< Why there is none.
};

/// Plays the tape to the window's beginning on a fresh endpoint, and the window with the target's trace
/// switched on. `device` is the one looked at. Errors are those of playing; an endpoint without traces is a
/// reason, not an error.
llvm::Expected<WaveReport> writeWave(TapeSource &source, const Endpoints &endpoints, const StartState &start,
                                     const PlayerOptions &options, uint16_t device, uint64_t window,
                                     llvm::StringRef file);

} // namespace tapeback
