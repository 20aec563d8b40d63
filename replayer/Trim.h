// Trim: a range of windows as a tape of its own that still replays, or the reason why there can be none.
#pragma once

#include "format/TapeWriter.h"
#include "replayer/TapeSource.h"

namespace tapeback {

struct TrimOptions {
  uint64_t firstWindow = 0, lastWindow = 0; ///< Both included.
  /// How the state at the cut may be established.
  enum class Start : uint8_t {
    Auto,     ///< By a keyframe at the cut, else by the shortest pinned prefix that begins with one or at the
              ///< start.
    Keyframe, ///< By a keyframe at the cut or not at all.
    Prefix,   ///< By everything before the range.
  } start = Start::Auto;
  WriterOptions writer;
  TapeProgress progress = {}; ///< In packets written.
};

struct TrimReport {
  TapeSummary summary;      ///< Of the new tape.
  uint64_t firstPacket = 0; ///< Of the old tape: the new one's packet 0 (prefix included).
  uint64_t prefixPackets = 0, prefixWindows = 0;
  bool keyframe = false;          ///< The new tape begins with a keyframe.
  std::string how;                ///< How the state at its start is established, for people.
  uint64_t linksCut = 0;          ///< Packets that referred to something before the start and no longer do.
  bool failureInside = false;     ///< The recorded failure lies in the range; its signature is anchored anew.
  std::vector<std::string> notes; ///< Why a better start was not possible.
};

/// Writes `out` (published by rename; nothing is left behind on failure). Usage failure "bad-range" if there
/// are no such windows, "not-trimmable" with the reason if no start can be established.
llvm::Expected<TrimReport> trimTape(TapeSource &source, llvm::StringRef out, const TrimOptions &options);

} // namespace tapeback
