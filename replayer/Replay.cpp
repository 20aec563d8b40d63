#include "replayer/Replay.h"
#include "format/Failure.h"
#include "replayer/History.h"
#include "replayer/Rows.h"
#include "replayer/WindowDigest.h"
#include "replayer/repeat/Checkpoint.h"
#include "triggers/OracleSignature.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

using State = Observation::State;

const char *verdictName(Verdict verdict) {
  switch (verdict) {
  case Verdict::Match: return "match";
  case Verdict::Divergence: return "divergence";
  case Verdict::Incomplete: return "incomplete";
  case Verdict::Error: return "error";
  }
  return "error";
}

const char *replayStartName(ReplayStart start) {
  constexpr const char *names[replayStartCount] = {"reset", "keyframe", "prefix", "snapshot"};
  return unsigned(start) < replayStartCount ? names[unsigned(start)] : names[0];
}

/// One pass over one tape.
class ReplayRun {
public:
  ReplayRun(TapeSource &source, const ReplayOptions &options)
      : source(source), options(options), cursor(source.reader()) {}

  llvm::Expected<ReplayReport> run(llvm::ArrayRef<Target *> targets);
  /// As far as `there` had got at the checkpoint; the rest is the same again.
  static llvm::Expected<ReplayReport> from(Checkpoint &checkpoint, const ReplayOptions &options);

private:
  ReplayRun(const ReplayRun &) = default;
  std::shared_ptr<ReplayRun> copy() const;
  bool wantsOneByOne() const;
  llvm::Error takeStart();
  void takeCheckpoint();
  void noteRestoreFailed(llvm::Error error);
  llvm::Expected<ReplayReport> finish(uint64_t begin);
  llvm::Error openTrace();
  llvm::Error play(uint64_t begin);
  llvm::Expected<bool> mayGoOn(const PacketBatch &batch, size_t index);
  llvm::Error grade(const PacketBatch &batch, size_t index, const Observation &actual);
  llvm::Error compare(const Packet &packet, const PacketExtra &extra, const Observation &expected,
                      const Observation &actual, ObservedSide &expectedSide, Comparison &comparison);
  llvm::Expected<bool> arrivesLater(const Packet &packet, const PacketExtra &extra,
                                    llvm::ArrayRef<uint8_t> expected);
  Rule lossRule(const Packet &packet);
  Rule adjust(Rule rule, const Packet &packet, const PacketExtra &extra, const Observation &actual);
  void noteFailures(const Packet &packet, const PacketExtra &extra, uint64_t ordinal, Rule rule,
                    const Observation &actual);
  llvm::Error noteDivergence(const Packet &packet, uint64_t ordinal, Comparison comparison,
                             const Observation &actual);
  void digest(const Packet &packet, Rule rule, ObservedSide expected, ObservedSide actual);
  void endWindow();
  std::string reasonToStop() const;
  llvm::Error settle();
  llvm::Error conclude();
  llvm::Error concludeSignature();
  void decideReproduced(const Signature &recorded);

  TapeSource &source;
  ReplayOptions options;
  WindowCursor cursor;
  StartState start;
  std::shared_ptr<Player> player; ///< Of this run alone: who copies a run copies it, too.
  ObservationLog log;
  ReplayReport report;
  std::optional<RangeTrace> trace;
  WindowDigest recordedChain, replayedChain;
  PolicyCounts policies;

  static constexpr size_t mostAtOnce = 256; ///< What came of them stays in the nearest cache.
  bool unpinned = false;
  bool oneByOne = false; ///< Each packet is graded before the next is issued.
  bool restoreFailed = false;
  bool diedAtRest = false; ///< The target failed after the last packet.
  bool answers = true;
  bool inWindow = false, windowDiverged = false;
  uint64_t presentWindow = 0;
  bool branched = false; ///< The real program would have gone another way by now.
  bool lost = false;     ///< Something that the tape lacks may have changed the state.
  bool gap = false;      ///< Recording was off; matters once something follows.
  bool playedAny = false;
  unsigned timeouts = 0, targetErrors = 0, settled = 0;
  llvm::DenseSet<uint64_t> diverged; ///< Packets that differ, for what refers back to them. Bounded.
  bool inputMissing = false;         ///< The device was given something that the tape does not have.
  llvm::DenseSet<uint64_t> unknown;  ///< Packets whose difference may come of that. Bounded.

