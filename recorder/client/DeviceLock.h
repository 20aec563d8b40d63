// A device's lock, which costs next to nothing while one thread uses the library.
#pragma once

#include "recorder/ring/Futex.h"
#include <atomic>
#include <pthread.h>

namespace tapeback::client {

/// What every call asks of its thread. Initial-exec: one instruction where the general model makes a call; so
/// this is small, because the room for it is when a program loads the library late.
struct HotThread {
  uint16_t number; ///< 1-based; 0: not given yet.
  bool sole;       ///< It was the first, and may go in without the mutex while there is no other.
  struct ThreadState *state;
};
// It is constinit: nothing runs before main.
// NOLINTBEGIN(bugprone-dynamic-static-initializers)
[[gnu::visibility("hidden"),
  gnu::tls_model("initial-exec")]] extern constinit thread_local HotThread hotThread;
// NOLINTEND(bugprone-dynamic-static-initializers)

/// More than one thread has used the library. Never false again.
// NOLINTNEXTLINE(bugprone-dynamic-static-initializers)
[[gnu::visibility("hidden")]] extern constinit std::atomic<bool> manyThreads;

/// Gives the calling thread its number; the second one ends the first one's privilege.
void registerThread();

/// A mutex, biased to the process's first thread. (Targets have threads of their own, so that the C library's
/// __libc_single_threaded says nothing about the program.)
///
/// The first thread announces itself in `inside` and then looks at manyThreads; whoever becomes the second
/// thread sets manyThreads, makes all threads of the process pass a barrier (membarrier, registerThread()),
/// takes the mutex and waits until `inside` is 0. By that barrier either the first thread's announcement is
/// seen, or it sees that it is not alone, and takes the mutex. Where there is no such barrier nobody is
/// privileged.
class DeviceLock {
public:
  void lock() {
    if (!enter())
      lockMutex();
  }
  /// Takes the lock if that costs nothing. Then leave() gives it back.
  bool enter() {
    if (!mayEnter()) [[unlikely]]
      return false;
    if (announce()) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() { inside.store(0, std::memory_order_release); }
  // The parts of enter(), for calls in which every instruction counts.
  /// Whether announce() may be called by this thread.
  static bool mayEnter() { return hotThread.sole; }
  /// True: the lock is this thread's. Whatever it is, leave() follows.
  bool announce() {
    inside.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return !manyThreads.load(std::memory_order_relaxed);
  }
  /// Lets one of those who wait for the lock have it, and takes it back: to unlock and lock again would win
  /// the race for ever, and what a polling thread waits for may be another's doing.
  void pass() {
    if (!waiting.load(std::memory_order_relaxed))
      return;
    uint32_t turn = turns.load(std::memory_order_relaxed);
    passing.fetch_add(1, std::memory_order_relaxed); // Seen by who gets the lock after this.
    unlock();
    // Bounded: who waits may be stopped in a debugger.
    ring::futexWait(turns, turn, 10);
    lock();
    passing.fetch_sub(1, std::memory_order_relaxed);
  }
  void unlock() {
    if (hotThread.sole && inside.load(std::memory_order_relaxed)) [[likely]]
      leave();
    else
      pthread_mutex_unlock(&mutex);
  }

private:
  [[gnu::cold, gnu::noinline]] void lockMutex() {
    if (!hotThread.number)
      registerThread();
    if (pthread_mutex_trylock(&mutex)) {
      waiting.fetch_add(1, std::memory_order_relaxed);
      pthread_mutex_lock(&mutex);
      waiting.fetch_sub(1, std::memory_order_relaxed);
    }
    // Once in a process, when its second thread comes: the first one need not look at each call whether
    // somebody waits. Nobody wakes us, so look often.
    if (inside.load(std::memory_order_acquire)) [[unlikely]] {
      waiting.fetch_add(1, std::memory_order_relaxed);
      while (inside.load(std::memory_order_acquire))
        ring::futexWait(inside, 1, 1);
      waiting.fetch_sub(1, std::memory_order_relaxed);
    }
    if (passing.load(std::memory_order_relaxed)) {
      turns.fetch_add(1, std::memory_order_relaxed);
      ring::futexWakeAll(turns);
    }
  }

  std::atomic<uint32_t> inside{0};
  std::atomic<uint32_t> waiting{0}; ///< Threads that found the lock taken.
  std::atomic<uint32_t> passing{0}; ///< Threads that have let it go for one of those.
  std::atomic<uint32_t> turns{0};   ///< How often the mutex was had while somebody was passing it on.
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
};

} // namespace tapeback::client
