#include "triggers/Parser.h"

using namespace llvm;

namespace tapeback::triggers {
namespace {

class FileParser : ExpressionParser {
public:
  using ExpressionParser::ExpressionParser;

  std::vector<TriggerSyntax> run() {
    std::vector<TriggerSyntax> triggers;
    while (peek().kind != TokenKind::End) {
      if (!atWord("trigger") && !atWord("disarmed"))
        fail("expected 'trigger', found " + here(), "a file is a list of: trigger NAME { … }");
      else if (triggers.size() >= 1024)
        fail("a file has at most 1024 triggers");
      else
        triggers.push_back(trigger());
      if (failed)
        skipToTrigger();
    }
    return triggers;
  }

private:
  static constexpr unsigned maxStates = 256, maxRules = 256, maxStatements = 256, maxDeclarations = 256;

  /// A trigger's beginning stands at the start of a line in every file that people write; inside of one the
  /// word cannot stand.
  void skipToTrigger() {
    failed = false;
    nesting = 0;
    if (peek().kind != TokenKind::End)
      ++at;
    while (peek().kind != TokenKind::End && !atWord("trigger") && !atWord("disarmed"))
      ++at;
  }

  template <typename T>
  void add(std::vector<T> &list, T item, unsigned most, const char *what) {
    if (list.size() >= most)
      fail(("at most " + Twine(most) + " " + what).str());
    else if (!failed)
      list.push_back(std::move(item));
  }

  TriggerSyntax trigger() {
    TriggerSyntax result;
    result.disarmed = takeWord("disarmed");
    if (!takeWord("trigger"))
      fail("expected 'trigger' after 'disarmed'");
    result.name = expectName("the trigger's name");
    if (peek().kind == TokenKind::Text)
      result.text = expectText("a text");
    expectSymbol("{", "after the trigger's name");
    while (!failed && !takeSymbol("}"))
      item(result);
    return result;
  }

  void item(TriggerSyntax &trigger) {
    using Kind = DeclarationSyntax::Kind;
    SourceRange where = peek().where;
    if (takeWord("counter"))
      declare(trigger, Kind::Counter);
    else if (takeWord("flag"))
      declare(trigger, Kind::Flag);
    else if (takeWord("var"))
      declare(trigger, Kind::Variable);
    else if (takeWord("timer"))
      declare(trigger, Kind::Timer);
    else if (takeWord("table"))
      declare(trigger, Kind::Table);
    else if (takeWord("stat"))
      declare(trigger, Kind::Statistic);
    else if (takeWord("const"))
      declare(trigger, Kind::Constant);
    else if (takeWord("device"))
      device(trigger);
    else if (takeWord("keep"))
      keep(trigger, where);
    else if (takeWord("always"))
      rules(trigger.always);
    else if (takeWord("state"))
      state(trigger);
    else if (takeWord("sequence"))
      sequence(trigger, where);
    else if (atWord("when") || atWord("after"))
      add(trigger.rules, rule(), maxRules, "rules in a state");
    else
      fail("expected a declaration, a rule or a state, found " + here(),
           suggestion(peek().text,
                      {"counter", "flag", "var", "timer", "table", "stat", "const", "device", "keep",
                       "always", "state", "sequence", "when", "after"},
                      "a trigger has"));
  }

  void declare(TriggerSyntax &trigger, DeclarationSyntax::Kind kind) {
    using Kind = DeclarationSyntax::Kind;
    DeclarationSyntax result{kind, expectName("a name"), 0, nullptr};
    if (kind == Kind::Counter) {
      result.size = 64;
      if (takeSymbol(":"))
        result.size = expectNumber("the counter's width in bits");
      if (result.size < 1 || result.size > 64)
        failAt(result.name.where, "a counter has 1 to 64 bits");
    } else if (kind == Kind::Flag && takeSymbol("=")) {
      result.size = atWord("true");
      if (!takeWord("true") && !takeWord("false"))
        fail("expected true or false, found " + here());
    } else if (kind == Kind::Table) {
      expectSymbol("[", "and the number of entries");
      result.size = expectNumber("the number of entries");
      if (result.size < 1 || result.size > 65536)
        failAt(result.name.where, "a table has 1 to 65536 entries");
      expectSymbol("]", "behind the number of entries");
    } else if (kind == Kind::Constant) {
      expectSymbol("=", "and the constant's value");
      result.value = expression();
    }
    expectSymbol(";", "at the end of the declaration");
    add(trigger.declarations, std::move(result), maxDeclarations, "declarations in a trigger");
  }

