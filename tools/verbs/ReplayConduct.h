// Options and reports of how a replay is conducted: where memory is, when packets are issued, in what order.
#pragma once

#include "replayer/Replay.h"
#include "tools/Verb.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/JSON.h"

namespace tapeback {

/// Registers its options while it exists; made once per run of the verb.
class ConductOptions {
public:
  ConductOptions();
  /// Usage failure "bad-option".
  llvm::Error apply(ReplayOptions &options) const;

private:
  llvm::cl::opt<std::string> relocate, timing;
  llvm::cl::opt<bool> lanes;
};

void writeConduct(llvm::json::OStream &os, const ReplayReport &result);
void printConduct(llvm::raw_ostream &os, const ReplayReport &result);

} // namespace tapeback
