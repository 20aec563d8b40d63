// Replays a tape in memory to a toy, for tests.
#pragma once

#include "doctest/doctest.h"
#include "replayer/Replay.h"
#include "tests/replayer/Mutation.h"
#include "tests/replayer/ToyProgram.h"

namespace tapeback::test {

/// Waits that fail should not cost a test a second each: the host's share is the deadline's.
inline ReplayOptions quickOptions() {
  ReplayOptions options;
  options.player.waits.maxDeadline = 5'000'000;
  options.player.waits.defaultDeadline = 5'000'000;
  options.withoutRules = rulesLeftOut();
  return options;
}

struct Replayed {
  std::unique_ptr<TapeSource> source;
  std::unique_ptr<ScriptedTarget> target;
  std::optional<ReplayReport> report;
  std::optional<Failure> failure;

  const ReplayReport &operator*() const { return *report; }
  const ReplayReport *operator->() const { return &*report; }
  Rule firstRule() const {
    return report && report->firstDivergence ? report->firstDivergence->rule : Rule::Same;
  }
};

inline Replayed replay(const MemoryTape &tape, ToyOptions toy = {},
                       const ReplayOptions &options = quickOptions()) {
  Replayed result;
  llvm::Expected<std::unique_ptr<TapeSource>> source = TapeSource::create(tape.copy());
  if (!source) {
    result.failure = toFailure(source.takeError());
    return result;
  }
  result.source = std::move(*source);
  result.target = std::make_unique<ScriptedTarget>(std::move(toy));
  Target *target = result.target.get();
  llvm::Expected<ReplayReport> report = replayTape(*result.source, target, options);
  if (report)
    result.report = std::move(*report);
  else
    result.failure = toFailure(report.takeError());
  return result;
}

/// "match: 12 exact, 1 tolerated …": for messages.
inline std::string summary(const Replayed &replayed) {
  if (replayed.failure)
    return "failure " + replayed.failure->code + ": " + replayed.failure->message + " (" +
           replayed.failure->where + ")";
  std::string text = verdictName(replayed->verdict);
  for (unsigned rule = 0; rule < ruleCount; ++rule)
    if (uint64_t count = replayed->grades.of(Rule(rule)))
      text += " " + std::to_string(count) + " " + ruleName(Rule(rule));
  if (replayed->firstDivergence)
    text += "; " + divergenceText(*replayed->firstDivergence);
  if (!replayed->stopped.empty())
    text += "; " + replayed->stopped;
  return text;
}

} // namespace tapeback::test
