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
static constexpr unsigned mostCheckMs = 200;

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

/// What the kernel says of its clock sources: one file, one line.
static std::string clockSources(const char *which) {
  std::string path = std::string("/sys/devices/system/clocksource/clocksource0/") + which;
  std::FILE *file = std::fopen(path.c_str(), "re");
  char names[256] = "";
  if (file && !std::fgets(names, sizeof(names), file))
    names[0] = 0;
  if (file)
    std::fclose(file);
  return names;
}

static bool lists(std::string names, const char *wanted) {
  char *state = nullptr;
  for (char *name = strtok_r(names.data(), " \n", &state); name; name = strtok_r(nullptr, " \n", &state))
    if (std::strcmp(name, wanted) == 0)
      return true;
  return false;
}

std::string judgeCounter(const std::string &available, const std::string &current, CounterReader read,
                         unsigned boundMs, StampSource &chosen) {
  chosen = StampSource::Monotonic;
  // The kernel takes a counter that it found unstable, or apart between processors, off its list.
  if (lists(available, "tsc")) {
    chosen = StampSource::Counter;
    return "invariant, and trusted by the kernel";
  }
  if (!lists(current, "kvm-clock"))
    return "the kernel does not trust the time-stamp counter";
  CounterCheck check = checkCounters(read, boundMs);
  if (check.ticksBehind)
    return "the kernel does not list the time-stamp counter, and between processors it is " +
           std::to_string(check.ticksBehind) + " ticks apart";
  if (!check.agree())
    return "the kernel does not list the time-stamp counter, and not all processors' could be compared";
  chosen = StampSource::Counter;
  return "invariant, the kernel's clock (kvm-clock) is made of it, and " + std::to_string(check.processors) +
         " processors' agree";
}

StampChoice::StampChoice(bool monotonicOnly) : chosen(StampSource::Monotonic), begun(ClockPair::now()) {
  if (monotonicOnly)
    why = "as asked";
  else if (!invariantCounter())
    why = "the processor has no invariant time-stamp counter";
  else
    why = judgeCounter(clockSources("available_clocksource"), clockSources("current_clocksource"),
                       readCounterInOrder, mostCheckMs, chosen);
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
