// What goes out of the collector: packets, windows, keyframes, losses, and the outcome.
#include "format/ContentId.h"
#include "recorder/Collector.h"
#include "recorder/CollectorParts.h"
#include <algorithm>
#include <csignal>
#include <cstring>

using namespace llvm;

namespace tapeback {

/// Ordinals of packets that are seen but not recorded: their links mean something to the shadow state only.
static constexpr uint64_t unrecordedOrdinal = uint64_t(1) << 62;
static constexpr size_t maxMarkers = 65536;

/// Without a link to what was not recorded.
static PacketExtra onTape(const RingPacket &ring) {
  PacketExtra extra = ring.extra;
  if (linksToPacket(ring.packet.kind) && extra.link >= unrecordedOrdinal)
    extra.link = noLink;
  return extra;
}

static StringRef nameOf(ArrayRef<uint8_t> payload) {
  return StringRef(reinterpret_cast<const char *>(payload.data()), payload.size());
}

/// True if the writer took it. After a failure nothing is written any more; what comes is counted.
bool Collector::wrote(Error error) {
  if (!error)
    return !facts.writeFailure;
  Failure failure = toFailure(std::move(error));
  if (!facts.writeFailure)
    facts.writeFailure.emplace(std::move(failure));
  return false;
}

bool Collector::quiescent() const {
  return std::all_of(byNumber.begin(), byNumber.end(),
                     [](const Device *device) { return device->shadow->quiescent(); });
}

void Collector::resolveLink(RingPacket &ring) {
  // A descriptor's link is its activity, not a record.
  if (ring.packet.kind == PacketKind::DmaDescriptor)
    return;
  uint64_t sequence = ring.extra.link;
  ring.extra.link = noLink;
  if (!linksToPacket(ring.packet.kind))
    return;
  if (std::optional<uint64_t> ordinal = ordinals.find(sequence))
    ring.extra.link = *ordinal;
  if (ring.packet.kind == PacketKind::DmaCompletion || ring.packet.kind == PacketKind::SpanEnd)
    ordinals.erase(sequence);
}

void Collector::put(Item &item) {
  RingPacket &ring = item.ring;
  if (!item.payload.empty()) {
    ring.extra.payload = contentId(item.payload);
    if (ring.packet.kind == PacketKind::DmaDescriptor)
      contents.add(ring.extra.payload, item.payload);
  }
  resolveLink(ring);
  if (phase != Phase::Recording) {
    uint64_t ordinal = unrecordedOrdinal + facts.notRecorded;
    ++facts.notRecorded;
    ++leftOut;
    if (phase == Phase::Before) {
      remember(item, ordinal);
      apply(ordinal, item);
    }
    return;
  }
  flushLoss();
  Device &device = deviceOf(ring.packet);
  if (device.keyframeDue && ring.packet.kind != PacketKind::Open && ring.packet.origin == Origin::Program) {
    // After the reset that opening a device includes, its state is known.
    if (ring.packet.kind != PacketKind::DmaCompletion)
      endDueWindow();
    keyframe(device);
  }
  uint64_t ordinal = record(item);
  remember(item, ordinal);
  apply(ordinal, item);
  afterRecord(item, ordinal);
  if (options.observer)
    observe(ordinal, ring.packet, onTape(ring), item.payload);
}

/// Shows a packet that was put on the tape, and does what is wished for then.
void Collector::observe(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                        ArrayRef<uint8_t> payload) {
  options.observer->packet(ordinal, packet, extra, payload);
  if (const ObserverWishes *wishes = options.observer->takeWishes())
    carryOut(ordinal, *wishes);
}

void Collector::carryOut(uint64_t ordinal, const ObserverWishes &wished) {
  // Markers are shown to the observer, which may wish again: what it holds changes under us.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const ObserverWishes wishes = wished;
  for (const std::string &marker : wishes.markers) {
    if (phase != Phase::Recording || byNumber.empty())
      return;
    Item item;
    item.ring.packet.kind = PacketKind::Marker;
    item.ring.packet.origin = Origin::Recorder;
    item.ring.packet.device = byNumber.front()->number;
    item.ring.packet.issueTime = item.ring.packet.completeTime = present;
    item.payload.assign(marker.begin(), marker.end());
    put(item);
  }
  if (wishes.stop && phase == Phase::Recording)
    endRecording(ordinal, wishes.stopText);
}

void Collector::remember(const Item &item, uint64_t ordinal) {
  PacketKind kind = item.ring.packet.kind;
  ordinals.add(item.sequence, ordinal, item.ring.packet,
               kind == PacketKind::DmaDescriptor || kind == PacketKind::SpanBegin);
}

/// Writes the packet and returns its ordinal (meaningless after a write failure).
uint64_t Collector::record(Item &item) {
  RingPacket &ring = item.ring;
  if (ring.packet.kind != PacketKind::DmaCompletion)
    endDueWindow();
  if (ring.packet.kind == PacketKind::Marker)
    wrote(writer.endWindow(quiescent()));
  uint64_t ordinal = writer.packetCount();
  bool taken = !facts.writeFailure;
  if (taken && !item.payload.empty()) {
    Expected<BlobId> id = writer.blob(item.payload);
    if (id)
      ring.extra.payload = *id;
    else
      taken = wrote(id.takeError());
  }
  if (!taken || !wrote(writer.append(ring.packet, onTape(ring))))
    ++facts.diskErrors;
  return ordinal;
}

void Collector::apply(uint64_t ordinal, const Item &item) {
  deviceOf(item.ring.packet)
      .shadow->apply(ordinal, item.ring.packet, item.ring.extra, [&](BlobId id) -> ArrayRef<uint8_t> {
        return id == item.ring.extra.payload ? ArrayRef<uint8_t>(item.payload) : contents.find(id);
      });
}

void Collector::afterRecord(const Item &item, uint64_t ordinal) {
  const Packet &packet = item.ring.packet;
  if (packet.kind == PacketKind::Marker)
    countMarker(item);
  if (packet.kind == PacketKind::Oracle && (packet.flags & Failed))
    seeCheck(item, ordinal);
  if (packet.completion == Completion::Failed)
    seeTargetFailure(item, ordinal);
  if (item.starts)
    wrote(writer.trigger(ordinal, "start: " + options.start.text()));
  if (deviceOf(packet).shadow->atSynchronisation())
    windowDue = true;
  if (options.stop && meets(*options.stop, item))
    endRecording(ordinal, "stop: " + options.stop->text());
}

/// Conditions name devices by the order of the command line, packets by the order of opening.
bool Collector::meets(StartStopCondition &condition, const Item &item) const {
  Packet packet = item.ring.packet;
  StringRef name = packet.kind == PacketKind::Marker ? nameOf(item.payload) : StringRef();
  packet.device = deviceOf(packet).index;
  return condition.matches(packet, spaceName(packet.space), name);
}

/// As a reader of the tape counts them: those that are on it.
void Collector::countMarker(const Item &item) {
  Device &device = deviceOf(item.ring.packet);
  device.marker = nameOf(item.payload).str();
  device.commandsBefore = device.shadow->commands();
  auto known = device.occurrences.find(device.marker);
  if (known != device.occurrences.end())
    device.occurrence = ++known->second;
  else if (device.occurrences.size() < maxMarkers)
    device.occurrence = device.occurrences[device.marker] = 1;
  else
    device.occurrence = 0;
}

/// Ends the window that the last packet made due, and takes keyframes if it is time and the devices are
/// quiet.
void Collector::endDueWindow() {
  if (!windowDue)
    return;
  windowDue = false;
  bool quiet = quiescent();
  wrote(writer.endWindow(quiet));
  if (!quiet || !options.keyframeInterval || writer.packetCount() - lastKeyframe < options.keyframeInterval)
    return;
  lastKeyframe = writer.packetCount();
  for (Device *device : byNumber)
    keyframe(*device);
}

void Collector::keyframe(Device &device) {
  device.keyframeDue = false;
  if (facts.writeFailure)
    return;
  Expected<Keyframe> taken =
      device.shadow->keyframe([this](ArrayRef<uint8_t> content) { return writer.blob(content); });
  if (!taken) {
    wrote(taken.takeError());
    return;
  }
  taken->device = device.number;
  windowDue = false;
  wrote(writer.endWindow(quiescent()));
  wrote(writer.keyframe(std::move(*taken)));
}

/// From now on packets are recorded. If some were not, the tape begins with the state that they left and
/// their number.
void Collector::beginRecording() {
  phase = Phase::Recording;
  facts.started = true;
  for (Device *device : byNumber) {
    device->commandsBefore = device->shadow->commands();
    keyframe(*device);
  }
  lastKeyframe = writer.packetCount();
  // Held packets are recorded after all; they were not counted yet.
  if (leftOut)
    putLoss(LossCause::NotRecording, leftOut);
  leftOut = 0;
}

void Collector::endRecording(uint64_t ordinal, const std::string &why) {
  windowDue = false;
  wrote(writer.endWindow(quiescent()));
  wrote(writer.trigger(ordinal, why));
  phase = Phase::After;
  facts.stopped = true;
}

void Collector::putLoss(LossCause cause, uint64_t count) {
  if (phase != Phase::Recording && cause != LossCause::NotRecording)
    return; // Counted in the report; the tape leaves that part out anyway.
  Packet packet;
  packet.kind = PacketKind::Loss;
  packet.origin = Origin::Recorder;
  packet.address = uint64_t(cause);
  packet.value = count;
  packet.issueTime = packet.completeTime = present;
  if (cause != LossCause::NotRecording)
    endDueWindow();
  uint64_t ordinal = writer.packetCount();
  if (facts.writeFailure || !wrote(writer.append(packet))) {
    ++facts.diskErrors;
    return;
  }
  if (options.observer)
    observe(ordinal, packet, {}, {});
  // What was not recorded on purpose was seen all the same: the shadow state knows it.
  if (cause == LossCause::NotRecording)
    return;
  for (Device *device : byNumber)
    device->shadow->apply(ordinal, packet, {}, {});
}

void Collector::flushLoss() {
  if (!lossCounted && !lossUncounted)
    return;
  uint64_t count = lossUncounted ? unknownCount : lossCounted;
  lossCounted = 0;
  lossUncounted = false;
  putLoss(LossCause::Unknown, count);
}

void Collector::putPending(Item &item) {
  item.ring.packet.completion = Completion::Pending;
  item.ring.packet.completeTime = 0;
  if (item.ring.packet.kind != PacketKind::RegisterWrite && item.ring.packet.kind != PacketKind::Reset)
    item.ring.packet.value = 0;
  ++facts.pending;
  put(item);
}

/// A Tick says that nothing happened: it needs several looks at an empty ring, so that a recorder which was
/// held up itself says nothing of the program.
void Collector::tick(uint64_t now) {
  constexpr unsigned enoughLooks = 4;
  if (writer.packetCount() != quietPackets) {
    quietPackets = writer.packetCount();
    quietSince = now;
    quietLooks = 0;
    return;
  }
  if (++quietLooks < enoughLooks || now - quietSince < options.tickIntervalNs || byNumber.empty() ||
      phase != Phase::Recording || facts.writeFailure)
    return;
  Item item;
  item.ring.packet.kind = PacketKind::Tick;
  item.ring.packet.origin = Origin::Recorder;
  item.ring.packet.device = byNumber.front()->number;
  item.ring.packet.issueTime = item.ring.packet.completeTime = now;
  bool onlyTicks = flushedPackets == quietPackets;
  put(item);
  // Weeks of silence must not become a block a second.
  if (onlyTicks)
    flushedPackets = writer.packetCount();
  quietPackets = writer.packetCount();
  quietSince = now;
  quietLooks = 0;
}

void Collector::seenUntil(uint64_t now) {
  if (!options.observer || phase != Phase::Recording || !writer.packetCount())
    return;
  underway.visit([&](const Item &item) { now = std::min(now, item.ring.packet.issueTime); });
  options.observer->tick(now);
  if (const ObserverWishes *wishes = options.observer->takeWishes())
    carryOut(writer.packetCount() - 1, *wishes);
}

void Collector::idle(uint64_t now) {
  if (options.tickIntervalNs)
    tick(now);
  if (now - lastFlush < options.flushIntervalNs)
    return;
  flush(now);
}

bool Collector::flush(uint64_t now) {
  lastFlush = now;
  if (!facts.writeFailure && writer.packetCount() != flushedPackets) {
    wrote(writer.flush());
    flushedPackets = writer.packetCount();
  }
  return !facts.writeFailure && held.empty();
}

OraclePlace Collector::placeOf(const Device &device) const {
  return {device.marker, device.occurrence, device.shadow->commands() - device.commandsBefore};
}

void Collector::seeCheck(const Item &item, uint64_t ordinal) {
  if (result.kind == Outcome::Kind::Failed)
    return; // The first one is the failure; what follows may be its consequence.
  const Packet &packet = item.ring.packet;
  std::optional<Packet> source;
  if (item.ring.extra.link != noLink)
    source = ordinals.findOrdinal(item.ring.extra.link);
  StringRef name = nameOf(item.payload);
  result.kind = Outcome::Kind::Failed;
  result.signature = checkSignature(packet, item.ring.extra, name, source ? &*source : nullptr,
                                    source ? spaceName(source->space) : StringRef(),
                                    deviceOf(packet).description(), placeOf(deviceOf(packet)));
  result.packet = ordinal;
  result.text = ("check '" + name + "' did not hold").str();
}

void Collector::seeTargetFailure(const Item &item, uint64_t ordinal) {
  if (targetFailure || result.kind == Outcome::Kind::Failed)
    return;
  const Packet &packet = item.ring.packet;
  Outcome failure;
  failure.kind = Outcome::Kind::Failed;
  failure.signature = targetErrorSignature(packet, spaceName(packet.space), deviceOf(packet).description(),
                                           placeOf(deviceOf(packet)));
  failure.packet = ordinal;
  failure.text =
      "the target failed in an operation (" + failure.signature->name + " " + failure.signature->object + ")";
  targetFailure = std::move(failure);
}

void Collector::judge(const ProgramFate &fate) {
  bool died = fate.signal.value_or(0) != 0 || fate.exit.value_or(0) != 0;
  std::string end;
  if (fate.signal.value_or(0) != 0) {
    const char *name = strsignal(*fate.signal);
    end =
        "the program was ended by signal " + std::to_string(*fate.signal) + " (" + (name ? name : "?") + ")";
  } else if (fate.exit) {
    end = "the program exited with " + std::to_string(*fate.exit);
  }
  if (result.kind != Outcome::Kind::Failed) {
    if (died && targetFailure) {
      result = *targetFailure;
    } else if (died) {
      result.kind = Outcome::Kind::Failed;
      const Device *device = byNumber.empty() ? nullptr : byNumber.front();
      for (const Device *one : byNumber)
        if (!one->marker.empty())
          device = one;
      result.signature = diedSignature(fate.signal.value_or(0), fate.exit.value_or(0),
                                       device ? placeOf(*device) : OraclePlace());
      if (writer.packetCount())
        result.packet = writer.packetCount() - 1;
    } else if (fate.exit) {
      result.kind = Outcome::Kind::Passed;
    }
  }
  result.programExit = fate.exit;
  result.programSignal = fate.signal;
  if (!end.empty())
    result.text += (result.text.empty() ? "" : "; ") + end;
}

Expected<TapeSummary> Collector::finish(const ProgramFate &fate) {
  releaseHeld();
  std::vector<Item> pending = underway.takeAll();
  underwayBytes = 0;
  std::sort(pending.begin(), pending.end(), [](const Item &a, const Item &b) {
    return std::pair(a.ring.packet.issueTime, a.sequence) < std::pair(b.ring.packet.issueTime, b.sequence);
  });
  for (Item &item : pending)
    putPending(item);
  if (phase == Phase::Recording)
    flushLoss();
  endDueWindow();
  if (leftOut && (phase == Phase::After || !facts.started))
    putLoss(LossCause::NotRecording, leftOut);
  if (phase == Phase::Recording)
    wrote(writer.endWindow(quiescent()));
  if (options.observer)
    options.observer->ended();
  judge(fate);
  if (!facts.writeFailure) {
    Expected<TapeSummary> summary = writer.finish(result);
    if (summary)
      return summary;
    wrote(summary.takeError());
  }
  // What the writer had taken, but could not put into the file any more.
  facts.diskErrors += writer.packetCount() - writer.packetsInFile();
  return make_error<Failure>(*facts.writeFailure);
}

} // namespace tapeback
