// Deep bisection where both targets can be put back: one pass looks at the state at every quiescent place as
// if nobody had looked, and leaves places to go back to, so that no prefix is played again.
#include "format/Failure.h"
#include "replayer/bisect/Bisection.h"
#include "replayer/repeat/StateImage.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

/// Places kept at a time, each with a snapshot of both sides and a copy of both players.
constexpr size_t mostPlaces = 16;
/// Of one target: those, and one for a look.
constexpr unsigned snapshotsNeeded = mostPlaces + 1;
/// Inside a window, more places than this are not looked at one by one.
constexpr size_t lookedAtOneByOne = 512;

/// Whether a restore brings back what the devices show, after other packets were played: seen once, on
/// targets that are not used for anything else.
llvm::Error Bisection::proveSnapshots(Lockstep &run) {
  constexpr uint64_t farthest = 1 << 16, further = 256;
  if (!options.snapshots)
    whyNoSnapshots = "not wanted, or every run is of another target ({run})";
  else if (std::optional<std::string> why = run.whyNoSnapshots(snapshotsNeeded))
    whyNoSnapshots = *why;
  else if (boundaries.empty())
    whyNoSnapshots = "no window ends quiescent";
  if (!whyNoSnapshots.empty())
    return llvm::Error::success();
  if (llvm::Error error = run.runTo(std::min(boundaries.front().end, farthest)))
    return error;
  auto prove = [&]() -> llvm::Error {
    llvm::Expected<LockstepPlace> place = run.keep(/*issued=*/true);
    if (!place)
      return place.takeError();
    std::vector<StateImage> before;
    for (bool again : {false, true}) {
      size_t n = 0;
      for (LockstepSide *side : {&run.good, &run.bad}) {
        llvm::Expected<StateImage> seen = lookAtState(*side->player);
        if (!seen)
          return seen.takeError();
        if (!again)
          before.push_back(std::move(*seen));
        else if (std::optional<std::string> differs = stateDifference(before[n++], *seen))
          whyNoSnapshots = std::string("put back to its snapshot, the ") +
                           (side == &run.good ? "good" : "bad") + " target is not as it was: " + *differs;
      }
      if (llvm::Error error = run.goBack(*place))
        return error;
      if (again)
        break;
      if (llvm::Error error = run.runTo(place->packet + further))
        return error;
      if (llvm::Error error = run.goBack(*place))
        return error;
    }
    return run.forget(*place);
  };
  if (llvm::Error error = prove()) {
    Failure failure = toFailure(std::move(error));
    if (failure.cls == FailureClass::Tape || failure.cls == FailureClass::System)
      return llvm::make_error<Failure>(std::move(failure));
    whyNoSnapshots = failure.message;
  }
  return llvm::Error::success();
}

llvm::Expected<std::optional<StateDifference>> Bisection::probeHere(Lockstep &run, unsigned parts,
                                                                    llvm::ArrayRef<const History *> histories,
                                                                    Settled *settled, bool *looksTrue) {
  llvm::Expected<LockstepPlace> place = run.keep(/*issued=*/false);
  if (!place)
    return place.takeError();
  llvm::Expected<std::optional<StateDifference>> difference = std::optional<StateDifference>();
  if (settled) {
    llvm::Expected<Settled> rest = settle(run);
    if (!rest)
      return rest.takeError();
    *settled = *rest;
    report.drains += rest->waited;
  }
  ++report.probes;
  difference = probe.compare(run, parts, histories);
  if (difference && !*difference && settled && settled->unequal && (parts & ProbeRegisters))
    difference = std::optional(differenceOf(*settled->unequal));
  if (looksTrue && difference && !*difference) {
    llvm::Expected<bool> seen = probe.looksAreTrue(run);
    if (seen)
      *looksTrue = *seen;
    else
      difference = seen.takeError();
  }
  llvm::Error back = run.goBack(*place);
  if (!back)
    back = run.forget(*place);
  if (!difference)
    return llvm::joinErrors(difference.takeError(), std::move(back));
  if (back)
    return back;
  return difference;
}

/// A glance that finds both sides alike is enough, once a glance was seen to show what reading shows.
llvm::Expected<std::optional<StateDifference>> Bisection::lookHere(Lockstep &run, uint64_t end, bool both,
                                                                   Settled *settled) {
  bool alike = false;
  if (glances != Glances::Off) {
    llvm::Expected<bool> seen = probe.alike(run);
    if (!seen)
      return seen.takeError();
    alike = *seen;
    if (alike && glances == Glances::True && !both) {
      ++report.probes;
      return std::optional<StateDifference>();
    }
  }
  if (llvm::Error error = moveHistories(walked, end))
    return error;
  bool looksTrue = true;
  llvm::Expected<std::optional<StateDifference>> difference =
      probeHere(run, probeAll, views(walked), settled, alike ? &looksTrue : nullptr);
  if (!difference || !alike)
    return difference;
  // A device that is looked at and one that is read must be the same.
  glances = *difference || !looksTrue ? Glances::Off : Glances::True;
  return difference;
}

