// What the client library knows of its process: whether it is recorded, where its targets come from, and its
// threads.
//
// The C API has no context argument, so this is the one place with process-wide state.
#pragma once

#include "hal/backend/tapeback_backend.h"
#include "recorder/client/DeviceLock.h"
#include "recorder/client/DirtyPages.h"
#include "recorder/ring/RingProducer.h"
#include "recorder/tapeback.h"

namespace tapeback::client {

/// A read of the calling thread, for tb_check_equal to find where its actual value came from.
struct RecentRead {
  uint64_t sequence;
  uint64_t value;
  uint16_t device;
};

/// Of a thread that has recorded or failed. On the heap: room in the thread's own memory is scarce.
struct ThreadState {
  char error[1400] = {};
  static constexpr unsigned recentReads = 16;
  RecentRead reads[recentReads] = {};
  unsigned nextRead = 0;
};

/// The calling thread's; made if need be. Null: out of memory.
ThreadState *thisThread();
/// Number on the tape: 0 for the first thread that used the library. Reused after the thread ended.
inline uint16_t threadNumber() {
  if (!hotThread.number) [[unlikely]]
    registerThread();
  return uint16_t(hotThread.number - 1);
}
inline void rememberRead(uint16_t device, uint64_t sequence, uint64_t value) {
  if (ThreadState *state = hotThread.state)
    state->reads[state->nextRead++ % ThreadState::recentReads] = {sequence, value, device};
}
/// Sequence of this thread's latest read of `device` that gave `value`; 0 if none of the last 16 did.
uint64_t findRead(uint16_t device, uint64_t value);

/// Sets the calling thread's error text and returns `status`.
[[gnu::format(printf, 2, 3)]] int fail(int status, const char *format, ...);
/// The same for a failure of the backend.
int failBackend(int status, const tapeback_backend_failure &failure);

struct Session {
  ring::Producer producer;
  bool ringNamed = false; ///< TAPEBACK_RING is set: this process is meant to be recorded.
  int ringStatus = TB_OK; ///< Why it cannot be, if so: every tb_open fails with it.
  char ringError[400] = {};
  const tapeback_backend *backend = nullptr; ///< Loaded by the first open.
  DirtyPages pages;                          ///< Used with pagesLock held.
  bool pagesStarted = false;
  pthread_mutex_t pagesLock = PTHREAD_MUTEX_INITIALIZER;

  const capture::Table *table() const { return producer.captureTable(); }
};
/// Attaches to the ring on the first call.
Session &session();
/// The same where a device is open, so that the first call has been. It is constinit: nothing runs before
/// main.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers)
[[gnu::visibility("hidden")]] extern constinit Session theSession;
inline Session &startedSession() {
  return theSession;
}
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers)
[[gnu::visibility("hidden")]] extern constinit std::atomic<bool> isForked;
/// True in a child of fork() of a process that had used the library.
inline bool forked() {
  return isForked.load(std::memory_order_relaxed);
}
/// Loads the backend if need be. Null: the error text of this thread says why.
const tapeback_backend *loadBackend();

} // namespace tapeback::client
