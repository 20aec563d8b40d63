// The program, and the networks on the RTL: they agree, and with an erratum they do not.
#include "tests/support/RunProgram.h"
#include "tests/support/Skip.h"
#include <doctest/doctest.h>

#ifdef TAPEBACK_HAS_RTL
#define RTL_OR_SKIP()
#else
#define RTL_OR_SKIP() TB_SKIP("verilator was not found when this was built")
#endif

using namespace tapeback::test;

namespace {

RunResult minnowRun(const std::string &uri, std::vector<std::string> arguments) {
  tapeback::test::RunOptions options;
  options.environment["TAPEBACK_RING"] = "";
  options.environment["TAPEBACK_TARGET"] = uri;
  arguments.insert(arguments.begin(), buildProgram("minnow-run"));
  return runProgram(arguments, options);
}

} // namespace

TEST_CASE("minnow-run: exit codes and what is said") {
  RunResult all = minnowRun("model:minnow", {"--net", "all", "--seed", "3"});
  CHECK_MESSAGE(all.exited(0), all);
  for (const char *line : {"kws: seed 3: 1 inferences, 11 layers, 21 tiles, 0 wrong; 4822336 MACs",
                           "ic: seed 3: 1 inferences, 14 layers, 31 tiles, 0 wrong; 14280192 MACs",
                           "ad: seed 3: 1 inferences, 10 layers, 23 tiles, 0 wrong; 264192 MACs",
                           "vww: seed 3: 1 inferences, 29 layers, 74 tiles, 0 wrong; 14562176 MACs"})
    CHECK_MESSAGE(all.out.find(line) != std::string::npos, all);
  RunResult some = minnowRun("model:minnow", {"--layers", "3", "--inferences", "2"});
  CHECK_MESSAGE(some.exited(0), some);
  CHECK_MESSAGE(some.out.find("ad: seed 1: 2 inferences, 6 layers, 16 tiles") != std::string::npos, some);
  RunResult small = minnowRun("model:minnow", {"--scratchpad", "20", "--checks", "end"});
  CHECK_MESSAGE(small.exited(0), small);
  CHECK_MESSAGE(small.out.find("10 layers, 63 tiles, 0 wrong; 264192 MACs") != std::string::npos, small);
  RunResult none = minnowRun("model:minnow", {"--scratchpad", "8"});
  CHECK_MESSAGE(none.exited(2), none);
  CHECK_MESSAGE(none.err.find("layer enc1 does not fit") != std::string::npos, none);
  RunResult help = minnowRun("", {"--help"});
  CHECK_MESSAGE(help.exited(0), help);
  CHECK(help.out.find("usage: minnow-run") == 0);
  for (std::vector<std::string> bad : {std::vector<std::string>{"--net"},
                                       {"--net", "resnet"},
                                       {"--ring", "24"},
                                       {"--ring", "4"},
                                       {"--inferences", "0"},
                                       {"--seed", "x"},
                                       {"--checks", "never"},
                                       {"--scratchpad", "65"},
                                       {"--nets", "ad"},
                                       {"ad"}}) {
    RunResult result = minnowRun("model:minnow", bad);
    CHECK_MESSAGE(result.exited(2), result);
    CHECK_MESSAGE(result.err.find("minnow-run: bad argument '" + bad[0]) == 0, result);
  }
  RunResult noTarget = minnowRun("", {});
  CHECK_MESSAGE(noTarget.exited(3), noTarget);
  CHECK_MESSAGE(noTarget.err.find("TAPEBACK_TARGET") != std::string::npos, noTarget);
  RunResult other = minnowRun("model:edu", {});
  CHECK_MESSAGE(other.exited(1), other); // Its identity is no Minnow's.
  CHECK_MESSAGE(other.err.find("check 'id' does not hold") != std::string::npos, other);
}

TEST_CASE("the RTL computes the networks as the host does") {
  RTL_OR_SKIP();
#ifdef TAPEBACK_SANITIZED
  const std::vector<const char *> nets{"ad"}; // The others take their time, and show a sanitizer nothing new.
#else
  const std::vector<const char *> nets{"ad", "kws", "ic", "vww"};
#endif
  for (const char *net : nets) {
    RunResult result = minnowRun("rtl:minnow?jitter=30&seed=2", {"--net", net});
    CHECK_MESSAGE(result.exited(0), result);
  }
}

TEST_CASE("the oracle must fail: each erratum is found by some network") {
  RTL_OR_SKIP();
  struct Row {
    const char *options;
    std::vector<std::string> arguments;
    const char *says;
  };
  for (const Row &row :
       {Row{"errata=dma-4k-last-beat", {"--net", "ad"}, "check 'ad/output' does not hold"},
        Row{"errata=dma-4k-last-beat",
            {"--net", "ad", "--scratchpad", "20", "--ring", "8"},
            "after 9 layers and 63 tiles: check 'ad/output'"},
        Row{"errata=requant-wrap", {"--net", "kws"}, "check 'kws/"},
        Row{"errata=stale-scratchpad", {"--net", "ad"}, "check 'ad/dec1' does not hold"},
        Row{"errata=counter-stall", {"--net", "ad"}, "after 0 layers and 4 tiles: check 'READ_BYTES'"},
        Row{"errata=counter-stall",
            {"--net", "ad", "--checks", "end"},
            "after 10 layers and 23 tiles: check 'READ_BYTES'"},
        Row{"errata=wrap-full-hang", {"--net", "ad", "--ring", "8"}, "'fence' did not come"},
        Row{"errata=chain-prefetch", {"--net", "ad"}, "error 5 at queue 1, index 0"},
        Row{"errata=reset-head", {"--net", "ad"}, "check 'status after reset' does not hold"},
        Row{"errata=fence-overtake&jitter=256", {"--net", "ad", "--inferences", "5"}, "check 'ad/"}}) {
    CAPTURE(row.options);
    RunResult result = minnowRun(std::string("rtl:minnow?") + row.options, row.arguments);
    CHECK_MESSAGE(result.exited(1), result);
    CHECK_MESSAGE(result.err.find(row.says) != std::string::npos, result);
  }
}
