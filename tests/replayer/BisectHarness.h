// Bisects tapes in memory between two toys, for tests.
#pragma once

#include "replayer/bisect/Bisect.h"
#include "tests/replayer/ReplayHarness.h"

namespace tapeback::test {

struct Bisected {
  std::unique_ptr<TapeSource> source;
  std::optional<BisectReport> report;
  std::optional<Failure> failure;
  const BisectReport *operator->() const { return &*report; }
};

inline TargetSet toyTargets(std::unique_ptr<Target> target) {
  TargetSet set;
  set.owned.push_back(std::move(target));
  set.targets.push_back(set.owned.back().get());
  return set;
}

inline EndpointFactory endpoint(const ToyOptions &options, std::shared_ptr<unsigned> made = nullptr) {
  return [options, made]() -> llvm::Expected<TargetSet> {
    ToyOptions present = options;
    if (made && options.faults.activeOnlyOnOddRuns && (*made)++ % 2 == 0)
      present.faults = {};
    return toyTargets(std::make_unique<ScriptedTarget>(present));
  };
}

inline BisectOptions quickBisect(bool deep) {
  BisectOptions options;
  options.player = quickOptions().player;
  options.probe.waits = options.player.waits;
  options.deep = deep;
  return options;
}

inline Bisected bisect(const MemoryTape &tape, const Endpoints &endpoints, const BisectOptions &options) {
  Bisected result;
  result.source = llvm::cantFail(TapeSource::create(tape.copy()));
  llvm::Expected<BisectReport> report = bisectTape(*result.source, endpoints, options);
  if (report)
    result.report = std::move(*report);
  else
    result.failure = toFailure(report.takeError());
  return result;
}

inline Bisected bisect(const MemoryTape &tape, const ToyOptions &good, const ToyOptions &bad, bool deep) {
  return bisect(tape, {endpoint(good), endpoint(bad)}, quickBisect(deep));
}

inline std::string summary(const Bisected &bisected) {
  if (bisected.failure)
    return "failure " + bisected.failure->code + ": " + bisected.failure->message;
  std::string text = std::string(verdictName(bisected->verdict)) + " " + bisected->method;
  if (bisected->first)
    text += "; " + divergenceText(*bisected->first, "good", "bad");
  if (bisected->observed)
    text += "; observed " + divergenceText(*bisected->observed, "good", "bad");
  for (const std::string &note : bisected->notes)
    text += "; note: " + note;
  return text;
}

/// A transfer of the workload in the wanted direction, or none.
inline std::optional<size_t> pickDma(const ToyWorkload &work, std::mt19937_64 &random, bool toDevice) {
  std::vector<size_t> candidates;
  for (size_t i = 0; i < work.dmas.size(); ++i)
    if (work.dmaToDevice[i] == toDevice)
      candidates.push_back(i);
  if (candidates.empty())
    return std::nullopt;
  return candidates[random() % candidates.size()];
}

} // namespace tapeback::test
