// What a call of the C API costs in the program that makes it. Recorded or not, as it is started:
//
//   recorder-calls OUT.json CALLS
//
// Writes one JSON object with nanoseconds: of reading the counter, of the target itself without the client
// library, of what a call costs beside that, of calls without a pause, of bursts of ten, and how single calls
// are distributed. The median of several rounds each, taken in turns, so that a busy machine hits all alike.
// While the thread was not running because the machine gave its core to others, no time passes; while it
// waited for anything by itself (for the collector to make room, say), it does, and "waits" counts how often
// that was.
#include "hal/backend/tapeback_backend.h"
#include "recorder/tapeback.h"
#include "tests/bench/Clock.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/resource.h>
#include <vector>

using namespace tapeback::bench;

namespace {

constexpr unsigned rounds = 7, turns = 20, burstCalls = 10, bursts = 2000, pauseNs = 20'000;

[[noreturn]] void giveUp(const char *what) {
  std::fprintf(stderr, "recorder-calls: %s\n", what);
  std::exit(1);
}

double medianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

uint64_t processorNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}
/// How often the thread gave up its core by itself.
long ownWaits() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

/// Nanoseconds of one of `count` repetitions. Adds to `waits`.
template <typename F>
double timed(uint64_t count, long &waits, F repeat) {
  long before = ownWaits();
  uint64_t start = nanoseconds(), startUsed = processorNs();
  for (uint64_t i = 0; i < count; ++i)
    repeat(i);
  uint64_t used = processorNs() - startUsed, passed = nanoseconds() - start;
  long waited = ownWaits() - before;
  waits += waited;
  return double(waited ? passed : used) / double(count);
}

void pause(uint64_t ns) {
  for (uint64_t end = nanoseconds() + ns; nanoseconds() < end;)
    ;
}

} // namespace

int main(int argc, char **argv) {
  uint64_t calls = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (calls < turns)
    giveUp("usage: recorder-calls OUT.json CALLS");
  tb_device *device = nullptr;
  if (tb_open(nullptr, &device) != TB_OK)
    giveUp(tb_error());
  // The same target without the client in between: what a call costs anyway.
  void *library = dlopen(TAPEBACK_BINARY_DIR "/lib/tapeback/libtapeback-backend.so", RTLD_NOW | RTLD_LOCAL);
  auto entry =
      library
          ? reinterpret_cast<const tapeback_backend *(*)(uint32_t)>(dlsym(library, "tapeback_backend_entry"))
          : nullptr;
  const tapeback_backend *backend = entry ? entry(TAPEBACK_BACKEND_ABI) : nullptr;
  tapeback_backend_target *target = nullptr;
  tapeback_backend_failure failure;
  if (!backend || backend->open("null:", &target, &failure) != TAPEBACK_BACKEND_OK)
    giveUp("cannot open null: directly");

  int status = 0;
  uint64_t sum = 0;
  auto call = [&](uint64_t i) { status |= tb_write32(device, "bar0", 4 * (i % 16), uint32_t(i)); };
  auto alone = [&](uint64_t i) {
    status |= backend->write(target, 0, 4 * (i % 16), 4, uint32_t(i), &failure);
  };
  std::vector<double> counter, direct, extra, sustained, burst;
  // Touched now: waiting for a page when it is written to first would be taken for the call's.
  std::vector<uint32_t> single(calls);
  long waits = 0, otherWaits = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    counter.push_back(timed(calls, otherWaits, [&](uint64_t) { sum += ticks(); }));
    direct.push_back(timed(calls, otherWaits, alone));
    // In short turns: what is a few nanoseconds more than something else has to be measured beside it.
    for (unsigned turn = 0; turn < turns; ++turn) {
      double without = timed(calls / turns, otherWaits, alone);
      extra.push_back(timed(calls / turns, otherWaits, call) - without);
    }
    sustained.push_back(timed(calls, waits, call));
    std::vector<double> each;
    for (unsigned i = 0; i < bursts / rounds; ++i) {
      pause(pauseNs);
      uint64_t start = ticks();
      for (unsigned n = 0; n < burstCalls; ++n)
        call(n);
      each.push_back(double(ticks() - start) / burstCalls);
    }
    burst.push_back(medianOf(each));
  }
  uint64_t startTicks = ticks(), startNs = nanoseconds();
  for (uint64_t i = 0, before = startTicks; i < calls; ++i) {
    call(i);
    uint64_t now = ticks();
    single[i] = uint32_t(std::min<uint64_t>(now - before, UINT32_MAX));
    before = now;
  }
  double nsPerTick = double(nanoseconds() - startNs) / double(std::max<uint64_t>(ticks() - startTicks, 1));
  std::sort(single.begin(), single.end());
  auto percentile = [&](double share) {
    return single[size_t(double(single.size() - 1) * share)] * nsPerTick;
  };
  int recording = tb_recording();
  if (tb_close(device) != TB_OK || status)
    giveUp("a call failed");
  backend->close(target);

  std::FILE *out = std::fopen(argv[1], "w");
  if (!out)
    giveUp("cannot write the result");
  std::fprintf(
      out,
      "{\"recording\": %s, \"calls\": %llu, \"counter_ns\": %.2f, \"target_ns\": %.2f, \"extra_ns\": %.2f, "
      "\"sustained_ns\": %.2f, \"burst_ns\": %.2f, \"p50_ns\": %.1f, \"p99_ns\": %.1f, "
      "\"p999_ns\": %.1f, \"waits\": %ld, \"sum\": %u}\n",
      recording ? "true" : "false", static_cast<unsigned long long>(calls), medianOf(counter),
      medianOf(direct), medianOf(extra), medianOf(sustained), medianOf(burst) * nsPerTick, percentile(0.5),
      percentile(0.99), percentile(0.999), waits, unsigned(sum & 1));
  return std::fclose(out) == 0 ? 0 : 1;
}
