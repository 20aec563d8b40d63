// Flight mode, triggers and captures of `tapeback record`: what the options mean, and what the report says.
#pragma once

#include "recorder/RecordSession.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/JSON.h"

namespace tapeback {

struct LiveCommandOptions {
  llvm::cl::opt<std::string> flight{
      "flight",
      llvm::cl::desc("Keep only the last so much, in memory: 1000000p (packets), 64MiB, 10s, 20w (windows); "
                     "captures become tapes, nothing else does"),
      llvm::cl::value_desc("AMOUNT")};
  llvm::cl::opt<std::string> memory{
      "flight-memory",
      llvm::cl::desc(
          "Memory for packets and contents of the history (default: 256MiB, or what --flight says)"),
      llvm::cl::value_desc("BYTES"), llvm::cl::init("256MiB")};
  llvm::cl::opt<std::string> atEnd{
      "at-end", llvm::cl::desc("Flight mode: when the history at the end becomes FILE (default: failure)"),
      llvm::cl::value_desc("failure|always|never"), llvm::cl::init("failure")};
  llvm::cl::list<std::string> triggers{
      "trigger", llvm::cl::desc("Trigger file (`tapeback trigger --help`); repeat, or separate by commas"),
      llvm::cl::value_desc("FILE.trig"), llvm::cl::CommaSeparated};
  llvm::cl::list<std::string> captureAt{
      "capture-at", llvm::cl::desc("Capture the history where the condition is met; repeat"),
      llvm::cl::value_desc("CONDITION")};
  llvm::cl::opt<std::string> post{"post", llvm::cl::desc("How much behind --capture-at (default: 0p)"),
                                  llvm::cl::value_desc("AMOUNT"), llvm::cl::init("0p")};
  llvm::cl::opt<bool> allowExec{"allow-exec", llvm::cl::desc("Trigger files may run commands")};
  llvm::cl::opt<std::string> eventDirectory{
      "event-directory",
      llvm::cl::desc("Where recordings find each other for `raise` (default: the user's runtime directory)"),
      llvm::cl::value_desc("DIR")};
};

/// "1000000p", "20w", "64MiB", "10s", "5ms". Usage failure if it is none of these.
llvm::Expected<triggers::CaptureAmount> parseAmount(llvm::StringRef text, llvm::StringRef option);

/// Reads trigger files. `output` is that of the recording; captures are named after it.
llvm::Expected<LiveOptions> toLiveOptions(const LiveCommandOptions &given, llvm::StringRef output,
                                          bool force);

void writeLive(llvm::json::OStream &os, const LiveResult &result);
void writeLive(llvm::raw_ostream &os, const LiveResult &result, const LiveOptions &options,
               llvm::StringRef output, bool runFailed);
int liveExit(const LiveResult &result);

} // namespace tapeback
