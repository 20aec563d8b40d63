// A collector that lags behind while records flow: none is left lying, and none comes late when they stop.
#include "recorder/CaptureCompiler.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include <chrono>
#include <doctest/doctest.h>
#include <thread>

using namespace tapeback;
using namespace tapeback::ring;

namespace {

std::unique_ptr<RingFile> smallRing(uint64_t dataBytes) {
  llvm::Expected<std::vector<uint8_t>> table = compileCaptureTable({{"a", "null:", nullptr}});
  REQUIRE(bool(table));
  RingOptions options;
  options.dataBytes = dataBytes;
  options.chunkBytes = 4096;
  llvm::Expected<std::unique_ptr<RingFile>> file = RingFile::createAnonymous(*table, options);
  REQUIRE(bool(file));
  return std::move(*file);
}

Record lagRecord(uint64_t number) {
  Record record = {};
  record.type = RecordType::Event;
  record.kind = uint8_t(PacketKind::Acquire);
  record.address = number;
  return record;
}

} // namespace

TEST_CASE("a lagging collector gets every record in order, by a small ring that is full most of the time") {
  constexpr uint64_t count = 100'000;
  auto file = smallRing(64 << 10);
  Producer producer;
  REQUIRE(producer.attachMapping(file->base(), file->bytes(), nullptr) == Producer::Attach::Attached);
  RingConsumer consumer(file->header(), file->data(), file->dataBytes(), 1 << 20);
  std::thread thread([&] {
    for (uint64_t i = 0; i < count; ++i)
      producer.append(lagRecord(i));
  });
  Record record;
  llvm::ArrayRef<uint8_t> payload;
  uint64_t next = 0, wrong = 0, waits = 0;
  while (next < count) {
    switch (consumer.next(record, payload)) {
    case RingConsumer::Status::Record: wrong += record.address != next++; break;
    case RingConsumer::Status::Corrupt: ++wrong; break;
    case RingConsumer::Status::Empty: consumer.wait(60'000); ++waits;
    }
  }
  thread.join();
  producer.release();
  CHECK(wrong == 0);
  CHECK(waits > 0);
}

TEST_CASE("a record that comes alone, long after the others, wakes the collector") {
  auto file = smallRing(1 << 20);
  Producer producer;
  REQUIRE(producer.attachMapping(file->base(), file->bytes(), nullptr) == Producer::Attach::Attached);
  RingConsumer consumer(file->header(), file->data(), file->dataBytes(), 1 << 20);
  Record record;
  llvm::ArrayRef<uint8_t> payload;
  producer.append(lagRecord(1));
  REQUIRE(consumer.next(record, payload) == RingConsumer::Status::Record);
  // They have just flowed: a short sleep, and it ends by itself.
  auto start = std::chrono::steady_clock::now();
  consumer.wait(60'000);
  REQUIRE(consumer.next(record, payload) == RingConsumer::Status::Empty);
  // None flow: asleep until the next.
  std::thread thread([&] {
    while (!file->header().dataWanted.load())
      std::this_thread::yield();
    producer.append(lagRecord(2));
  });
  consumer.wait(60'000);
  CHECK(consumer.next(record, payload) == RingConsumer::Status::Record);
  CHECK(record.address == 2);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
  thread.join();
  producer.release();
}
