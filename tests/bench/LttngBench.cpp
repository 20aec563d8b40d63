// One stamped record of the ring, its collector draining it, against one LTTng-UST event of equal payload.
// Run by LttngPeer.py, which sets up LTTng's session; prints one JSON object.
#include "format/Failure.h"
#include "recorder/CaptureCompiler.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include "tests/bench/Clock.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
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

} // namespace

int main() {
  constexpr uint64_t count = 200'000;
  constexpr unsigned rounds = 9;
  if (!lttngEnabled()) {
    std::puts("{\"benchmark\": \"lttng-peer\", \"skipped\": \"the event is not enabled: run LttngPeer.py\"}");
    return 0;
  }
  auto table = llvm::cantFail(compileCaptureTable({{"device", "null:", nullptr}}));
  auto file = llvm::cantFail(ring::RingFile::createAnonymous(table, {}));
  ring::Producer producer;
  if (producer.attachMapping(file->base(), file->bytes(), nullptr) != ring::Producer::Attach::Attached)
    return 1;
  ring::RingConsumer consumer(file->header(), file->data(), file->dataBytes(), 1 << 20);
  std::atomic<bool> done{false};
  uint64_t taken = 0;
  std::thread collector([&] {
    ring::Record record;
    llvm::ArrayRef<uint8_t> payload;
    for (;;) {
      bool last = done.load();
      while (consumer.next(record, payload) == ring::RingConsumer::Status::Record)
        ++taken;
      if (last)
        return;
      consumer.wait(250);
    }
  });
  std::vector<double> ours, theirs;
  for (unsigned round = 0; round < rounds; ++round) {
    uint64_t start = nanoseconds();
    for (uint64_t i = 0; i < count; ++i) {
      ring::Record record = {};
      record.type = ring::RecordType::Event;
      record.kind = uint8_t(PacketKind::Marker);
      record.address = 4 * (i % 16);
      record.value = i;
      producer.append(record);
    }
    ours.push_back(double(nanoseconds() - start) / count);
    start = nanoseconds();
    lttngEmit(count);
    theirs.push_back(double(nanoseconds() - start) / count);
  }
  done.store(true);
  consumer.wake();
  collector.join();
  producer.release();
  if (taken != count * rounds)
    return 1;
  std::printf("{\"benchmark\": \"lttng-peer\", \"record_ns\": %.1f, \"event_ns\": %.1f, \"ratio\": %.3f}\n",
              medianOf(ours), medianOf(theirs), medianOf(ours) / medianOf(theirs));
  return 0;
}
