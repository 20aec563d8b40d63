// What is known of a program before it runs: states nobody reaches, counters that can overflow, what a packet
// can cost, and which packets it can be about at all.
#include "triggers/Compiler.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace tapeback::triggers {

//===- Interests -------------------------------------------------------------------------------------===//

namespace {

constexpr size_t mostInterests = 256;

uint64_t kindsOf(const std::vector<Interest> &interests) {
  uint64_t all = 0;
  for (const Interest &interest : interests)
    all |= interest.kinds;
  return all;
}

/// How many packets these let through, roughly: smaller is better.
unsigned looseness(const std::vector<Interest> &interests) {
  unsigned sum = 0;
  for (const Interest &interest : interests)
    sum += interest.place != noIndex || interest.counter != noIndex
               ? 1
               : 8 * unsigned(llvm::popcount(interest.kinds));
  return sum;
}

std::vector<Interest> everything() {
  return {Interest{anyKind}};
}

} // namespace

/// Which packets can make a node true (a superset). Empty: none can.
std::vector<Interest> Compiler::interestsOf(uint32_t index) const {
  const Node &node = program.nodes[index];
  switch (node.op) {
  case NodeOp::Constant: return node.imm ? everything() : std::vector<Interest>();
  case NodeOp::And: {
    std::vector<Interest> a = interestsOf(node.a), b = interestsOf(node.b);
    std::vector<Interest> &better = looseness(a) <= looseness(b) ? a : b;
    uint64_t other = kindsOf(&better == &a ? b : a);
    for (Interest &interest : better)
      interest.kinds &= other;
    erase_if(better, [](const Interest &interest) { return !interest.kinds; });
    // read R && (value == 3 || value == 5): only reads of R with one of these values.
    const std::vector<Interest> &rest = &better == &a ? b : a;
    bool allValues = !rest.empty() && better.size() * rest.size() <= mostInterests;
    for (const Interest &interest : rest)
      allValues &= interest.hasValue && interest.place == noIndex;
    if (!allValues)
      return std::move(better);
    std::vector<Interest> valued;
    for (const Interest &interest : better)
      for (const Interest &value : rest) {
        valued.push_back(interest);
        if (interest.hasValue)
          break; // It says more already.
        valued.back().hasValue = true;
        valued.back().value = value.value;
      }
    return valued;
  }
  case NodeOp::Or: {
    std::vector<Interest> a = interestsOf(node.a), b = interestsOf(node.b);
    append_range(a, b);
    return a.size() > mostInterests ? std::vector<Interest>{{kindsOf(a)}} : std::move(a);
  }
  case NodeOp::KindIs:
  case NodeOp::NameIs:
  case NodeOp::FormIs: return {Interest{node.imm}};
  case NodeOp::PlaceIs: {
    std::vector<Interest> all;
    for (uint32_t i = 0; i < node.b; ++i)
      all.push_back({node.imm, node.a + i});
    return all.size() > mostInterests ? std::vector<Interest>{{node.imm}} : std::move(all);
  }
  case NodeOp::Equal: {
    auto isValue = [&](uint32_t n) {
      return program.nodes[n].op == NodeOp::Field && program.nodes[n].a == uint32_t(PacketField::Value);
    };
    for (auto [field, constant] : {std::pair(node.a, node.b), std::pair(node.b, node.a)})
      if (isValue(field) && program.nodes[constant].op == NodeOp::Constant && node.imm == ~uint64_t(0)) {
        Interest one{anyKind};
        one.hasValue = true;
        one.value = program.nodes[constant].imm;
        return {one};
      }
    return everything();
  }
  case NodeOp::Raised: return {}; // No packet: an event is a step of its own.
  case NodeOp::Changed:
  case NodeOp::Rose:
  case NodeOp::Fell:
  case NodeOp::Wrapped:
  case NodeOp::Regressed: {
    const SlotDescription &slot = program.slots[node.a];
    if (slot.isCounter)
      return {Interest{kindBit(PacketKind::CounterSnapshot), noIndex, uint32_t(slot.counter)}};
    uint64_t kinds = accessKinds & ~(slot.keepsWrites ? 0 : kindBit(PacketKind::RegisterWrite));
    uint32_t place = noIndex;
    for (uint32_t i = 0; i < program.places.size() && place == noIndex; ++i)
      if (program.places[i].space == slot.place.space && program.places[i].offset == slot.place.offset &&
          program.places[i].width == slot.place.width)
        place = i;
    return {Interest{kinds, place}};
  }
  default: return everything();
  }
}

