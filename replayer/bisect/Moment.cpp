// When it happened, by the bad device's own clock: to the cycle on RTL, whose waveform has the same time
// axis.
#include "format/Failure.h"
#include "replayer/bisect/Bisection.h"

namespace tapeback {
namespace {

constexpr uint64_t longest = 200'000'000; ///< Nanoseconds behind the packet.

/// The device `wait` behind the place, which it is put back to first.
llvm::Error waitFrom(Lockstep &run, const LockstepPlace &place, Target &target, uint64_t wait) {
  if (llvm::Error error = run.goBack(place))
    return error;
  return wait ? target.advance(wait) : llvm::Error::success();
}

} // namespace

/// Behind the guilty packet, with nothing else done: from when on the byte is what it is in the end. Halves
/// the time between when it was not and when it is.
llvm::Error Bisection::findMoment(Lockstep &run, const WrittenThing &thing, BisectMoment &moment) {
  Player &player = *run.bad.player;
  Target &target = player.binding(thing.device).target();
  llvm::Expected<LockstepPlace> place = run.keep(/*issued=*/false);
  if (!place)
    return place.takeError();
  auto work = [&]() -> llvm::Error {
    auto valueAt = [&](uint64_t wait) -> llvm::Expected<std::optional<uint64_t>> {
      if (llvm::Error error = waitFrom(run, *place, target, wait))
        return error;
      return byteOf(player, thing);
    };
    llvm::Expected<uint64_t> begins = target.deviceTime();
    if (!begins)
      return begins.takeError();
    llvm::Expected<Settled> settled = settle(run);
    if (!settled)
      return settled.takeError();
    llvm::Expected<uint64_t> ends = target.deviceTime();
    if (!ends)
      return ends.takeError();
    llvm::Expected<std::optional<uint64_t>> first = valueAt(0);
    if (!first)
      return first.takeError();
    moment.to = *ends;
    std::optional<uint64_t> wrong = report.first->actual;
    if (!*first || *first == wrong)
      return llvm::Error::success();    // Not to be seen, or so already: what should have come did not.
    uint64_t before = 0, after = 1'000; // Waits: still as at first, and as in the end.
    for (;; before = after, after *= 2) {
      llvm::Expected<std::optional<uint64_t>> seen = valueAt(after);
      if (!seen)
        return seen.takeError();
      if (*seen == wrong)
        break;
      if (after >= longest)
        return llvm::Error::success();
    }
    while (after - before > 1) {
      uint64_t middle = before + (after - before) / 2;
      llvm::Expected<std::optional<uint64_t>> seen = valueAt(middle);
      if (!seen)
        return seen.takeError();
      (*seen == wrong ? after : before) = middle;
    }
    moment.changed = *begins + after;
    return llvm::Error::success();
  };
  llvm::Error error = work();
  return llvm::joinErrors(std::move(error), run.forget(*place));
}

llvm::Error Bisection::tellMoment() {
  if (!report.first || !report.stateNamed || !kept || isIntermittent())
    return llvm::Error::success();
  const LockstepPlace *from = nullptr;
  for (const LockstepPlace &place : pool)
    if (place.packet <= report.first->place.packet)
      from = &place;
  if (!from || !kept->bad.player->binding(report.first->place.device).capabilities().deviceTime)
    return llvm::Error::success();
  if (llvm::Error error = kept->goBack(*from))
    return error;
  uint64_t packet = report.first->place.packet;
  if (llvm::Error error = kept->runTo(packet))
    return error;
  auto time = [&] { return kept->bad.player->binding(report.first->place.device).target().deviceTime(); };
  auto work = [&]() -> llvm::Error {
    llvm::Expected<uint64_t> begins = time();
    if (!begins)
      return begins.takeError();
    BisectMoment moment;
    moment.from = *begins;
    if (llvm::Error error = kept->runTo(packet + 1))
      return error;
    if (kept->position() <= packet)
      return llvm::Error::success();
    if (llvm::Error error = findMoment(*kept, writtenThing(*report.stateNamed), moment))
      return error;
    // A device that does not say when it rests was at rest where the difference showed.
    if (llvm::Error error = kept->goBack(*from))
      return error;
    if (llvm::Error error = kept->runTo(*report.visibleAt + 1))
      return error;
    llvm::Expected<uint64_t> shown = time();
    if (!shown)
      return shown.takeError();
    moment.to = std::max(moment.to, *shown);
    report.moment = moment;
    return llvm::Error::success();
  };
  llvm::Error error = work();
  if (!error)
    return error;
  Failure failure = toFailure(std::move(error));
  if (failure.cls == FailureClass::Tape || failure.cls == FailureClass::System)
    return llvm::make_error<Failure>(std::move(failure));
  report.notes.push_back("when it happened is not told: " + failure.message);
  return llvm::Error::success();
}

} // namespace tapeback
