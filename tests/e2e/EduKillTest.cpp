// Kills, on the real thing: the recorded program at random moments, the recorder, and QEMU in the middle of a
// replay.
#include "format/Text.h"
#include "tests/support/NeedQemu.h"
#include "tests/support/RunProgram.h"
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>
#include <thread>

using namespace tapeback;
using namespace tapeback::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

RunResult runTapeback(std::vector<std::string> arguments, milliseconds timeout = seconds(120)) {
  arguments.insert(arguments.begin(), tapebackProgram());
  RunOptions options;
  options.timeout = timeout;
  return runProgram(arguments, options);
}

/// Waits (bounded) until `condition` holds; what it waits for happens in another process, so it looks again
/// and again.
template <typename Condition>
bool eventually(Condition condition, milliseconds bound = seconds(30)) {
  auto end = std::chrono::steady_clock::now() + bound;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

pid_t pidIn(const std::string &file) {
  std::ifstream in(file);
  pid_t pid = 0;
  in >> pid;
  return in && !in.eof() ? pid : 0; // The line is complete once its newline can be read too.
}

/// The process that the file names now. (0 would be this test's own group.)
pid_t killProcessIn(const std::string &file) {
  pid_t pid = 0;
  REQUIRE(eventually([&] { return (pid = pidIn(file)) > 1; }));
  ::kill(pid, SIGKILL);
  return pid;
}

/// Runs edu-exercise under `record`; its process id is in `pidFile` before it opens the device.
std::future<RunResult> recordInBackground(const std::string &target, const std::string &tape,
                                          const std::string &pidFile, uint64_t operations) {
  std::vector<std::string> command = {"record",   "--json",
                                      "--target", target,
                                      "-o",       tape,
                                      "--",       "sh",
                                      "-c",       "echo $$ > \"$0\"; exec \"$@\"",
                                      pidFile,    buildProgram("edu-exercise"),
                                      "--ops",    std::to_string(operations)};
  return std::async(std::launch::async, [command] { return runTapeback(command); });
}

void checkReplays(const std::string &tape, const std::string &scratch) {
  std::string recovered = scratch + "/recovered.tape";
  std::filesystem::remove(recovered);
  RunResult recover = runTapeback({"recover", tape, "-o", recovered});
  CHECK_MESSAGE((recover.exited(0) || recover.exited(5)), recover);
  RunResult verify = runTapeback({"verify", recovered});
  CHECK_MESSAGE(verify.exited(0), verify);
  // Killed before it opened the device: there is nothing to replay, and the tape says so.
  RunResult info = runTapeback({"info", recovered, "--json"});
  CHECK_MESSAGE(info.exited(0), info);
  llvm::Expected<llvm::json::Value> facts = parseJson(info.out, "info");
  REQUIRE(bool(facts));
  if (facts->getAsObject()->getInteger("packets").value_or(-1) == 0)
    return;
  // What was under way at the kill has no answer to compare with, and what a dead recorder never saw is a
  // loss: the honest verdict is then "incomplete". Everything that was captured must be the same.
  RunResult replay = runTapeback({"replay", recovered, "--target", "model:edu", "--json"});
  CHECK_MESSAGE((replay.exited(0) || replay.exited(5)), replay);
  llvm::Expected<llvm::json::Value> json = parseJson(replay.out, "replay", {64u << 20, 64});
  REQUIRE(bool(json));
  const llvm::json::Object *grades = json->getAsObject()->getObject("grades");
  REQUIRE(grades);
  for (const char *bad : {"mismatch", "order-violation", "timeout", "target-error", "consequential"})
    CHECK_MESSAGE(grades->getInteger(bad).value_or(-1) == 0, bad, replay);
  CHECK(grades->getInteger("not-captured").value_or(99) <= 2);
}

} // namespace

