// Where a reduction is, as a file from which it goes on.
#pragma once

#include "replayer/reduce/Trial.h"
#include "replayer/repeat/Interval.h"

namespace tapeback {

/// How often it failed.
struct MeasuredRate {
  uint64_t runs = 0, failures = 0;
  RateInterval interval() const { return wilsonInterval(failures, runs); }
  bool operator==(const MeasuredRate &) const = default;
};

struct ReduceState {
  Digest parent{};                    ///< Root of the tape that is reduced.
  std::vector<std::string> good, bad; ///< Targets; for a look at whether they are the same.
  FailureKind failure;
  uint64_t runs = 0, differently = 0;
  std::string stage;                ///< In which it was.
  std::optional<MeasuredRate> rate; ///< Of the whole tape, of a failure that comes and goes.
  Selection selection;
};

std::string writeState(const ReduceState &state);
/// The text is untrusted. `packets`: of the tape. Usage failure "bad-state".
llvm::Expected<ReduceState> readState(llvm::StringRef text, llvm::StringRef name, uint64_t packets);

} // namespace tapeback
