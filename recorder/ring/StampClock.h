// From the ring's stamps to the tape's clock 0: nanoseconds of CLOCK_MONOTONIC.
#pragma once

#include "recorder/ring/CounterCheck.h"
#include "recorder/ring/RingFormat.h"
#include <string>

namespace tapeback::ring {

/// Reads both clocks at (nearly) the same time.
struct ClockPair {
  uint64_t stamp, ns;
  static ClockPair now();
};

/// Whether an invariant counter is fit to stamp with, and why. It is where the kernel lists it as a clock
/// source; where it does not, but its own clock is the hypervisor's (kvm-clock: counter, scale and offset in
/// a page that both see; Linux, Documentation/virt/kvm/x86/msr.rst), the processors are compared, since then
/// the list does not tell what the kernel found. `available` and `current` are as the kernel has them under
/// /sys.
std::string judgeCounter(const std::string &available, const std::string &current, CounterReader read,
                         unsigned boundMs, StampSource &chosen);

/// Decides what programs stamp with: the processor's counter where it is invariant and fit, CLOCK_MONOTONIC
/// otherwise. Begin it, do something else that takes milliseconds, then finish it: the longer, the more exact
/// the rate.
class StampChoice {
public:
  explicit StampChoice(bool monotonicOnly);
  /// Waits until enough time has passed for a rate (5 ms).
  ClockFacts finish() const;
  /// Why it is what it is, for the manifest.
  const std::string &reason() const { return why; }
  StampSource source() const { return chosen; }

private:
  StampSource chosen;
  std::string why;
  ClockPair begun;
};

/// Converts. One thread. Time never goes backwards between stamps that do not, whatever resync() finds.
class StampClock {
public:
  /// Facts of a ring whose program is not trusted any more must have been read before it ran; whatever they
  /// are, conversion is defined.
  explicit StampClock(const ClockFacts &facts);
  /// Goes on as another one did.
  StampClock(StampSource source, const ClockSegments &segments);
  ClockSegments segments() const { return {current, before}; }

  uint64_t toNs(uint64_t stamp) const {
    const ClockSegment &segment = stamp >= current.stamp ? current : before;
    if (stamp >= segment.stamp)
      return segment.ns + scaled(stamp - segment.stamp, segment.multiplier);
    uint64_t back = scaled(segment.stamp - stamp, segment.multiplier);
    return back < segment.ns ? segment.ns - back : 0;
  }
  /// A stamp now.
  uint64_t now() const { return stampOf(source); }
  static uint64_t stampOf(StampSource source);
  /// Compares with CLOCK_MONOTONIC again, whose rate is corrected all the time. Call about once a second;
  /// stamps of before the last call but one are converted less exactly.
  void resync();
  StampSource stampSource() const { return source; }

private:
  static uint64_t scaled(uint64_t ticks, uint64_t multiplier) {
    return uint64_t((unsigned __int128)(ticks)*multiplier >> 32);
  }
  StampSource source;
  ClockSegment current, before;
  ClockPair measured;
};

} // namespace tapeback::ring
