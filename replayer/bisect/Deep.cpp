// The state behind what the host sees: where it first differs, and which packet made it so.
#include "format/Failure.h"
#include "replayer/bisect/Bisection.h"
#include "replayer/bisect/ProbeLog.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

/// Boundaries of which each gets a prefix of its own in the verification, if reading back would disturb.
constexpr size_t probedByPrefix = 256;

constexpr const char *onTheWay = "endpoint-failed";
static llvm::Error failedOnTheWay(uint64_t packet, const std::string &how = {}) {
  return failTarget(onTheWay,
                    "an endpoint failed at a probe or on the way to it, where it did not before" + how,
                    "packet " + std::to_string(packet), "it may be intermittent: use --intermittent");
}

llvm::Error Bisection::moveHistories(std::vector<std::unique_ptr<History>> &histories, uint64_t packet) {
  if (!start.keyframes.empty())
    return llvm::Error::success(); // What a keyframe restored was written by nobody on the tape.
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    if (device < histories.size()) {
      if (llvm::Error error = histories[device]->advanceTo(packet))
        return error;
      continue;
    }
    llvm::Expected<std::unique_ptr<History>> history =
        History::before(source, uint16_t(device), packet, /*contents=*/false);
    if (!history)
      return history.takeError();
    histories.push_back(std::move(*history));
  }
  return llvm::Error::success();
}

std::vector<const History *> Bisection::views(const std::vector<std::unique_ptr<History>> &histories) const {
  std::vector<const History *> result;
  for (const std::unique_ptr<History> &history : histories)
    result.push_back(history.get());
  return result;
}

llvm::Expected<std::unique_ptr<Lockstep>> Bisection::startUncompared() {
  Lockstep::Options lockstep;
  lockstep.player = options.player;
  lockstep.compare = lockstep.withTape = false;
  lockstep.issuedToBad = &report.packetsToBad;
  if (!inside)
    return Lockstep::start(source, endpoints, start, lockstep);
  lockstep.firstPacket = inside->part.firstPacket;
  return Lockstep::start(*inside->part.source, endpoints, inside->start, lockstep);
}

/// Fresh targets, brought to `end` without being looked at on the way, and there given the time to come to
/// rest: a reset takes a device longer than the host, which need not wait for its end.
llvm::Expected<std::optional<StateDifference>> Bisection::makeProbe(uint64_t end, unsigned parts) {
  llvm::Expected<std::unique_ptr<Lockstep>> run = startUncompared();
  if (!run)
    return run.takeError();
  if (llvm::Error error = (*run)->runTo(end))
    return error;
  if ((*run)->position() < end)
    return failedOnTheWay((*run)->position());
  auto probed = [&]() -> llvm::Expected<std::optional<StateDifference>> {
    llvm::Expected<Settled> settled = settle(**run);
    if (!settled)
      return settled.takeError();
    report.drains += settled->waited;
    std::vector<std::unique_ptr<History>> histories;
    if (llvm::Error error = moveHistories(histories, end))
      return error;
    progress("probing", report.probes, 0);
    llvm::Expected<std::optional<StateDifference>> difference = probe.compare(**run, parts, views(histories));
    if (difference && !*difference && settled->unequal && (parts & ProbeRegisters))
      difference = std::optional(differenceOf(*settled->unequal));
    return difference;
  };
  ++report.probes;
  llvm::Expected<std::optional<StateDifference>> difference = probed();
  if (difference)
    return difference;
  Failure failure = toFailure(difference.takeError());
  if (failure.cls != FailureClass::Target)
    return llvm::make_error<Failure>(std::move(failure));
  return failedOnTheWay(end, ": " + failure.message);
}

/// Made, or taken from the log.
llvm::Expected<std::optional<StateDifference>> Bisection::probeAt(uint64_t end, unsigned parts) {
  if (options.log)
    if (std::optional<LoggedProbe> known = options.log->probe(end, parts)) {
      noteStep(end, known->differs);
      if (!known->differs || known->difference)
        return known->difference;
      return failedOnTheWay(end);
    }
  llvm::Expected<std::optional<StateDifference>> difference = makeProbe(end, parts);
  LoggedProbe made;
  llvm::Error failed = llvm::Error::success();
  if (difference) {
    made = {difference->has_value(), *difference};
  } else {
    Failure failure = toFailure(difference.takeError());
    if (failure.code != onTheWay)
      return llvm::make_error<Failure>(std::move(failure));
    made.differs = true;
    failed = llvm::make_error<Failure>(std::move(failure));
  }
  noteStep(end, made.differs);
  if (options.log)
    if (llvm::Error error = options.log->add(end, parts, made))
      return llvm::joinErrors(std::move(error), std::move(failed));
  if (failed)
    return failed;
  return made.difference;
}

llvm::Error Bisection::search() {
  report.method = bisectMethodName(report.plan.method);
  uint64_t before = report.probes;
  if (report.plan.method == BisectPlan::Method::Search)
    if (llvm::Error error = searchByPrefixes(probeAll))
      return error;
  report.searchProbes = report.probes - before;
  before = report.probes;
  if (!usesSnapshots()) // With them every place was looked at already.
    if (llvm::Error error = verify())
      return error;
  report.verifyProbes = report.probes - before;
  before = report.probes;
  llvm::Error error = state ? localise() : report.observed ? localiseTail() : llvm::Error::success();
  report.insideProbes = report.probes - before;
  return error;
}

