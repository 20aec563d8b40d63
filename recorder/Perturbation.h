// What recording does to a program: runs with recording off and on in turns, compared.
#pragma once

#include "recorder/RecordSession.h"
#include <array>

namespace tapeback {

/// A figure with its 95 % interval.
struct Estimate {
  double value = 0, low = 0, high = 0;
};

struct PerturbationRun {
  bool failed = false; ///< It exited with other than 0, or was ended by a signal.
  double seconds = 0;
  uint64_t gaps = 0;              ///< Operations that had one before them in their thread.
  std::optional<double> p50, p99; ///< Of the gaps, in nanoseconds.
};

struct PerturbationPair {
  PerturbationRun off, on;
};

struct Perturbation {
  std::vector<PerturbationPair> pairs;
  Estimate timeRatio;                         ///< On over off: median of the pairs, bootstrapped.
  Estimate offFailures, onFailures;           ///< Rates, Wilson's interval.
  std::optional<Estimate> p50Ratio, p99Ratio; ///< Of the gaps, on over off; none if the program has none.
  std::optional<Estimate> p50Shift, p99Shift; ///< The same as nanoseconds more.
};

/// Runs the command of `options` once to warm up, then `pairs` times (3 to 1000) with recording off and on,
/// the first of the two by turns. Every recording goes to the options' output, the last one stays and is in
/// `last`. The time of a run is that of the program's process, for both alike. A program that cannot be run,
/// and a run ended by SIGINT or SIGTERM, is an error; a run that fails is counted.
llvm::Expected<Perturbation> measurePerturbation(const RecordOptions &options, unsigned pairs,
                                                 RecordResult &last);

/// The statistics of `pairs` into the other fields; separate for tests. Deterministic.
void estimate(Perturbation &result);

/// Gaps by bucket of ring::GapTable: the value below which `share` of them lie. None if there are none.
std::optional<double> gapPercentile(llvm::ArrayRef<uint64_t> counts, double share);

} // namespace tapeback
