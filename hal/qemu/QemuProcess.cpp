#include "hal/qemu/QemuProcess.h"
#include "format/Failure.h"
#include "hal/FileDescriptor.h"
#include "hal/HelperThread.h"
#include "hal/qemu/LastWords.h"
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace tapeback {
namespace {

/// How long a killed process may take to go, and a new one to be executed.
constexpr std::chrono::seconds patience(10);

/// First number of the copies that the child gets; high enough not to collide with 0, 1, 2 and what is
/// passed.
constexpr int firstCopy = 64;

/// Everything the child needs between fork and exec, prepared before: there it may only make system calls.
struct ChildPlan {
  std::vector<std::string> words;
  std::vector<char *> arguments;
  std::vector<FileDescriptor> passed;
  FileDescriptor input, output, execStatus;
  pid_t parent = 0;
  bool guarded = false; ///< It is a script: what that starts does not die with us by itself.
};

/// A new process without the program's atfork handlers: nothing of the program's runs in it.
long bareFork() {
  return ::syscall(SYS_clone, (unsigned long)(SIGCHLD), nullptr, nullptr, nullptr, nullptr);
}

/// Ends as the process that it stood guard for.
[[noreturn]] void endLike(int status) {
  if (WIFSIGNALED(status)) {
    rlimit noCore{0, 0};
    ::setrlimit(RLIMIT_CORE, &noCore);
    ::signal(WTERMSIG(status), SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::kill(::getpid(), WTERMSIG(status));
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 127);
}

/// Runs in the child, and comes back in one of its own, with it as the parent and in its group. The child
/// itself stays until that one ends, and ends like it; if the owner goes first, however suddenly, it takes
/// the whole group along.
pid_t standGuard(const ChildPlan &plan) {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  const bool good = ::prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && ::setpgid(0, 0) == 0;
  if (!good || ::getppid() != plan.parent)
    ::_exit(127);
  const pid_t self = ::getpid();
  const long script = bareFork();
  if (script == 0)
    return self;
  if (script < 0) {
    int error = errno;
    [[maybe_unused]] ssize_t written = ::write(plan.execStatus.get(), &error, sizeof error);
    ::_exit(127);
  }
  ::syscall(SYS_close_range, 0u, ~0u, 0u); // Who waits for the ends of these does not wait for ours.
  for (;;) {
    int status = 0;
    if (::waitpid(pid_t(script), &status, WNOHANG) == script) {
      // What it left behind goes, too: from outside of its group, so that we can end like the script. The
      // owner may be about to end at this moment (its threads do so one by one, and we are told of each).
      if (::setpgid(0, ::getpgid(::getppid())) != 0)
        ::kill(0, SIGKILL);
      ::kill(-self, SIGKILL);
      endLike(status);
    }
    if (::getppid() != plan.parent)
      ::kill(0, SIGKILL); // Us, too.
    const int signal = ::sigwaitinfo(&all, nullptr);
    if (signal == SIGTERM && ::getppid() == plan.parent)
      ::kill(pid_t(script), SIGTERM);
  }
}

/// Runs in the child. Never returns; a failure is written to execStatus as an errno.
[[noreturn]] void becomeQemu(const ChildPlan &plan) {
  auto give = [](int from, int to, int flags) {
    return flags ? ::dup3(from, to, flags) >= 0 : ::dup2(from, to) >= 0;
  };
  int statusDescriptor = plan.execStatus.get();
  const int count = int(plan.passed.size());
  const pid_t parent = plan.guarded ? standGuard(plan) : plan.parent;
  bool good = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  // Had the parent died before that line, nobody would kill us.
  if (::getppid() != parent)
    ::_exit(127);
  // A process group of its own: a terminal's Ctrl-C is for us, not for it.
  good = good && (plan.guarded || ::setpgid(0, 0) == 0);
  // An abort of QEMU must not leave a core file with all of the guest's memory in somebody's directory.
  rlimit noCore{0, 0};
  good = good && ::setrlimit(RLIMIT_CORE, &noCore) == 0;
  good =
      good && give(plan.input.get(), 0, 0) && give(plan.output.get(), 1, 0) && give(plan.output.get(), 2, 0);
  for (int i = 0; good && i < count; ++i)
    good = give(plan.passed[size_t(i)].get(), 3 + i, 0);
  if (good && give(statusDescriptor, 3 + count, O_CLOEXEC)) {
    statusDescriptor = 3 + count;
    good = ::syscall(SYS_close_range, unsigned(4 + count), ~0u, 0u) == 0;
  }
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr); // Fails for SIGKILL, SIGSTOP and libc's own, as it should.
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (good)
    ::execv(plan.arguments[0], plan.arguments.data());
  int error = errno;
  // Nothing to be done if even this fails: the parent then sees a process that exited with 127.
  [[maybe_unused]] ssize_t written = ::write(statusDescriptor, &error, sizeof error);
  ::_exit(127);
}

bool isScript(const std::string &path) {
  char start[2] = {};
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return file && ::read(file.get(), start, sizeof start) == ssize_t(sizeof start) && start[0] == '#' &&
         start[1] == '!';
}

llvm::Expected<FileDescriptor> copyHigh(int fd) {
  int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, firstCopy);
  if (copy < 0)
    return failSystem("no-descriptors",
                      std::string("cannot copy a file descriptor: ") + std::strerror(errno));
  return FileDescriptor(copy);
}

struct Pipe {
  FileDescriptor read, write;
};

llvm::Expected<Pipe> makePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return failSystem("no-descriptors", std::string("cannot make a pipe: ") + std::strerror(errno));
  Pipe pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  llvm::Expected<FileDescriptor> high = copyHigh(pipe.write.get());
  if (!high)
    return high.takeError();
  pipe.write = std::move(*high);
  // Ours must never block the keeper.
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

} // namespace

