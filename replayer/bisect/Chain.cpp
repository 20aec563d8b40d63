// Who wrote it, on each side: what the good and the bad one had at every link of the chain.
#include "format/Failure.h"
#include "replayer/bisect/Bisection.h"
#include "llvm/ADT/STLExtras.h"

namespace tapeback {

/// The packet that reads link `link` on is that of the link before it. What it read is still there at the
/// first quiescent place behind it, if nobody has written there again.
llvm::Expected<std::optional<uint64_t>> Bisection::readOnAt(size_t link) {
  constexpr uint64_t farthest = 4096;
  const WriterRecord &record = report.writers[link], &reader = report.writers[link - 1];
  uint64_t from = reader.place.packet;
  uint64_t to = std::min(source.reader().summary().packets, from + farthest);
  llvm::Expected<std::vector<uint64_t>> points = quiescentPoints(from, to, /*withLast=*/false);
  if (!points)
    return points.takeError();
  if (points->empty())
    return std::nullopt;
  llvm::Expected<std::unique_ptr<History>> history =
      History::before(source, record.thing->device, points->front(), /*contents=*/false);
  if (!history)
    return history.takeError();
  if (lastWriterOf((*history)->state(), *record.thing) != record.ordinal)
    return std::nullopt;
  return points->front();
}

/// Seen without side effect; nothing if that cannot be.
llvm::Expected<std::optional<uint64_t>> Bisection::byteOf(Player &player, const WrittenThing &thing) {
  DeviceBinding &binding = player.binding(thing.device);
  uint8_t byte = 0;
  llvm::Error error = llvm::Error::success();
  const InternalWindow *window =
      thing.kind == WrittenThing::Kind::Window && binding.description() && binding.capabilities().peek
          ? binding.description()->findWindow(thing.name)
          : nullptr;
  if (thing.kind == WrittenThing::Kind::Memory && binding.isMapped(thing.address, 1))
    error = binding.readMemory(thing.address, byte);
  else if (window)
    error = binding.target().peek(thing.name, thing.address - window->base, byte);
  else
    return std::nullopt;
  if (!error)
    return byte;
  Failure failure = toFailure(std::move(error));
  if (failure.cls == FailureClass::Tape || failure.cls == FailureClass::System)
    return llvm::make_error<Failure>(std::move(failure));
  return std::nullopt;
}

llvm::Error Bisection::showChain() {
  if (!report.first || report.writers.empty())
    return llvm::Error::success();
  report.writers.front().good = report.first->expected;
  report.writers.front().bad = report.first->actual;
  // What one run has on the way says nothing about another that fails.
  if (isIntermittent() || options.intermittent)
    return llvm::Error::success();
  std::vector<std::pair<uint64_t, size_t>> places; // Where to look, and at which link.
  for (size_t link = 1; link < report.writers.size(); ++link) {
    const std::optional<WrittenThing> &thing = report.writers[link].thing;
    if (!thing || thing->kind == WrittenThing::Kind::Register)
      continue;
    llvm::Expected<std::optional<uint64_t>> at = readOnAt(link);
    if (!at)
      return at.takeError();
    if (*at)
      places.emplace_back(**at, link);
  }
  if (places.empty())
    return llvm::Error::success();
  llvm::sort(places);
  std::unique_ptr<Lockstep> fresh;
  const LockstepPlace *from = nullptr;
  for (const LockstepPlace &place : pool)
    if (kept && place.packet <= places.front().first)
      from = &place;
  if (from) {
    if (llvm::Error error = kept->goBack(*from))
      return error;
  } else {
    llvm::Expected<std::unique_ptr<Lockstep>> run = startUncompared();
    if (!run)
      return run.takeError();
    fresh = std::move(*run);
  }
  Lockstep &run = from ? *kept : *fresh;
  for (auto [at, link] : places) {
    if (llvm::Error error = run.runTo(at))
      return error;
    if (run.position() < at)
      break; // One of them is gone.
    WriterRecord &record = report.writers[link];
    for (auto [side, value] : {std::pair(&run.good, &record.good), std::pair(&run.bad, &record.bad)}) {
      llvm::Expected<std::optional<uint64_t>> seen = byteOf(*side->player, *record.thing);
      if (!seen)
        return seen.takeError();
      *value = *seen;
    }
  }
  return llvm::Error::success();
}

} // namespace tapeback
