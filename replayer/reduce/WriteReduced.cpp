// The smallest part as a tape: with the bad target's answers, and a check that wants the good one's.
#include "format/Failure.h"
#include "format/File.h"
#include "format/TapeWriter.h"
#include "replayer/History.h"
#include "replayer/reduce/Reduce.h"
#include "triggers/OracleSignature.h"

namespace tapeback {
namespace {

class Writing {
public:
  Writing(const TapeImage &image, const Candidate &candidate, TapeSource &source, TapeWriter &writer)
      : image(image), candidate(candidate), source(source), writer(writer) {}

  llvm::Expected<ReducedTape> run(const CapturedTrial &captured);

private:
  llvm::Error tables();
  llvm::Error startKeyframes();
  llvm::Error packets(const Recaptured &good, const Recaptured &bad, size_t end);
  llvm::Error keep(size_t i, const Recaptured &good, const Recaptured &bad);
  llvm::Expected<BlobId> store(BlobId id);
  llvm::Error check(size_t at, const Recaptured &good, const Recaptured &bad, const Divergence &divergence);
  llvm::Error checkContent(size_t at, llvm::ArrayRef<uint8_t> wanted, llvm::ArrayRef<uint8_t> seen);
  llvm::Expected<OraclePlace> placeAt(uint16_t device);
  llvm::Error died(size_t at, const std::optional<MachineReport> &machine);
  llvm::Error marks(ReducedTape &written);
  llvm::Error putOracle(Packet oracle, PacketExtra extra, const Packet *read);
  llvm::Error append(const Packet &packet, const PacketExtra &extra) { return writer.append(packet, extra); }

