// The reports of `tapeback bisect`.
#pragma once

#include "replayer/bisect/Bisect.h"
#include "tools/Report.h"

namespace tapeback {

/// What the user said, as far as reports repeat it.
struct BisectWords {
  std::string tape;
  std::string command;        ///< What makes one probe, up to and without the place.
  std::optional<uint64_t> at; ///< One probe was asked for: the states before this packet.

  /// The command that makes the probe once more.
  std::string commandAt(uint64_t packet) const {
    return command + " --at p" + std::to_string(packet ? packet - 1 : 0);
  }
};

void writeBisect(Report &report, const BisectReport &result, TapeSource &source, const BisectWords &words);
void printBisect(const BisectReport &result, const BisectWords &words);
/// `--plan`, as text or JSON.
void reportPlan(Report &report, const BisectPlan &plan, TapeSource &source, llvm::StringRef tape);

} // namespace tapeback
