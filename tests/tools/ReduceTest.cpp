// Reducing as a user does it: a failing tape shrinks to the least that fails in the same way, which a replay
// reproduces, and which a C program made of it shows without a tape.
#include "tests/support/RunProgram.h"
#include "tests/support/Skip.h"
#include "llvm/Support/JSON.h"
#include <doctest/doctest.h>
#include <filesystem>

using namespace tapeback;
using namespace tapeback::test;

namespace {

llvm::json::Object jsonOf(const RunResult &run) {
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(run.out);
  if (value && value->getAsObject())
    return *value->getAsObject();
  if (!value)
    llvm::consumeError(value.takeError()); // The test fails on what is missing, and shows the run.
  return {};
}

/// Hundreds of runs, on a machine that may be busy.
RunResult runLong(const std::vector<std::string> &command) {
  RunOptions options;
  options.timeout = std::chrono::minutes(8);
  return runProgram(command, options);
}

const std::string faulty = "model:edu?fault=dma-last-byte", sound = "model:edu";
const std::string minnow = TAPEBACK_BINARY_DIR "/bin/minnow-stress";

struct Failing {
  explicit Failing(const std::string &target = faulty, unsigned ops = 60) {
    RunResult run = runProgram({tapebackProgram(), "record", "--json", "--target", target, "-o", tape(), "--",
                                TAPEBACK_BINARY_DIR "/bin/edu-exercise", "--seed", "3", "--ops",
                                std::to_string(ops), "--keep-going"});
    REQUIRE_MESSAGE(run.exited(0), run);
  }
  std::string tape() const { return scratch.file("run.tape"); }
  std::string small() const { return scratch.file("small.tape"); }
  RunResult reduce(const std::vector<std::string> &options = {}, const std::string &bad = faulty) const {
    std::vector<std::string> command{tapebackProgram(), "reduce", "--json", tape(), "--target", bad,
                                     "--against",       sound,    "-o",     small()};
    command.insert(command.end(), options.begin(), options.end());
    return runLong(command);
  }
  ScratchDirectory scratch;
};

RunResult replayOf(const std::string &tape, const std::string &target, bool signature) {
  std::vector<std::string> command{tapebackProgram(), "replay", "--json", tape, "--target", target};
  if (signature)
    command.insert(command.end(), {"--expect", "signature"});
  return runProgram(command);
}

} // namespace

TEST_CASE("reduce: the least that fails in the same way is left, and it reproduces") {
  Failing failing;
  RunResult run = failing.reduce();
  REQUIRE_MESSAGE(run.exited(0), run);
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getString("schema") == "tapeback.reduce/1");
  CHECK(json.getBoolean("minimal") == true);
  CHECK(json.getInteger("packets_before").value_or(0) > 300);
  // A mapping and its zeroes, three registers and the doorbell, the data, its descriptor and completion, what
  // waits for it, and the check: no more.
  CHECK(json.getInteger("packets").value_or(99) <= 14);
  CHECK(json.getString("verdict") == "match");
  REQUIRE(json.getObject("signature"));
  CHECK(json.getObject("signature")->getString("name") == "reduced");

  RunResult verified = runProgram({tapebackProgram(), "verify", failing.small()});
  CHECK_MESSAGE(verified.exited(0), verified);
  RunResult bad = replayOf(failing.small(), faulty, true);
  CHECK_MESSAGE(bad.exited(0), bad);
  CHECK(jsonOf(bad).getBoolean("reproduced") == true);
  RunResult good = replayOf(failing.small(), sound, false);
  CHECK_MESSAGE(good.exited(1), good);

  // It carries its parent's root, and there is nothing more to take away.
  RunResult info = runProgram({tapebackProgram(), "info", "--json", failing.tape()});
  std::string root = jsonOf(info).getString("root").value_or("?").str();
  info = runProgram({tapebackProgram(), "info", "--json", failing.small()});
  CHECK(info.out.find(root) != std::string::npos);
  RunResult again = runProgram({tapebackProgram(), "reduce", "--json", failing.small(), "--target", faulty,
                                "--against", sound, "-o", failing.scratch.file("again.tape")});
  REQUIRE_MESSAGE(again.exited(0), again);
  CHECK(jsonOf(again).getInteger("packets") == json.getInteger("packets"));
}

TEST_CASE("reduce: two targets that do not differ leave nothing to reduce") {
  Failing failing;
  RunResult run = failing.reduce({}, sound);
  CHECK_MESSAGE(run.exited(1), run);
  CHECK(jsonOf(run).getObject("error")->getString("code") == "does-not-fail");
  CHECK(!std::filesystem::exists(failing.small()));
}

