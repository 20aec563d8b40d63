// State out: keyframes, seeding from one, and looking things up.
#include "hal/state/ShadowState.h"

#include "hal/state/StateParts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

bool WindowState::clip(uint64_t first, uint64_t length, uint64_t &clippedFirst, uint64_t &clippedLast) const {
  if (length == 0 || first > last() || lastOf(first, length) < window->base)
    return false;
  clippedFirst = std::max(first, window->base);
  clippedLast = std::min(lastOf(first, length), last());
  return true;
}

std::optional<uint64_t> WindowState::firstUnknown(const PageBudget &budget) const {
  uint64_t at = window->base;
  for (;;) {
    uint64_t unknown = 0;
    if (!content.firstUnknown(at, last(), unknown))
      return std::nullopt;
    if (!fillHolds(budget) || writers.find(unknown))
      return unknown;
    // As the reset left it, up to the next byte that somebody wrote.
    std::optional<uint64_t> written = writers.nextFrom(unknown);
    if (!written || *written > last())
      return std::nullopt;
    at = *written;
  }
}

std::string ShadowState::State::whyNotRestorable() const {
  if (!activities.idle() || !queues.idle()) {
    std::vector<std::string> names = activities.names();
    llvm::append_range(names, queues.names());
    return "the device was not quiescent: " + llvm::join(names, ", ");
  }
  if (!description)
    return "there is no device description";
  if (!description->hasRestore)
    return "the description of " + description->name + " has no restore recipe";
  if (!queues.untouched())
    return "queues have been used since the reset, and where they are is not in any register that can be "
           "written";
  if (mappings.evicted())
    return "there were more mappings than can be remembered";
  for (const RestoreStep &step : description->restore) {
    if (step.kind == RestoreStep::Kind::Register) {
      if (!registers.described(step.reg))
        return "register " + description->registers[step.reg].name + " is not known";
      continue;
    }
    auto window = llvm::find_if(windows, [&](const WindowState &w) { return w.window->name == step.window; });
    if (window == windows.end())
      return "window " + step.window + " does not exist";
    if (std::optional<uint64_t> unknown = window->firstUnknown(budget))
      return "the content of window " + step.window + " is not known at 0x" +
             llvm::utohexstr(*unknown, true) +
             (budget.refused() ? " (more content than can be remembered)" : "");
  }
  return {};
}

llvm::Expected<Keyframe>
ShadowState::keyframe(const std::function<llvm::Expected<BlobId>(llvm::ArrayRef<uint8_t>)> &store) const {
  Keyframe keyframe;
  keyframe.device = state->device;
  keyframe.reason = state->whyNotRestorable();
  keyframe.restorable = keyframe.reason.empty();
  if (keyframe.restorable)
    keyframe.reason = "restore recipe of " + state->description->name + ", " +
                      std::to_string(state->description->restore.size()) + " steps";
  keyframe.registers = state->registers.known();

  llvm::Error failure = llvm::Error::success();
  auto addKnown = [&](const ContentMap &content, uint16_t space, uint64_t first, uint64_t last,
                      std::vector<KeyframeExtent> &extents) {
    content.visitKnown(first, last, [&](uint64_t address, llvm::ArrayRef<uint8_t> bytes) {
      llvm::Expected<BlobId> id = store(bytes);
      if (!id) {
        failure = llvm::joinErrors(std::move(failure), id.takeError());
        return false;
      }
      extents.push_back({space, address, bytes.size(), *id});
      return true;
    });
    return !failure;
  };
  bool good = true;
  state->mappings.visit([&](uint64_t first, uint64_t last, uint64_t) {
    uint64_t length = last - first + 1; // 0 would be all of the address space: no mapping is.
    keyframe.mappings.push_back({0, first, length ? length : last - first, {}});
    good = good && addKnown(state->memory, 0, first, last, keyframe.memory);
  });
  for (size_t i = 0; good && i < state->windows.size(); ++i) {
    const WindowState &window = state->windows[i];
    good = addKnown(window.content, uint16_t(i), window.window->base, window.last(), keyframe.internal);
  }
  if (failure)
    return failure;
  return keyframe;
}

