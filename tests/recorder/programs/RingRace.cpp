// Producers and collector as threads over one mapping of a ring, for the thread sanitizer (over two mappings
// it sees nothing). Built twice: as it is, and with a producer that publishes without release, which must be
// reported.
#include "recorder/CaptureCompiler.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include <cstdio>
#include <thread>

using namespace tapeback;
using namespace tapeback::ring;

namespace {

constexpr unsigned threads = 3; // Of which two share a lane.
constexpr uint64_t each = 4000;

void produce(Producer &producer, uint16_t thread) {
  uint8_t payload[300] = {};
  for (uint64_t i = 0; i < each; ++i) {
    Record event = {};
    event.type = RecordType::Event;
    event.kind = uint8_t(PacketKind::Marker);
    event.thread = thread;
    event.address = i;
    if (i % 2)
      producer.append(event, payload, i % sizeof(payload));
    else
      producer.appendEvent(Access::makeEvent(PacketKind::Marker, i, 0, 0, thread, Origin::Program), payload,
                           i % sizeof(payload));
    Access access = Access::make(PacketKind::RegisterRead, i, 0, 0, 1, thread, 4, Origin::Program);
    IssuedAccess underway = producer.issueInPlace(access);
    producer.completeInPlace(underway, access, Completion::Done, i);
  }
}

} // namespace

int main() {
  llvm::Expected<std::vector<uint8_t>> table = compileCaptureTable({{"a", "null:", nullptr}});
  if (!table)
    return 2;
  RingOptions options;
  options.dataBytes = 64 << 10;
  options.chunkBytes = 4096;
  options.lanes = 2;
  llvm::Expected<std::unique_ptr<RingFile>> file = RingFile::createAnonymous(*table, options);
  if (!file)
    return 2;
  static Producer producer;
  if (producer.attachMapping((*file)->base(), (*file)->bytes(), nullptr) != Producer::Attach::Attached)
    return 2;
  RingConsumer consumer(**file);
  std::thread senders[threads];
  for (uint16_t i = 0; i < threads; ++i)
    senders[i] = std::thread([i] { produce(producer, i); });
  uint64_t seen = 0, sum = 0;
  RingConsumer::Batch batch;
  while (seen < threads * each * 2) {
    switch (consumer.next(batch)) {
    case RingConsumer::Status::Empty: consumer.wait(1000); break;
    case RingConsumer::Status::Corrupt: return 3;
    case RingConsumer::Status::Accesses:
      seen += batch.accesses.size();
      for (const SlotCopy &access : batch.accesses)
        sum += access.value;
      break;
    case RingConsumer::Status::Record:
      seen += batch.record.type != RecordType::Issue;
      sum += batch.record.value;
    }
  }
  for (std::thread &sender : senders)
    sender.join();
  producer.release();
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
  return 0;
}