/// Halves the boundaries: right if the states, once different, stay different. verify() looks whether they
/// do.
llvm::Error Bisection::searchByPrefixes(unsigned parts) {
  if (boundaries.empty())
    return llvm::Error::success();
  size_t last = state ? state->boundary : boundaries.size();
  if (!last)
    return llvm::Error::success();
  auto probeBoundary = [&](size_t i) -> llvm::Expected<std::optional<StateDifference>> {
    llvm::Expected<std::optional<StateDifference>> difference = probeAt(boundaries[i].end, parts);
    if (difference && !*difference)
      sameAtBoundary.push_back(i);
    report.coverage.windowsProbed += bool(difference);
    return difference;
  };
  llvm::Expected<std::optional<StateDifference>> difference = probeBoundary(last - 1);
  if (!difference)
    return difference.takeError();
  if (!*difference)
    return llvm::Error::success();
  state = StateFinding{**difference, last - 1};
  size_t same = 0; // Boundaries before this index are taken to be equal.
  while (same < state->boundary) {
    size_t middle = same + (state->boundary - same) / 2;
    difference = probeBoundary(middle);
    if (!difference)
      return difference.takeError();
    if (*difference)
      state = StateFinding{**difference, middle};
    else
      same = middle + 1;
  }
  return llvm::Error::success();
}

/// One pass that looks at every boundary before the one found, because divergences heal. It disturbs the
/// targets (registers are read, windows may have to be read back), so what it finds counts only if an
/// undisturbed prefix confirms it.
llvm::Error Bisection::verify() {
  size_t count = state ? state->boundary : boundaries.size();
  if (!count)
    return llvm::Error::success();
  // Read-back takes transfers of its own, which may shift a fault away: where it is affordable, nothing is
  // disturbed.
  uint64_t packets = 0;
  for (size_t i = 0; i < count; ++i)
    packets += boundaries[i].end;
  if (!isFree && count <= probedByPrefix && count <= options.maxProbes && packets <= options.maxPrefixPackets)
    return verifyByPrefixes(count, probeAll);
  size_t stride = probeStride(count, options.maxProbes);
  unsigned parts = isFree ? unsigned(ProbeRegisters) : probeAll;
  llvm::Expected<std::unique_ptr<Lockstep>> run = startUncompared();
  if (!run)
    return run.takeError();
  std::vector<std::unique_ptr<History>> histories;
  uint64_t visited = 0;
  // From the back, so that the last boundary is always among them.
  for (size_t i = (count - 1) % stride; i < count; i += stride) {
    if (llvm::Error error = (*run)->runTo(boundaries[i].end))
      return error;
    if ((*run)->position() < boundaries[i].end) {
      report.notes.push_back("the verification pass ended at packet " + std::to_string((*run)->position()) +
                             ": an endpoint failed when it was looked at on the way");
      break;
    }
    if (llvm::Error error = moveHistories(histories, boundaries[i].end))
      return error;
    llvm::Expected<Settled> settled = settle(**run);
    if (!settled)
      return settled.takeError();
    report.drains += settled->waited;
    ++report.probes;
    ++visited;
    progress("verifying", boundaries[i].end, boundaries[count - 1].end);
    probe.transients.clear();
    llvm::Expected<std::optional<StateDifference>> difference = probe.compare(**run, parts, views(histories));
    if (!difference)
      return difference.takeError();
    if (!*difference && settled->unequal)
      difference = std::optional(differenceOf(*settled->unequal));
    std::string disturbing = probe.transients.empty() ? std::string() : probe.transients.begin()->first;
    if (!*difference && disturbing.empty())
      continue;
    if (!*difference) {
      report.notes.push_back(
          "looking at " + disturbing +
          " at the ends of windows gave a difference that did not last: what lasts was searched by "
          "undisturbed prefixes");
      return verifyByPrefixes(count, isFree ? unsigned(ProbeRegisters) : probeAll);
    }
    llvm::Expected<std::optional<StateDifference>> confirmed = probeAt(boundaries[i].end, probeAll);
    if (!confirmed)
      return confirmed.takeError();
    if (*confirmed) {
      report.healed |= llvm::any_of(sameAtBoundary, [&](size_t same) { return same > i; });
      state = StateFinding{**confirmed, i};
      break;
    }
    report.notes.push_back(
        "looking at " + (*difference)->name +
        " at the ends of windows disturbs the endpoints: it was compared by undisturbed prefixes");
    return verifyByPrefixes(count, isFree ? unsigned(ProbeRegisters) : probeAll);
  }
  if (isFree)
    return llvm::Error::success();
  report.coverage.windowsProbed = std::max(report.coverage.windowsProbed, visited);
  if (visited < count)
    report.coverage.windowsNotProbed[stride > 1 ? tooManyPlaces : "the verification pass ended early"] +=
        count - visited;
  return llvm::Error::success();
}

/// The same without disturbing: a prefix of its own for every boundary, as far as that is affordable.
llvm::Error Bisection::verifyByPrefixes(size_t count, unsigned parts) {
  uint64_t packets = 0;
  for (size_t i = 0; i < count; ++i)
    packets += boundaries[i].end;
  size_t stride = size_t(packets / std::max<uint64_t>(1, options.maxPrefixPackets)) + 1;
  uint64_t visited = 0;
  for (size_t i = (count - 1) % stride; i < count; i += stride) {
    llvm::Expected<std::optional<StateDifference>> difference = probeAt(boundaries[i].end, parts);
    if (!difference)
      return difference.takeError();
    ++visited;
    if (!*difference)
      continue;
    report.healed |= llvm::any_of(sameAtBoundary, [&](size_t same) { return same > i; });
    state = StateFinding{**difference, i};
    break;
  }
  if (!isFree)
    report.coverage.windowsProbed = std::max(report.coverage.windowsProbed, visited);
  if (!state && visited < count)
    report.coverage.windowsNotProbed["too long to be looked at undisturbed"] += count - visited;
  return llvm::Error::success();
}

} // namespace tapeback
