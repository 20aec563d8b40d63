#include "replayer/Restore.h"
#include "format/Failure.h"
#include "hal/description/AddressPair.h"
#include "replayer/WindowPort.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {
namespace {

constexpr uint64_t scratchBytes = 4096;

llvm::Error notVisible(const InternalWindow &window, llvm::StringRef reason) {
  return failUsage("not-visible", "window '" + window.name + "' " + reason.str());
}

/// The value of a register whose condition is to hold: what the condition asks for, nothing else.
uint64_t valueFor(const RegisterCondition &condition) {
  return condition.any ? 0 : condition.value;
}

} // namespace

llvm::Expected<WindowTransfer> WindowTransfer::open(DeviceBinding &binding, const InternalWindow &window,
                                                    bool toDevice, const WaitLimits &waits) {
  const Description *description = binding.description();
  if (!description || window.readBack.empty())
    return notVisible(window, "cannot be reached: the description names no activity for it");
  if (!binding.capabilities().memory)
    return notVisible(window, "cannot be reached: the target has no memory to transfer to");
  const ActivityDescription *activity = nullptr;
  for (const ActivityDescription &candidate : description->activities)
    if (candidate.name == window.readBack)
      activity = &candidate;
  if (!activity)
    return notVisible(window, "cannot be reached: there is no activity '" + window.readBack + "'");
  const TransferDescription *transfer = nullptr;
  for (const TransferDescription &candidate : activity->transfers)
    if (candidate.toDevice == toDevice && candidate.window == window.name && !transfer)
      transfer = &candidate;
  if (!transfer)
    return notVisible(window, std::string("has no transfer ") + (toDevice ? "to" : "from") + " the device");
  WindowTransfer result(binding, window, *activity, *transfer, waits);
  MapRequest request;
  request.size = scratchBytes;
  llvm::Expected<MemoryRegion> region = binding.target().map(request);
  if (!region)
    return region.takeError();
  result.scratch = *region;
  uint64_t last = region->iova + (scratchBytes - 1);
  const RegisterDescription &address = description->registers[transfer->hostAddress];
  const std::optional<unsigned> high = upperHalfOf(*description, transfer->hostAddress);
  const unsigned width = address.width + (high ? description->registers[*high].width : 0);
  if (last < region->iova || last > description->dmaMask || last > widthMask(std::min(width, 8u)))
    return llvm::joinErrors(notVisible(window, "cannot be reached: scratch memory at 0x" +
                                                   llvm::utohexstr(region->iova, true) +
                                                   " is out of the device's reach"),
                            result.close());
  return result;
}

std::vector<unsigned> WindowTransfer::registers() const {
  std::vector<unsigned> all = {transfer->hostAddress, transfer->deviceAddress, transfer->count};
  if (std::optional<unsigned> high = upperHalfOf(*binding->description(), transfer->hostAddress))
    all.push_back(*high);
  all.push_back(activity->starts.reg);
  return all;
}

uint64_t WindowTransfer::pieceSize() const {
  uint64_t most = window->maxTransfer ? window->maxTransfer : window->size;
  return std::max<uint64_t>(1, std::min(most, scratchBytes));
}

llvm::Error WindowTransfer::run(uint64_t offset, uint64_t size) {
  const Description &description = *binding->description();
  auto write = [&](unsigned reg, uint64_t value) {
    return binding->writeRegister(description.registers[reg], value);
  };
  const unsigned lowWidth = description.registers[transfer->hostAddress].width;
  if (llvm::Error error = write(transfer->hostAddress, scratch.iova & widthMask(lowWidth)))
    return error;
  if (std::optional<unsigned> high = upperHalfOf(description, transfer->hostAddress))
    if (llvm::Error error = write(*high, scratch.iova >> (8 * lowWidth)))
      return error;
  if (llvm::Error error = write(transfer->deviceAddress, window->base + offset))
    return error;
  if (llvm::Error error = write(transfer->count, size))
    return error;
  if (llvm::Error error = write(activity->starts.reg, valueFor(activity->starts) | valueFor(transfer->when)))
    return error;
  if (activity->done.empty())
    return binding->target().flush();
  const RegisterCondition &done = activity->done.front();
  const RegisterDescription &reg = description.registers[done.reg];
  auto read = [&]() -> llvm::Expected<uint64_t> {
    llvm::Expected<uint64_t> value = binding->readRegister(reg);
    if (!value)
      return value.takeError();
    return uint64_t(done.holds(*value));
  };
  llvm::Expected<WaitResult> waited =
      waitForCondition(binding->target(), read, 1, 1, waits.defaultDeadline, waits);
  if (!waited)
    return waited.takeError();
  if (!waited->met)
    return failTarget("transfer-timeout", "activity '" + activity->name +
                                              "' did not complete while window '" + window->name +
                                              "' was transferred");
  return llvm::Error::success();
}

llvm::Error WindowTransfer::read(uint64_t offset, llvm::MutableArrayRef<uint8_t> out) {
  for (uint64_t done = 0; done < out.size();) {
    uint64_t size = std::min<uint64_t>(pieceSize(), out.size() - done);
    // What the device fails to write must not look like what was there by chance.
    std::vector<uint8_t> blank(size, 0xa5);
    if (llvm::Error error = binding->target().writeMemory(scratch.iova, blank))
      return error;
    if (llvm::Error error = run(offset + done, size))
      return error;
    if (llvm::Error error = binding->target().readMemory(scratch.iova, out.slice(done, size)))
      return error;
    done += size;
  }
  return llvm::Error::success();
}

