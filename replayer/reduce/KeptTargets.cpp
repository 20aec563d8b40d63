#include "replayer/reduce/KeptTargets.h"

namespace tapeback {

void KeptTargets::giveUp(std::string why) {
  reason = std::move(why);
  kept.reset();
}

llvm::Expected<TargetSet> KeptTargets::fresh() {
  ++openCount;
  return open();
}

TargetSet KeptTargets::borrowed() const {
  TargetSet set;
  set.targets = kept->set.targets;
  return set;
}

/// Disturbs them.
llvm::Expected<StateImage> KeptTargets::look() {
  llvm::Expected<std::unique_ptr<Player>> player = Player::create(source, kept->set.targets, options);
  if (!player)
    return player.takeError();
  return lookAtState(**player);
}

llvm::Error KeptTargets::take(Kept &taken) {
  for (Target *target : taken.set.targets)
    if (llvm::Error error = taken.snapshots.take(*target))
      return error;
  if (verified)
    return llvm::Error::success();
  llvm::Expected<StateImage> image = look();
  if (!image)
    return image.takeError();
  taken.image = std::move(*image);
  return kept->snapshots.restoreEach();
}

/// True: they are as new. False: they are gone, or not to be trusted; `reason` says which.
llvm::Expected<bool> KeptTargets::putBack() {
  llvm::Error error = kept->snapshots.restoreEach();
  if (!error && !verified) {
    llvm::Expected<StateImage> image = look();
    if (image) {
      if (std::optional<std::string> different = stateDifference(kept->image, *image)) {
        giveUp("put back to its snapshot, the target is not as it was: " + *different);
        return false;
      }
      verified = true;
      error = kept->snapshots.restoreEach();
    } else {
      error = image.takeError();
    }
  }
  if (!error)
    return true;
  Failure failure = toFailure(std::move(error));
  if (failure.cls == FailureClass::System)
    return llvm::make_error<Failure>(std::move(failure));
  // A target that the last candidate killed is opened again; one that lives and cannot be put back is not
  // to be relied on.
  if (failure.code == "target-died" || failure.code == "target-hung")
    kept.reset();
  else
    giveUp(failure.message);
  return false;
}

llvm::Expected<TargetSet> KeptTargets::lend() {
  if (kept) {
    llvm::Expected<bool> asNew = putBack();
    if (!asNew)
      return asNew.takeError();
    if (*asNew) {
      ++restoreCount;
      return borrowed();
    }
  }
  llvm::Expected<TargetSet> set = fresh();
  if (!set || !reason.empty())
    return set;
  for (Target *target : set->targets)
    if (!target->capabilities().snapshots) {
      reason = "the target has no snapshots";
      return set;
    }
  kept.emplace();
  kept->set = std::move(*set);
  if (llvm::Error error = take(*kept)) {
    // Whatever was done to them, the run gets others.
    giveUp(toFailure(std::move(error)).message);
    return fresh();
  }
  return borrowed();
}

} // namespace tapeback
