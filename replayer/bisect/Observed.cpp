// The lockstep passes: what the host saw, and whether the endpoints repeat themselves.
#include "replayer/bisect/Bisection.h"
#include "replayer/bisect/ProbeLog.h"

namespace tapeback {

llvm::Error Bisection::observe() {
  if (llvm::Error error = observeOnce(0))
    return error;
  unsigned passes = std::max(1u, options.runs.value_or(2));
  if (kept && !options.runs && (report.observed || state)) {
    // What parted is seen to part again when the targets are put back: no second pass is needed for that.
    if (!state) // Otherwise the search for its place has to see it again.
      if (llvm::Error error = confirmObserved())
        return error;
    if (!report.badIntermittent)
      passes = 1;
  }
  for (unsigned i = 1; i < passes; ++i)
    if (llvm::Error error = observeOnce(i))
      return error;
  return llvm::Error::success();
}

/// What parted, in words that are the same for every run that parts so.
static std::string placeText(const Divergence &divergence) {
  std::string text = divergence.kind;
  for (const std::string &part : {divergence.space, divergence.reg, divergence.field})
    if (!part.empty())
      text += " " + part;
  return text + ": " + ruleName(divergence.rule);
}

void Bisection::noteRun(const BisectRun &run, const std::optional<Divergence> &divergence) {
  report.runs.push_back(run);
  if (!divergence)
    return;
  constexpr size_t keptPlaces = 1000;
  if (observedIn.size() < keptPlaces)
    observedIn.emplace(run.window, *divergence);
  if (!report.observed || run.packet < report.observed->place.packet)
    report.observed = divergence;
}

/// The first is always made: much of the report is about it.
llvm::Error Bisection::observeOnce(unsigned number) {
  if (number > 0 && options.log)
    if (std::optional<LoggedPass> known = options.log->pass()) {
      noteRun(known->run, known->divergence);
      compareRuns(known->goodDiffers, known->badDiffers);
      return llvm::Error::success();
    }
  Lockstep::Options lockstep;
  lockstep.player = options.player;
  lockstep.issuedToBad = &report.packetsToBad;
  llvm::Expected<std::unique_ptr<Lockstep>> started = Lockstep::start(source, endpoints, start, lockstep);
  if (!started)
    return started.takeError();
  Lockstep &run = **started;
  uint64_t total = source.reader().summary().packets;
  if (number == 0 && usesSnapshots()) {
    if (llvm::Error error = walkSnapshots(run))
      return error;
    if (again) {
      again = false;
      // They were seen to work, but do no more: all over again, without.
      if (!whyNoSnapshots.empty()) {
        report.notes.push_back("no snapshots: " + whyNoSnapshots);
        makePlan();
      } else {
        report.notes.push_back(
            "what a target shows when it is looked at is not what it is read to hold: it was read "
            "everywhere");
      }
      return observeOnce(0);
    }
  } else if (number == 0 && report.plan.method == BisectPlan::Method::Lockstep) {
    if (llvm::Error error = walkProbing(run))
      return error;
  }
  constexpr uint64_t stride = 1 << 14;
  while (run.position() < total && !run.stopped()) {
    uint64_t before = run.position();
    if (llvm::Error error = run.runTo(std::min(total, before + stride)))
      return error;
    progress("comparing", run.position(), total);
    if (run.position() == before)
      break;
  }
  BisectRun result;
  if (run.divergence()) {
    result.diverged = true;
    result.window = run.divergence()->place.window;
    result.packet = run.divergence()->place.packet;
    result.offset = run.divergence()->offset;
    result.text = placeText(*run.divergence());
  }
  noteRun(result, run.divergence());
  if (number > 0) {
    bool good = goodDiffers(run), bad = badDiffers(run);
    compareRuns(good, bad);
    return options.log ? options.log->add({result, run.divergence(), good, bad}) : llvm::Error::success();
  }
  report.coverage.windowsObserved = run.windowsCompared;
  report.coverage.packetsNotCompared = run.notCompared;
  goodDigests = run.good.digests;
  badDigests = run.bad.digests;
  report.badFailure = run.bad.failure;
  if (llvm::Error error = run.finishGood())
    return error;
  report.goodFailure = run.good.failure;
  report.goodAgainstTape = run.goodAgainstTape();
  if (report.goodAgainstTape)
    goodLeftTape = report.goodAgainstTape->place.packet;
  if (!pool.empty())
    kept = std::move(*started);
  return llvm::Error::success();
}

/// What the targets differ in before the first packet. On a pair of their own: reading registers may count.
llvm::Error Bisection::takeBaseline() {
  llvm::Expected<std::unique_ptr<Lockstep>> run = startUncompared();
  if (!run)
    return run.takeError();
  bothAnswer = (*run)->good.player->answers() && (*run)->bad.player->answers();
  if (!bothAnswer)
    return llvm::Error::success();
  isFree = StateProbe::isFree(**run);
  if (llvm::Error error = probe.takeBaseline(**run))
    return error;
  return proveSnapshots(**run);
}

/// The first pass of a deep bisection where both targets can be peeked: their states at the end of every
/// quiescent window. Without side effect, so that what the host sees is what it would have seen anyway.
llvm::Error Bisection::walkProbing(Lockstep &run) {
  std::vector<std::unique_ptr<History>> histories;
  uint64_t unsettled = 0;
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (llvm::Error error = run.runTo(boundaries[i].end))
      return error;
    // A difference that the host saw ends the walk: behind it the sides may do different things.
    if (run.stopped() || run.position() < boundaries[i].end)
      break;
    if (llvm::Error error = moveHistories(histories, boundaries[i].end))
      return error;
    ++report.probes;
    ++report.coverage.windowsProbed;
    llvm::Expected<std::optional<StateDifference>> difference =
        probe.compare(run, ProbeWindows | ProbeMemory, views(histories));
    if (!difference)
      return difference.takeError();
    if (*difference && !state) {
      // One of them may only not have come to rest yet.
      difference = probeAt(boundaries[i].end, ProbeWindows | ProbeMemory);
      if (!difference)
        return difference.takeError();
      unsettled += !*difference;
    }
    if (!*difference) {
      sameAtBoundary.push_back(i);
      report.healed |= state.has_value();
    } else if (!state) {
      state = StateFinding{**difference, i};
    }
    progress("comparing states", run.position(), source.reader().summary().packets);
  }
  if (unsettled)
    report.notes.push_back(std::to_string(unsettled) +
                           " differences at ends of windows were gone once the devices had come to rest");
  return llvm::Error::success();
}

static bool differ(const std::vector<Digest> &a, const std::vector<Digest> &b) {
  return !std::equal(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin());
}

bool Bisection::badDiffers(const Lockstep &run) const {
  return differ(badDigests, run.bad.digests);
}

bool Bisection::goodDiffers(const Lockstep &run) const {
  // The window in which a pass stops has no digest, but the good side was compared with the tape up to there.
  uint64_t reached = run.position();
  uint64_t now = run.goodAgainstTape() ? run.goodAgainstTape()->place.packet : reached;
  return differ(goodDigests, run.good.digests) ||
         std::min(now, reached) != std::min(goodLeftTape.value_or(reached), reached);
}

/// A second pass that does not come out like the first: an endpoint does not repeat itself.
void Bisection::compareRuns(bool goodDiffers, bool badDiffers) {
  const BisectRun &first = report.runs.front(), &last = report.runs.back();
  bool elsewhere =
      first.diverged != last.diverged || first.packet != last.packet || first.offset != last.offset;
  report.goodIntermittent |= goodDiffers;
  // If only the place differs and the good side did what it did before, it is the bad one.
  report.badIntermittent |= badDiffers || (elsewhere && !goodDiffers);
}

} // namespace tapeback
