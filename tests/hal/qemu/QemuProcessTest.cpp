// The keeper of a process: starting, words, fate, killing.
#include "hal/qemu/QemuProcess.h"
#include "tests/hal/qemu/EduDriver.h"
#include "tests/hal/qemu/Processes.h"
#include "tests/support/RunProgram.h"
#include <csignal>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

std::unique_ptr<QemuProcess> shell(const std::string &script) {
  QemuLaunch launch;
  launch.program = "/bin/sh";
  launch.arguments = {"-c", script};
  return must(QemuProcess::start(launch));
}

/// A script in a file: a process stands between it and us.
class ScriptFile {
public:
  explicit ScriptFile(const std::string &body) {
    std::ofstream(path()) << "#!/bin/sh\n" << body << "\n";
    REQUIRE(::chmod(path().c_str(), 0700) == 0);
  }
  std::string path() const { return scratch.path() + "/script"; }
  QemuLaunch launch() const {
    QemuLaunch launch;
    launch.program = path();
    return launch;
  }

private:
  ScratchDirectory scratch;
};

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

TEST_CASE("a script in a file has its words and its fate") {
  for (auto [body, fate] : {std::pair("echo $#; exit 7", "exited with code 7"),
                            {"exit 0", "exited with code 0"},
                            {"kill -TERM $$", "was killed by signal 15 (Terminated)"},
                            {"kill -KILL $$", "was killed by signal 9 (Killed)"}}) {
    CAPTURE(body);
    ScriptFile script(body);
    auto process = must(QemuProcess::start(script.launch()));
    REQUIRE(process->waitEnd(long_));
    CHECK(process->fate() == fate);
    CHECK(process->output() == (std::string(body).find("echo") == 0 ? "0\n" : ""));
  }
  ScriptFile endless("exec sleep 60");
  auto process = must(QemuProcess::start(endless.launch()));
  process->kill();
  REQUIRE(process->waitEnd(long_));
  CHECK(process->fate() == "was killed by signal 9 (Killed)");
}

TEST_CASE("what a script started goes when its owner is killed") {
  ScriptFile script("sleep 60 &\necho $!\nwait");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  pid_t owner = ::fork();
  REQUIRE(owner >= 0);
  if (owner == 0) {
    llvm::Expected<std::unique_ptr<QemuProcess>> process = QemuProcess::start(script.launch());
    pid_t started = 0;
    if (process && eventually([&] { return (*process)->output().find('\n') != std::string::npos; }))
      started = pid_t(std::strtol((*process)->output().c_str(), nullptr, 10));
    if (::write(ends[1], &started, sizeof started) == ssize_t(sizeof started))
      ::pause();
    ::_exit(1);
  }
  pid_t started = 0;
  CHECK(::read(ends[0], &started, sizeof started) == ssize_t(sizeof started));
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(started > 0);
  CHECK(!isGone(started));
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  bool gone = eventually([&] { return isGone(started); });
  CHECK(gone);
  if (!gone && started > 0)
    ::kill(started, SIGKILL);
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
