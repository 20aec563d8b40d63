// A place that a replay has got to, from where it goes on as often as wanted: snapshots of the targets, and
// what the replay itself knew there.
#pragma once

#include "replayer/Replay.h"
#include "replayer/TargetSnapshots.h"
#include "replayer/repeat/StateImage.h"

namespace tapeback {

class ReplayRun;

/// One place of one replay. Filled by replayTape() when it gets there (ReplayOptions::checkpoint), used by
/// continueReplay(). The targets must be the same and outlive it, and so must the source. One thread. Memory:
/// the targets' snapshots, and a copy of the player and of the report.
class Checkpoint {
public:
  /// `packet`: the first that is played again.
  explicit Checkpoint(uint64_t packet) : place(packet) {}

  uint64_t packet() const { return place; }
  /// The replay got there, and snapshots were taken.
  bool taken() const { return run != nullptr; }
  /// A snapshot was to be taken and could not be; empty otherwise. The replay went on without.
  const std::string &refusal() const { return whyNot; }

  /// Called by the replay, with all it is about to issue issued: takes the snapshots, has a look at the state
  /// and puts the targets back as they were. Target failure "restore-failed" if that does not succeed.
  /// `there` and `player`: what the replay knows, of which nothing is changed any more.
  llvm::Error take(std::shared_ptr<ReplayRun> there, std::shared_ptr<Player> player);
  /// Puts the targets back. Target failure "restore-failed".
  llvm::Error restore();
  /// Puts the targets back and compares what they show with what they showed when the snapshots were taken:
  /// of use once something else was played to them. In words what differs; nothing if all is as it was.
  /// Leaves the targets anywhere.
  llvm::Expected<std::optional<std::string>> verify();

  const ReplayRun &at() const { return *run; }

private:
  uint64_t place;
  std::string whyNot;
  TargetSnapshots snapshots;
  StateImage image;
  std::shared_ptr<ReplayRun> run;
  std::shared_ptr<Player> player; ///< The run's.
};

/// Puts the targets back to a checkpoint that was taken, and replays from there to the end. The report is
/// that of the whole replay, as if all before had been played again and gone as it went. `options`: as when
/// it was taken, but for observers and progress. A restore that fails is part of the report (verdict Error,
/// targetFailure "restore-failed").
llvm::Expected<ReplayReport> continueReplay(Checkpoint &checkpoint, const ReplayOptions &options);

} // namespace tapeback
