#include "recorder/ring/StampClock.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace tapeback::ring {

static constexpr uint64_t leastCalibrationNs = 5'000'000, leastResyncNs = 50'000'000;

static uint64_t monotonicNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
}

uint64_t StampClock::stampOf(StampSource source) {
#if defined(__x86_64__)
  if (source == StampSource::Counter)
    return __rdtsc();
#endif
  (void)source;
  return monotonicNs();
}

ClockPair ClockPair::now() {
  // The narrowest of some: an interrupt in between widens one.
  ClockPair best = {0, 0};
  uint64_t narrowest = ~uint64_t(0);
  for (int i = 0; i < 16; ++i) {
    uint64_t from = StampClock::stampOf(StampSource::Counter), ns = monotonicNs(),
             to = StampClock::stampOf(StampSource::Counter);
    if (to - from < narrowest) {
      narrowest = to - from;
      best = {from + (to - from) / 2, ns};
    }
  }
  return best;
}

static bool invariantCounter() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
#else
  return false;
#endif
}

/// The kernel takes a counter that it found unstable, or apart between processors, off its list.
static bool kernelTrustsCounter() {
  std::FILE *list = std::fopen("/sys/devices/system/clocksource/clocksource0/available_clocksource", "re");
  if (!list)
    return false;
  char names[256] = "";
  bool found = false;
  if (std::fgets(names, sizeof(names), list)) {
    char *state = nullptr;
    for (char *name = strtok_r(names, " \n", &state); name; name = strtok_r(nullptr, " \n", &state))
      found |= std::strcmp(name, "tsc") == 0;
  }
  std::fclose(list);
  return found;
}

StampChoice::StampChoice(bool monotonicOnly) : begun(ClockPair::now()) {
  chosen = StampSource::Monotonic;
  if (monotonicOnly)
    why = "as asked";
  else if (!invariantCounter())
    why = "the processor has no invariant time-stamp counter";
  else if (!kernelTrustsCounter())
    why = "the kernel does not trust the time-stamp counter";
  else {
    chosen = StampSource::Counter;
    why = "invariant, and trusted by the kernel";
  }
}

static uint64_t rateBetween(const ClockPair &from, const ClockPair &to) {
  uint64_t ticks = to.stamp > from.stamp ? to.stamp - from.stamp : 1,
           ns = to.ns > from.ns ? to.ns - from.ns : 1;
  return uint64_t(((unsigned __int128)(ns) << 32) / ticks);
}

ClockFacts StampChoice::finish() const {
  if (chosen == StampSource::Monotonic)
    return {chosen, 0, begun.ns, begun.ns, uint64_t(1) << 32};
  while (monotonicNs() - begun.ns < leastCalibrationNs)
    ;
  ClockPair end = ClockPair::now();
  return {chosen, 0, end.stamp, end.ns, rateBetween(begun, end)};
}

StampClock::StampClock(const ClockFacts &facts)
    : source(facts.source == StampSource::Counter ? StampSource::Counter : StampSource::Monotonic),
      current{facts.originStamp, facts.originNs, facts.multiplier}, before(current),
      measured{facts.originStamp, facts.originNs} {}

StampClock::StampClock(StampSource source, const ClockSegments &segments)
    : source(source == StampSource::Counter ? StampSource::Counter : StampSource::Monotonic),
      current(segments.current), before(segments.before), measured{current.stamp, current.ns} {}

void StampClock::resync() {
  if (source == StampSource::Monotonic)
    return;
  ClockPair now = ClockPair::now();
  if (now.stamp <= measured.stamp || now.ns < measured.ns + leastResyncNs)
    return;
  uint64_t rate = rateBetween(measured, now), ticks = now.stamp - measured.stamp, told = toNs(now.stamp);
  // From where we are now to where the clock will be after as long again.
  double correction = (double(now.ns) - double(told)) * 4294967296.0 / double(ticks);
  double most = double(rate) / 1000;
  double multiplier = double(rate) + std::clamp(correction, -most, most);
  before = current;
  current = {now.stamp, told, uint64_t(multiplier)};
  measured = now;
}

} // namespace tapeback::ring
