// How a packet fared, and by which rule. Every judgement the replayer makes is one row of the table in
// Grade.cpp.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>

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
  PollIteration,
  QueueProgress,
  FencePassed,
  StillOwned,
  NotMapped,
  InterruptCount,
  InterruptCause,
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
constexpr unsigned ruleCount = unsigned(Rule::InputDiverged) + 1;
const char *ruleName(Rule rule);
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