  void device(TriggerSyntax &trigger) {
    if (trigger.device)
      fail("a trigger is about one device");
    if (peek().kind != TokenKind::Number && peek().kind != TokenKind::Text)
      fail("expected the device's number, or its name in double quotes, found " + here());
    if (!failed)
      trigger.device = tokens[at++];
    expectSymbol(";", "behind the device");
  }

  void keep(TriggerSyntax &trigger, SourceRange where) {
    if (trigger.keep)
      failAt(where, "a trigger has one `keep`", "join conditions with ||");
    trigger.keep = expression();
    expectSymbol(";", "behind the condition");
  }

  void rules(std::vector<RuleSyntax> &list) {
    expectSymbol("{", "before the rules");
    while (!failed && !takeSymbol("}"))
      add(list, rule(), maxRules, "rules in a state");
  }

  void state(TriggerSyntax &trigger) {
    StateSyntax result;
    result.name = expectName("the state's name");
    expectSymbol("{", "after the state's name");
    if (takeWord("entry"))
      result.entry = block();
    while (!failed && !takeSymbol("}"))
      add(result.rules, rule(), maxRules, "rules in a state");
    add(trigger.states, std::move(result), maxStates, "states in a trigger");
  }

  void modifiers(RuleSyntax &rule) {
    while (!failed) {
      if (takeWord("count")) {
        rule.count = expectNumber("how often");
        if (!rule.count)
          fail("occurrences count from 1");
      } else if (takeWord("rate")) {
        rule.rate = expectNumber("how many");
        if (rule.rate < 2 || rule.rate > 65536)
          fail("a rate counts 2 to 65536 occurrences");
        if (!takeWord("in"))
          fail("expected 'in' and a time or a number of packets, found " + here());
        rule.rateIn = expectAmount("a time or a number of packets");
      } else if (takeWord("holdoff")) {
        rule.holdoff = expectAmount("a time or a number of packets");
      } else {
        return;
      }
    }
  }

  RuleSyntax rule() {
    RuleSyntax result;
    result.where = peek().where;
    if (takeWord("when")) {
      result.condition = expression();
      modifiers(result);
    } else if (takeWord("after")) {
      result.after = expectAmount("a time or a number of packets");
      if (takeWord("of"))
        result.of = expectName("a timer or a table");
    } else {
      fail("expected 'when' or 'after', found " + here());
    }
    if (!failed && atSymbol("{"))
      result.actions = block();
    else if (!failed && !atSymbol("->"))
      fail("expected '{' and what to do, or '->' and a state, found " + here());
    if (takeSymbol("->")) {
      result.next = expectName("a state's name");
      expectSymbol(";", "behind the state");
    }
    return result;
  }

  void sequence(TriggerSyntax &trigger, SourceRange where) {
    if (!trigger.steps.empty())
      failAt(where, "a trigger has one sequence");
    trigger.sequenceWhere = where;
    while (!failed && (trigger.steps.empty() || takeWord("then"))) {
      StepSyntax step;
      step.where = peek().where;
      step.negated = takeWord("not");
      if (takeWord("within"))
        step.within = expectAmount("a time or a number of packets");
      else if (step.negated)
        fail("expected 'within' after 'not', found " + here());
      else
        takeWord("eventually");
      step.rule.where = step.where;
      step.rule.condition = expression();
      modifiers(step.rule);
      // The last block belongs to the whole sequence.
      if (atSymbol("{")) {
        Block actions = block();
        if (atWord("then"))
          step.rule.actions = std::move(actions);
        else
          trigger.sequenceActions = std::move(actions);
      } else if (!failed && !atWord("then")) {
        fail("expected 'then' and the next step, or '{' and what to do, found " + here());
      }
      if (step.within && trigger.steps.empty())
        failAt(step.where, "the first step has nothing to be within of");
      add(trigger.steps, std::move(step), maxStates, "steps in a sequence");
    }
  }

