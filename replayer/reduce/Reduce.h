// Reduce: the smallest part of a tape on which a bad target still parts from a good one in the same way.
#pragma once

#include "replayer/reduce/ReduceState.h"
#include <functional>

namespace tapeback {

/// A failure that comes and goes. Its rate is measured on the whole tape; then a candidate is run until a
/// sequential test tells whether it fails at least half as often, or at most a tenth as often.
struct IntermittentOptions {
  bool on = false;
  unsigned measureFailures = 10;   ///< The rate is measured until so many were seen …
  uint64_t measureRuns = 400;      ///< … or so many runs were made.
  double keeps = 0.5, loses = 0.1; ///< Of the measured rate.
  /// How often a part may be kept that loses it: they add up over a search, and each lowers the rate for
  /// good.
  double wronglyKept = 0.001;
  double wrongly = 0.05;    ///< How often a part may be given up that keeps it.
  uint64_t mostRuns = 2000; ///< Of one candidate; one that is undecided then is not taken.
};

struct ReduceOptions {
  TrialOptions trial;
  SignatureMatch wanted = SignatureMatch::SameKind; ///< From which level on a failure is the same.
  unsigned tries = 1, needed = 1; ///< Of so many runs of a candidate, so many must fail in the same way.
  IntermittentOptions intermittent;
  uint64_t maxRuns = 100'000;
  uint64_t maxSeconds = 0; ///< 0: as long as it takes.
  bool plain = false;      ///< Delta debugging as published, by packets as they are: what a peer does.
  std::optional<ReduceState> resume; ///< Goes on from there; read for this tape.
  std::function<bool()> stop;        ///< Asked between runs; true ends the search with the best so far.
  std::function<void(const char *stage, uint64_t runs, uint64_t packets)> progress;
  /// Called with the best so far, which fails in the same way, whenever there is a better one.
  std::function<llvm::Error(const ReduceState &best)> keep;
};

struct ReduceReport {
  Selection selection;
  FailureKind failure;      ///< Of the whole tape.
  Divergence first;         ///< The same, as a place on the whole tape.
  uint64_t before = 0;      ///< Packets.
  uint64_t after = 0;       ///< Of the candidate made from `selection`.
  uint64_t runs = 0;        ///< All that were made, of whatever candidate; with a resumed search's before.
  uint64_t differently = 0; ///< That failed, but in another way.
  uint64_t shortened = 0, zeroed = 0; ///< Lengths made smaller; bytes made zero.
  /// No single packet can go. Not so if stopped; with a failure that comes and goes, only as far as its tests
  /// can tell.
  bool minimal = false;
  bool certain = true; ///< What `minimal` says was seen in one run each, of a failure that comes every time.
  std::string stopped; ///< Why the search ended early; empty if it did not.
  std::vector<std::pair<std::string, uint64_t>> stages; ///< Name, runs.
  /// Intermittent: of the whole tape; at the end, of what is left and of the whole tape once more.
  std::optional<MeasuredRate> rateBefore, rateAfter, rateAgain;
  std::string drift;     ///< "rose" or "fell": the whole tape's rate, from the beginning to the end.
  bool rateLost = false; ///< What is left fails far less often than the whole tape does: not the answer.
};

/// Errors: usage "does-not-fail" if the two do not differ on the whole tape; an endpoint that cannot be used.
/// Without a good endpoint the failure is the death of the bad one, and nothing else.
llvm::Expected<ReduceReport> reduceTape(const TapeImage &image, const Endpoints &endpoints,
                                        const ReduceOptions &options);

/// Writes the selection as a tape: what the bad target answered is recorded, and a check with the good one's
/// answer stands behind the packet where they part, so that a replay on the bad target reproduces the failure
/// and one on a good target does not. A death is recorded as such. The parent's trigger marks go with their
/// packets. Runs it until it fails, at most `tries` times. Errors: as TapeWriter; "not-reproduced" if it does
/// not.
struct ReducedTape {
  TapeSummary summary;
  Signature signature;
  uint64_t marks = 0, marksLeftOut = 0; ///< Of triggers: kept, and those whose packet is gone.
};
llvm::Expected<ReducedTape> writeReduced(const TapeImage &image, const Selection &selection,
                                         const Endpoints &endpoints, const TrialOptions &options,
                                         const FailureKind &failure, unsigned tries, llvm::StringRef out);

} // namespace tapeback
