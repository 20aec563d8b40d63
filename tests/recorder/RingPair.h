// Both ends of a ring in one process, over one mapping.
#pragma once

#include "recorder/CaptureCompiler.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include <deque>
#include <doctest/doctest.h>
#include <memory>
#include <vector>

namespace tapeback::test {

inline std::vector<uint8_t> someTable() {
  llvm::Expected<std::vector<uint8_t>> table = compileCaptureTable({{"a", "null:", nullptr}});
  REQUIRE(bool(table));
  return *table;
}

inline std::unique_ptr<ring::RingFile> anonymousRing(const ring::RingOptions &options) {
  llvm::Expected<std::unique_ptr<ring::RingFile>> file =
      ring::RingFile::createAnonymous(someTable(), options);
  REQUIRE(bool(file));
  return std::move(*file);
}

inline ring::RingOptions smallRing(unsigned lanes = ring::maxLanes) {
  ring::RingOptions options;
  options.dataBytes = 64 << 10;
  options.chunkBytes = 4096;
  options.captureLimit = 1 << 20;
  options.lanes = lanes;
  return options;
}

/// The payload that a record of this number must have.
inline std::vector<uint8_t> payloadOf(uint64_t number, size_t bytes) {
  std::vector<uint8_t> payload(bytes);
  uint64_t state = number * 0x9e3779b97f4a7c15 + 1;
  for (uint8_t &byte : payload) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = uint8_t(state >> 56);
  }
  return payload;
}

inline ring::Record eventRecord(uint64_t address, uint16_t thread = 0) {
  ring::Record record = {};
  record.type = ring::RecordType::Event;
  record.kind = uint8_t(PacketKind::Marker);
  record.thread = thread;
  record.address = address;
  return record;
}

inline ring::Access someAccess(PacketKind kind, uint64_t address, uint64_t value, uint16_t thread = 0) {
  return ring::Access::make(kind, address, value, 0, 1, thread, 4, Origin::Program);
}

/// A producer that frees its table: the library's own lives as long as its process.
struct OwnProducer : ring::Producer {
  ~OwnProducer() { release(); }
};

/// What came out, one by one: accesses as what they were when they had completed.
struct Out {
  enum { Empty, Access, Record, Corrupt } what = Empty;
  ring::SlotCopy access = {};
  uint64_t name = 0;
  bool concurrent = false;
  ring::Record record = {};
  std::vector<uint8_t> payload;
};

class OneByOne {
public:
  explicit OneByOne(ring::RingConsumer &consumer) : consumer(consumer) {}
  Out next() {
    if (waiting.empty())
      take();
    if (waiting.empty())
      return {};
    Out out = std::move(waiting.front());
    waiting.pop_front();
    return out;
  }
  /// Waits for what comes next.
  Out await() {
    for (;;) {
      Out out = next();
      if (out.what != Out::Empty)
        return out;
      consumer.wait(60'000);
    }
  }

private:
  void take() {
    ring::RingConsumer::Batch batch;
    switch (consumer.next(batch)) {
    case ring::RingConsumer::Status::Empty: return;
    case ring::RingConsumer::Status::Corrupt: waiting.push_back({Out::Corrupt, {}, 0, false, {}, {}}); return;
    case ring::RingConsumer::Status::Record:
      waiting.push_back({Out::Record,
                         {},
                         batch.record.sequence,
                         false,
                         batch.record,
                         {batch.payload.begin(), batch.payload.end()}});
      return;
    case ring::RingConsumer::Status::Accesses:
      for (size_t i = 0; i < batch.accesses.size(); ++i)
        waiting.push_back({Out::Access, batch.accesses[i], batch.firstName + i, batch.concurrent, {}, {}});
    }
  }
  ring::RingConsumer &consumer;
  std::deque<Out> waiting;
};

struct Pair {
  explicit Pair(const ring::RingOptions &options = smallRing())
      : file(anonymousRing(options)), producer(new OwnProducer), consumer(*file), out(consumer) {
    REQUIRE(producer->attachMapping(file->base(), file->bytes(), nullptr) ==
            ring::Producer::Attach::Attached);
  }
  std::unique_ptr<ring::RingFile> file;
  std::unique_ptr<OwnProducer> producer;
  ring::RingConsumer consumer;
  OneByOne out;
};

} // namespace tapeback::test
