// The verbs of the `tapeback` command: an explicit table, one row and one file a verb.
#pragma once

#include "llvm/ADT/ArrayRef.h"

namespace tapeback {

/// `run` gets the arguments after the verb's name and returns the exit code of the contract. It parses with
/// CommandLine, reports with Report, and neither throws nor calls exit().
struct Verb {
  const char *name;
  const char *summary; ///< One line for `tapeback --help`.
  int (*run)(llvm::ArrayRef<const char *> args);
};

/// In the order of the help text.
llvm::ArrayRef<Verb> verbs();

int runRecord(llvm::ArrayRef<const char *> args);
int runReplay(llvm::ArrayRef<const char *> args);
int runBisect(llvm::ArrayRef<const char *> args);
int runDiff(llvm::ArrayRef<const char *> args);
int runInfo(llvm::ArrayRef<const char *> args);
int runDump(llvm::ArrayRef<const char *> args);
int runTrim(llvm::ArrayRef<const char *> args);
int runTrigger(llvm::ArrayRef<const char *> args);
int runVerify(llvm::ArrayRef<const char *> args);
int runRecover(llvm::ArrayRef<const char *> args);
int runImport(llvm::ArrayRef<const char *> args);
int runTargets(llvm::ArrayRef<const char *> args);
int runDevice(llvm::ArrayRef<const char *> args);

} // namespace tapeback