TEST_CASE("reduce: stopped early, the best so far is there and says that it is not minimal") {
  Failing failing;
  RunResult run = failing.reduce({"--max-runs", "4"});
  CHECK_MESSAGE(run.exited(5), run);
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getBoolean("minimal") == false);
  CHECK(json.getString("verdict") == "incomplete");
  CHECK(json.getInteger("runs") == 4);
  RunResult bad = replayOf(failing.small(), faulty, true);
  CHECK_MESSAGE(bad.exited(0), bad);

  // It goes on from there, with the same targets only, and leaves no state when it is done.
  REQUIRE(std::filesystem::exists(failing.small() + ".state"));
  run = failing.reduce({"--resume"}, "model:edu?fault=factorial");
  CHECK_MESSAGE(run.exited(2), run);
  CHECK(jsonOf(run).getObject("error")->getString("code") == "bad-state");
  run = failing.reduce({"--resume"});
  REQUIRE_MESSAGE(run.exited(0), run);
  json = jsonOf(run);
  CHECK(json.getBoolean("minimal") == true);
  CHECK(json.getInteger("runs").value_or(0) > 4);
  CHECK(json.getInteger("packets").value_or(99) <= 14);
  CHECK(json.getObject("bad_targets")->getInteger("opened") == 1);
  CHECK(!std::filesystem::exists(failing.small() + ".state"));
}

TEST_CASE("reduce: by packets alone comes to a minimum, too") {
  Failing failing;
  RunResult plain = failing.reduce({"--plain"});
  REQUIRE_MESSAGE(plain.exited(0), plain);
  CHECK(jsonOf(plain).getBoolean("minimal") == true);
  RunResult bad = replayOf(failing.small(), faulty, true);
  CHECK_MESSAGE(bad.exited(0), bad);
}

TEST_CASE("reduce: bad usage") {
  Failing failing(sound, 2);
  RunResult run = failing.reduce({"--match", "roughly"});
  CHECK_MESSAGE(run.exited(2), run);
  run = failing.reduce({"--tries", "2", "--needed", "3"});
  CHECK_MESSAGE(run.exited(2), run);
  run = failing.reduce({"--tries", "2", "--intermittent"});
  CHECK_MESSAGE(run.exited(2), run);
  run = failing.reduce({"--resume"});
  CHECK_MESSAGE(run.exited(2), run);
}

TEST_CASE("export to C: the program fails in the same way, and holds on a sound device") {
#ifdef TAPEBACK_SANITIZED
  TB_SKIP("a plain C program cannot be linked to a library that is made for sanitizers");
#endif
  Failing failing;
  REQUIRE(failing.reduce().exited(0));
  std::string source = failing.scratch.file("small.c"), program = failing.scratch.file("small");
  RunResult run =
      runProgram({tapebackProgram(), "export", "--json", failing.small(), "--to", "c", "-o", source});
  REQUIRE_MESSAGE(run.exited(0), run);
  CHECK(jsonOf(run).getInteger("checks") == 1);
  RunResult compiled =
      runProgram({"/usr/bin/env", "cc", "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror",
                  "-I" TAPEBACK_SOURCE_DIR "/recorder", source, "-o", program,
                  "-L" TAPEBACK_BINARY_DIR "/lib", "-Wl,-rpath," TAPEBACK_BINARY_DIR "/lib", "-ltapeback"});
  REQUIRE_MESSAGE(compiled.exited(0), compiled);
  RunResult bad = runProgram({"/usr/bin/env", "TAPEBACK_TARGET=" + faulty, program});
  CHECK_MESSAGE(bad.exited(1), bad);
  CHECK(bad.err.find("check 'reduced' does not hold") != std::string::npos);
  RunResult good = runProgram({"/usr/bin/env", "TAPEBACK_TARGET=" + sound, program});
  CHECK_MESSAGE(good.exited(0), good);
}

TEST_CASE("export: what cannot be written so is refused") {
  Failing failing(sound, 2);
  RunResult run = runProgram(
      {tapebackProgram(), "export", "--json", failing.tape(), "--to", "pascal", "-o", failing.small()});
  CHECK_MESSAGE(run.exited(2), run);
}

#ifdef TAPEBACK_HAS_RTL
TEST_CASE("reduce: commands of queues move up, and doorbells say how many are left") {
  ScratchDirectory scratch;
  const std::string bad = "rtl:minnow?errata=dma-4k-last-beat", tape = scratch.file("m.tape");
  RunResult run = runProgram({tapebackProgram(), "record", "--json", "--target", bad, "-o", tape, "--",
                              minnow, "--seed", "5", "--commands", "40"});
  REQUIRE_MESSAGE(run.exited(0), run);
  const std::string small = scratch.file("small.tape");
  run = runLong({tapebackProgram(), "reduce", "--json", tape, "--target", bad, "--against", "model:minnow",
                 "-o", small});
  REQUIRE_MESSAGE(run.exited(0), run);
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getBoolean("minimal") == true);
  CHECK(json.getInteger("packets").value_or(99) <= 30);
  RunResult again = replayOf(small, bad, true);
  CHECK_MESSAGE(again.exited(0), again);
  again = replayOf(small, "model:minnow", false);
  CHECK_MESSAGE(again.exited(1), again);
}
#endif
