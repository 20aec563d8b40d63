// The keeper of a process: starting, words, fate, killing.
#include "hal/qemu/QemuProcess.h"
#include "tests/hal/qemu/EduDriver.h"
#include "tests/hal/qemu/Processes.h"
#include <csignal>

using namespace tapeback;
using namespace tapeback::test;

namespace {

std::unique_ptr<QemuProcess> shell(const std::string &script) {
  QemuLaunch launch;
  launch.program = "/bin/sh";
  launch.arguments = {"-c", script};
  return must(QemuProcess::start(launch));
}

constexpr uint64_t long_ = 10 * second;

} // namespace

TEST_CASE("words and fate of a process are complete once it has ended") {
  auto process = shell("echo out; echo err >&2; exit 7");
  REQUIRE(process->waitEnd(long_));
  CHECK(process->ended());
  CHECK(process->output() == "out\nerr\n");
  CHECK(process->fate() == "exited with code 7");
  auto good = shell("exit 0");
  REQUIRE(good->waitEnd(long_));
  CHECK(good->fate() == "exited with code 0");
  auto killed = shell("kill -TERM $$");
  REQUIRE(killed->waitEnd(long_));
  CHECK(killed->fate() == "was killed by signal 15 (Terminated)");
}

TEST_CASE("a process that goes on can be waited for in bounds, and killed") {
  auto process = shell("exec sleep 60");
  CHECK(process->fate() == "is still running");
  CHECK(!process->waitEnd(1'000'000));
  process->kill();
  REQUIRE(process->waitEnd(long_));
  CHECK(process->fate() == "was killed by signal 9 (Killed)");
  process->kill(); // Harmless.
}

TEST_CASE("destruction kills and collects") {
  pid_t child = 0;
  {
    auto process = shell("exec sleep 60");
    REQUIRE(eventually([] { return childrenNamed(::getpid(), "sleep").size() == 1; }));
    child = childrenNamed(::getpid(), "sleep")[0];
  }
  CHECK(processStat(child).state == 0); // Not even a zombie.
}

TEST_CASE("what a script started goes with it, killed or ended by itself") {
  for (const char *script : {"sleep 60 & echo $!; wait", "sleep 60 & echo $!"}) {
    pid_t grandchild = 0;
    {
      auto process = shell(script);
      REQUIRE(eventually([&] {
        grandchild = pid_t(std::strtol(process->output().c_str(), nullptr, 10));
        return grandchild > 0;
      }));
    }
    CHECK(eventually(
        [&] { return processStat(grandchild).state == 0 || processStat(grandchild).state == 'Z'; }));
  }
}

TEST_CASE("only the tail of endless words is kept, and they do not block the process") {
  auto process = shell("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo last >&2");
  REQUIRE(process->waitEnd(6 * long_));
  CHECK(process->fate() == "exited with code 0");
  CHECK(process->output().size() <= 8192);
  CHECK(llvm::StringRef(process->output()).ends_with("line 19999\nlast\n"));
}

TEST_CASE("a process starts with default signals and none blocked") {
  auto before = ::signal(SIGPIPE, SIG_IGN);
  sigset_t some, old;
  sigemptyset(&some);
  sigaddset(&some, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &some, &old);
  auto process = shell("grep -E '^Sig(Blk|Ign)' /proc/self/status");
  ::sigprocmask(SIG_SETMASK, &old, nullptr);
  ::signal(SIGPIPE, before);
  REQUIRE(process->waitEnd(long_));
  CHECK(process->output() == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("what cannot be executed is an error of start") {
  QemuLaunch launch;
  launch.program = "/nowhere/at/all";
  Failure failure = failureOf(QemuProcess::start(launch));
  CHECK(failure.code == "target-died");
  CHECK(failure.message == "cannot run '/nowhere/at/all': No such file or directory");
  launch.program = "/etc";
  CHECK(failureOf(QemuProcess::start(launch)).message == "cannot run '/etc': Permission denied");
}

TEST_CASE("descriptors arrive in order from 3 on") {
  int first[2], second[2];
  REQUIRE(::pipe(first) == 0);
  REQUIRE(::pipe(second) == 0);
  QemuLaunch launch;
  launch.program = "/bin/sh";
  launch.arguments = {"-c", "echo one >&3; echo two >&4"};
  launch.descriptors = {second[1], first[1]};
  auto process = must(QemuProcess::start(launch));
  REQUIRE(process->waitEnd(long_));
  char buffer[8] = {};
  CHECK(::read(second[0], buffer, sizeof buffer) == 4);
  CHECK(llvm::StringRef(buffer, 4) == "one\n");
  CHECK(::read(first[0], buffer, sizeof buffer) == 4);
  CHECK(llvm::StringRef(buffer, 4) == "two\n");
  for (int fd : {first[0], first[1], second[0], second[1]})
    ::close(fd);
}

TEST_CASE("many at once, each with its own keeper") {
  std::vector<std::unique_ptr<QemuProcess>> processes;
  for (int i = 0; i < 20; ++i)
    processes.push_back(shell("exit " + std::to_string(i)));
  for (int i = 0; i < 20; ++i) {
    REQUIRE(processes[size_t(i)]->waitEnd(long_));
    CHECK(processes[size_t(i)]->fate() == "exited with code " + std::to_string(i));
  }
}
