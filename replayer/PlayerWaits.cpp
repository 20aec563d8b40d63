// The part of Player that waits for what the recorded host had seen before it acted: polls, loops of reads
// that are polls, progress of queues, interrupts; and that looks whether things were done in order.
#include "format/Failure.h"
#include "replayer/PacketRoles.h"
#include "replayer/Player.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback {

using State = Observation::State;

void Player::timedOut(uint64_t mask, uint64_t expected, uint64_t deadline, ObservationLog &log,
                      Observation &o) {
  constexpr size_t keptWaits = 64;
  o.state = State::TimedOut;
  if (log.waits.size() >= keptWaits)
    return;
  log.waits.push_back({mask, expected, std::min(deadline, options.waits.maxDeadline)});
  o.wait = uint32_t(log.waits.size());
}

//===- Reads and polls
//-----------------------------------------------------------------------------------------------===//

llvm::Error Player::registerRead(const PacketBatch &batch, size_t index, ObservationLog &log,
                                 Observation &o) {
  const Packet &packet = batch.packets[index];
  DeviceBinding &binding = bindings[packet.device];
  const AccessRule rule = binding.rule(packet.space, packet.address, packet.width);
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
  bool waits = packet.completion == Completion::Done && binding.capabilities().answers;
  if (rule.progress && waits)
    return waitForProgress(rule, packet, *space, log, o);
  PollRole role;
  if (waits) {
    llvm::Expected<PollRole> found = polls.roleOf(batch, index, rule);
    if (!found)
      return found.takeError();
    role = *found;
  }
  if (role.kind == PollRole::Kind::Turn)
    return notIssued(Rule::PollIteration);
  uint64_t told = waits && role.kind == PollRole::Kind::None ? bitsToldDone(rule, packet) : 0;
  uint64_t cause = waits && role.kind == PollRole::Kind::None ? bitsToldCause(rule, packet) : 0;
  if (told || cause) {
    uint64_t mask = told | cause, deadline = options.waits.defaultDeadline;
    llvm::Expected<WaitResult> waited =
        waitForCondition(binding.target(), read, mask, packet.value & mask, deadline, options.waits);
    if (!waited)
      return waited.takeError();
    o.value = waited->value;
    // A cause that does not show may have been acknowledged together with an earlier one.
    if ((o.value & told) != (packet.value & told))
      timedOut(told, packet.value & told, deadline, log, o);
  } else if (role.kind == PollRole::Kind::None) {
    llvm::Expected<uint64_t> value = read();
    if (!value)
      return value.takeError();
    o.value = *value;
  } else {
    // A loop that took long is given as much again, and more.
    constexpr uint64_t patience = 4;
    uint64_t deadline = role.duration < options.waits.maxDeadline / patience
                            ? std::max(options.waits.defaultDeadline, role.duration * patience)
                            : options.waits.maxDeadline;
    llvm::Expected<WaitResult> waited =
        waitForCondition(binding.target(), read, role.mask, role.value, deadline, options.waits);
    if (!waited)
      return waited.takeError();
    o.value = waited->value;
    if (!rule.pollUntil) {
      o.rule = Rule::PollFound;
      o.expected = role.varied;
    }
    if (!waited->met)
      timedOut(role.mask, role.value, deadline, log, o);
  }
  if (!rule.whole || packet.completion != Completion::Done)
    return llvm::Error::success();
  Substitution &substitution = following[packet.device].substitution;
  unsigned reg = binding.description()->indexOf(*rule.reg);
  if (rule.substitute)
    substitution.wasRead(reg, packet.value, o.value);
  if (rule.carries) {
    uint64_t recorded = substitution.recorded(reg, o.value, packet.value);
    if (recorded != o.value && o.rule == Rule::Same)
      o.rule = Rule::LiveValue;
    o.value = recorded;
  }
  return llvm::Error::success();
}

/// Although nothing was seen of a loop: the recorded host was slow, or the target is.
uint64_t Player::bitsToldDone(const AccessRule &rule, const Packet &packet) const {
  if (!rule.tellsDone || packet.completion != Completion::Done || !following[packet.device].works)
    return 0;
  return bitsThatTellDone(*source.description(packet.device), rule, packet.value);
}

/// None if all causes there could be have been seen already.
uint64_t Player::bitsToldCause(const AccessRule &rule, const Packet &packet) const {
  if (!rule.tellsCause || packet.completion != Completion::Done || !following[packet.device].works ||
      following[packet.device].interrupts.sawAllDone())
    return 0;
  return bitsThatTellCause(*source.description(packet.device), rule, packet.value);
}

/// What the program learnt from it holds here as well once the queue is as far.
llvm::Error Player::waitForProgress(const AccessRule &rule, const Packet &packet, TargetSpaceId space,
                                    ObservationLog &log, Observation &o) {
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
  if (!waited->met) {
    timedOut(widthMask(packet.width), packet.value, options.waits.defaultDeadline, log, o);
    return llvm::Error::success();
  }
  return notePassed(packet, log, o);
}

