#include "replayer/reduce/Reduce.h"
#include "format/Failure.h"
#include "replayer/Waiting.h"
#include "replayer/reduce/Lengths.h"
#include "replayer/reduce/Plain.h"
#include "replayer/reduce/Sequential.h"
#include "replayer/reduce/Units.h"
#include "llvm/Support/xxhash.h"
#include <set>

namespace tapeback {
namespace {

class Reducing {
public:
  Reducing(const TapeImage &image, const Endpoints &endpoints, const ReduceOptions &options)
      : image(image), endpoints(endpoints), options(options), trial(options.trial) {}

  llvm::Expected<ReduceReport> run();

private:
  llvm::Error begin();
  llvm::Error measure(const Selection &selection, MeasuredRate &rate);
  void takeFirst(const Candidate &candidate, const TrialResult &result);
  llvm::Expected<bool> runOnce(TapeSource &source);
  llvm::Expected<bool> isSame(TapeSource &source);
  llvm::Expected<bool> fails(const Selection &selection);
  llvm::Error byChunks(const char *stage, std::vector<Unit> units, bool untilMinimal);
  llvm::Error removal();
  llvm::Error plain();
  llvm::Error shorten();
  llvm::Expected<bool> shortenOne(const Length &length);
  llvm::Error zeroContents();
  llvm::Error zeroOne(uint32_t packet, uint64_t size);
  llvm::Error accept(Selection selection);
  bool over();
  void say(const char *stage) {
    stageNow = stage;
    if (options.progress)
      options.progress(stage, report.runs, best.count());
  }