/// When there are as many as are kept, every second goes, so that they stay evenly spread.
llvm::Error Bisection::keepPlace(Lockstep &run) {
  if (pool.size() == mostPlaces) {
    std::vector<LockstepPlace> left;
    for (size_t i = 0; i < pool.size(); ++i)
      if (i % 2 == 0)
        left.push_back(std::move(pool[i]));
      else if (llvm::Error error = run.forget(pool[i]))
        return error;
    pool = std::move(left);
    poolStride *= 2;
  }
  llvm::Expected<LockstepPlace> place = run.keep(/*issued=*/true);
  if (!place)
    return place.takeError();
  pool.push_back(std::move(*place));
  return llvm::Error::success();
}

static bool isContent(const StateDifference &difference) {
  return difference.kind == StateDifference::Kind::Window || difference.kind == StateDifference::Kind::Memory;
}

/// The first pass. Everything is compared at every quiescent end of a window, at rest, until the states
/// differ; from there on only whether they stay so. If the targets' snapshots fail, or
/// a target does when it is looked at, that is in `whyNoSnapshots`, and the pass is of no use.
llvm::Error Bisection::walkSnapshots(Lockstep &run) {
  auto giveUp = [&](llvm::Error error) -> llvm::Error {
    Failure failure = toFailure(std::move(error));
    if (failure.cls == FailureClass::Tape || failure.cls == FailureClass::System)
      return llvm::make_error<Failure>(std::move(failure));
    whyNoSnapshots =
        failure.code == "restore-failed" ? failure.message : "at a look a target failed: " + failure.message;
    return startOver();
  };
  size_t stride = probeStride(boundaries.size(), options.maxProbes);
  size_t sinceKept = 0;
  poolStride = std::max<size_t>(1, (boundaries.size() + mostPlaces - 2) / (mostPlaces - 1));
  bool looksOn = true, relied = false; // Whether what differs stays so; whether a glance was enough.
  if (llvm::Error error = keepPlace(run))
    return giveUp(std::move(error));
  for (size_t i = 0; i < boundaries.size(); ++i) {
    if (llvm::Error error = run.runTo(boundaries[i].end))
      return error;
    // A difference that the host saw ends the walk: behind it the sides may do different things.
    if (run.stopped() || run.position() < boundaries[i].end)
      break;
    progress("comparing states", run.position(), source.reader().summary().packets);
    bool last = i + 1 == boundaries.size();
    if (!looksOn || (!last && i % stride)) {
      if (looksOn)
        ++report.coverage.windowsNotProbed[tooManyPlaces];
      continue;
    }
    Settled settled;
    llvm::Expected<std::optional<StateDifference>> difference = std::optional<StateDifference>();
    if (state && isFree && isContent(state->difference)) { // For that nothing need be put back.
      if (llvm::Error error = moveHistories(walked, boundaries[i].end))
        return error;
      difference = probe.compare(run, ProbeWindows | ProbeMemory, views(walked));
      ++report.probes;
    } else if (state && glances == Glances::True &&
               !last) { // Whether they are alike again is all there is to see.
      llvm::Expected<bool> alike = probe.alike(run);
      if (alike && !*alike) {
        ++report.probes;
        continue;
      }
      if (!alike)
        difference = alike.takeError();
    } else {
      relied |= glances == Glances::True && !state;
      // At a few places on the way, too, both have to say the same.
      bool both = last || (sinceKept + 1 == poolStride && pool.size() % 4 == 0);
      difference = lookHere(run, boundaries[i].end, both, state ? nullptr : &settled);
      if (difference && glances == Glances::Off && relied)
        return startOver();
    }
    if (!difference)
      return giveUp(difference.takeError());
    ++report.coverage.windowsProbed;
    if (!*difference) {
      sameAtBoundary.push_back(i);
      report.healed |= state.has_value();
      looksOn &= !state;
    } else if (!state) {
      state = StateFinding{**difference, i};
      looksOn = settled.comparable && !settled.unequal; // One that hangs would be waited for each time.
    }
    if (!state && ++sinceKept >= poolStride) {
      sinceKept = 0;
      if (llvm::Error error = keepPlace(run))
        return giveUp(std::move(error));
    }
  }
  return llvm::Error::success();
}

/// What was found is forgotten, and the first pass to be made again.
llvm::Error Bisection::startOver() {
  again = true;
  pool.clear();
  walked.clear();
  state.reset();
  sameAtBoundary.clear();
  report.healed = false;
  report.coverage.windowsProbed = 0;
  report.coverage.windowsNotProbed.erase(tooManyPlaces);
  return llvm::Error::success();
}