  const TapeImage &image;
  const Candidate &candidate;
  TapeSource &source; ///< The candidate.
  TapeWriter &writer;
  std::vector<uint64_t> ordinals; ///< By packet of the candidate: its number on the new tape, or noLink.
  size_t neverAnswered = 0;       ///< The candidate's packet that is pending; none if beyond it.
  Outcome outcome;
};

llvm::Error Writing::tables() {
  TapeReader &parent = image.source->reader();
  for (const DeviceRecord &device : parent.devices())
    if (llvm::Expected<uint16_t> id = writer.addDevice(device); !id)
      return id.takeError();
  for (const std::string &space : parent.spaces().drop_front(parent.spaces().empty() ? 0 : 1))
    if (llvm::Expected<uint16_t> id = writer.addSpace(space); !id)
      return id.takeError();
  for (const TapeClock &clock : parent.clocks().drop_front(parent.clocks().empty() ? 0 : 1))
    if (llvm::Expected<uint8_t> id = writer.addClock(clock); !id)
      return id.takeError();
  return llvm::Error::success();
}

llvm::Expected<BlobId> Writing::store(BlobId id) {
  if (!id || writer.hasBlob(id))
    return id;
  llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.reader().blob(id);
  if (!content)
    return content.takeError();
  return writer.blob(*content);
}

/// A tape that begins in the middle of a run begins with keyframes.
llvm::Error Writing::startKeyframes() {
  TapeReader &parent = image.source->reader();
  for (uint64_t n = 0; n < parent.keyframeCount(); ++n) {
    llvm::Expected<Keyframe> keyframe = parent.keyframe(n);
    if (!keyframe)
      return keyframe.takeError();
    if (keyframe->packet != 0)
      break;
    for (const std::vector<KeyframeExtent> *extents : {&keyframe->memory, &keyframe->internal})
      for (const KeyframeExtent &extent : *extents)
        if (llvm::Expected<BlobId> stored = store(extent.content); !stored)
          return stored.takeError();
    if (llvm::Error error = writer.keyframe(std::move(*keyframe)))
      return error;
  }
  return llvm::Error::success();
}

/// What came of it on the bad target, as a recording would have it.
void answer(Packet &packet, PacketExtra &extra, const Observation &seen) {
  if (seen.state == Observation::State::NotIssued)
    return;
  packet.completion = seen.state == Observation::State::TimedOut ? Completion::TimedOut
                      : seen.state == Observation::State::Failed ? Completion::Failed
                                                                 : Completion::Done;
  switch (packet.kind) {
  case PacketKind::RegisterRead:
  case PacketKind::Poll:
  case PacketKind::MemoryWait:
  case PacketKind::CounterSnapshot: packet.value = seen.value; break;
  case PacketKind::Interrupt: extra.count = seen.value; break;
  default: break;
  }
}

llvm::Error Writing::keep(size_t i, const Recaptured &good, const Recaptured &bad) {
  Packet packet = candidate.packets[i];
  PacketExtra extra = candidate.extras[i];
  // Checks of memory say what their Acquire has; those that only the program could make mean nothing now.
  bool valueCheck = packet.kind == PacketKind::Oracle && extra.mask && !extra.length;
  if (packet.kind == PacketKind::Expectation || (packet.kind == PacketKind::Oracle && !valueCheck))
    return llvm::Error::success();
  if (linksToPacket(packet.kind) && extra.link != noLink)
    extra.link = ordinals[size_t(extra.link)];
  if (i < bad.observations.size()) {
    const Observation &seen = bad.observations[i];
    answer(packet, extra, seen);
    if (i == neverAnswered)
      packet.completion = Completion::Pending;
    if (valueCheck && i < good.observations.size()) {
      extra.expected = good.observations[i].value;
      packet.value = seen.value;
      packet.flags &= uint8_t(~Failed);
    }
    if (bringsContent(packet) && seen.state == Observation::State::Done && !bad.contents[i].empty()) {
      llvm::Expected<BlobId> stored = writer.blob(bad.contents[i]);
      if (!stored)
        return stored.takeError();
      extra.payload = *stored;
      packet.flags &= uint8_t(~(NotCaptured | Truncated));
    }
  }
  llvm::Expected<BlobId> stored = store(extra.payload);
  if (!stored)
    return stored.takeError();
  ordinals[i] = writer.packetCount();
  return append(packet, extra);
}

llvm::Error Writing::packets(const Recaptured &good, const Recaptured &bad, size_t end) {
  ordinals.assign(candidate.packets.size(), noLink);
  std::vector<std::unique_ptr<History>> histories;
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    llvm::Expected<std::unique_ptr<History>> history =
        History::before(source, uint16_t(device), 0, /*contents=*/true);
    if (!history)
      return history.takeError();
    histories.push_back(std::move(*history));
  }
  for (const WindowInfo &window : candidate.windows) {
    uint64_t last = std::min<uint64_t>(window.firstPacket + window.packetCount, end);
    for (uint64_t i = window.firstPacket; i < last; ++i)
      if (llvm::Error error = keep(size_t(i), good, bad))
        return error;
    bool quiescent = true;
    for (std::unique_ptr<History> &history : histories) {
      if (llvm::Error error = history->advanceTo(last))
        return error;
      quiescent &= history->state().quiescent();
    }
    if (last < end)
      if (llvm::Error error = writer.endWindow(quiescent))
        return error;
  }
  return llvm::Error::success();
}

llvm::Expected<OraclePlace> Writing::placeAt(uint16_t device) {
  llvm::Expected<std::unique_ptr<History>> history =
      History::before(source, device, candidate.packets.size(), /*contents=*/false);
  if (!history)
    return history.takeError();
  const ShadowState &state = (*history)->state();
  return OraclePlace{state.marker(), state.markerOccurrence(), state.commandsSinceMarker()};
}

/// The packet failed, and is recorded so: no check could say more.
llvm::Error Writing::died(size_t at, const std::optional<MachineReport> &machine) {
  const Packet &packet = candidate.packets[at];
  llvm::Expected<OraclePlace> place = placeAt(packet.device);
  if (!place)
    return place.takeError();
  outcome.kind = Outcome::Kind::Failed;
  outcome.packet = ordinals[at];
  outcome.text = "reduced: the target fails here";
  outcome.signature = machine ? machineDeathSignature(machine->signal, machine->exitCode, machine->lastWords)
                              : targetErrorSignature(packet, source.spaceName(packet.space),
                                                     source.description(packet.device), *place);
  return llvm::Error::success();
}

llvm::Error Writing::marks(ReducedTape &written) {
  llvm::Expected<std::vector<TapeReader::TriggerRecord>> parents = image.source->reader().triggers();
  if (!parents)
    return parents.takeError();
  for (const TapeReader::TriggerRecord &mark : *parents) {
    auto at = llvm::lower_bound(candidate.original, mark.packet);
    uint64_t ordinal = at != candidate.original.end() && *at == mark.packet
                           ? ordinals[size_t(at - candidate.original.begin())]
                           : noLink;
    if (ordinal == noLink) {
      ++written.marksLeftOut;
      continue;
    }
    if (llvm::Error error = writer.trigger(ordinal, mark.text))
      return error;
    ++written.marks;
  }
  return llvm::Error::success();
}

llvm::Error Writing::putOracle(Packet oracle, PacketExtra extra, const Packet *read) {
  static constexpr char name[] = "reduced";
  llvm::Expected<OraclePlace> place = placeAt(oracle.device);
  if (!place)
    return place.takeError();
  oracle.kind = PacketKind::Oracle;
  oracle.flags = Failed;
  oracle.completion = Completion::Done;
  llvm::Expected<BlobId> stored = writer.blob({reinterpret_cast<const uint8_t *>(name), sizeof(name) - 1});
  if (!stored)
    return stored.takeError();
  extra.payload = *stored;
  outcome.kind = Outcome::Kind::Failed;
  outcome.packet = writer.packetCount();
  outcome.text = "reduced: the bad target parts from the good one here";
  outcome.signature = checkSignature(oracle, extra, name, read, read ? source.spaceName(read->space) : "",
                                     source.description(oracle.device), *place);
  return append(oracle, extra);
}

llvm::Error Writing::checkContent(size_t at, llvm::ArrayRef<uint8_t> wanted, llvm::ArrayRef<uint8_t> seen) {
  Packet packet = candidate.packets[at];
  const PacketExtra &transfer = candidate.extras[at];
  size_t wrong = 0;
  while (wrong < std::min(wanted.size(), seen.size()) && wanted[wrong] == seen[wrong])
    ++wrong;
  if (wrong == std::min(wanted.size(), seen.size()))
    return failUsage("not-reproduced", "the contents no longer differ", "packet " + std::to_string(at),
                     "an intermittent failure needs --tries");
  // Of a transfer in rows, the row with the wrong byte.
  uint64_t row = transfer.count > 1 ? transfer.length / transfer.count : wanted.size();
  uint64_t number = row ? wrong / row : 0;
  wanted = wanted.slice(size_t(number * row)).take_front(size_t(row));
  seen = seen.slice(size_t(number * row)).take_front(size_t(row));
  wrong -= size_t(number * row);
  packet.address += number * (transfer.count > 1 ? transfer.expected : 0);
  packet.value = 0;
  packet.flags = 0;
  packet.origin = Origin::Program;
  PacketExtra extra;
  extra.length = wanted.size();
  llvm::Expected<BlobId> stored = writer.blob(seen);
  if (!stored)
    return stored.takeError();
  extra.payload = *stored;
  uint64_t acquire = writer.packetCount();
  packet.kind = PacketKind::Acquire;
  if (llvm::Error error = append(packet, extra))
    return error;
  stored = writer.blob(wanted);
  if (!stored)
    return stored.takeError();
  extra.payload = *stored;
  packet.kind = PacketKind::Expectation;
  packet.origin = Origin::Recorder;
  if (llvm::Error error = append(packet, extra))
    return error;
  packet.origin = Origin::Program;
  packet.value = seen[wrong];
  extra.payload = {};
  extra.expected = wanted[wrong];
  extra.mask = 0xff;
  extra.count = wrong;
  extra.link = acquire;
  return putOracle(packet, extra, nullptr);
}

/// Behind the packet where the two part.
llvm::Error Writing::check(size_t at, const Recaptured &good, const Recaptured &bad,
                           const Divergence &divergence) {
  const Packet &packet = candidate.packets[at];
  const Observation &wanted = good.observations[at], &seen = bad.observations[at];
  using State = Observation::State;
  bool bothDone = wanted.state == State::Done && seen.state == State::Done;
  if (bothDone && bringsContent(packet))
    return checkContent(at, good.contents[at], bad.contents[at]);
  Packet oracle;
  oracle.device = packet.device;
  oracle.thread = packet.thread;
  oracle.issueTime = oracle.completeTime = packet.completeTime ? packet.completeTime : packet.issueTime;
  PacketExtra extra;
  bool isValue = packet.kind == PacketKind::RegisterRead || packet.kind == PacketKind::Poll ||
                 packet.kind == PacketKind::MemoryWait || packet.kind == PacketKind::Oracle;
  // A wait that ends for the one and not for the other is looked at by the value at its end.
  const uint64_t waitMask = candidate.extras[at].mask;
  bool inVain = (packet.kind == PacketKind::Poll || packet.kind == PacketKind::MemoryWait) &&
                wanted.state == State::Done && seen.state == State::TimedOut &&
                ((wanted.value ^ seen.value) & waitMask);
  if (inVain) {
    extra.mask = waitMask;
    extra.expected = wanted.value & waitMask;
    extra.link = ordinals[at];
    oracle.value = seen.value;
    return putOracle(oracle, extra, &packet);
  }
  if (!bothDone || !isValue || !divergence.expected || wanted.value == seen.value)
    return putOracle(oracle, extra, nullptr); // Only the program could say that: the packet itself differs.
  unsigned width = packet.width ? packet.width : 8;
  extra.mask = width >= 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * width)) - 1;
  extra.expected = wanted.value;
  oracle.value = seen.value;
  Packet read = packet;
  uint64_t from = at;
  if (packet.kind == PacketKind::Oracle) {
    extra.mask = candidate.extras[at].mask;
    from = candidate.extras[at].link;
    if (from >= ordinals.size())
      return putOracle(oracle, extra, nullptr);
    read = candidate.packets[size_t(from)];
  }
  extra.link = ordinals[size_t(from)];
  return putOracle(oracle, extra, &read);
}

