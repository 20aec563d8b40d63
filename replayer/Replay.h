// Replay: a tape is issued again to one target per device, and every packet is graded against what was
// recorded.
#pragma once

#include "replayer/Divergence.h"
#include "replayer/Grade.h"
#include "replayer/Player.h"
#include "replayer/PolicyCounts.h"
#include "replayer/RangeTrace.h"
#include "replayer/ReplayObserver.h"
#include <functional>

namespace tapeback {

enum class Verdict : uint8_t { Match, Divergence, Incomplete, Error };
const char *verdictName(Verdict verdict); ///< As in the contract's JSON.

/// What the first packet that was issued found.
enum class ReplayStart : uint8_t { Reset, Keyframe, Prefix, Snapshot };
constexpr unsigned replayStartCount = 4;
const char *replayStartName(ReplayStart start); ///< "reset", "keyframe", "prefix", "snapshot".

class Checkpoint;

struct ReplayOptions {
  PlayerOptions player;
  bool stopAtDivergence = false;     ///< Nothing is issued after the first packet that differs.
  bool fromReset = false;            ///< Play a tape whose start cannot be restored on a reset device.
  std::optional<uint64_t> endPacket; ///< Stop before this packet.
  bool lanes = false;                ///< Overlapping operations keep their threads' order only.
  StretchLimits stretch;             ///< How much of the tape is decoded at a time.
  unsigned maxTimeouts = 8;          ///< Waits that fail before the replay gives up.
  unsigned maxTargetErrors = 16;     ///< Refused accesses before it gives up.
  uint64_t maxUselessWait = 600'000'000'000; ///< Host time spent in waits that did not end well, together.
  size_t keptDivergences = 16;
  std::optional<TraceRange> trace; ///< Of the first device whose target has traces; none: Usage "no-traces".
  bool keepDigests = false;        ///< ReplayReport::windowDigests.
  RuleSet withoutRules;            ///< Left out of the grading: only for tests of tests.
  bool countByRegister = false;    ///< ReplayReport::policies.
  SignatureMatch wantedMatch = SignatureMatch::SamePlace; ///< From which level on a failure is the same.
  std::function<void(uint64_t packetsDone)> progress;
  std::vector<ReplayObserver *> observers; ///< Not owned; called in this order.
  /// Not owned; taken when the replay gets there. Not with traces, lanes or paced packets.
  Checkpoint *checkpoint = nullptr;
};

/// How the program behind a device's target fared.
struct DeviceMachine {
  uint16_t device = 0;
  MachineReport machine;
};

struct ReplayReport {
  Verdict verdict = Verdict::Match;
  ReplayStart start = ReplayStart::Reset;
  uint64_t packets = 0;                      ///< In the range that was to be replayed.
  uint64_t packetsReplayed = 0;              ///< Reached and graded.
  uint64_t windows = 0, windowsDiverged = 0; ///< Entered; with at least one packet that differs.
  GradeCounts grades;
  std::optional<Divergence> firstDivergence;
  std::vector<Divergence> divergences;  ///< The first few, in order; the first is firstDivergence.
  std::string stopped;                  ///< Why the replay ended early; empty if it did not.
  std::optional<Failure> targetFailure; ///< The first that the tape does not expect.
  bool targetDead = false;              ///< The target cannot go on, nor be put back to a snapshot.

  uint64_t lossesCrossed = 0; ///< Loss packets after which something was compared.
  bool stateUnknown = false;  ///< Played from reset although the tape begins elsewhere.
  std::vector<std::vector<IdentityDifference>> identity; ///< By device.
  std::vector<FingerprintDifference> fingerprint;
  uint64_t fingerprintsCompared = 0;

  std::vector<RelocationReport> relocation; ///< By device.
  PacingReport pacing;
  LanesReport lanes;
  std::vector<DeviceMachine> machines; ///< Of the devices whose target is a program started for it.

  bool traced = false; ///< The waveform that was asked for is written.

  std::optional<Signature> signature; ///< Of the first failure in this replay.
  std::optional<bool> reproduced;     ///< Nothing if the tape records no failure or it cannot be told.
  SignatureMatch signatureMatch = SignatureMatch::None;

  std::vector<PolicyCount> policies; ///< By device, then registers in the description's order, then kinds.

  Digest recordedDigest{}, replayedDigest{};
  std::vector<std::pair<Digest, Digest>> windowDigests; ///< Recorded and replayed, by window.
};

/// Replays the tape. Errors: bad usage, a bad tape, a target that cannot be brought to the start. A target
/// that fails later is part of the report (verdict Error, targetFailure).
llvm::Expected<ReplayReport> replayTape(TapeSource &source, llvm::ArrayRef<Target *> targets,
                                        const ReplayOptions &options);

/// What the user expects of a replay.
enum class Expectation : uint8_t { Match, Signature, Divergence };
/// The contract's exit code: 0 as expected, 1 not, 4 the target failed, 5 it cannot be told.
int exitCodeFor(const ReplayReport &report, Expectation expectation);

/// One thing that a replay would do to a target.
struct PlannedWrite {
  uint64_t packet = 0;
  uint16_t device = 0;
  PacketKind kind = PacketKind::RegisterWrite;
  std::string space, reg;
  uint64_t address = 0, value = 0, length = 0;
  bool forbidden = false;
  std::string forbiddenBy; ///< The register or range whose name would allow it.
};
/// Calls `each` for every write, reset and mapping in [0, endPacket), without any target. Stops early if it
/// returns false.
llvm::Error planWrites(TapeSource &source, const ReplayOptions &options,
                       llvm::function_ref<bool(const PlannedWrite &)> each);

/// Usage failure that names the packet if the tape writes what the description forbids. Reads the
/// tape only if a description forbids anything.
llvm::Error refuseForbiddenWrites(TapeSource &source, const ReplayOptions &options);

} // namespace tapeback
