// Replays that begin alike: the way to where they begin to matter is played once, and after that a snapshot
// of the targets takes its place.
#pragma once

#include "replayer/TargetSet.h"
#include "replayer/repeat/Checkpoint.h"
#include <functional>

namespace tapeback {

/// Owns the targets as long as their snapshots are of use. A snapshot is trusted only after the targets, put
/// back from the end of a first run, have shown the state that they had when it was taken. One that is not as
/// it was is told (whyNot()) and used no more; the run that it was taken in, which it may have harmed, is
/// played again. After a run that the target did not survive the next begins with fresh ones. One thread.
class KeptStart {
public:
  /// `packet`: the first that is no part of the way.
  KeptStart(TapeSource &source, uint64_t packet) : source(source), place(packet) {}

  using Open = std::function<llvm::Expected<TargetSet>()>;
  using Body = llvm::function_ref<llvm::Expected<ReplayReport>(const ReplayOptions &options)>;
  /// Calls the body with options, once, and returns what that returns. The options are the same every time,
  /// but for observers.
  using Play = std::function<llvm::Expected<ReplayReport>(Body body)>;

  /// One run. `open` makes targets, `play` has the options; each may be called twice. Errors as of
  /// replayTape().
  llvm::Expected<ReplayReport> run(const Open &open, const Play &play);

  uint64_t packet() const { return place; }
  /// Runs that began with a snapshot.
  uint64_t used() const { return useCount; }
  bool verified() const { return isVerified; }
  /// Why snapshots are not used, or no more; empty while they are.
  const std::string &whyNot() const { return reason; }

private:
  struct Kept {
    explicit Kept(uint64_t packet) : checkpoint(packet) {}
    TargetSet set;
    Checkpoint checkpoint; ///< Refers to the set.
  };
  llvm::Expected<ReplayReport> fresh(const Open &open, const Play &play);
  llvm::Expected<ReplayReport> first(const Open &open, const Play &play);
  llvm::Expected<bool> prove(const ReplayReport &report);
  void giveUp(std::string why);

  TapeSource &source;
  uint64_t place;
  std::optional<Kept> kept;
  uint64_t useCount = 0;
  bool isVerified = false;
  std::string reason;
};

} // namespace tapeback