llvm::Error Player::poll(const Packet &packet, const PacketExtra &extra, ObservationLog &log,
                         Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  const AccessRule rule = binding.rule(packet.space, packet.address, packet.width);
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
  uint64_t wanted = extra.expected;
  if (rule.carries)
    wanted = following[packet.device].substitution.live(binding.description()->indexOf(*rule.reg), wanted) &
             extra.mask;
  auto read = [&]() -> llvm::Expected<uint64_t> {
    llvm::Expected<uint64_t> value = binding.target().read(*space, packet.address, packet.width);
    if (!value)
      return value.takeError();
    o.value = *value;
    bool met = (*value & extra.mask) == wanted;
    bool passed = !met && progress && queues.isAsFar(*progress, packet.value, *value);
    o.rule = passed ? Rule::QueueProgress : wanted != extra.expected ? Rule::LiveValue : Rule::Same;
    return uint64_t(met || passed);
  };
  uint64_t deadline = binding.capabilities().answers ? extra.deadline : 0;
  llvm::Expected<WaitResult> waited = waitForCondition(binding.target(), read, 1, 1, deadline, options.waits);
  if (!waited)
    return waited.takeError();
  if (!waited->met) {
    timedOut(extra.mask, wanted, deadline, log, o);
    return llvm::Error::success();
  }
  return notePassed(packet, log, o);
}

//===- Interrupts
//-----------------------------------------------------------------------------------------------===//

static const RegisterCondition *causeOf(const Description *description, uint64_t vector) {
  if (description)
    for (const InterruptDescription &line : description->interrupts)
      if (line.vector == vector && line.cause)
        return &*line.cause;
  return nullptr;
}

/// All that was handed over is done, as the description tells it. False where it does not say, or where
/// looking would change something.
llvm::Expected<bool> Player::isIdle(uint16_t device) {
  DeviceBinding &binding = bindings[device];
  const Description *description = binding.description();
  if (!description || description->idle.empty())
    return false;
  for (const RegisterCondition &condition : description->idle) {
    const RegisterDescription &reg = description->registers[condition.reg];
    if (isChangedByReads(reg))
      return false;
    llvm::Expected<uint64_t> value = binding.readRegister(reg);
    if (!value)
      return value.takeError();
    if (!condition.holds(*value))
      return false;
  }
  return true;
}

/// Waits for the message, or where the target has none for what it would have told of. Sets value and rule.
llvm::Expected<bool> Player::waitInterrupt(const Packet &packet, const PacketExtra &extra, uint64_t deadline,
                                           Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  InterruptFollower &interrupts = following[packet.device].interrupts;
  if (binding.capabilities().interrupts) {
    if (packet.address > UINT32_MAX)
      return failUsage("unknown-vector", "there is no interrupt vector " + std::to_string(packet.address));
    llvm::Expected<InterruptResult> result =
        binding.target().waitInterrupt(uint32_t(packet.address), deadline);
    if (!result)
      return result.takeError();
    o.value = result->count;
    if (result->fired)
      interrupts.taken(packet.address, result->count, std::max<uint64_t>(extra.count, 1));
    return result->fired;
  }
  const Description *description = binding.description();
  const RegisterCondition &cause = *causeOf(description, packet.address);
  const RegisterDescription &reg = description->registers[cause.reg];
  o.rule = Rule::InterruptCause;
  auto read = [&]() -> llvm::Expected<uint64_t> {
    llvm::Expected<uint64_t> value = binding.readRegister(reg);
    if (!value)
      return value.takeError();
    o.value = *value;
    // "any" of a cause register: any bit that may say why.
    bool met = cause.any ? (*value & cause.mask & widthMask(reg.width)) != 0 : cause.holds(*value);
    return uint64_t(met);
  };
  llvm::Expected<WaitResult> waited = waitForCondition(binding.target(), read, 1, 1, deadline, options.waits);
  if (!waited)
    return waited.takeError();
  if (waited->met)
    interrupts.taken(packet.address, 1, 1);
  return waited->met;
}

llvm::Error Player::interrupt(const Packet &packet, const PacketExtra &extra, Observation &o) {
  DeviceBinding &binding = bindings[packet.device];
  InterruptFollower &interrupts = following[packet.device].interrupts;
  if (!binding.capabilities().interrupts && !causeOf(binding.description(), packet.address)) {
    o.state = State::NotIssued;
    o.rule = Rule::Unsupported;
    return llvm::Error::success();
  }
  uint64_t deadline = std::min(extra.deadline, options.waits.maxDeadline);
  // What has come already is not waited for long. One that did not come in the recording must not come now.
  constexpr uint64_t glance = 1'000'000;
  bool came = packet.completion == Completion::Done;
  bool early = came && interrupts.isEarly(packet.address), seen = came && interrupts.sawAllDone();
  llvm::Expected<bool> fired =
      waitInterrupt(packet, extra, early || seen ? std::min(deadline, glance) : deadline, o);
  if (!fired)
    return fired.takeError();
  if (*fired) {
    llvm::Expected<bool> idle = isIdle(packet.device);
    if (!idle)
      return idle.takeError();
    interrupts.noteAllDone(*idle);
    return llvm::Error::success();
  }
  if (early) {
    interrupts.takeEarly(packet.address);
    o.rule = Rule::InterruptEarly;
  } else if (seen) {
    o.rule = Rule::InterruptCoalesced;
  } else {
    o.state = State::TimedOut;
  }
  return llvm::Error::success();
}