  Block block() {
    Block result;
    expectSymbol("{", "before what to do");
    if (++nesting > 16)
      fail("blocks are nested too deeply");
    while (!failed && !takeSymbol("}"))
      add(result, statement(), maxStatements, "statements in a block");
    --nesting;
    return result;
  }

  void captureAmounts(Statement &result) {
    bool any = false;
    for (bool pre : {true, false})
      if (takeWord(pre ? "pre" : "post")) {
        (pre ? result.pre : result.post) = expectAmount("how much");
        any = true;
      }
    if (!any)
      fail("expected 'pre' or 'post', found " + here(), "capture pre 100 packets post 20 packets;");
  }

  Statement statement() {
    using Kind = Statement::Kind;
    Statement result;
    result.where = peek().where;
    if (takeWord("if")) {
      result.kind = Kind::If;
      result.expression = expression();
      result.then = block();
      if (takeWord("else"))
        result.otherwise = block();
      return result;
    }
    if (takeWord("capture")) {
      result.kind = Kind::Capture;
      captureAmounts(result);
    } else if (takeWord("fire")) {
      result.kind = Kind::Fire;
      result.text = expectText("what to say");
      while (takeSymbol(",") && result.values.size() < 4)
        result.values.push_back(expression());
    } else if (takeWord("marker")) {
      result.kind = Kind::Marker;
      result.text = expectText("the marker's name");
    } else if (takeWord("exec")) {
      result.kind = Kind::Exec;
      result.text = expectText("the command");
    } else if (takeWord("snapshot")) {
      result.kind = Kind::Snapshot;
    } else if (takeWord("raise")) {
      result.kind = Kind::Raise;
      result.name = expectName("the event's name");
    } else if (takeWord("record")) {
      result.kind = Kind::Record;
      result.name = expectName("a statistic");
      result.expression = expression();
    } else if (takeWord("remove")) {
      result.kind = Kind::Remove;
      result.name = expectName("a table");
      key(result);
    } else {
      named(result);
    }
    expectSymbol(";", "at the end of the statement");
    return result;
  }

  void key(Statement &statement) {
    expectSymbol("[", "and the key");
    statement.key = expression();
    expectSymbol("]", "behind the key");
  }

  /// Words with a name behind them, and assignments.
  void named(Statement &result) {
    using Kind = Statement::Kind;
    struct Verb {
      const char *word;
      Kind kind;
    };
    static constexpr Verb verbs[] = {{"start", Kind::Start},   {"stop", Kind::StopTimer},
                                     {"clear", Kind::Clear},   {"arm", Kind::Arm},
                                     {"disarm", Kind::Disarm}, {"rearm", Kind::Rearm}};
    bool assigns = peek(1).kind == TokenKind::Symbol && peek(1).text != ";";
    for (const Verb &verb : verbs)
      if (!assigns && takeWord(verb.word)) {
        result.kind = verb.kind;
        bool optional = verb.kind == Kind::StopTimer || verb.kind == Kind::Disarm || verb.kind == Kind::Rearm;
        if (optional && atSymbol(";")) {
          if (verb.kind == Kind::StopTimer)
            result.kind = Kind::Stop;
          return;
        }
        result.name = expectName("a name");
        return;
      }
    if (peek().kind != TokenKind::Word || !assigns) {
      fail("expected a statement, found " + here(),
           suggestion(peek().text,
                      {"capture", "fire", "marker", "stop", "snapshot", "raise", "exec", "arm", "disarm",
                       "rearm", "record", "remove", "clear", "start", "if"},
                      "statements"));
      return;
    }
    result.name = expectName("a name");
    result.kind = Kind::Assign;
    if (atSymbol("[")) {
      result.kind = Kind::Put;
      key(result);
    }
    result.op = "=";
    if (result.kind == Kind::Assign && (atSymbol("+=") || atSymbol("-=")))
      result.op = tokens[at++].text;
    else
      expectSymbol("=", "and the value");
    result.expression = expression();
  }
};

} // namespace

std::vector<TriggerSyntax> parseTriggers(StringRef text, Diagnostics &diagnostics) {
  return FileParser(tokenise(text, diagnostics), diagnostics).run();
}

} // namespace tapeback::triggers
