// What the stages of a reduction share: the best part so far, and whether another one fails in the same way.
#pragma once

#include "replayer/Waiting.h"
#include "replayer/reduce/Reduce.h"
#include <set>

namespace tapeback {

/// One reduction. The image, the endpoints and the options must outlive it. One thread. Errors: an endpoint
/// that cannot be used, and what `options.keep` says.
class Search {
public:
  Search(const TapeImage &image, const Endpoints &endpoints, const ReduceOptions &options)
      : image(image), endpoints(endpoints), options(options), trial(options.trial) {}

  /// Runs the whole tape (or what is left of it already): what fails, where, and how often. Cuts it there.
  /// Usage failure "does-not-fail".
  llvm::Error begin();
  const TapeImage &tape() const { return image; }
  const ReduceOptions &asked() const { return options; }
  const Selection &best() const { return found.selection; }
  /// True: it fails in the same way, and is the best now.
  llvm::Expected<bool> attempt(Selection selection, const char *stage);
  /// The search is to end, for whatever reason.
  bool over();
  /// Closes a stage that began when `runsBefore` runs had been made.
  void endStage(const char *stage, uint64_t runsBefore) {
    found.stages.emplace_back(stage, found.runs - runsBefore);
  }
  /// A failure that comes and goes: how often the rest does it, and the whole tape now.
  llvm::Error measureAgain();
  llvm::Expected<ReduceReport> finish();

  ReduceReport &report() { return found; }

private:
  using Identity = std::pair<uint64_t, uint64_t>;
  llvm::Expected<bool> runOnce(TapeSource &source);
  llvm::Expected<bool> isSame(TapeSource &source);
  llvm::Expected<bool> fails(const Candidate &candidate);
  llvm::Error accept(Selection selection, const Candidate &candidate);
  llvm::Error measure(const Selection &selection, MeasuredRate &rate, uint64_t enough);
  void takeFirst(const Candidate &candidate, const TrialResult &result);
  llvm::Error doesNotFail(bool many) const;
  void judgeRates();

  const TapeImage &image;
  const Endpoints &endpoints;
  const ReduceOptions &options;
  TrialOptions trial;
  ReduceReport found;
  Selection whole; ///< Where the search began.
  std::string stageNow;
  uint64_t lastPlace = 0;   ///< Where the whole tape failed, the last of such places.
  std::set<Identity> tried; ///< Candidates that do not fail in the same way.
  Identity bestIdentity;    ///< Of the candidate that the best makes.
  HostTimer timer;
};

/// Moves less, and stores zeroes, where the failure stays: as much as possible at once.
llvm::Error simplify(Search &search);

} // namespace tapeback
