// Takes every rule of the grading table away in turn, and sees that some test notices: a rule that nothing
// tests is a rule that may break unseen.
//
// Rules are left out by ReplayOptions::withoutRules, which the tests fill from the environment (Mutation.h).
// Classes, policies and masks are taken out of the shipped descriptions, key by key, and held against a table
// that is written down here from the devices' manuals: what a replay compares of each register, and waits
// for.
#include "tests/replayer/Mutation.h"
#include "format/Text.h"
#include "replayer/AccessRules.h"
#include "tests/support/RunProgram.h"
#include "llvm/ADT/StringRef.h"
#include <doctest/doctest.h>
#include <iostream>
#include <regex>
#include <sstream>

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

namespace {

struct ExpectedRegisters {
  const char *names, *cls, *policy;
  uint64_t compared, polled; ///< Bits of a whole read.
};
constexpr uint64_t all32 = 0xffffffff, all64 = ~uint64_t(0);

const ExpectedRegisters eduRegisters[] = {
    {"IDENT", "identity", "compare", all32, all32},
    {"LIVENESS FACTORIAL", "stable", "compare", all32, all32},
    {"STATUS", "status", "mask", 0xfffffffe, 1},
    {"IRQ_STATUS", "status", "compare", all32, all32},
    {"IRQ_RAISE IRQ_ACK", "stable", "side-effect", all32, 0},
    {"DMA_SRC DMA_DST", "address-low", "relocate", all64, all64},
    {"DMA_COUNT", "stable", "compare", all64, all64},
    {"DMA_CMD", "poll", "mask", all64 - 1, 1},
};
const ExpectedRegisters minnowRegisters[] = {
    {"ID VERSION CAPS", "identity", "compare", all32, all32},
    {"CONTROL IRQ_ENABLE DBG_ADDR Q0_SIZE Q0_TAIL Q1_SIZE Q1_TAIL CNT_CONTROL", "stable", "compare", all32,
     all32},
    {"STATUS", "status", "mask", 1, 0x80000006},
    {"IRQ_STATUS", "w1c", "mask", 4, 7},
    {"ERR_CODE ERR_QUEUE ERR_INDEX ERR_OPCODE", "status", "compare", all32, all32},
    {"ERR_ADDR_LO Q0_BASE_LO Q1_BASE_LO", "address-low", "relocate", all32, all32},
    {"ERR_ADDR_HI Q0_BASE_HI Q1_BASE_HI", "address-high", "relocate", all32, all32},
    {"DBG_DATA", "fifo", "compare", all32, 0},
    {"TIME_LO TIME_HI", "timestamp", "ignore", 0, 0},
    {"Q0_HEAD Q0_DONE Q1_HEAD Q1_DONE", "progress", "ignore", 0, 0},
    {"Q0_DOORBELL Q1_DOORBELL", "stable", "side-effect", all32, 0},
    {"CNT0_LO CNT0_HI CNT2_LO CNT2_HI CNT7_LO CNT7_HI CNT8_LO CNT8_HI CNT9_LO CNT9_HI CNT10_LO CNT10_HI",
     "counter", "ignore", 0, 0},
    {"CNT1_LO CNT1_HI CNT3_LO CNT3_HI CNT4_LO CNT4_HI CNT5_LO CNT5_HI CNT6_LO CNT6_HI CNT11_LO CNT11_HI",
     "counter", "compare", all32, 0},
};

/// The first register that is not as the table has it; empty if all are, and all registers are in the table.
std::string firstOtherwise(const Description &description, llvm::ArrayRef<ExpectedRegisters> table) {
  AccessRules rules(&description, {"memory", description.spaces.front()}, {});
  size_t seen = 0;
  for (const ExpectedRegisters &row : table) {
    std::istringstream names(row.names);
    for (std::string name; names >> name; ++seen) {
      const RegisterDescription *reg = description.findByName(name);
      if (!reg)
        return name;
      const AccessRule &rule = rules.find(1, reg->offset, reg->width);
      bool same = std::string(registerClassName(reg->cls)) == row.cls &&
                  std::string(replayPolicyName(reg->policy)) == row.policy &&
                  rule.compareMask == row.compared && rule.pollMask == row.polled;
      if (!same)
        return name;
    }
  }
  return seen == description.registers.size() ? "" : "a register that is not in the table";
}

void mutateDescription(const std::string &file, llvm::ArrayRef<ExpectedRegisters> table, size_t atLeast) {
  llvm::Expected<std::string> text = readTextFile(TAPEBACK_SOURCE_DIR + file);
  REQUIRE(bool(text));
  llvm::Expected<Description> whole = parseDescription(*text, file);
  REQUIRE(bool(whole));
  CHECK(firstOtherwise(*whole, table) == "");
  // A class, a policy (a mask has no sense without it, and goes, too), a mask of polls; in braces or on
  // lines.
  const std::regex keys("(, class: [a-z0-9-]+|\n    class: [a-z0-9-]+|, policy: [a-z-]+|\n    policy: "
                        "[a-z-]+(\n    compare-mask: 0x[0-9a-f]+)?|\n    poll-mask: 0x[0-9a-f]+)");
  size_t registersEnd = text->find("\nwindows:"), noticed = 0;
  REQUIRE(registersEnd != std::string::npos);
  for (std::sregex_iterator at(text->begin(), text->begin() + std::ptrdiff_t(registersEnd), keys), end;
       at != end; ++at) {
    std::string without = *text;
    without.erase(size_t(at->position()), size_t(at->length()));
    llvm::Expected<Description> mutated = parseDescription(without, file);
    if (!mutated) { // Noticed at once.
      llvm::consumeError(mutated.takeError());
      continue;
    }
    bool statesDefault = true; // Says what holds anyway: nothing is lost.
    for (size_t i = 0; i < whole->registers.size(); ++i) {
      const RegisterDescription &was = whole->registers[i], &is = mutated->registers[i];
      statesDefault &= was.cls == is.cls && was.policy == is.policy && was.pollMask == is.pollMask;
    }
    if (statesDefault)
      continue;
    ++noticed;
    CHECK_MESSAGE(firstOtherwise(*mutated, table) != "", "nobody notices that this is missing:", at->str());
  }
  CHECK(noticed >= atLeast);
}

} // namespace

TEST_CASE("every class, policy and mask of the shipped descriptions is missed when it is taken away") {
  mutateDescription("/hal/edu/edu.yaml", eduRegisters, 8);
  mutateDescription("/hal/minnow/minnow.yaml", minnowRegisters, 60);
}
