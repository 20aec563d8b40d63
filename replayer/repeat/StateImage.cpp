#include "replayer/repeat/StateImage.h"
#include "format/Failure.h"
#include "replayer/Player.h"
#include "replayer/bisect/StateProbe.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include <algorithm>
#include <set>

namespace tapeback {
namespace {

constexpr uint64_t pieceBytes = 1 << 20;

/// One device's part of an image.
class DeviceLook {
public:
  DeviceLook(DeviceBinding &binding, StateImage &image) : binding(binding), image(image) {}

  llvm::Error all() {
    if (binding.capabilities().deviceTime)
      if (llvm::Error error = add("the device's time", binding.target().deviceTime()))
        return error;
    if (binding.capabilities().peek)
      if (llvm::Error error = windows())
        return error;
    if (llvm::Error error = memory())
      return error;
    if (llvm::Error error = registers())
      return error;
    if (llvm::Error error = counters())
      return error;
    return interrupts();
  }

private:
  void addText(std::string name, std::string value) {
    image.entries.push_back({binding.device(), std::move(name), std::move(value)});
  }

  /// A device that refuses a look shows that; one that cannot go on ends the look.
  llvm::Error addFailure(std::string name, llvm::Error error) {
    Failure failure = toFailure(std::move(error));
    if (failure.cls == FailureClass::System || isFatalForTarget(failure))
      return llvm::make_error<Failure>(std::move(failure));
    addText(std::move(name), "not shown (" + failure.code + ")");
    return llvm::Error::success();
  }

  llvm::Error add(std::string name, llvm::Expected<uint64_t> value) {
    if (!value)
      return addFailure(std::move(name), value.takeError());
    addText(std::move(name), "0x" + llvm::utohexstr(*value, true));
    return llvm::Error::success();
  }

  llvm::Error
  addContent(std::string name, uint64_t size,
             llvm::function_ref<llvm::Error(uint64_t at, llvm::MutableArrayRef<uint8_t> out)> read) {
    llvm::BLAKE3 hasher;
    std::vector<uint8_t> piece;
    for (uint64_t at = 0; at < size; at += pieceBytes) {
      piece.resize(std::min(pieceBytes, size - at));
      if (llvm::Error error = read(at, piece))
        return addFailure(std::move(name), std::move(error));
      hasher.update(piece);
    }
    llvm::BLAKE3Result<> digest = hasher.final();
    addText(std::move(name), llvm::toHex(llvm::ArrayRef<uint8_t>(digest), true));
    return llvm::Error::success();
  }

  llvm::Error windows() {
    if (!binding.description())
      return llvm::Error::success();
    for (const InternalWindow &window : binding.description()->windows)
      if (llvm::Error error = addContent("window " + window.name, window.size,
                                         [&](uint64_t at, llvm::MutableArrayRef<uint8_t> out) {
                                           return binding.target().peek(window.name, at, out);
                                         }))
        return error;
    return llvm::Error::success();
  }

  llvm::Error memory() {
    for (const auto &[recorded, region] : binding.regions())
      if (llvm::Error error =
              addContent("memory at 0x" + llvm::utohexstr(recorded, true), region.size,
                         [&, iova = region.iova](uint64_t at, llvm::MutableArrayRef<uint8_t> out) {
                           return binding.target().readMemory(iova + at, out);
                         }))
        return error;
    return llvm::Error::success();
  }

  llvm::Error registers() {
    const Description *description = binding.description();
    if (!description)
      return llvm::Error::success();
    std::set<unsigned> fingerprint;
    for (const FingerprintEntry &entry : description->fingerprint)
      fingerprint.insert(entry.reg);
    for (const RegisterDescription &reg : description->registers)
      if ((isProbedRegister(reg) || fingerprint.count(description->indexOf(reg))) &&
          binding.target().findSpace(reg.space))
        if (llvm::Error error = add("register " + reg.name, binding.readRegister(reg)))
          return error;
    return llvm::Error::success();
  }

  llvm::Error counters() {
    const Description *description = binding.description();
    if (!description || !binding.capabilities().counters)
      return llvm::Error::success();
    for (size_t id = 0; id < description->counters.size(); ++id)
      if (description->counters[id].exact)
        if (llvm::Error error =
                add("counter " + description->counters[id].name, binding.target().counter(uint32_t(id))))
          return error;
    return llvm::Error::success();
  }

  llvm::Error interrupts() {
    constexpr unsigned mostVectors = 256;
    if (!binding.capabilities().interrupts)
      return llvm::Error::success();
    for (unsigned vector = 0; vector < std::min(binding.capabilities().interruptVectors, mostVectors);
         ++vector) {
      std::string name = "interrupts of vector " + std::to_string(vector);
      llvm::Expected<InterruptResult> pending = binding.target().waitInterrupt(vector, 0);
      if (llvm::Error error =
              pending ? add(std::move(name), pending->fired ? std::max<uint64_t>(1, pending->count) : 0)
                      : addFailure(std::move(name), pending.takeError()))
        return error;
    }
    return llvm::Error::success();
  }

  DeviceBinding &binding;
  StateImage &image;
};

} // namespace

llvm::Expected<StateImage> lookAtState(Player &player) {
  StateImage image;
  for (size_t i = 0; i < player.deviceCount(); ++i)
    if (llvm::Error error = DeviceLook(player.binding(uint16_t(i)), image).all())
      return error;
  return image;
}

std::optional<std::string> stateDifference(const StateImage &before, const StateImage &after) {
  for (size_t i = 0; i < before.entries.size() && i < after.entries.size(); ++i) {
    const StateImage::Entry &was = before.entries[i], &is = after.entries[i];
    if (was == is)
      continue;
    if (was.device != is.device || was.name != is.name)
      return "other things are shown: " + was.name + " before, " + is.name + " now";
    return (was.device ? "device " + std::to_string(was.device) + ", " : "") + was.name + " was " +
           was.value + " and is " + is.value;
  }
  if (before.entries.size() != after.entries.size())
    return "other things are shown than before";
  return std::nullopt;
}

} // namespace tapeback
