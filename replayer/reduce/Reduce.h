// Reduce: the smallest part of a tape on which a bad target still parts from a good one in the same way.
#pragma once

#include "replayer/reduce/Trial.h"
#include <functional>

namespace tapeback {

struct ReduceOptions {
  TrialOptions trial;
  SignatureMatch wanted = SignatureMatch::SameKind; ///< From which level on a failure is the same.
  unsigned tries = 1, needed = 1; ///< Of so many runs of a candidate, so many must fail in the same way.
  uint64_t maxRuns = 100'000;
  uint64_t maxSeconds = 0;    ///< 0: as long as it takes.
  bool plain = false;         ///< Delta debugging by packets alone: what a peer does, for comparison.
  std::function<bool()> stop; ///< Asked between runs; true ends the search with the best so far.
  std::function<void(const char *stage, uint64_t runs, uint64_t packets)> progress;
  /// Called now and then with the best so far, which fails in the same way.
  std::function<llvm::Error(const Selection &best)> keep;
};

struct ReduceReport {
  Selection selection;
  FailureKind failure;      ///< Of the whole tape.
  Divergence first;         ///< The same, as a place on the whole tape.
  uint64_t before = 0;      ///< Packets.
  uint64_t after = 0;       ///< Of the candidate made from `selection`.
  uint64_t runs = 0;        ///< Candidates tried, times `tries` where they were.
  uint64_t differently = 0; ///< That failed, but in another way.
  bool minimal = false;     ///< No single packet can go. Not so if stopped, or with tries above 1.
  std::string stopped;      ///< Why the search ended early; empty if it did not.
  std::vector<std::pair<std::string, uint64_t>> stages; ///< Name, runs.
};

/// Errors: usage "does-not-fail" if the two do not differ on the whole tape; an endpoint that cannot be used.
llvm::Expected<ReduceReport> reduceTape(const TapeImage &image, const Endpoints &endpoints,
                                        const ReduceOptions &options);

/// Writes the selection as a tape: what the bad target answered is recorded, and a check with the good one's
/// answer stands behind the packet where they part, so that a replay on the bad target reproduces the failure
/// and one on a good target does not. Errors: as TapeWriter; "not-reproduced" if they no longer part.
struct ReducedTape {
  TapeSummary summary;
  Signature signature;
};
llvm::Expected<ReducedTape> writeReduced(const TapeImage &image, const Selection &selection,
                                         const Endpoints &endpoints, const TrialOptions &options,
                                         llvm::StringRef out);

} // namespace tapeback
