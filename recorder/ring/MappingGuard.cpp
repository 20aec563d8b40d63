#include "recorder/ring/MappingGuard.h"
#include <cerrno>
#include <csignal>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>

namespace tapeback::ring {

namespace {

// A signal's handler has no argument of ours: these are the process's, as the signal is.
constinit std::atomic<MappingGuard *> guards[8];
std::mutex installing; ///< For the two that follow, outside of the handler.
unsigned guardCount;
struct sigaction before;

void onBusError(int signal, siginfo_t *info, void *) {
  const int saved = errno;
  bool mended = false;
  if (info->si_code > 0) // Otherwise somebody sent it, and there is no address.
    for (auto &guard : guards)
      if (MappingGuard *present = guard.load(std::memory_order_acquire); present && !mended)
        mended = present->mend(info->si_addr);
  if (!mended) {
    sigaction(SIGBUS, &before, nullptr); // The access is made again, and meets that.
    if (info->si_code <= 0)
      raise(signal); // Blocked until we return.
  }
  errno = saved;
}

} // namespace

MappingGuard::MappingGuard(void *base, size_t bytes, int fd)
    : base(static_cast<char *>(base)), bytes(bytes), fd(fd) {
  std::lock_guard lock(installing);
  if (guardCount++ == 0) {
    struct sigaction action = {};
    action.sa_sigaction = onBusError;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigaction(SIGBUS, &action, &before);
  }
  for (auto &guard : guards)
    if (!guard.load(std::memory_order_relaxed)) {
      guard.store(this, std::memory_order_release);
      break;
    }
}

MappingGuard::~MappingGuard() {
  std::lock_guard lock(installing);
  for (auto &guard : guards)
    if (guard.load(std::memory_order_relaxed) == this)
      guard.store(nullptr, std::memory_order_release);
  if (--guardCount == 0)
    sigaction(SIGBUS, &before, nullptr);
}

/// All that the file has lost at once. If it has the page (its file system could not find memory for it),
/// that page alone. Only system calls: this is a signal's handler.
bool MappingGuard::mend(void *address) {
  constexpr size_t page = 4096;
  const char *at = static_cast<char *>(address);
  if (at < base || at >= base + bytes)
    return false;
  const size_t touched = size_t(at - base) / page * page;
  size_t from = touched, to = touched + page;
  struct stat status;
  if (fstat(fd, &status) == 0 && size_t(status.st_size) <= touched) {
    from = (size_t(status.st_size) + page - 1) / page * page;
    to = (bytes + page - 1) / page * page;
  }
  isTorn.store(true, std::memory_order_release);
  return mmap(base + from, to - from, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

} // namespace tapeback::ring
