#include "format/Packet.h"
#include "triggers/Parser.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace tapeback::triggers {

bool isEventWord(StringRef word) {
  for (unsigned kind = 0; kind < packetKindCount; ++kind)
    if (word == packetKindName(PacketKind(kind)))
      return true;
  return word == "read" || word == "write" || word == "access" || word == "raised";
}

bool isReservedWord(StringRef word) {
  static constexpr StringLiteral words[] = {"count",  "rate", "holdoff", "in",  "then",
                                            "within", "when", "after",   "not", "eventually"};
  return is_contained(words, word);
}

std::string ExpressionParser::here() const {
  const Token &token = peek();
  switch (token.kind) {
  case TokenKind::End: return "the end of the file";
  case TokenKind::Text: return "a text";
  case TokenKind::Number: return "a number";
  default: return "'" + token.text + "'";
  }
}

void ExpressionParser::failAt(SourceRange where, const std::string &message, const std::string &hint) {
  if (!failed && peek().kind != TokenKind::Bad)
    diagnostics.error(where, message, hint);
  failed = true;
}

void ExpressionParser::fail(const std::string &message, const std::string &hint) {
  failAt(peek().where, message, hint);
}

void ExpressionParser::expectSymbol(StringRef symbol, StringRef why) {
  if (!takeSymbol(symbol))
    fail(("expected '" + symbol + "' " + why + ", found " + here()).str());
}

Name ExpressionParser::expectName(StringRef what) {
  Name name;
  if (failed)
    return name;
  if (peek().kind != TokenKind::Word) {
    fail(("expected " + what + ", found " + here()).str());
    return name;
  }
  name = {peek().text, peek().where};
  ++at;
  return name;
}

uint64_t ExpressionParser::expectNumber(StringRef what) {
  if (failed)
    return 0;
  if (peek().kind != TokenKind::Number || peek().masked) {
    fail(("expected " + what + ", found " + here()).str());
    return 0;
  }
  return tokens[at++].value;
}

std::string ExpressionParser::expectText(StringRef what) {
  if (failed)
    return {};
  if (peek().kind != TokenKind::Text) {
    fail(("expected " + what + " in double quotes, found " + here()).str());
    return {};
  }
  return tokens[at++].text;
}

static uint64_t nanosecondsOf(StringRef unit) {
  return unit == "ns" ? 1 : unit == "us" ? 1000 : unit == "ms" ? 1'000'000 : unit == "s" ? 1'000'000'000 : 0;
}

Amount ExpressionParser::expectAmount(StringRef what) {
  Amount amount;
  amount.where = peek().where;
  amount.value = expectNumber(what);
  if (failed)
    return amount;
  StringRef unit = peek().kind == TokenKind::Word ? StringRef(peek().text) : StringRef();
  if (uint64_t scale = nanosecondsOf(unit)) {
    amount.unit = Amount::Unit::Nanoseconds;
    if (amount.value > (~uint64_t(0) >> 2) / scale)
      failAt(amount.where, "this time is longer than 146 years");
    amount.value *= scale;
    ++at;
    if (takeWord("device"))
      amount.unit = Amount::Unit::DeviceNanoseconds;
  } else if (unit == "windows" || unit == "window") {
    amount.unit = Amount::Unit::Windows;
    ++at;
  } else if (unit == "bytes" || unit == "byte") {
    amount.unit = Amount::Unit::Bytes;
    ++at;
  } else if (unit == "packets" || unit == "packet") {
    ++at;
  } else {
    fail("expected a unit, found " + here(), "units: ns, us, ms, s, packets, windows, bytes");
  }
  return amount;
}

ExpressionPointer ExpressionParser::make(ExpressionKind kind, SourceRange where) {
  auto result = std::make_unique<Expression>();
  result->kind = kind;
  result->where = where;
  return result;
}

/// Depth is what evaluating costs in stack: it has a bound.
bool ExpressionParser::deepens(Expression &parent) {
  for (const ExpressionPointer &argument : parent.arguments)
    if (argument)
      parent.depth = std::max(parent.depth, argument->depth + 1);
  if (parent.depth <= maxDepth)
    return true;
  failAt(parent.where, "this expression is nested too deeply", "use a variable for a part of it");
  return false;
}

