#include "format/Failure.h"
#include "triggers/Compiler.h"
#include "triggers/Parser.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace tapeback::triggers {

void Compiler::declarations(const TriggerSyntax &syntax) {
  using Kind = DeclarationSyntax::Kind;
  for (const DeclarationSyntax &declaration : syntax.declarations) {
    const Name &name = declaration.name;
    bool taken = isEventWord(name.text) || isReservedWord(name.text) || name.text == "name" ||
                 any_of(packetFields(), [&](const PacketFieldName &f) { return name.text == f.name; });
    if (taken || names.count(name.text)) {
      diagnostics.error(name.where, "the name '" + name.text + "' is taken",
                        taken ? "it means something about packets" : "");
      continue;
    }
    Declared result;
    result.kind = declaration.kind;
    result.where = name.where;
    auto sized = [&](std::vector<Program::NamedSize> &list) {
      result.index = uint32_t(list.size());
      list.push_back({name.text, current, uint32_t(declaration.size)});
    };
    switch (declaration.kind) {
    case Kind::Counter:
    case Kind::Flag:
    case Kind::Variable: {
      result.index = uint32_t(program.variables.size());
      result.bits = declaration.kind == Kind::Counter ? unsigned(declaration.size)
                    : declaration.kind == Kind::Flag  ? 1
                                                      : 64;
      uint64_t initial = declaration.kind == Kind::Flag ? declaration.size : 0;
      program.variables.push_back({name.text, current, initial, bitsBelow(result.bits)});
      break;
    }
    case Kind::Timer: sized(program.timers); break;
    case Kind::Table: sized(program.tables); break;
    case Kind::Statistic: sized(program.statistics); break;
    case Kind::Constant: {
      Typed value = declaration.value ? number(*declaration.value) : Typed();
      if (!value.valid())
        continue;
      if (!value.constant()) {
        diagnostics.error(declaration.value->where, "this is not constant");
        continue;
      }
      result.value = value.low;
      result.isSigned = value.isSigned;
      break;
    }
    }
    names[name.text] = result;
  }
}

void Compiler::device(const TriggerSyntax &syntax) {
  if (!syntax.device)
    return;
  const Token &token = *syntax.device;
  Trigger &trigger = program.triggers[current];
  if (token.kind == TokenKind::Number) {
    if (token.value >= options.devices.size())
      diagnostics.error(token.where, "there is no device " + std::to_string(token.value));
    else
      trigger.device = uint16_t(token.value);
    return;
  }
  std::vector<std::string> all;
  for (size_t i = 0; i < options.devices.size(); ++i) {
    if (options.devices[i].alias == token.text || options.devices[i].alias.empty()) {
      trigger.device = uint16_t(i);
      return;
    }
    all.push_back(options.devices[i].alias);
  }
  diagnostics.error(token.where, "there is no device '" + token.text + "'",
                    suggestion(token.text, all, "devices"));
}

bool Compiler::ruleTime(const Amount &amount, Clock &clock, uint64_t &value) {
  value = amount.value;
  switch (amount.unit) {
  case Amount::Unit::Packets: clock = Clock::Packets; break;
  case Amount::Unit::Nanoseconds: clock = Clock::Host; break;
  case Amount::Unit::DeviceNanoseconds: clock = Clock::Device; break;
  default:
    diagnostics.error(amount.where, "here time is counted, or packets", "units: ns, us, ms, s, packets");
    return false;
  }
  if (value)
    return true;
  diagnostics.error(amount.where, "this must be more than nothing");
  return false;
}

