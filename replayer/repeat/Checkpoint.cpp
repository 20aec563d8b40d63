#include "replayer/repeat/Checkpoint.h"
#include "format/Failure.h"

namespace tapeback {

llvm::Error Checkpoint::restore() {
  return snapshots.restore("without --range every run begins with fresh targets");
}

llvm::Error Checkpoint::take(std::shared_ptr<ReplayRun> there, std::shared_ptr<Player> as) {
  llvm::Error failed = llvm::Error::success();
  for (size_t i = 0; i < as->deviceCount() && !failed; ++i)
    failed = snapshots.take(as->binding(uint16_t(i)).target());
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
  if (llvm::Error released =
          snapshots.release()) // It costs the target memory; the replay is as good without.
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