  /// The first thing in this run that says "failed".
  struct FailureEvent {
    uint64_t ordinal;
    Packet packet;
    PacketExtra extra;
    bool targetError;
  };
  std::optional<FailureEvent> firstFailure, firstTargetFailure;
  bool failureUnknown = false; ///< A check that failed in the recording could not be redone.
};

namespace {

bool isProgramOperation(const Packet &packet) {
  if (packet.origin == Origin::Recorder)
    return false;
  switch (packet.kind) {
  case PacketKind::RegisterRead:
  case PacketKind::RegisterWrite:
  case PacketKind::Poll:
  case PacketKind::MemoryRead:
  case PacketKind::MemoryWait:
  case PacketKind::Acquire:
  case PacketKind::Submit:
  case PacketKind::CommandDone:
  case PacketKind::DmaCompletion:
  case PacketKind::Interrupt:
  case PacketKind::CounterSnapshot:
  case PacketKind::Oracle: return true;
  default: return false;
  }
}

/// Differences after which a program does something else than it did.
bool isBranch(Rule rule, const Packet &packet, const ComparisonContext &context) {
  switch (rule) {
  case Rule::ConditionNotMet:
  case Rule::InterruptMissing:
  case Rule::CauseWithoutInterrupt:
  case Rule::TargetFailed:
  case Rule::FailedInRecording:
  case Rule::TimedOutInRecording: return true;
  case Rule::ValueDiffers:
    return packet.kind == PacketKind::RegisterRead && context.access && context.access->branching;
  default: return false;
  }
}

/// A target that fails before the first packet may be another device than the tape's: says so.
llvm::Error explainStart(llvm::Error error, llvm::ArrayRef<std::vector<IdentityDifference>> identity) {
  if (!error)
    return error;
  Failure failure = toFailure(std::move(error));
  if (failure.where.empty())
    failure.where = "before the first packet";
  for (const std::vector<IdentityDifference> &device : identity)
    for (const IdentityDifference &difference : device)
      if (difference.key == "name")
        failure.hint = "the tape's device is '" + difference.recorded + "', this target's is '" +
                       difference.replayed + "': is it the right target?" +
                       (failure.hint.empty() ? "" : " (" + failure.hint + ")");
  return llvm::make_error<Failure>(std::move(failure));
}

} // namespace

bool ReplayRun::wantsOneByOne() const {
  return options.stopAtDivergence ||
         llvm::any_of(options.observers, [](const ReplayObserver *observer) { return observer->oneByOne(); });
}

llvm::Expected<ReplayReport> ReplayRun::run(llvm::ArrayRef<Target *> targets) {
  if (llvm::Error error = refuseForbiddenWrites(source, options))
    return error;
  llvm::Expected<StartState> found = findStartState(source, options.fromReset);
  if (!found)
    return found.takeError();
  start = std::move(*found);
  if (llvm::Error error = takeStart())
    return error;
  PlayerOptions playerOptions = options.player;
  playerOptions.pauseAtContent = true;
  playerOptions.endPacket = options.endPacket;
  oneByOne = wantsOneByOne();
  if (oneByOne)
    playerOptions.maxBatch = 1;
  llvm::Expected<std::unique_ptr<Player>> created = Player::create(source, targets, playerOptions);
  if (!created)
    return created.takeError();
  player = std::move(*created);
  answers = player->answers();
  for (size_t i = 0; i < player->deviceCount(); ++i)
    report.identity.push_back(player->binding(uint16_t(i)).identityDifferences());
  if (llvm::Error error = openTrace())
    return error;
  if (llvm::Error error = explainStart(player->prepare(start), report.identity))
    return error;
  gap = false;
  lost = report.stateUnknown = start.stateUnknown;
  return finish(0);
}

llvm::Expected<ReplayReport> ReplayRun::finish(uint64_t begin) {
  for (ReplayObserver *observer : options.observers)
    if (llvm::Error error = observer->started(*player, start))
      return error;
  llvm::Error played = play(begin);
  if (trace) {
    played = llvm::joinErrors(std::move(played), trace->finish());
    report.traced = trace->written();
  }
  if (played)
    return played;
  if (llvm::Error error = settle())
    return error;
  if (llvm::Error error = conclude())
    return error;
  for (ReplayObserver *observer : options.observers)
    if (llvm::Error error = observer->ended(*player, report))
      return error;
  return std::move(report);
}

