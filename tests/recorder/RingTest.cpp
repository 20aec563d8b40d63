// The ring: what goes in comes out, whatever the sizes, and neither end waits for a dead one.
#include "format/Packet.h"
#include "recorder/CaptureCompiler.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <doctest/doctest.h>
#include <map>
#include <memory>
#include <random>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::ring;

namespace {

std::vector<uint8_t> someTable() {
  llvm::Expected<std::vector<uint8_t>> table = compileCaptureTable({{"a", "null:", nullptr}});
  REQUIRE(bool(table));
  return *table;
}

std::unique_ptr<RingFile> anonymousRing(RingOptions options) {
  llvm::Expected<std::unique_ptr<RingFile>> file = RingFile::createAnonymous(someTable(), options);
  REQUIRE(bool(file));
  return std::move(*file);
}

/// The payload that a record of this sequence number must have.
std::vector<uint8_t> payloadOf(uint64_t number, size_t bytes) {
  std::vector<uint8_t> payload(bytes);
  uint64_t state = number * 0x9e3779b97f4a7c15 + 1;
  for (uint8_t &byte : payload) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = uint8_t(state >> 56);
  }
  return payload;
}

Record eventRecord(uint64_t address, uint16_t thread = 0) {
  Record record = {};
  record.type = RecordType::Event;
  record.kind = uint8_t(PacketKind::Marker);
  record.thread = thread;
  record.address = address;
  return record;
}

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A producer that frees its table: the library's own lives as long as its process.
struct OwnProducer : Producer {
  ~OwnProducer() { release(); }
};

struct Pair {
  explicit Pair(RingOptions options = {64 << 10, 4096, 1 << 20, false})
      : file(anonymousRing(options)), producer(new OwnProducer),
        consumer(file->header(), file->data(), file->dataBytes(), options.captureLimit) {
    REQUIRE(producer->attachMapping(file->base(), file->bytes(), nullptr) == Producer::Attach::Attached);
  }
  std::unique_ptr<RingFile> file;
  std::unique_ptr<OwnProducer> producer;
  RingConsumer consumer;
};

} // namespace

TEST_CASE("records of all sizes come out as they went in, in order, around the ring many times") {
  Pair ring;
  constexpr unsigned count = 4000;
  auto sizeOf = [](uint64_t i) -> size_t {
    return i % 50 == 0 ? 300000 + i : i % 7 == 0 ? 5000 + i : (i * 37) % 900;
  };
  std::thread sender([&] {
    for (uint64_t i = 0; i < count; ++i) {
      std::vector<uint8_t> payload = payloadOf(i, sizeOf(i));
      ring.producer->append(eventRecord(i), payload.data(), payload.size());
    }
  });
  uint64_t seen = 0, wrong = 0;
  while (seen < count) {
    Record record;
    llvm::ArrayRef<uint8_t> payload;
    RingConsumer::Status status = ring.consumer.next(record, payload);
    if (status == RingConsumer::Status::Empty) {
      ring.consumer.wait(1000);
      continue;
    }
    std::vector<uint8_t> expected = payloadOf(seen, sizeOf(seen));
    wrong += status != RingConsumer::Status::Record || record.address != seen || record.sequence == 0 ||
             llvm::ArrayRef<uint8_t>(expected) != payload;
    ++seen;
  }
  sender.join();
  CHECK(wrong == 0);
  CHECK(ring.consumer.corruptions() == 0);
}

TEST_CASE("threads of one process: each one's order is kept, groups stay together, nothing is lost") {
  Pair ring;
  constexpr unsigned threads = 8, each = 3000;
  std::vector<std::thread> senders;
  for (uint16_t t = 0; t < threads; ++t)
    senders.emplace_back([&, t] {
      for (uint64_t i = 0; i < each; ++i) {
        Producer::Group group(*ring.producer);
        std::vector<uint8_t> payload = payloadOf(t * 100000 + i, i % 40 == 0 ? 9000 : 20);
        ring.producer->append(eventRecord(2 * i, t), payload.data(), payload.size());
        ring.producer->append(eventRecord(2 * i + 1, t));
      }
    });
  std::vector<uint64_t> next(threads, 0);
  uint64_t seen = 0, wrong = 0, lastSequence = 0;
  int open = -1; // The thread whose group is half read.
  while (seen < uint64_t(threads) * each * 2) {
    Record record;
    llvm::ArrayRef<uint8_t> payload;
    if (ring.consumer.next(record, payload) == RingConsumer::Status::Empty) {
      ring.consumer.wait(1000);
      continue;
    }
    ++seen;
    wrong += record.address != next[record.thread]++;
    wrong += open >= 0 && open != record.thread;
    wrong += record.sequence <= lastSequence;
    lastSequence = record.sequence;
    open = record.address % 2 == 0 ? record.thread : -1;
    if (record.address % 2 == 0) {
      std::vector<uint8_t> expected = payloadOf(record.thread * 100000 + record.address / 2, payload.size());
      wrong += llvm::ArrayRef<uint8_t>(expected) != payload;
    }
  }
  for (std::thread &sender : senders)
    sender.join();
  CHECK(wrong == 0);
}

