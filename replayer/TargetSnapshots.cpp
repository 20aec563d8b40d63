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

llvm::Error TargetSnapshots::restore(llvm::StringRef hint) const {
  for (const auto &[target, snapshot] : taken)
    if (llvm::Error error = target->restore(snapshot)) {
      Failure failure = toFailure(std::move(error));
      return failTarget("restore-failed",
                        "the target could not be put back to its snapshot: " + failure.message + " (" +
                            failure.code + ")",
                        target->identity().uri, hint.str());
    }
  return llvm::Error::success();
}

llvm::Error TargetSnapshots::release() {
  llvm::Error failed = llvm::Error::success();
  for (const auto &[target, snapshot] : taken)
    failed = llvm::joinErrors(std::move(failed), target->releaseSnapshot(snapshot));
  taken.clear();
  return failed;
}

} // namespace tapeback
