#include "triggers/Observe.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback::triggers {

static constexpr size_t mostExplained = 4096;

static bool isJunction(NodeOp op) {
  return op == NodeOp::And || op == NodeOp::Or || op == NodeOp::Not;
}

void forEachPredicate(const Evaluator &evaluator, uint32_t index, function_ref<void(uint32_t, bool)> leaf) {
  const Node &node = evaluator.program().nodes[index];
  if (!isJunction(node.op)) {
    leaf(index, evaluator.holds(index));
    return;
  }
  forEachPredicate(evaluator, node.a, leaf);
  if (node.op == NodeOp::Not)
    return;
  // As evaluated: the second one only if the first does not decide.
  if (evaluator.holds(node.a) == (node.op == NodeOp::And))
    forEachPredicate(evaluator, node.b, leaf);
}

static std::string valueText(const Evaluator &evaluator, uint32_t node) {
  Evaluator::Value value = evaluator.value(node);
  return value.known ? "0x" + utohexstr(value.value, true) : "unknown";
}

std::string describePredicate(const Evaluator &evaluator, uint32_t index) {
  const Program &program = evaluator.program();
  const Node &node = program.nodes[index];
  std::string text = program.sourceOf(node.where).str(), values;
  auto add = [&](uint32_t operand) {
    const Node &part = program.nodes[operand];
    if (part.op != NodeOp::Constant)
      values += (values.empty() ? "" : ", ") + program.sourceOf(part.where).str() + " is " +
                valueText(evaluator, operand);
  };
  switch (node.op) {
  case NodeOp::Equal:
  case NodeOp::NotEqual:
  case NodeOp::Less:
  case NodeOp::LessEqual:
  case NodeOp::Mapped:
    add(node.a);
    add(node.b);
    break;
  case NodeOp::In: add(node.a); break;
  case NodeOp::Has: add(node.b); break;
  default: break;
  }
  return values.empty() ? text : text + " (" + values + ")";
}

//===- Explanation -----------------------------------------------------------------------------------===//

void Explanation::ruleSeen(const Evaluator &evaluator, uint32_t trigger, uint32_t rule, bool held,
                           bool fired) {
  if (rules.size() >= mostExplained)
    return;
  const Rule &is = evaluator.program().rules[rule];
  RuleExplanation result{trigger, evaluator.stateOf(trigger), rule, is.condition == noIndex, held, fired, {}};
  if (!held && is.condition != noIndex) {
    // The last predicate evaluated is the one that decided.
    uint32_t last = is.condition;
    forEachPredicate(evaluator, is.condition, [&](uint32_t leaf, bool) { last = leaf; });
    result.why = describePredicate(evaluator, last);
  } else if (held && !fired) {
    result.why = is.rate      ? "its rate has not been reached, or its holdoff is not over"
                 : is.holdoff ? "its holdoff is not over, or its count has not been reached"
                              : "its count has not been reached";
  }
  rules.push_back(std::move(result));
}

void Explanation::entered(const Evaluator &, uint32_t trigger, uint32_t state) {
  if (entries.size() < mostExplained)
    entries.push_back({trigger, state});
}

//===- Coverage --------------------------------------------------------------------------------------===//

static Coverage::Counts &at(Coverage::Table &table, const Program &program, uint32_t trigger,
                            SourceRange where, StringRef text) {
  Coverage::Counts &counts = table[{where.offset, where.length}];
  if (counts.text.empty()) {
    counts.trigger = program.triggers[trigger].name;
    counts.text = text.str();
    counts.offset = where.offset;
    counts.length = where.length;
  }
  return counts;
}

static std::string ruleText(const Program &program, const Rule &rule) {
  if (rule.condition != noIndex)
    return "when " + program.sourceOf(program.nodes[rule.condition].where).str();
  StringRef line = StringRef(program.source).substr(rule.where.offset).split('\n').first;
  return line.take_front(80).rtrim("{ ").str();
}

void Coverage::add(const Program &program) {
  for (uint32_t t = 0; t < program.triggers.size(); ++t) {
    const Trigger &trigger = program.triggers[t];
    auto addRules = [&](Range range) {
      for (uint32_t r = range.first; r < range.first + range.count; ++r) {
        const Rule &rule = program.rules[r];
        at(ruleCounts, program, t, {rule.where.offset, uint32_t(rule.kind)}, ruleText(program, rule));
        SmallVector<uint32_t, 16> stack;
        if (rule.condition != noIndex)
          stack.push_back(rule.condition);
        while (!stack.empty()) {
          const Node &node = program.nodes[stack.pop_back_val()];
          if (!isJunction(node.op)) {
            at(predicateCounts, program, t, node.where, program.sourceOf(node.where));
            continue;
          }
          stack.push_back(node.a);
          if (node.op != NodeOp::Not)
            stack.push_back(node.b);
        }
      }
    };
    addRules(trigger.always);
    for (uint32_t s = trigger.states.first; s < trigger.states.first + trigger.states.count; ++s) {
      at(stateCounts, program, t, program.states[s].where, program.states[s].name);
      addRules(program.states[s].rules);
    }
  }
}

void Coverage::ruleSeen(const Evaluator &evaluator, uint32_t t, uint32_t r, bool, bool fired) {
  const Program &program = evaluator.program();
  const Rule &rule = program.rules[r];
  Counts &counts = at(ruleCounts, program, t, {rule.where.offset, uint32_t(rule.kind)}, "");
  ++(fired ? counts.yes : counts.no);
  if (rule.condition != noIndex)
    forEachPredicate(evaluator, rule.condition, [&](uint32_t leaf, bool held) {
      Counts &predicate = at(predicateCounts, program, t, program.nodes[leaf].where, "");
      ++(held ? predicate.yes : predicate.no);
    });
}

void Coverage::entered(const Evaluator &evaluator, uint32_t t, uint32_t s) {
  const Program &program = evaluator.program();
  ++at(stateCounts, program, t, program.states[s].where, "").yes;
}

} // namespace tapeback::triggers
