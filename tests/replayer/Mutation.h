// What a mutation run leaves out, from the environment: read by tests alone, so that MutationTest can take
// each rule away in turn and see that some test notices. Nothing of it is in the library but data in options.
#pragma once

#include "replayer/Grade.h"
#include <cstdlib>

namespace tapeback::test {

constexpr const char *withoutRuleVariable = "TAPEBACK_TEST_WITHOUT_RULE";

inline RuleSet rulesLeftOut() {
  RuleSet rules;
  const char *name = std::getenv(withoutRuleVariable);
  if (name)
    if (std::optional<Rule> rule = ruleNamed(name))
      rules.insert(*rule);
  return rules;
}

} // namespace tapeback::test