  const TapeImage &image;
  const Endpoints &endpoints;
  const ReduceOptions &options;
  TrialOptions trial;
  ReduceReport report;
  std::string stageNow;
  Selection &best = report.selection;
  uint64_t accepted = 0;
  uint64_t lastPlace = 0;                        ///< Where the whole tape failed, the last of such places.
  std::set<std::pair<uint64_t, uint64_t>> tried; ///< Candidates that do not fail in the same way.
  HostTimer timer;
};

bool Reducing::over() {
  if (!report.stopped.empty())
    return true;
  if (report.runs >= options.maxRuns)
    report.stopped = "after " + std::to_string(report.runs) + " runs, as asked";
  else if (options.maxSeconds && timer.elapsed() >= options.maxSeconds * 1'000'000'000)
    report.stopped = "after " + std::to_string(options.maxSeconds) + " s, as asked";
  else if (options.stop && options.stop())
    report.stopped = "interrupted";
  return !report.stopped.empty();
}

/// Which candidate a selection makes.
std::pair<uint64_t, uint64_t> identityOf(const Candidate &candidate) {
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

llvm::Expected<bool> Reducing::runOnce(TapeSource &source) {
  ++report.runs;
  llvm::Expected<TrialResult> result = tryCandidate(source, endpoints, trial);
  if (!result)
    return result.takeError();
  if (!result->divergence)
    return false;
  if (matchFailures(report.failure, result->failure) >= options.wanted)
    return true;
  ++report.differently;
  return false;
}

/// As often as is needed to tell.
llvm::Expected<bool> Reducing::isSame(TapeSource &source) {
  if (options.intermittent.on) {
    const double rate = report.rateBefore->interval().rate;
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

llvm::Expected<bool> Reducing::fails(const Selection &selection) {
  llvm::Expected<Candidate> candidate = makeCandidate(image, selection);
  if (!candidate)
    return candidate.takeError();
  std::pair<uint64_t, uint64_t> identity = identityOf(*candidate);
  if (candidate->packets.empty() || tried.count(identity))
    return false;
  llvm::Expected<std::unique_ptr<TapeSource>> source = sourceOf(image, *candidate);
  if (!source)
    return source.takeError();
  llvm::Expected<bool> same = isSame(**source);
  if (same && !*same)
    tried.insert(identity);
  return same;
}

llvm::Error Reducing::accept(Selection selection) {
  best = std::move(selection);
  ++accepted;
  if (!options.keep)
    return llvm::Error::success();
  ReduceState state;
  state.parent = image.source->reader().summary().root;
  state.failure = report.failure;
  state.runs = report.runs;
  state.differently = report.differently;
  state.stage = stageNow;
  state.selection = best;
  return options.keep(state);
}

/// The first failure: what all others must be like.
void Reducing::takeFirst(const Candidate &candidate, const TrialResult &result) {
  report.first = *result.divergence;
  report.first.place.packet = candidate.original[size_t(result.divergence->place.packet)];
  if (report.failure.what.empty())
    report.failure = result.failure;
}

/// Runs the selection until it failed often enough to say how often it does.
llvm::Error Reducing::measure(const Selection &selection, MeasuredRate &rate) {
  llvm::Expected<Candidate> candidate = makeCandidate(image, selection);
  if (!candidate)
    return candidate.takeError();
  llvm::Expected<std::unique_ptr<TapeSource>> source = sourceOf(image, *candidate);
  if (!source)
    return source.takeError();
  const bool many = options.intermittent.on;
  const uint64_t most = many ? options.intermittent.measureRuns : options.tries;
  const uint64_t enough = many ? options.intermittent.measureFailures : 1;
  while (rate.runs < most && rate.failures < enough && !(rate.runs && over())) {
    ++report.runs;
    ++rate.runs;
    llvm::Expected<TrialResult> result = tryCandidate(**source, endpoints, trial);
    if (!result)
      return result.takeError();
    if (result->goodFailure && report.failure.what.empty())
      return llvm::make_error<Failure>(*result->goodFailure);
    if (!result->divergence)
      continue;
    bool isFirst = report.first.kind.empty();
    bool same =
        report.failure.what.empty() || matchFailures(report.failure, result->failure) >= options.wanted;
    if (same && isFirst)
      takeFirst(*candidate, *result);
    if (same)
      lastPlace =
          std::max<uint64_t>(lastPlace, candidate->original[size_t(result->divergence->place.packet)]);
    rate.failures += same;
    report.differently += !same;
  }
  return llvm::Error::success();
}

/// The whole tape (or what is left of it already), up to where the two part.
llvm::Error Reducing::begin() {
  report.before = image.packets.size();
  if (options.resume) {
    best = options.resume->selection;
    report.failure = options.resume->failure;
    report.runs = options.resume->runs;
    report.differently = options.resume->differently;
  } else {
    best.kept.assign(image.packets.size(), true);
    for (size_t i = 0; i < image.packets.size(); ++i)
      best.kept[i] = !image.isEvidenceOnly(i);
  }
  uint64_t runsBefore = report.runs;
  HostTimer whole;
  MeasuredRate rate;
  if (llvm::Error error = measure(best, rate))
    return error;
  if (!rate.failures) {
    if (options.resume)
      return failUsage("does-not-fail", "what was left of the tape does not fail any more", {},
                       "begin anew, without --resume; an intermittent failure needs --intermittent");
    bool many = rate.runs > 1;
    return endpoints.good
               ? failUsage("does-not-fail",
                           "the two targets do not differ on this tape: there is nothing to reduce", {},
                           many
                               ? "what only the states show, and no answer, is named by: bisect --probe deep"
                               : "an intermittent failure needs --intermittent; what only the states show is "
                                 "named by: bisect --probe deep")
               : failUsage("does-not-fail", "the target neither dies nor hangs: there is nothing to reduce",
                           {}, "what it answers wrongly is judged by a second target: --against");
  }
  if (options.intermittent.on)
    report.rateBefore = rate;
  for (uint64_t k = lastPlace + 1; k < best.kept.size(); ++k)
    best.kept[size_t(k)] = false;
  report.stages.emplace_back(options.resume ? "resumed" : "whole", report.runs - runsBefore);
  best.asTheyAre = options.plain;
  stageNow = options.resume ? options.resume->stage : "whole";
  trial.stopInVain =
      endpoints.good && std::none_of(image.packets.begin(), image.packets.end(), [](const Packet &packet) {
        return packet.completion == Completion::TimedOut;
      });
  // A part of the tape that waits longer than much of it took waits for what is not there any more.
  uint64_t patience = std::max<uint64_t>(whole.elapsed() / rate.runs / 8, 50'000'000);
  trial.player.waits.maxHostTime = std::min(trial.player.waits.maxHostTime, patience);
  return accept(best);
}

/// Takes away ever smaller runs of units, the last ones first: what comes early is what the rest needs.
llvm::Error Reducing::byChunks(const char *stage, std::vector<Unit> units, bool untilMinimal) {
  uint64_t runsBefore = report.runs;
  for (size_t chunk = std::max<size_t>(units.size() / 2, 1);; chunk = std::max<size_t>(chunk / 2, 1)) {
    bool changed = false;
    for (size_t end = units.size(); end > 0 && !over();) {
      size_t first = end > chunk ? end - chunk : 0;
      Selection without = best;
      bool any = false;
      for (size_t u = first; u < end; ++u)
        for (uint32_t packet : units[u]) {
          any |= without.kept[packet];
          without.kept[packet] = false;
        }
      llvm::Expected<bool> same = any ? fails(without) : llvm::Expected<bool>(false);
      if (!same)
        return same.takeError();
      say(stage);
      if (*same) {
        if (llvm::Error error = accept(std::move(without)))
          return error;
        changed = true;
      }
      if (*same || !any)
        units.erase(units.begin() + long(first), units.begin() + long(end));
      end = first;
    }
    if (over() || (chunk == 1 && !(changed && untilMinimal)))
      break;
  }
  report.stages.emplace_back(stage, report.runs - runsBefore);
  if (untilMinimal && report.stopped.empty())
    report.minimal = true;
  return llvm::Error::success();
}

/// As a peer does it that knows nothing of devices.
llvm::Error Reducing::plain() {
  uint64_t runsBefore = report.runs;
  std::vector<uint32_t> items;
  for (uint32_t i = 0; i < best.kept.size(); ++i)
    if (best.kept[i])
      items.push_back(i);
  auto select = [&](const std::vector<uint32_t> &kept) {
    Selection selection = best;
    selection.kept.assign(best.kept.size(), false);
    for (uint32_t i : kept)
      selection.kept[i] = true;
    return selection;
  };
  auto still = [&](const std::vector<uint32_t> &kept) -> llvm::Expected<bool> {
    Selection selection = select(kept);
    llvm::Expected<bool> same = fails(selection);
    say("packets");
    if (!same || !*same)
      return same;
    if (llvm::Error error = accept(std::move(selection)))
      return error;
    return true;
  };
  llvm::Expected<std::vector<uint32_t>> left = plainDdmin(std::move(items), still, [&] { return over(); });
  if (!left)
    return left.takeError();
  report.stages.emplace_back("packets", report.runs - runsBefore);
  report.minimal = report.stopped.empty();
  return llvm::Error::success();
}

/// Spans, windows, commands, packets. A resumed search does not do again what it had done.
llvm::Error Reducing::removal() {
  static constexpr llvm::StringLiteral order[] = {"spans", "windows", "commands", "packets"};
  constexpr unsigned deepest = 16;
  size_t from = 0;
  for (size_t i = 0; i < std::size(order); ++i)
    if (options.resume && options.resume->stage == order[i])
      from = std::max(from, i);
  if (options.resume && (options.resume->stage == "shortening" || options.resume->stage == "zeroing"))
    from = 3;
  for (unsigned depth = 0; from == 0 && depth < deepest; ++depth) {
    std::vector<Unit> units = spanUnits(image, depth);
    if (units.empty())
      break;
    if (llvm::Error error = byChunks("spans", std::move(units), false))
      return error;
  }
  if (from <= 1)
    if (llvm::Error error = byChunks("windows", windowUnits(image), false))
      return error;
  if (from <= 2)
    if (llvm::Error error = byChunks("commands", commandUnits(image, best), false))
      return error;
  return byChunks("packets", packetUnits(image, best), true);
}

/// As small as it can be: 1 if possible, otherwise down by ever smaller steps. False: it did not change.
llvm::Expected<bool> Reducing::shortenOne(const Length &length) {
  uint64_t present = length.present;
  auto attempt = [&](uint64_t value) -> llvm::Expected<bool> {
    Selection other = best;
    length.set(other, value);
    llvm::Expected<bool> same = fails(other);
    if (!same || !*same)
      return same;
    present = value;
    if (llvm::Error error = accept(std::move(other)))
      return error;
    return true;
  };
  llvm::Expected<bool> least = attempt(1);
  if (!least || *least)
    return least;
  for (uint64_t step = present / 2; step && !over();) {
    if (present - step <= 1) {
      step /= 2;
      continue;
    }
    llvm::Expected<bool> same = attempt(present - step);
    if (!same)
      return same;
    if (!*same)
      step /= 2;
    else
      step = std::min(step, present / 2);
  }
  return present < length.present;
}

/// Moves less: rows, bytes of a row, contents that the host stores and reads.
llvm::Error Reducing::shorten() {
  uint64_t runsBefore = report.runs;
  llvm::Expected<std::vector<Length>> lengths = findLengths(image, best);
  if (!lengths)
    return lengths.takeError();
  for (const Length &length : *lengths) {
    if (over())
      break;
    llvm::Expected<bool> shorter = shortenOne(length);
    if (!shorter)
      return shorter.takeError();
    report.shortened += *shorter;
    say("shortening");
  }
  report.stages.emplace_back("shortening", report.runs - runsBefore);
  return llvm::Error::success();
}

/// The whole content, otherwise its halves, and so on down to a sixteenth.
llvm::Error Reducing::zeroOne(uint32_t packet, uint64_t size) {
  constexpr uint64_t parts = 16;
  std::vector<std::pair<uint64_t, uint64_t>> pieces{{0, size}};
  while (!pieces.empty() && !over()) {
    auto [from, to] = pieces.back();
    pieces.pop_back();
    llvm::Expected<llvm::ArrayRef<uint8_t>> content =
        image.source->reader().blob(image.extras[packet].payload);
    if (!content)
      return content.takeError();
    if (to > content->size() ||
        llvm::all_of(content->slice(size_t(from), size_t(to - from)), [](uint8_t byte) { return !byte; }))
      continue;
    Selection other = best;
    other.changes[packet].addZero(from, to);
    llvm::Expected<bool> same = fails(other);
    if (!same)
      return same.takeError();
    say("zeroing");
    if (*same) {
      report.zeroed += to - from;
      if (llvm::Error error = accept(std::move(other)))
        return error;
    } else if (to - from > std::max<uint64_t>(size / parts, 1)) {
      uint64_t middle = from + (to - from) / 2;
      pieces.emplace_back(from, middle);
      pieces.emplace_back(middle, to);
    }
  }
  return llvm::Error::success();
}

llvm::Error Reducing::zeroContents() {
  uint64_t runsBefore = report.runs;
  for (uint32_t i = 0; i < image.packets.size() && !over(); ++i) {
    if (!best.kept[i] || image.packets[i].kind != PacketKind::MemoryWrite || !image.extras[i].payload)
      continue;
    auto change = best.changes.find(i);
    bool inRows = image.extras[i].count > 1;
    uint64_t size = image.extras[i].length;
    if (change != best.changes.end() && change->second.rowBytes && !inRows)
      size = std::min(size, *change->second.rowBytes);
    if (llvm::Error error = zeroOne(i, size))
      return error;
  }
  report.stages.emplace_back("zeroing", report.runs - runsBefore);
  return llvm::Error::success();
}

llvm::Expected<ReduceReport> Reducing::run() {
  if (llvm::Error error = begin())
    return error;
  if (llvm::Error error = options.plain ? plain() : removal())
    return error;
  if (!options.plain) {
    uint64_t before = accepted;
    if (llvm::Error error = shorten())
      return error;
    if (llvm::Error error = zeroContents())
      return error;
    // What moves less may need less.
    if (accepted != before && !over()) {
      report.minimal = false;
      if (llvm::Error error = byChunks("packets", packetUnits(image, best), true))
        return error;
    }
  }
  report.certain = options.tries == 1 && !options.intermittent.on;
  if (options.intermittent.on && report.stopped.empty()) {
    uint64_t runsBefore = report.runs;
    report.rateAfter.emplace();
    if (llvm::Error error = measure(best, *report.rateAfter))
      return error;
    report.stages.emplace_back("rate", report.runs - runsBefore);
  }
  llvm::Expected<Candidate> last = makeCandidate(image, best);
  if (!last)
    return last.takeError();
  report.after = last->packets.size();
  return report;
}

} // namespace

llvm::Expected<ReduceReport> reduceTape(const TapeImage &image, const Endpoints &endpoints,
                                        const ReduceOptions &options) {
  return Reducing(image, endpoints, options).run();
}

} // namespace tapeback