TEST_CASE("the recorded program killed at 50 random moments leaves a tape that verifies and replays") {
  ScratchDirectory scratch;
  std::mt19937 random(
      5); // Fixed, so that a failure can be looked for again; the moments differ by scheduling anyway.
  unsigned died = 0;
#ifdef TAPEBACK_SANITIZED
  constexpr int kills = 10;
#else
  constexpr int kills = 50;
#endif
  for (int i = 0; i < kills; ++i) {
    CAPTURE(i);
    std::string tape = scratch.file("k.tape"), pidFile = scratch.file("pid");
    std::filesystem::remove(tape);
    std::filesystem::remove(pidFile);
    std::future<RunResult> recording = recordInBackground("model:edu", tape, pidFile, 20'000);
    REQUIRE(eventually([&] { return pidIn(pidFile) != 0; }));
    std::this_thread::sleep_for(milliseconds(random() % 400)); // The random moment itself.
    killProcessIn(pidFile);
    RunResult result = recording.get();
    REQUIRE_MESSAGE((result.exited(0) || result.exited(5)), result);
    llvm::Expected<llvm::json::Value> json = parseJson(result.out, "record");
    REQUIRE(bool(json));
    const llvm::json::Object *program = json->getAsObject()->getObject("program");
    REQUIRE(program);
    died += program->getInteger("signal").value_or(0) == SIGKILL;
    checkReplays(tape, scratch.path());
  }
  CHECK(died == kills); // None has the time to come to its end.
}

TEST_CASE("the recorder killed leaves a partial tape that recovers and replays") {
  ScratchDirectory scratch;
  std::mt19937 random(6);
  for (int i = 0; i < 6; ++i) {
    CAPTURE(i);
    std::string tape = scratch.file("r.tape"), pidFile = scratch.file("pid");
    std::filesystem::remove(pidFile);
    std::filesystem::remove(tape + ".partial");
    std::future<RunResult> recording = recordInBackground("model:edu", tape, pidFile, 100'000);
    REQUIRE(eventually([&] { return pidIn(pidFile) != 0; }));
    pid_t program = pidIn(pidFile);
    std::ifstream status("/proc/" + std::to_string(program) + "/stat");
    std::string line;
    std::getline(status, line);
    pid_t recorder = 0;
    // "PID (NAME) STATE PPID …"; sh's name has no parenthesis.
    REQUIRE(std::sscanf(line.c_str() + line.rfind(')'), ") %*c %d", &recorder) == 1);
    REQUIRE(eventually([&] { return std::filesystem::exists(tape + ".partial"); }));
    std::this_thread::sleep_for(milliseconds(1100 + random() % 500)); // Past the first periodic flush.
    REQUIRE((recorder > 1 && program > 1));
    ::kill(recorder, SIGKILL);
    ::kill(program, SIGKILL);
    recording.get();
    CHECK_FALSE(std::filesystem::exists(tape));
    REQUIRE(std::filesystem::exists(tape + ".partial"));
    checkReplays(tape + ".partial", scratch.path());
  }
}

TEST_CASE("QEMU killed in the middle of a replay: exit 4 in bounded time, with the packet named") {
  TB_NEED_QEMU();
  ScratchDirectory scratch;
  std::string tape = scratch.file("q.tape");
  RunResult made = runTapeback(
      {"record", "--target", "model:edu", "-o", tape, "--", buildProgram("edu-exercise"), "--ops", "40000"});
  REQUIRE_MESSAGE(made.exited(0), made);
  // A qemu of our own name, so that the test kills this one and no other. A reset starts it anew: the file is
  // there with a number in it at any time. Who only asks for the version is not the one to kill.
  std::string pidFile = scratch.file("qemu-pid"), wrapper = scratch.file("qemu-wrapper");
  writeWholeFile(wrapper, "#!/bin/sh\n"
                          "[ \"$1\" = --version ] || { echo $$ > '" +
                              pidFile + "'.$$ && mv '" + pidFile + "'.$$ '" + pidFile +
                              "'; }\nexec qemu-system-x86_64 \"$@\"\n");
  std::filesystem::permissions(wrapper, std::filesystem::perms::owner_all);
  unsigned intoTheReplay = 0;
  // On a busy machine the first ones meet QEMU while it starts.
  for (int wait : {0, 200, 700, 2000, 5000, 15000, 40000}) {
    CAPTURE(wait);
    std::filesystem::remove(pidFile);
    auto replay = std::async(std::launch::async, [&] {
      return runTapeback({"replay", tape, "--target", "qemu:edu?qemu=" + wrapper, "--json"});
    });
    REQUIRE(eventually([&] { return pidIn(pidFile) != 0; }));
    std::this_thread::sleep_for(milliseconds(300 + wait)); // Into the replay.
    const pid_t killed = killProcessIn(pidFile);
    RunResult result = replay.get();
    if (result.exited(0) && pidIn(pidFile) != killed)
      continue; // It met the one that the reset was just replacing; the replay had another.
    CHECK_MESSAGE(result.exited(4), result); // In time: it would be killed after two minutes.
    llvm::Expected<llvm::json::Value> json = parseJson(result.out, "replay", {64u << 20, 64});
    REQUIRE(bool(json));
    CHECK(json->getAsObject()->getString("verdict").value_or("") == "error");
    const llvm::json::Object *error = json->getAsObject()->getObject("error");
    REQUIRE(error);
    CHECK(error->getString("code").value_or("") == "target-died");
    llvm::StringRef where = error->getString("where").value_or("");
    CHECK_MESSAGE((where.contains("packet ") || where.contains("qemu:edu")), result);
    intoTheReplay += where.contains("packet ");
    if (intoTheReplay == 3)
      break;
  }
  CHECK(intoTheReplay > 0);
}
