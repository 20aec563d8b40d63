#include "tests/support/RunProgram.h"
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tapeback::test {
namespace {

using Clock = std::chrono::steady_clock;

/// A descriptor that closes itself.
class Descriptor {
public:
  explicit Descriptor(int fd = -1) : fd(fd) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() { reset(); }
  void reset(int other = -1) {
    if (fd >= 0)
      close(fd);
    fd = other;
  }
  int get() const { return fd; }

private:
  int fd;
};

void makePipe(Descriptor &read, Descriptor &write) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC))
    throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
  read.reset(ends[0]);
  write.reset(ends[1]);
}

std::string quoted(const std::string &word) {
  bool plain = !word.empty();
  for (char c : word)
    plain = plain && (std::isalnum(static_cast<unsigned char>(c)) || std::strchr("-_./:=@%+,", c));
  if (plain)
    return word;
  std::string result = "'";
  for (char c : word)
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  result += '\'';
  return result;
}

std::vector<std::string> environmentFor(const RunOptions &options) {
  std::vector<std::string> result;
  for (char **entry = environ; *entry; ++entry) {
    std::string text = *entry;
    if (!options.environment.count(text.substr(0, text.find('='))))
      result.push_back(text);
  }
  for (auto &[name, value] : options.environment)
    if (!value.empty())
      result.push_back(name + "=" + value);
  // A sanitizer's fault must never look like one of our exit codes.
  for (const char *name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"}) {
    auto it = std::find_if(result.begin(), result.end(),
                           [&](const std::string &e) { return e.rfind(std::string(name) + "=", 0) == 0; });
    if (it == result.end())
      result.push_back(std::string(name) + "=exitcode=86");
    else if (it->find("exitcode=") == std::string::npos)
      *it += ":exitcode=86";
  }
  return result;
}

