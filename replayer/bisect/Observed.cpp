// The lockstep passes: what the host saw, and whether the endpoints repeat themselves.
#include "replayer/bisect/Bisection.h"

namespace tapeback {

llvm::Error Bisection::observe() {
  for (unsigned i = 0; i < std::max(1u, options.runs); ++i)
    if (llvm::Error error = observeOnce(i))
      return error;
  return llvm::Error::success();
}

llvm::Error Bisection::observeOnce(unsigned number) {
  Lockstep::Options lockstep;
  lockstep.player = options.player;
  llvm::Expected<std::unique_ptr<Lockstep>> started = Lockstep::start(source, endpoints, start, lockstep);
  if (!started)
    return started.takeError();
  Lockstep &run = **started;
  uint64_t total = source.reader().summary().packets;
  bool answers = run.good.player->answers() && run.bad.player->answers();
  if (number == 0 && options.deep && answers && isFree)
    if (llvm::Error error = walkProbing(run))
      return error;
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
  }
  report.runs.push_back(result);
  bool earlier = run.divergence() && (!report.observed || result.packet < report.observed->place.packet);
  if (earlier)
    report.observed = run.divergence();
  if (number > 0) {
    compareRuns(run);
    return llvm::Error::success();
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
  return llvm::Error::success();
}

/// What the targets differ in before the first packet. On a pair of their own: reading registers may count.
llvm::Error Bisection::takeBaseline() {
  Lockstep::Options lockstep;
  lockstep.player = options.player;
  llvm::Expected<std::unique_ptr<Lockstep>> run = Lockstep::start(source, endpoints, start, lockstep);
  if (!run)
    return run.takeError();
  if (!(*run)->good.player->answers() || !(*run)->bad.player->answers())
    return llvm::Error::success();
  isFree = StateProbe::isFree(**run);
  return probe.takeBaseline(**run);
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

/// A second pass that does not come out like the first: an endpoint does not repeat itself.
void Bisection::compareRuns(const Lockstep &run) {
  auto differs = [](const std::vector<Digest> &a, const std::vector<Digest> &b) {
    size_t common = std::min(a.size(), b.size());
    return !std::equal(a.begin(), a.begin() + common, b.begin());
  };
  bool good = differs(goodDigests, run.good.digests), bad = differs(badDigests, run.bad.digests);
  // The window in which a pass stops has no digest, but the good side was compared with the tape up to there.
  uint64_t reached = run.position();
  uint64_t now = run.goodAgainstTape() ? run.goodAgainstTape()->place.packet : reached;
  good |= std::min(now, reached) != std::min(goodLeftTape.value_or(reached), reached);
  const BisectRun &first = report.runs.front(), &last = report.runs.back();
  bool elsewhere =
      first.diverged != last.diverged || first.packet != last.packet || first.offset != last.offset;
  report.goodIntermittent |= good;
  // If only the place differs and the good side did what it did before, it is the bad one.
  report.badIntermittent |= bad || (elsewhere && !good);
}

} // namespace tapeback
