#include "replayer/bisect/Lockstep.h"
#include "format/Failure.h"

namespace tapeback {

using State = Observation::State;

static llvm::Error openSide(LockstepSide &side, TapeSource &source, const EndpointFactory &open,
                            const StartState &startState, const PlayerOptions &options) {
  llvm::Expected<TargetSet> targets = open();
  if (!targets)
    return targets.takeError();
  side.targets = std::move(*targets);
  llvm::Expected<std::unique_ptr<Player>> player = Player::create(source, side.targets.targets, options);
  if (!player)
    return player.takeError();
  side.player = std::move(*player);
  return side.player->prepare(startState);
}

llvm::Expected<std::unique_ptr<Lockstep>> Lockstep::start(TapeSource &source, const Endpoints &endpoints,
                                                          const StartState &startState,
                                                          const Options &options) {
  std::unique_ptr<Lockstep> run(new Lockstep(source, options));
  if (llvm::Error error = openSide(run->good, source, endpoints.good, startState, options.player))
    return error;
  if (llvm::Error error = openSide(run->bad, source, endpoints.bad, startState, options.player))
    return error;
  return run;
}

/// Makes `batch` contain the packet.
llvm::Error Lockstep::load(uint64_t ordinal) {
  if (!batch.packets.empty() && ordinal >= batch.firstOrdinal &&
      ordinal - batch.firstOrdinal < batch.packets.size())
    return llvm::Error::success();
  if (llvm::Error error = source.reader().readBlockFrom(ordinal, batch))
    return error;
  if (batch.packets.empty() || batch.firstOrdinal != ordinal)
    return failTape("short-tape", "the tape ends before its last packet",
                    "packet " + std::to_string(ordinal));
  return llvm::Error::success();
}

/// The good side goes first and decides how far; the bad side gets the same packets.
llvm::Error Lockstep::issueBoth(size_t begin, size_t end, size_t *issued) {
  good.log.clear();
  bad.log.clear();
  *issued = 0;
  llvm::Expected<size_t> count = good.player->issue(batch, begin, end, good.log);
  if (!count)
    return count.takeError();
  llvm::Expected<size_t> done = bad.player->issueAll(batch, begin, begin + *count, bad.log);
  if (!done)
    return done.takeError();
  *issued = *done;
  if (options.issuedToBad)
    *options.issuedToBad += *done;
  return llvm::Error::success();
}

llvm::Error Lockstep::runTo(uint64_t end) {
  end = std::min(end - std::min(end, options.firstPacket), source.reader().summary().packets);
  while (next < end && !stopped()) {
    if (llvm::Error error = load(next))
      return error;
    size_t begin = size_t(next - batch.firstOrdinal);
    size_t limit = size_t(std::min<uint64_t>(batch.packets.size(), end - batch.firstOrdinal));
    size_t issued = 0;
    if (llvm::Error error = issueBoth(begin, limit, &issued))
      return error;
    goodNext = next + good.log.observations.size();
    size_t judged = 0;
    for (; judged < issued && !found; ++judged, ++next)
      if (options.compare)
        if (llvm::Error error =
                judge(begin + judged, good.log.observations[judged], bad.log.observations[judged]))
          return error;
    if (found)
      if (llvm::Error error = judgeRestOfGood(begin, judged))
        return error;
    if (!issued)
      break; // One of them stopped before its first packet.
  }
  if (!found && next == source.reader().summary().packets)
    windowsEndBefore(next);
  return llvm::Error::success();
}

void Lockstep::windowsEndBefore(uint64_t ordinal) {
  if (!inWindow || ordinal < cursor.endPacket())
    return;
  good.digests.push_back(good.chain.endWindow());
  bad.digests.push_back(bad.chain.endWindow());
  ++windowsCompared;
  inWindow = false;
}

static void noteFailure(LockstepSide &side, const Observation &seen, const Packet &packet) {
  if (seen.state == State::Failed && packet.completion != Completion::Failed && !side.failure &&
      seen.failure && seen.failure <= side.log.failures.size())
    side.failure = side.log.failures[seen.failure - 1];
}

llvm::Error Lockstep::judge(size_t index, const Observation &goodSeen, const Observation &badSeen) {
  const Packet &packet = batch.packets[index];
  const PacketExtra &extra = batch.extra(packet);
  uint64_t ordinal = batch.firstOrdinal + index;
  windowsEndBefore(ordinal);
  if (llvm::Error error = cursor.moveTo(ordinal))
    return error;
  inWindow = true;
  noteFailure(good, goodSeen, packet);
  noteFailure(bad, badSeen, packet);
  ObservedSide goodSide{goodSeen, good.log.contentOf(goodSeen)}, badSide{badSeen, bad.log.contentOf(badSeen)};
  ComparisonContext context = good.player->context(packet);
  good.chain.add(packet.kind, canonical(packet, context, goodSide));
  bad.chain.add(packet.kind, canonical(packet, context, badSide));
  if (options.withTape && !foundAgainstTape)
    if (llvm::Error error = judgeAgainstTape(index, goodSeen))
      return error;
  if (!good.player->answers() || !bad.player->answers()) {
    ++notCompared;
    return llvm::Error::success();
  }
  // The context is found again: the tape's comparison may have looked at another access.
  context = good.player->context(packet);
  Comparison comparison = compareObservations(packet, extra, context, goodSide, badSide);
  if (!isDivergence(gradeOf(comparison.rule)))
    return llvm::Error::success();
  found = describeDivergence(source, context, packet, ordinal, cursor.window(), comparison);
  const LockstepSide &failing = badSeen.state == State::Failed ? bad : good;
  if (failing.failure)
    found->failure = failing.failure->message;
  return llvm::Error::success();
}

llvm::Error Lockstep::judgeAgainstTape(size_t index, const Observation &goodSeen) {
  const Packet &packet = batch.packets[index];
  const PacketExtra &extra = batch.extra(packet);
  if (!good.player->answers())
    return llvm::Error::success();
  Observation recorded = recordedObservation(packet, extra);
  ObservedSide recordedSide{recorded, {}};
  if (recorded.state == State::Done && bringsContent(packet) && extra.payload) {
    llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.reader().blob(extra.payload);
    if (!content)
      return content.takeError();
    recordedSide.content = *content;
  }
  ComparisonContext context = good.player->context(packet);
  Comparison comparison =
      compareObservations(packet, extra, context, recordedSide, {goodSeen, good.log.contentOf(goodSeen)});
  if (isDivergence(gradeOf(comparison.rule)))
    foundAgainstTape =
        describeDivergence(source, context, packet, batch.firstOrdinal + index, cursor.window(), comparison);
  return llvm::Error::success();
}

/// What the good side was issued beyond the last pair that was judged: the log's entries from `first` on.
llvm::Error Lockstep::judgeRestOfGood(size_t begin, size_t first) {
  if (!options.withTape)
    return llvm::Error::success();
  for (size_t k = first; k < good.log.observations.size() && !foundAgainstTape; ++k) {
    if (llvm::Error error = cursor.moveTo(batch.firstOrdinal + begin + k))
      return error;
    noteFailure(good, good.log.observations[k], batch.packets[begin + k]);
    if (llvm::Error error = judgeAgainstTape(begin + k, good.log.observations[k]))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Lockstep::finishGood() {
  uint64_t end = source.reader().summary().packets;
  while (goodNext < end && !good.player->stopped() && !foundAgainstTape) {
    if (llvm::Error error = load(goodNext))
      return error;
    size_t begin = size_t(goodNext - batch.firstOrdinal);
    good.log.clear();
    llvm::Expected<size_t> count = good.player->issue(batch, begin, batch.packets.size(), good.log);
    if (!count)
      return count.takeError();
    if (llvm::Error error = judgeRestOfGood(begin, 0))
      return error;
    if (!*count)
      break;
    goodNext += *count;
  }
  return llvm::Error::success();
}

//===- Snapshots
//---------------------------------------------------------------------------------------------===//

std::optional<std::string> Lockstep::whyNoSnapshots(unsigned most) const {
  for (const LockstepSide *side : {&good, &bad})
    for (size_t i = 0; i < side->player->deviceCount(); ++i) {
      const TargetCapabilities &can = side->player->binding(uint16_t(i)).capabilities();
      if (can.snapshots && can.maxSnapshots >= most)
        continue;
      return std::string("the ") + (side == &good ? "good" : "bad") + " target " +
             (can.snapshots ? "keeps only " + std::to_string(can.maxSnapshots) + " snapshots"
                            : std::string("has no snapshots"));
    }
  return std::nullopt;
}

llvm::Expected<LockstepPlace> Lockstep::keep(bool issued) {
  LockstepPlace place;
  place.packet = next;
  for (LockstepSide *side : {&good, &bad})
    for (size_t i = 0; i < side->player->deviceCount(); ++i)
      if (llvm::Error error = place.snapshots.take(side->player->binding(uint16_t(i)).target()))
        return llvm::joinErrors(std::move(error), forget(place));
  if (issued) {
    place.good = good.player->copy();
    place.bad = bad.player->copy();
  }
  return place;
}

llvm::Error Lockstep::goBack(const LockstepPlace &place, bool compare) {
  if (llvm::Error error = place.snapshots.restore("--no-snapshots does without"))
    return error;
  if (!place.good)
    return llvm::Error::success();
  good.player = place.good->copy();
  bad.player = place.bad->copy();
  next = goodNext = place.packet;
  found.reset();
  options.compare = compare;
  options.withTape = false;
  inWindow = false;
  return llvm::Error::success();
}

llvm::Error Lockstep::forget(LockstepPlace &place) {
  llvm::Error failed = place.snapshots.release();
  place = {};
  return failed;
}

} // namespace tapeback