/// The packet at which the host saw them part, once more from the nearest place.
llvm::Error Bisection::confirmObserved() {
  uint64_t packet = report.observed->place.packet;
  const LockstepPlace *from = nullptr;
  for (const LockstepPlace &place : pool)
    if (place.packet <= packet)
      from = &place;
  if (!from)
    return llvm::Error::success();
  if (llvm::Error error = kept->goBack(*from, /*compare=*/true))
    return error;
  if (llvm::Error error = kept->runTo(packet + 1))
    return error;
  const std::optional<Divergence> &again = kept->divergence();
  if (again && again->place.packet == packet && again->offset == report.observed->offset)
    return llvm::Error::success();
  report.badIntermittent = true;
  report.notes.push_back("put back to a snapshot, the targets did not part again at packet " +
                         std::to_string(packet) + ": an endpoint does not repeat itself");
  return llvm::Error::success();
}

/// Plays on from the last place at or before `from` and looks at each point on the way. `onlyAtRest`: points
/// at which both sides stay busy are passed over and counted.
llvm::Expected<std::optional<Bisection::Interval>>
Bisection::stepFromPlace(uint64_t from, llvm::ArrayRef<uint64_t> points, unsigned parts, bool onlyAtRest) {
  const LockstepPlace *start = nullptr;
  for (const LockstepPlace &place : pool)
    if (place.packet <= from)
      start = &place;
  if (!start)
    return failSystem("internal", "no place to go back to before packet " + std::to_string(from));
  if (llvm::Error error = kept->goBack(*start))
    return error;
  std::vector<std::unique_ptr<History>> histories;
  uint64_t same = from;
  for (uint64_t point : points) {
    if (llvm::Error error = kept->runTo(point))
      return error;
    if (kept->position() < point)
      break;
    if (glances == Glances::True) {
      llvm::Expected<bool> alike = probe.alike(*kept);
      if (!alike)
        return alike.takeError();
      if (*alike) {
        ++report.probes;
        same = point;
        continue;
      }
    }
    if (llvm::Error error = moveHistories(histories, point))
      return error;
    Settled settled;
    llvm::Expected<std::optional<StateDifference>> difference =
        probeHere(*kept, parts, views(histories), &settled);
    if (!difference)
      return difference.takeError();
    progress("looking inside the window", point - from, points.back() - from);
    if (onlyAtRest &&
        settled.unequal) // That one of them hangs says more than what is not there because of it.
      difference = std::optional(differenceOf(*settled.unequal));
    if (onlyAtRest && !settled.comparable && !settled.unequal) {
      ++report.coverage.doorbellsNotSettled;
      continue;
    }
    if (*difference)
      return std::optional(Interval{**difference, same, point});
    same = point;
  }
  return std::optional<Interval>();
}

/// The quiescent places in [from, to), then the doorbells between two of them: where the states part first.
llvm::Expected<std::optional<Bisection::Interval>> Bisection::insideFromPlace(uint64_t from, uint64_t to,
                                                                              unsigned parts, bool withLast) {
  llvm::Expected<std::vector<uint64_t>> points = quiescentPoints(from, to, withLast);
  if (!points)
    return points.takeError();
  std::vector<uint64_t> left;
  size_t stride = (points->size() + lookedAtOneByOne - 1) / lookedAtOneByOne;
  for (size_t i = 0; i < points->size(); ++i)
    if ((points->size() - 1 - i) % stride == 0) // The last always.
      left.push_back((*points)[i]);
  llvm::Expected<std::optional<Interval>> found = stepFromPlace(from, left, parts, /*onlyAtRest=*/false);
  if (!found)
    return found;
  if (*found && stride > 1) {
    llvm::erase_if(*points,
                   [&](uint64_t point) { return point <= (*found)->same || point > (*found)->differs; });
    llvm::Expected<std::optional<Interval>> nearer =
        stepFromPlace((*found)->same, *points, parts, /*onlyAtRest=*/false);
    if (!nearer)
      return nearer;
    if (*nearer)
      found = std::move(nearer);
  }
  uint64_t same = *found ? (*found)->same : points->empty() ? from : points->back();
  uint64_t differs = *found ? (*found)->differs : to;
  llvm::Expected<std::vector<uint64_t>> doorbells = doorbellsIn(source, same, differs);
  if (!doorbells)
    return doorbells.takeError();
  for (uint64_t &doorbell : *doorbells)
    ++doorbell;
  if (doorbells->size() > lookedAtOneByOne)
    doorbells->resize(lookedAtOneByOne);
  if (doorbells->empty())
    return found;
  llvm::Expected<std::optional<Interval>> narrowed =
      stepFromPlace(same, *doorbells, parts, /*onlyAtRest=*/true);
  if (!narrowed || !*narrowed)
    return narrowed ? std::move(found) : std::move(narrowed);
  // What shows without the devices being given time is told, too.
  (*narrowed)->shownSame = *found ? same : from;
  (*narrowed)->shownDiffers = *found ? differs : (*narrowed)->differs;
  return narrowed;
}

} // namespace tapeback
