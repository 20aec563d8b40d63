#include "replayer/WindowPort.h"
#include "format/Failure.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

const RegisterDescription &WindowPort::addressRegister() const {
  return binding->description()->registers[window->port->address];
}
const RegisterDescription &WindowPort::dataRegister() const {
  return binding->description()->registers[window->port->data];
}

static llvm::Error notReachable(const InternalWindow &window, const std::string &reason) {
  return failUsage("not-visible", "window '" + window.name + "' " + reason);
}

llvm::Expected<WindowPort> WindowPort::open(DeviceBinding &binding, const InternalWindow &window) {
  const Description *description = binding.description();
  if (!description || !window.port)
    return notReachable(window, "cannot be reached: the description names neither an activity nor a port");
  std::string conditions;
  bool usable = window.port->usable.empty();
  for (const RegisterCondition &condition : window.port->usable) {
    const RegisterDescription &reg = description->registers[condition.reg];
    llvm::Expected<uint64_t> value = binding.readRegister(reg);
    if (!value)
      return value.takeError();
    usable |= condition.holds(*value);
    conditions += (conditions.empty() ? "" : " or ") + reg.name + " & 0x" +
                  llvm::utohexstr(condition.mask & reg.widthMask(), true) + " = 0x" +
                  llvm::utohexstr(condition.value, true);
  }
  if (!usable)
    return notReachable(window, "can be reached only while " + conditions);
  std::optional<TargetSpaceId> spaces[2];
  for (unsigned i = 0; i < 2; ++i) {
    const RegisterDescription &reg = description->registers[i ? window.port->data : window.port->address];
    spaces[i] = binding.target().findSpace(reg.space);
    if (!spaces[i])
      return notReachable(window, "cannot be reached: the target has no space '" + reg.space + "'");
  }
  return WindowPort(binding, window, *spaces[0], *spaces[1]);
}

/// Words that follow each other, in batches. Puts the address register back.
llvm::Error WindowPort::access(uint64_t address, llvm::MutableArrayRef<uint64_t> words, bool isWrite) {
  constexpr size_t batch = 1024;
  Target &target = binding->target();
  const RegisterDescription &where = addressRegister(), &data = dataRegister();
  llvm::Expected<uint64_t> before = binding->readRegister(where);
  if (!before)
    return before.takeError();
  auto writeAddress = [&](uint64_t value) {
    return target.write(addressSpace, where.offset, where.width, value);
  };
  if (llvm::Error error = writeAddress(address))
    return error;
  std::vector<TargetOperation> operations;
  for (size_t done = 0; done < words.size(); done += operations.size()) {
    operations.assign(std::min(batch, words.size() - done), TargetOperation());
    for (size_t i = 0; i < operations.size(); ++i) {
      operations[i].kind = isWrite ? TargetOperation::Kind::Write : TargetOperation::Kind::Read;
      operations[i].width = uint8_t(data.width);
      operations[i].space = dataSpace;
      operations[i].address = data.offset;
      operations[i].value = words[done + i];
    }
    size_t completed = 0;
    if (llvm::Error error = target.submit(operations, &completed))
      return error;
    if (completed != operations.size())
      return failTarget("bad-submit", "the target carried out only part of a batch without saying why");
    for (size_t i = 0; i < operations.size() && !isWrite; ++i)
      words[done + i] = operations[i].value;
  }
  if (llvm::Error error = writeAddress(*before))
    return error;
  return target.flush();
}

llvm::Error WindowPort::read(uint64_t offset, llvm::MutableArrayRef<uint8_t> out) {
  if (out.empty())
    return llvm::Error::success();
  unsigned width = dataRegister().width;
  uint64_t first = offset / width, last = (offset + out.size() - 1) / width;
  std::vector<uint64_t> words(last - first + 1);
  if (llvm::Error error = access(window->base + first * width, words, /*isWrite=*/false))
    return error;
  for (size_t i = 0; i < out.size(); ++i) {
    uint64_t at = offset + i;
    out[i] = uint8_t(words[at / width - first] >> (8 * (at % width)));
  }
  return llvm::Error::success();
}

llvm::Error WindowPort::write(uint64_t offset, llvm::ArrayRef<uint8_t> in) {
  if (in.empty())
    return llvm::Error::success();
  unsigned width = dataRegister().width;
  uint64_t first = offset / width, last = (offset + in.size() - 1) / width;
  std::vector<uint8_t> whole((last - first + 1) * width);
  if (whole.size() != in.size())
    if (llvm::Error error = read(first * width, whole))
      return error;
  std::copy(in.begin(), in.end(), whole.begin() + size_t(offset - first * width));
  std::vector<uint64_t> words(last - first + 1);
  for (size_t i = 0; i < whole.size(); ++i)
    words[i / width] |= uint64_t(whole[i]) << (8 * (i % width));
  return access(window->base + first * width, words, /*isWrite=*/true);
}

} // namespace tapeback