void Compiler::collectInterests(Trigger &trigger) const {
  auto collect = [&](Range rules) {
    for (uint32_t i = 0; i < rules.count; ++i) {
      const Rule &rule = program.rules[rules.first + i];
      if (rule.condition == noIndex)
        continue;
      append_range(trigger.interests, interestsOf(rule.condition));
    }
  };
  collect(trigger.always);
  for (uint32_t i = 0; i < trigger.states.count; ++i)
    collect(program.states[trigger.states.first + i].rules);
  uint64_t anywhere = 0;
  for (const Interest &interest : trigger.interests)
    if (interest.place == noIndex && interest.counter == noIndex)
      anywhere |= interest.kinds;
  if (trigger.interests.size() > 4 * mostInterests)
    anywhere = kindsOf(trigger.interests);
  for (Interest &interest : trigger.interests)
    interest.kinds &= ~anywhere;
  erase_if(trigger.interests, [](const Interest &interest) { return !interest.kinds; });
  if (anywhere)
    trigger.interests.push_back({anywhere});
}

//===- Cost ------------------------------------------------------------------------------------------===//

uint64_t Compiler::nodeCost(uint32_t root) const {
  uint64_t cost = 0;
  SmallVector<uint32_t, 32> stack = {root};
  while (!stack.empty()) {
    uint32_t index = stack.pop_back_val();
    if (index == noIndex)
      continue;
    const Node &node = program.nodes[index];
    ++cost;
    switch (node.op) {
    case NodeOp::In:
      cost += node.imm;
      stack.push_back(node.a);
      break;
    case NodeOp::PlaceIs: cost += node.b; break;
    case NodeOp::Quantile: cost += 80; break;
    case NodeOp::Not:
    case NodeOp::BitNot:
    case NodeOp::Negate:
    case NodeOp::Payload: stack.push_back(node.a); break;
    case NodeOp::Has:
    case NodeOp::Lookup:
    case NodeOp::Age:
      cost += 8;
      stack.push_back(node.b);
      break;
    case NodeOp::Mapped: cost += 10; [[fallthrough]];
    case NodeOp::And:
    case NodeOp::Or:
    case NodeOp::Equal:
    case NodeOp::NotEqual:
    case NodeOp::Less:
    case NodeOp::LessEqual:
    case NodeOp::Add:
    case NodeOp::Subtract:
    case NodeOp::Multiply:
    case NodeOp::Divide:
    case NodeOp::Modulo:
    case NodeOp::BitAnd:
    case NodeOp::BitOr:
    case NodeOp::BitXor:
    case NodeOp::ShiftLeft:
    case NodeOp::ShiftRight:
      stack.push_back(node.a);
      stack.push_back(node.b);
      break;
    default: break;
    }
  }
  return cost;
}

uint64_t Compiler::blockCost(Range actions) const {
  uint64_t cost = 0;
  for (uint32_t i = 0; i < actions.count; ++i) {
    const Action &action = program.actions[actions.first + i];
    cost += 1 + nodeCost(action.node) + nodeCost(action.key);
    for (uint32_t v = 0; v < action.valueCount; ++v)
      cost += nodeCost(program.fireValues[action.firstValue + v]);
  }
  return cost;
}

uint64_t Compiler::ruleCost(const Rule &rule) const {
  return rule.condition == noIndex ? 1 : 1 + nodeCost(rule.condition);
}

void Compiler::checkCost(Trigger &trigger, const TriggerSyntax &syntax) {
  // `always`: every rule may fire. A state: every rule is looked at, one fires, and the next state is
  // entered.
  uint64_t always = 0, worst = 0, entry = 0;
  for (uint32_t i = 0; i < trigger.always.count; ++i) {
    const Rule &rule = program.rules[trigger.always.first + i];
    always += ruleCost(rule) + blockCost(rule.actions);
  }
  for (uint32_t s = 0; s < trigger.states.count; ++s) {
    const State &state = program.states[trigger.states.first + s];
    uint64_t looked = 0, fired = 0;
    for (uint32_t i = 0; i < state.rules.count; ++i) {
      const Rule &rule = program.rules[state.rules.first + i];
      looked += ruleCost(rule);
      fired = std::max(fired, blockCost(rule.actions));
    }
    worst = std::max(worst, looked + fired);
    entry = std::max(entry, blockCost(state.entry));
  }
  // Looking for the next deadline looks at each.
  uint64_t clocked = 0;
  auto count = [&](Range rules) {
    for (uint32_t i = 0; i < rules.count; ++i)
      clocked += program.rules[rules.first + i].kind != Rule::Kind::When;
  };
  count(trigger.always);
  for (uint32_t s = 0; s < trigger.states.count; ++s)
    count(program.states[trigger.states.first + s].rules);
  uint64_t cost = always + worst + entry + clocked + (trigger.keep == noIndex ? 0 : nodeCost(trigger.keep));
  trigger.cost = unsigned(std::min<uint64_t>(cost, ~0u));
  program.cost += cost;
  if (cost > maxTriggerCost)
    diagnostics.error(syntax.name.where,
                      "a packet could cost this trigger " + std::to_string(cost) + " steps; at most " +
                          std::to_string(maxTriggerCost) + " are allowed",
                      "split it into several triggers, or into states with fewer rules each");
}

