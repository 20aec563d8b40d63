#include "replayer/repeat/Checkpoint.h"
#include "format/Failure.h"

namespace tapeback {

llvm::Error Checkpoint::restore() {
  for (const Kept &kept : snapshots)
    if (llvm::Error error = kept.target->restore(kept.snapshot)) {
      Failure failure = toFailure(std::move(error));
      return failTarget("restore-failed",
                        "the target could not be put back to its snapshot: " + failure.message + " (" +
                            failure.code + ")",
                        kept.target->identity().uri, "without --range every run begins with fresh targets");
    }
  return llvm::Error::success();
}

llvm::Error Checkpoint::take(std::shared_ptr<ReplayRun> there, std::shared_ptr<Player> as) {
  llvm::Error failed = llvm::Error::success();
  for (size_t i = 0; i < as->deviceCount() && !failed; ++i) {
    Target &target = as->binding(uint16_t(i)).target();
    llvm::Expected<uint64_t> snapshot = target.snapshot();
    if (snapshot)
      snapshots.push_back({&target, *snapshot});
    else
      failed = snapshot.takeError();
  }
  if (!failed) {
    llvm::Expected<StateImage> seen = lookAtState(*as);
    if (seen)
      image = std::move(*seen);
    else
      failed = seen.takeError();
    if (llvm::Error error = restore())
      return llvm::joinErrors(std::move(error), std::move(failed));
  }
  if (!failed) {
    run = std::move(there);
    player = std::move(as);
    return llvm::Error::success();
  }
  whyNot = "a snapshot could not be taken: " + toFailure(std::move(failed)).message;
  llvm::Error released = llvm::Error::success();
  for (const Kept &kept : snapshots)
    released = llvm::joinErrors(std::move(released), kept.target->releaseSnapshot(kept.snapshot));
  snapshots.clear();
  if (released) // It costs the target memory; the replay is as good without.
    whyNot += "; nor given back: " + toFailure(std::move(released)).message;
  return llvm::Error::success();
}

llvm::Expected<std::optional<std::string>> Checkpoint::verify() {
  if (llvm::Error error = restore())
    return error;
  llvm::Expected<StateImage> seen = lookAtState(*player);
  if (!seen)
    return seen.takeError();
  return stateDifference(image, *seen);
}

} // namespace tapeback