llvm::Error WindowTransfer::write(uint64_t offset, llvm::ArrayRef<uint8_t> in) {
  for (uint64_t done = 0; done < in.size();) {
    uint64_t size = std::min<uint64_t>(pieceSize(), in.size() - done);
    if (llvm::Error error = binding->target().writeMemory(scratch.iova, in.slice(done, size)))
      return error;
    if (llvm::Error error = run(offset + done, size))
      return error;
    done += size;
  }
  return llvm::Error::success();
}

llvm::Error WindowTransfer::close() {
  if (!scratch.size)
    return llvm::Error::success();
  uint64_t iova = scratch.iova;
  scratch = {};
  return binding->target().unmap(iova);
}

//===- Keyframes
//---------------------------------------------------------------------------------------------===//

namespace {

using WindowWrite = llvm::function_ref<llvm::Error(uint64_t offset, llvm::ArrayRef<uint8_t> content)>;

/// Hands over what the keyframe has of the window, piece by piece.
llvm::Error fillWindow(DeviceBinding &binding, TapeSource &source, const Keyframe &keyframe,
                       const InternalWindow &window, WindowWrite write) {
  size_t index = size_t(&window - binding.description()->windows.data());
  for (const KeyframeExtent &extent : keyframe.internal) {
    if (extent.space != index)
      continue;
    if (extent.address < window.base || extent.address - window.base >= window.size)
      return failTape("bad-keyframe", "content of window '" + window.name + "' lies outside it");
    uint64_t offset = extent.address - window.base;
    llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.reader().blob(extent.content);
    if (!content)
      return content.takeError();
    if (content->size() > window.size - offset)
      return failTape("bad-keyframe", "content of window '" + window.name + "' reaches beyond its end");
    if (llvm::Error error = write(offset, *content))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error restoreWindow(DeviceBinding &binding, TapeSource &source, const Keyframe &keyframe,
                          const InternalWindow &window, const WaitLimits &waits) {
  if (window.readBack.empty() && window.port) {
    llvm::Expected<WindowPort> port = WindowPort::open(binding, window);
    if (!port)
      return port.takeError();
    return fillWindow(binding, source, keyframe, window,
                      [&](uint64_t offset, llvm::ArrayRef<uint8_t> in) { return port->write(offset, in); });
  }
  llvm::Expected<WindowTransfer> transfer = WindowTransfer::open(binding, window, /*toDevice=*/true, waits);
  if (!transfer)
    return transfer.takeError();
  llvm::Error error =
      fillWindow(binding, source, keyframe, window,
                 [&](uint64_t offset, llvm::ArrayRef<uint8_t> in) { return transfer->write(offset, in); });
  return llvm::joinErrors(std::move(error), transfer->close());
}

llvm::Error restoreRegister(DeviceBinding &binding, TapeSource &source, const Keyframe &keyframe,
                            unsigned reg) {
  const Description &description = *binding.description();
  auto valueOf = [&](unsigned which) -> std::optional<uint64_t> {
    const RegisterDescription &wanted = description.registers[which];
    std::optional<uint16_t> space = binding.tapeSpace(wanted.space);
    for (const KeyframeRegister &value : keyframe.registers)
      if (space && value.space == *space && value.address == wanted.offset)
        return value.value;
    return std::nullopt;
  };
  std::optional<uint64_t> value = valueOf(reg);
  if (!value) // Never written and never read before the cut: it still has its reset value.
    return llvm::Error::success();
  Relocation &relocation = binding.relocation();
  llvm::Expected<uint64_t> placed =
      relocation.registers.restore(source, relocation.map, keyframe.packet, reg, *value, valueOf);
  if (!placed)
    return placed.takeError();
  return binding.writeRegister(description.registers[reg], *placed);
}

} // namespace

llvm::Error restoreKeyframe(DeviceBinding &binding, TapeSource &source, const Keyframe &keyframe,
                            const WaitLimits &waits) {
  if (!keyframe.mappings.empty() && !binding.capabilities().memory)
    return failUsage("unsupported", "the keyframe has mapped memory, but the target has none",
                     "target '" + binding.target().identity().uri + "'");
  for (const KeyframeExtent &mapping : keyframe.mappings)
    if (llvm::Error error = binding.map(mapping.address, mapping.length))
      return error;
  for (const KeyframeExtent &extent : keyframe.memory) {
    llvm::Expected<llvm::ArrayRef<uint8_t>> content = source.reader().blob(extent.content);
    if (!content)
      return content.takeError();
    if (llvm::Error error = binding.writeMemory(extent.address, *content))
      return error;
  }
  const Description *description = binding.description();
  if (!description || !binding.capabilities().answers)
    return llvm::Error::success();
  for (const RestoreStep &step : description->restore) {
    if (step.kind == RestoreStep::Kind::Register) {
      const RegisterDescription &reg = description->registers[step.reg];
      if (binding.rule(binding.tapeSpace(reg.space).value_or(0), reg.offset, reg.width).forbidden)
        return failUsage("forbidden-write",
                         "the restore recipe writes register " + reg.name +
                             ", which the description forbids a replay to write",
                         "keyframe", "--allow-register " + reg.name);
      if (llvm::Error error = restoreRegister(binding, source, keyframe, step.reg))
        return error;
      continue;
    }
    const InternalWindow *window = description->findWindow(step.window);
    if (!window)
      return failTape("bad-description",
                      "the restore recipe names a window '" + step.window + "' that is not there");
    if (llvm::Error error = restoreWindow(binding, source, keyframe, *window, waits))
      return error;
  }
  return binding.target().flush();
}

} // namespace tapeback
