// Reducing as a user does it: a failing tape shrinks to the least that fails in the same way, which a replay
// reproduces, and which a C program made of it shows without a tape.
#include "tests/support/NeedQemu.h"
#include "tests/support/RunProgram.h"
#include "tests/support/Skip.h"
#include "llvm/Support/JSON.h"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sys/file.h>
#include <unistd.h>

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

struct Failing {
  explicit Failing(const std::string &target = faulty, unsigned ops = 60) {
    RunResult run = runProgram({tapebackProgram(), "record", "--json", "--target", target, "-o", tape(), "--",
                                TAPEBACK_BINARY_DIR "/bin/edu-exercise", "--seed", "3", "--ops",
                                std::to_string(ops), "--keep-going"});
    REQUIRE_MESSAGE(run.exited(0), run);
  }
  std::string tape() const { return scratch.file("run.tape"); }
  std::string small() const { return scratch.file("small.tape"); }
  RunResult reduce(const std::vector<std::string> &options = {}, const std::string &bad = faulty,
                   const std::string &good = sound) const {
    std::vector<std::string> command{tapebackProgram(), "reduce", "--json", tape(), "--target", bad,
                                     "--against",       good,     "-o",     small()};
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

std::string readAll(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string compile(const ScratchDirectory &scratch, const std::string &text) {
  std::string source = scratch.file("program.c"), program = scratch.file("program");
  std::ofstream(source) << text;
  RunResult compiled =
      runProgram({"/usr/bin/env", "cc", "-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror",
                  "-I" TAPEBACK_SOURCE_DIR "/recorder", source, "-o", program,
                  "-L" TAPEBACK_BINARY_DIR "/lib", "-Wl,-rpath," TAPEBACK_BINARY_DIR "/lib", "-ltapeback"});
  REQUIRE_MESSAGE(compiled.exited(0), compiled);
  return program;
}

/// The C program made of `tape`; the compiler's complaints are failures.
std::string cProgram(const ScratchDirectory &scratch, const std::string &tape) {
  std::string source = scratch.file("small.c");
  RunResult run =
      runProgram({tapebackProgram(), "export", "--json", tape, "--to", "c", "--force", "-o", source});
  REQUIRE_MESSAGE(run.exited(0), run);
  CHECK(jsonOf(run).getInteger("checks") == 1);
  return compile(scratch, readAll(source));
}

RunResult runOn(const std::string &program, const std::string &target) {
  return runProgram({"/usr/bin/env", "TAPEBACK_TARGET=" + target, program});
}

std::string rootOf(const std::string &tape) {
  RunResult info = runProgram({tapebackProgram(), "info", "--json", tape});
  return jsonOf(info).getString("root").value_or("none").str();
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
  RunResult info = runProgram({tapebackProgram(), "info", "--json", failing.small()});
  CHECK(info.out.find(rootOf(failing.tape())) != std::string::npos);
  RunResult again = runProgram({tapebackProgram(), "reduce", "--json", failing.small(), "--target", faulty,
                                "--against", sound, "-o", failing.scratch.file("again.tape")});
  REQUIRE_MESSAGE(again.exited(0), again);
  CHECK(jsonOf(again).getInteger("packets") == json.getInteger("packets"));
}

TEST_CASE("reduce against a quicker device: what is left still waits, and holds on no sound one") {
  TB_NEED_QEMU();
  Failing failing;
  RunResult run = failing.reduce({}, faulty, "qemu:edu");
  REQUIRE_MESSAGE(run.exited(0), run);
  CHECK(replayOf(failing.small(), faulty, true).exited(0));
  for (const char *target : {"model:edu", "qemu:edu"}) {
    RunResult replay = replayOf(failing.small(), target, true);
    CHECK_MESSAGE(replay.exited(1), replay);
  }
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
  RunResult run = failing.reduce();
  REQUIRE_MESSAGE(run.exited(0), run);
  std::string program = cProgram(failing.scratch, failing.small());
  RunResult bad = runOn(program, faulty);
  CHECK_MESSAGE(bad.exited(1), bad);
  CHECK(bad.err.find("check 'reduced' does not hold") != std::string::npos);
  RunResult good = runOn(program, sound);
  CHECK_MESSAGE(good.exited(0), good);

  // One whose failure hangs on what the host had waited for, in a way that no packet of what is left tells.
  Failing pair("model:edu?fault=pair", 60);
  run = pair.reduce({}, "model:edu?fault=pair");
  REQUIRE_MESSAGE(run.exited(0), run);
  std::string waiting = cProgram(pair.scratch, pair.small());
  bad = runOn(waiting, "model:edu?fault=pair");
  CHECK_MESSAGE(bad.exited(1), bad);
  good = runOn(waiting, sound);
  CHECK_MESSAGE(good.exited(0), good);

  // A program with another content than was wanted fails on the sound device, too.
  std::string wanted = readAll(failing.scratch.file("small.c"));
  size_t check = wanted.find("tb_check_memory(device, \"reduced\"");
  REQUIRE(check != std::string::npos);
  size_t content = wanted.find("bytes", check);
  std::string name = wanted.substr(content, wanted.find_first_of(" ,+", content) - content);
  size_t array = wanted.find(name + "[");
  REQUIRE(array != std::string::npos);
  size_t first = wanted.find("0x", array);
  wanted[first + 3] = wanted[first + 3] == '1' ? '2' : '1';
  std::string rebuilt = compile(failing.scratch, wanted);
  RunResult wrong = runOn(rebuilt, sound);
  CHECK_MESSAGE(wrong.exited(1), wrong);
}

TEST_CASE("export: what cannot be written so is refused") {
  Failing failing(sound, 2);
  RunResult run = runProgram(
      {tapebackProgram(), "export", "--json", failing.tape(), "--to", "pascal", "-o", failing.small()});
  CHECK_MESSAGE(run.exited(2), run);
}

TEST_CASE("reduce: killed at any moment it goes on, and nothing of the killed one is left in the end") {
  Failing failing;
  const std::vector<std::string> command{
      tapebackProgram(), "reduce", "--json", failing.tape(), "--target", faulty,
      "--against",       sound,    "-o",     failing.small()};
  std::mt19937 random(3);
  bool resumes = false;
  for (unsigned kills = 0; kills < 6; ++kills) {
    std::vector<std::string> present = command;
    if (resumes)
      present.push_back("--resume");
    else
      present.push_back("--force");
    RunOptions options;
    // Whenever that is: nothing depends on how far it was.
    options.timeout = std::chrono::milliseconds(20 + random() % 150);
    RunResult run = runProgram(present, options);
    if (run.exited(0))
      break;
    resumes = std::filesystem::exists(failing.small() + ".state");
    // What there is, is whole.
    if (std::filesystem::exists(failing.small())) {
      RunResult verified = runProgram({tapebackProgram(), "verify", failing.small()});
      CHECK_MESSAGE(verified.exited(0), verified);
    }
  }
  std::vector<std::string> last = command;
  last.push_back(resumes && std::filesystem::exists(failing.small() + ".state") ? "--resume" : "--force");
  RunResult run = runLong(last);
  REQUIRE_MESSAGE(run.exited(0), run);
  CHECK(jsonOf(run).getBoolean("minimal") == true);
  CHECK(jsonOf(run).getInteger("packets").value_or(99) <= 14);
  RunResult bad = replayOf(failing.small(), faulty, true);
  CHECK_MESSAGE(bad.exited(0), bad);
  std::set<std::string> left;
  for (const auto &entry : std::filesystem::directory_iterator(failing.scratch.path()))
    left.insert(entry.path().filename().string());
  CHECK(left == std::set<std::string>{"run.tape", "small.tape"});
}

TEST_CASE("reduce: into one output only one at a time") {
  Failing failing;
  // Who holds the lock: as a search that is under way does.
  std::string lock = failing.small() + ".state.lock";
  int held = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(held >= 0);
  REQUIRE(::flock(held, LOCK_EX | LOCK_NB) == 0);
  RunResult run = failing.reduce();
  CHECK_MESSAGE(run.exited(2), run);
  CHECK(jsonOf(run).getObject("error")->getString("code") == "already-being-written");
  CHECK(!std::filesystem::exists(failing.small()));
  // Dead, it holds nothing.
  ::close(held);
  run = failing.reduce();
  CHECK_MESSAGE(run.exited(0), run);
  CHECK(!std::filesystem::exists(lock));
}

TEST_CASE("reduce: a stream of NVMe commands that another medium answers otherwise") {
  TB_NEED_QEMU();
  ScratchDirectory scratch;
  const std::string bad = "qemu:nvme?medium=1M&pattern=zero", sound = "qemu:nvme?medium=1M&pattern=index",
                    tape = scratch.file("n.tape"), small = scratch.file("small.tape");
  RunResult run = runProgram({tapebackProgram(), "record", "--json", "--target", bad, "-o", tape, "--",
                              TAPEBACK_BINARY_DIR "/bin/nvme-exercise", "--seed", "11", "--ops", "2"});
  REQUIRE_MESSAGE(run.exited(0), run);
  // All of it takes minutes (tests/bench/ReduceFaults.py): each candidate has two machines of its own.
  run = runLong({tapebackProgram(), "reduce", "--json", tape, "--target", bad, "--against", sound, "-o",
                 small, "--max-runs", "5"});
  CHECK_MESSAGE(run.exited(5), run);
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getInteger("runs") == 5);
  CHECK_MESSAGE(json.getInteger("packets").value_or(0) < json.getInteger("packets_before").value_or(0), run);
  CHECK(replayOf(small, bad, true).exited(0));
  CHECK(replayOf(small, sound, true).exited(1));
}

#ifdef TAPEBACK_HAS_RTL
TEST_CASE("reduce: commands of queues move up, and doorbells say how many are left") {
  ScratchDirectory scratch;
  const std::string bad = "rtl:minnow?errata=dma-4k-last-beat", tape = scratch.file("m.tape");
  RunResult run = runProgram({tapebackProgram(), "record", "--json", "--target", bad, "-o", tape, "--",
                              TAPEBACK_BINARY_DIR "/bin/tests/minnow-errata", "dma-4k-last-beat", "--hit",
                              "3", "--late", "6"});
  REQUIRE_MESSAGE(run.exited(0), run);
  const std::string small = scratch.file("small.tape");
  std::vector<std::string> command{tapebackProgram(), "reduce",       "--json", tape, "--target", bad,
                                   "--against",       "model:minnow", "-o",     small};
  // Bounded it says so, and the best so far fails in the same way. (By time: replayer-trim.)
  std::vector<std::string> bounded = command;
  bounded.insert(bounded.end(), {"--max-runs", "10", "--max-seconds", "600"});
  run = runLong(bounded);
  CHECK_MESSAGE(run.exited(5), run);
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getBoolean("minimal") == false);
  CHECK_MESSAGE(json.getString("stopped").value_or("") == "after 10 runs, as asked", run);
  RunResult again = replayOf(small, bad, true);
  CHECK_MESSAGE(again.exited(0), again);
  command.push_back("--resume");
  run = runLong(command);
  REQUIRE_MESSAGE(run.exited(0), run);
  json = jsonOf(run);
  CHECK(json.getBoolean("minimal") == true);
  CHECK(json.getInteger("packets").value_or(99) <= 30);
  again = replayOf(small, bad, true);
  CHECK_MESSAGE(again.exited(0), again);
  // The erratum is what fails: without it the RTL does as the model.
  for (const char *sound : {"model:minnow", "rtl:minnow"}) {
    again = replayOf(small, sound, true);
    CHECK_MESSAGE(again.exited(1), again);
  }
  std::string program = cProgram(scratch, small);
  RunResult failed = runOn(program, bad);
  CHECK_MESSAGE(failed.exited(1), failed);
  RunResult held = runOn(program, "model:minnow");
  CHECK_MESSAGE(held.exited(0), held);
}

TEST_CASE("reduce: a hang is the failure, and the program made of it hangs, too") {
  ScratchDirectory scratch;
  const std::string bad = "rtl:minnow?errata=wrap-full-hang", tape = scratch.file("m.tape"),
                    small = scratch.file("small.tape");
  RunResult run =
      runProgram({tapebackProgram(), "record", "--json", "--target", bad, "-o", tape, "--",
                  TAPEBACK_BINARY_DIR "/bin/tests/minnow-errata", "wrap-full-hang", "--hit", "5"});
  REQUIRE_MESSAGE(run.exited(0), run);
  run = runLong({tapebackProgram(), "reduce", "--json", tape, "--target", bad, "--against", "model:minnow",
                 "-o", small});
  REQUIRE_MESSAGE(run.exited(0), run);
  CHECK(jsonOf(run).getInteger("packets").value_or(99) <= 30);
  CHECK(replayOf(small, bad, true).exited(0));
  std::string program = cProgram(scratch, small);
  RunResult failed = runOn(program, bad);
  CHECK_MESSAGE(failed.exited(1), failed);
  for (const char *sound : {"model:minnow", "rtl:minnow"}) {
    CHECK(!replayOf(small, sound, true).exited(0));
    RunResult held = runOn(program, sound);
    CHECK_MESSAGE(held.exited(0), held);
  }
}
#endif