Rule Compiler::rule(const RuleSyntax &syntax, bool always) {
  Rule rule;
  rule.where = syntax.where;
  if (syntax.condition) {
    valueBits = 64;
    rule.condition = condition(*syntax.condition).node;
    valueBits = 64;
  }
  if (syntax.after) {
    rule.kind = Rule::Kind::After;
    ruleTime(*syntax.after, rule.clock, rule.amount);
    if (always && !syntax.of)
      diagnostics.error(syntax.where, "`always` is no state that could be entered",
                        "after … of TIMER or TABLE");
  }
  if (syntax.of) {
    auto found = names.find(syntax.of->text);
    bool isTable = found != names.end() && found->second.kind == DeclarationSyntax::Kind::Table;
    rule.kind = isTable ? Rule::Kind::AfterTable : Rule::Kind::AfterTimer;
    Declared *of =
        isTable ? &found->second : declared(*syntax.of, DeclarationSyntax::Kind::Timer, "timer or table");
    if (of) {
      ++of->reads;
      rule.of = of->index;
    }
    if (isTable && rule.clock != Clock::Host && syntax.after)
      diagnostics.error(syntax.after->where, "what is in a table ages in the host's time",
                        "units: ns, us, ms, s");
  }
  rule.count = syntax.count;
  if (syntax.rate && syntax.rateIn) {
    rule.rate = uint32_t(syntax.rate);
    ruleTime(*syntax.rateIn, rule.rateClock, rule.rateAmount);
    rule.rateSlot = uint32_t(program.rules.size());
    program.memoryBytes += uint64_t(rule.rate) * 8;
  }
  if (syntax.holdoff)
    ruleTime(*syntax.holdoff, rule.holdoffClock, rule.holdoff);
  expiredAllowed = rule.kind == Rule::Kind::AfterTable;
  rule.actions = block(syntax.actions);
  expiredAllowed = false;
  if (syntax.next) {
    auto found = stateIndices.find(syntax.next->text);
    if (always)
      diagnostics.error(syntax.next->where, "rules of `always` do not change the state");
    else if (found != stateIndices.end())
      rule.next = found->second;
    else {
      std::vector<std::string> all;
      for (const auto &entry : stateIndices)
        all.push_back(entry.first().str());
      llvm::sort(all);
      diagnostics.error(syntax.next->where, "there is no state '" + syntax.next->text + "'",
                        suggestion(syntax.next->text, all, "states"));
    }
  }
  return rule;
}

void Compiler::state(uint32_t index, const StateSyntax &syntax) {
  State result;
  result.name = syntax.name.text;
  result.where = syntax.name.where;
  result.entry = block(syntax.entry);
  std::vector<Rule> rules;
  for (const RuleSyntax &one : syntax.rules)
    rules.push_back(rule(one, false));
  result.rules = {uint32_t(program.rules.size()), uint32_t(rules.size())};
  append_range(program.rules, rules);
  program.states[index] = std::move(result);
}

void Compiler::states(const TriggerSyntax &syntax) {
  Trigger &trigger = program.triggers[current];
  unsigned forms = !syntax.rules.empty() + !syntax.states.empty() + !syntax.steps.empty();
  if (forms > 1)
    diagnostics.error(syntax.name.where, "a trigger has either rules, or states, or a sequence",
                      "put the rules into a state, or into `always`");
  if (!forms && syntax.always.empty())
    diagnostics.error(syntax.name.where, "this trigger does nothing",
                      "give it a rule: when … { fire \"…\"; }");
  uint32_t first = uint32_t(program.states.size());
  if (!syntax.states.empty()) {
    trigger.states = {first, uint32_t(syntax.states.size())};
    program.states.resize(first + syntax.states.size());
    for (size_t i = 0; i < syntax.states.size(); ++i)
      if (!stateIndices.try_emplace(syntax.states[i].name.text, first + uint32_t(i)).second)
        diagnostics.error(syntax.states[i].name.where,
                          "there is a state '" + syntax.states[i].name.text + "' already");
    for (size_t i = 0; i < syntax.states.size(); ++i)
      state(first + uint32_t(i), syntax.states[i]);
  } else if (!syntax.steps.empty()) {
    sequenceStates(syntax);
  } else {
    State only;
    only.name = "main";
    only.where = syntax.name.where;
    trigger.states = {first, 1};
    program.states.push_back(only);
    std::vector<Rule> rules;
    for (const RuleSyntax &one : syntax.rules)
      rules.push_back(rule(one, false));
    program.states[first].rules = {uint32_t(program.rules.size()), uint32_t(rules.size())};
    append_range(program.rules, rules);
  }
}

