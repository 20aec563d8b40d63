// When `after` rules are due. Each deadline is met at its own time, not when a packet makes it known, so that
// ticks change nothing but how soon.
#include "triggers/Evaluator.h"

using namespace llvm;

namespace tapeback::triggers {

static uint64_t later(uint64_t base, uint64_t amount) {
  return base > ~uint64_t(0) - 1 - amount ? ~uint64_t(0) - 1 : base + amount;
}

uint64_t Evaluator::clockNow(Clock clock, uint32_t trigger) const {
  switch (clock) {
  case Clock::Packets: return packetsSeen;
  case Clock::Host: return timeNow;
  case Clock::Device: return deviceTime(trigger);
  }
  return timeNow;
}

/// The last moment that is not too late. Nothing if the rule is not waiting.
std::optional<uint64_t> Evaluator::deadlineOf(uint32_t t, const Rule &rule, const RuleState &state) const {
  const TriggerState &trigger = triggers[t];
  uint32_t index = uint32_t(&rule - compiled.rules.data());
  if (!trigger.armed || (stateOfRule[index] != noIndex && stateOfRule[index] != trigger.state))
    return std::nullopt;
  uint64_t host = 0, device = noTime, packet = 0;
  switch (rule.kind) {
  case Rule::Kind::When: return std::nullopt;
  case Rule::Kind::After:
    if (state.metAt == trigger.generation)
      return std::nullopt;
    host = trigger.enteredHost;
    device = trigger.enteredDevice;
    packet = trigger.enteredPacket;
    break;
  case Rule::Kind::AfterTimer: {
    const TimerState &timer = timers[rule.of];
    if (!timer.running || state.metAt == timer.generation)
      return std::nullopt;
    host = timer.host;
    device = timer.device;
    packet = timer.packet;
    break;
  }
  case Rule::Kind::AfterTable: {
    std::optional<ValueTable::Oldest> oldest = tables[rule.of].oldest();
    if (!oldest)
      return std::nullopt;
    return later(oldest->came, rule.amount);
  }
  }
  if (rule.clock == Clock::Device && device == noTime)
    return std::nullopt;
  return later(rule.clock == Clock::Host ? host : rule.clock == Clock::Device ? device : packet, rule.amount);
}

Evaluator::Due Evaluator::earliest(Clock clock) const {
  Due due;
  for (uint32_t r : clocked) {
    const Rule &rule = compiled.rules[r];
    if (rule.clock != clock)
      continue;
    std::optional<uint64_t> at = deadlineOf(ownerOf[r], rule, rules[r]);
    if (!at || *at >= due.at)
      continue;
    if (clock == Clock::Device && deviceTime(ownerOf[r]) <= *at)
      continue;
    due = {ownerOf[r], r, *at};
  }
  return due;
}

void Evaluator::schedule() {
  rescheduling = false;
  nextHost = earliest(Clock::Host).at;
  nextPacket = earliest(Clock::Packets).at;
}

void Evaluator::meetDeadlines(Clock clock, SmallVectorImpl<Output> &out) {
  // What a step may cost has a bound: the rest is met at the next one.
  constexpr unsigned most = 256;
  uint64_t timeBefore = timeNow, pointBefore = pointNow;
  for (unsigned met = 0;; ++met) {
    Due due = earliest(clock);
    bool is = due.rule != noIndex && (clock == Clock::Host      ? now > due.at
                                      : clock == Clock::Packets ? packetsSeen >= due.at
                                                                : true);
    if (!is)
      break;
    if (met == most) {
      ++droppedDeadlines;
      break;
    }
    const Rule &rule = compiled.rules[due.rule];
    RuleState &state = rules[due.rule];
    timeNow = clock == Clock::Host ? due.at : now;
    pointNow = lastPacket;
    if (rule.kind == Rule::Kind::AfterTable) {
      std::optional<ValueTable::Oldest> oldest = tables[rule.of].oldest();
      expiredKey = oldest->key;
      expiredKnown = true;
      tables[rule.of].remove(expiredKey);
    } else {
      state.metAt =
          rule.kind == Rule::Kind::After ? triggers[due.trigger].generation : timers[rule.of].generation;
    }
    const Packet *packetBefore = packetNow;
    packetNow = nullptr;
    if (watcher)
      watcher->ruleSeen(*this, due.trigger, due.rule, true, true);
    fire(due.trigger, due.rule, out);
    expiredKnown = false;
    packetNow = packetBefore;
    // Raised events and re-arms come behind the packet at hand, if there is one.
    if (!packetNow)
      settle(out);
  }
  timeNow = timeBefore;
  pointNow = pointBefore;
  schedule();
}

} // namespace tapeback::triggers
