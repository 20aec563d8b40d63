// Fuzzes the collector's side of the ring: bytes as a hostile program may leave them there, through the
// consumer and the collector onto a tape as strict as the real writer.
//
// Input: byte 0 selects the mode. 0: the rest is the ring's data, the position of its head comes from two
// bytes. Otherwise: records from the rest, with small enumerants, so that the collector's pairing is reached
// at once.
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "tests/recorder/Feeder.h"
#include <cstring>

using namespace tapeback;
using namespace tapeback::test;

namespace {

class Bytes {
public:
  Bytes(const uint8_t *data, size_t size) : rest(data, size) {}
  bool empty() const { return rest.empty(); }
  uint8_t byte() {
    uint8_t value = rest.empty() ? 0 : rest.front();
    rest = rest.drop_front(rest.empty() ? 0 : 1);
    return value;
  }
  uint64_t number() { // Mostly small.
    uint8_t bytes = byte() % 9;
    uint64_t value = 0;
    for (uint8_t i = 0; i < bytes; ++i)
      value = value << 8 | byte();
    return value;
  }
  llvm::ArrayRef<uint8_t> take(size_t count) {
    llvm::ArrayRef<uint8_t> part = rest.take_front(std::min(count, rest.size()));
    rest = rest.drop_front(part.size());
    return part;
  }

private:
  llvm::ArrayRef<uint8_t> rest;
};

void check(bool condition) {
  if (!condition)
    __builtin_trap();
}

void rawRing(Bytes input) {
  constexpr uint64_t dataBytes = 64 << 10;
  // One mapping for all runs; every run writes what it reads.
  static std::vector<uint64_t> memory((ring::headerBytes + dataBytes) / 8 + 8);
  auto *header = new (memory.data()) ring::Header{};
  auto *data = reinterpret_cast<uint8_t *>(memory.data()) + ring::headerBytes;
  uint64_t head = uint64_t(input.byte() % 2) << 16;
  head |= uint64_t(input.byte()) << 8;
  head |= input.byte();
  std::memset(data, 0, dataBytes);
  llvm::ArrayRef<uint8_t> content = input.take(dataBytes);
  std::memcpy(data, content.data(), content.size());
  ring::RingConsumer consumer(*header, data, dataBytes, 100000);
  Feeder feeder;
  feeder.open();
  header->head.store(head);
  ring::Record record;
  llvm::ArrayRef<uint8_t> payload;
  for (uint64_t steps = 0;; ++steps) {
    check(steps < dataBytes);
    ring::RingConsumer::Status status = consumer.next(record, payload);
    if (status == ring::RingConsumer::Status::Empty)
      break;
    if (status == ring::RingConsumer::Status::Corrupt) {
      feeder.collector->damaged();
      continue;
    }
    check(payload.size() <= 100000);
    feeder.collector->accept(record, payload);
  }
  consumer.release();
  check(header->tail.load() == header->head.load());
  llvm::Expected<TapeSummary> summary = feeder.finish();
  check(bool(summary));
  check(feeder.tape.violation.empty());
}

void records(Bytes input, uint8_t mode) {
  CollectorOptions options;
  options.keyframeInterval = 16;
  if (mode & 2) {
    static const CollectorDevice engine = copyEngine("a");
    llvm::Expected<StartStopCondition> start =
        StartStopCondition::parse(mode & 4 ? "write:CMD" : "marker:a", "--start", {&*engine.description});
    check(bool(start));
    options.start = *start;
    options.stop = *start;
  }
  Feeder feeder(options, 2, /*queues=*/true);
  if (mode & 8) {
    feeder.open();
    feeder.open(1);
  }
  while (!input.empty()) {
    ring::Record record = {};
    record.type = ring::RecordType(3 + input.byte() % 6);
    record.kind = input.byte() % 32;
    record.width = uint8_t(1u << input.byte() % 5);
    record.flags = input.byte();
    record.device = input.byte() % 3;
    record.thread = input.byte() % 4;
    record.space = input.byte() % 4;
    record.completion = input.byte() % 5;
    record.origin = input.byte() % 3;
    record.hints = input.byte() % 4 == 0;
    record.sequence = input.byte() % 16;
    record.time = input.number();
    record.address = input.number();
    record.value = input.number();
    record.mask = input.number();
    record.expected = input.number();
    record.length = input.number();
    record.link = input.byte() % 16;
    if (record.link == 15)
      record.link = noLink; // A descriptor of a queue's entry.
    record.count = input.number();
    llvm::ArrayRef<uint8_t> payload = input.take(input.byte());
    feeder.collector->accept(record, payload);
  }
  ProgramFate fate;
  fate.exit = mode >> 4;
  llvm::Expected<TapeSummary> summary = feeder.finish(fate);
  check(bool(summary));
  check(feeder.tape.violation.empty());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0 || size > 1 << 16)
    return 0;
  Bytes input(data + 1, size - 1);
  if (data[0] % 2 == 0)
    rawRing(input);
  else
    records(input, data[0] >> 1);
  return 0;
}
