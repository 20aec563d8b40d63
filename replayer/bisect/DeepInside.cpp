// Inside the interval between two probes: where exactly the states parted, and which packet made them.
#include "format/Failure.h"
#include "replayer/bisect/Bisection.h"
#include "replayer/bisect/Settle.h"
#include "llvm/ADT/bit.h"

namespace tapeback {

/// Of the packets in one interval, more than this many probes are not made one by one.
constexpr size_t probedOneByOne = 32;

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
  llvm::Expected<std::unique_ptr<Lockstep>> run = startUncompared();
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
    if (difference && *difference)
      difference = probeAt(points[i], ProbeWindows | ProbeMemory); // At rest, too?
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

/// One side has done all that it was told and the other has not.
StateDifference Bisection::differenceOf(const Settled::Unequal &unequal) const {
  const RegisterDescription &reg = source.description(unequal.device)->registers[unequal.reg];
  StateDifference difference;
  difference.kind = StateDifference::Kind::Register;
  difference.device = unequal.device;
  difference.name = reg.name;
  difference.address = reg.offset;
  difference.wrong = (unequal.good ^ unequal.bad) & unequal.mask & reg.widthMask();
  difference.offset = difference.wrong ? unsigned(llvm::countr_zero(difference.wrong)) / 8 : 0;
  difference.good = unequal.good;
  difference.bad = unequal.bad;
  return difference;
}

/// An undisturbed prefix that may then work until both sides have done all that they were told.
llvm::Expected<std::optional<StateDifference>> Bisection::probeSettled(uint64_t end, unsigned parts,
                                                                       bool *comparable) {
  llvm::Expected<std::unique_ptr<Lockstep>> run = startUncompared();
  if (!run)
    return run.takeError();
  if (llvm::Error error = (*run)->runTo(end))
    return error;
  *comparable = false;
  if ((*run)->position() < end)
    return std::optional<StateDifference>();
  llvm::Expected<Settled> settled = settle(**run);
  if (!settled)
    return settled.takeError();
  report.drains += settled->waited;
  *comparable = settled->comparable || settled->unequal;
  if (settled->unequal)
    return std::optional(differenceOf(*settled->unequal));
  if (!*comparable)
    return std::optional<StateDifference>();
  std::vector<std::unique_ptr<History>> histories;
  if (llvm::Error error = moveHistories(histories, end))
    return error;
  ++report.probes;
  progress("probing", report.probes, 0);
  return probe.compare(**run, parts, views(histories));
}

/// Of the doorbells in [from, to), the first behind which the states differ once the commands are done.
/// Nothing if there are none, the devices do not become comparable, or they do not differ behind the last.
/// Letting them work at these places changes when things happen: a fault that needs the recorded timing may
/// not act, and is then named more coarsely.
llvm::Expected<std::optional<Bisection::Interval>> Bisection::narrowByDoorbells(uint64_t from, uint64_t to,
                                                                                unsigned parts) {
  std::optional<Interval> found;
  if (!isFree)
    return found;
  llvm::Expected<std::vector<uint64_t>> doorbells = doorbellsIn(source, from, to);
  if (!doorbells)
    return doorbells.takeError();
  std::vector<uint64_t> points = *doorbells;
  size_t same = 0;                // Points before this one are equal, or taken to be.
  std::optional<size_t> equal;    // The last that was found equal.
  size_t differs = points.size(); // The first known to differ.
  // Evaluates the first comparable point of [at, end); its index, or `end`.
  auto look = [&](size_t at, size_t end,
                  std::optional<StateDifference> *difference) -> llvm::Expected<size_t> {
    for (; at < end; ++at) {
      bool comparable = false;
      llvm::Expected<std::optional<StateDifference>> seen = probeSettled(points[at] + 1, parts, &comparable);
      if (!seen)
        return seen.takeError();
      *difference = *seen;
      if (comparable)
        break;
      ++report.coverage.doorbellsNotSettled;
    }
    return at;
  };
  auto note = [&](size_t at, const StateDifference &difference) {
    differs = at;
    found = Interval{difference, 0, points[at] + 1, {}, {}};
  };
  std::optional<StateDifference> difference;
  size_t bound = points.size();
  if (points.size() > probedOneByOne) {
    constexpr size_t triesAtTheEnd = 4; // The last few may not come to rest.
    for (size_t back = 1; back <= triesAtTheEnd && !found; ++back) {
      size_t last = points.size() - back;
      llvm::Expected<size_t> at = look(last, last + 1, &difference);
      if (!at)
        return at.takeError();
      if (*at == last && !difference)
        return found; // Healed, or never there when it is looked at so.
      if (*at == last)
        note(last, *difference);
    }
    if (!found)
      return found;
    bound = differs;
    report.notes.push_back(std::to_string(points.size()) +
                           " doorbells were searched by halves, not looked at one by one");
  }
  while (same < bound) {
    bool byHalves = points.size() > probedOneByOne;
    size_t middle = byHalves ? same + (bound - same) / 2 : same;
    llvm::Expected<size_t> at = look(middle, bound, &difference);
    if (!at)
      return at.takeError();
    if (*at == bound) {
      bound = middle; // Nothing to compare between there and the bound.
    } else if (difference) {
      note(*at, *difference);
      bound = byHalves ? middle : same;
    } else {
      equal = *at;
      same = *at + 1;
    }
  }
  if (!found)
    return found;
  bool adjacent = differs == 0 || equal == differs - 1;
  found->same = adjacent ? points[differs] : equal ? points[*equal] + 1 : from;
  return found;
}

/// Between the last boundary and what the host saw: a fault may act and show in one window.
llvm::Error Bisection::localiseTail() {
  constexpr uint64_t longest = 4096;
  uint64_t to = report.observed->place.packet;
  uint64_t from = boundaries.empty() ? 0 : boundaries.back().end;
  if (kept) {
    llvm::Expected<std::optional<Interval>> interval =
        insideFromPlace(std::max(from, to > longest ? to - longest : 0), to, probeAll, /*withLast=*/false);
    if (!interval)
      return interval.takeError();
    return *interval ? nameInterval(**interval) : llvm::Error::success();
  }
  llvm::Expected<std::optional<Interval>> narrowed = narrowByDoorbells(from, to, ProbeWindows | ProbeMemory);
  if (!narrowed)
    return narrowed.takeError();
  if (*narrowed)
    return nameState((*narrowed)->difference, (*narrowed)->same, (*narrowed)->differs);
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
  unsigned parts = !isFree ? unsigned(probeAll)
                   : state->difference.kind == StateDifference::Kind::Register ||
                           state->difference.kind == StateDifference::Kind::Counter
                       ? unsigned(ProbeRegisters)
                       : unsigned(ProbeWindows | ProbeMemory);
  auto notAgain = [&] {
    report.notes.push_back("the states differed at the end of window " +
                           std::to_string(boundaries[state->boundary].window) +
                           " once and not again: an endpoint does not repeat itself");
    report.badIntermittent = true;
    return llvm::Error::success();
  };
  if (kept) {
    llvm::Expected<std::optional<Interval>> interval = insideFromPlace(from, to, parts, /*withLast=*/true);
    if (!interval)
      return interval.takeError();
    return *interval ? nameInterval(**interval) : notAgain();
  }
  llvm::Expected<std::vector<uint64_t>> points = quiescentPoints(from, to, /*withLast=*/true);
  if (!points)
    return points.takeError();
  if (llvm::Error error = startFromKeyframe(from, to, parts))
    return error;
  size_t at = points->size() - 1;
  llvm::Expected<std::optional<StateDifference>> difference = lookAt(*points, &at, parts);
  if (!difference)
    return difference.takeError();
  if (!*difference)
    return notAgain();
  Interval interval{**difference, at ? (*points)[at - 1] : from, (*points)[at], {}, {}};
  // Several doorbells may lie between two quiescent places.
  llvm::Expected<std::optional<Interval>> narrowed =
      narrowByDoorbells(interval.same, interval.differs, parts);
  if (!narrowed)
    return narrowed.takeError();
  inside.reset();
  if (*narrowed) {
    (*narrowed)->shownSame = interval.same;
    (*narrowed)->shownDiffers = interval.differs;
    interval = **narrowed;
  }
  return nameInterval(interval);
}

/// What is told besides is where the difference shows by itself, without the devices being given time.
llvm::Error Bisection::nameInterval(const Interval &interval) {
  if (llvm::Error error = nameState(interval.difference, interval.same, interval.differs))
    return error;
  uint64_t same = interval.shownSame.value_or(interval.same);
  report.visibleAt = interval.shownDiffers.value_or(interval.differs) - 1;
  report.sameAt = same ? std::optional(same - 1) : std::nullopt;
  return llvm::Error::success();
}

WrittenThing Bisection::writtenThing(const StateDifference &difference) const {
  WrittenThing thing;
  thing.device = difference.device;
  thing.address = difference.address;
  thing.name = difference.name;
  switch (difference.kind) {
  case StateDifference::Kind::Window: thing.kind = WrittenThing::Kind::Window; break;
  case StateDifference::Kind::Memory: thing.kind = WrittenThing::Kind::Memory; break;
  case StateDifference::Kind::Counter: // No packet writes it: whoever set the device going last.
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
  llvm::Expected<std::vector<WriterRecord>> writers = std::vector<WriterRecord>();
  if (difference.kind != StateDifference::Kind::Counter)
    writers = findWriters(source, writtenThing(difference), differs, 1);
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
  bool isCounter = difference.kind == StateDifference::Kind::Counter;
  bool isRegister = difference.kind == StateDifference::Kind::Register || isCounter;
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
    const RegisterDescription *reg =
        description && !isCounter ? description->findByName(difference.name) : nullptr;
    found.reg = difference.name;
    found.space = isCounter ? "counters" : reg ? reg->space : "";
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
  report.stateNamed = difference;
  llvm::Expected<std::vector<WriterRecord>> writers = std::vector<WriterRecord>();
  if (!isCounter)
    writers = findWriters(source, writtenThing(difference), differs);
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