static SourceRange joined(SourceRange a, SourceRange b) {
  return {a.offset, b.offset + b.length - a.offset};
}

ExpressionPointer ExpressionParser::join(ExpressionPointer left, const std::string &op,
                                         ExpressionPointer right) {
  if (!left || !right)
    return nullptr;
  ExpressionPointer result = make(ExpressionKind::Binary, joined(left->where, right->where));
  result->text = op;
  result->arguments.push_back(std::move(left));
  result->arguments.push_back(std::move(right));
  return deepens(*result) ? std::move(result) : nullptr;
}

namespace {
/// Operators by how loosely they bind. Comparisons stand between `&&` and `|`: `x & 3 == 1` means what it
/// says.
constexpr unsigned comparisonLevel = 2, levels = 8;
constexpr StringLiteral operators[levels][2] = {{"||", "||"}, {"&&", "&&"}, {"", ""},     {"|", "|"},
                                                {"^", "^"},   {"&", "&"},   {"<<", ">>"}, {"+", "-"}};
} // namespace

ExpressionPointer ExpressionParser::expression() {
  if (failed)
    return nullptr;
  if (++nesting > maxDepth) {
    fail("this expression is nested too deeply");
    return nullptr;
  }
  ExpressionPointer result = binary(0);
  --nesting;
  return result;
}

ExpressionPointer ExpressionParser::binary(unsigned level) {
  if (level == comparisonLevel)
    return comparison();
  auto next = [&]() -> ExpressionPointer {
    if (level + 1 < levels)
      return binary(level + 1);
    // The tightest: * / %
    ExpressionPointer left = unary();
    while (left && (atSymbol("*") || atSymbol("/") || atSymbol("%"))) {
      std::string op = tokens[at++].text;
      left = join(std::move(left), op, unary());
    }
    return left;
  };
  ExpressionPointer left = next();
  while (left && !failed && peek().kind == TokenKind::Symbol && is_contained(operators[level], peek().text)) {
    std::string op = tokens[at++].text;
    left = join(std::move(left), op, next());
  }
  return left;
}

ExpressionPointer ExpressionParser::comparison() {
  static constexpr StringLiteral symbols[] = {"==", "!=", "<=", ">=", "<", ">"};
  ExpressionPointer left = binary(comparisonLevel + 1);
  if (!left || failed)
    return nullptr;
  if (takeWord("in"))
    return set(std::move(left));
  if (peek().kind == TokenKind::Symbol && is_contained(symbols, peek().text)) {
    std::string op = tokens[at++].text;
    left = join(std::move(left), op, binary(comparisonLevel + 1));
    if (left && peek().kind == TokenKind::Symbol && is_contained(symbols, peek().text))
      fail("comparisons do not chain", "write a < b && b < c");
  } else if (atSymbol("=")) {
    fail("'=' assigns and does not compare", "write ==");
  }
  return failed ? nullptr : std::move(left);
}

ExpressionPointer ExpressionParser::set(ExpressionPointer subject) {
  ExpressionPointer result = make(ExpressionKind::In, subject->where);
  bool braces = takeSymbol("{");
  do {
    SetItem item;
    item.first = binary(comparisonLevel + 1);
    if (takeSymbol(".."))
      item.last = binary(comparisonLevel + 1);
    if (result->items.size() >= 256)
      fail("a set has at most 256 elements");
    if (failed || !item.first)
      return nullptr;
    result->items.push_back(std::move(item));
  } while (braces && takeSymbol(","));
  if (braces)
    expectSymbol("}", "at the end of the set");
  result->where = joined(subject->where, tokens[at - 1].where);
  result->arguments.push_back(std::move(subject));
  return deepens(*result) && !failed ? std::move(result) : nullptr;
}