llvm::Error ReplayRun::takeStart() {
  if (!start.keyframes.empty())
    report.start = ReplayStart::Keyframe;
  if (!source.reader().summary().packets)
    return llvm::Error::success();
  Packet first;
  PacketExtra extra;
  if (llvm::Error error = source.packetAt(0, first, extra))
    return error;
  if (first.flags & Prefix)
    report.start = ReplayStart::Prefix;
  return llvm::Error::success();
}

//===- Checkpoints
//-------------------------------------------------------------------------------------------===//

std::shared_ptr<ReplayRun> ReplayRun::copy() const {
  std::shared_ptr<ReplayRun> other(new ReplayRun(*this));
  other->player = player->copy();
  return other;
}

void ReplayRun::noteRestoreFailed(llvm::Error error) {
  restoreFailed = true;
  report.targetFailure = toFailure(std::move(error));
  report.stopped = "the target could not be put back to its snapshot";
}

void ReplayRun::takeCheckpoint() {
  std::shared_ptr<ReplayRun> there = copy();
  there->options.checkpoint = nullptr;
  Checkpoint &checkpoint = *options.checkpoint;
  options.checkpoint = nullptr;
  if (llvm::Error error = checkpoint.take(there, there->player))
    noteRestoreFailed(std::move(error));
}

llvm::Expected<ReplayReport> ReplayRun::from(Checkpoint &checkpoint, const ReplayOptions &options) {
  std::shared_ptr<ReplayRun> run = checkpoint.at().copy();
  run->options = options;
  run->options.checkpoint = nullptr;
  run->report.start = ReplayStart::Snapshot;
  if (run->wantsOneByOne() != run->oneByOne)
    return failUsage("bad-observer", "a replay that goes on one by one must have begun so");
  if (llvm::Error error = checkpoint.restore()) {
    run->noteRestoreFailed(std::move(error));
    if (llvm::Error failed = run->conclude())
      return failed;
    return std::move(run->report);
  }
  return run->finish(checkpoint.packet());
}

llvm::Expected<ReplayReport> continueReplay(Checkpoint &checkpoint, const ReplayOptions &options) {
  if (!checkpoint.taken())
    return failUsage("no-checkpoint", "the replay did not get to the place where it should go on");
  return ReplayRun::from(checkpoint, options);
}

llvm::Error ReplayRun::openTrace() {
  if (!options.trace)
    return llvm::Error::success();
  for (size_t i = 0; i < player->deviceCount() && !trace; ++i)
    if (player->binding(uint16_t(i)).capabilities().trace)
      trace.emplace(*options.trace, player->binding(uint16_t(i)).target());
  if (trace)
    return llvm::Error::success();
  return failUsage("no-traces", "this target has no waveforms", "--wave", "RTL has: rtl:NAME");
}

