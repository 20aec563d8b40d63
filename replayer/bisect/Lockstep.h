// Two players fed the same packets; what came of each packet is compared between them, and with the tape.
#pragma once

#include "replayer/Divergence.h"
#include "replayer/Player.h"
#include "replayer/TargetSet.h"
#include "replayer/TargetSnapshots.h"
#include "replayer/WindowDigest.h"
#include <functional>

namespace tapeback {

/// Opens one endpoint afresh: a new target for each device of the tape.
using EndpointFactory = std::function<llvm::Expected<TargetSet>()>;

struct Endpoints {
  EndpointFactory good, bad;
};

/// One side of a lockstep run.
struct LockstepSide {
  TargetSet targets;
  std::unique_ptr<Player> player;
  ObservationLog log;
  WindowDigest chain;
  std::vector<Digest> digests;    ///< By window, those that are complete.
  std::optional<Failure> failure; ///< Of the target, unexpected.
};

/// Where two sides were, with snapshots of all their targets. Of one Lockstep, while that lives.
struct LockstepPlace {
  uint64_t packet = 0; ///< The next to be issued there.
  /// What they knew; null if the place is only gone back to before anything else is issued.
  std::shared_ptr<const Player> good, bad;
  TargetSnapshots snapshots;
};

/// A pair of targets at the same packet. One thread; owns the targets, refers to the source. Errors are the
/// tape's, ours, or an endpoint's that cannot be brought to the start; failures of the targets later on are
/// observations.
class Lockstep {
public:
  struct Options {
    PlayerOptions player;
    bool compare = true;             ///< Compare the sides; otherwise only issue (the way to a probe).
    bool withTape = true;            ///< Compare the good side with the tape too.
    uint64_t *issuedToBad = nullptr; ///< Counts packets, if given.
    /// The source is a part of a tape: what its packet 0 is there, in whose numbers places are told.
    uint64_t firstPacket = 0;
  };
  static llvm::Expected<std::unique_ptr<Lockstep>>
  start(TapeSource &source, const Endpoints &endpoints, const StartState &startState, const Options &options);

  /// Issues up to, not including, `end`. Stops behind the first packet at which the sides differ, or at which
  /// one of them stopped.
  llvm::Error runTo(uint64_t end);
  uint64_t position() const { return next + options.firstPacket; }

  /// The sides differ at packet position() - 1.
  const std::optional<Divergence> &divergence() const { return found; }
  /// The first packet at which the good side is not what the tape recorded.
  const std::optional<Divergence> &goodAgainstTape() const { return foundAgainstTape; }
  bool stopped() const { return found || good.player->stopped() || bad.player->stopped(); }

  /// Goes on with the good side alone, to see whether it matches the tape to the end.
  llvm::Error finishGood();

  /// All targets of both sides can take `most` snapshots each; in words what hinders it otherwise.
  std::optional<std::string> whyNoSnapshots(unsigned most) const;
  /// Takes snapshots of both sides. `issued`: other packets may be issued before it is gone back. Failures
  /// are the targets', of whatever class; nothing is kept then.
  llvm::Expected<LockstepPlace> keep(bool issued);
  /// Puts both sides back, as often as wanted. If the place is one to issue other packets from: those are
  /// compared between the sides if wished, never with the tape, and have no digests. Target failure
  /// "restore-failed".
  llvm::Error goBack(const LockstepPlace &place, bool compare = false);
  llvm::Error forget(LockstepPlace &place);

  LockstepSide good, bad;
  uint64_t windowsCompared = 0; ///< Whole windows.
  uint64_t notCompared = 0;     ///< Packets that could not be compared, for want of answers.

private:
  Lockstep(TapeSource &source, const Options &options)
      : source(source), options(options), cursor(source.reader()) {}
  llvm::Error issueBoth(size_t begin, size_t end, size_t *issued);
  llvm::Error judge(size_t index, const Observation &goodSeen, const Observation &badSeen);
  llvm::Error judgeAgainstTape(size_t index, const Observation &goodSeen);
  llvm::Error judgeRestOfGood(size_t begin, size_t first);
  llvm::Error load(uint64_t ordinal);
  void windowsEndBefore(uint64_t ordinal);

  TapeSource &source;
  Options options;
  WindowCursor cursor;
  PacketBatch batch;
  uint64_t next = 0;
  uint64_t goodNext =
      0; ///< The good side may have been issued packets beyond the one at which the sides part.
  bool inWindow = false;
  std::optional<Divergence> found, foundAgainstTape;
};

} // namespace tapeback