ExpressionPointer ExpressionParser::unary() {
  if (failed)
    return nullptr;
  if (atSymbol("!") || atSymbol("-") || atSymbol("~")) {
    SourceRange where = peek().where;
    std::string op = tokens[at++].text;
    if (++nesting > maxDepth) {
      fail("this expression is nested too deeply");
      return nullptr;
    }
    ExpressionPointer operand = unary();
    --nesting;
    if (!operand)
      return nullptr;
    ExpressionPointer result = make(ExpressionKind::Unary, joined(where, operand->where));
    result->text = op;
    result->arguments.push_back(std::move(operand));
    return deepens(*result) ? std::move(result) : nullptr;
  }
  return primary();
}

ExpressionPointer ExpressionParser::primary() {
  const Token &token = peek();
  switch (token.kind) {
  case TokenKind::Number: return number();
  case TokenKind::Text: {
    ExpressionPointer result = make(ExpressionKind::Text, token.where);
    result->text = token.text;
    ++at;
    return result;
  }
  case TokenKind::Word:
    if (token.text == "true" || token.text == "false") {
      ExpressionPointer result = make(ExpressionKind::Boolean, token.where);
      result->value = token.text == "true";
      ++at;
      return result;
    }
    if (token.text == "not") {
      fail("'not' stands before a `within` of a sequence only", "write !");
      return nullptr;
    }
    return isEventWord(token.text) ? event() : named();
  case TokenKind::Symbol:
    if (takeSymbol("(")) {
      ExpressionPointer inner = expression();
      expectSymbol(")", "to close the parenthesis");
      return failed ? nullptr : std::move(inner);
    }
    [[fallthrough]];
  default: fail("expected a value or an event, found " + here()); return nullptr;
  }
}

ExpressionPointer ExpressionParser::number() {
  ExpressionPointer result = make(ExpressionKind::Number, peek().where);
  result->value = peek().value;
  result->mask = peek().mask;
  result->masked = peek().masked;
  ++at;
  if (peek().kind == TokenKind::Word)
    if (uint64_t scale = nanosecondsOf(peek().text)) {
      if (result->masked || result->value > ~uint64_t(0) / scale) {
        fail("this is no time");
        return nullptr;
      }
      result->value *= scale;
      result->duration = true;
      result->where = joined(result->where, peek().where);
      ++at;
    }
  return result;
}

ExpressionPointer ExpressionParser::event() {
  ExpressionPointer result = make(ExpressionKind::Event, peek().where);
  result->text = tokens[at++].text;
  EventOperand &operand = result->operand;
  if (peek().kind == TokenKind::Word && !isReservedWord(peek().text)) {
    operand.kind = EventOperand::Kind::Name;
    operand.name = expectName("a name");
    if (takeSymbol("+")) {
      operand.kind = EventOperand::Kind::Place;
      operand.offset = expectNumber("an offset in that space");
    }
  } else if (peek().kind == TokenKind::Text) {
    operand.kind = EventOperand::Kind::Text;
    operand.name = {peek().text, peek().where};
    ++at;
  } else if (takeSymbol("[")) {
    operand.kind = EventOperand::Kind::Selector;
    operand.name = expectName("a register class or replay policy");
    expectSymbol("]", "behind it");
  }
  result->where = joined(result->where, tokens[at - 1].where);
  return failed ? nullptr : std::move(result);
}

ExpressionPointer ExpressionParser::named() {
  ExpressionPointer result = make(ExpressionKind::Name, peek().where);
  result->text = tokens[at++].text;
  if (takeSymbol(".")) {
    result->kind = ExpressionKind::Member;
    result->member = expectName("a field's name");
  } else if (takeSymbol("(")) {
    result->kind = ExpressionKind::Call;
    if (!takeSymbol(")")) {
      do
        result->arguments.push_back(expression());
      while (result->arguments.size() < 8 && takeSymbol(","));
      expectSymbol(")", "behind the arguments");
    }
  } else if (takeSymbol("[")) {
    result->kind = ExpressionKind::Index;
    result->arguments.push_back(expression());
    expectSymbol("]", "behind the key");
  }
  if (failed)
    return nullptr;
  result->where = joined(result->where, tokens[at - 1].where);
  return deepens(*result) ? std::move(result) : nullptr;
}

} // namespace tapeback::triggers