llvm::Expected<ReducedTape> Writing::run(const CapturedTrial &captured) {
  const Divergence &divergence = *captured.result.divergence;
  const size_t at = size_t(divergence.place.packet);
  const bool dies =
      captured.result.death || captured.bad.observations[at].state == Observation::State::Failed;
  // What a machine that is gone was asked last it never answered.
  neverAnswered = captured.result.machine && !captured.result.atRest ? at : candidate.packets.size();
  if (llvm::Error error = tables())
    return error;
  if (llvm::Error error = startKeyframes())
    return error;
  // A check that differs is written by check().
  bool isCheck = !dies && candidate.packets[at].kind == PacketKind::Oracle;
  if (llvm::Error error = packets(captured.good, captured.bad, at + (isCheck ? 0 : 1)))
    return error;
  if (llvm::Error error =
          dies ? died(at, captured.result.machine) : check(at, captured.good, captured.bad, divergence))
    return error;
  ReducedTape written;
  if (llvm::Error error = marks(written))
    return error;
  if (llvm::Error error = writer.endWindow(false))
    return error;
  llvm::Expected<TapeSummary> summary = writer.finish(outcome);
  if (!summary)
    return summary.takeError();
  written.summary = *summary;
  written.signature = *outcome.signature;
  return written;
}

