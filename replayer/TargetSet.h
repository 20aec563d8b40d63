// The targets of one run: one per device of the tape, named on the command line.
#pragma once

#include "hal/Target.h"
#include "replayer/TapeSource.h"

namespace tapeback {

/// What a device's target is called. From "URI", or "ALIAS=URI" where ALIAS is how the tape's program opened
/// it. "qtest:" without arguments, or nothing at all, is the machine that the tape's device was imported
/// with. With several devices either all arguments name one, or they are taken in the tape's order. Usage
/// failure if a device has none, two, or an alias is unknown.
llvm::Expected<std::vector<std::string>>
resolveTargets(const TapeSource &source, llvm::ArrayRef<std::string> arguments, llvm::StringRef option);

/// Owns opened targets.
struct TargetSet {
  std::vector<std::unique_ptr<Target>> owned;
  std::vector<Target *> targets;
};
llvm::Expected<TargetSet> openTargets(llvm::ArrayRef<std::string> uris);

} // namespace tapeback