/// Shared by the owner and the keeper's thread; whoever leaves last frees it.
struct QemuProcess::Keeper {
  enum class Phase { Starting, Running, Ended };

  static void *run(void *self);
  void watch();
  void drainOutput();
  void readExecStatus();
  void reap();

  std::mutex mutex; ///< Guards what follows it, up to the blank line.
  std::condition_variable changed;
  Phase phase = Phase::Starting;
  bool threadLeaves = false;
  FileDescriptor pidfd;
  LastWords words;
  int startError = 0; ///< errno of fork, pidfd_open or exec.
  bool fateKnown = false;
  int code = 0, status = 0; ///< As in siginfo_t.

  ChildPlan plan; ///< The keeper's thread alone from here on.
  FileDescriptor output, execStatus;
  pid_t pid = -1;
  pthread_t thread{};
  HelperThread helper;
};

void *QemuProcess::Keeper::run(void *argument) {
  std::unique_ptr<std::shared_ptr<Keeper>> share(static_cast<std::shared_ptr<Keeper> *>(argument));
  Keeper *self = share->get();
  long child = bareFork();
  if (child == 0)
    becomeQemu(self->plan);
  int error = child < 0 ? errno : 0;
  self->plan = ChildPlan(); // Our copies of the child's ends, or we would never see them close.
  if (child > 0) {
    self->pid = pid_t(child);
    int fd = int(::syscall(SYS_pidfd_open, self->pid, 0));
    std::unique_lock lock(self->mutex);
    if (fd >= 0) {
      self->pidfd = FileDescriptor(fd);
    } else {
      error = errno;
      lock.unlock();
      ::kill(self->pid, SIGKILL); // Not reaped yet, so the number is still its.
      self->reap();
    }
  }
  if (error == 0)
    self->watch();
  std::lock_guard lock(self->mutex);
  if (error)
    self->startError = error;
  self->phase = Phase::Ended;
  self->threadLeaves = true;
  self->changed.notify_all();
  return nullptr;
}