/// A run of the candidate that failed as it should, and what came of each packet in it.
llvm::Expected<CapturedTrial> captureFailure(TapeSource &source, const Endpoints &endpoints,
                                             const TrialOptions &options, const FailureKind &failure,
                                             unsigned tries) {
  for (unsigned i = 0; i < tries; ++i) {
    llvm::Expected<CapturedTrial> captured = captureCandidate(source, endpoints, options);
    if (!captured)
      return captured.takeError();
    const std::optional<Divergence> &found = captured->result.divergence;
    // A check is written behind the last packet of both.
    bool whole = found && found->place.packet < captured->bad.observations.size() &&
                 (!endpoints.good || found->place.packet < captured->good.observations.size());
    if (whole && matchFailures(failure, captured->result.failure) >= SignatureMatch::SameKind)
      return captured;
  }
  return failUsage("not-reproduced", "the smallest part did not fail when it was to be written", {},
                   "the failure is intermittent: use --intermittent");
}

} // namespace

llvm::Expected<ReducedTape> writeReduced(const TapeImage &image, const Selection &selection,
                                         const Endpoints &endpoints, const TrialOptions &options,
                                         const FailureKind &failure, unsigned tries, llvm::StringRef out) {
  llvm::Expected<Candidate> candidate = makeCandidate(image, selection);
  if (!candidate)
    return candidate.takeError();
  llvm::Expected<std::unique_ptr<TapeSource>> source = sourceOf(image, *candidate);
  if (!source)
    return source.takeError();
  llvm::Expected<CapturedTrial> captured = captureFailure(**source, endpoints, options, failure, tries);
  if (!captured)
    return captured.takeError();
  Manifest manifest = image.source->reader().manifest();
  manifest.parentRoot = image.source->reader().summary().root;
  manifest.derivation = "reduce";
  // A name of its own: what a killed reduction left there is made again, a recording's would not be.
  WriterOptions writing;
  writing.partialPath = out.str() + ".reduce.partial";
  if (llvm::Error error = OutputFile::removeAbandoned(writing.partialPath))
    return error;
  llvm::Expected<std::unique_ptr<TapeWriter>> writer = TapeWriter::create(out, manifest, writing);
  if (!writer)
    return writer.takeError();
  llvm::Expected<ReducedTape> written = Writing(image, *candidate, **source, **writer).run(*captured);
  if (!written)
    (*writer)->discard();
  return written;
}

} // namespace tapeback
