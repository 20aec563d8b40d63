#include "replayer/reduce/Trial.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

std::string deathWords(llvm::StringRef message) {
  constexpr size_t most = 200;
  llvm::StringRef words = message.split("; its last words: ").second.trim("\" ");
  static constexpr llvm::StringLiteral reasons[] = {
      "ssertion", "ERROR", "SUMMARY:", "runtime error", "terminate called", "panic", "hardware error"};
  bool tells = llvm::any_of(reasons, [&](llvm::StringRef reason) { return words.contains(reason); });
  llvm::StringRef text = tells ? words : message.split("; its last words: ").first;
  std::string result;
  for (size_t i = 0; i < text.size() && result.size() < most;) {
    // Numbers of five digits and more, and those with hexadecimal digits, are another every time.
    size_t end = i;
    bool hex = text.substr(i).starts_with_insensitive("0x");
    if (hex)
      end += 2;
    while (end < text.size() && (hex ? llvm::isHexDigit(text[end]) : llvm::isDigit(text[end])))
      ++end;
    if (hex || end - i >= 5)
      result += '#';
    else
      result += text.slice(i, std::max(end, i + 1));
    i = std::max(end, i + 1);
  }
  return result;
}

FailureKind failureKindOf(const Divergence &divergence, const std::optional<Failure> &death) {
  FailureKind kind;
  const std::string &place = divergence.reg.empty() ? divergence.space : divergence.reg;
  if (death) {
    kind.what = death->code;
    kind.object = deathWords(death->message);
    kind.field = divergence.kind + " " + place;
    return kind;
  }
  kind.what = divergence.kind + " " + ruleName(divergence.rule);
  kind.object = place;
  kind.field = divergence.field;
  kind.offset = divergence.offset;
  if (divergence.expected && divergence.actual)
    kind.xorClass = *divergence.expected ^ *divergence.actual;
  return kind;
}

SignatureMatch matchFailures(const FailureKind &a, const FailureKind &b) {
  if (a.what != b.what || a.object != b.object)
    return SignatureMatch::None;
  if (a.field != b.field || a.offset != b.offset)
    return SignatureMatch::SameKind;
  return a.xorClass == b.xorClass ? SignatureMatch::Exact : SignatureMatch::SamePlace;
}

namespace {

/// A candidate need not make sense: what is wrong with the tape is an answer, what is wrong with a target is
/// not ours to swallow.
llvm::Error unlessOfCandidate(llvm::Error error) {
  Failure failure = toFailure(std::move(error));
  if (failure.cls == FailureClass::Target || failure.cls == FailureClass::System)
    return llvm::make_error<Failure>(std::move(failure));
  return llvm::Error::success();
}

const Failure *deathOf(const ObservationLog &log, const Observation &seen) {
  if (seen.state != Observation::State::Failed || !seen.failure || seen.failure > log.failures.size())
    return nullptr;
  const Failure &failure = log.failures[seen.failure - 1];
  return isFatalForTarget(failure) ? &failure : nullptr;
}

std::optional<Failure> deathIn(const ObservationLog &log) {
  for (const Observation &seen : log.observations)
    if (const Failure *death = deathOf(log, seen))
      return *death;
  return std::nullopt;
}

void keep(Recaptured &kept, const ObservationLog &log) {
  for (const Observation &seen : log.observations) {
    llvm::ArrayRef<uint8_t> content = log.contentOf(seen);
    kept.observations.push_back(seen);
    kept.contents.emplace_back(content.begin(), content.end());
  }
}

class Trial {
public:
  Trial(TapeSource &source, const Endpoints &endpoints, const TrialOptions &options, CapturedTrial *captured)
      : source(source), endpoints(endpoints), options(options), captured(captured) {}

  llvm::Expected<TrialResult> run() {
    if (llvm::Error error = play())
      if (llvm::Error serious = unlessOfCandidate(std::move(error)))
        return serious;
    return std::move(result);
  }

private:
  llvm::Error play() {
    llvm::Expected<StartState> start = findStartState(source, options.fromReset);
    if (!start)
      return start.takeError();
    return endpoints.good ? both(*start) : alone(*start);
  }

