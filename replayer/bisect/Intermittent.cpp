// An endpoint that does not repeat itself: how often it fails, whether that drifts, where the host saw it,
// and where in the states it begins.
#include "format/Failure.h"
#include "replayer/bisect/Bisection.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace tapeback {

/// Passes one after the other, until there are enough to say how often they part.
llvm::Error Bisection::measureRate() {
  for (unsigned i = unsigned(report.runs.size()); i < options.rateRuns; ++i) {
    progress("measuring the rate", i, options.rateRuns);
    if (llvm::Error error = observeOnce(i))
      return error;
  }
  sumUpRuns();
  return llvm::Error::success();
}

/// The same passes, but at each quiescent end of a window both sides are given the time to come to rest,
/// which probes do, too: does the failure come as often then?
llvm::Error Bisection::measureDrains() {
  BisectDrains drains;
  for (unsigned i = 0; i < options.rateRuns; ++i) {
    progress("measuring what drains do", i, options.rateRuns);
    Lockstep::Options lockstep;
    lockstep.player = options.player;
    lockstep.withTape = false;
    lockstep.issuedToBad = &report.packetsToBad;
    llvm::Expected<std::unique_ptr<Lockstep>> run = Lockstep::start(source, endpoints, start, lockstep);
    if (!run)
      return run.takeError();
    bool died = false;
    for (size_t at = 0; at <= boundaries.size() && !died; ++at) {
      uint64_t end = at < boundaries.size() ? boundaries[at].end : source.reader().summary().packets;
      if (llvm::Error error = (*run)->runTo(end))
        return error;
      if ((*run)->stopped() || (*run)->position() < end || at == boundaries.size())
        break;
      llvm::Expected<Settled> settled = settle(**run);
      if (settled) {
        drains.drains += settled->waited;
        continue;
      }
      Failure failure = toFailure(settled.takeError());
      if (failure.cls != FailureClass::Target)
        return llvm::make_error<Failure>(std::move(failure));
      died = true;
    }
    ++drains.counted;
    drains.hits += died || (*run)->divergence();
  }
  drains.interval = wilsonInterval(drains.hits, drains.counted);
  drains.pValue = ratesDiffer(drains.hits, drains.counted, report.rate->hits, report.rate->counted);
  report.drainEffect = drains;
  if (drains.changes())
    report.notes.push_back("with time to come to rest at the ends of windows the passes part in " +
                           std::to_string(drains.hits) + " of " + std::to_string(drains.counted) +
                           ", without in " + std::to_string(report.rate->hits) + " of " +
                           std::to_string(report.rate->counted) +
                           ": giving it changes how often the failure comes, and with it what probes show");
  return llvm::Error::success();
}

void Bisection::sumUpRuns() {
  constexpr size_t mostPlaces = 1000;
  BisectRate rate;
  std::map<std::pair<uint64_t, std::string>, BisectPlace> places;
  report.otherPlaces = 0;
  for (size_t i = 0; i < report.runs.size(); ++i) {
    const BisectRun &run = report.runs[i];
    bool early = i < report.runs.size() / 2;
    ++rate.counted;
    rate.hits += run.diverged;
    rate.firstHalfCounted += early;
    rate.firstHalfHits += early && run.diverged;
    if (!run.diverged)
      continue;
    std::pair<uint64_t, std::string> key(run.packet, run.text);
    if (places.size() == mostPlaces && !places.count(key)) {
      ++report.otherPlaces;
      continue;
    }
    BisectPlace &place = places[key];
    place.window = run.window;
    place.packet = run.packet;
    place.text = run.text;
    ++place.count;
  }
  rate.interval = wilsonInterval(rate.hits, rate.counted);
  rate.driftProbability = ratesDiffer(rate.firstHalfHits, rate.firstHalfCounted,
                                      rate.hits - rate.firstHalfHits, rate.counted - rate.firstHalfCounted);
  report.rate = rate;
  report.places.clear();
  for (auto &[key, place] : places)
    report.places.push_back(std::move(place));
  llvm::stable_sort(report.places, [](const BisectPlace &left, const BisectPlace &right) {
    return left.count > right.count;
  });
  if (report.rate->drifts())
    report.notes.push_back(
        "how often the passes part is not the same in their first and their second half: a "
        "rate that drifts says little");
}