/// A sequence is a row of states: each step waits for its condition, goes back to the first when its time is
/// over, and the last one acts.
void Compiler::sequenceStates(const TriggerSyntax &syntax) {
  uint32_t first = uint32_t(program.states.size()), steps = uint32_t(syntax.steps.size());
  program.triggers[current].states = {first, steps};
  program.states.resize(first + steps);
  for (uint32_t i = 0; i < steps; ++i) {
    const StepSyntax &step = syntax.steps[i];
    uint32_t next = i + 1 < steps ? first + i + 1 : first;
    Rule seen = rule(step.rule, false), late;
    late.kind = Rule::Kind::After;
    late.where = step.where;
    late.next = first;
    if (step.within)
      ruleTime(*step.within, late.clock, late.amount);
    Rule &good = step.negated ? late : seen;
    if (step.negated) {
      std::swap(late.actions, seen.actions);
      seen.next = first;
    }
    good.next = next;
    if (i + 1 == steps)
      good.actions = block(syntax.sequenceActions);
    State &state = program.states[first + i];
    state.name = "step" + std::to_string(i + 1);
    state.where = step.where;
    state.rules = {uint32_t(program.rules.size()), 1};
    program.rules.push_back(seen);
    if (step.within) {
      program.rules.push_back(late);
      ++state.rules.count;
    }
  }
}

Range Compiler::block(const Block &block) {
  std::vector<Action> actions;
  statements(block, actions);
  Range range = {uint32_t(program.actions.size()), uint32_t(actions.size())};
  append_range(program.actions, actions);
  return range;
}

void Compiler::statements(const Block &block, std::vector<Action> &out) {
  for (const Statement &one : block)
    statement(one, out);
}

CaptureAmount Compiler::captureAmount(const Amount &amount) {
  CaptureAmount result;
  result.amount = amount.value;
  switch (amount.unit) {
  case Amount::Unit::Packets: break;
  case Amount::Unit::Nanoseconds: result.unit = CaptureUnit::Nanoseconds; break;
  case Amount::Unit::Windows: result.unit = CaptureUnit::Windows; break;
  case Amount::Unit::Bytes: result.unit = CaptureUnit::Bytes; break;
  case Amount::Unit::DeviceNanoseconds:
    diagnostics.error(amount.where, "captures are measured in the host's time", "leave out `device`");
    break;
  }
  return result;
}

std::optional<uint32_t> Compiler::triggerIndex(const Name &name) {
  std::vector<std::string> all;
  for (size_t i = 0; i < allTriggers->size(); ++i) {
    if ((*allTriggers)[i].name.text == name.text)
      return uint32_t(i);
    all.push_back((*allTriggers)[i].name.text);
  }
  diagnostics.error(name.where, "there is no trigger '" + name.text + "'",
                    suggestion(name.text, all, "triggers"));
  return std::nullopt;
}