void ShadowState::seed(const Keyframe &keyframe, const BlobLookup &blobs) {
  State &s = *state;
  s.registers.seed(keyframe.registers);
  s.forgetMemory();
  s.forgetWindows(std::nullopt,
                  keyframe.restorable); // A restorable keyframe leaves out only what a reset defines.
  s.mappings.clear();
  s.synchronised = false;
  s.commandsAtMarker = s.commands;
  s.seededAt = keyframe.packet;
  s.lastQueue.reset();
  if (keyframe.restorable) {
    s.activities.reset();
    s.queues.reset();
  } else {
    s.activities.lost(keyframe.packet);
    s.queues.lost();
  }
  for (const KeyframeExtent &mapping : keyframe.mappings)
    if (mapping.length)
      s.mappings.assign(mapping.address, lastOf(mapping.address, mapping.length), keyframe.packet);
  auto content = [&](const KeyframeExtent &extent) {
    llvm::ArrayRef<uint8_t> bytes = blobs ? blobs(extent.content) : llvm::ArrayRef<uint8_t>();
    return bytes.size() > extent.length ? bytes.take_front(size_t(extent.length)) : bytes;
  };
  for (const KeyframeExtent &extent : keyframe.memory)
    s.memory.store(extent.address, content(extent));
  for (const KeyframeExtent &extent : keyframe.internal) {
    uint64_t first, last;
    if (extent.space >= s.windows.size() ||
        !s.windows[extent.space].clip(extent.address, extent.length, first, last) || first != extent.address)
      continue;
    llvm::ArrayRef<uint8_t> bytes = content(extent);
    if (bytes.size() > last - first)
      bytes = bytes.take_front(size_t(last - first) + 1);
    s.windows[extent.space].content.store(first, bytes);
  }
}

std::optional<uint64_t> ShadowState::lastWriterOfRegister(uint16_t space, uint64_t address) const {
  return state->registers.writer(space, address);
}
std::optional<uint64_t> ShadowState::lastWriterOfMemory(uint64_t iova) const {
  return state->memoryWriters.find(iova);
}
std::optional<uint64_t> ShadowState::registerValue(uint16_t space, uint64_t address) const {
  return state->registers.value(space, address);
}

std::optional<uint64_t> ShadowState::lastWriterOfWindow(llvm::StringRef window,
                                                        uint64_t deviceAddress) const {
  for (const WindowState &candidate : state->windows) {
    uint64_t first, last;
    if (candidate.window->name != window || !candidate.clip(deviceAddress, 1, first, last))
      continue;
    if (std::optional<uint64_t> writer = candidate.writers.find(deviceAddress))
      return writer;
    return candidate.writers.evicted() ? std::nullopt : candidate.resetBy;
  }
  return std::nullopt;
}

size_t ShadowState::memoryContent(uint64_t iova, llvm::MutableArrayRef<uint8_t> out,
                                  llvm::MutableArrayRef<bool> known) const {
  return state->memory.load(iova, out, known);
}

size_t ShadowState::windowContent(llvm::StringRef window, uint64_t deviceAddress,
                                  llvm::MutableArrayRef<uint8_t> out,
                                  llvm::MutableArrayRef<bool> known) const {
  std::fill(known.begin(), known.end(), false);
  auto found = llvm::find_if(state->windows, [&](const WindowState &w) { return w.window->name == window; });
  if (found == state->windows.end())
    return 0;
  size_t count = found->content.load(deviceAddress, out, known);
  if (!found->fillHolds(state->budget))
    return count;
  for (size_t i = 0; i < out.size(); ++i) {
    uint64_t at = deviceAddress + i, first, last;
    if (at < deviceAddress)
      break;
    if (known[i] || !found->clip(at, 1, first, last) || found->writers.find(at))
      continue;
    out[i] = *found->window->reset;
    known[i] = true;
    ++count;
  }
  return count;
}

} // namespace tapeback
