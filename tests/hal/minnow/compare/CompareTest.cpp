// A small part of the comparison of RTL and model (tools/minnow-compare does the whole), and that it can
// fail.
#include "tests/hal/Targets.h"
#include "tests/hal/minnow/compare/Lockstep.h"
#include "tests/support/Skip.h"

#ifdef TAPEBACK_HAS_RTL
#define RTL_OR_SKIP()
#else
#define RTL_OR_SKIP() TB_SKIP("verilator was not found when this was built")
#endif

using namespace tapeback;
using namespace tapeback::test;

namespace {

#ifdef TAPEBACK_SANITIZED
constexpr uint64_t modelSeeds = 8, rtlSeeds = 2;
#else
constexpr uint64_t modelSeeds = 40, rtlSeeds = 6;
#endif

LockstepOutcome compare(const std::string &first, const std::string &second, uint64_t seed,
                        uint64_t commands) {
  LockstepOptions options;
  options.first = first;
  options.second = second;
  options.plan.seed = seed;
  options.plan.commands = commands;
  options.plan.exotic = true;
  return runLockstep(options);
}

/// Whether one of these seeds tells `first` from the model.
std::string firstDifference(const std::string &first, std::initializer_list<uint64_t> seeds) {
  for (uint64_t seed : seeds) {
    LockstepOutcome outcome = compare(first, modelFor(seed), seed, 150);
    if (!outcome.difference.empty())
      return outcome.difference;
  }
  return "";
}

} // namespace

TEST_CASE("the model does what the plan says, at every speed") {
  for (uint64_t seed = 1; seed <= modelSeeds; ++seed) {
    CAPTURE(seed);
    LockstepOutcome outcome = compare("model:minnow", modelFor(seed), seed, 250);
    CHECK(outcome.difference == "");
    CHECK(outcome.commands >= 250);
    CHECK(outcome.comparisons > 1000000);
  }
}

TEST_CASE("RTL, model and plan agree") {
  RTL_OR_SKIP();
  for (uint64_t seed = 1; seed <= rtlSeeds; ++seed) {
    CAPTURE(seed);
    CHECK(compare(rtlFor(seed), modelFor(seed), seed, 150).difference == "");
  }
}

TEST_CASE("registers read and written at random are the same") {
  RTL_OR_SKIP();
  for (uint64_t seed = 1; seed <= rtlSeeds; ++seed) {
    CAPTURE(seed);
    LockstepOutcome outcome = runRegisters(rtlFor(seed), modelFor(seed), seed, 1500);
    CHECK(outcome.difference == "");
    CHECK(outcome.comparisons > 500);
  }
}

TEST_CASE("a wrong device is found") {
  RTL_OR_SKIP();
  struct {
    const char *erratum, *says;
    std::initializer_list<uint64_t> seeds;
  } wrong[] = {
      {"dma-4k-last-beat", "", {1, 2}},
      {"requant-wrap", "first 0x80, second 0x7f, plan 0x7f", {2, 5}},
      {"stale-scratchpad", "", {8, 9}},
      {"counter-stall", "counter", {1, 2, 3}},
      {"chain-prefetch", "", {1, 2}},
      {"reset-head", "status after reset", {1, 11}},
      {"wrap-full-hang", "within the deadline", {6, 11}},
  };
  for (const auto &row : wrong) {
    CAPTURE(std::string(row.erratum));
    std::string found = firstDifference(std::string("rtl:minnow?errata=") + row.erratum, row.seeds);
    CHECK(found != "");
    CHECK_MESSAGE(contains(found, row.says), found);
  }
}

TEST_CASE("a difference of one bit is found, whoever has it") { // Even if both have it: the plan does not.
  LockstepOptions options;
  options.first = options.second = "model:minnow";
  options.plan.seed = 3;
  options.plan.commands = 60;
  CHECK(runLockstep(options).difference == "");
  for (unsigned side : {0u, 1u, 2u}) {
    CAPTURE(side);
    options.plant = side;
    std::string found = runLockstep(options).difference;
    CHECK_MESSAGE(contains(found, "host memory at 0x3804d"), found);
    CHECK_MESSAGE(contains(found, side == 2   ? "first 0x10, second 0x10, plan 0x0"
                                  : side == 1 ? "first 0x0, second 0x10, plan 0x0"
                                              : "first 0x10, second 0x0, plan 0x0"),
                  found);
  }
}

TEST_CASE("targets that cannot be opened, or are none of these, are differences") {
  CHECK(contains(compare("model:nothing-such", "model:minnow", 1, 10).difference, "model:nothing-such"));
  CHECK(contains(compare("model:minnow", "null:", 1, 10).difference, "id at register 0x0"));
}
