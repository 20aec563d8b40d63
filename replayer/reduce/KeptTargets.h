// Targets that are used for one candidate after another: put back to a snapshot of when they were new.
#pragma once

#include "replayer/Player.h"
#include "replayer/TargetSnapshots.h"
#include "replayer/bisect/Lockstep.h"
#include "replayer/repeat/StateImage.h"

namespace tapeback {

/// One endpoint. Owns the targets while their snapshots are of use. A snapshot is trusted once the targets,
/// put back from the end of a first run, showed the state that they had when it was taken; otherwise, and
/// where a target has none, every run gets fresh ones, and whyNot() says so. One thread; what lend() gave is
/// not used any more when it is called again.
class KeptTargets {
public:
  /// The source: the whole tape, of whose devices they are.
  KeptTargets(TapeSource &source, PlayerOptions options, EndpointFactory open)
      : source(source), options(std::move(options)), open(std::move(open)) {}

  /// As the factory: an error if they cannot be opened.
  llvm::Expected<TargetSet> lend();
  EndpointFactory factory() {
    return [this] { return lend(); };
  }

  uint64_t opened() const { return openCount; }
  uint64_t restored() const { return restoreCount; }
  const std::string &whyNot() const { return reason; } ///< Empty while snapshots are used.

private:
  struct Kept {
    TargetSet set;
    TargetSnapshots snapshots;
    StateImage image;
  };
  llvm::Expected<TargetSet> fresh();
  llvm::Error take(Kept &taken);
  llvm::Expected<StateImage> look();
  llvm::Expected<bool> putBack();
  TargetSet borrowed() const;
  void giveUp(std::string why);

  TapeSource &source;
  PlayerOptions options;
  EndpointFactory open;
  std::optional<Kept> kept;
  bool verified = false;
  uint64_t openCount = 0, restoreCount = 0;
  std::string reason;
};

} // namespace tapeback