std::vector<char *> pointers(std::vector<std::string> &words) {
  std::vector<char *> result;
  for (std::string &word : words)
    result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

/// Only what is allowed between fork and exec. Never returns.
[[noreturn]] void becomeChild(char **argv, char **envp, int in, int out, int err, int report,
                              const char *directory) {
  setpgid(0, 0);
  signal(SIGPIPE, SIG_DFL);
  // The descriptors may be 0, 1 or 2 themselves: move them up first.
  in = fcntl(in, F_DUPFD_CLOEXEC, 10);
  out = out < 0 ? -1 : fcntl(out, F_DUPFD_CLOEXEC, 10);
  err = fcntl(err, F_DUPFD_CLOEXEC, 10);
  dup2(in, 0);
  if (out < 0)
    close(1);
  else
    dup2(out, 1);
  dup2(err, 2);
  if (!*directory || chdir(directory) == 0)
    execve(argv[0], argv, envp);
  int why = errno;
  ssize_t ignored = write(report, &why, sizeof why);
  (void)ignored;
  _exit(127);
}

/// Reads what is there; false at the end.
bool drain(int fd, std::string &into) {
  char buffer[65536];
  ssize_t got = read(fd, buffer, sizeof buffer);
  if (got > 0)
    into.append(buffer, size_t(got));
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

} // namespace

std::ostream &operator<<(std::ostream &os, const RunResult &result) {
  os << "$ " << result.command << "\n";
  if (result.timedOut)
    os << "timed out after ";
  else if (result.signal)
    os << "ended by signal " << result.signal << " after ";
  else
    os << (result.sanitizer ? "SANITIZER FAULT, " : "") << "exit " << result.exit << " after ";
  return os << result.elapsed.count() << " ms\n--- stdout\n"
            << result.out.substr(0, 4000) << "\n--- stderr\n"
            << result.err.substr(0, 8000) << "\n";
}

RunResult runProgram(const std::vector<std::string> &command, const RunOptions &options) {
  RunResult result;
  for (const std::string &word : command)
    result.command += (result.command.empty() ? "" : " ") + quoted(word);
  std::vector<std::string> words = command, environment = environmentFor(options);
  std::vector<char *> argv = pointers(words), envp = pointers(environment);

  Descriptor inRead, inWrite, outRead, outWrite, errRead, errWrite, reportRead, reportWrite;
  makePipe(inRead, inWrite);
  makePipe(errRead, errWrite);
  makePipe(reportRead, reportWrite);
  if (options.outputTo.empty() || options.outputTo == "broken-pipe")
    makePipe(outRead, outWrite);
  else if (options.outputTo != "closed") {
    outWrite.reset(open(options.outputTo.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (outWrite.get() < 0)
      throw std::runtime_error(options.outputTo + ": " + std::strerror(errno));
  }
  if (options.outputTo == "broken-pipe")
    outRead.reset();

  Clock::time_point started = Clock::now();
  pid_t child = fork();
  if (child < 0)
    throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (child == 0)
    becomeChild(argv.data(), envp.data(), inRead.get(), outWrite.get(), errWrite.get(), reportWrite.get(),
                options.directory.c_str());
  setpgid(child, child); // Both sides, whoever comes first.
  // A descriptor, not SIGCHLD: tests may run programs from several threads.
  Descriptor process(int(syscall(SYS_pidfd_open, child, 0)));
  if (process.get() < 0) {
    kill(-child, SIGKILL);
    throw std::runtime_error(std::string("pidfd_open: ") + std::strerror(errno));
  }
  inRead.reset();
  outWrite.reset();
  errWrite.reset();
  reportWrite.reset();

  size_t sent = 0;
  fcntl(inWrite.get(), F_SETFL, O_NONBLOCK);
  if (options.input.empty())
    inWrite.reset();
  bool running = true;
  while (running) {
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(started + options.timeout - Clock::now());
    result.tooMuch = result.out.size() + result.err.size() > options.maxOutputBytes;
    if (left.count() <= 0 || result.tooMuch) {
      result.timedOut = !result.tooMuch;
      kill(-child, SIGKILL);
      break;
    }
    pollfd fds[] = {{process.get(), POLLIN, 0},
                    {outRead.get(), POLLIN, 0},
                    {errRead.get(), POLLIN, 0},
                    {inWrite.get(), POLLOUT, 0}};
    if (poll(fds, 4, int(std::min<long long>(left.count(), 1000))) < 0)
      continue;
    if (fds[1].revents && !drain(outRead.get(), result.out))
      outRead.reset();
    if (fds[2].revents && !drain(errRead.get(), result.err))
      errRead.reset();
    if (fds[3].revents) {
      // The program may not want it all: the signal is ours to survive.
      sigset_t pipeSignal, before;
      sigemptyset(&pipeSignal);
      sigaddset(&pipeSignal, SIGPIPE);
      pthread_sigmask(SIG_BLOCK, &pipeSignal, &before);
      ssize_t wrote = write(inWrite.get(), options.input.data() + sent, options.input.size() - sent);
      timespec none{};
      while (sigtimedwait(&pipeSignal, nullptr, &none) > 0) {
      }
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      if (wrote > 0)
        sent += size_t(wrote);
      if ((wrote < 0 && errno != EAGAIN && errno != EINTR) || sent == options.input.size())
        inWrite.reset();
    }
    running = !(fds[0].revents & POLLIN);
  }

  // Look at the end before it is taken away, so that the group's number is still ours to signal.
  siginfo_t info{};
  waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT);
  if (!options.keepGroup)
    kill(-child, SIGKILL);
  int status = 0;
  rusage used{};
  wait4(child, &status, 0, &used);
  result.maxResidentBytes = uint64_t(used.ru_maxrss) * 1024;
  // What is left in the pipes, without waiting for grandchildren that hold them.
  for (auto [fd, text] : {std::pair(outRead.get(), &result.out), std::pair(errRead.get(), &result.err)}) {
    if (fd < 0)
      continue;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (size_t before = text->size() + 1; text->size() != before && text->size() < options.maxOutputBytes;) {
      before = text->size();
      drain(fd, *text);
    }
  }
  result.elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started);
  int why = 0;
  if (read(reportRead.get(), &why, sizeof why) == ssize_t(sizeof why)) {
    result.err += "could not be started: " + std::string(std::strerror(why));
    return result;
  }
  if (WIFEXITED(status))
    result.exit = WEXITSTATUS(status);
  else if (WIFSIGNALED(status))
    result.signal = WTERMSIG(status);
  result.sanitizer = result.exit == 86;
  return result;
}

std::string buildProgram(const std::string &name) {
  return std::string(TAPEBACK_BINARY_DIR "/bin/") + name;
}

//===-- Files -------------------------------------------------------------------------------------===//

ScratchDirectory::ScratchDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tapeback-test-XXXXXX").string();
  if (!mkdtemp(pattern.data()))
    throw std::runtime_error(pattern + ": " + std::strerror(errno));
  directory = pattern;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored; // A leftover is not worth a failed test.
  std::filesystem::remove_all(directory, ignored);
}

std::vector<std::string> ScratchDirectory::names() const {
  std::vector<std::string> result;
  for (const auto &entry : std::filesystem::directory_iterator(directory))
    result.push_back(entry.path().filename().string());
  std::sort(result.begin(), result.end());
  return result;
}

std::string readWholeFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void writeWholeFile(const std::string &path, const std::string &content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), std::streamsize(content.size()));
  file.close();
  if (!file)
    throw std::runtime_error("cannot write " + path);
}

} // namespace tapeback::test
