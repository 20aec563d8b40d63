#include "recorder/ring/CounterCheck.h"
#include "recorder/flight/QuietThread.h"
#include <atomic>
#include <chrono>
#include <sched.h>
#include <system_error>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tapeback::ring {

/// Glances at another's counter that each processor has to have made.
static constexpr unsigned wantedGlances = 256;

uint64_t readCounterInOrder() {
#if defined(__x86_64__)
  _mm_lfence();
  return __rdtsc();
#else
  return 0;
#endif
}

namespace {
using Time = std::chrono::steady_clock::time_point;

struct Board {
  CounterReader read;
  Time end;
  unsigned asked;
  /// Closed until all are there: who spins before keeps who starts the others from its processor.
  std::atomic<bool> open{false};
  alignas(64) std::atomic<uint64_t> latest{0};
  alignas(64) std::atomic<unsigned> satisfied{0};
  std::atomic<uint64_t> behind{0};

  Board(CounterReader read, Time end, unsigned asked) : read(read), end(end), asked(asked) {}
  void lookOn(unsigned processor);
};
} // namespace

void Board::lookOn(unsigned processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  bool placed = sched_setaffinity(0, sizeof(only), &only) == 0;
  open.wait(false);
  uint64_t mine = 0;
  unsigned glances = 0;
  bool told = false;
  // One that could not be placed looks at nothing, so that not everyone was seen.
  for (unsigned turn = 0; placed; ++turn) {
    uint64_t seen = latest.load(std::memory_order_acquire), now = read();
    if (seen > now) {
      // That is all there is to know; and who is behind shows nothing that others could look at.
      uint64_t none = 0;
      behind.compare_exchange_strong(none, seen - now, std::memory_order_relaxed);
    }
    glances += seen != mine;
    if (now > seen && latest.compare_exchange_strong(seen, now, std::memory_order_acq_rel))
      mine = now;
    if (!told && (glances >= wantedGlances || asked == 1)) {
      told = true;
      satisfied.fetch_add(1, std::memory_order_relaxed);
    }
    if (satisfied.load(std::memory_order_relaxed) == asked || behind.load(std::memory_order_relaxed) != 0)
      break;
    if (turn % 64 == 0 && std::chrono::steady_clock::now() >= end)
      break;
  }
}

CounterCheck checkCounters(CounterReader read, unsigned boundMs) {
  CounterCheck result;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // More processors than the set has room for: not everyone can be seen.
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return result;
  result.processors = unsigned(CPU_COUNT(&allowed));
  Board board(read, std::chrono::steady_clock::now() + std::chrono::milliseconds(boundMs), result.processors);
  std::vector<std::thread> threads;
  bool all = true;
  for (unsigned processor = 0; processor < CPU_SETSIZE && all; ++processor)
    if (CPU_ISSET(processor, &allowed)) {
      try {
        threads.push_back(startQuietThread([&board, processor] { board.lookOn(processor); }));
      } catch (const std::system_error &) {
        all = false; // The others run into the bound, and satisfied stays below asked.
      }
    }
  board.open.store(true);
  board.open.notify_all();
  for (std::thread &thread : threads)
    thread.join();
  result.ticksBehind = board.behind.load(std::memory_order_relaxed);
  result.everyoneSeen = all && board.satisfied.load(std::memory_order_relaxed) == board.asked;
  return result;
}

} // namespace tapeback::ring
