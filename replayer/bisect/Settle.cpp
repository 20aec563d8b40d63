#include "replayer/bisect/Settle.h"
#include "replayer/Commands.h"

namespace tapeback {

static llvm::Expected<bool> isIdle(DeviceBinding &binding) {
  const Description &description = *binding.description();
  for (const RegisterCondition &condition : description.idle) {
    llvm::Expected<uint64_t> value = binding.readRegister(description.registers[condition.reg]);
    if (!value)
      return value.takeError();
    if (condition.holds(*value))
      return true;
  }
  return false;
}

llvm::Expected<bool> settle(Lockstep &run) {
  constexpr uint64_t shortest = 1'000, longest = 10'000'000, patience = 200'000'000,
                     hostTime = 10'000'000'000;
  for (LockstepSide *side : {&run.good, &run.bad})
    for (size_t i = 0; i < side->player->deviceCount(); ++i) {
      DeviceBinding &binding = side->player->binding(uint16_t(i));
      if (!binding.description() || binding.description()->queues.empty())
        continue;
      HostTimer timer;
      uint64_t step = shortest;
      for (uint64_t passed = 0;; passed += step, step = std::min(longest, 2 * step)) {
        llvm::Expected<bool> idle = isIdle(binding);
        if (!idle)
          return idle.takeError();
        if (*idle)
          break;
        if (passed > patience || timer.elapsed() > hostTime)
          return false;
        if (llvm::Error error = binding.target().advance(step))
          return error;
      }
    }
  return true;
}

llvm::Expected<std::vector<uint64_t>> doorbellsIn(TapeSource &source, uint64_t from, uint64_t to) {
  std::vector<uint64_t> found;
  PacketBatch batch;
  for (uint64_t at = from; at < to; at += batch.packets.size()) {
    if (llvm::Error error = source.reader().readBlockFrom(at, batch))
      return error;
    if (batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size() && at + i < to; ++i)
      if (batch.packets[i].completion == Completion::Done && doorbellQueue(source, batch.packets[i]))
        found.push_back(at + i);
  }
  return found;
}

} // namespace tapeback
