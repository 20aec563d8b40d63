#include "triggers/Evaluator.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace tapeback::triggers {

static constexpr unsigned maxRounds = 8;

Evaluator::Evaluator(const Program &program, StreamNames streamNames)
    : compiled(program), triggers(program.triggers.size()), rules(program.rules.size()),
      timers(program.timers.size()), statistics(program.statistics.size()), slots(program.slots.size()),
      mappings(program.devices.size()), audienceByKind(64, noIndex),
      deviceNow(program.devices.size(), noTime), ownerOf(program.rules.size(), noIndex),
      stateOfRule(program.rules.size(), noIndex) {
  for (const Program::VariableDescription &variable : program.variables)
    variables.push_back(variable.initial);
  for (const Program::NamedSize &table : program.tables)
    tables.emplace_back(table.size);
  for (uint32_t t = 0; t < program.triggers.size(); ++t) {
    const Trigger &trigger = program.triggers[t];
    triggers[t].armed = trigger.armed;
    triggers[t].state = trigger.states.first;
    if (trigger.keep != noIndex)
      keepers.push_back(t);
    bool listens = false;
    auto own = [&](Range range, uint32_t state) {
      for (uint32_t r = range.first; r < range.first + range.count; ++r) {
        const Rule &rule = program.rules[r];
        ownerOf[r] = t;
        stateOfRule[r] = state;
        if (rule.kind != Rule::Kind::When)
          clocked.push_back(r);
        if (rule.rate)
          rules[r].rate = std::make_unique<RateWindow>(rule.rate);
        SmallVector<uint32_t, 16> stack;
        if (rule.condition != noIndex)
          stack.push_back(rule.condition);
        while (!stack.empty()) {
          const Node &node = program.nodes[stack.pop_back_val()];
          listens |= node.op == NodeOp::Raised;
          if (node.op == NodeOp::And || node.op == NodeOp::Or)
            stack.append({node.a, node.b});
          else if (node.op == NodeOp::Not)
            stack.push_back(node.a);
        }
      }
    };
    own(trigger.always, noIndex);
    for (uint32_t s = trigger.states.first; s < trigger.states.first + trigger.states.count; ++s)
      own(program.states[s].rules, s);
    if (listens)
      listeners.push_back(t);
  }
  if (!keepers.empty())
    kept.assign(program.triggers.size(), 1);
  setNames(std::move(streamNames));
}

Evaluator::~Evaluator() = default;

void Evaluator::setNames(StreamNames streamNames) {
  names = std::move(streamNames);
  spaceOf.clear();
  for (const std::string &space : names.spaces) {
    auto found = find(compiled.spaces, space);
    spaceOf.push_back(found == compiled.spaces.end() ? noIndex : uint32_t(found - compiled.spaces.begin()));
  }
  // Places of spaces that were not known yet may have become known.
  audienceByKey.clear();
  audiences.clear();
  audienceByKind.assign(64, noIndex);
}

