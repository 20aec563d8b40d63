// What came of one packet: on the tape, or when it was issued again. Two of them are compared, whichever they
// are.
#pragma once

#include "format/Failure.h"
#include "format/Packet.h"
#include "replayer/Grade.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace tapeback {

struct Observation {
  enum class State : uint8_t {
    NotIssued, ///< Nothing to compare; `rule` says why.
    Done,
    Failed,   ///< The target refused or failed.
    TimedOut, ///< The condition or interrupt did not come.
  } state = State::Done;
  Rule rule = Rule::Same;  ///< NotIssued: why. Done: InterruptCause where a cause stood in for an interrupt.
  bool holds = true;       ///< Oracle: the check holds.
  bool recomputed = false; ///< Oracle: redone with the values of this run, not taken from the tape.
  bool truncated = false;  ///< The content is only the beginning.
  uint32_t failure = 0;    ///< Failed (and order violations): 1-based index into ObservationLog::failures.
  uint32_t wait = 0;       ///< TimedOut: 1-based index into ObservationLog::waits; 0: not kept.
  /// Value read (as the recording would have it: addresses and live values that were replaced are the
  /// recorded ones), last value of a poll, count of an interrupt; oracle: the actual value or the first wrong
  /// byte.
  uint64_t value = 0;
  /// Oracle over memory: what the first wrong byte should be. The end of a loop of reads (PollFound): bits
  /// that changed while it lasted.
  uint64_t expected = 0;
  uint64_t contentOffset = 0; ///< In ObservationLog::content; oracle over memory: of the first wrong byte.
  uint64_t contentLength = 0;
};

/// What was waited for in vain.
struct VainWait {
  uint64_t mask = 0, expected = 0;
  uint64_t deadline = 0; ///< Nanoseconds.
};

/// Observations of packets that follow each other. Reused: clear() keeps the storage.
struct ObservationLog {
  std::vector<Observation> observations;
  std::vector<uint8_t> content;
  std::vector<Failure> failures;
  std::vector<VainWait> waits;

  void clear() {
    observations.clear();
    content.clear();
    failures.clear();
    waits.clear();
  }
  llvm::ArrayRef<uint8_t> contentOf(const Observation &o) const {
    if (!o.contentLength || o.contentLength > content.size() ||
        o.contentOffset > content.size() - o.contentLength)
      return {};
    return llvm::ArrayRef<uint8_t>(content).slice(o.contentOffset, o.contentLength);
  }
};

/// The first eight bytes (or as many as there are) as a number.
inline uint64_t littleEndian(llvm::ArrayRef<uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size() && i < 8; ++i)
    value |= uint64_t(bytes[i]) << (8 * i);
  return value;
}

/// What the tape says came of the packet. Its content is the caller's to fetch.
Observation recordedObservation(const Packet &packet, const PacketExtra &extra);

/// The packet's kind brings content of memory with it when it is re-issued (MemoryRead, Acquire,
/// CommandDone, DmaCompletion from the device).
bool bringsContent(const Packet &packet);

} // namespace tapeback