void Compiler::assign(const Statement &statement, std::vector<Action> &out) {
  using Kind = DeclarationSyntax::Kind;
  Action action;
  action.op = ActionOp::Assign;
  action.where = statement.where;
  auto found = names.find(statement.name.text);
  if (found == names.end() || (found->second.kind != Kind::Counter && found->second.kind != Kind::Flag &&
                               found->second.kind != Kind::Variable)) {
    std::vector<std::string> all;
    for (const auto &entry : names)
      if (entry.second.kind <= Kind::Variable)
        all.push_back(entry.first().str());
    llvm::sort(all);
    diagnostics.error(statement.name.where, "'" + statement.name.text + "' cannot be assigned to",
                      suggestion(statement.name.text, all, "counters, flags and variables"));
    return;
  }
  Declared &name = found->second;
  ++name.writes;
  bool flag = name.kind == Kind::Flag;
  Typed value = flag ? condition(*statement.expression) : number(*statement.expression);
  // Compiling may have added names' uses, but never names: `found` still stands.
  if (!value.valid())
    return;
  if (statement.op != "=") {
    if (flag) {
      diagnostics.error(statement.where, "a flag is set to true or false");
      return;
    }
    (statement.op == "+=" ? name.grows : name.shrinks) = true;
    Node now, sum;
    now.op = NodeOp::Variable;
    now.a = name.index;
    now.where = sum.where = statement.where;
    sum.a = emit(now, {}).node;
    sum.b = value.node;
    sum.op = statement.op == "+=" ? NodeOp::Add : NodeOp::Subtract;
    value = emit(sum, {});
  } else {
    name.shrinks = true;
    if (name.kind == Kind::Counter && !value.isSigned && value.low > bitsBelow(name.bits)) {
      diagnostics.error(statement.where, "'" + statement.name.text + "' has " + std::to_string(name.bits) +
                                             " bits and cannot hold this");
      return;
    }
  }
  action.a = name.index;
  action.node = value.node;
  out.push_back(action);
}

void Compiler::statement(const Statement &s, std::vector<Action> &out) {
  using Kind = Statement::Kind;
  using Declares = DeclarationSyntax::Kind;
  Action action;
  action.where = s.where;
  auto use = [&](Declares kind, const char *what) {
    Declared *name = declared(s.name, kind, what);
    if (name) {
      ++name->writes;
      action.a = name->index;
    }
    return name != nullptr;
  };
  switch (s.kind) {
  case Kind::Assign: assign(s, out); return;
  case Kind::Put:
  case Kind::Remove: {
    action.op = s.kind == Kind::Put ? ActionOp::Put : ActionOp::Remove;
    bool good = use(Declares::Table, "table");
    Typed key = number(*s.key);
    Typed value = s.kind == Kind::Put ? number(*s.expression) : key;
    if (!good || !key.valid() || !value.valid())
      return;
    action.key = key.node;
    action.node = value.node;
    break;
  }
  case Kind::Clear: {
    auto found = names.find(s.name.text);
    bool statistic = found != names.end() && found->second.kind == Declares::Statistic;
    action.op = statistic ? ActionOp::ClearStatistic : ActionOp::ClearTable;
    if (!use(statistic ? Declares::Statistic : Declares::Table, "table or statistic"))
      return;
    break;
  }
  case Kind::Start:
  case Kind::StopTimer:
    action.op = s.kind == Kind::Start ? ActionOp::StartTimer : ActionOp::StopTimer;
    if (!use(Declares::Timer, "timer"))
      return;
    break;
  case Kind::Record: {
    action.op = ActionOp::Record;
    Typed value = number(*s.expression);
    if (!use(Declares::Statistic, "statistic") || !value.valid())
      return;
    action.node = value.node;
    break;
  }
  case Kind::If: {
    Typed holds = condition(*s.expression);
    if (!holds.valid())
      return;
    action.op = ActionOp::Unless;
    action.node = holds.node;
    std::vector<Action> then, otherwise;
    statements(s.then, then);
    statements(s.otherwise, otherwise);
    if (!otherwise.empty()) {
      Action skip;
      skip.op = ActionOp::Skip;
      skip.skip = uint32_t(otherwise.size());
      then.push_back(skip);
    }
    action.skip = uint32_t(then.size());
    out.push_back(action);
    append_range(out, then);
    append_range(out, otherwise);
    return;
  }
  case Kind::Capture:
    action.op = ActionOp::Capture;
    action.pre = captureAmount(s.pre);
    action.post = captureAmount(s.post);
    break;
  case Kind::Fire: {
    action.op = ActionOp::Fire;
    action.a = text(s.text);
    std::vector<uint32_t> values;
    for (const ExpressionPointer &value : s.values) {
      Typed typed = expression(*value);
      if (!typed.valid())
        return;
      values.push_back(typed.node);
    }
    action.firstValue = uint32_t(program.fireValues.size());
    action.valueCount = uint32_t(values.size());
    append_range(program.fireValues, values);
    break;
  }
  case Kind::Marker:
  case Kind::Exec:
    action.op = s.kind == Kind::Marker ? ActionOp::Marker : ActionOp::Exec;
    action.a = text(s.text);
    if (s.kind == Kind::Exec && !options.allowExec) {
      diagnostics.error(s.where, "commands are not allowed here", "only with --allow-exec");
      return;
    }
    break;
  case Kind::Stop: action.op = ActionOp::Stop; break;
  case Kind::Snapshot: action.op = ActionOp::Snapshot; break;
  case Kind::Raise:
    action.op = ActionOp::Raise;
    action.a = eventIndex(s.name.text);
    break;
  case Kind::Arm:
  case Kind::Disarm:
  case Kind::Rearm: {
    action.op = s.kind == Kind::Arm      ? ActionOp::Arm
                : s.kind == Kind::Disarm ? ActionOp::Disarm
                                         : ActionOp::Rearm;
    std::optional<uint32_t> which = s.name.text.empty() ? current : triggerIndex(s.name);
    if (!which)
      return;
    action.a = *which;
    break;
  }
  }
  out.push_back(action);
}

