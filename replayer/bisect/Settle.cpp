#include "replayer/bisect/Settle.h"
#include "replayer/Commands.h"

namespace tapeback {

namespace {

struct Idle {
  bool holds = false;
  RegisterCondition condition; ///< Of the last one looked at: the one that holds, if any does.
  uint64_t value = 0;
  bool waited = false;
};

llvm::Expected<Idle> lookAtIdle(DeviceBinding &binding) {
  const Description &description = *binding.description();
  Idle idle;
  for (const RegisterCondition &condition : description.idle) {
    llvm::Expected<uint64_t> value = binding.readRegister(description.registers[condition.reg]);
    if (!value)
      return value.takeError();
    idle = {condition.holds(*value), condition, *value};
    if (idle.holds)
      break;
  }
  return idle;
}

llvm::Expected<Idle> waitForIdle(DeviceBinding &binding) {
  constexpr uint64_t shortest = 1'000, longest = 10'000'000, patience = 200'000'000,
                     hostTime = 10'000'000'000;
  HostTimer timer;
  uint64_t step = shortest;
  for (uint64_t passed = 0;; passed += step, step = std::min(longest, 2 * step)) {
    llvm::Expected<Idle> idle = lookAtIdle(binding);
    if (idle)
      idle->waited = passed > 0;
    if (!idle || idle->holds || passed > patience || timer.elapsed() > hostTime)
      return idle;
    if (llvm::Error error = binding.target().advance(step))
      return error;
  }
}

} // namespace

llvm::Expected<Settled> settle(Lockstep &run) {
  Settled settled;
  settled.comparable = true;
  for (size_t i = 0; i < run.good.player->deviceCount(); ++i) {
    DeviceBinding &good = run.good.player->binding(uint16_t(i)), &bad = run.bad.player->binding(uint16_t(i));
    if (!good.description() || good.description()->queues.empty() || good.description()->idle.empty())
      continue;
    llvm::Expected<Idle> left = waitForIdle(good);
    if (!left)
      return left.takeError();
    llvm::Expected<Idle> right = waitForIdle(bad);
    if (!right)
      return right.takeError();
    settled.waited |= left->waited || right->waited;
    settled.comparable &= left->holds && right->holds;
    if (left->holds == right->holds)
      continue;
    const RegisterCondition &condition = (left->holds ? *left : *right).condition;
    settled.unequal = Settled::Unequal{uint16_t(i), condition.reg, condition.mask, left->value, right->value};
    return settled;
  }
  return settled;
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