llvm::Error ReplayRun::play(uint64_t begin) {
  uint64_t end = std::min(source.reader().summary().packets, options.endPacket.value_or(~uint64_t(0)));
  report.packets = end;
  StretchLimits limits = options.stretch;
  limits.pin |= options.player.pacing.paced;
  // Where gaps do not count, what is issued together had better stay in the cache.
  constexpr uint64_t cachedPackets = 1 << 14;
  if (!limits.pin && !options.lanes)
    limits.packets = std::min(limits.packets, cachedPackets);
  log.observations.reserve(mostAtOnce);
  for (uint64_t position = begin; position < end;) {
    if (llvm::Error error = source.readStretch(position, end, limits))
      return error;
    const PacketBatch &batch = source.stretch().batch();
    ++report.pacing.stretches;
    unpinned |= !source.stretch().pinned();
    player->stretchRead(batch);
    size_t limit = batch.packets.size();
    std::vector<LaneCluster> clusters;
    if (options.lanes && !oneByOne)
      clusters = findClusters(batch);
    size_t nextCluster = 0;
    for (size_t i = 0; i < limit;) {
      log.clear();
      if (options.checkpoint && options.checkpoint->packet() == position + i) {
        takeCheckpoint();
        if (restoreFailed) {
          endWindow();
          return llvm::Error::success();
        }
      }
      llvm::Expected<bool> goOn = mayGoOn(batch, i);
      if (!goOn)
        return goOn.takeError();
      if (!*goOn) {
        report.packets = position + i;
        endWindow();
        return llvm::Error::success();
      }
      size_t upTo = oneByOne ? i + 1 : std::min(limit, i + mostAtOnce);
      if (options.checkpoint && options.checkpoint->packet() > position + i)
        upTo = size_t(std::min<uint64_t>(upTo, options.checkpoint->packet() - position));
      for (ReplayObserver *observer : options.observers)
        upTo = observer->edge(batch, i, upTo);
      if (trace) {
        if (llvm::Error error = trace->before(position + i))
          return error;
        upTo = size_t(trace->edgeBehind(position + i, position + upTo) - position);
      }
      while (nextCluster < clusters.size() && clusters[nextCluster].end <= i)
        ++nextCluster;
      bool inLanes = nextCluster < clusters.size() && clusters[nextCluster].begin <= i;
      if (nextCluster < clusters.size())
        upTo = std::min(upTo, inLanes ? clusters[nextCluster].end : clusters[nextCluster].begin);
      llvm::Expected<size_t> issued =
          inLanes ? player->issueLanes(batch, {i, upTo}, log) : player->issue(batch, i, upTo, log);
      if (!issued)
        return issued.takeError();
      for (size_t k = 0; k < *issued; ++k)
        if (llvm::Error error = grade(batch, i + k, log.observations[k]))
          return error;
      for (ReplayObserver *observer : options.observers)
        if (llvm::Error error = observer->issued(batch, i, *issued, log, *player))
          return error;
      i += *issued;
      report.stopped = reasonToStop();
      if (report.stopped.empty() && !*issued)
        report.stopped = "the target stopped";
      if (!report.stopped.empty()) {
        endWindow();
        return llvm::Error::success();
      }
      if (options.progress)
        options.progress(position + i);
    }
    position += limit;
    if (position == end)
      if (llvm::Expected<bool> goOn = mayGoOn(batch, limit); !goOn)
        return goOn.takeError();
  }
  endWindow();
  return llvm::Error::success();
}

/// False if an observer wants the replay to end before this packet.
llvm::Expected<bool> ReplayRun::mayGoOn(const PacketBatch &batch, size_t index) {
  for (ReplayObserver *observer : options.observers) {
    llvm::Expected<bool> goOn = observer->before(batch, index, *player, report);
    if (!goOn || !*goOn)
      return goOn;
  }
  return true;
}

std::string ReplayRun::reasonToStop() const {
  if (player->stopped())
    return "the target failed and cannot go on";
  if (options.stopAtDivergence && report.firstDivergence)
    return "asked to stop at the first divergence";
  if (timeouts >= options.maxTimeouts)
    return std::to_string(timeouts) + " waits timed out that did not in the recording";
  if (targetErrors >= options.maxTargetErrors)
    return "the target failed " + std::to_string(targetErrors) + " operations";
  if (player->uselessWait() > options.maxUselessWait)
    return "too much time went into waits that did not end well";
  return {};
}

void ReplayRun::endWindow() {
  if (!inWindow)
    return;
  report.recordedDigest = recordedChain.endWindow();
  report.replayedDigest = replayedChain.endWindow();
  if (options.keepDigests)
    report.windowDigests.emplace_back(report.recordedDigest, report.replayedDigest);
  report.windowsDiverged += windowDiverged;
  inWindow = windowDiverged = false;
}

//===- Grading
//-----------------------------------------------------------------------------------------------===//

Rule ReplayRun::lossRule(const Packet &packet) {
  if (packet.address == uint64_t(LossCause::NotRecording)) {
    // Before the first operation: the keyframe says what was there, or findStartState() has refused.
    // Elsewhere it matters only if something follows.
    gap |= playedAny;
    return Rule::OutsideRecording;
  }
  if (!packet.value)
    return Rule::Same;
  lost = true;
  ++report.lossesCrossed;
  return Rule::LostPackets;
}

