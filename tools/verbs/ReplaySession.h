// What is around a replay: which targets, the lab's commands, a second target, a prompt, a part of the tape,
// many runs. The replay itself is the library's.
#pragma once

#include "replayer/TargetSet.h"
#include "replayer/lab/HookRun.h"
#include "replayer/lab/PostMortem.h"
#include "replayer/prompt/Prompt.h"
#include "replayer/repeat/KeptStart.h"
#include "replayer/repeat/Repeat.h"
#include "tools/Report.h"
#include "llvm/Support/CommandLine.h"

namespace tapeback {

/// Registers its options while it exists; made once per run of the verb.
class SessionOptions {
public:
  SessionOptions();

  llvm::cl::opt<std::string> range;
  llvm::cl::list<std::string> shadow;
  llvm::cl::opt<unsigned> repeat;
  llvm::cl::opt<bool> prompt;
  llvm::cl::opt<std::string> lab;
  llvm::cl::opt<bool> allowExec;

  /// Usage failures: values and combinations that make no sense.
  llvm::Error check(bool wave) const;
};

/// A part of a tape as a tape of its own, and how its numbers go with the whole one's.
struct TapePart {
  std::unique_ptr<TapeSource> source;
  uint64_t firstPacket = 0, firstWindow = 0; ///< Of the whole tape: what the part's first are there.
  uint64_t prefixPackets = 0;
  std::string how; ///< How the state at its start is established.
};
/// Cuts the windows of `range` out of the tape (as `trim` does), into memory's place on disk: nothing is left
/// behind. `texts`: descriptions that replace the tape's.
llvm::Expected<TapePart> cutPart(TapeSource &whole, llvm::StringRef range, llvm::ArrayRef<std::string> texts);
/// Puts the whole tape's numbers into the report's places.
void renumber(ReplayReport &report, const TapePart &part);

/// Everything that one or more replays of a tape share.
struct ReplaySession {
  ReplaySession(TapeSource &source, std::string tape, const LabFile *lab)
      : source(source), tape(std::move(tape)), lab(lab) {}

  TapeSource &source;
  std::string tape;
  std::vector<std::string> targets, shadows; ///< URIs by device; "{run}" stands for the run's number.
  const LabFile *lab;
  std::vector<ForbiddenRange> forbidden; ///< Of the lab, those that the user has not named.
  bool prompt = false, askAtDivergence = false;
  std::optional<uint64_t> promptAt;
  bool json = false;                  ///< Standard output is taken: the prompt speaks on standard error.
  std::optional<KeptStart> keptStart; ///< --repeat with --range; whyNoSnapshot() says when not.

  // What came of the last run.
  std::vector<HookResult> hooks;
  std::vector<PostMortemValue> postMortem;
  std::optional<uint64_t> postMortemPacket;
  std::optional<ShadowReport> shadow;

  /// One replay, with fresh targets or from the kept start.
  llvm::Expected<ReplayReport> run(const ReplayOptions &options, unsigned number);
  /// What of these options means that every run must begin with fresh targets; empty: nothing.
  std::string whyNoSnapshot(const ReplayOptions &options) const;

private:
  llvm::Expected<ReplayReport> play(ReplayOptions options, unsigned number, KeptStart::Body body);
};

/// "model:edu?seed={run}" of run 3 is "model:edu?seed=3".
std::string targetOfRun(llvm::StringRef uri, unsigned number);

void writeSession(llvm::json::OStream &os, const ReplaySession &session, const ReplayReport &report);
void printSession(llvm::raw_ostream &os, const ReplaySession &session, const ReplayReport &report);
void writeHooks(llvm::json::OStream &os, llvm::ArrayRef<HookResult> hooks);

/// `--repeat`: all of it, with its report. `part`: what is played, if it is not all of the tape. Returns the
/// exit code.
int replayRepeatedly(Report &report, ReplaySession &session, const ReplayOptions &options,
                     Expectation expectation, unsigned runs, const TapePart *part);

/// `--dry-run`: what a replay would do, and whether it would be refused.
int replayDryRun(Report &report, TapeSource &source, const ReplayOptions &options, const LabFile *lab,
                 llvm::ArrayRef<std::string> allowed);

} // namespace tapeback
