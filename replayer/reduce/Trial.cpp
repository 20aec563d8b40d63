#include "replayer/reduce/Trial.h"

namespace tapeback {

FailureKind failureKindOf(const Divergence &divergence) {
  FailureKind kind;
  kind.what = divergence.kind + " " + ruleName(divergence.rule);
  kind.object = divergence.reg.empty() ? divergence.space : divergence.reg;
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

/// A candidate need not make sense: what is wrong with the tape is an answer, what is wrong with a target is
/// not ours to swallow.
static llvm::Expected<bool> isOfCandidate(llvm::Error error) {
  Failure failure = toFailure(std::move(error));
  if (failure.cls == FailureClass::Target || failure.cls == FailureClass::System)
    return llvm::make_error<Failure>(std::move(failure));
  return true;
}

llvm::Expected<TrialResult> tryCandidate(const TapeImage &image, const Candidate &candidate,
                                         const Endpoints &endpoints, const TrialOptions &options) {
  TrialResult result;
  auto judged = [&](llvm::Error error) -> llvm::Expected<TrialResult> {
    llvm::Expected<bool> candidates = isOfCandidate(std::move(error));
    if (!candidates)
      return candidates.takeError();
    return result;
  };
  llvm::Expected<std::unique_ptr<TapeSource>> source = TapeSource::create(readCandidate(image, candidate));
  if (!source)
    return source.takeError();
  llvm::Expected<StartState> start = findStartState(**source, options.fromReset);
  if (!start)
    return judged(start.takeError());
  Lockstep::Options lockstep;
  lockstep.player = options.player;
  lockstep.withTape = false;
  llvm::Expected<std::unique_ptr<Lockstep>> run = Lockstep::start(**source, endpoints, *start, lockstep);
  if (!run)
    return judged(run.takeError());
  // In steps, so that a part that waits for what it lacks does not do so again and again.
  constexpr uint64_t step = 32;
  for (uint64_t end = 0; end < candidate.packets.size() && !(*run)->stopped();) {
    end = std::min<uint64_t>(end + step, candidate.packets.size());
    if (llvm::Error error = (*run)->runTo(end))
      return judged(std::move(error));
    if (options.stopInVain && !(*run)->divergence() && (*run)->good.player->uselessWait())
      return result;
  }
  result.goodFailure = (*run)->good.failure;
  // A difference because the good side failed is not the bad side's.
  if (!result.goodFailure)
    result.divergence = (*run)->divergence();
  return result;
}

llvm::Expected<Recaptured> recapture(TapeSource &candidate, const EndpointFactory &endpoint,
                                     const TrialOptions &options) {
  llvm::Expected<StartState> start = findStartState(candidate, options.fromReset);
  if (!start)
    return start.takeError();
  llvm::Expected<TargetSet> targets = endpoint();
  if (!targets)
    return targets.takeError();
  llvm::Expected<std::unique_ptr<Player>> player =
      Player::create(candidate, targets->targets, options.player);
  if (!player)
    return player.takeError();
  if (llvm::Error error = (*player)->prepare(*start))
    return error;
  Recaptured result;
  PacketBatch batch;
  ObservationLog log;
  uint64_t count = candidate.reader().summary().packets;
  while (result.observations.size() < count && !(*player)->stopped()) {
    if (llvm::Error error = candidate.reader().readBlockFrom(result.observations.size(), batch))
      return error;
    for (size_t begin = 0; begin < batch.packets.size() && !(*player)->stopped();) {
      log.clear();
      llvm::Expected<size_t> issued = (*player)->issue(batch, begin, batch.packets.size(), log);
      if (!issued)
        return issued.takeError();
      if (!*issued)
        return result;
      for (const Observation &seen : log.observations) {
        llvm::ArrayRef<uint8_t> content = log.contentOf(seen);
        result.observations.push_back(seen);
        result.contents.emplace_back(content.begin(), content.end());
      }
      begin += *issued;
    }
  }
  return result;
}

} // namespace tapeback
