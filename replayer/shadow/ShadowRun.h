// A second target beside the one that is replayed to: told the same, packet for packet, and compared with it
// at every window. What a golden model says while the silicon runs.
#pragma once

#include "replayer/Replay.h"
#include "replayer/TargetSet.h"
#include "replayer/bisect/StateProbe.h"

namespace tapeback {

struct ShadowOptions {
  PlayerOptions player;
  ProbeOptions probe;
  size_t keptDifferences = 16;
};

/// "expected" is the target's, "actual" the shadow's.
struct ShadowReport {
  std::vector<Divergence> answers; ///< Packets that they answered otherwise; the first few.
  uint64_t answersCompared = 0, answersDiffer = 0;
  uint64_t windows = 0;        ///< Whole windows that both were told.
  uint64_t windowsDiffer = 0;  ///< In an answer or in the state at the end.
  uint64_t statesCompared = 0; ///< Windows at whose end memory and registers were.
  uint64_t notQuiescent = 0;   ///< Windows at whose end the devices were at work: memory is theirs.
  uint64_t memoryBytes = 0;    ///< Mapped, at the last comparison.
  uint64_t notComparable = 0;  ///< Packets: one of them does not answer.
  /// The first window at whose end the states differ, and where. Later ones are counted.
  struct State {
    uint64_t window = 0, packet = 0; ///< The packet behind the window.
    StateDifference difference;
  };
  std::optional<State> state;
  uint64_t statesDiffer = 0;
  ProbeCoverage coverage;
  std::optional<Failure> failure; ///< The shadow failed where the tape's device did not, and plays no longer.
  bool stopped = false;           ///< Not to the end: see `failure`, or the shadow could not go on.

  bool differs() const { return answersDiffer || statesDiffer; }
};

/// Drives the second target. Owns nothing but its player; refers to all it is given. What becomes of the
/// shadow does not end the replay.
class ShadowRun : public ReplayObserver {
public:
  ShadowRun(TapeSource &source, llvm::ArrayRef<Target *> targets, const ShadowOptions &options)
      : source(source), targets(targets), options(options), cursor(source.reader()),
        probe(source, options.probe, report.coverage) {}

  llvm::Error started(Player &player, const StartState &start) override;
  size_t edge(const PacketBatch &batch, size_t begin, size_t end) override;
  llvm::Error issued(const PacketBatch &batch, size_t begin, size_t count, const ObservationLog &log,
                     Player &player) override;

  const ShadowReport &result() const { return report; }
  /// Null before started(), and once it plays no longer.
  Player *player() { return report.stopped ? nullptr : shadow.get(); }

private:
  llvm::Error issueSame(const PacketBatch &batch, size_t begin, size_t count);
  void noteWindowsNotSeen(Player &player);
  llvm::Expected<bool> atRest(Player &player, const Packet &last);
  llvm::Error endWindow(Player &player, const Packet &last);
  llvm::Error giveUp(llvm::Error error);

  TapeSource &source;
  llvm::ArrayRef<Target *> targets;
  ShadowOptions options;
  ShadowReport report;
  WindowCursor cursor;
  StateProbe probe;
  std::unique_ptr<Player> shadow;
  ObservationLog shadowLog;
  std::vector<std::unique_ptr<History>> histories;
  bool windowDiffers = false;
};

} // namespace tapeback