//===- Reachability, declarations
//------------------------------------------------------------------------===//

void Compiler::checkReachable(const Trigger &trigger) {
  std::vector<bool> reached(trigger.states.count);
  std::vector<uint32_t> todo;
  auto reach = [&](uint32_t state) {
    if (!reached[state - trigger.states.first]) {
      reached[state - trigger.states.first] = true;
      todo.push_back(state);
    }
  };
  if (trigger.states.count)
    reach(trigger.states.first);
  while (!todo.empty()) {
    const State &state = program.states[todo.back()];
    todo.pop_back();
    bool closed = false;
    for (uint32_t i = 0; i < state.rules.count; ++i) {
      const Rule &rule = program.rules[state.rules.first + i];
      bool can = true;
      if (rule.condition != noIndex) {
        const Node &node = program.nodes[rule.condition];
        bool certain = node.op == NodeOp::Constant && node.imm;
        bool raises = false;
        SmallVector<uint32_t, 16> stack = {rule.condition};
        while (!stack.empty()) {
          const Node &part = program.nodes[stack.pop_back_val()];
          // Of what the description has none of, the file has been warned.
          raises |= part.op == NodeOp::Raised || (part.op == NodeOp::PlaceIs && !part.b);
          if (part.op == NodeOp::And || part.op == NodeOp::Or)
            stack.append({part.a, part.b});
        }
        if (!raises && interestsOf(rule.condition).empty()) {
          diagnostics.error(node.where, "this can never hold: no packet is of all these kinds");
          can = false;
        }
        if (closed)
          diagnostics.warning(rule.where, "an earlier rule of this state always holds: never looked at");
        can &= !closed;
        closed |= certain && !rule.count && !rule.rate && !rule.holdoff;
      }
      if (can && rule.next != noIndex)
        reach(rule.next);
    }
  }
  for (uint32_t i = 0; i < trigger.states.count; ++i)
    if (!reached[i])
      diagnostics.error(program.states[trigger.states.first + i].where,
                        "state '" + program.states[trigger.states.first + i].name + "' is never reached",
                        "no rule that can fire leads to it");
}

void Compiler::checkDeclarations(const Trigger &) {
  using Kind = DeclarationSyntax::Kind;
  std::vector<std::pair<uint32_t, StringRef>> order;
  for (const auto &entry : names)
    order.push_back({entry.second.where.offset, entry.first()});
  llvm::sort(order);
  for (const auto &[offset, name] : order) {
    const Declared &is = names[name];
    if (!is.reads)
      diagnostics.warning(is.where, "'" + name.str() + "' is never used");
    else if (!is.writes && is.kind != Kind::Constant && is.kind != Kind::Flag)
      diagnostics.warning(is.where, "'" + name.str() + "' is never set");
    if (is.kind == Kind::Counter && is.grows && !is.shrinks && is.bits < 64)
      diagnostics.warning(is.where,
                          "counter '" + name.str() +
                              "' can overflow: nothing sets it back, and it stops at " +
                              std::to_string(bitsBelow(is.bits)),
                          "set it to 0 somewhere, or leave out its width (64 bits)");
  }
}

void Compiler::checkTrigger(const TriggerSyntax &syntax) {
  Trigger &trigger = program.triggers[current];
  checkDeclarations(trigger);
  // Only of conditions that are sound: the others have been complained about.
  if (diagnostics.anyError())
    return;
  checkReachable(trigger);
  checkCost(trigger, syntax);
  // A slot is brought up to date by packets that no rule waits for.
  collectInterests(trigger);
}

void Compiler::checkProgram() {
  for (const Program::NamedSize &table : program.tables)
    program.memoryBytes += uint64_t(table.size) * 48;
  program.memoryBytes += program.statistics.size() * 16384;
  size_t clocked =
      llvm::count_if(program.rules, [](const Rule &rule) { return rule.kind != Rule::Kind::When; });
  if (clocked > maxDeadlines)
    diagnostics.error({0, 0}, "these triggers have " + std::to_string(clocked) + " deadlines; at most " +
                                  std::to_string(maxDeadlines) + " are allowed");
  if (program.memoryBytes > maxProgramMemory)
    diagnostics.error({0, 0},
                      "these triggers need " + std::to_string(program.memoryBytes >> 20) +
                          " MiB of memory; at most " + std::to_string(maxProgramMemory >> 20) +
                          " are allowed",
                      "make tables smaller");
}

} // namespace tapeback::triggers