llvm::Error ReplayRun::compare(const Packet &packet, const PacketExtra &extra, const Observation &expected,
                               const Observation &actual, ObservedSide &expectedSide,
                               Comparison &comparison) {
  if (packet.kind == PacketKind::Loss) {
    comparison.rule = lossRule(packet);
    return llvm::Error::success();
  }
  bool failed = actual.state == State::Failed;
  if (!answers && !(failed && expected.state != State::Failed)) {
    comparison.rule = Rule::NoAnswers;
    return llvm::Error::success();
  }
  if (expected.state == State::Done && bringsContent(packet) && extra.payload) {
    llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.content(extra.payload);
    if (!content)
      return content.takeError();
    expectedSide.content = *content;
  }
  comparison = compareObservations(packet, extra, player->context(packet), expectedSide,
                                   ObservedSide{actual, log.contentOf(actual)});
  if (comparison.rule == Rule::ContentDiffers && packet.kind == PacketKind::DmaCompletion) {
    llvm::Expected<bool> later = arrivesLater(packet, extra, expectedSide.content);
    if (!later)
      return later.takeError();
    if (*later)
      comparison.rule = Rule::CompletionBeforeData;
  }
  if (comparison.rule == Rule::InterruptMissing) {
    // The cause shows but the interrupt did not come: another fault than a device that did nothing.
    DeviceBinding &binding = player->binding(packet.device);
    if (const Description *description = binding.description())
      for (const InterruptDescription &line : description->interrupts) {
        if (line.vector != packet.address || !line.cause)
          continue;
        const RegisterDescription &reg = description->registers[line.cause->reg];
        // Only where looking does no harm.
        if (reg.cls == RegisterClass::ReadToClear || reg.cls == RegisterClass::Fifo ||
            reg.policy == ReplayPolicy::SideEffect || reg.policy == ReplayPolicy::MayHang)
          continue;
        if (llvm::Expected<uint64_t> value = binding.readRegister(reg)) {
          bool shows = line.cause->any ? (*value & line.cause->mask & widthMask(reg.width)) != 0
                                       : line.cause->holds(*value);
          if (shows)
            comparison.rule = Rule::CauseWithoutInterrupt;
        } else {
          // The interrupt is missing either way; a target that fails now will say so at its next operation.
          llvm::consumeError(value.takeError());
        }
      }
  }
  return llvm::Error::success();
}

/// True if the memory becomes what was recorded when the device is given a little more time.
llvm::Expected<bool> ReplayRun::arrivesLater(const Packet &packet, const PacketExtra &extra,
                                             llvm::ArrayRef<uint8_t> expected) {
  constexpr unsigned triesPerRun = 4; // Each costs time, and the first few say it.
  constexpr uint64_t patience = 250'000'000;
  if (settled >= triesPerRun || expected.empty())
    return false;
  ++settled;
  llvm::Expected<Rows> rows = Rows::of(packet, extra);
  if (!rows)
    return rows.takeError();
  Target &target = player->binding(packet.device).target();
  std::vector<uint8_t> present(expected.size());
  bool failed = false;
  auto read = [&]() -> llvm::Expected<uint64_t> {
    if (llvm::Error error = rows->read(player->binding(packet.device), present))
      return error;
    return uint64_t(llvm::ArrayRef<uint8_t>(present) == expected);
  };
  llvm::Expected<WaitResult> waited = waitForCondition(
      target, read, 1, 1, std::min(patience, options.player.waits.defaultDeadline), options.player.waits);
  if (!waited) {
    // The content differs whatever becomes of the target; it will fail its next operation too.
    llvm::consumeError(waited.takeError());
    failed = true;
  }
  return !failed && waited->met;
}

/// What came before decides how a difference is to be read.
Rule ReplayRun::adjust(Rule rule, const Packet &packet, const PacketExtra &extra, const Observation &actual) {
  if (packet.kind == PacketKind::Oracle && actual.state == State::Done && !actual.recomputed &&
      rule == Rule::Same && report.firstDivergence)
    return Rule::OracleUnknown; // The program might have come to another conclusion.
  if (!isDivergence(gradeOf(rule)) || rule == Rule::TargetFailed)
    return rule;
  if (lost)
    return Rule::AfterLoss;
  if (packet.kind == PacketKind::Oracle && extra.link != noLink && unknown.contains(extra.link))
    return Rule::OracleUnknown;
  if (branched)
    return Rule::AfterBranch;
  if (packet.kind == PacketKind::Oracle && extra.link != noLink && diverged.contains(extra.link))
    return Rule::InputDiverged;
  return rule;
}

