// One record of the ring, its collector draining it, against one LTTng-UST event of equal payload: a register
// access, which is stamped twice (when it is issued and when it comes back), and an event, which is stamped
// once. Run by LttngPeer.py, which sets up LTTng's session; prints one JSON object. With "--emit", nothing
// but LTTng's events: what one costs, for its triggers.
#include "format/Failure.h"
#include "recorder/CaptureCompiler.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include "tests/bench/Clock.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

using namespace tapeback;
using namespace tapeback::bench;

extern "C" {
int lttngEnabled(void);
void lttngEmit(uint64_t count);
}

namespace {

double medianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + long(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double processorNanoseconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) * 1e9 + double(time.tv_nsec);
}

} // namespace

int main(int argc, char **argv) {
  constexpr uint64_t count = 200'000;
  constexpr unsigned rounds = 9;
  if (!lttngEnabled()) {
    std::puts("{\"benchmark\": \"lttng-peer\", \"skipped\": \"the event is not enabled: run LttngPeer.py\"}");
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "--emit") == 0) {
    std::vector<double> events;
    for (unsigned round = 0; round < rounds; ++round) {
      double start = processorNanoseconds();
      lttngEmit(count / 4);
      events.push_back((processorNanoseconds() - start) / (double(count) / 4));
    }
    std::printf("{\"event_ns\": %.2f}\n", medianOf(events));
    return 0;
  }
  auto table = llvm::cantFail(compileCaptureTable({{"device", "null:", nullptr}}));
  auto file = llvm::cantFail(ring::RingFile::createAnonymous(table, {}));
  ring::Producer producer;
  if (producer.attachMapping(file->base(), file->bytes(), nullptr) != ring::Producer::Attach::Attached)
    return 1;
  ring::RingConsumer consumer(*file);
  std::atomic<bool> done{false};
  uint64_t taken = 0;
  std::thread collector([&] {
    ring::RingConsumer::Batch batch;
    for (;;) {
      bool last = done.load();
      if (last)
        consumer.freeze();
      for (bool more = true; more;) {
        switch (consumer.next(batch)) {
        case ring::RingConsumer::Status::Accesses: taken += batch.accesses.size(); break;
        case ring::RingConsumer::Status::Record:
          // An access that had not come back when it was looked at comes twice.
          taken += batch.record.type != ring::RecordType::Complete;
          break;
        case ring::RingConsumer::Status::Corrupt:
        case ring::RingConsumer::Status::Empty: more = false;
        }
      }
      if (last)
        return;
      consumer.wait(250);
    }
  });
  uint64_t sum = 0;
  auto timed = [&](auto once) {
    uint64_t start = nanoseconds();
    for (uint64_t i = 0; i < count; ++i)
      once(i);
    return double(nanoseconds() - start) / double(count);
  };
  std::vector<double> accesses, events, theirs, counter;
  for (unsigned round = 0; round < rounds; ++round) {
    counter.push_back(timed([&](uint64_t) { sum += ticks(); }));
    accesses.push_back(timed([&](uint64_t i) {
      ring::Access access =
          ring::Access::make(PacketKind::RegisterWrite, 4 * (i % 16), i, 0, 1, 0, 4, Origin::Program);
      ring::IssuedAccess underway = producer.issueInPlace(access);
      producer.completeInPlace(underway, access, Completion::Done, i);
    }));
    events.push_back(timed([&](uint64_t i) {
      ring::Record record = {};
      record.type = ring::RecordType::Event;
      record.kind = uint8_t(PacketKind::Marker);
      record.address = 4 * (i % 16);
      record.value = i;
      producer.append(record);
    }));
    uint64_t start = nanoseconds();
    lttngEmit(count);
    theirs.push_back(double(nanoseconds() - start) / count);
  }
  done.store(true);
  consumer.wake();
  collector.join();
  producer.release();
  if (taken != 2 * count * rounds) {
    std::fprintf(stderr, "lttng-bench: %llu records came out of the ring\n",
                 static_cast<unsigned long long>(taken));
    return 1;
  }
  double access = medianOf(accesses), event = medianOf(events), peer = medianOf(theirs);
  std::printf(
      "{\"benchmark\": \"lttng-peer\", \"counter_ns\": %.1f, \"access_ns\": %.1f, \"event_ns\": %.1f, "
      "\"lttng_ns\": %.1f, \"access_ratio\": %.3f, \"event_ratio\": %.3f, \"sum\": %u}\n",
      medianOf(counter), access, event, peer, access / peer, event / peer, unsigned(sum & 1));
  return 0;
}