TEST_CASE("a payload above the capture limit is cut and says so") {
  Pair ring({64 << 10, 4096, 10000, false});
  std::vector<uint8_t> payload = payloadOf(1, 10001);
  Record content = eventRecord(1), name = eventRecord(3);
  content.kind = uint8_t(PacketKind::MemoryWrite);
  REQUIRE(ring.producer->append(content, payload.data(), payload.size()));
  REQUIRE(ring.producer->append(content, payload.data(), 10000));
  REQUIRE(ring.producer->append(name, payload.data(), payload.size())); // No memory content.
  Record record;
  llvm::ArrayRef<uint8_t> out;
  REQUIRE(ring.consumer.next(record, out) == RingConsumer::Status::Record);
  CHECK((record.flags & Truncated));
  CHECK(out == llvm::ArrayRef<uint8_t>(payload).take_front(10000));
  REQUIRE(ring.consumer.next(record, out) == RingConsumer::Status::Record);
  CHECK(!(record.flags & Truncated));
  CHECK(out.size() == 10000);
  REQUIRE(ring.consumer.next(record, out) == RingConsumer::Status::Record);
  CHECK(!(record.flags & Truncated));
  CHECK(out.size() == 10001);
}

TEST_CASE("a producer waits for space, and is let go by a collector that closes") {
  Pair ring;
  std::atomic<uint64_t> sent{0};
  std::atomic<bool> stopped{false};
  std::thread sender([&] {
    std::vector<uint8_t> payload(1000);
    while (ring.producer->append(eventRecord(1), payload.data(), payload.size()))
      ++sent;
    stopped = true;
  });
  auto start = Clock::now();
  while (sent < 40 && secondsSince(start) < 20)
    std::this_thread::yield();
  // The ring is full: it waits, for as long as the collector lives.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  uint64_t whenFull = sent;
  CHECK(!stopped);
  CHECK(whenFull * 1000 < ring.file->dataBytes());
  Record record;
  llvm::ArrayRef<uint8_t> payload;
  for (int i = 0; i < 20; ++i)
    REQUIRE(ring.consumer.next(record, payload) == RingConsumer::Status::Record);
  ring.consumer.release();
  start = Clock::now();
  while (sent == whenFull && secondsSince(start) < 20)
    std::this_thread::yield();
  CHECK(sent > whenFull);
  ring.file->header().collectorState.store(uint32_t(CollectorState::Closed));
  start = Clock::now();
  sender.join();
  CHECK(secondsSince(start) < 5);
  CHECK(!ring.producer->recording());
  CHECK(ring.producer->append(eventRecord(1)) == 0);
}

TEST_CASE("told not to wait, a producer drops operations but never completions, and counts") {
  Pair ring({64 << 10, 4096, 1 << 20, true});
  std::vector<uint8_t> payload(1000);
  uint64_t kept = 0, dropped = 0;
  for (int i = 0; i < 200; ++i)
    (ring.producer->append(eventRecord(uint64_t(i)), payload.data(), payload.size()) ? kept : dropped) += 1;
  CHECK(kept > 20);
  CHECK(dropped > 20);
  Record complete = eventRecord(7);
  complete.type = RecordType::Complete;
  complete.sequence = 1;
  CHECK(ring.producer->append(complete));
  Record record;
  llvm::ArrayRef<uint8_t> out;
  uint64_t events = 0, completions = 0, reported = 0;
  auto takeAll = [&] {
    while (ring.consumer.next(record, out) == RingConsumer::Status::Record) {
      events += record.type == RecordType::Event;
      completions += record.type == RecordType::Complete;
      reported += record.type == RecordType::Dropped ? record.value : 0;
    }
    ring.consumer.release();
  };
  takeAll();
  REQUIRE(ring.producer->append(eventRecord(9)));
  takeAll();
  CHECK(events == kept + 1);
  CHECK(completions == 1);
  CHECK(reported == dropped);
}