void ReplayRun::noteFailures(const Packet &packet, const PacketExtra &extra, uint64_t ordinal, Rule rule,
                             const Observation &actual) {
  if (!answers)
    return;
  if (actual.state == State::Failed) {
    if (rule == Rule::TargetFailed) {
      ++targetErrors;
      if (!report.targetFailure && actual.failure && actual.failure <= log.failures.size())
        report.targetFailure = log.failures[actual.failure - 1];
    }
    // A failure that the recorded program lived with is none.
    const Outcome &outcome = source.reader().outcome();
    bool counts =
        rule == Rule::TargetFailed || (outcome.signature && outcome.signature->oracle == "target-error");
    if (!firstTargetFailure && counts)
      firstTargetFailure = FailureEvent{ordinal, packet, extra, true};
    return;
  }
  if (packet.kind != PacketKind::Oracle)
    return;
  if (actual.state != State::Done || rule == Rule::OracleUnknown) {
    failureUnknown |= !firstFailure && (packet.flags & Failed);
    return;
  }
  if (actual.holds || firstFailure)
    return;
  firstFailure = FailureEvent{ordinal, packet, extra, false};
  firstFailure->packet.value = actual.value;
  if (extra.length && actual.recomputed) {
    firstFailure->extra.count = actual.contentOffset;
    firstFailure->extra.expected = actual.expected;
  }
}

llvm::Error ReplayRun::noteDivergence(const Packet &packet, uint64_t ordinal, Comparison comparison,
                                      const Observation &actual) {
  constexpr size_t rememberedDivergences = 1 << 16;
  windowDiverged = true;
  if (diverged.size() < rememberedDivergences && ordinal < ~uint64_t(0) - 1) // Two values are DenseSet's own.
    diverged.insert(ordinal);
  if (report.divergences.size() >= std::max<size_t>(1, options.keptDivergences))
    return llvm::Error::success();
  const VainWait *wait =
      actual.wait && actual.wait <= log.waits.size() ? &log.waits[actual.wait - 1] : nullptr;
  Divergence found =
      describeDivergence(source, player->context(packet), packet, ordinal, cursor.window(), comparison, wait);
  found.poisoned = found.space == "memory" && found.actual && comparison.rule == Rule::ContentDiffers &&
                   *found.actual == options.player.binding.poison;
  if (actual.failure && actual.failure <= log.failures.size())
    found.failure = log.failures[actual.failure - 1].message;
  if (!report.firstDivergence)
    report.firstDivergence = found;
  report.divergences.push_back(std::move(found));
  return llvm::Error::success();
}

void ReplayRun::digest(const Packet &packet, Rule rule, ObservedSide expected, ObservedSide actual) {
  if (!answers)
    return;
  ComparisonContext context = player->context(packet);
  CanonicalObservation wanted = canonical(packet, context, expected);
  recordedChain.add(packet.kind, wanted);
  if (!isDivergence(gradeOf(rule))) {
    replayedChain.add(packet.kind, wanted);
    return;
  }
  CanonicalObservation got = canonical(packet, context, actual);
  got.state |= 0x80; // A difference shows even where the canonical values happen to agree.
  replayedChain.add(packet.kind, got);
}

