// The part of Player that waits for what the recorded host had seen before it acted: polls, hand-made poll
// loops, progress of queues, interrupts.
#include "format/Failure.h"
#include "replayer/PacketRoles.h"
#include "replayer/Player.h"

namespace tapeback {

using State = Observation::State;

llvm::Error Player::registerRead(const PacketBatch &batch, size_t index, Observation &o) {
  const Packet &packet = batch.packets[index];
  DeviceBinding &binding = bindings[packet.device];
  AccessRule rule = binding.rule(packet.space, packet.address, packet.width);
  auto notIssued = [&](Rule why) {
    o.state = State::NotIssued;
    o.rule = why;
    return llvm::Error::success();
  };
  if (packet.completion == Completion::Pending && (rule.mayHang || rule.forbidden))
    return notIssued(Rule::PendingNotReissued);
  llvm::Expected<TargetSpaceId> space = binding.space(packet.space);
  if (!space)
    return space.takeError();
  auto read = [&] { return binding.target().read(*space, packet.address, packet.width); };
  if (rule.progress && packet.completion == Completion::Done && binding.capabilities().answers)
    return waitForProgress(rule, packet, *space, o);
  bool waits = rule.pollUntil && packet.completion == Completion::Done && binding.capabilities().answers;
  if (!waits) {
    llvm::Expected<uint64_t> value = read();
    if (!value)
      return value.takeError();
    o.value = *value;
    return llvm::Error::success();
  }
  llvm::Expected<bool> iteration = isPollIteration(batch, index);
  if (!iteration)
    return iteration.takeError();
  if (*iteration)
    return notIssued(Rule::PollIteration);
  llvm::Expected<WaitResult> waited =
      waitForCondition(binding.target(), read, rule.compareMask, packet.value & rule.compareMask,
                       options.waits.defaultDeadline, options.waits);
  if (!waited)
    return waited.takeError();
  o.value = waited->value;
  if (!waited->met)
    o.state = State::TimedOut;
  return llvm::Error::success();
}

/// What the program learnt from it holds here as well once the queue is as far.
llvm::Error Player::waitForProgress(const AccessRule &rule, const Packet &packet, TargetSpaceId space,
                                    Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  const QueueFollower &queues = followers[packet.device];
  std::optional<ProgressRegister> progress = queues.find(binding.description()->indexOf(*rule.reg));
  auto read = [&]() -> llvm::Expected<uint64_t> {
    llvm::Expected<uint64_t> value = binding.target().read(space, packet.address, packet.width);
    if (!value)
      return value.takeError();
    o.value = *value;
    return uint64_t(progress && queues.isAsFar(*progress, packet.value, *value));
  };
  llvm::Expected<WaitResult> waited =
      waitForCondition(binding.target(), read, 1, 1, options.waits.defaultDeadline, options.waits);
  if (!waited)
    return waited.takeError();
  if (!waited->met)
    o.state = State::TimedOut;
  return llvm::Error::success();
}

/// A hand-made poll loop reads the same register again and again; only its last read says something. That is
/// the one after which the thread does something else to the device.
llvm::Expected<bool> Player::isPollIteration(const PacketBatch &batch, size_t index) {
  constexpr uint64_t lookAhead = 64; // Events and other threads in between.
  const Packet &packet = batch.packets[index];
  uint64_t ordinal = batch.firstOrdinal + index;
  uint64_t total = source.reader().summary().packets;
  for (uint64_t step = 1; step <= lookAhead && ordinal + step < total; ++step) {
    const Packet *next;
    if (index + step < batch.packets.size()) {
      next = &batch.packets[index + step];
    } else {
      uint64_t wanted = ordinal + step;
      if (ahead.packets.empty() || wanted < ahead.firstOrdinal ||
          wanted - ahead.firstOrdinal >= ahead.packets.size())
        if (llvm::Error error =
                source.reader().readPackets(wanted, std::min(lookAhead, total - wanted), ahead))
          return error;
      if (wanted < ahead.firstOrdinal || wanted - ahead.firstOrdinal >= ahead.packets.size())
        return false;
      next = &ahead.packets[wanted - ahead.firstOrdinal];
    }
    if (next->device != packet.device || next->thread != packet.thread || isEvent(next->kind) ||
        isEvidence(*next))
      continue;
    return next->kind == packet.kind && next->space == packet.space && next->address == packet.address &&
           next->width == packet.width;
  }
  return false;
}

llvm::Error Player::poll(const Packet &packet, const PacketExtra &extra, Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  const AccessRule &rule = binding.rule(packet.space, packet.address, packet.width);
  if (packet.completion == Completion::Pending && (rule.mayHang || rule.forbidden)) {
    o.state = State::NotIssued;
    o.rule = Rule::PendingNotReissued;
    return llvm::Error::success();
  }
  llvm::Expected<TargetSpaceId> space = binding.space(packet.space);
  if (!space)
    return space.takeError();
  const QueueFollower &queues = followers[packet.device];
  // A faster target may be past the place that a queue was seen at.
  std::optional<ProgressRegister> progress;
  if (rule.progress && packet.completion == Completion::Done)
    progress = queues.find(binding.description()->indexOf(*rule.reg));
  auto read = [&]() -> llvm::Expected<uint64_t> {
    llvm::Expected<uint64_t> value = binding.target().read(*space, packet.address, packet.width);
    if (!value)
      return value.takeError();
    o.value = *value;
    bool met = (*value & extra.mask) == extra.expected;
    bool passed = !met && progress && queues.isAsFar(*progress, packet.value, *value);
    o.rule = passed ? Rule::QueueProgress : Rule::Same;
    return uint64_t(met || passed);
  };
  uint64_t deadline = binding.capabilities().answers ? extra.deadline : 0;
  llvm::Expected<WaitResult> waited = waitForCondition(binding.target(), read, 1, 1, deadline, options.waits);
  if (!waited)
    return waited.takeError();
  if (!waited->met)
    o.state = State::TimedOut;
  return llvm::Error::success();
}

llvm::Error Player::interrupt(const Packet &packet, const PacketExtra &extra, Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  uint64_t deadline = std::min(extra.deadline, options.waits.maxDeadline);
  const Description *description = binding.description();
  const RegisterCondition *cause = nullptr;
  if (description)
    for (const InterruptDescription &line : description->interrupts)
      if (line.vector == packet.address && line.cause)
        cause = &*line.cause;
  if (binding.capabilities().interrupts) {
    if (packet.address > UINT32_MAX)
      return failUsage("unknown-vector", "there is no interrupt vector " + std::to_string(packet.address));
    llvm::Expected<InterruptResult> result =
        binding.target().waitInterrupt(uint32_t(packet.address), deadline);
    if (!result)
      return result.takeError();
    o.value = result->count;
    if (!result->fired)
      o.state = State::TimedOut;
    return llvm::Error::success();
  }
  if (!cause) {
    o.state = State::NotIssued;
    o.rule = Rule::Unsupported;
    return llvm::Error::success();
  }
  const RegisterDescription &reg = description->registers[cause->reg];
  bool met = false;
  auto read = [&]() -> llvm::Expected<uint64_t> {
    llvm::Expected<uint64_t> value = binding.readRegister(reg);
    if (!value)
      return value.takeError();
    o.value = *value;
    // "any" of a cause register: any bit that may say why.
    met = cause->any ? (*value & cause->mask & widthMask(reg.width)) != 0 : cause->holds(*value);
    return uint64_t(met);
  };
  llvm::Expected<WaitResult> waited = waitForCondition(binding.target(), read, 1, 1, deadline, options.waits);
  if (!waited)
    return waited.takeError();
  o.rule = Rule::InterruptCause;
  if (!met)
    o.state = State::TimedOut;
  return llvm::Error::success();
}

} // namespace tapeback
