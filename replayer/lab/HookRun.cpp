#include "replayer/lab/HookRun.h"
#include "format/Failure.h"
#include "replayer/Waiting.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tapeback {
namespace {

constexpr size_t keptHookOutput = 64 << 10;

llvm::Error hookSystemFailure(const Hook &hook, const char *what, int error) {
  return failSystem("cannot-run-hook", std::string(what) + ": " + std::strerror(error), "hook " + hook.text(),
                    "see that the command is there and may be executed");
}

std::vector<std::string> environmentWith(const std::map<std::string, std::string> &variables) {
  std::vector<std::string> result;
  for (char **one = environ; one && *one; ++one) {
    std::string entry = *one;
    if (!variables.count(entry.substr(0, entry.find('='))))
      result.push_back(std::move(entry));
  }
  for (const auto &[name, value] : variables) {
    std::string entry = name;
    entry += '=';
    entry += value;
    result.push_back(std::move(entry));
  }
  return result;
}

std::vector<char *> pointersTo(std::vector<std::string> &words) {
  std::vector<char *> result;
  for (std::string &word : words)
    result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

/// A started command and the pipe that its output comes by. Kills the group and collects the child when
/// destroyed.
struct RunningHook {
  pid_t child = -1;
  int output = -1, handle = -1;
  bool collected = false;
  RunningHook() = default;
  RunningHook(const RunningHook &) = delete;
  RunningHook &operator=(const RunningHook &) = delete;
  ~RunningHook() {
    if (child > 0 && !collected) {
      ::kill(-child, SIGKILL);
      while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR)
        ;
    }
    for (int fd : {output, handle})
      if (fd >= 0)
        ::close(fd);
  }
};

llvm::Error startHook(const Hook &hook, const std::map<std::string, std::string> &variables,
                      RunningHook &running) {
  int pipes[2];
  if (::pipe2(pipes, O_CLOEXEC) != 0)
    return hookSystemFailure(hook, "pipe", errno);
  running.output = pipes[0];
  ::fcntl(running.output, F_SETFL, O_NONBLOCK);
  // Above the descriptors that are set up in the child.
  int theirs = ::fcntl(pipes[1], F_DUPFD_CLOEXEC, 10);
  int dupError = errno;
  ::close(pipes[1]);
  if (theirs < 0)
    return hookSystemFailure(hook, "fcntl", dupError);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, theirs, 1);
  ::posix_spawn_file_actions_adddup2(&actions, theirs, 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> words = hook.run, settings = environmentWith(variables);
  int error = ::posix_spawn(&running.child, hook.run[0].c_str(), &actions, &attributes,
                            pointersTo(words).data(), pointersTo(settings).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(theirs);
  if (error) {
    running.child = -1;
    return hookSystemFailure(hook, hook.run[0].c_str(), error);
  }
  // Says when the command has ended, whoever still holds its output.
  running.handle = int(::syscall(SYS_pidfd_open, running.child, 0));
  return running.handle < 0 ? hookSystemFailure(hook, "pidfd_open", errno) : llvm::Error::success();
}

/// False at the end of the output.
bool readOutput(RunningHook &running, HookResult &result) {
  char piece[4096];
  for (;;) {
    ssize_t got = ::read(running.output, piece, sizeof piece);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 && errno == EAGAIN;
    result.output.append(piece, size_t(got));
    if (result.output.size() > 2 * keptHookOutput) {
      result.output.erase(0, result.output.size() - keptHookOutput);
      result.outputCut = true;
    }
  }
}

} // namespace

std::string HookResult::fate() const {
  if (timedOut)
    return "took too long and was killed";
  if (signal)
    return "was killed by signal " + std::to_string(signal);
  return "exited with " + std::to_string(exit);
}

llvm::Expected<HookResult> runHook(const Hook &hook, const std::map<std::string, std::string> &variables) {
  HookResult result;
  result.name = hook.name;
  result.command = hook.run;
  RunningHook running;
  HostTimer timer;
  if (llvm::Error error = startHook(hook, variables, running))
    return error;
  const uint64_t limit = hook.timeoutSeconds * 1'000'000'000;
  bool more = true, ended = false;
  while (!ended && timer.elapsed() < limit) {
    pollfd waits[2] = {{running.handle, POLLIN, 0}, {more ? running.output : -1, POLLIN, 0}};
    uint64_t left = (limit - std::min(limit, timer.elapsed())) / 1'000'000 + 1;
    if (::poll(waits, 2, int(std::min<uint64_t>(left, 1'000'000))) < 0 && errno != EINTR)
      return hookSystemFailure(hook, "poll", errno);
    more = more && readOutput(running, result);
    ended = waits[0].revents != 0;
  }
  if (!ended) {
    result.timedOut = true;
    ::kill(-running.child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(running.child, &status, 0) < 0)
    if (errno != EINTR)
      return hookSystemFailure(hook, "waitpid", errno);
  running.collected = true;
  if (more)
    readOutput(running, result);
  if (WIFEXITED(status) && !result.timedOut)
    result.exit = WEXITSTATUS(status);
  else if (WIFSIGNALED(status))
    result.signal = WTERMSIG(status);
  if (result.output.size() > keptHookOutput) {
    result.output.erase(0, result.output.size() - keptHookOutput);
    result.outputCut = true;
  }
  result.hostTime = timer.elapsed();
  return result;
}

llvm::Error runHooks(llvm::ArrayRef<const Hook *> hooks, const std::map<std::string, std::string> &variables,
                     std::vector<HookResult> &results) {
  for (const Hook *hook : hooks) {
    std::map<std::string, std::string> all = variables;
    all["TAPEBACK_HOOK"] = hook->name;
    llvm::Expected<HookResult> result = runHook(*hook, all);
    if (!result)
      return result.takeError();
    results.push_back(std::move(*result));
    const HookResult &last = results.back();
    if (last.ok())
      continue;
    std::string said = last.output.substr(last.output.size() > 400 ? last.output.size() - 400 : 0);
    return failTarget("hook-failed", "the lab's " + hook->name + " " + last.fate(), "hook " + hook->text(),
                      said.empty() ? "it said nothing" : "it said: " + said);
  }
  return llvm::Error::success();
}

} // namespace tapeback
