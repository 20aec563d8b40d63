#include "hal/model/HostProcess.h"
#include "format/Failure.h"
#include "hal/model/HostProtocol.h"
#include "llvm/ADT/StringExtras.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tapeback {
namespace {

constexpr size_t keptOutput = 4096;
constexpr size_t shownOutput = 600;
constexpr uint64_t graceMs = 2000;

llvm::Error systemFailure(const char *what) {
  return failSystem("cannot-start-host", std::string(what) + ": " + std::strerror(errno),
                    "model host process");
}

/// Above the descriptors that are set up in the child, so that setting up one does not close another.
int moveAway(int fd) {
  if (fd < 0)
    return fd;
  int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, 10);
  ::close(fd);
  return moved;
}

void closeIfOpen(int &fd) {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

} // namespace

uint64_t HostProcess::nowNs() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

llvm::Error HostProcess::start(const std::string &program, int memory) {
  int channels[2], pipes[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channels) != 0)
    return systemFailure("socketpair");
  channelEnd = channels[0];
  int theirChannel = moveAway(channels[1]);
  if (::pipe2(pipes, O_CLOEXEC) != 0) {
    llvm::Error error = systemFailure("pipe");
    closeIfOpen(theirChannel);
    return error;
  }
  output = pipes[0];
  ::fcntl(output, F_SETFL, O_NONBLOCK);
  int theirOutput = moveAway(pipes[1]);
  int theirMemory = ::fcntl(memory, F_DUPFD_CLOEXEC, 10);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, theirOutput, 1);
  ::posix_spawn_file_actions_adddup2(&actions, theirOutput, 2);
  ::posix_spawn_file_actions_adddup2(&actions, theirChannel, modelhost::channelFd);
  ::posix_spawn_file_actions_adddup2(&actions, theirMemory, modelhost::memoryFd);
  // Whatever the surrounding program has open without close-on-exec is none of the plugin's business.
  ::posix_spawn_file_actions_addclosefrom_np(&actions, modelhost::memoryFd + 1);

  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  // A group of its own: Ctrl-C at the terminal is ours to handle.
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  owner = ::getpid();
  std::string parent = std::to_string(owner), name = "tapeback-model-host";
  char *arguments[] = {name.data(), parent.data(), nullptr};
  int result = theirChannel < 0 || theirOutput < 0 || theirMemory < 0
                   ? errno
                   : ::posix_spawn(&child, program.c_str(), &actions, &attributes, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  closeIfOpen(theirChannel);
  closeIfOpen(theirOutput);
  closeIfOpen(theirMemory);
  if (result != 0) {
    child = -1;
    errno = result;
    return systemFailure(program.c_str());
  }
  // Says when the child is gone even if a process of the plugin's own making still holds the channel open.
  handle = int(::syscall(SYS_pidfd_open, child, 0));
  if (handle < 0) {
    llvm::Error error = systemFailure("pidfd_open");
    finish();
    return error;
  }
  return llvm::Error::success();
}

HostProcess::Event HostProcess::wait(uint64_t deadlineNs) {
  while (true) {
    pollfd watched[] = {{channelEnd, POLLIN, 0}, {handle, POLLIN, 0}, {output, POLLIN, 0}};
    uint64_t now = nowNs();
    uint64_t leftMs = deadlineNs > now ? (deadlineNs - now + 999999) / 1000000 : 0;
    int ready = ::poll(watched, 3, int(std::min<uint64_t>(leftMs, 1u << 30)));
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready < 0)
      return Event::Death; // Our own descriptors are gone: nothing can be heard any more.
    if (watched[2].revents & POLLIN)
      drainOutput();
    else if (watched[2].revents)
      closeIfOpen(output); // The child closed its output; poll must not wake for it again.
    if (watched[0].revents & POLLIN)
      return Event::Message;
    if (watched[0].revents || watched[1].revents)
      return Event::Death;
    if (ready == 0 && nowNs() >= deadlineNs)
      return Event::Timeout;
  }
}

void HostProcess::drainOutput() {
  char buffer[4096];
  // Bounded: a child that prints faster than we read does not keep us here.
  for (int turn = 0; turn < 64 && output >= 0; ++turn) {
    ssize_t got = ::read(output, buffer, sizeof buffer);
    if (got <= 0)
      return;
    tail.append(buffer, size_t(got));
    if (tail.size() > 2 * keptOutput)
      tail.erase(0, tail.size() - keptOutput);
  }
}

bool HostProcess::reap(bool block, int *status) {
  while (true) {
    // Processes of the plugin's own making go with it. While the child is not reaped, its group's number is
    // still its.
    siginfo_t info{};
    if (::waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT | (block ? 0 : WNOHANG)) == 0 &&
        info.si_pid == child)
      ::kill(-child, SIGKILL);
    pid_t got = ::waitpid(child, status, block ? 0 : WNOHANG);
    if (got == child)
      return true;
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      *status = -1; // Somebody else reaped it, or SIGCHLD is ignored: gone, with a fate unknown.
    return got < 0;
  }
}

std::string HostProcess::finish() {
  if (!fate.empty() || child < 0)
    return fate;
  int status = 0;
  if (!reap(false, &status)) {
    // By handle: the number may belong to another process by now.
    if (handle < 0 || ::syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0) != 0)
      ::kill(child, SIGKILL);
    reap(true, &status);
  }
  drainOutput();
  if (status == -1)
    fate = "ended, how is not known";
  else if (WIFSIGNALED(status))
    fate = "was killed by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) +
           ")";
  else
    fate = "left with exit code " + std::to_string(WEXITSTATUS(status));
  return fate;
}

std::string HostProcess::lastWords() const {
  llvm::StringRef words = llvm::StringRef(tail).rtrim();
  if (words.size() > shownOutput)
    words = words.take_back(shownOutput);
  std::string line;
  for (unsigned char c : words) {
    if (c == '\n')
      line += " / ";
    else
      line += c >= 0x20 && c < 0x7f ? char(c) : '?';
  }
  return line;
}

void HostProcess::closeAll() {
  closeIfOpen(channelEnd);
  closeIfOpen(output);
  closeIfOpen(handle);
}

HostProcess::~HostProcess() {
  if (child >= 0 && ::getpid() == owner && fate.empty()) {
    ::shutdown(channelEnd, SHUT_RDWR); // The child leaves when its channel ends.
    uint64_t deadline = nowNs() + graceMs * 1000000;
    pollfd watched = {handle, POLLIN, 0};
    while (nowNs() < deadline && ::poll(&watched, 1, 50) <= 0)
      drainOutput(); // A child that blocks on printing its goodbye could not leave.
    finish();
  }
  closeAll();
}

} // namespace tapeback
