// What one record costs the program, against one LTTng-UST event of equal payload. Run by LttngPeer.py, which
// sets up LTTng's session and runs this under `tapeback record --target null:`, so that on either side it is
// what a recorded program pays:
//
//   lttng-bench OUT.json
//
// Writes one JSON object, medians of rounds taken in turns: a mark (tb_mark: a name of 24 bytes with its end,
// stamped once) against an event with that name; an access (tb_write32: stamped twice, and the target's own
// work) against an event with kind, address and value; and a record of kind, address and value, stamped once,
// put into a ring of this process that is drained beside it. With "--emit", nothing but LTTng's events on
// standard output: what one costs, for its triggers.
#include "format/Failure.h"
#include "recorder/CaptureCompiler.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include "recorder/tapeback.h"
#include "tests/bench/Clock.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tapeback;
using namespace tapeback::bench;

extern "C" {
int lttngEnabled(void);
void lttngEmit(uint64_t count);
void lttngMark(uint64_t count, const char *name);
}

namespace {

// A round is less than the ring holds: what is measured is records, not how fast marks become windows of a
// tape.
constexpr uint64_t count = 40'000;
constexpr unsigned rounds = 15;
constexpr useconds_t pauseUs = 50'000;
constexpr char name[] = "layer 17: convolution 3";
static_assert(sizeof(name) == 24);

[[noreturn]] void giveUp(const char *what) {
  std::fprintf(stderr, "lttng-bench: %s\n", what);
  std::exit(1);
}

double medianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double processorNanoseconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) * 1e9 + double(time.tv_nsec);
}

/// How often the thread gave up its core by itself.
long ownWaits() {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

/// Nanoseconds of one of `count`. Adds to `waits`.
template <typename F>
double timed(long &waits, F all) {
  usleep(pauseUs); // Whoever drains what was put last may do so.
  const long before = ownWaits();
  const uint64_t start = nanoseconds();
  all();
  const uint64_t passed = nanoseconds() - start;
  waits += ownWaits() - before;
  return double(passed) / double(count);
}

/// A ring, its producer in the calling thread, and a thread that drains it.
class OwnRing {
public:
  OwnRing() : file(make()), consumer(*file) {
    if (producer.attachMapping(file->base(), file->bytes(), nullptr) != ring::Producer::Attach::Attached)
      giveUp("cannot attach to the ring");
    consumer.lagBehind();
    collector = std::thread([this] { drain(); });
  }
  /// How many records came out of it.
  uint64_t finish() {
    done.store(true);
    consumer.wake();
    collector.join();
    producer.release();
    return taken;
  }
  ring::Producer producer;

private:
  static std::unique_ptr<ring::RingFile> make() {
    auto table = llvm::cantFail(compileCaptureTable({{"device", "null:", nullptr}}));
    return llvm::cantFail(ring::RingFile::createAnonymous(table, {}));
  }
  void drain() {
    ring::RingConsumer::Batch batch;
    for (bool last = false; !last; consumer.wait(250)) {
      last = done.load();
      if (last)
        consumer.freeze();
      for (bool more = true; more;) {
        switch (consumer.next(batch)) {
        case ring::RingConsumer::Status::Accesses: taken += batch.accesses.size(); break;
        case ring::RingConsumer::Status::Record: ++taken; break;
        case ring::RingConsumer::Status::Corrupt:
        case ring::RingConsumer::Status::Empty: more = false;
        }
      }
    }
  }
  std::unique_ptr<ring::RingFile> file;
  ring::RingConsumer consumer;
  std::atomic<bool> done{false};
  uint64_t taken = 0;
  std::thread collector;
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 2)
    giveUp("usage: lttng-bench OUT.json|--emit");
  if (!lttngEnabled())
    giveUp("LTTng's events are not enabled: run LttngPeer.py");
  if (std::strcmp(argv[1], "--emit") == 0) {
    std::vector<double> events;
    for (unsigned round = 0; round < rounds; ++round) {
      double start = processorNanoseconds();
      lttngEmit(count / 4);
      events.push_back((processorNanoseconds() - start) / (double(count) / 4));
    }
    std::printf("{\"event_ns\": %.2f}\n", medianOf(events));
    return 0;
  }
  tb_device *device = nullptr;
  if (tb_open(nullptr, &device) != TB_OK)
    giveUp(tb_error());
  if (!tb_recording())
    giveUp("not recorded: run LttngPeer.py");
  int status = 0;
  uint64_t sum = 0;
  long waits = 0;
  std::vector<double> counter, marks, theirMarks, accesses, theirAccesses, events;
  for (unsigned round = 0; round < rounds; ++round) {
    counter.push_back(timed(waits, [&] {
      for (uint64_t i = 0; i < count; ++i)
        sum += ticks();
    }));
    marks.push_back(timed(waits, [&] {
      for (uint64_t i = 0; i < count; ++i)
        status |= tb_mark(device, name);
    }));
    theirMarks.push_back(timed(waits, [&] { lttngMark(count, name); }));
    accesses.push_back(timed(waits, [&] {
      for (uint64_t i = 0; i < count; ++i)
        status |= tb_write32(device, "bar0", 4 * (i % 16), uint32_t(i));
    }));
    theirAccesses.push_back(timed(waits, [&] { lttngEmit(count); }));
  }
  if (tb_close(device) != TB_OK || status)
    giveUp("a call failed");
  OwnRing own;
  for (unsigned round = 0; round < rounds; ++round) {
    events.push_back(timed(waits, [&] {
      for (uint64_t i = 0; i < count; ++i)
        own.producer.appendEvent(
            ring::Access::makeEvent(PacketKind::Marker, 4 * (i % 16), i, 0, 0, Origin::Program));
    }));
    theirAccesses.push_back(timed(waits, [&] { lttngEmit(count); }));
  }
  if (own.finish() != count * rounds)
    giveUp("records were lost in the ring");
  const double mark = medianOf(marks), theirMark = medianOf(theirMarks), access = medianOf(accesses),
               theirAccess = medianOf(theirAccesses), event = medianOf(events);
  std::FILE *out = std::fopen(argv[1], "w");
  if (!out)
    giveUp("cannot write the result");
  std::fprintf(
      out,
      "{\"benchmark\": \"lttng-peer\", \"counter_ns\": %.1f, \"mark_ns\": %.1f, \"lttng_mark_ns\": %.1f, "
      "\"access_ns\": %.1f, \"event_ns\": %.1f, \"lttng_ns\": %.1f, \"mark_ratio\": %.3f, \"event_ratio\": "
      "%.3f, \"access_ratio\": %.3f, \"waits\": %ld, \"sum\": %u}\n",
      medianOf(counter), mark, theirMark, access, event, theirAccess, mark / theirMark, event / theirAccess,
      access / theirAccess, waits, unsigned(sum & 1));
  return std::fclose(out) == 0 ? 0 : 1;
}