uint64_t Evaluator::nanoseconds(uint8_t clock, uint64_t ticks) const {
  uint64_t rate = clock < names.clockTicksPerSecond.size() ? names.clockTicksPerSecond[clock] : 0;
  if (!rate || rate == 1'000'000'000)
    return ticks;
  unsigned __int128 wide = (unsigned __int128)ticks * 1'000'000'000 / rate;
  return wide > noTime - 1 ? noTime - 1 : uint64_t(wide);
}

uint64_t Evaluator::deviceTime(uint32_t trigger) const {
  uint16_t device = compiled.triggers[trigger].device;
  return device < deviceNow.size() ? deviceNow[device] : noTime;
}

//===- Steps -----------------------------------------------------------------------------------------===//

void Evaluator::start(uint64_t time, uint64_t) {
  started = true;
  now = timeNow = time;
}

void Evaluator::passSlowly(uint64_t ordinal, uint64_t issueTime, uint64_t completeTime,
                           SmallVectorImpl<Output> &out) {
  Packet nobody;
  nobody.issueTime = issueTime;
  nobody.completeTime = completeTime;
  nobody.kind = PacketKind::Tick;
  nobody.device = 0xffff;
  static const PacketExtra none;
  packet(ordinal, nobody, none, [](BlobId) { return ArrayRef<uint8_t>(); }, out);
}

void Evaluator::packet(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, Fetch fetch,
                       SmallVectorImpl<Output> &out) {
  uint64_t issue = nanoseconds(timesClock(packet), packet.issueTime);
  if (!started) {
    start(issue, ordinal);
    for (uint32_t t = 0; t < triggers.size(); ++t)
      if (triggers[t].armed)
        enter(t, compiled.triggers[t].states.first, out);
    settle(out);
  }
  now = std::max(now, issue);
  latest = std::max({latest, now, nanoseconds(timesClock(packet), packet.completeTime)});
  if (rescheduling)
    schedule();
  if (now > nextHost)
    meetDeadlines(Clock::Host, out);

  ++packetsSeen;
  ++step;
  packetNow = &packet;
  extraNow = &extra;
  fetchNow = &fetch;
  ordinalNow = pointNow = ordinal;
  timeNow = now;
  contentFetched = false;
  switch (packet.kind) {
  case PacketKind::Submit:
  case PacketKind::MemoryWrite:
    if (compiled.usesEntries)
      followEntry();
    break;
  case PacketKind::MemoryMap:
    if (packet.device < mappings.size())
      mappings[packet.device].map(packet.address, extra.length);
    break;
  case PacketKind::MemoryUnmap:
    if (packet.device < mappings.size())
      mappings[packet.device].unmap(packet.address, extra.length);
    break;
  case PacketKind::ClockSample: sampleClock(); break;
  default: break;
  }
  if (packet.kind == PacketKind::ClockSample)
    meetDeadlines(Clock::Device, out);
  lookAt(audienceOf(packet), out);
  for (uint32_t t : keepers)
    kept[t] = packet.device == compiled.triggers[t].device && holds(compiled.triggers[t].keep);
  settle(out);
  leavePacket();
  lastPacket = ordinal;
  if (rescheduling)
    schedule();
  if (packetsSeen >= nextPacket)
    meetDeadlines(Clock::Packets, out);
}

void Evaluator::leavePacket() {
  packetNow = nullptr;
  extraNow = nullptr;
  fetchNow = nullptr;
  ordinalNow = noPacket;
  contentFetched = false;
  contentNow = {};
  entryNow = {};
}

void Evaluator::tick(uint64_t hostTime, SmallVectorImpl<Output> &out) {
  if (!started)
    return; // Time begins with the first packet.
  now = std::max(now, hostTime);
  if (rescheduling)
    schedule();
  if (now > nextHost)
    meetDeadlines(Clock::Host, out);
}

void Evaluator::finish(SmallVectorImpl<Output> &out) {
  tick(latest, out);
}

void Evaluator::raise(StringRef event, SmallVectorImpl<Output> &out) {
  auto found = find(compiled.events, event);
  if (found == compiled.events.end())
    return;
  pointNow = lastPacket;
  timeNow = now;
  raisedNext.push_back(uint32_t(found - compiled.events.begin()));
  settle(out);
}

//===- Rules -----------------------------------------------------------------------------------------===//

void Evaluator::lookAt(const Audience &audience, SmallVectorImpl<Output> &out) {
  for (uint32_t slot : audience.slots)
    updateSlot(slot);
  // Who watches wants to see in vain, too.
  bool all = watcher || audience.filter.passes(packetNow->value);
  for (uint32_t trigger : all ? audience.triggers : audience.anyValue)
    runTrigger(trigger, out);
}

void Evaluator::runTrigger(uint32_t t, SmallVectorImpl<Output> &out) {
  const Trigger &trigger = compiled.triggers[t];
  if (!triggers[t].armed)
    return;
  for (uint32_t r = trigger.always.first; r < trigger.always.first + trigger.always.count; ++r)
    if (compiled.rules[r].kind == Rule::Kind::When)
      runRule(t, r, out);
  if (!triggers[t].armed)
    return;
  Range inState = compiled.states[triggers[t].state].rules;
  for (uint32_t r = inState.first; r < inState.first + inState.count; ++r)
    if (compiled.rules[r].kind == Rule::Kind::When && runRule(t, r, out))
      return;
}

/// True if the rule fired.
bool Evaluator::runRule(uint32_t t, uint32_t r, SmallVectorImpl<Output> &out) {
  const Rule &rule = compiled.rules[r];
  RuleState &state = rules[r];
  bool held = holds(rule.condition), fires = held;
  if (held && rule.holdoff && state.heldOffFrom != noTime) {
    uint64_t at = clockNow(rule.holdoffClock, t);
    fires = at == noTime || at - std::min(at, state.heldOffFrom) > rule.holdoff;
  }
  if (fires && rule.rate)
    fires = rateReached(t, rule, state);
  if (fires && rule.count && ++state.seen < rule.count)
    fires = false;
  if (watcher)
    watcher->ruleSeen(*this, t, r, held, fires);
  if (fires)
    fire(t, r, out);
  return fires;
}

bool Evaluator::rateReached(uint32_t t, const Rule &rule, RuleState &state) {
  uint64_t at = clockNow(rule.rateClock, t);
  return at != noTime && state.rate->add(at, rule.rateAmount);
}

void Evaluator::fire(uint32_t t, uint32_t r, SmallVectorImpl<Output> &out) {
  const Rule &rule = compiled.rules[r];
  RuleState &state = rules[r];
  state.seen = 0;
  ++state.fired;
  if (rule.holdoff)
    state.heldOffFrom = clockNow(rule.holdoffClock, t);
  act(t, r, rule.actions, out);
  if (rule.next != noIndex)
    enter(t, rule.next, out);
}

void Evaluator::enter(uint32_t t, uint32_t s, SmallVectorImpl<Output> &out) {
  TriggerState &trigger = triggers[t];
  const State &state = compiled.states[s];
  trigger.state = s;
  trigger.enteredHost = timeNow;
  trigger.enteredDevice = deviceTime(t);
  trigger.enteredPacket = packetsSeen;
  ++trigger.generation;
  rescheduling = true;
  for (uint32_t r = state.rules.first; r < state.rules.first + state.rules.count; ++r) {
    rules[r].seen = 0;
    if (rules[r].rate)
      rules[r].rate->clear();
  }
  if (watcher)
    watcher->entered(*this, t, s);
  act(t, noIndex, state.entry, out);
}

void Evaluator::reset(uint32_t t, SmallVectorImpl<Output> &out) {
  for (uint32_t i = 0; i < variables.size(); ++i)
    if (compiled.variables[i].trigger == t)
      variables[i] = compiled.variables[i].initial;
  for (uint32_t i = 0; i < tables.size(); ++i)
    if (compiled.tables[i].trigger == t)
      tables[i].clear();
  for (uint32_t i = 0; i < timers.size(); ++i)
    if (compiled.timers[i].trigger == t)
      timers[i].running = false;
  for (uint32_t i = 0; i < statistics.size(); ++i)
    if (compiled.statistics[i].trigger == t)
      statistics[i].clear();
  for (uint32_t r = 0; r < rules.size(); ++r)
    if (ownerOf[r] == t) {
      rules[r].seen = 0;
      rules[r].heldOffFrom = noTime;
      if (rules[r].rate)
        rules[r].rate->clear();
    }
  triggers[t].armed = true;
  enter(t, compiled.triggers[t].states.first, out);
}

/// Re-arms and raised events, which may lead to more of them: a few rounds, then no more.
void Evaluator::settle(SmallVectorImpl<Output> &out) {
  for (unsigned round = 0; !raisedNext.empty() || !resetNext.empty(); ++round) {
    if (round == maxRounds) {
      droppedRaises += raisedNext.size() + resetNext.size();
      raisedNext.clear();
      resetNext.clear();
      return;
    }
    // An event is no packet: nothing of one can be asked for.
    leavePacket();
    std::vector<uint32_t> resets = std::move(resetNext), events = std::move(raisedNext);
    resetNext.clear();
    raisedNext.clear();
    for (uint32_t t : resets)
      reset(t, out);
    for (uint32_t event : events) {
      raisedNow = event;
      ++step;
      for (uint32_t t : listeners)
        runTrigger(t, out);
    }
    raisedNow = noIndex;
  }
}

//===- Actions ---------------------------------------------------------------------------------------===//

void Evaluator::act(uint32_t t, uint32_t r, Range actions, SmallVectorImpl<Output> &out) {
  auto queue = [](std::vector<uint32_t> &list, uint32_t what) {
    if (!is_contained(list, what))
      list.push_back(what);
  };
  uint32_t end = actions.first + actions.count;
  for (uint32_t i = actions.first; i < end; ++i) {
    const Action &action = compiled.actions[i];
    switch (action.op) {
    case ActionOp::Unless:
      if (!holds(action.node))
        i += action.skip;
      break;
    case ActionOp::Skip: i += action.skip; break;
    case ActionOp::Arm:
      if (!triggers[action.a].armed)
        queue(resetNext, action.a);
      break;
    case ActionOp::Rearm: queue(resetNext, action.a); break;
    case ActionOp::Disarm:
      triggers[action.a].armed = false;
      rescheduling = true;
      break;
    case ActionOp::Raise:
      queue(raisedNext, action.a);
      output(t, r, i, out);
      break;
    case ActionOp::Fire:
    case ActionOp::Capture:
    case ActionOp::Marker:
    case ActionOp::Stop:
    case ActionOp::Snapshot:
    case ActionOp::Exec: output(t, r, i, out); break;
    default: assign(action); break;
    }
  }
}

/// What only changes what is remembered. An unknown value changes nothing.
void Evaluator::assign(const Action &action) {
  Value value, key;
  if (action.node != noIndex) {
    value = evaluate(action.node);
    if (!value.known)
      return;
  }
  if (action.key != noIndex) {
    key = evaluate(action.key);
    if (!key.known)
      return;
  }
  switch (action.op) {
  case ActionOp::Assign: {
    // Counters stop at their limit; below 0 they stop there, too.
    uint64_t limit = compiled.variables[action.a].limit;
    if (limit != ~uint64_t(0) && value.value > limit) {
      bool below = compiled.nodes[action.node].op == NodeOp::Subtract;
      value.value = below ? 0 : limit;
    }
    variables[action.a] = value.value;
    break;
  }
  case ActionOp::Put:
    tables[action.a].put(key.value, value.value, timeNow);
    rescheduling = true;
    break;
  case ActionOp::Remove:
    tables[action.a].remove(key.value);
    rescheduling = true;
    break;
  case ActionOp::ClearTable:
    tables[action.a].clear();
    rescheduling = true;
    break;
  case ActionOp::ClearStatistic: statistics[action.a].clear(); break;
  case ActionOp::StartTimer: {
    TimerState &timer = timers[action.a];
    uint32_t owner = compiled.timers[action.a].trigger;
    timer = {true, timeNow, deviceTime(owner), packetsSeen, timer.generation + 1};
    rescheduling = true;
    break;
  }
  case ActionOp::StopTimer:
    timers[action.a].running = false;
    rescheduling = true;
    break;
  case ActionOp::Record: statistics[action.a].add(value.value); break;
  default: break;
  }
}

void Evaluator::output(uint32_t t, uint32_t r, uint32_t index, SmallVectorImpl<Output> &out) {
  const Action &action = compiled.actions[index];
  Output result;
  result.op = action.op;
  result.trigger = t;
  result.state = triggers[t].state;
  result.rule = r;
  result.action = index;
  result.packet = pointNow;
  result.time = timeNow;
  for (uint32_t v = 0; v < std::min<uint32_t>(action.valueCount, uint32_t(result.values.size())); ++v) {
    uint32_t node = compiled.fireValues[action.firstValue + v];
    Value value = evaluate(node);
    result.values[v] = {value.value, value.known, compiled.nodes[node].isBool, compiled.nodes[node].isSigned};
  }
  out.push_back(result);
}

Evaluator::Shortfalls Evaluator::shortfalls() const {
  Shortfalls result;
  result.deadlines = droppedDeadlines;
  result.raises = droppedRaises;
  result.contents = missingContents;
  for (const ValueTable &table : tables)
    result.evictions += table.evictions();
  return result;
}

} // namespace tapeback::triggers
