// Fuzzes the collector's side of the ring: bytes as a hostile program may leave them there, through the
// consumer and the collector onto a tape as strict as the real writer.
//
// Input: byte 0 selects the mode. 0: the rest is the slots of two lanes, and before them positions and what
// else a producer has in its lanes. Otherwise: records from the rest, with small enumerants, so that the
// collector's pairing is reached at once.
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

/// A ring of two lanes whose slots are the input, published in two steps, so that some complete in between.
void rawRing(Bytes input) {
  constexpr uint64_t slotCount = 256;
  // One mapping for all runs; every run writes what it reads.
  static ring::Header header;
  static ring::Lane lanes[2];
  static ring::Slot slots[2][slotCount];
  header.dataWanted.store(0);
  const bool watermarks = input.byte() % 2;
  uint64_t heads[2][2];
  for (auto &ofLane : heads)
    for (uint64_t &head : ofLane)
      head = uint64_t(input.byte() % 3) * slotCount / 2 + input.byte();
  for (unsigned i = 0; i < 2; ++i) {
    lanes[i].head.store(0);
    lanes[i].tail.store(0);
    lanes[i].busy.store(input.byte() % 3);
    lanes[i].owner.store(input.byte() % 2);
    lanes[i].spaceWanted.store(0);
  }
  std::memset(static_cast<void *>(slots), 0, sizeof(slots));
  llvm::ArrayRef<uint8_t> content = input.take(sizeof(slots));
  std::memcpy(static_cast<void *>(slots), content.data(), content.size());
  ring::ClockFacts clock{ring::StampSource::Monotonic, 0, 0, 0, uint64_t(1) << 32};
  ring::RingConsumer consumer(header, {{&lanes[0], slots[0], slotCount}, {&lanes[1], slots[1], slotCount}},
                              clock, 100000);
  Feeder feeder;
  feeder.open();
  auto drain = [&] {
    ring::RingConsumer::Batch batch;
    for (uint64_t steps = 0;; ++steps) {
      check(steps < 64 * slotCount);
      switch (consumer.next(batch)) {
      case ring::RingConsumer::Status::Empty: return;
      case ring::RingConsumer::Status::Corrupt: feeder.collector->damaged(); break;
      case ring::RingConsumer::Status::Accesses:
        check(!batch.accesses.empty());
        feeder.collector->acceptAccesses(batch.accesses, batch.firstName, batch.concurrent);
        break;
      case ring::RingConsumer::Status::Record:
        check(batch.payload.size() <= 100000);
        feeder.collector->accept(batch.record, batch.payload, batch.others);
        break;
      }
    }
  };
  for (unsigned step = 0; step < 2; ++step) {
    for (unsigned i = 0; i < 2; ++i)
      lanes[i].head.store(heads[i][step]);
    if (watermarks)
      drain();
    for (auto &lane : slots)
      for (ring::Slot &slot : lane)
        if (slot.spare & 1)
          slot.state.store(ring::SlotState::Completed);
  }
  consumer.freeze();
  drain();
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
    record.payloadBytes = payload.size();
    if (mode & 16) { // The same as accesses that completed in place.
      ring::SlotCopy slots[3] = {};
      for (ring::SlotCopy &slot : slots) {
        slot.issue = record.time;
        slot.complete = record.mask;
        slot.address = record.address;
        slot.value = record.value + uint64_t(&slot - slots);
        slot.device = record.device;
        slot.space = record.space;
        slot.thread = record.thread;
        slot.kind = record.kind;
        slot.width = record.width;
        slot.flags = record.hints ? record.flags : uint8_t(0);
        slot.completion = record.completion;
        slot.origin = record.origin;
      }
      feeder.collector->acceptAccesses(slots, record.sequence + 100, record.type == ring::RecordType::Event);
    }
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