void QemuProcess::Keeper::watch() {
  pollfd watched[3] = {{pidfd.get(), POLLIN, 0}, {output.get(), POLLIN, 0}, {execStatus.get(), POLLIN, 0}};
  bool hasEnded = false;
  while (!hasEnded) {
    const int ready = ::poll(watched, 3, HelperThread::lookMs);
    if (ready == 0)
      helper.look();
    if (ready < 0) {
      if (errno == EINTR || errno == EAGAIN)
        continue;
      break; // No memory in the kernel: the process is killed with its owner.
    }
    if (watched[2].revents) {
      readExecStatus();
      watched[2].fd = -1;
    }
    if (watched[1].revents) {
      drainOutput();
      // Closed by everybody, though the process lives: nothing more to come from there.
      if (!(watched[1].revents & POLLIN))
        watched[1].fd = -1;
    }
    hasEnded = watched[0].revents != 0;
  }
  if (watched[2].fd >= 0)
    readExecStatus();
  drainOutput();
  // A program named by qemu= may be a script that starts QEMU: what it started goes with it. It is not reaped
  // yet, so the group's number is still its.
  if (hasEnded)
    ::kill(-pid, SIGKILL);
  reap();
}

void QemuProcess::Keeper::readExecStatus() {
  int error = 0;
  ssize_t got = ::read(execStatus.get(), &error, sizeof error);
  std::lock_guard lock(mutex);
  if (got == ssize_t(sizeof error))
    startError = error;
  else if (phase == Phase::Starting)
    phase = Phase::Running; // Closed by exec.
  changed.notify_all();
}

void QemuProcess::Keeper::drainOutput() {
  char buffer[4096];
  // Bounded: a process that talks faster than we read must not keep us from seeing its end.
  for (int rounds = 0; rounds < 32; ++rounds) {
    ssize_t got = ::read(output.get(), buffer, sizeof buffer);
    if (got <= 0)
      return;
    std::lock_guard lock(mutex);
    words.append(llvm::StringRef(buffer, size_t(got)));
  }
}

void QemuProcess::Keeper::reap() {
  siginfo_t info{};
  int result = 0;
  do
    result = ::waitid(P_PID, id_t(pid), &info, WEXITED);
  while (result < 0 && errno == EINTR);
  std::lock_guard lock(mutex);
  // Fails if the program ignores SIGCHLD or took the status by a waitpid(-1) of its own.
  if (result == 0 && info.si_pid == pid) {
    fateKnown = true;
    code = info.si_code;
    status = info.si_status;
  }
}

QemuProcess::QemuProcess(std::shared_ptr<Keeper> keeper) : keeper(std::move(keeper)) {}

llvm::Expected<std::unique_ptr<QemuProcess>> QemuProcess::startOnSocket(QemuLaunch launch,
                                                                        FileDescriptor &socket) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return failSystem("no-descriptors", std::string("cannot make a socket pair: ") + std::strerror(errno));
  socket = FileDescriptor(ends[0]);
  FileDescriptor theirs(ends[1]);
  launch.descriptors.insert(launch.descriptors.begin(), theirs.get());
  return start(launch);
}

llvm::Expected<std::unique_ptr<QemuProcess>> QemuProcess::start(const QemuLaunch &launch) {
  auto keeper = std::make_shared<Keeper>();
  ChildPlan &plan = keeper->plan;
  plan.parent = ::getpid();
  plan.guarded = isScript(launch.program);
  plan.words.push_back(launch.program);
  plan.words.insert(plan.words.end(), launch.arguments.begin(), launch.arguments.end());
  for (std::string &word : plan.words)
    plan.arguments.push_back(word.data());
  plan.arguments.push_back(nullptr);
  for (int fd : launch.descriptors) {
    llvm::Expected<FileDescriptor> copy = copyHigh(fd);
    if (!copy)
      return copy.takeError();
    plan.passed.push_back(std::move(*copy));
  }
  FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null)
    return failSystem("no-dev-null", std::string("cannot open /dev/null: ") + std::strerror(errno));
  llvm::Expected<FileDescriptor> input = copyHigh(null.get());
  if (!input)
    return input.takeError();
  plan.input = std::move(*input);
  llvm::Expected<Pipe> output = makePipe();
  if (!output)
    return output.takeError();
  llvm::Expected<Pipe> execStatus = makePipe();
  if (!execStatus)
    return execStatus.takeError();
  plan.output = std::move(output->write);
  plan.execStatus = std::move(execStatus->write);
  keeper->output = std::move(output->read);
  keeper->execStatus = std::move(execStatus->read);

  auto *share = new std::shared_ptr<Keeper>(keeper); // The thread's, once there is one.
  int error = keeper->helper.start(keeper->thread, Keeper::run, share);
  if (error) {
    delete share;
    return failSystem("no-thread", std::string("cannot start a thread: ") + std::strerror(error));
  }

  std::unique_ptr<QemuProcess> process(new QemuProcess(keeper));
  std::unique_lock lock(keeper->mutex);
  keeper->changed.wait_for(lock, patience, [&] { return keeper->phase != Keeper::Phase::Starting; });
  if (keeper->startError) {
    std::string reason = std::strerror(keeper->startError);
    lock.unlock();
    return failTarget("target-died", "cannot run '" + launch.program + "': " + reason, launch.program,
                      "see that it is a program for this machine, or name another with qemu=PATH");
  }
  if (keeper->phase == Keeper::Phase::Starting) {
    lock.unlock();
    return failTarget("target-hung", "'" + launch.program + "' could not be executed in time", launch.program,
                      "see whether the file system it is on answers");
  }
  lock.unlock();
  return process;
}

