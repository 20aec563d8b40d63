#include "replayer/repeat/KeptStart.h"
#include "format/Failure.h"

namespace tapeback {

void KeptStart::giveUp(std::string why) {
  reason = std::move(why);
  kept.reset();
}

llvm::Expected<ReplayReport> KeptStart::fresh(const Open &open, const Play &play) {
  llvm::Expected<TargetSet> set = open();
  if (!set)
    return set.takeError();
  return play([&](const ReplayOptions &options) { return replayTape(source, set->targets, options); });
}

static bool isRestoreFailure(const ReplayReport &report) {
  return report.targetFailure && report.targetFailure->code == "restore-failed";
}

/// Whether the run that the snapshot was taken in may stand.
llvm::Expected<bool> KeptStart::prove(const ReplayReport &report) {
  if (!kept->checkpoint.taken()) {
    giveUp(kept->checkpoint.refusal().empty() ? "the replay ended before the range"
                                              : kept->checkpoint.refusal());
    return true; // Nothing was done to the target, or it was put back by what then counts as a failure.
  }
  if (report.targetDead) {
    if (isVerified) {
      kept.reset(); // The next run takes another.
      return true;
    }
    giveUp("the target did not survive the run in which the snapshot was taken");
    return false;
  }
  if (isVerified)
    return true;
  llvm::Expected<std::optional<std::string>> different = kept->checkpoint.verify();
  if (!different)
    return different.takeError();
  if (*different) {
    giveUp("put back to its snapshot, the target is not as it was: " + **different);
    return false;
  }
  isVerified = true;
  return true;
}

llvm::Expected<ReplayReport> KeptStart::first(const Open &open, const Play &play) {
  llvm::Expected<TargetSet> set = open();
  if (!set)
    return set.takeError();
  for (Target *target : set->targets)
    if (!target->capabilities().snapshots) {
      reason = "the target has no snapshots";
      return play([&](const ReplayOptions &options) { return replayTape(source, set->targets, options); });
    }
  kept.emplace(place);
  kept->set = std::move(*set);
  llvm::Expected<ReplayReport> report = play([&](ReplayOptions options) {
    options.checkpoint = &kept->checkpoint;
    return replayTape(source, kept->set.targets, options);
  });
  if (!report) {
    kept.reset();
    return report;
  }
  if (isRestoreFailure(*report)) {
    giveUp(report->targetFailure->message);
    return report;
  }
  llvm::Expected<bool> stands = prove(*report);
  if (!stands) {
    Failure failure = toFailure(stands.takeError());
    if (failure.cls != FailureClass::Target)
      return llvm::make_error<Failure>(std::move(failure));
    giveUp(failure.message);
    report->verdict = Verdict::Error;
    report->signature.reset();
    report->targetFailure = std::move(failure);
    return report;
  }
  return *stands ? std::move(report) : fresh(open, play);
}

llvm::Expected<ReplayReport> KeptStart::run(const Open &open, const Play &play) {
  if (!reason.empty())
    return fresh(open, play);
  if (!kept)
    return first(open, play);
  llvm::Expected<ReplayReport> report =
      play([&](const ReplayOptions &options) { return continueReplay(kept->checkpoint, options); });
  if (report && isRestoreFailure(*report)) {
    giveUp(report->targetFailure->message);
    return report;
  }
  useCount += bool(report);
  if (!report || report->targetDead)
    kept.reset();
  return report;
}

} // namespace tapeback
