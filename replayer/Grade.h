// How a packet fared, and by which rule. Every judgement the replayer makes is one row of the table in
// Grade.cpp.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>
#include <optional>

namespace tapeback {

/// The grades of the design. JSON names are the kebab-case ones of gradeName().
enum class Grade : uint8_t {
  Exact,          ///< Re-issued, and everything that it says agrees.
  Tolerated,      ///< Differs, or was not compared, where the description or the tape says that it may.
  Mismatch,       ///< Differs.
  OrderViolation, ///< The right thing, but after something that the tape orders behind it.
  Timeout,        ///< What the tape waited for and got did not come.
  TargetError,    ///< The target failed where the tape's did not.
  NotCaptured,    ///< Nothing to compare with: never counts as a match.
  Consequential,  ///< Differs after a difference at which the real program would have gone another way.
};
constexpr unsigned gradeCount = 8;
const char *gradeName(Grade grade);
/// Mismatch, OrderViolation, Timeout, TargetError, Consequential.
bool isDivergence(Grade grade);

/// Why a packet has its grade. Each rule belongs to exactly one grade (gradeOf).
enum class Rule : uint8_t {
  // Exact
  Same,
  FailedAsRecorded,
  TimedOutAsRecorded,
  // Tolerated
  MaskedBits,
  PolicyIgnore,
  PollCondition,
  PollFound,
  PollIteration,
  LiveValue,
  QueueProgress,
  FencePassed,
  StillOwned,
  NotMapped,
  InterruptCount,
  InterruptCause,
  InterruptEarly,
  InterruptCoalesced,
  CounterRate,
  Evidence,
  OutsideRecording,
  BusConfiguration,
  // Mismatch
  ValueDiffers,
  ContentDiffers,
  OracleDiffers,
  FailedInRecording,
  TimedOutInRecording,
  // OrderViolation
  CompletionBeforeData,
  CompletionOrder,
  // Timeout
  ConditionNotMet,
  InterruptMissing,
  CauseWithoutInterrupt,
  // TargetError
  TargetFailed,
  // NotCaptured
  NoAnswers,
  ContentNotCaptured,
  ContentTruncated,
  PendingOperation,
  PendingNotReissued,
  PolicySubstitute,
  UnknownKind,
  UnknownCounter,
  Unsupported,
  LostPackets,
  AfterLoss,
  LinkLost,
  OracleUnknown,
  NotReached,
  // Consequential
  AfterBranch,
  InputDiverged,
};
/// Rules that are left out, for tests that must notice when one is missing: what a packet is graded by in
/// place of it is fallbackOf().
class RuleSet {
public:
  void insert(Rule rule) { bits |= uint64_t(1) << unsigned(rule); }
  bool contains(Rule rule) const { return bits >> unsigned(rule) & 1; }
  bool empty() const { return !bits; }

private:
  uint64_t bits = 0;
};

constexpr unsigned ruleCount = unsigned(Rule::InputDiverged) + 1;
static_assert(ruleCount <= 64, "RuleSet has one word");
const char *ruleName(Rule rule);
/// The rule of this name, or nothing.
std::optional<Rule> ruleNamed(llvm::StringRef name);
/// What is left if the rule is taken away: without one that tolerates, a difference counts; without one that
/// finds something wrong, nothing is found.
Rule fallbackOf(Rule rule);
/// One sentence for people.
const char *ruleText(Rule rule);
Grade gradeOf(Rule rule);

/// How many packets got which grade, and by which rule.
class GradeCounts {
public:
  void add(Rule rule) { ++rules[unsigned(rule)]; }
  uint64_t of(Rule rule) const { return rules[unsigned(rule)]; }
  uint64_t of(Grade grade) const;
  uint64_t total() const;
  uint64_t divergences() const;

private:
  std::array<uint64_t, ruleCount> rules{};
};

} // namespace tapeback