QemuProcess::~QemuProcess() {
  kill();
  std::unique_lock lock(keeper->mutex);
  bool leaves = keeper->changed.wait_for(lock, patience, [&] { return keeper->threadLeaves; });
  lock.unlock();
  // A process stuck inside the kernel outlives SIGKILL; its keeper then stays behind rather than we with it.
  if (leaves)
    ::pthread_join(keeper->thread, nullptr);
  else
    ::pthread_detach(keeper->thread);
}

bool QemuProcess::waitEnd(uint64_t nanoseconds) {
  std::unique_lock lock(keeper->mutex);
  auto ended = [&] { return keeper->phase == Keeper::Phase::Ended; };
  if (nanoseconds == 0)
    return ended();
  // Whoever waits for longer than a year can ask again.
  constexpr uint64_t year = uint64_t(365) * 24 * 3600 * 1'000'000'000;
  return keeper->changed.wait_for(lock, std::chrono::nanoseconds(std::min(nanoseconds, year)), ended);
}

void QemuProcess::kill() {
  std::lock_guard lock(keeper->mutex);
  // Through the pidfd: a number could by now be somebody else's. Fails only if it is gone already.
  if (keeper->pidfd)
    ::syscall(SYS_pidfd_send_signal, keeper->pidfd.get(), SIGKILL, nullptr, 0u);
}

std::optional<QemuProcess::End> QemuProcess::end() {
  std::lock_guard lock(keeper->mutex);
  if (keeper->phase != Keeper::Phase::Ended || !keeper->fateKnown)
    return std::nullopt;
  return keeper->code == CLD_EXITED ? End{0, keeper->status} : End{keeper->status, 0};
}

bool QemuProcess::sleeps() {
  std::string folder;
  {
    std::lock_guard lock(keeper->mutex);
    if (keeper->phase != Keeper::Phase::Running)
      return false;
    folder = "/proc/" + std::to_string(keeper->pid) + "/task";
  }
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), none; !error && it != none;
       it.increment(error)) {
    // "PID (NAME) STATE …"; a name may have brackets of its own.
    std::ifstream file(it->path() / "stat");
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    size_t bracket = text.rfind(") ");
    if (bracket == std::string::npos)
      continue; // A thread that has just ended.
    char state = text[bracket + 2];
    if (state != 'S' && state != 'I')
      return false;
  }
  return !error;
}

std::string QemuProcess::fate() {
  std::lock_guard lock(keeper->mutex);
  if (keeper->phase != Keeper::Phase::Ended)
    return "is still running";
  if (!keeper->fateKnown)
    return "ended (how, this program did not let us see)";
  if (keeper->code == CLD_EXITED)
    return "exited with code " + std::to_string(keeper->status);
  const char *name = ::sigdescr_np(keeper->status);
  return "was killed by signal " + std::to_string(keeper->status) + " (" + (name ? name : "unknown") + ")";
}

std::string QemuProcess::output() {
  std::lock_guard lock(keeper->mutex);
  return keeper->words.tail();
}

} // namespace tapeback