  /// As two replays go, which is how what is left will be replayed: what is handed over at once may decide
  /// when things happen. A part that waits for what it lacks ends there.
  llvm::Error both(const StartState &start) {
    Side good, bad;
    if (llvm::Error error = good.begin(source, endpoints.good, start, options.player))
      return error;
    if (llvm::Error error = bad.begin(source, endpoints.bad, start, options.player))
      return error;
    PacketBatch batch;
    WindowCursor cursor(source.reader());
    const uint64_t count = source.reader().summary().packets;
    for (uint64_t next = 0; next < count; next += batch.packets.size()) {
      if (llvm::Error error = source.reader().readBlockFrom(next, batch))
        return error;
      for (size_t begin = 0; begin < batch.packets.size();) {
        llvm::Expected<size_t> issued = issueBoth(good, bad, batch, begin);
        if (!issued)
          return issued.takeError();
        for (size_t i = 0; i < *issued; ++i)
          if (judge(good, bad, batch, begin + i, i))
            return describe(good, bad, cursor, batch, begin + i);
        bool inVain = options.stopInVain && good.player->uselessWait();
        if (result.goodFailure || inVain || !*issued || good.player->stopped() || bad.player->stopped())
          return llvm::Error::success();
        begin += *issued;
      }
    }
    return llvm::Error::success();
  }

  struct Side {
    TargetSet targets;
    std::unique_ptr<Player> player;
    ObservationLog log;

    llvm::Error begin(TapeSource &source, const EndpointFactory &open, const StartState &start,
                      const PlayerOptions &options) {
      llvm::Expected<TargetSet> opened = open();
      if (!opened)
        return opened.takeError();
      targets = std::move(*opened);
      llvm::Expected<std::unique_ptr<Player>> created = Player::create(source, targets.targets, options);
      if (!created)
        return created.takeError();
      player = std::move(*created);
      return player->prepare(start);
    }
    ObservedSide seen(size_t i) const { return {log.observations[i], log.contentOf(log.observations[i])}; }
  };

  /// The good side goes first and decides how far.
  llvm::Expected<size_t> issueBoth(Side &good, Side &bad, const PacketBatch &batch, size_t begin) {
    good.log.clear();
    bad.log.clear();
    llvm::Expected<size_t> count = good.player->issue(batch, begin, batch.packets.size(), good.log);
    if (!count)
      return count.takeError();
    llvm::Expected<size_t> done = bad.player->issueAll(batch, begin, begin + *count, bad.log);
    if (!done)
      return done.takeError();
    if (captured) {
      keep(captured->good, good.log);
      keep(captured->bad, bad.log);
    }
    return done;
  }

  /// True: they differ there, by the bad side's fault. `i`: in the logs.
  bool judge(Side &good, Side &bad, const PacketBatch &batch, size_t index, size_t i) {
    const Packet &packet = batch.packets[index];
    const Observation &wanted = good.log.observations[i];
    if (wanted.state == Observation::State::Failed && packet.completion != Completion::Failed &&
        wanted.failure && wanted.failure <= good.log.failures.size() && !result.goodFailure)
      result.goodFailure = good.log.failures[wanted.failure - 1];
    if (result.goodFailure || !good.player->answers() || !bad.player->answers())
      return false;
    comparison = compareObservations(packet, batch.extra(packet), good.player->context(packet), good.seen(i),
                                     bad.seen(i));
    return isDivergence(gradeOf(comparison.rule));
  }

  llvm::Error describe(Side &good, Side &bad, WindowCursor &cursor, const PacketBatch &batch, size_t index) {
    uint64_t ordinal = batch.firstOrdinal + index;
    if (llvm::Error error = cursor.moveTo(ordinal))
      return error;
    const Packet &packet = batch.packets[index];
    result.divergence = describeDivergence(source, good.player->context(packet), packet, ordinal,
                                           cursor.window(), comparison);
    std::optional<Failure> death;
    if (comparison.rule == Rule::TargetFailed)
      death = deathIn(bad.log);
    if (death) {
      result.divergence->failure = death->message;
      noteDeath(*bad.player);
    }
    result.failure = failureKindOf(*result.divergence, death);
    return llvm::Error::success();
  }