llvm::Error ReplayRun::grade(const PacketBatch &batch, size_t index, const Observation &actual) {
  const Packet &packet = batch.packets[index];
  const PacketExtra &extra = batch.extra(packet);
  uint64_t ordinal = batch.firstOrdinal + index;
  if (llvm::Error error = cursor.moveTo(ordinal))
    return error;
  if (!inWindow || cursor.window() != presentWindow) {
    endWindow();
    inWindow = true;
    presentWindow = cursor.window();
    ++report.windows;
  }
  if (isProgramOperation(packet)) {
    if (gap) {
      gap = false;
      lost = true;
      ++report.lossesCrossed;
    }
    playedAny = true;
  }
  bool gives = packet.kind == PacketKind::MemoryWrite || packet.kind == PacketKind::Submit ||
               (packet.kind == PacketKind::DmaDescriptor && (packet.flags & TransferToDevice));
  inputMissing |= gives && ((packet.flags & Truncated) ||
                            (actual.state == State::NotIssued && actual.rule == Rule::ContentNotCaptured));
  Observation expected = recordedObservation(packet, extra);
  ObservedSide expectedSide{expected, {}};
  Comparison comparison;
  if (llvm::Error error = compare(packet, extra, expected, actual, expectedSide, comparison))
    return error;
  comparison.rule = adjust(comparison.rule, packet, extra, actual);
  if (inputMissing && comparison.rule == Rule::ContentDiffers && comparison.hasPlace &&
      comparison.actual == options.player.binding.poison) {
    // What the device was given is not on the tape, so it was given poison, and here that is back.
    comparison.rule = Rule::ContentNotCaptured;
    if (unknown.size() < (1 << 16) && ordinal < ~uint64_t(0) - 1) // Two values are DenseSet's own.
      unknown.insert(ordinal);
  }
  if (options.withoutRules.contains(comparison.rule))
    comparison.rule = fallbackOf(comparison.rule);
  Rule rule = comparison.rule;
  report.grades.add(rule);
  if (options.countByRegister)
    policies.add(packet, player->context(packet).access, rule);
  ++report.packetsReplayed;
  timeouts +=
      gradeOf(rule) == Grade::Timeout || (rule == Rule::AfterBranch && actual.state == State::TimedOut);
  noteFailures(packet, extra, ordinal, rule, actual);
  digest(packet, rule, expectedSide, {actual, log.contentOf(actual)});
  if (!isDivergence(gradeOf(rule)))
    return llvm::Error::success();
  branched |= isBranch(rule, packet, player->context(packet));
  return noteDivergence(packet, ordinal, comparison, actual);
}

//===- Conclusions
//-------------------------------------------------------------------------------------------===//

/// What was under way when the last packet had been issued has its time to end; some devices only fail then.
llvm::Error ReplayRun::settle() {
  for (size_t i = 0; i < player->deviceCount(); ++i) {
    Target &target = player->binding(uint16_t(i)).target();
    if (!player->stopped() && report.stopped.empty())
      if (llvm::Error error = target.settle()) {
        Failure failure = toFailure(std::move(error));
        if (failure.cls != FailureClass::Target)
          return llvm::make_error<Failure>(std::move(failure));
        diedAtRest = true;
        if (failure.where.empty())
          failure.where = "behind the last packet";
        if (!report.targetFailure)
          report.targetFailure = std::move(failure);
        report.stopped = "the target failed when everything had been issued";
      }
    if (std::optional<MachineReport> machine = target.machineReport())
      report.machines.push_back({uint16_t(i), std::move(*machine)});
  }
  return llvm::Error::success();
}

llvm::Error ReplayRun::conclude() {
  for (uint64_t left = report.packets - report.packetsReplayed; left; --left)
    report.grades.add(options.withoutRules.contains(Rule::NotReached) ? fallbackOf(Rule::NotReached)
                                                                      : Rule::NotReached);
  report.policies = policies.rows();
  report.fingerprint = player->fingerprintDifferences;
  report.fingerprintsCompared = player->fingerprintsCompared;
  uint64_t stretches = report.pacing.stretches;
  if (player->pacing())
    report.pacing = player->pacing()->report();
  report.pacing.stretches = stretches;
  report.lanes = player->lanes();
  report.pacing.pinned = stretches && !unpinned;
  for (size_t i = 0; i < player->deviceCount(); ++i)
    report.relocation.push_back(player->binding(uint16_t(i)).relocation().report());
  if (report.firstDivergence) {
    if (llvm::Error error = completePlace(source, report.firstDivergence->place))
      return error;
    report.divergences.front() = *report.firstDivergence;
  }
  report.targetDead = player->stopped() || diedAtRest;
  const bool refused =
      llvm::any_of(report.machines, [](const DeviceMachine &one) { return one.machine.refused != 0; });
  if (report.grades.of(Grade::TargetError) || restoreFailed || diedAtRest)
    report.verdict = Verdict::Error;
  else if (report.grades.divergences())
    report.verdict = Verdict::Divergence;
  else if (report.grades.of(Grade::NotCaptured) || report.lossesCrossed || report.stateUnknown || refused ||
           !report.stopped.empty())
    report.verdict = Verdict::Incomplete;
  // What was played before the place that could not be gone back to says nothing about this run.
  if (restoreFailed)
    return llvm::Error::success();
  return concludeSignature();
}

