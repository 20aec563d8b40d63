// The same replay many times: how often the recorded failure comes back, what else comes, and in which order.
#pragma once

#include "replayer/Replay.h"
#include "replayer/repeat/Interval.h"
#include <functional>
#include <map>
#include <set>

namespace tapeback {

/// What became of one run.
enum class RunOutcome : uint8_t {
  ReproducedExact,     ///< The recorded failure, the signatures equal.
  ReproducedSamePlace, ///< The recorded failure at the same place.
  ReproducedSameKind,  ///< A failure of the same kind elsewhere.
  OtherFailure,        ///< Another failure, or a divergence from the tape without the recorded failure.
  Passed,              ///< No failure; of a tape that records none: a match.
  TargetError,         ///< The target failed in a way that the tape does not expect.
  Excluded,            ///< Says nothing about the failure; the reason is given.
};
constexpr unsigned runOutcomeCount = 7;
const char *runOutcomeName(RunOutcome outcome); ///< "reproduced-exact", …
/// One letter, for outcomes in a row: E P K o . ! x
char runOutcomeLetter(RunOutcome outcome);

struct RepeatedRun {
  RunOutcome outcome = RunOutcome::Excluded;
  std::string reason; ///< Excluded, target error: why.
  Verdict verdict = Verdict::Error;
  std::optional<Divergence> first;
  std::optional<Signature> signature;
  std::optional<ReplayStart> start; ///< Nothing: it did not get so far as to begin.
  uint64_t hostTime = 0;            ///< Nanoseconds.
};

/// What a run says about the failure. `tapeFails`: the tape records one that a replay can show again. A run
/// before which a reset left state behind says nothing: its fingerprint differs from what the description
/// states, in a register that is none of `identities` (those differ for other reasons).
RepeatedRun classifyRun(const ReplayReport &report, bool tapeFails,
                        const std::set<std::string> &identities = {});
/// Registers of class identity of all the tape's devices.
std::set<std::string> identityRegisters(const TapeSource &source);

struct RepeatOptions {
  unsigned runs = 1;
  /// From which level on a run counts as reproduced.
  SignatureMatch wantedMatch = SignatureMatch::SamePlace;
  std::set<std::string> identities; ///< identityRegisters() of the tape.
  unsigned maxExcludedInRow = 16;   ///< Then the lab is broken, and the repetition stops.
  std::function<void(unsigned done)> progress;
};

struct RepeatReport {
  bool tapeFails = false;
  std::vector<RepeatedRun> runs; ///< In their order.
  std::array<uint64_t, runOutcomeCount> counts{};
  std::map<std::string, uint64_t> excluded; ///< By reason.
  /// Reproduced at the wanted level (of a tape without failure: diverged) of those not excluded.
  uint64_t hits = 0, counted = 0;
  RateInterval interval;
  struct Place {
    std::string text;
    uint64_t packet = 0, count = 0;
  };
  std::vector<Place> histogram; ///< Of first divergences, most frequent first; at most 1000 places.
  uint64_t otherPlaces = 0;     ///< Runs whose place is not among them.
  uint64_t firstHalfHits = 0, firstHalfCounted = 0; ///< For drift: the same of the first half of the runs.
  std::string stopped;                              ///< Why there are fewer runs than asked for.

  std::string order() const; ///< A letter for each run.
};

/// Carries out the runs. `run` makes one, from 0, with targets of its own. Its failures of class Target
/// exclude the run; others end the repetition.
llvm::Expected<RepeatReport>
repeatReplay(const Outcome &recorded, const RepeatOptions &options,
             const std::function<llvm::Expected<ReplayReport>(unsigned number)> &run);

/// 0: as expected: `match` of all that count, `signature` or `divergence` in at least one. Otherwise 4 if the
/// target failed in one, 1, or 5 if no run counts.
int exitCodeFor(const RepeatReport &report, Expectation expectation);

} // namespace tapeback
