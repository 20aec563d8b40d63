#include "hal/HelperThread.h"
#include "hal/FileDescriptor.h"
#include "llvm/ADT/StringRef.h"
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <system_error>
#include <unistd.h>

namespace tapeback {
namespace {

/// By its name one helper knows the others, of whatever copy of this code. Fifteen bytes are all there are.
constexpr const char *helperName = "tapeback helper";

std::string readSmall(const std::string &path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[512];
  ssize_t got = file ? ::read(file.get(), text, sizeof text) : 0;
  return std::string(text, got > 0 ? size_t(got) : 0);
}

/// "PID (NAME) STATE …": a main thread that ended stays as a zombie as long as others live.
bool hasEnded(const std::string &stat) {
  size_t name = stat.rfind(')');
  return name != std::string::npos && name + 2 < stat.size() &&
         (stat[name + 2] == 'Z' || stat[name + 2] == 'X');
}

/// True if all threads but the main one, which has ended, are helpers, and the caller is the oldest of them:
/// one of them acts.
bool onlyHelpersLeft() {
  const std::string tasks = "/proc/self/task", main = std::to_string(::getpid());
  if (!hasEnded(readSmall(tasks + "/" + main + "/stat")))
    return false; // Nearly always: one small file.
  int oldest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(tasks, error), end; !error && at != end; at.increment(error)) {
    const std::string number = at->path().filename().string();
    if (number == main)
      continue;
    if (llvm::StringRef(readSmall(at->path().string() + "/comm")).rtrim() != helperName)
      return false;
    const int thread = std::atoi(number.c_str());
    oldest = oldest ? std::min(oldest, thread) : thread;
  }
  return !error && oldest == ::gettid();
}

void *endProcess(void *mask) {
  ::pthread_sigmask(SIG_SETMASK, static_cast<const sigset_t *>(mask), nullptr);
  std::exit(0);
}

} // namespace

int HelperThread::start(pthread_t &thread, void *(*run)(void *), void *argument) {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &starters);
  int error = ::pthread_create(&thread, nullptr, run, argument);
  ::pthread_sigmask(SIG_SETMASK, &starters, nullptr);
  // Until it has its name, and if it gets none, it counts as the program's: nothing ends too early.
  if (!error)
    ::pthread_setname_np(thread, helperName);
  return error;
}

void HelperThread::look() {
  // Twice: the kernel's list is not of one moment, and a thread may be on its way into it.
  const bool alone = !ending && onlyHelpersLeft();
  if (alone && wasAlone) {
    pthread_t last;
    ending = ::pthread_create(&last, nullptr, endProcess, &starters) == 0;
    if (ending)
      ::pthread_detach(last);
  }
  wasAlone = alone;
}

} // namespace tapeback
