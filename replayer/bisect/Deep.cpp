// The state behind what the host sees: where it first differs, and which packet made it so.
#include "format/Failure.h"
#include "replayer/bisect/Bisection.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

/// Of the packets in one interval, more than this many probes are not made one by one.
constexpr size_t probedOneByOne = 32;
/// Boundaries of which each gets a prefix of its own in the verification, if reading back would disturb.
constexpr size_t probedByPrefix = 256;

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

/// Fresh targets, brought to `end` without being looked at on the way.
llvm::Expected<std::optional<StateDifference>> Bisection::probeAt(uint64_t end, unsigned parts) {
  Lockstep::Options lockstep;
  lockstep.player = options.player;
  lockstep.compare = lockstep.withTape = false;
  llvm::Expected<std::unique_ptr<Lockstep>> run = Lockstep::start(source, endpoints, start, lockstep);
  if (!run)
    return run.takeError();
  if (llvm::Error error = (*run)->runTo(end))
    return error;
  if ((*run)->position() < end)
    return failTarget("endpoint-failed", "an endpoint failed on the way to a probe, where it did not before",
                      "packet " + std::to_string((*run)->position()), "it may be intermittent: use --runs");
  std::vector<std::unique_ptr<History>> histories;
  if (llvm::Error error = moveHistories(histories, end))
    return error;
  ++report.probes;
  progress("probing", report.probes, 0);
  return probe.compare(**run, parts, views(histories));
}

llvm::Error Bisection::search() {
  if (!isFree) {
    report.method = "deep-search";
    if (llvm::Error error = searchByPrefixes(probeAll))
      return error;
  } else {
    report.method = "deep-lockstep";
  }
  if (llvm::Error error = verify())
    return error;
  if (state)
    return localise();
  return report.observed ? localiseTail() : llvm::Error::success();
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
  size_t stride = options.maxProbes ? (count + options.maxProbes - 1) / options.maxProbes : count + 1;
  unsigned parts = isFree ? unsigned(ProbeRegisters) : probeAll;
  Lockstep::Options lockstep;
  lockstep.player = options.player;
  lockstep.compare = lockstep.withTape = false;
  llvm::Expected<std::unique_ptr<Lockstep>> run = Lockstep::start(source, endpoints, start, lockstep);
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
    ++report.probes;
    ++visited;
    progress("verifying", boundaries[i].end, boundaries[count - 1].end);
    probe.transients.clear();
    llvm::Expected<std::optional<StateDifference>> difference = probe.compare(**run, parts, views(histories));
    if (!difference)
      return difference.takeError();
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
    report.coverage.windowsNotProbed[stride > 1 ? "more windows than --max-probes"
                                                : "the verification pass ended early"] += count - visited;
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

//===- Inside the window
//-------------------------------------------------------------------------------------===//

/// Places behind packets of [from, to) at which every device is quiescent; with `withLast`, `to` always among
/// them.
llvm::Expected<std::vector<uint64_t>> Bisection::quiescentPoints(uint64_t from, uint64_t to, bool withLast) {
  std::vector<uint64_t> points;
  std::vector<std::unique_ptr<History>> histories;
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    llvm::Expected<std::unique_ptr<History>> history =
        History::before(source, uint16_t(device), from, /*contents=*/false);
    if (!history)
      return history.takeError();
    histories.push_back(std::move(*history));
  }
  for (uint64_t packet = from; packet < to; ++packet) {
    bool quiescent = true;
    for (std::unique_ptr<History> &history : histories) {
      if (llvm::Error error = history->advanceTo(packet + 1))
        return error;
      quiescent &= history->state().quiescent();
    }
    if (quiescent || (withLast && packet + 1 == to))
      points.push_back(packet + 1);
  }
  return points;
}

/// One lockstep that is looked at without side effect at each point. `at`: the first that differs.
llvm::Expected<std::optional<StateDifference>> Bisection::stepTo(llvm::ArrayRef<uint64_t> points,
                                                                 size_t *at) {
  Lockstep::Options lockstep;
  lockstep.player = options.player;
  lockstep.compare = lockstep.withTape = false;
  llvm::Expected<std::unique_ptr<Lockstep>> run = Lockstep::start(source, endpoints, start, lockstep);
  if (!run)
    return run.takeError();
  std::vector<std::unique_ptr<History>> histories;
  for (size_t i = 0; i < points.size(); ++i) {
    if (llvm::Error error = (*run)->runTo(points[i]))
      return error;
    if ((*run)->position() < points[i])
      break;
    if (llvm::Error error = moveHistories(histories, points[i]))
      return error;
    ++report.probes;
    llvm::Expected<std::optional<StateDifference>> difference =
        probe.compare(**run, ProbeWindows | ProbeMemory, views(histories));
    if (!difference || *difference) {
      *at = i;
      return difference;
    }
  }
  return std::optional<StateDifference>();
}

