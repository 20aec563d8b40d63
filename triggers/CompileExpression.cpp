#include "triggers/Compiler.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback::triggers {

Typed Compiler::emit(const Node &node, const Typed &like) {
  if (program.nodes.size() >= 1u << 20) {
    diagnostics.error(node.where, "the file has too many expressions");
    return {};
  }
  Typed result = like;
  program.nodes.push_back(node);
  program.nodes.back().isBool = like.isBool;
  result.node = uint32_t(program.nodes.size() - 1);
  return result;
}

Typed Compiler::constant(uint64_t value, SourceRange where, bool isSigned) {
  Node node;
  node.imm = value;
  node.where = where;
  Typed like;
  like.low = like.high = like.bits = value;
  like.isSigned = isSigned;
  return emit(node, like);
}

void Compiler::never(const Expression &e, const std::string &why) {
  diagnostics.error(e.where, "this can never hold: " + why);
}

Typed Compiler::expression(const Expression &e) {
  switch (e.kind) {
  case ExpressionKind::Number:
    if (e.masked) {
      diagnostics.error(e.where, "a pattern stands to the right of == or !=, or in a set");
      return {};
    }
    return constant(e.value, e.where);
  case ExpressionKind::Boolean: {
    Node node;
    node.imm = e.value;
    node.where = e.where;
    Typed like;
    like.isBool = true;
    return emit(node, like);
  }
  case ExpressionKind::Text:
    diagnostics.error(e.where, "a text is compared with `name` only",
                      "name == \"…\", or name starts(\"…\") as: starts(\"…\")");
    return {};
  case ExpressionKind::Name: return named(e);
  case ExpressionKind::Member: return member(e);
  case ExpressionKind::Call: return call(e);
  case ExpressionKind::Index: return index(e);
  case ExpressionKind::Unary: return unary(e);
  case ExpressionKind::Binary: return binary(e);
  case ExpressionKind::In: return membership(e);
  case ExpressionKind::Event: return event(e);
  }
  return {};
}

Typed Compiler::condition(const Expression &e) {
  Typed result = expression(e);
  if (result.valid() && !result.isBool) {
    diagnostics.error(e.where, "this is a number, where yes or no is needed", "compare it: … != 0");
    return {};
  }
  return result;
}

Typed Compiler::number(const Expression &e) {
  Typed result = expression(e);
  if (result.valid() && result.isBool) {
    diagnostics.error(e.where, "this is yes or no, where a number is needed");
    return {};
  }
  return result;
}

Typed Compiler::unary(const Expression &e) {
  Node node;
  node.where = e.where;
  if (e.text == "!") {
    Typed operand = condition(*e.arguments[0]);
    if (!operand.valid())
      return {};
    node.op = NodeOp::Not;
    node.a = operand.node;
    return emit(node, operand);
  }
  Typed operand = number(*e.arguments[0]);
  if (!operand.valid())
    return {};
  bool negates = e.text == "-";
  if (operand.constant())
    return constant(negates ? -operand.low : ~operand.low, e.where, negates);
  node.op = negates ? NodeOp::Negate : NodeOp::BitNot;
  node.a = operand.node;
  Typed like;
  like.isSigned = negates;
  return emit(node, like);
}

Typed Compiler::binary(const Expression &e) {
  if (e.text == "&&" || e.text == "||")
    return logical(e);
  static constexpr StringLiteral comparisons[] = {"==", "!=", "<", "<=", ">", ">="};
  if (is_contained(comparisons, e.text))
    return comparison(e);
  return arithmetic(e);
}

Typed Compiler::logical(const Expression &e) {
  bool conjunction = e.text == "&&";
  unsigned bitsBefore = valueBits;
  Typed left = condition(*e.arguments[0]);
  // Behind an event, what `value` can be is known. Alternatives know nothing of each other.
  if (!conjunction)
    valueBits = bitsBefore;
  Typed right = condition(*e.arguments[1]);
  if (!conjunction)
    valueBits = bitsBefore;
  if (!left.valid() || !right.valid())
    return {};
  Node node;
  node.op = conjunction ? NodeOp::And : NodeOp::Or;
  node.a = left.node;
  node.b = right.node;
  node.where = e.where;
  Typed like;
  like.isBool = true;
  return emit(node, like);
}

