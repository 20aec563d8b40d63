// Probes inside a window that begin with a keyframe: what the recorder saw, put into fresh targets, instead
// of everything before it. It is not the device's whole state, so that it is used only where the difference
// that is looked for comes again from there.
#include "format/Failure.h"
#include "replayer/bisect/Bisection.h"

namespace tapeback {

/// For the plan: how many places can be restored, of some.
llvm::Error Bisection::countKeyframes() {
  constexpr size_t most = 32;
  BisectPlan &plan = report.plan;
  if (!options.cut || boundaries.empty() || !start.keyframes.empty())
    return llvm::Error::success();
  std::vector<std::unique_ptr<History>> histories;
  size_t stride = (boundaries.size() + most - 1) / most;
  for (size_t i = 0; i < boundaries.size(); i += stride) {
    bool restorable = true;
    for (size_t device = 0; device < source.deviceCount() && restorable; ++device) {
      if (device == histories.size()) {
        llvm::Expected<std::unique_ptr<History>> history =
            History::before(source, uint16_t(device), boundaries[i].end, /*contents=*/true);
        if (!history)
          return history.takeError();
        histories.push_back(std::move(*history));
      } else if (llvm::Error error = histories[device]->advanceTo(boundaries[i].end)) {
        return error;
      }
      llvm::Expected<Keyframe> keyframe = histories[device]->state().keyframe(
          [](llvm::ArrayRef<uint8_t>) -> llvm::Expected<BlobId> { return BlobId(); });
      if (!keyframe)
        return keyframe.takeError();
      restorable &= keyframe->restorable;
    }
    ++plan.keyframesTried;
    plan.keyframes += restorable;
  }
  return llvm::Error::success();
}

/// Sets `inside` if probes of (from, to] may begin with a keyframe at or before `from`: the one of `to` has
/// to show what a run from the start showed.
llvm::Error Bisection::startFromKeyframe(uint64_t from, uint64_t to, unsigned parts) {
  if (!options.cut || !from || !start.keyframes.empty())
    return llvm::Error::success();
  auto unable = [&](llvm::Error error) -> llvm::Error {
    inside.reset();
    Failure failure = toFailure(std::move(error));
    if (failure.cls == FailureClass::Tape || failure.cls == FailureClass::System)
      return llvm::make_error<Failure>(std::move(failure));
    report.notes.push_back("probes inside the window play everything before them: " + failure.message);
    return llvm::Error::success();
  };
  llvm::Expected<uint64_t> window = source.reader().windowOfPacket(from);
  if (!window)
    return window.takeError();
  llvm::Expected<BisectPart> part = options.cut(*window, boundaries[state->boundary].window);
  if (!part)
    return unable(part.takeError());
  if (!part->firstPacket || part->firstPacket > from)
    return llvm::Error::success();
  llvm::Expected<StartState> begins = findStartState(*part->source, /*fromReset=*/false);
  if (!begins)
    return unable(begins.takeError());
  uint64_t first = part->firstPacket;
  inside = Part{std::move(*part), std::move(*begins)};
  llvm::Expected<std::optional<StateDifference>> seen = makeProbe(to, parts);
  if (!seen)
    return unable(seen.takeError());
  const StateDifference &wanted = state->difference;
  bool same = *seen && (*seen)->kind == wanted.kind && (*seen)->device == wanted.device &&
              (*seen)->name == wanted.name && (*seen)->address == wanted.address &&
              (*seen)->good == wanted.good && (*seen)->bad == wanted.bad;
  if (same) {
    report.insideStart = first;
    return llvm::Error::success();
  }
  inside.reset();
  report.notes.push_back("begun with a keyframe at packet " + std::to_string(first) +
                         " the states do not differ as they do from the start: probes inside the window play "
                         "everything before them");
  return llvm::Error::success();
}

} // namespace tapeback
