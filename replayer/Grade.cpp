#include "replayer/Grade.h"

namespace tapeback {
namespace {

constexpr const char *gradeNames[gradeCount] = {"exact",   "tolerated",    "mismatch",     "order-violation",
                                                "timeout", "target-error", "not-captured", "consequential"};

struct RuleRow {
  Rule rule;
  Grade grade;
  const char *name, *text;
};

// replayer/README.md has this table for people; a test keeps the two together.
constexpr RuleRow ruleTable[] = {
    {Rule::Same, Grade::Exact, "same", "everything the packet says agrees"},
    {Rule::FailedAsRecorded, Grade::Exact, "failed-as-recorded",
     "the operation failed, as it did in the recording"},
    {Rule::TimedOutAsRecorded, Grade::Exact, "timed-out-as-recorded",
     "the wait timed out, as it did in the recording"},

    {Rule::MaskedBits, Grade::Tolerated, "mask", "only bits that the description does not compare differ"},
    {Rule::PolicyIgnore, Grade::Tolerated, "ignore",
     "the description says that the register is not compared"},
    {Rule::PollCondition, Grade::Tolerated, "poll-condition",
     "the condition holds; other bits or the number of reads differ"},
    {Rule::PollFound, Grade::Tolerated, "poll-found",
     "the last of a loop of reads that waited for a change: the change came"},
    {Rule::PollIteration, Grade::Tolerated, "poll-iteration",
     "one turn of a hand-made poll loop; its last read is compared"},
    {Rule::LiveValue, Grade::Tolerated, "substitute",
     "a value of this run alone, or written or waited for in place of the recorded one"},
    {Rule::QueueProgress, Grade::Tolerated, "queue-progress",
     "the queue is at least as far as it was in the recording"},
    {Rule::FencePassed, Grade::Tolerated, "fence-passed",
     "the value is that of a later fence of the same queue"},
    {Rule::StillOwned, Grade::Tolerated, "device-owned",
     "the device was still to write there again: nothing to compare"},
    {Rule::NotMapped, Grade::Tolerated, "not-mapped",
     "no memory was mapped there, so that there was nothing to capture"},
    {Rule::InterruptCount, Grade::Tolerated, "interrupt-count",
     "the interrupt came; how many coalesced is evidence only"},
    {Rule::InterruptCause, Grade::Tolerated, "interrupt-cause",
     "the target has no interrupts; the cause's register was polled instead"},
    {Rule::InterruptEarly, Grade::Tolerated, "interrupt-early",
     "the interrupt came together with an earlier one, before it was waited for"},
    {Rule::InterruptCoalesced, Grade::Tolerated, "interrupt-coalesced",
     "all that could raise it was done when the interrupt before it was taken or acknowledged"},
    {Rule::CounterRate, Grade::Tolerated, "counter-rate",
     "the description says that the counter is comparable as a rate only"},
    {Rule::Evidence, Grade::Tolerated, "recorder-evidence",
     "read by the recorder itself, not by the program: not re-issued"},
    {Rule::OutsideRecording, Grade::Tolerated, "outside-recording",
     "packets before the start or after the stop condition, as the user asked"},
    {Rule::BusConfiguration, Grade::Tolerated, "bus-configuration",
     "the bus's own set-up (BARs, MSI), which every machine does for itself: not re-issued"},

    {Rule::ValueDiffers, Grade::Mismatch, "value", "the value differs in bits that are compared"},
    {Rule::ContentDiffers, Grade::Mismatch, "content", "the content of memory differs"},
    {Rule::OracleDiffers, Grade::Mismatch, "oracle", "a check of the program comes out otherwise"},
    {Rule::FailedInRecording, Grade::Mismatch, "failed-in-recording",
     "the operation succeeded, but failed in the recording"},
    {Rule::TimedOutInRecording, Grade::Mismatch, "timed-out-in-recording",
     "the condition came true, but timed out in the recording"},

    {Rule::CompletionBeforeData, Grade::OrderViolation, "completion-before-data",
     "the completion was seen before the data had arrived; it arrived later"},

    {Rule::CompletionOrder, Grade::OrderViolation, "completion-order",
     "seen as done before a fence that comes before it in its queue or behind a barrier; that came later"},

    {Rule::ConditionNotMet, Grade::Timeout, "condition-not-met",
     "the condition did not come true before the deadline"},
    {Rule::InterruptMissing, Grade::Timeout, "interrupt-missing",
     "the interrupt did not come before the deadline"},
    {Rule::CauseWithoutInterrupt, Grade::Timeout, "cause-without-interrupt",
     "the interrupt did not come, though its cause shows"},

    {Rule::TargetFailed, Grade::TargetError, "target-failed", "the target refused, failed, hung or died"},

    {Rule::NoAnswers, Grade::NotCaptured, "target-does-not-answer", "what this target answers means nothing"},
    {Rule::ContentNotCaptured, Grade::NotCaptured, "content-not-captured",
     "the recording does not have the content"},
    {Rule::ContentTruncated, Grade::NotCaptured, "content-truncated",
     "the recording has only the beginning of the content, which agrees"},
    {Rule::PendingOperation, Grade::NotCaptured, "pending",
     "never came back in the recording: re-issued, nothing to compare with"},
    {Rule::PendingNotReissued, Grade::NotCaptured, "pending-not-reissued",
     "never came back in the recording, and the description says it may hang: not re-issued"},
    {Rule::PolicySubstitute, Grade::NotCaptured, "substitute-nowhere",
     "the description asks for substitution, but does not say where the value flows into"},
    {Rule::UnknownKind, Grade::NotCaptured, "unknown-kind",
     "a kind of packet that this version does not know"},
    {Rule::UnknownCounter, Grade::NotCaptured, "unknown-counter",
     "the description does not have this counter, or the target cannot read it"},
    {Rule::Unsupported, Grade::NotCaptured, "unsupported", "this target cannot do that"},
    {Rule::LostPackets, Grade::NotCaptured, "loss", "packets were lost here"},
    {Rule::AfterLoss, Grade::NotCaptured, "after-loss",
     "differs, but after lost packets, so it cannot be held against the target"},
    {Rule::LinkLost, Grade::NotCaptured, "link-lost", "the packet it refers to is not there"},
    {Rule::OracleUnknown, Grade::NotCaptured, "oracle-unknown",
     "what the check expected is not on the tape, so it cannot be redone"},
    {Rule::NotReached, Grade::NotCaptured, "not-reached", "the replay stopped before it"},

    {Rule::AfterBranch, Grade::Consequential, "after-branch",
     "differs after a difference at which the program would have gone another way"},
    {Rule::InputDiverged, Grade::Consequential, "input-diverged", "follows from a packet that differs"},
};
static_assert(std::size(ruleTable) == ruleCount);

constexpr bool inOrder() {
  for (unsigned i = 0; i < ruleCount; ++i)
    if (unsigned(ruleTable[i].rule) != i)
      return false;
  return true;
}
static_assert(inOrder(), "ruleTable is indexed by Rule");

} // namespace

const char *gradeName(Grade grade) {
  return gradeNames[unsigned(grade)];
}

bool isDivergence(Grade grade) {
  switch (grade) {
  case Grade::Exact:
  case Grade::Tolerated:
  case Grade::NotCaptured: return false;
  case Grade::Mismatch:
  case Grade::OrderViolation:
  case Grade::Timeout:
  case Grade::TargetError:
  case Grade::Consequential: return true;
  }
  return true;
}

const char *ruleName(Rule rule) {
  return ruleTable[unsigned(rule)].name;
}
const char *ruleText(Rule rule) {
  return ruleTable[unsigned(rule)].text;
}
std::optional<Rule> ruleNamed(llvm::StringRef name) {
  for (const RuleRow &row : ruleTable)
    if (name == row.name)
      return row.rule;
  return std::nullopt;
}
Rule fallbackOf(Rule rule) {
  switch (gradeOf(rule)) {
  case Grade::Exact:
  case Grade::Tolerated:
  case Grade::Consequential: return Rule::ValueDiffers;
  case Grade::Mismatch:
  case Grade::OrderViolation:
  case Grade::Timeout:
  case Grade::TargetError:
  case Grade::NotCaptured: return Rule::Same;
  }
  return Rule::Same;
}
Grade gradeOf(Rule rule) {
  return ruleTable[unsigned(rule)].grade;
}

uint64_t GradeCounts::of(Grade grade) const {
  uint64_t sum = 0;
  for (const RuleRow &row : ruleTable)
    if (row.grade == grade)
      sum += rules[unsigned(row.rule)];
  return sum;
}

uint64_t GradeCounts::total() const {
  uint64_t sum = 0;
  for (uint64_t count : rules)
    sum += count;
  return sum;
}

uint64_t GradeCounts::divergences() const {
  uint64_t sum = 0;
  for (const RuleRow &row : ruleTable)
    if (isDivergence(row.grade))
      sum += rules[unsigned(row.rule)];
  return sum;
}

} // namespace tapeback