/// Words that mean a number beside a certain field: completion == timed-out.
std::optional<uint64_t> Compiler::enumerator(const Expression &subject, const Expression &word) {
  struct Enumerator {
    const char *field, *word;
    uint64_t value;
  };
  static constexpr Enumerator all[] = {{"completion", "done", uint64_t(Completion::Done)},
                                       {"completion", "pending", uint64_t(Completion::Pending)},
                                       {"completion", "failed", uint64_t(Completion::Failed)},
                                       {"completion", "timed-out", uint64_t(Completion::TimedOut)},
                                       {"origin", "program", uint64_t(Origin::Program)},
                                       {"origin", "recorder", uint64_t(Origin::Recorder)},
                                       {"origin", "imported", uint64_t(Origin::Imported)}};
  if (subject.kind != ExpressionKind::Name || word.kind != ExpressionKind::Name)
    return std::nullopt;
  for (const Enumerator &candidate : all)
    if (subject.text == candidate.field && word.text == candidate.word)
      return candidate.value;
  const Description *known = description();
  if (subject.text == "queue" && known)
    for (size_t i = 0; i < known->queues.size(); ++i)
      if (known->queues[i].name == word.text)
        return i;
  if (subject.text == "vector" && known)
    for (const InterruptDescription &interrupt : known->interrupts)
      if (interrupt.name == word.text)
        return interrupt.vector;
  return std::nullopt;
}

Typed Compiler::operandOf(const Expression &e, const Expression &other) {
  if (std::optional<uint64_t> value = enumerator(other, e))
    return constant(*value, e.where);
  return number(e);
}

Typed Compiler::comparison(const Expression &e) {
  const Expression &leftSide = *e.arguments[0], &rightSide = *e.arguments[1];
  bool equality = e.text == "==" || e.text == "!=";
  Node node;
  node.where = e.where;
  Typed like;
  like.isBool = true;
  if (rightSide.kind == ExpressionKind::Text) {
    if (leftSide.kind != ExpressionKind::Name || leftSide.text != "name" || !equality) {
      diagnostics.error(e.where, "a text is compared with `name` only, by == or !=");
      return {};
    }
    node.op = NodeOp::NameIs;
    node.imm = anyKind;
    node.a = text(rightSide.text);
    Typed is = emit(node, like);
    if (e.text == "==")
      return is;
    node.op = NodeOp::Not;
    node.a = is.node;
    return emit(node, like);
  }
  uint64_t mask = ~uint64_t(0);
  Typed left = operandOf(leftSide, rightSide), right;
  if (rightSide.kind == ExpressionKind::Number && rightSide.masked && equality) {
    mask = rightSide.mask;
    right = constant(rightSide.value, rightSide.where);
  } else {
    right = operandOf(rightSide, leftSide);
  }
  if (!left.valid() || !right.valid())
    return {};
  bool isSigned = left.isSigned || right.isSigned;
  bool swapped = e.text == ">" || e.text == ">=";
  node.isSigned = isSigned;
  node.op = e.text == "=="                   ? NodeOp::Equal
            : e.text == "!="                 ? NodeOp::NotEqual
            : e.text == "<" || e.text == ">" ? NodeOp::Less
                                             : NodeOp::LessEqual;
  node.a = swapped ? right.node : left.node;
  node.b = swapped ? left.node : right.node;
  node.imm = mask;
  if (!isSigned) {
    auto most = [&](const Typed &t) { return "0x" + utohexstr(std::min(t.high, t.bits), true); };
    const Typed &low = swapped ? right : left, &high = swapped ? left : right;
    bool impossible = false, certain = false;
    if (equality) {
      // Bits that the one side must have and the other cannot.
      bool apart = (right.constant() && (right.low & mask & ~left.bits)) ||
                   (left.constant() && (left.low & mask & ~right.bits)) ||
                   (mask == ~uint64_t(0) && (left.low > right.high || left.high < right.low));
      (e.text == "==" ? impossible : certain) = apart;
    } else if (node.op == NodeOp::Less) {
      impossible = low.low >= std::min(high.high, high.bits);
      certain = std::min(low.high, low.bits) < high.low;
    } else {
      impossible = low.low > std::min(high.high, high.bits);
      certain = std::min(low.high, low.bits) <= high.low;
    }
    if (left.constant() && right.constant())
      diagnostics.warning(e.where, "both sides are constants");
    else if (impossible)
      never(e, program.sourceOf((left.constant() ? rightSide : leftSide).where).str() + " is at most " +
                   most(left.constant() ? right : left));
    else if (certain)
      diagnostics.warning(e.where, "this always holds");
  }
  return emit(node, like);
}

