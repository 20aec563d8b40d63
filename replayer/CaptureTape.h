// A capture as a tape of its own: exactly the packets asked for, behind the state at their start, or behind
// the packets that establish it. Offline from a tape, live from a flight history: the same code.
#pragma once

#include "format/TapeWriter.h"
#include "replayer/TapeSource.h"

namespace tapeback {

struct CaptureRequest {
  uint64_t first = 0, last = 0; ///< Both included.
  uint64_t point = 0;           ///< The trigger point, in between.
  std::string text;             ///< What is written beside it.
  std::string shortness;        ///< Behind that: what it has less than was asked; empty if nothing.
  std::string derivation; ///< What the tape says it is: which packets, and whether they are fewer than asked.
  /// Which of the packets from `first` on are wanted; null: all. Runs of others become a Loss.
  const std::vector<bool> *kept = nullptr;
  uint64_t maxPrefix = ~uint64_t(0); ///< Packets that may be put in front to establish the state.
  WriterOptions writer;
};

struct CaptureTape {
  TapeSummary summary;
  uint64_t packets = 0;   ///< Of the asked range.
  uint64_t dropped = 0;   ///< Not wanted.
  uint64_t prefix = 0;    ///< Packets in front that establish the state.
  bool restorable = true; ///< It can be replayed: otherwise `how` says why not.
  std::string how;        ///< How the state at its start is established.
};

/// Writes `out` (published by rename; nothing is left behind on failure). The range's packets follow, in this
/// order: a keyframe (or those of the source's start), a Loss of everything before, and, flagged Prefix, the
/// packets from there. If no start can be established, it begins at `first` with keyframes that cannot be
/// restored, and a replay refuses it with the reason. Links that lead out of it are cut.
llvm::Expected<CaptureTape> writeCaptureTape(TapeSource &source, llvm::StringRef out,
                                             const CaptureRequest &request);

} // namespace tapeback
