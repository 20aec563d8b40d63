// The runner of black-box tests: if it lied, every test that uses it would.
#include "tests/support/RunProgram.h"
#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <thread>

using namespace tapeback::test;
using namespace std::chrono_literals;

namespace {

RunResult shell(const std::string &script, const RunOptions &options = {}) {
  return runProgram({"/bin/sh", "-c", script}, options);
}

} // namespace

TEST_CASE("exit code, output and errors are told apart") {
  RunResult result = shell("echo out; echo err >&2; exit 7");
  CHECK(result.exited(7));
  CHECK_FALSE(result.exited(0));
  CHECK(result.out == "out\n");
  CHECK(result.err == "err\n");
  CHECK(result.signal == 0);
  CHECK(result.command == "/bin/sh -c 'echo out; echo err >&2; exit 7'");
}

TEST_CASE("a signal is not an exit code") {
  RunResult result = shell("kill -SEGV $$");
  CHECK(result.signal == SIGSEGV);
  CHECK(result.exit == -1);
  for (int code = 0; code < 256; ++code)
    CHECK_FALSE(result.exited(code));
}

TEST_CASE("a sanitizer's fault is never an expected result") {
  RunResult result = shell("exit 86");
  CHECK(result.sanitizer);
  CHECK_FALSE(result.exited(86));
  CHECK(shell("case $ASAN_OPTIONS in *exitcode=86*) ;; *) exit 1;; esac").exited(0));
  RunOptions options;
  options.environment = {{"UBSAN_OPTIONS", "print_stacktrace=1"}};
  CHECK(shell("test \"$UBSAN_OPTIONS\" = print_stacktrace=1:exitcode=86", options).exited(0));
}

TEST_CASE("time is bounded, and what was started does not outlive the test") {
  RunOptions options;
  options.timeout = 200ms;
  RunResult result = shell("echo $$; sleep 1000 & echo $!; wait", options);
  CHECK(result.timedOut);
  CHECK_FALSE(result.exited(0));
  CHECK(result.elapsed < 20s);
  pid_t grandchild = 0;
  REQUIRE(sscanf(result.out.c_str(), "%*d %d", &grandchild) == 1);
  // Killed, and whoever inherited it has collected or will collect it: it is gone or a zombie, never running.
  auto running = [&] {
    try {
      std::string stat = readWholeFile("/proc/" + std::to_string(grandchild) + "/stat");
      return stat.find(") Z") == std::string::npos && stat.find(") X") == std::string::npos;
    } catch (const std::runtime_error &) {
      return false;
    }
  };
  for (auto until = std::chrono::steady_clock::now() + 10s;
       running() && std::chrono::steady_clock::now() < until;)
    std::this_thread::yield();
  CHECK_FALSE(running());
}

TEST_CASE("a program that exits while its child holds the pipe does not hang the test") {
  RunResult result = shell("sleep 1000 & echo done");
  CHECK(result.exited(0));
  CHECK(result.out == "done\n");
  CHECK(result.elapsed < 20s);
}

TEST_CASE("a flood of output ends the program, not the test") {
  RunOptions options;
  options.maxOutputBytes = 1 << 20;
  RunResult result = shell("yes", options);
  CHECK(result.tooMuch);
  CHECK(result.signal == SIGKILL);
  CHECK_FALSE(result.timedOut);
  CHECK(result.out.size() < (8u << 20));
}

TEST_CASE("input, directory and environment are the program's own") {
  RunOptions options;
  options.input = std::string(1 << 20, 'x');
  CHECK(shell("wc -c", options).out == "1048576\n");
  CHECK(shell("exit 0", options).exited(0)); // Who does not read its input does not kill us.
  CHECK(shell("cat").out.empty());
  options.input.clear();
  options.directory = "/";
  options.environment = {{"TAPEBACK_PROBE", "a b"}, {"HOME", ""}};
  CHECK(shell("pwd; echo \"$TAPEBACK_PROBE\"; echo ${HOME-none}", options).out == "/\na b\nnone\n");
}

TEST_CASE("output can be closed, full, or unread") {
  RunOptions options;
  options.outputTo = "closed";
  CHECK(shell("echo x", options).exit != 0);
  options.outputTo = "/dev/full";
  CHECK(shell("echo x", options).exit != 0);
  options.outputTo = "broken-pipe";
  CHECK(shell("/bin/echo x; kill -0 $$", options).exited(0)); // echo died of it, the shell did not.
  CHECK(runProgram({"/bin/echo", "x"}, options).signal == SIGPIPE);
}

TEST_CASE("a program that is not there is told from one that fails") {
  RunResult result = runProgram({"/nonexistent/program"});
  CHECK(result.exit == -1);
  CHECK(result.err.find("could not be started") != std::string::npos);
}

TEST_CASE("a scratch directory leaves nothing behind") {
  std::string path;
  {
    ScratchDirectory scratch;
    path = scratch.path();
    CHECK(scratch.names().empty());
    writeWholeFile(scratch.file("b"), std::string("\0x", 2));
    writeWholeFile(scratch.file("a"), "");
    CHECK(scratch.names() == std::vector<std::string>{"a", "b"});
    CHECK(readWholeFile(scratch.file("b")) == std::string("\0x", 2));
  }
  CHECK_THROWS(readWholeFile(path + "/b"));
}
