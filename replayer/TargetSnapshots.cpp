#include "replayer/TargetSnapshots.h"
#include "format/Failure.h"

namespace tapeback {

llvm::Error TargetSnapshots::take(Target &target) {
  llvm::Expected<uint64_t> snapshot = target.snapshot();
  if (!snapshot)
    return snapshot.takeError();
  taken.emplace_back(&target, *snapshot);
  return llvm::Error::success();
}

/// `failed`: the target.
static llvm::Error restoreAll(llvm::ArrayRef<std::pair<Target *, uint64_t>> taken, Target *&failed) {
  for (const auto &[target, snapshot] : taken)
    if (llvm::Error error = target->restore(snapshot)) {
      failed = target;
      return error;
    }
  return llvm::Error::success();
}

llvm::Error TargetSnapshots::restoreEach() const {
  Target *failed = nullptr;
  return restoreAll(taken, failed);
}

llvm::Error TargetSnapshots::restore(llvm::StringRef hint) const {
  Target *failed = nullptr;
  llvm::Error error = restoreAll(taken, failed);
  if (!error)
    return error;
  Failure failure = toFailure(std::move(error));
  return failTarget("restore-failed",
                    "the target could not be put back to its snapshot: " + failure.message + " (" +
                        failure.code + ")",
                    failed->identity().uri, hint.str());
}

llvm::Error TargetSnapshots::release() {
  llvm::Error failed = llvm::Error::success();
  for (const auto &[target, snapshot] : taken)
    failed = llvm::joinErrors(std::move(failed), target->releaseSnapshot(snapshot));
  taken.clear();
  return failed;
}

} // namespace tapeback