void Compiler::trigger(const TriggerSyntax &syntax) {
  names.clear();
  stateIndices.clear();
  device(syntax);
  declarations(syntax);
  Trigger &result = program.triggers[current];
  if (syntax.keep) {
    valueBits = 64;
    result.keep = condition(*syntax.keep).node;
  }
  std::vector<Rule> always;
  for (const RuleSyntax &one : syntax.always)
    always.push_back(rule(one, true));
  result.always = {uint32_t(program.rules.size()), uint32_t(always.size())};
  append_range(program.rules, always);
  states(syntax);
  checkTrigger(syntax);
}

Program Compiler::run(const std::vector<TriggerSyntax> &triggers) {
  allTriggers = &triggers;
  for (const CompileOptions::Device &device : options.devices)
    program.devices.push_back(device.description);
  program.triggers.resize(triggers.size());
  StringMap<uint32_t> seen;
  for (size_t i = 0; i < triggers.size(); ++i) {
    program.triggers[i].name = triggers[i].name.text;
    program.triggers[i].text = triggers[i].text;
    program.triggers[i].armed = !triggers[i].disarmed;
    if (!seen.try_emplace(triggers[i].name.text, 0).second)
      diagnostics.error(triggers[i].name.where, "there is a trigger '" + triggers[i].name.text + "' already");
  }
  for (size_t i = 0; i < triggers.size(); ++i) {
    current = uint32_t(i);
    trigger(triggers[i]);
  }
  checkProgram();
  return std::move(program);
}

Compilation compileTriggers(StringRef source, const CompileOptions &options) {
  Compilation result;
  Diagnostics diagnostics(source);
  if (source.size() > maxSourceBytes) {
    diagnostics.error({0, 0}, "a trigger file has at most 1 MiB");
    result.diagnostics = diagnostics.take();
    return result;
  }
  std::vector<TriggerSyntax> triggers = parseTriggers(source, diagnostics);
  if (triggers.empty() && !diagnostics.anyError())
    diagnostics.error({0, 0}, "there is no trigger in this file", "trigger NAME { when … { … } }");
  // A file that could not be parsed would give complaints about what is missing from the syntax only.
  if (!diagnostics.anyError()) {
    Program program = Compiler(source, options, diagnostics).run(triggers);
    if (!diagnostics.anyError())
      result.program = std::move(program);
  }
  result.diagnostics = diagnostics.take();
  return result;
}

Expected<Program> compileTriggersOrFail(StringRef source, StringRef name, const CompileOptions &options) {
  Compilation compilation = compileTriggers(source, options);
  if (!compilation.program)
    return diagnosticsFailure(compilation.diagnostics, name);
  return std::move(*compilation.program);
}

} // namespace tapeback::triggers