std::optional<uint64_t> Bisection::commonWindow() const {
  std::map<uint64_t, uint64_t> windows;
  uint64_t all = 0;
  for (const BisectRun &run : report.runs)
    if (run.diverged) {
      ++windows[run.window];
      ++all;
    }
  // One in ten may have parted elsewhere, once each.
  for (const auto &[window, count] : windows)
    if (count * 10 >= all * 9 &&
        llvm::all_of(windows, [&](const auto &other) { return other.first == window || other.second == 1; }))
      return window;
  return std::nullopt;
}

void Bisection::noteStep(uint64_t end, bool differs) {
  constexpr size_t most = 10000;
  auto [at, isNew] = stepOf.try_emplace(end, report.steps.size());
  if (isNew) {
    if (report.steps.size() == most) {
      stepOf.erase(at);
      return;
    }
    report.steps.push_back({end, 0, 0});
  }
  BisectStep &step = report.steps[at->second];
  ++step.probes;
  step.differed += differs;
}

/// Like probeAt(), but the failure may come on the way, or while it is looked at: that, too, is a difference.
llvm::Expected<Bisection::NoisyProbe> Bisection::probeNoisy(uint64_t end) {
  llvm::Expected<std::optional<StateDifference>> difference = probeAt(end, probeAll);
  if (difference)
    return NoisyProbe{difference->has_value(), *difference};
  Failure failure = toFailure(difference.takeError());
  if (failure.code != "endpoint-failed")
    return llvm::make_error<Failure>(std::move(failure));
  return NoisyProbe{true, std::nullopt};
}

llvm::Expected<Bisection::NoisyFinding>
Bisection::runNoisy(NoisySearch &search, llvm::ArrayRef<uint64_t> ends, const char *stage) {
  NoisyFinding finding;
  while (search.state() == NoisySearch::State::Searching) {
    size_t place = search.next();
    llvm::Expected<NoisyProbe> seen = probeNoisy(ends[place]);
    if (!seen)
      return seen.takeError();
    search.note(place, seen->differs);
    if (seen->difference)
      finding.differences.insert_or_assign(place, *seen->difference);
    progress(stage, search.probes(), 0);
  }
  finding.place = search.answer().place;
  return finding;
}

/// Places spread evenly, each once, as many as the last one was probed in vain: the first that differs.
llvm::Expected<std::optional<size_t>> Bisection::sweepNoisy(llvm::ArrayRef<uint64_t> ends) {
  unsigned tried = 0;
  // Halves, quarters, eighths …: of each round those that no round before had.
  for (size_t parts = 2; tried < options.noisy.maxBlind && parts <= 2 * ends.size(); parts *= 2)
    for (size_t part = 1; part < parts && tried < options.noisy.maxBlind; part += 2) {
      size_t place = size_t(double(ends.size()) * double(part) / double(parts));
      llvm::Expected<NoisyProbe> seen = probeNoisy(ends[place]);
      if (!seen)
        return seen.takeError();
      progress("looking for what heals", ++tried, options.noisy.maxBlind);
      if (seen->differs)
        return std::optional(place);
    }
  return std::optional<size_t>();
}