TEST_CASE("wake() ends a wait at once, also one that has not begun") {
  Pair ring;
  ring.consumer.wake();
  auto start = Clock::now();
  ring.consumer.wait(20000);
  CHECK(secondsSince(start) < 10);
  std::thread waker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ring.consumer.wake();
  });
  start = Clock::now();
  ring.consumer.wait(20000);
  CHECK(secondsSince(start) < 10);
  waker.join();
}

TEST_CASE("a frozen consumer comes to an end although the producer goes on") {
  Pair ring;
  for (int i = 0; i < 10; ++i)
    ring.producer->append(eventRecord(uint64_t(i)));
  ring.consumer.freeze();
  for (int i = 0; i < 10; ++i)
    ring.producer->append(eventRecord(uint64_t(i)));
  Record record;
  llvm::ArrayRef<uint8_t> payload;
  unsigned count = 0;
  while (ring.consumer.next(record, payload) == RingConsumer::Status::Record)
    ++count;
  CHECK(count == 10);
}

TEST_CASE("the ring's file is private, and named only once it is locked") {
  llvm::Expected<std::unique_ptr<RingFile>> file = RingFile::create(someTable(), {});
  REQUIRE(bool(file));
  std::string path = (*file)->path(), directory = path.substr(0, path.rfind('/'));
  struct stat status;
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  REQUIRE(stat(directory.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0700);
  CHECK(removeStaleRings() == 0); // This one lives.
  auto producer = std::make_unique<OwnProducer>();
  CHECK(producer->attach(path.c_str()) == Producer::Attach::Attached);
  CHECK(producer->recording());
  file->reset();
  CHECK(stat(directory.c_str(), &status) != 0);
  CHECK(std::make_unique<OwnProducer>()->attach(path.c_str()) == Producer::Attach::Failed);
}

#ifndef __SANITIZE_THREAD__
TEST_CASE("a producer that waits notices that the collector was killed; what it left is removed later") {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  pid_t collector = fork();
  REQUIRE(collector >= 0);
  if (collector == 0) {
    llvm::Expected<std::unique_ptr<RingFile>> file =
        RingFile::create(someTable(), {64 << 10, 4096, 1 << 20, false});
    std::string path = file ? (*file)->path() : "";
    if (write(ready[1], path.c_str(), path.size() + 1) < 0)
      _exit(1);
    for (;;)
      pause();
  }
  char path[512] = "";
  REQUIRE(read(ready[0], path, sizeof(path)) > 1);
  close(ready[0]);
  close(ready[1]);
  auto producer = std::make_unique<OwnProducer>();
  REQUIRE(producer->attach(path) == Producer::Attach::Attached);
  std::atomic<bool> stopped{false};
  std::thread sender([&] {
    std::vector<uint8_t> payload(1000);
    while (producer->append(eventRecord(1), payload.data(), payload.size()))
      ;
    stopped = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  CHECK(!stopped);
  kill(collector, SIGKILL);
  waitpid(collector, nullptr, 0);
  auto start = Clock::now();
  sender.join();
  CHECK(secondsSince(start) < 5);
  CHECK(!producer->recording());
  struct stat status;
  CHECK(stat(path, &status) == 0);
  CHECK(removeStaleRings() >= 1);
  CHECK(stat(path, &status) != 0);
}

TEST_CASE("one process at a time; a dead one's place is free") {
  Pair ring;
  auto inChild = [&](auto work) {
    pid_t child = fork();
    if (child == 0)
      _exit(work());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  auto attach = [&] {
    return int((new OwnProducer)->attachMapping(ring.file->base(), ring.file->bytes(), nullptr));
  };
  CHECK(inChild(attach) == int(Producer::Attach::Busy));
  ring.producer->detach();
  CHECK(inChild(attach) == int(Producer::Attach::Attached));
  // That child died attached.
  CHECK(inChild(attach) == int(Producer::Attach::Attached));
  CHECK(ring.file->header().producersSeen.load() == 3);
}
#endif

TEST_CASE("what is no ring of this version is refused") {
  auto attach = [](auto change) {
    std::unique_ptr<RingFile> file = anonymousRing({});
    change(file->header());
    return std::make_unique<OwnProducer>()->attachMapping(file->base(), file->bytes(), nullptr);
  };
  using A = Producer::Attach;
  CHECK(attach([](Header &) {}) == A::Attached);
  CHECK(attach([](Header &h) { h.magic[0] ^= 1; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.version = 2; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.headerBytes = 64; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.dataBytes += 1; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.dataBytes *= 2; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.dataOffset = ~uint64_t(63); }) == A::Foreign);
  CHECK(attach([](Header &h) { h.tableOffset = ~uint64_t(7); }) == A::Foreign);
  CHECK(attach([](Header &h) { h.tableBytes = ~uint64_t(0); }) == A::Foreign);
  CHECK(attach([](Header &h) { h.chunkBytes = 0; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.chunkBytes = 1 << 30; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.captureLimit = ~uint64_t(0); }) == A::Foreign);
  CHECK(std::make_unique<OwnProducer>()->attach("/") == A::Failed);
  CHECK(std::make_unique<OwnProducer>()->attach("/dev/null") == A::Foreign);
  CHECK(std::make_unique<OwnProducer>()->attach("/nowhere/ring") == A::Failed);
}

TEST_CASE("a capture table is checked whole: no byte of it leads outside") {
  std::vector<uint8_t> table = someTable();
  // Aligned, as in the ring.
  std::vector<uint64_t> words((table.size() + 7) / 8);
  auto valid = [&](const std::vector<uint8_t> &bytes) {
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return capture::validTable(reinterpret_cast<const capture::Table *>(words.data()), bytes.size());
  };
  CHECK(valid(table));
  CHECK(!capture::validTable(reinterpret_cast<const capture::Table *>(words.data()), 8));
  std::mt19937 random(1);
  unsigned accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> broken = table;
    // The section headers, mostly: what must not be believed.
    size_t at = random() % (i % 2 ? sizeof(capture::Table) : broken.size());
    broken[at] = uint8_t(random());
    accepted += valid(broken); // ASan watches what it reads.
  }
  CHECK(accepted > 0);
  CHECK(accepted < 20000);
}

#ifndef __SANITIZE_THREAD__
TEST_CASE("scribbled over at random, the consumer neither crashes nor hangs, and the ring recovers") {
  uint64_t allCorrupt = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Pair ring;
    std::mt19937_64 random(seed);
    std::atomic<bool> quit{false};
    std::atomic<uint64_t> newest{0};
    std::thread collector([&] {
      Record record;
      llvm::ArrayRef<uint8_t> payload;
      for (;;) {
        RingConsumer::Status status = ring.consumer.next(record, payload);
        if (status == RingConsumer::Status::Record && record.kind == uint8_t(PacketKind::Marker))
          newest.store(record.address);
        if (status != RingConsumer::Status::Empty)
          continue;
        if (quit)
          return;
        ring.consumer.wait(20);
      }
    });
    std::vector<uint8_t> payload(3000);
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 5; ++i)
        ring.producer->append(eventRecord(1), payload.data(), random() % payload.size());
      auto *bytes = static_cast<uint8_t *>(ring.file->base());
      // Both positions, and frames. (A word that says "closed" or "another process" would rightly end it
      // all.)
      for (uint64_t i = random() % 20; i > 0; --i) {
        uint64_t at = random() % 3 == 0   ? offsetof(Header, head) + random() % 8
                      : random() % 3 == 0 ? offsetof(Header, tail) + random() % 8
                                          : 4096 + random() % (ring.file->bytes() - 4096);
        bytes[at] = uint8_t(random());
      }
    }
    // Left alone, it works again, after at most what the damage still hides.
    auto start = Clock::now();
    uint64_t sent = 1000;
    while (newest < 1000 && secondsSince(start) < 10) {
      REQUIRE(ring.producer->append(eventRecord(++sent)));
      std::this_thread::yield();
    }
    CHECK(newest >= 1000);
    quit = true;
    ring.consumer.wake();
    collector.join();
    allCorrupt += ring.consumer.corruptions();
  }
  CHECK(allCorrupt > 5); // It was damaged, and it was noticed.
}
#endif