llvm::Error ReplayRun::concludeSignature() {
  // A machine that is gone: how it went says more than where.
  for (const DeviceMachine &one : report.machines)
    if (one.machine.ended) {
      report.signature =
          machineDeathSignature(one.machine.signal, one.machine.exitCode, one.machine.lastWords);
      const Outcome &outcome = source.reader().outcome();
      if (outcome.kind == Outcome::Kind::Failed && outcome.signature)
        decideReproduced(*outcome.signature);
      return llvm::Error::success();
    }
  // As when recording: a check that fails says more than an operation that does.
  if (!firstFailure)
    firstFailure = firstTargetFailure;
  const Outcome &outcome = source.reader().outcome();
  if (firstFailure) {
    const Packet &packet = firstFailure->packet;
    PacketPlace place;
    place.device = packet.device;
    place.packet = firstFailure->ordinal;
    if (llvm::Error error = completePlace(source, place))
      return error;
    OraclePlace at{place.marker.value_or(""), place.markerOccurrence, place.command.value_or(0)};
    const Description *description = source.description(packet.device);
    if (firstFailure->targetError) {
      report.signature = targetErrorSignature(packet, source.spaceName(packet.space), description, at);
    } else {
      llvm::Expected<std::string> name = source.name(firstFailure->extra.payload);
      if (!name)
        return name.takeError();
      Packet origin;
      PacketExtra ignored;
      bool linked = firstFailure->extra.link < firstFailure->ordinal;
      if (linked)
        if (llvm::Error error = source.packetAt(firstFailure->extra.link, origin, ignored))
          return error;
      report.signature = checkSignature(packet, firstFailure->extra, *name, linked ? &origin : nullptr,
                                        linked ? source.spaceName(origin.space) : "", description, at);
    }
  }
  if (outcome.kind == Outcome::Kind::Failed && outcome.signature)
    decideReproduced(*outcome.signature);
  return llvm::Error::success();
}

void ReplayRun::decideReproduced(const Signature &recorded) {
  if (!answers)
    return;
  if (report.signature) {
    report.signatureMatch = matchSignatures(recorded, *report.signature);
    report.reproduced = report.signatureMatch >= options.wantedMatch;
    return;
  }
  // The program's own death says nothing about the device: a replay cannot show it again.
  bool redoable = recorded.oracle == "check" || recorded.oracle == "target-error";
  // A machine that lives may do so because it did not do what it was told.
  if (recorded.oracle == "target-died")
    redoable = !report.machines.empty() && llvm::all_of(report.machines, [](const DeviceMachine &one) {
      return !one.machine.refused && one.machine.answered == one.machine.commands;
    });
  bool reached =
      report.packetsReplayed == source.reader().summary().packets ||
      (source.reader().outcome().packet && *source.reader().outcome().packet < report.packetsReplayed);
  if (redoable && reached && !failureUnknown)
    report.reproduced = false;
}

int exitCodeFor(const ReplayReport &report, Expectation expectation) {
  constexpr int asExpected = 0, notAsExpected = 1, targetFailed = 4, unknown = 5;
  // A target that fails the way the tape's did is what was asked for.
  if (expectation == Expectation::Signature && report.reproduced == true)
    return asExpected;
  if (report.verdict == Verdict::Error)
    return targetFailed;
  switch (expectation) {
  case Expectation::Match:
    return report.verdict == Verdict::Match        ? asExpected
           : report.verdict == Verdict::Divergence ? notAsExpected
                                                   : unknown;
  case Expectation::Signature: return report.reproduced ? notAsExpected : unknown;
  case Expectation::Divergence:
    return report.verdict == Verdict::Divergence ? asExpected
           : report.verdict == Verdict::Match    ? notAsExpected
                                                 : unknown;
  }
  return unknown;
}

llvm::Expected<ReplayReport> replayTape(TapeSource &source, llvm::ArrayRef<Target *> targets,
                                        const ReplayOptions &options) {
  return ReplayRun(source, options).run(targets);
}

} // namespace tapeback