/// Undisturbed prefixes: one by one, or by halves if there are too many points.
llvm::Expected<std::optional<StateDifference>> Bisection::probePoints(llvm::ArrayRef<uint64_t> points,
                                                                      size_t *at, unsigned parts) {
  if (points.size() <= probedOneByOne) {
    for (size_t i = 0; i < points.size(); ++i) {
      llvm::Expected<std::optional<StateDifference>> difference = probeAt(points[i], parts);
      if (!difference || *difference) {
        *at = i;
        return difference;
      }
    }
    return std::optional<StateDifference>();
  }
  llvm::Expected<std::optional<StateDifference>> difference = probeAt(points.back(), parts);
  if (!difference || !*difference)
    return difference;
  std::optional<StateDifference> found = *difference;
  size_t same = 0, differs = points.size() - 1;
  while (same < differs) {
    size_t middle = same + (differs - same) / 2;
    difference = probeAt(points[middle], parts);
    if (!difference)
      return difference;
    if (*difference) {
      found = *difference;
      differs = middle;
    } else {
      same = middle + 1;
    }
  }
  *at = differs;
  report.notes.push_back(std::to_string(points.size()) +
                         " points inside the window were searched by halves, not looked at one by one");
  return found;
}

/// Windows and memory by stepping where that has no side effect; everything else by undisturbed prefixes.
llvm::Expected<std::optional<StateDifference>> Bisection::lookAt(llvm::ArrayRef<uint64_t> points, size_t *at,
                                                                 unsigned parts) {
  unsigned free = isFree ? parts & (ProbeWindows | ProbeMemory) : 0;
  std::optional<StateDifference> found;
  if (free) {
    llvm::Expected<std::optional<StateDifference>> difference = stepTo(points, at);
    if (!difference)
      return difference;
    found = *difference;
    if (found) // Registers matter only if they differ before that.
      points = points.take_front(*at + 1);
  }
  if (parts & ~free) {
    size_t place = 0;
    llvm::Expected<std::optional<StateDifference>> difference = probePoints(points, &place, parts & ~free);
    if (!difference)
      return difference;
    if (*difference && (!found || place < *at)) {
      found = *difference;
      *at = place;
    }
  }
  return found;
}

/// Between the last boundary and what the host saw: a fault may act and show in one window.
llvm::Error Bisection::localiseTail() {
  constexpr uint64_t longest = 4096;
  uint64_t to = report.observed->place.packet;
  uint64_t from = boundaries.empty() ? 0 : boundaries.back().end;
  from = std::max(from, to > longest ? to - longest : 0);
  if (from >= to)
    return llvm::Error::success();
  llvm::Expected<std::vector<uint64_t>> points = quiescentPoints(from, to, /*withLast=*/false);
  if (!points)
    return points.takeError();
  if (points->empty())
    return llvm::Error::success();
  size_t at = 0;
  llvm::Expected<std::optional<StateDifference>> difference = lookAt(*points, &at, probeAll);
  if (!difference)
    return difference.takeError();
  if (!*difference)
    return llvm::Error::success();
  return nameState(**difference, at ? (*points)[at - 1] : from, (*points)[at]);
}

llvm::Error Bisection::localise() {
  uint64_t from = state->boundary ? boundaries[state->boundary - 1].end : 0;
  uint64_t to = boundaries[state->boundary].end;
  llvm::Expected<std::vector<uint64_t>> points = quiescentPoints(from, to, /*withLast=*/true);
  if (!points)
    return points.takeError();
  size_t at = points->size() - 1;
  unsigned parts = !isFree ? unsigned(probeAll)
                   : state->difference.kind == StateDifference::Kind::Register
                       ? unsigned(ProbeRegisters)
                       : unsigned(ProbeWindows | ProbeMemory);
  llvm::Expected<std::optional<StateDifference>> difference = lookAt(*points, &at, parts);
  if (!difference)
    return difference.takeError();
  if (!*difference) {
    report.notes.push_back("the states differed at the end of window " +
                           std::to_string(boundaries[state->boundary].window) +
                           " once and not again: an endpoint does not repeat itself");
    report.badIntermittent = true;
    return llvm::Error::success();
  }
  return nameState(**difference, at ? (*points)[at - 1] : from, (*points)[at]);
}