/// Quiescent ends of windows, each probe a run of its own from the start: snapshots would repeat what one run
/// happened to do.
llvm::Error Bisection::searchNoisy() {
  report.method = "deep-bayes";
  if (boundaries.empty()) {
    report.notes.push_back("no window before the first divergence ends quiescent: no states were searched");
    return llvm::Error::success();
  }
  std::vector<uint64_t> ends;
  for (const Boundary &boundary : boundaries)
    ends.push_back(boundary.end);
  uint64_t probesBefore = report.probes;
  NoisySearch search(ends.size(), options.noisy);
  llvm::Expected<NoisyFinding> finding = runNoisy(search, ends, "searching");
  if (!finding)
    return finding.takeError();
  if (search.state() == NoisySearch::State::NothingSeen) {
    // It may be there and heal: other places, spread evenly, and then those up to one that differs.
    llvm::Expected<std::optional<size_t>> healing = sweepNoisy(ends);
    if (!healing)
      return healing.takeError();
    if (*healing) {
      ends.resize(**healing + 1);
      search = NoisySearch(ends.size(), options.noisy);
      search.note(**healing, true);
      report.healed = true;
      finding = runNoisy(search, ends, "searching");
      if (!finding)
        return finding.takeError();
    }
  }
  BisectSearch result;
  result.state = search.state();
  result.places = search.places();
  result.probes = report.probes - probesBefore;
  result.hits = search.hits();
  if (search.hits()) {
    NoisySearch::Answer answer = search.answer();
    result.window = boundaries[answer.place].window;
    result.probability = answer.probability;
    result.lowWindow = answer.low ? boundaries[answer.low - 1].window + 1 : 0;
    result.highWindow = boundaries[answer.high].window;
    result.within = answer.within;
    result.rate = answer.rate;
    result.rateTest = search.rateTest();
  }
  std::set<uint64_t> probed;
  for (const BisectStep &step : report.steps)
    probed.insert(step.packet);
  report.coverage.windowsProbed =
      uint64_t(llvm::count_if(ends, [&](uint64_t end) { return probed.count(end); }));
  report.search = result;
  if (result.state != NoisySearch::State::Found)
    return llvm::Error::success();
  if (!result.oneCause()) {
    report.notes.push_back("probes of later places differ more or less often than those of the answer: the "
                           "failure acts in more than one place, or heals, and no packet is named");
    return llvm::Error::success();
  }
  return searchInside(search, finding->place, finding->differences);
}

/// From the window to the packet: the quiescent places in it, with all that is known of its end.
llvm::Error Bisection::searchInside(const NoisySearch &outer, size_t boundary,
                                    const std::map<size_t, StateDifference> &differences) {
  uint64_t from = boundary ? boundaries[boundary - 1].end : 0, to = boundaries[boundary].end;
  llvm::Expected<std::vector<uint64_t>> points = quiescentPoints(from, to, /*withLast=*/true);
  if (!points)
    return points.takeError();
  NoisySearch inner(points->size(), options.noisy);
  NoisySearch::RateTest known = outer.rateTest();
  uint64_t hits = known.hitsAtLast + known.hitsBefore, probes = known.probesAtLast + known.probesBefore;
  for (uint64_t i = 0; i < probes; ++i)
    inner.note(points->size() - 1, i < hits);
  llvm::Expected<NoisyFinding> finding = runNoisy(inner, *points, "searching the window");
  if (!finding)
    return finding.takeError();
  report.search->insidePlaces = points->size();
  report.search->insideProbes = inner.probes() - probes;
  report.search->insideProbability = inner.answer().probability;
  // The difference nearest to the place: a later one may be what became of it.
  const StateDifference *difference = nullptr;
  for (const auto &[place, seen] : finding->differences)
    if (!difference && place >= finding->place)
      difference = &seen;
  for (const auto &[place, seen] : differences)
    if (!difference && place >= boundary)
      difference = &seen;
  if (!difference) {
    report.notes.push_back("an endpoint failed on the way to each probe that differed: no state is named");
    return llvm::Error::success();
  }
  size_t at = finding->place;
  return nameState(*difference, at ? (*points)[at - 1] : from, (*points)[at]);
}

} // namespace tapeback
