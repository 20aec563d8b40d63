#include "replayer/reduce/Search.h"
#include "format/Failure.h"
#include "replayer/reduce/Sequential.h"
#include "llvm/Support/xxhash.h"

namespace tapeback {

bool Search::over() {
  if (!found.stopped.empty())
    return true;
  if (found.runs >= options.maxRuns)
    found.stopped = "after " + std::to_string(found.runs) + " runs, as asked";
  else if (options.maxSeconds && timer.elapsed() >= options.maxSeconds * 1'000'000'000)
    found.stopped = "after " + std::to_string(options.maxSeconds) + " s, as asked";
  else if (options.stop && options.stop())
    found.stopped = "interrupted";
  return !found.stopped.empty();
}

/// Which candidate a selection makes.
static std::pair<uint64_t, uint64_t> identityOf(const Candidate &candidate) {
  std::vector<uint64_t> words;
  words.reserve(4 * candidate.packets.size());
  for (size_t i = 0; i < candidate.packets.size(); ++i) {
    words.push_back(candidate.original[i]);
    words.push_back(candidate.packets[i].value);
    words.push_back(candidate.extras[i].length);
    words.push_back(candidate.extras[i].payload.lo);
  }
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(
      llvm::ArrayRef(reinterpret_cast<const uint8_t *>(words.data()), words.size() * sizeof(uint64_t)));
  return {hash.high64, hash.low64};
}

llvm::Expected<bool> Search::runOnce(TapeSource &source) {
  ++found.runs;
  llvm::Expected<TrialResult> result = tryCandidate(source, endpoints, trial);
  if (!result)
    return result.takeError();
  if (!result->divergence)
    return false;
  if (matchFailures(found.failure, result->failure) >= options.wanted)
    return true;
  ++found.differently;
  return false;
}

/// As often as is needed to tell.
llvm::Expected<bool> Search::isSame(TapeSource &source) {
  if (options.intermittent.on) {
    const double rate = found.rateBefore->interval().rate;
    SequentialTest test(options.intermittent.loses * rate, options.intermittent.keeps * rate,
                        options.intermittent.wrongly, options.intermittent.wronglyKept);
    while (test.answer() == SequentialTest::Answer::Open && test.runs() < options.intermittent.mostRuns &&
           !over()) {
      llvm::Expected<bool> same = runOnce(source);
      if (!same)
        return same.takeError();
      test.add(*same);
    }
    return test.answer() == SequentialTest::Answer::High;
  }
  unsigned failed = 0;
  for (unsigned i = 0; i < options.tries && failed < options.needed; ++i) {
    if (failed + (options.tries - i) < options.needed)
      break;
    llvm::Expected<bool> same = runOnce(source);
    if (!same)
      return same.takeError();
    failed += *same;
  }
  return failed >= options.needed;
}

llvm::Expected<bool> Search::fails(const Candidate &candidate) {
  Identity identity = identityOf(candidate);
  // What depends on something that went before has gone with it: no other candidate than the last.
  if (identity == bestIdentity)
    return true;
  if (candidate.packets.empty() || candidate.ahead || tried.count(identity))
    return false;
  llvm::Expected<std::unique_ptr<TapeSource>> source = sourceOf(image, candidate);
  if (!source)
    return source.takeError();
  llvm::Expected<bool> same = isSame(**source);
  // One that was broken off was not tried.
  if (same && !*same && found.stopped.empty())
    tried.insert(identity);
  return same;
}

llvm::Error Search::accept(Selection selection, const Candidate &candidate) {
  found.selection = std::move(selection);
  bestIdentity = identityOf(candidate);
  if (!options.keep)
    return llvm::Error::success();
  ReduceState state;
  state.parent = image.source->reader().summary().root;
  state.failure = found.failure;
  state.runs = found.runs;
  state.differently = found.differently;
  state.stage = stageNow;
  state.rate = found.rateBefore;
  state.selection = found.selection;
  return options.keep(state);
}

llvm::Expected<bool> Search::attempt(Selection selection, const char *stage) {
  llvm::Expected<Candidate> candidate = makeCandidate(image, selection);
  if (!candidate)
    return candidate.takeError();
  llvm::Expected<bool> same = fails(*candidate);
  stageNow = stage;
  if (options.progress)
    options.progress(stage, found.runs, (same && *same ? selection : found.selection).count());
  if (!same || !*same)
    return same;
  if (llvm::Error error = accept(std::move(selection), *candidate))
    return error;
  return true;
}

/// The first failure: what all others must be like.
void Search::takeFirst(const Candidate &candidate, const TrialResult &result) {
  found.first = *result.divergence;
  found.first.place.packet = candidate.original[size_t(result.divergence->place.packet)];
  if (found.failure.what.empty())
    found.failure = result.failure;
}

/// Runs the selection until it failed often enough to say how often it does.
llvm::Error Search::measure(const Selection &selection, MeasuredRate &rate, uint64_t enough) {
  llvm::Expected<Candidate> candidate = makeCandidate(image, selection);
  if (!candidate)
    return candidate.takeError();
  llvm::Expected<std::unique_ptr<TapeSource>> source = sourceOf(image, *candidate);
  if (!source)
    return source.takeError();
  const uint64_t most = options.intermittent.on ? options.intermittent.measureRuns : options.tries;
  while (rate.runs < most && rate.failures < enough && !(rate.runs && over())) {
    ++found.runs;
    ++rate.runs;
    llvm::Expected<TrialResult> result = tryCandidate(**source, endpoints, trial);
    if (!result)
      return result.takeError();
    if (result->goodFailure && found.failure.what.empty())
      return llvm::make_error<Failure>(*result->goodFailure);
    if (!result->divergence)
      continue;
    bool isFirst = found.first.kind.empty();
    bool same = found.failure.what.empty() || matchFailures(found.failure, result->failure) >= options.wanted;
    if (same && isFirst)
      takeFirst(*candidate, *result);
    if (same)
      lastPlace =
          std::max<uint64_t>(lastPlace, candidate->original[size_t(result->divergence->place.packet)]);
    rate.failures += same;
    found.differently += !same;
  }
  return llvm::Error::success();
}

llvm::Error Search::doesNotFail(bool many) const {
  if (options.resume)
    return failUsage("does-not-fail", "what was left of the tape does not fail any more", {},
                     "begin anew, without --resume; an intermittent failure needs --intermittent");
  if (endpoints.good)
    return failUsage(
        "does-not-fail", "the two targets do not differ on this tape: there is nothing to reduce", {},
        many ? "what only the states show, and no answer, is named by: bisect --probe deep"
             : "an intermittent failure needs --intermittent; what only the states show is named by: bisect "
               "--probe deep");
  return failUsage("does-not-fail", "the target neither dies nor hangs: there is nothing to reduce", {},
                   "what it answers wrongly is judged by a second target: --against");
}

llvm::Error Search::begin() {
  Selection &best = found.selection;
  found.before = image.packets.size();
  if (options.resume) {
    best = options.resume->selection;
    found.failure = options.resume->failure;
    found.runs = options.resume->runs;
    found.differently = options.resume->differently;
  } else {
    best.kept.assign(image.packets.size(), true);
    for (size_t i = 0; i < image.packets.size(); ++i)
      best.kept[i] = !image.isEvidenceOnly(i) && (options.plain || !image.restated[i]);
  }
  // What was asked for is the rate of the whole tape, not of what was left of it when the search was ended.
  const bool knowsRate = options.intermittent.on && options.resume && options.resume->rate;
  uint64_t runsBefore = found.runs;
  HostTimer taken;
  MeasuredRate rate;
  if (llvm::Error error = measure(
          best, rate, options.intermittent.on && !knowsRate ? options.intermittent.measureFailures : 1))
    return error;
  if (!rate.failures)
    return doesNotFail(rate.runs > 1);
  if (options.intermittent.on)
    found.rateBefore = knowsRate ? *options.resume->rate : rate;
  if (!knowsRate) {
    best.end = lastPlace + 1;
    for (uint64_t k = best.end; k < best.kept.size(); ++k)
      best.kept[size_t(k)] = false;
  }
  endStage(options.resume ? "resumed" : "whole", runsBefore);
  best.asTheyAre = options.plain;
  whole = best;
  stageNow = options.resume ? options.resume->stage : "whole";
  trial.stopInVain =
      endpoints.good && std::none_of(image.packets.begin(), image.packets.end(), [](const Packet &packet) {
        return packet.completion == Completion::TimedOut;
      });
  // A part of the tape that waits longer than all of it took waits for what is not there any more. With a
  // reserve: on a machine that is busy with something else simulated devices are slow.
  uint64_t patience = std::max<uint64_t>(2 * (taken.elapsed() / rate.runs), 200'000'000);
  trial.player.waits.maxHostTime = std::min(trial.player.waits.maxHostTime, patience);
  llvm::Expected<Candidate> candidate = makeCandidate(image, best);
  return candidate ? accept(best, *candidate) : candidate.takeError();
}

/// What the two measurements say of the answer.
void Search::judgeRates() {
  RateInterval before = found.rateBefore->interval(), again = found.rateAgain->interval(),
               after = found.rateAfter->interval();
  if (again.high < before.low)
    found.drift = "fell";
  else if (again.low > before.high)
    found.drift = "rose";
  // Asked for at least so much of what the whole does now.
  found.rateLost = after.high < options.intermittent.keeps * again.rate;
  if (found.rateLost)
    found.minimal = false;
}

llvm::Error Search::measureAgain() {
  uint64_t runsBefore = found.runs;
  MeasuredRate after, again;
  if (llvm::Error error = measure(found.selection, after, options.intermittent.measureFailures))
    return error;
  if (llvm::Error error = measure(whole, again, options.intermittent.measureFailures))
    return error;
  if (!found.stopped.empty())
    return llvm::Error::success(); // Broken off: no measurements.
  found.rateAfter = after;
  found.rateAgain = again;
  judgeRates();
  endStage("rate", runsBefore);
  return llvm::Error::success();
}

llvm::Expected<ReduceReport> Search::finish() {
  found.certain = options.tries == 1 && !options.intermittent.on;
  llvm::Expected<Candidate> last = makeCandidate(image, found.selection);
  if (!last)
    return last.takeError();
  found.after = last->packets.size();
  return std::move(found);
}

} // namespace tapeback
