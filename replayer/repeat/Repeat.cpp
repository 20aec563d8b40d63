#include "replayer/repeat/Repeat.h"
#include "replayer/Waiting.h"
#include <algorithm>

namespace tapeback {

const char *runOutcomeName(RunOutcome outcome) {
  switch (outcome) {
  case RunOutcome::ReproducedExact: return "reproduced-exact";
  case RunOutcome::ReproducedSamePlace: return "reproduced-same-place";
  case RunOutcome::ReproducedSameKind: return "reproduced-same-kind";
  case RunOutcome::OtherFailure: return "other-failure";
  case RunOutcome::Passed: return "passed";
  case RunOutcome::TargetError: return "target-error";
  case RunOutcome::Excluded: return "excluded";
  }
  return "excluded";
}

char runOutcomeLetter(RunOutcome outcome) {
  constexpr char letters[runOutcomeCount + 1] = "EPKo.!x";
  return letters[unsigned(outcome) < runOutcomeCount ? unsigned(outcome) : unsigned(RunOutcome::Excluded)];
}

std::set<std::string> identityRegisters(const TapeSource &source) {
  std::set<std::string> names;
  for (size_t device = 0; device < source.deviceCount(); ++device)
    if (const Description *description = source.description(uint16_t(device)))
      for (const RegisterDescription &reg : description->registers)
        if (reg.cls == RegisterClass::Identity)
          names.insert(reg.name);
  return names;
}

/// A register that should read as after a reset and does not: what came before shines through.
static const FingerprintDifference *leftBehind(const ReplayReport &report,
                                               const std::set<std::string> &identities) {
  for (const FingerprintDifference &difference : report.fingerprint)
    if (!difference.fromTape && !difference.packet && !identities.count(difference.reg))
      return &difference;
  return nullptr;
}

RepeatedRun classifyRun(const ReplayReport &report, bool tapeFails, const std::set<std::string> &identities) {
  RepeatedRun run;
  run.verdict = report.verdict;
  run.start = report.start;
  run.first = report.firstDivergence;
  run.signature = report.signature;
  auto as = [&](RunOutcome outcome, std::string reason = {}) {
    run.outcome = outcome;
    run.reason = std::move(reason);
    return run;
  };
  if (const FingerprintDifference *difference = leftBehind(report, identities))
    return as(RunOutcome::Excluded, "the reset left state behind in " + difference->reg);
  if (tapeFails && report.signature)
    switch (report.signatureMatch) {
    case SignatureMatch::Exact: return as(RunOutcome::ReproducedExact);
    case SignatureMatch::SamePlace: return as(RunOutcome::ReproducedSamePlace);
    case SignatureMatch::SameKind: return as(RunOutcome::ReproducedSameKind);
    case SignatureMatch::None: break;
    }
  if (report.verdict == Verdict::Error)
    return as(RunOutcome::TargetError, report.targetFailure ? report.targetFailure->code : "target-error");
  if (report.signature)
    return as(RunOutcome::OtherFailure);
  // A failure that does not come back leaves differences where its traces were: that is a run that passed.
  if (tapeFails && report.reproduced == false)
    return as(RunOutcome::Passed);
  if (report.verdict == Verdict::Divergence)
    return as(RunOutcome::OtherFailure);
  if (report.verdict == Verdict::Match && !tapeFails)
    return as(RunOutcome::Passed);
  return as(RunOutcome::Excluded, !report.stopped.empty() ? "it ended early: " + report.stopped
                                  : report.lossesCrossed  ? "packets are missing from the tape"
                                                          : "something could not be compared");
}

std::string RepeatReport::order() const {
  std::string text;
  for (const RepeatedRun &run : runs)
    text += runOutcomeLetter(run.outcome);
  return text;
}

static bool isHit(const RepeatedRun &run, bool tapeFails, SignatureMatch wanted) {
  switch (run.outcome) {
  case RunOutcome::ReproducedExact: return true;
  case RunOutcome::ReproducedSamePlace: return wanted <= SignatureMatch::SamePlace;
  case RunOutcome::ReproducedSameKind: return wanted <= SignatureMatch::SameKind;
  case RunOutcome::OtherFailure: return !tapeFails;
  default: return false;
  }
}

static void sumUp(RepeatReport &report, const RepeatOptions &options) {
  constexpr size_t mostPlaces = 1000;
  std::map<std::pair<uint64_t, std::string>, uint64_t> places;
  for (size_t i = 0; i < report.runs.size(); ++i) {
    const RepeatedRun &run = report.runs[i];
    ++report.counts[unsigned(run.outcome)];
    if (run.outcome == RunOutcome::Excluded) {
      ++report.excluded[run.reason];
      continue;
    }
    bool hit = isHit(run, report.tapeFails, options.wantedMatch), early = i < report.runs.size() / 2;
    report.hits += hit;
    ++report.counted;
    report.firstHalfHits += hit && early;
    report.firstHalfCounted += early;
    if (!run.first)
      continue;
    std::string text = "window " + std::to_string(run.first->place.window) + ", packet " +
                       std::to_string(run.first->place.packet) + " (" + run.first->kind +
                       (run.first->space.empty() ? "" : " " + run.first->space) +
                       (run.first->reg.empty() ? "" : " " + run.first->reg) +
                       "): " + ruleName(run.first->rule);
    if (places.size() < mostPlaces || places.count({run.first->place.packet, text}))
      ++places[{run.first->place.packet, text}];
    else
      ++report.otherPlaces;
  }
  for (const auto &[key, count] : places)
    report.histogram.push_back({key.second, key.first, count});
  std::stable_sort(report.histogram.begin(), report.histogram.end(),
                   [](const RepeatReport::Place &left, const RepeatReport::Place &right) {
                     return left.count > right.count;
                   });
  report.interval = wilsonInterval(report.hits, report.counted);
}

llvm::Expected<RepeatReport>
repeatReplay(const Outcome &recorded, const RepeatOptions &options,
             const std::function<llvm::Expected<ReplayReport>(unsigned number)> &run) {
  RepeatReport report;
  report.tapeFails = recorded.kind == Outcome::Kind::Failed && recorded.signature.has_value();
  unsigned excludedInRow = 0;
  for (unsigned number = 0; number < options.runs; ++number) {
    HostTimer timer;
    llvm::Expected<ReplayReport> result = run(number);
    RepeatedRun done;
    if (result) {
      done = classifyRun(*result, report.tapeFails, options.identities);
    } else {
      Failure failure = toFailure(result.takeError());
      if (failure.cls != FailureClass::Target)
        return llvm::make_error<Failure>(std::move(failure));
      done.reason = failure.code + ": " + failure.message;
    }
    done.hostTime = timer.elapsed();
    excludedInRow = done.outcome == RunOutcome::Excluded ? excludedInRow + 1 : 0;
    report.runs.push_back(std::move(done));
    if (options.progress)
      options.progress(number + 1);
    if (excludedInRow >= options.maxExcludedInRow && number + 1 < options.runs) {
      report.stopped = std::to_string(excludedInRow) + " runs in a row had to be excluded";
      break;
    }
  }
  sumUp(report, options);
  return report;
}

int exitCodeFor(const RepeatReport &report, Expectation expectation) {
  auto count = [&](RunOutcome outcome) { return report.counts[unsigned(outcome)]; };
  switch (expectation) {
  case Expectation::Signature:
    if (report.hits && report.tapeFails)
      return 0;
    break;
  case Expectation::Divergence:
    for (const RepeatedRun &run : report.runs)
      if (run.outcome != RunOutcome::Excluded && run.verdict == Verdict::Divergence)
        return 0;
    break;
  case Expectation::Match: {
    bool all = report.counted > 0;
    for (const RepeatedRun &run : report.runs)
      all &= run.outcome == RunOutcome::Excluded || run.verdict == Verdict::Match;
    if (all)
      return 0;
    break;
  }
  }
  return count(RunOutcome::TargetError) ? 4 : report.counted ? 1 : 5;
}

} // namespace tapeback
