// Whether the processors' time-stamp counters tell one time, found by asking them.
#pragma once

#include <cstdint>

namespace tapeback::ring {

/// What the processors showed.
struct CounterCheck {
  unsigned processors = 0;   ///< How many could be asked: those that this process may run on.
  uint64_t ticksBehind = 0;  ///< How far one was behind what another had shown before; 0: never.
  bool everyoneSeen = false; ///< Each processor looked often enough at what the others had shown.

  /// One processor alone agrees with itself.
  bool agree() const { return everyoneSeen && ticksBehind == 0; }
};

/// Reads a counter on the processor that calls.
using CounterReader = uint64_t (*)();

/// A thread a processor; each shows its counter in one shared word if that is later than what stands there,
/// and looks whether it ever is earlier. What another processor has shown happened before (the word is read
/// with acquire before the counter is, and the reader waits for that), so an earlier counter is one that is
/// behind. Finds differences larger than the 100 ns or so that a cache line takes between processors; smaller
/// ones do not put events of two threads in a wrong order. Ends with the first that is found. Takes a
/// millisecond, on a busy machine at most `boundMs`.
CounterCheck checkCounters(CounterReader read, unsigned boundMs);

/// Reads the processor's time-stamp counter after all loads before it (LFENCE; RDTSC: Intel's manual, volume
/// 2, "RDTSC"; AMD's volume 3 likewise). 0 where there is none.
uint64_t readCounterInOrder();

} // namespace tapeback::ring
