// The compiler's parts. Internal to triggers/; others call compileTriggers().
#pragma once

#include "triggers/Program.h"
#include "triggers/Syntax.h"
#include "llvm/ADT/StringMap.h"

namespace tapeback::triggers {

/// What an expression has become: its node and what is known of its value.
struct Typed {
  uint32_t node = noIndex; ///< noIndex: wrong, and complained about.
  bool isBool = false, isSigned = false;
  uint64_t low = 0, high = ~uint64_t(0); ///< Unsigned values lie in between.
  uint64_t bits = ~uint64_t(0);          ///< Bits that can be set.
  bool valid() const { return node != noIndex; }
  bool constant() const { return low == high && !isBool; }
};

/// One use, one file. Everything that names mean within the trigger at hand.
class Compiler {
public:
  Compiler(llvm::StringRef text, const CompileOptions &options, Diagnostics &diagnostics)
      : options(options), diagnostics(diagnostics) {
    program.source = text.str();
  }
  /// Complaints are in `diagnostics`; with an error among them the program is of no use.
  Program run(const std::vector<TriggerSyntax> &triggers);

private:
  struct Declared {
    DeclarationSyntax::Kind kind;
    uint32_t index = 0;
    uint64_t value = 0; ///< Of a constant.
    bool isSigned = false;
    SourceRange where;
    unsigned reads = 0, writes = 0;
    bool grows = false, shrinks = false; ///< A counter: += and anything else.
    unsigned bits = 64;
  };
  struct StateEdges {
    std::vector<uint32_t> next;
  };

  // CompileExpression.cpp
  Typed expression(const Expression &e);
  Typed condition(const Expression &e); ///< Must be yes or no.
  Typed number(const Expression &e);    ///< Must be a number.
  Typed unary(const Expression &e);
  Typed binary(const Expression &e);
  Typed logical(const Expression &e);
  Typed comparison(const Expression &e);
  Typed arithmetic(const Expression &e);
  Typed membership(const Expression &e);
  Typed emit(const Node &node, const Typed &like);
  Typed constant(uint64_t value, SourceRange where, bool isSigned = false);
  std::optional<uint64_t> enumerator(const Expression &subject, const Expression &word);
  Typed operandOf(const Expression &e, const Expression &other);
  void never(const Expression &e, const std::string &why);

  // CompileNames.cpp
  Typed named(const Expression &e);
  Typed member(const Expression &e);
  Typed call(const Expression &e);
  Typed index(const Expression &e);
  Typed event(const Expression &e);
  Typed registerEvent(const Expression &e, uint64_t kinds);
  bool placesOf(const Expression &e, std::vector<RegisterPlace> &places);
  std::optional<uint32_t> slotOf(llvm::StringRef name, llvm::StringRef field, SourceRange where,
                                 unsigned &shift, uint64_t &mask);
  Typed slotNode(NodeOp op, const Expression &argument);
  Declared *declared(const Name &name, DeclarationSyntax::Kind kind, const char *what);
  const Description *description() const;
  uint32_t place(const RegisterPlace &place);
  uint32_t text(llvm::StringRef text);
  uint32_t eventIndex(llvm::StringRef name);
  uint32_t spaceIndex(llvm::StringRef name);
  std::vector<std::string> knownNames() const;
  std::string noDescription() const;

  // CompileRules.cpp
  void trigger(const TriggerSyntax &syntax);
  void declarations(const TriggerSyntax &syntax);
  void device(const TriggerSyntax &syntax);
  void states(const TriggerSyntax &syntax);
  void sequenceStates(const TriggerSyntax &syntax);
  void state(uint32_t index, const StateSyntax &syntax);
  Rule rule(const RuleSyntax &syntax, bool always);
  bool ruleTime(const Amount &amount, Clock &clock, uint64_t &value);
  Range block(const Block &block);
  void statements(const Block &block, std::vector<Action> &out);
  void statement(const Statement &statement, std::vector<Action> &out);
  void assign(const Statement &statement, std::vector<Action> &out);
  CaptureAmount captureAmount(const Amount &amount);
  std::optional<uint32_t> triggerIndex(const Name &name);

  // CompileChecks.cpp
  void checkTrigger(const TriggerSyntax &syntax);
  void checkReachable(const Trigger &trigger);
  void checkDeclarations(const Trigger &trigger);
  void checkCost(Trigger &trigger, const TriggerSyntax &syntax);
  void checkProgram();
  std::vector<Interest> interestsOf(uint32_t node) const;
  void collectInterests(Trigger &trigger) const;
  uint64_t nodeCost(uint32_t node) const;
  uint64_t blockCost(Range actions) const;
  uint64_t ruleCost(const Rule &rule) const;

  const CompileOptions &options;
  Diagnostics &diagnostics;
  Program program;
  const std::vector<TriggerSyntax> *allTriggers = nullptr;

  // Of the trigger at hand.
  uint32_t current = 0;
  llvm::StringMap<Declared> names;
  llvm::StringMap<uint32_t> stateIndices;
  unsigned valueBits = 64; ///< Of `value`, as far as events to the left of it say.
  bool expiredAllowed = false;
  llvm::StringMap<uint32_t> slotIndices, textIndices, eventIndices, spaceIndices;
};

/// All kinds of packet that are register accesses.
constexpr uint64_t kindBit(PacketKind kind) {
  return uint64_t(1) << unsigned(kind);
}
constexpr uint64_t anyKind = ~uint64_t(0);
constexpr uint64_t accessKinds =
    kindBit(PacketKind::RegisterRead) | kindBit(PacketKind::RegisterWrite) | kindBit(PacketKind::Poll);
inline uint64_t bitsBelow(unsigned bits) {
  return bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
}

} // namespace tapeback::triggers
