#include "replayer/shadow/ShadowRun.h"
#include "format/Failure.h"
#include "replayer/Commands.h"

namespace tapeback {

using State = Observation::State;

/// The shadow's own failures end the shadow; the tape's and ours end the replay.
llvm::Error ShadowRun::giveUp(llvm::Error error) {
  if (!error)
    return error;
  Failure failure = toFailure(std::move(error));
  if (failure.cls != FailureClass::Target)
    return llvm::make_error<Failure>(std::move(failure));
  report.stopped = true;
  if (!report.failure)
    report.failure = std::move(failure);
  return llvm::Error::success();
}

llvm::Error ShadowRun::started(Player &player, const StartState &start) {
  llvm::Expected<std::unique_ptr<Player>> created = Player::create(source, targets, options.player);
  if (!created)
    return created.takeError();
  shadow = std::move(*created);
  if (llvm::Error error = shadow->prepare(start)) {
    Failure failure = toFailure(std::move(error));
    failure.where =
        failure.where.empty() ? "the shadow, before the first packet" : "the shadow, " + failure.where;
    return llvm::make_error<Failure>(std::move(failure));
  }
  for (size_t device = 0; device < source.deviceCount(); ++device) {
    llvm::Expected<std::unique_ptr<History>> history =
        History::before(source, uint16_t(device), 0, /*contents=*/false);
    if (!history)
      return history.takeError();
    histories.push_back(std::move(*history));
  }
  if (!player.answers() || !shadow->answers())
    return llvm::Error::success();
  // What differs before the first packet is a difference of the targets, not of the run.
  return probe.takeBaseline(PlayerPair(player, *shadow));
}

size_t ShadowRun::edge(const PacketBatch &batch, size_t begin, size_t end) {
  if (report.stopped)
    return end;
  uint64_t next = batch.firstOrdinal + begin;
  if (llvm::Error error = cursor.moveTo(next)) {
    llvm::consumeError(std::move(error)); // issued() will meet it again, and may say so.
    return end;
  }
  return size_t(std::min<uint64_t>(end, cursor.endPacket() - batch.firstOrdinal));
}

/// The same packets to the shadow, which may take more than one go at them.
llvm::Error ShadowRun::issueSame(const PacketBatch &batch, size_t begin, size_t count) {
  shadowLog.clear();
  return shadow->issueAll(batch, begin, begin + count, shadowLog).takeError();
}

llvm::Error ShadowRun::issued(const PacketBatch &batch, size_t begin, size_t count, const ObservationLog &log,
                              Player &player) {
  if (report.stopped || !count)
    return llvm::Error::success();
  if (llvm::Error error = giveUp(issueSame(batch, begin, count)))
    return error;
  uint64_t first = batch.firstOrdinal + begin;
  if (llvm::Error error = cursor.moveTo(first))
    return error;
  bool both = player.answers() && shadow->answers();
  size_t seen = std::min({count, log.observations.size(), shadowLog.observations.size()});
  for (size_t i = 0; i < seen; ++i) {
    const Packet &packet = batch.packets[begin + i];
    const Observation &ours = log.observations[i], &theirs = shadowLog.observations[i];
    if (theirs.state == State::Failed && packet.completion != Completion::Failed && !report.failure &&
        theirs.failure && theirs.failure <= shadowLog.failures.size())
      report.failure = shadowLog.failures[theirs.failure - 1];
    if (!both) {
      ++report.notComparable;
      continue;
    }
    ++report.answersCompared;
    Comparison comparison =
        compareObservations(packet, batch.extra(packet), player.context(packet), {ours, log.contentOf(ours)},
                            {theirs, shadowLog.contentOf(theirs)});
    if (!isDivergence(gradeOf(comparison.rule)))
      continue;
    ++report.answersDiffer;
    windowDiffers = true;
    if (report.answers.size() < std::max<size_t>(1, options.keptDifferences))
      report.answers.push_back(
          describeDivergence(source, player.context(packet), packet, first + i, cursor.window(), comparison));
  }
  if (seen < count || shadow->stopped()) {
    report.stopped = true;
    return llvm::Error::success();
  }
  if (first + count < cursor.endPacket())
    return llvm::Error::success();
  return giveUp(endWindow(player, batch.packets[begin + count - 1]));
}

/// Where a window can only be seen by making the device transfer it, looking would change the run.
void ShadowRun::noteWindowsNotSeen(Player &player) {
  for (size_t device = 0; device < player.deviceCount(); ++device)
    if (const Description *description = source.description(uint16_t(device)))
      for (const InternalWindow &window : description->windows)
        report.coverage.notVisible[window.name] =
            "cannot be peeked on both, and reading it back would disturb";
}

/// What the description calls idle holds: everything in every queue is done.
static llvm::Expected<bool> isIdle(Player &player) {
  for (size_t device = 0; device < player.deviceCount(); ++device) {
    DeviceBinding &binding = player.binding(uint16_t(device));
    const Description *description = binding.description();
    if (!description || description->queues.empty() || description->idle.empty())
      continue;
    bool holds = false;
    for (const RegisterCondition &condition : description->idle) {
      llvm::Expected<uint64_t> value = binding.readRegister(description->registers[condition.reg]);
      if (!value)
        return value.takeError();
      holds |= condition.holds(*value);
    }
    if (!holds)
      return false;
  }
  return true;
}

/// Nothing is outstanding for the host, and neither device is at anything: what they hold can be compared.
llvm::Expected<bool> ShadowRun::atRest(Player &player, const Packet &last) {
  // A reset takes its time, which the next window's packets wait for.
  if (!cursor.info().quiescent || isReset(source, last))
    return false;
  llvm::Expected<bool> idle = isIdle(player);
  return idle && *idle ? isIdle(*shadow) : std::move(idle);
}

llvm::Error ShadowRun::endWindow(Player &player, const Packet &last) {
  ++report.windows;
  bool differs = windowDiffers;
  windowDiffers = false;
  uint64_t end = cursor.endPacket();
  auto count = [&] { report.windowsDiffer += differs; };
  if (!player.answers() || !shadow->answers() || player.stopped()) {
    count();
    return llvm::Error::success();
  }
  llvm::Expected<bool> rests = atRest(player, last);
  if (!rests)
    return rests.takeError();
  if (!*rests) {
    ++report.notQuiescent;
    count();
    return llvm::Error::success();
  }
  std::vector<const History *> views;
  for (std::unique_ptr<History> &history : histories) {
    if (llvm::Error error = history->advanceTo(end))
      return error;
    views.push_back(history.get());
  }
  report.memoryBytes = 0;
  for (size_t device = 0; device < player.deviceCount(); ++device)
    report.memoryBytes += player.binding(uint16_t(device)).bytesMapped();
  PlayerPair pair(player, *shadow);
  unsigned parts = ProbeMemory | ProbeRegisters;
  if (StateProbe::isFree(pair))
    parts |= ProbeWindows;
  else
    noteWindowsNotSeen(player);
  llvm::Expected<std::optional<StateDifference>> difference = probe.compare(pair, parts, views);
  if (!difference)
    return difference.takeError();
  ++report.statesCompared;
  if (*difference) {
    ++report.statesDiffer;
    differs = true;
    if (!report.state)
      report.state = ShadowReport::State{cursor.window(), end, **difference};
  }
  count();
  return llvm::Error::success();
}

} // namespace tapeback
