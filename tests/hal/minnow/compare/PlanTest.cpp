// The stress plan itself: the same on every machine, legal, and of all sorts.
#include "hal/minnow/driver/Stress.h"
#include <cstring>
#include <doctest/doctest.h>
#include <map>
#include <set>

using namespace tapeback::stress;
using Kind = StressStep::Kind;

namespace {

StressOptions optionsOf(uint64_t seed, uint64_t commands) {
  StressOptions options;
  options.seed = seed;
  options.commands = commands;
  options.arena = 0x20000000;
  return options;
}

/// A digest of all steps.
uint64_t digest(const StressOptions &options) {
  std::vector<uint64_t> words;
  StressPlan plan(options);
  for (std::vector<StressStep> steps = plan.next(); !steps.empty(); steps = plan.next())
    for (const StressStep &step : steps) {
      std::vector<uint8_t> bytes = step.bytes;
      bytes.resize((bytes.size() + 7) / 8 * 8);
      words.insert(words.end(),
                   {uint64_t(step.kind), step.offset, step.value, step.mask, step.memory,
                    digestOf(bytes.data(), bytes.size()), step.scratchpadDigest, step.memoryDigest});
    }
  return digestOf(reinterpret_cast<const uint8_t *>(words.data()), words.size() * 8);
}

} // namespace

TEST_CASE("a seed's plan is the same everywhere and for ever") {
  // Tests and tapes name programs by seed. A change of the plan changes this on purpose.
  CHECK(digest(optionsOf(1, 3000)) == 13297854310514816406u);
  CHECK(digest(optionsOf(1, 300)) != digest(optionsOf(2, 300)));
  StressOptions plain = optionsOf(1, 300);
  plain.errors = plain.resets = false;
  CHECK(digest(plain) != digest(optionsOf(1, 300)));
}

TEST_CASE("plans have everything in them") {
  std::set<std::string> rounds;
  std::map<uint64_t, unsigned> opcodes, errors;
  std::set<uint64_t> kinds;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StressOptions options = optionsOf(seed, 1000);
    options.exotic = true;
    StressPlan plan(options);
    for (std::vector<StressStep> steps = plan.next(); !steps.empty(); steps = plan.next())
      for (const StressStep &step : steps) {
        kinds.insert(uint64_t(step.kind));
        if (step.kind == Kind::Mark)
          rounds.insert(step.name);
        if (step.kind == Kind::Read && step.offset == MINNOW_ERR_CODE)
          ++errors[step.value];
        bool ring = (step.kind == Kind::Fill || step.kind == Kind::FillApi) && step.memory < 0x8000;
        for (size_t at = 0; ring && at < step.bytes.size(); at += 64)
          ++opcodes[step.bytes[at]];
      }
  }
  CHECK(kinds.size() == 11);
  for (const char *name :
       {"start", "round", "full", "disabled", "errors", "ring-error", "overflow", "many-bursts",
        "self-modifying", "paused", "reset", "reset-halted", "reset-blocked", "reset-running"})
    CHECK_MESSAGE(rounds.count(name) == 1, name);
  for (uint64_t opcode : {0x00, 0x01, 0x02, 0x03, 0x10, 0x20, 0x21, 0x22, 0x23, 0x24, 0x30, 0x31, 0x32, 0x33})
    CHECK_MESSAGE(opcodes[opcode] >= 100, opcode);
  for (uint64_t code = 1; code <= 7; ++code)
    CHECK_MESSAGE(errors[code] >= 3, code);
}

TEST_CASE("without errors, nothing fails; without resets, nothing is reset") {
  StressOptions options = optionsOf(4, 2000);
  options.errors = options.resets = false;
  StressPlan plan(options);
  for (std::vector<StressStep> steps = plan.next(); !steps.empty(); steps = plan.next())
    for (const StressStep &step : steps) {
      if (step.kind == Kind::Read && step.offset == MINNOW_ERR_CODE)
        CHECK(step.value == 0);
      CHECK(step.kind != Kind::Reset);
      if (step.kind == Kind::Write && step.offset == MINNOW_CONTROL)
        CHECK((step.value & (MINNOW_CONTROL_SOFT_RESET | MINNOW_CONTROL_RESUME)) == 0);
    }
  CHECK(plan.submitted() >= 2000);
}

TEST_CASE("what the manual leaves undefined is known as such") {
  CHECK(Evaluation::isDefined(minnow_gemm(0, 64, 128, 2, 2, 8, 8, 8, 8, 0)));
  CHECK_FALSE(Evaluation::isDefined(minnow_gemm(0, 64, 72, 2, 2, 8, 8, 8, 8, 0)));  // C on B.
  CHECK_FALSE(Evaluation::isDefined(minnow_gemm(0, 64, 128, 2, 4, 8, 8, 8, 8, 0))); // C's rows on each other.
  CHECK(Evaluation::isDefined(minnow_vadd(MINNOW_VADD8, 0, 64, 0, 2, 8, 8, 8, 8, 0)));
  CHECK_FALSE(Evaluation::isDefined(minnow_vadd(MINNOW_VADD8, 0, 64, 8, 2, 8, 8, 8, 8, 0)));
  CHECK_FALSE(Evaluation::isDefined(minnow_vadd(MINNOW_VADD32, 0, 64, 64, 2, 2, 8, 8, 8, MINNOW_BROADCAST)));
  CHECK(Evaluation::isDefined(minnow_requant(0, 0, 2, 8, 32, 8, 1, 0, 0, 0)));
  CHECK_FALSE(Evaluation::isDefined(minnow_requant(0, 0, 2, 8, 32, 40, 1, 0, 0, 0)));
  CHECK_FALSE(Evaluation::isDefined(minnow_requant(0, 8, 2, 8, 32, 8, 1, 0, 0, 0)));
}
