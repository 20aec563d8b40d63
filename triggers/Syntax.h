// A trigger file as written: what the parser makes and the compiler reads. Names are not resolved yet.
#pragma once

#include "triggers/Lexer.h"
#include <memory>
#include <optional>

namespace tapeback::triggers {

struct Name {
  std::string text;
  SourceRange where;
};

enum class ExpressionKind : uint8_t {
  Number, ///< value; mask if it is a pattern.
  Boolean,
  Text,
  Name,   ///< text
  Member, ///< text "." member
  Call,   ///< text "(" arguments ")"
  Index,  ///< text "[" arguments[0] "]"
  Unary,  ///< op arguments[0]
  Binary, ///< arguments[0] op arguments[1]
  In,     ///< arguments[0] in ranges
  Event   ///< text is the kind or verb; `operand` what it is about
};

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

/// One element of `in {…}`: first..last, or only first (a number or a pattern).
struct SetItem {
  ExpressionPointer first, last;
};

/// What an event is about: a register, a place in a space, registers of a class or policy, a text.
struct EventOperand {
  enum class Kind : uint8_t { None, Name, Place, Selector, Text } kind = Kind::None;
  Name name;           ///< Register, space, class or policy, text.
  uint64_t offset = 0; ///< Place.
};

struct Expression {
  ExpressionKind kind = ExpressionKind::Number;
  SourceRange where;
  std::string text; ///< Operator, name, text, function, event.
  Name member;
  uint64_t value = 0, mask = ~uint64_t(0);
  bool masked = false, duration = false;
  unsigned depth = 1;
  std::vector<ExpressionPointer> arguments;
  std::vector<SetItem> items;
  EventOperand operand;
};

/// An amount with its unit: 5 ms, 100 packets, 2 windows, 4096 bytes, 5 us device.
struct Amount {
  enum class Unit : uint8_t { Packets, Nanoseconds, DeviceNanoseconds, Windows, Bytes } unit = Unit::Packets;
  uint64_t value = 0;
  SourceRange where;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind : uint8_t {
    Assign,    ///< name op expression ("=", "+=", "-=")
    Put,       ///< name [ key ] = expression
    Remove,    ///< remove name [ key ]
    Clear,     ///< clear name (a table or a statistic)
    Start,     ///< start name (a timer)
    StopTimer, ///< stop name
    Record,    ///< record name expression
    If,        ///< if expression { then } else { otherwise }
    Capture,   ///< capture pre post
    Fire,      ///< fire text
    Marker,    ///< marker text
    Stop,      ///< stop (the recording)
    Snapshot,  ///< snapshot (the counters)
    Raise,     ///< raise name
    Exec,      ///< exec text
    Arm,       ///< arm name
    Disarm,    ///< disarm [name]
    Rearm      ///< rearm [name]
  } kind = Kind::Fire;
  SourceRange where;
  Name name;
  std::string op, text;
  ExpressionPointer key, expression;
  std::vector<ExpressionPointer> values; ///< Fire: what to report with it.
  Block then, otherwise;
  Amount pre, post;
};

struct RuleSyntax {
  SourceRange where;
  ExpressionPointer condition; ///< Of `when`.
  std::optional<Amount> after; ///< Of `after`.
  std::optional<Name> of;      ///< Timer or table.
  uint64_t count = 0;          ///< 0: no count.
  uint64_t rate = 0;           ///< 0: no rate.
  std::optional<Amount> rateIn, holdoff;
  Block actions;
  std::optional<Name> next;
};

struct StateSyntax {
  Name name;
  Block entry;
  std::vector<RuleSyntax> rules;
};

struct StepSyntax {
  SourceRange where;
  RuleSyntax rule; ///< Condition, count, rate, actions.
  std::optional<Amount> within;
  bool negated = false;
};

struct DeclarationSyntax {
  enum class Kind : uint8_t { Counter, Flag, Variable, Timer, Table, Statistic, Constant } kind;
  Name name;
  uint64_t size = 0; ///< Counter: bits. Table: entries. Flag: initial value.
  ExpressionPointer value;
};

struct TriggerSyntax {
  Name name;
  std::string text;
  bool disarmed = false;
  std::optional<Token> device;
  std::vector<DeclarationSyntax> declarations;
  ExpressionPointer keep;
  std::vector<RuleSyntax> always, rules;
  std::vector<StateSyntax> states;
  std::vector<StepSyntax> steps;
  Block sequenceActions;
  SourceRange sequenceWhere;
};

/// Complains into `diagnostics`; what could be understood is returned anyway. Nesting is bounded.
std::vector<TriggerSyntax> parseTriggers(llvm::StringRef text, Diagnostics &diagnostics);

} // namespace tapeback::triggers
