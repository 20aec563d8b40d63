// Takes every rule of the grading table away in turn, and sees that some test notices: a rule that nothing
// tests is a rule that may break unseen.
//
// Rules are left out by ReplayOptions::withoutRules, which the tests fill from the environment (Mutation.h).
// Policies of descriptions are taken out of the shipped texts, key by key:
// tests/hal/description/PolicyTest.cpp.
#include "tests/replayer/Mutation.h"
#include "tests/support/RunProgram.h"
#include "llvm/ADT/StringRef.h"
#include <doctest/doctest.h>
#include <iostream>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// Programs of tests and the files of them that are quick; in this order until one notices.
struct Suite {
  const char *program, *files;
};
const Suite suites[] = {
    {"tests/replayer-replay", "*RuleTest*,*PolicyTest*"},
    {"tests/replayer-queues", "*"},
    {"tests/replayer-replay", "*ReplayTest*,*OracleTest*"},
};

/// The first case that fails with the rule left out; empty if none does.
std::string noticedBy(const Suite &suite, const std::string &rule) {
  RunOptions options;
  options.timeout = std::chrono::seconds(120);
  if (!rule.empty())
    options.environment[withoutRuleVariable] = rule;
  RunResult result = runProgram(
      {buildProgram(suite.program), std::string("--source-file=") + suite.files, "--abort-after=1"}, options);
  if (result.exited(0))
    return {};
  REQUIRE_MESSAGE(result.exited(1), result);
  auto [before, after] = llvm::StringRef(result.out).split("TEST CASE:");
  std::string name = after.split('\n').first.trim().str();
  REQUIRE_MESSAGE(!name.empty(), result);
  return name;
}

} // namespace

TEST_CASE("every rule is missed by some test when it is taken away") {
  for (const Suite &suite : suites)
    REQUIRE(noticedBy(suite, "") == "");
  for (unsigned i = 0; i < ruleCount; ++i) {
    std::string rule = ruleName(Rule(i)), name;
    for (const Suite &suite : suites)
      if (name.empty())
        name = noticedBy(suite, rule);
    std::cout << gradeName(gradeOf(Rule(i))) << " " << rule << ": "
              << (name.empty() ? "NOBODY NOTICES" : name) << "\n";
    CHECK_MESSAGE(!name.empty(), rule);
  }
}

TEST_CASE("a name of no rule leaves nothing out") {
  CHECK(noticedBy(suites[0], "no-such-rule") == "");
  CHECK(!ruleNamed("no-such-rule"));
  CHECK(ruleNamed("mask") == Rule::MaskedBits);
}
