#include "recorder/Program.h"
#include "format/Failure.h"
#include "recorder/flight/QuietThread.h"
#include "llvm/ADT/StringRef.h"
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;

extern char **environ;

namespace tapeback {

struct SavedSignals {
  sigset_t mask;
  struct sigaction fileSize;
};

static sigset_t takenSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD})
    sigaddset(&set, signal);
  return set;
}

/// Our environment with `additions` in it.
static std::vector<std::string> mergeEnvironment(const std::vector<std::string> &additions) {
  std::vector<std::string> merged;
  auto nameOf = [](StringRef entry) { return entry.split('=').first; };
  for (char **entry = environ; *entry; ++entry) {
    bool replaced = false;
    for (const std::string &addition : additions)
      replaced |= nameOf(*entry) == nameOf(addition);
    if (!replaced)
      merged.push_back(*entry);
  }
  merged.insert(merged.end(), additions.begin(), additions.end());
  return merged;
}

static std::vector<char *> pointersTo(const std::vector<std::string> &texts) {
  std::vector<char *> pointers;
  for (const std::string &text : texts)
    pointers.push_back(const_cast<char *>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

static Error cannotRun(const std::string &program, int code) {
  std::string message = "cannot run '" + program + "': " + std::strerror(code);
  if (code == ENOMEM || code == EAGAIN)
    return failSystem("cannot-run", message, program);
  return failUsage(code == ENOENT ? "program-not-found" : "cannot-run", message, program,
                   code == ENOENT ? "give its path, or check PATH and the interpreter in its first line"
                                  : "check that it is an executable file");
}

namespace {
/// What a child needs until it is another program.
struct Launch {
  char **arguments, **environment;
  const SavedSignals *signals;
  int output;               ///< Becomes its standard output; -1: it keeps ours.
  volatile int failure = 0; ///< Why it did not become one. By the child, of which the compiler does not know.
};
} // namespace

/// The child's process, -1 and errno if there is none. The child borrows our memory, and we wait, until it is
/// another program or gone: a copy of this process would cost a fault for each page that we write to
/// afterwards.
[[gnu::noinline]] static pid_t launchProgram(Launch &launch) {
  const pid_t child = vfork(); // NOLINT(clang-analyzer-security.insecureAPI.vfork,bugprone-unsafe-functions)
  if (child)
    return child;
  pthread_sigmask(SIG_SETMASK, &launch.signals->mask, nullptr);
  sigaction(SIGXFSZ, &launch.signals->fileSize, nullptr);
  if (launch.output >= 0)
    dup2(launch.output, STDOUT_FILENO);
  // The tape is closed by us: a terminal's SIGINT must find the program with its own disposition.
  execvpe(launch.arguments[0], launch.arguments, launch.environment);
  launch.failure = errno;
  _exit(127);
}

Expected<std::unique_ptr<Program>> Program::start(const std::vector<std::string> &command,
                                                  const std::vector<std::string> &environment,
                                                  ProgramOutput output, std::function<void()> onEnd) {
  if (command.empty())
    return failUsage("no-program", "there is no program to run");
  std::vector<std::string> variables = mergeEnvironment(environment);
  std::vector<char *> arguments = pointersTo(command), variablePointers = pointersTo(variables);
  const int null = output == ProgramOutput::Discard ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
  if (output == ProgramOutput::Discard && null < 0)
    return failSystem("cannot-run", std::string("cannot open /dev/null: ") + std::strerror(errno),
                      command[0]);
  const int theirOutput = output == ProgramOutput::ToErrors ? STDERR_FILENO : null;
  std::unique_ptr<Program> program(new Program);
  program->onEnd = std::move(onEnd);
  program->saved = std::make_unique<SavedSignals>();
  sigset_t taken = takenSignals();
  pthread_sigmask(SIG_BLOCK, &taken, &program->saved->mask);
  // A tape at the limit of file sizes is an error to report, not our end.
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &ignore, &program->saved->fileSize);
  // Before there is a program: one that nobody waits for would run on when we give up.
  Expected<std::thread> waiter = threadOrFailure(
      "waits for the program", [p = program.get()] { return std::thread([p] { p->wait(); }); });
  if (waiter)
    program->waiter = std::move(*waiter);
  Launch launch{arguments.data(), variablePointers.data(), program->saved.get(), theirOutput};
  const pid_t child = waiter ? launchProgram(launch) : -1;
  const int code = child < 0 ? errno : launch.failure;
  if (null >= 0)
    close(null);
  if (!waiter)
    return waiter.takeError();
  if (code && child > 0)
    waitpid(child, nullptr, 0);
  program->child.store(code ? -1 : child, std::memory_order_release);
  program->child.notify_one();
  if (code)
    return cannotRun(command[0], code);
  return program;
}

void Program::wait() {
  child.wait(0);
  const int process = child.load(std::memory_order_acquire);
  if (process < 0)
    return;
  sigset_t taken = takenSignals();
  while (!quit.load(std::memory_order_acquire)) {
    // Looked at before waiting: SIGCHLD may have been taken for another child's.
    int status = 0;
    pid_t result = waitpid(process, &status, WNOHANG);
    if (result == process || (result < 0 && errno == ECHILD)) {
      if (result == process && WIFEXITED(status))
        theEnd.exit = WEXITSTATUS(status);
      else if (result == process && WIFSIGNALED(status))
        theEnd.signal = WTERMSIG(status);
      hasEnded.store(true, std::memory_order_release);
      onEnd();
      return;
    }
    siginfo_t info;
    timespec limit{1, 0}; // In case the signal went to a thread that had it unblocked.
    int signal = sigtimedwait(&taken, &info, &limit);
    // From a terminal (SI_KERNEL) the whole process group got it; but when the terminal goes, its session's
    // leader alone is told.
    bool forAll = info.si_code == SI_KERNEL && !(signal == SIGHUP && getsid(0) == getpid());
    if (signal > 0 && signal != SIGCHLD && !forAll)
      kill(process, signal);
  }
}

Program::~Program() {
  quit.store(true, std::memory_order_release);
  if (waiter.joinable())
    waiter.join();
  if (!saved)
    return;
  // What was sent to the program must not end us now that it is over.
  sigset_t taken = takenSignals();
  timespec now{0, 0};
  while (sigtimedwait(&taken, nullptr, &now) > 0)
    ;
  pthread_sigmask(SIG_SETMASK, &saved->mask, nullptr);
  sigaction(SIGXFSZ, &saved->fileSize, nullptr);
}

} // namespace tapeback