Typed Compiler::arithmetic(const Expression &e) {
  Typed left = number(*e.arguments[0]), right = number(*e.arguments[1]);
  if (!left.valid() || !right.valid())
    return {};
  Node node;
  node.where = e.where;
  node.a = left.node;
  node.b = right.node;
  Typed like;
  like.isSigned = node.isSigned = left.isSigned || right.isSigned;
  char op = e.text[0];
  bool known = left.constant() && right.constant() && !like.isSigned;
  uint64_t a = left.low, b = right.low, folded = 0;
  switch (op) {
  case '+':
    node.op = NodeOp::Add;
    folded = a + b;
    if (left.high + right.high >= left.high) {
      like.low = left.low + right.low;
      like.high = left.high + right.high;
    }
    break;
  case '-':
    node.op = NodeOp::Subtract;
    folded = a - b;
    break;
  case '*':
    node.op = NodeOp::Multiply;
    folded = a * b;
    break;
  case '/':
    node.op = NodeOp::Divide;
    folded = b ? a / b : 0;
    if (!like.isSigned)
      like.high = right.low ? left.high / right.low : left.high;
    break;
  case '%':
    node.op = NodeOp::Modulo;
    folded = b ? a % b : 0;
    if (!like.isSigned && right.low)
      like.high = right.high - 1;
    break;
  case '&':
    node.op = NodeOp::BitAnd;
    folded = a & b;
    like.bits = left.bits & right.bits;
    like.high = std::min({left.high, right.high, like.bits});
    like.isSigned = false;
    break;
  case '|':
    node.op = NodeOp::BitOr;
    folded = a | b;
    like.bits = left.bits | right.bits;
    like.high = like.bits;
    break;
  case '^':
    node.op = NodeOp::BitXor;
    folded = a ^ b;
    like.bits = left.bits | right.bits;
    like.high = like.bits;
    break;
  case '<':
    node.op = NodeOp::ShiftLeft;
    folded = b < 64 ? a << b : 0;
    break;
  default:
    node.op = NodeOp::ShiftRight;
    folded = b < 64 ? a >> b : 0;
    if (!like.isSigned)
      like.high = right.constant() && b < 64 ? left.high >> b : left.high;
    break;
  }
  if ((op == '/' || op == '%') && right.constant() && right.low == 0) {
    diagnostics.error(e.where, "this divides by zero");
    return {};
  }
  if (known)
    return constant(folded, e.where);
  return emit(node, like);
}

Typed Compiler::membership(const Expression &e) {
  const Expression &subject = *e.arguments[0];
  Typed value = number(subject);
  Node node;
  node.op = NodeOp::In;
  node.where = e.where;
  node.a = value.node;
  node.b = uint32_t(program.sets.size());
  bool possible = false, bad = !value.valid();
  for (const SetItem &item : e.items) {
    SetRange range;
    range.isSigned = value.isSigned;
    if (item.first->kind == ExpressionKind::Number && item.first->masked) {
      range.pattern = true;
      range.first = item.first->value;
      range.mask = item.first->mask;
      if (item.last) {
        diagnostics.error(item.first->where, "a pattern is no end of a range");
        bad = true;
      }
      possible |= value.isSigned || !(range.first & range.mask & ~value.bits);
    } else {
      Typed first = operandOf(*item.first, subject);
      Typed last = item.last ? operandOf(*item.last, subject) : first;
      bad |= !first.valid() || !last.valid();
      if (bad)
        continue;
      if (!first.constant() || !last.constant()) {
        diagnostics.error(item.first->where, "the elements of a set are constants");
        bad = true;
      }
      range.first = first.low;
      range.last = last.low;
      range.isSigned |= first.isSigned || last.isSigned;
      bool backward = range.isSigned ? int64_t(range.first) > int64_t(range.last) : range.first > range.last;
      if (backward) {
        diagnostics.error(item.first->where, "this range ends before it begins");
        bad = true;
      }
      possible |=
          range.isSigned || (range.first <= std::min(value.high, value.bits) && range.last >= value.low);
    }
    program.sets.push_back(range);
  }
  if (bad)
    return {};
  node.imm = program.sets.size() - node.b;
  if (!possible)
    never(e, program.sourceOf(subject.where).str() + " is at most 0x" +
                 utohexstr(std::min(value.high, value.bits), true));
  Typed like;
  like.isBool = true;
  return emit(node, like);
}

} // namespace tapeback::triggers
