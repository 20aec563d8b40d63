// minnow-stress as a user runs it.
#include "tests/support/RunProgram.h"
#include "tests/support/Skip.h"
#include <doctest/doctest.h>

#ifndef RTL_OR_SKIP
#ifdef TAPEBACK_HAS_RTL
#define RTL_OR_SKIP()
#else
#define RTL_OR_SKIP() TB_SKIP("verilator was not found when this was built")
#endif
#endif

using namespace tapeback::test;

namespace {

RunResult minnowStress(const std::string &uri, std::vector<std::string> arguments) {
  RunOptions options;
  options.environment["TAPEBACK_RING"] = "";
  options.environment["TAPEBACK_TARGET"] = uri;
  arguments.insert(arguments.begin(), buildProgram("minnow-stress"));
  return runProgram(arguments, options);
}

bool says(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("minnow-stress: exit codes and what is said") {
  RunResult good = minnowStress("model:minnow", {"--seed", "5", "--commands", "1000", "--exotic"});
  CHECK_MESSAGE(good.exited(0), good);
  CHECK_MESSAGE(says(good.out, "minnow-stress: seed 5: 10"), good);
  CHECK_MESSAGE(says(good.out, " rounds, 0 wrong"), good);
  RunResult plain = minnowStress("model:minnow", {"--no-errors", "--no-resets"});
  CHECK_MESSAGE(plain.exited(0), plain);
  RunResult help = minnowStress("", {"--help"});
  CHECK_MESSAGE(help.exited(0), help);
  CHECK(help.out.find("usage: minnow-stress") == 0);
  for (std::vector<std::string> bad :
       {std::vector<std::string>{"--seed"}, {"--commands", "x"}, {"--ops", "1"}, {"5"}}) {
    RunResult result = minnowStress("model:minnow", bad);
    CHECK_MESSAGE(result.exited(2), result);
    CHECK_MESSAGE(result.err.find("minnow-stress: bad argument '" + bad[0]) == 0, result);
  }
  RunResult none = minnowStress("", {});
  CHECK_MESSAGE(none.exited(3), none);
  RunResult other = minnowStress("model:edu", {});
  CHECK_MESSAGE(other.exited(1), other); // Its identity is no Minnow's.
  CHECK_MESSAGE(says(other.err, "check 'id' does not hold"), other);
}

TEST_CASE("minnow-stress holds on the RTL, and finds a wrong one") {
  RTL_OR_SKIP();
  RunResult good =
      minnowStress("rtl:minnow?latency=20&jitter=100&seed=3", {"--seed", "3", "--commands", "300"});
  CHECK_MESSAGE(good.exited(0), good);
  RunResult wrong = minnowStress("rtl:minnow?errata=dma-4k-last-beat", {"--seed", "3", "--commands", "300"});
  CHECK_MESSAGE(wrong.exited(1), wrong);
  CHECK_MESSAGE(says(wrong.err, "does not hold"), wrong);
  RunResult many = minnowStress("rtl:minnow?errata=dma-4k-last-beat",
                                {"--seed", "3", "--commands", "300", "--keep-going"});
  CHECK_MESSAGE(many.exited(1), many);
  CHECK_MESSAGE(!says(many.out, ", 1 wrong"), many);
}
