// A recording in the background, to be killed, stopped and waited for.
#pragma once

#include "tests/recorder/Recording.h"
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <pty.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace tapeback::test {

/// In a child that becomes a recorder: as at a terminal. A shell starts its background jobs with these
/// ignored, and so would what is recorded, which then outlives a test's SIGINT.
inline void heedInterrupts() {
  signal(SIGINT, SIG_DFL);
  signal(SIGQUIT, SIG_DFL);
}

inline bool within(double seconds, const std::function<bool()> &condition) {
  for (auto start = std::chrono::steady_clock::now(); !condition();) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Rings of this test program alone: other programs' recorders take away what a killed recorder left, in
/// time. In shared memory if there is some, and removed at the end.
class OwnRings {
public:
  OwnRings() {
    for (std::string pattern : {"/dev/shm/tapeback-test-XXXXXX", "/tmp/tapeback-test-XXXXXX"})
      if (folder.empty() && mkdtemp(pattern.data()))
        folder = pattern;
    setenv("TAPEBACK_RING_DIRECTORY", folder.c_str(), 1);
  }
  ~OwnRings() {
    std::error_code ignored; // The system's temporary files are cleaned by others, too.
    std::filesystem::remove_all(folder, ignored);
  }

private:
  std::string folder;
};
inline const OwnRings ownRings;

/// Starts a recorder as the leader of a session with a terminal of its own, whose other end is `terminal`.
inline pid_t startOnTerminal(std::vector<std::string> command, int &terminal) {
  std::vector<char *> arguments;
  for (std::string &word : command)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t recorder = forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(recorder >= 0);
  if (recorder == 0) {
    heedInterrupts();
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  return recorder;
}

/// A recorder started in the background. Whatever it leaves behind becomes our child, and is waited for and
/// counted.
class Background {
public:
  Background(const std::vector<std::string> &command, const std::string &outputs) : outputs(outputs) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::vector<char *> arguments;
    for (const std::string &word : command)
      arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    // Made before the fork: waitFor() reads one at once.
    int out = open((outputs + ".out").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    int err = open((outputs + ".err").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    REQUIRE(out >= 0);
    REQUIRE(err >= 0);
    recorder = fork();
    REQUIRE(recorder >= 0);
    if (recorder == 0) {
      dup2(out, 1);
      dup2(err, 2);
      setpgid(0, 0);
      heedInterrupts();
      execv(arguments[0], arguments.data());
      _exit(127);
    }
    close(out);
    close(err);
  }
  ~Background() {
    if (recorder > 0)
      kill(recorder, SIGKILL);
    if (program > 0)
      kill(program, SIGKILL);
    leftBehind(20);
  }

  std::string errors() const { return readWholeFile(outputs + ".err"); }
  RunResult result() const {
    RunResult run;
    run.out = readWholeFile(outputs + ".out");
    return run;
  }
  /// Waits until the program says that it is where the test wants it.
  bool waitFor(const std::string &text) {
    return within(60, [&] { return errors().find(text) != std::string::npos; }) && findProgram();
  }
  /// Waits until the process that plays the device uses up time: it is idle but in an access that does not
  /// come back.
  bool waitForTheDeviceToLoop() const {
    pid_t host = 0;
    std::error_code error;
    for (const auto &task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(program) + "/task", error))
      if (std::ifstream children(task.path() / "children"); host <= 0)
        children >> host;
    if (host <= 0)
      return false;
    auto used = [&] {
      // "PID (NAME) STATE …": the time in user space is the 12th number after the name.
      std::string line = readWholeFile("/proc/" + std::to_string(host) + "/stat");
      std::istringstream rest(line.substr(line.rfind(')') + 2));
      std::string field;
      for (int i = 0; i < 12; ++i)
        rest >> field;
      return std::atol(field.c_str());
    };
    long before = used();
    return within(60, [&] { return used() >= before + 5; });
  }
  /// Waits for the recorder's end; its exit code, or -signal, or -1000 if it takes too long, or -2000 if
  /// somebody else has waited for it.
  int waitRecorder(double seconds = 60) { return waitPid(recorder, seconds); }
  int waitProgram(double seconds = 60) { return waitPid(program, seconds); }
  /// Waits until no process is left that came from here; how many had to be waited for in vain.
  unsigned leftBehind(double seconds) {
    unsigned left = 0;
    within(seconds, [&] {
      int status;
      while (waitpid(-1, &status, WNOHANG) > 0)
        ;
      left = errno == ECHILD ? 0 : 1;
      return left == 0;
    });
    return left;
  }

  bool findProgram() {
    std::ifstream children("/proc/" + std::to_string(recorder) + "/task/" + std::to_string(recorder) +
                           "/children");
    return bool(children >> program);
  }
  pid_t recorder = -1, program = -1;

private:
  static int waitPid(pid_t &pid, double seconds) {
    int status = 0;
    pid_t got = 0;
    if (!within(seconds, [&] { return (got = waitpid(pid, &status, WNOHANG)) != 0; }))
      return -1000;
    pid = -1;
    if (got < 0)
      return -2000;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string outputs;
};

} // namespace tapeback::test
