// Why a rule did not fire, and what has ever been exercised: two observers of an evaluator.
#pragma once

#include "triggers/Evaluator.h"
#include <map>

namespace tapeback::triggers {

/// Calls `leaf` for the predicates of a condition that decide it, in the order in which they are evaluated:
/// what && and || join, `!` looked through. `held` is the predicate's own value.
void forEachPredicate(const Evaluator &evaluator, uint32_t node,
                      llvm::function_ref<void(uint32_t leaf, bool held)> leaf);

/// "value == 0x1 (value is 0x0)": a predicate and the values in it, those that are not known as "unknown".
std::string describePredicate(const Evaluator &evaluator, uint32_t node);

/// One line per rule that a packet was compared with. Filled while the evaluator runs.
struct RuleExplanation {
  uint32_t trigger = 0, state = 0, rule = 0;
  bool deadline = false, held = false, fired = false;
  std::string why; ///< Not held: the predicate that failed. Held and not fired: what it still waits for.
};
class Explanation : public EvaluationObserver {
public:
  void ruleSeen(const Evaluator &evaluator, uint32_t trigger, uint32_t rule, bool held, bool fired) override;
  void entered(const Evaluator &evaluator, uint32_t trigger, uint32_t state) override;
  /// What was seen since the last call, at most 4096 of each.
  std::vector<RuleExplanation> takeRules() { return std::exchange(rules, {}); }
  struct Entry {
    uint32_t trigger, state;
  };
  std::vector<Entry> takeEntries() { return std::exchange(entries, {}); }

private:
  std::vector<RuleExplanation> rules;
  std::vector<Entry> entries;
};

/// Which states were entered, which rules fired, which predicates held and did not, by their place in the
/// source, so that the runs of one file over many tapes add up.
class Coverage : public EvaluationObserver {
public:
  struct Counts {
    std::string trigger, text;
    uint32_t offset = 0, length = 0;
    uint64_t yes = 0,
             no = 0; ///< States: entered. Rules: fired, looked at in vain. Predicates: held, did not.
  };
  /// Everything that `program` has, with counts of zero where there are none yet.
  void add(const Program &program);
  void ruleSeen(const Evaluator &evaluator, uint32_t trigger, uint32_t rule, bool held, bool fired) override;
  void entered(const Evaluator &evaluator, uint32_t trigger, uint32_t state) override;

  using Table = std::map<std::pair<uint32_t, uint32_t>, Counts>; ///< By offset and length.
  const Table &states() const { return stateCounts; }
  const Table &rules() const { return ruleCounts; }
  const Table &predicates() const { return predicateCounts; }

private:
  Table stateCounts, ruleCounts, predicateCounts;
};

} // namespace tapeback::triggers