//===- Order
//-----------------------------------------------------------------------------------------------===//

void Player::noteSubmit(const Packet &packet, const PacketExtra &extra, llvm::ArrayRef<uint8_t> entry) {
  Following &follows = following[packet.device];
  follows.completions.submitted(packet.value, extra.count, entry);
  const Description *description = source.description(packet.device);
  follows.form = description && packet.value < description->queues.size()
                     ? description->layouts[description->queues[packet.value].layout].formOf(entry)
                     : nullptr;
  if (follows.form)
    follows.entry.assign(entry.begin(), entry.end());
  followers[packet.device].submitted(packet.value, entry);
  following[packet.device].order.submitted(packet.value, entry);
}

void Player::noteOverwritten(const Packet &packet, const PacketExtra &extra) {
  uint64_t span = extra.length;
  if (extra.count > 1) { // Rows: all from the first to the last; less is required then, never more.
    uint64_t rows = extra.count - 1;
    bool fits = !extra.expected || rows <= (~uint64_t(0) - extra.length) / extra.expected;
    span = fits ? rows * extra.expected + extra.length : ~uint64_t(0);
  }
  following[packet.device].order.overwritten(packet.address, span);
}

/// The host saw that something is done: so must be what comes before it.
llvm::Error Player::notePassed(const Packet &packet, ObservationLog &log, Observation &o) {
  CompletionOrder &order = following[packet.device].order;
  if (packet.kind == PacketKind::MemoryWait)
    return checkOrder(packet.device, order.fenceSeen(packet.address, o.value), log, o);
  DeviceBinding &binding = bindings[packet.device];
  const AccessRule &rule = binding.rule(packet.space, packet.address, packet.width);
  if (!rule.progress)
    return llvm::Error::success();
  std::optional<ProgressRegister> progress =
      followers[packet.device].find(binding.description()->indexOf(*rule.reg));
  if (!progress || !progress->done)
    return llvm::Error::success();
  return checkOrder(packet.device, order.doneSeen(progress->queue, o.value), log, o);
}

/// A fence that is not there yet, but comes, came out of order. One that never comes was perhaps never
/// written in the recording either (its command was skipped); nobody looked.
llvm::Error Player::checkOrder(uint16_t device, llvm::ArrayRef<CompletionOrder::Due> due, ObservationLog &log,
                               Observation &o) {
  constexpr unsigned triesPerRun = 4;
  constexpr uint64_t patience = 250'000'000;
  DeviceBinding &binding = bindings[device];
  if (!binding.capabilities().memory || !binding.capabilities().answers)
    return llvm::Error::success();
  for (const CompletionOrder::Due &fence : due) {
    if (!fence.width || fence.width > 8 || !binding.isMapped(fence.address, fence.width))
      continue;
    auto read = [&]() -> llvm::Expected<uint64_t> {
      uint8_t bytes[8] = {};
      llvm::MutableArrayRef<uint8_t> here(bytes, fence.width);
      if (llvm::Error error = binding.readMemory(fence.address, here))
        return error;
      return uint64_t(llvm::is_contained(fence.values, littleEndian(here)));
    };
    llvm::Expected<uint64_t> there = read();
    if (!there)
      return there.takeError();
    if (*there || lateFences >= triesPerRun)
      continue;
    ++lateFences;
    llvm::Expected<WaitResult> waited = waitForCondition(
        binding.target(), read, 1, 1, std::min(patience, options.waits.defaultDeadline), options.waits);
    if (!waited)
      return waited.takeError();
    if (!waited->met)
      continue;
    o.rule = Rule::CompletionOrder;
    constexpr size_t keptFailures = 64;
    if (log.failures.size() < keptFailures) {
      const std::string &queue = binding.description()->queues[fence.queue].name;
      log.failures.emplace_back(FailureClass::Target, "completion-order",
                                "the fence of " + queue + " #" + std::to_string(fence.entry) + " at 0x" +
                                    llvm::utohexstr(fence.address, /*LowerCase=*/true) +
                                    ", which comes before it, was not in memory yet");
      o.failure = uint32_t(log.failures.size());
    }
  }
  return llvm::Error::success();
}

} // namespace tapeback