WrittenThing Bisection::writtenThing(const StateDifference &difference) const {
  WrittenThing thing;
  thing.device = difference.device;
  thing.address = difference.address;
  thing.name = difference.name;
  switch (difference.kind) {
  case StateDifference::Kind::Window: thing.kind = WrittenThing::Kind::Window; break;
  case StateDifference::Kind::Memory: thing.kind = WrittenThing::Kind::Memory; break;
  case StateDifference::Kind::Register: {
    thing.kind = WrittenThing::Kind::Register;
    const Description *description = source.description(difference.device);
    const RegisterDescription *reg = description ? description->findByName(difference.name) : nullptr;
    std::vector<std::string> names = source.spaceNames();
    for (size_t i = 0; reg && i < names.size(); ++i)
      if (names[i] == reg->space)
        thing.space = uint16_t(i);
    break;
  }
  }
  return thing;
}

/// Of the packets [same, differs), the one that made the states differ: whoever wrote the byte or register
/// last, if that was here; otherwise the last that set the device going, or wrote to it; otherwise the last.
llvm::Expected<uint64_t> Bisection::guiltyPacket(const StateDifference &difference, uint64_t same,
                                                 uint64_t differs) {
  if (differs - same == 1)
    return same;
  llvm::Expected<std::vector<WriterRecord>> writers =
      findWriters(source, writtenThing(difference), differs, 1);
  if (!writers)
    return writers.takeError();
  if (!writers->empty() && writers->front().place.packet >= same && writers->front().place.packet < differs)
    return writers->front().place.packet;
  std::optional<uint64_t> started, written;
  Packet packet;
  PacketExtra extra;
  for (uint64_t at = same; at < differs; ++at) {
    if (llvm::Error error = source.packetAt(at, packet, extra))
      return error;
    if (packet.device != difference.device || packet.kind != PacketKind::RegisterWrite)
      continue;
    written = at;
    if (startsActivity(source, packet))
      started = at;
  }
  return started ? *started : written ? *written : differs - 1;
}

llvm::Error Bisection::nameState(const StateDifference &difference, uint64_t same, uint64_t differs) {
  report.visibleAt = differs - 1;
  if (same)
    report.sameAt = same - 1;
  // What the host saw at or before that place it saw first.
  if (report.observed && report.observed->place.packet < differs)
    return llvm::Error::success();
  llvm::Expected<uint64_t> guilty = guiltyPacket(difference, same, differs);
  if (!guilty)
    return guilty.takeError();
  Packet packet;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(*guilty, packet, extra))
    return error;
  llvm::Expected<uint64_t> window = source.reader().windowOfPacket(*guilty);
  if (!window)
    return window.takeError();
  Divergence found;
  found.place = {packet.device, packet.thread, *window, *guilty, std::nullopt, 0, std::nullopt, {}};
  found.place.device = difference.device;
  bool isRegister = difference.kind == StateDifference::Kind::Register;
  found.rule = isRegister ? Rule::ValueDiffers : Rule::ContentDiffers;
  found.grade = gradeOf(found.rule);
  const char *kind = packetKindName(packet.kind);
  found.kind = kind ? kind : "unknown-" + std::to_string(unsigned(packet.kind));
  found.address = difference.address;
  found.offset = difference.offset;
  found.expected = difference.good;
  found.actual = difference.bad;
  found.prefix = packet.flags & Prefix;
  const Description *description = source.description(difference.device);
  if (isRegister) {
    const RegisterDescription *reg = description ? description->findByName(difference.name) : nullptr;
    found.reg = difference.name;
    found.space = reg ? reg->space : "";
    found.field = reg ? description->fieldOf(*reg, difference.wrong) : "";
  } else {
    found.space = difference.name;
    bool access = packet.kind == PacketKind::RegisterWrite || packet.kind == PacketKind::RegisterRead;
    if (access && description)
      if (const RegisterDescription *reg =
              description->find(source.spaceName(packet.space), packet.address, packet.width))
        found.reg = reg->name;
  }
  report.first = found;
  llvm::Expected<std::vector<WriterRecord>> writers = findWriters(source, writtenThing(difference), differs);
  if (!writers)
    return writers.takeError();
  report.writers = std::move(*writers);
  // The tape may not tell (a device sets its own status); the probes do: this packet changed it.
  if (report.writers.empty() || report.writers.front().place.packet < same) {
    WriterRecord record;
    record.place = found.place;
    record.kind = found.kind;
    record.address = packet.address;
    record.value = packet.value;
    record.wrote = difference.name + ", as the probes before and after it show";
    if (packet.kind == PacketKind::RegisterWrite || packet.kind == PacketKind::RegisterRead) {
      record.space = source.spaceName(packet.space);
      if (description)
        if (const RegisterDescription *reg = description->find(record.space, packet.address, packet.width))
          record.reg = reg->name;
    }
    report.writers.insert(report.writers.begin(), std::move(record));
  }
  for (WriterRecord &writer : report.writers)
    if (llvm::Error error = completePlace(source, writer.place))
      return error;
  return llvm::Error::success();
}

} // namespace tapeback