  /// Nothing but the target's death counts: there is nobody to say what its answers should be.
  llvm::Error alone(const StartState &start) {
    llvm::Expected<TargetSet> targets = endpoints.bad();
    if (!targets)
      return targets.takeError();
    llvm::Expected<std::unique_ptr<Player>> player = Player::create(source, targets->targets, options.player);
    if (!player)
      return player.takeError();
    if (llvm::Error error = (*player)->prepare(start))
      return error;
    PacketBatch batch;
    ObservationLog log;
    WindowCursor cursor(source.reader());
    const uint64_t count = source.reader().summary().packets;
    for (uint64_t next = 0; next < count && !(*player)->stopped();) {
      if (llvm::Error error = source.reader().readBlockFrom(next, batch))
        return error;
      for (size_t begin = 0; begin < batch.packets.size() && !(*player)->stopped();) {
        log.clear();
        llvm::Expected<size_t> issued = (*player)->issue(batch, begin, batch.packets.size(), log);
        if (!issued)
          return issued.takeError();
        if (captured)
          keep(captured->bad, log);
        for (size_t i = 0; i < log.observations.size(); ++i)
          if (const Failure *death = deathOf(log, log.observations[i]))
            return died(**player, cursor, batch, begin + i, *death);
        if (!*issued)
          return llvm::Error::success();
        begin += *issued;
      }
      next += batch.packets.size();
    }
    return (*player)->stopped() || batch.packets.empty() ? llvm::Error::success()
                                                         : settle(**player, cursor, batch);
  }

  /// Some devices die only when everything was said: that is the last packet's.
  llvm::Error settle(Player &player, WindowCursor &cursor, const PacketBatch &batch) {
    for (size_t i = 0; i < player.deviceCount(); ++i)
      if (llvm::Error error = player.binding(uint16_t(i)).target().settle()) {
        Failure failure = toFailure(std::move(error));
        if (failure.cls != FailureClass::Target)
          return llvm::make_error<Failure>(std::move(failure));
        result.atRest = true;
        return died(player, cursor, batch, batch.packets.size() - 1, failure);
      }
    return llvm::Error::success();
  }

  llvm::Error died(Player &player, WindowCursor &cursor, const PacketBatch &batch, size_t index,
                   const Failure &death) {
    uint64_t ordinal = batch.firstOrdinal + index;
    if (llvm::Error error = cursor.moveTo(ordinal))
      return error;
    const Packet &packet = batch.packets[index];
    Comparison comparison;
    comparison.rule = Rule::TargetFailed;
    result.divergence =
        describeDivergence(source, player.context(packet), packet, ordinal, cursor.window(), comparison);
    result.divergence->failure = death.message;
    result.failure = failureKindOf(*result.divergence, death);
    noteDeath(player);
    return llvm::Error::success();
  }

  /// A machine that is gone: how it went says more than where.
  void noteDeath(Player &player) {
    result.death = true;
    for (size_t i = 0; i < player.deviceCount() && !result.machine; ++i)
      if (std::optional<MachineReport> machine = player.binding(uint16_t(i)).target().machineReport())
        if (machine->ended)
          result.machine = std::move(machine);
  }

  TapeSource &source;
  const Endpoints &endpoints;
  const TrialOptions &options;
  CapturedTrial *captured;
  TrialResult result;
  Comparison comparison;
};

} // namespace

llvm::Expected<TrialResult> tryCandidate(TapeSource &candidate, const Endpoints &endpoints,
                                         const TrialOptions &options) {
  return Trial(candidate, endpoints, options, nullptr).run();
}

llvm::Expected<CapturedTrial> captureCandidate(TapeSource &candidate, const Endpoints &endpoints,
                                               const TrialOptions &options) {
  CapturedTrial captured;
  llvm::Expected<TrialResult> result = Trial(candidate, endpoints, options, &captured).run();
  if (!result)
    return result.takeError();
  captured.result = std::move(*result);
  return captured;
}

} // namespace tapeback
