// Runs one hook of the lab: a command, for a bounded time, its output kept.
#pragma once

#include "replayer/lab/LabFile.h"
#include <map>

namespace tapeback {

struct HookResult {
  std::string name;
  std::vector<std::string> command;
  int exit = -1;  ///< -1: it did not exit by itself.
  int signal = 0; ///< That ended it.
  bool timedOut = false;
  uint64_t hostTime = 0; ///< Nanoseconds.
  std::string output;    ///< Standard output and error together; the last 64 KiB.
  bool outputCut = false;
  bool ok() const { return exit == 0; }
  std::string fate() const; ///< "exited with 3", "killed by signal 9", "took longer than 30 s".
};

/// Runs it without a shell, in a process group of its own, standard input empty, with `variables` added to
/// the environment. What is left of the group is killed if it takes too long. System failure if it cannot be
/// started; a command that fails is a result.
llvm::Expected<HookResult> runHook(const Hook &hook, const std::map<std::string, std::string> &variables);

/// Runs them in order and adds what came of each to `results`. Target failure "hook-failed" at the first that
/// does not exit with 0.
llvm::Error runHooks(llvm::ArrayRef<const Hook *> hooks, const std::map<std::string, std::string> &variables,
                     std::vector<HookResult> &results);

} // namespace tapeback
