// Futex waits on memory shared between processes.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tapeback::ring {

/// Sleeps while `word` is `expected`, at most `milliseconds`. May return early; the caller looks again.
inline void futexWait(std::atomic<uint32_t> &word, uint32_t expected, unsigned milliseconds) {
  int saved = errno;
  timespec limit{time_t(milliseconds / 1000), long(milliseconds % 1000) * 1'000'000};
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT, expected, &limit, nullptr, 0);
  errno = saved;
}

inline void futexWakeAll(std::atomic<uint32_t> &word) {
  int saved = errno;
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  errno = saved;
}

} // namespace tapeback::ring
