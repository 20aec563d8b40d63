// The ring: what goes in comes out, whatever the sizes, and neither end waits for a dead one.
#include "tests/recorder/FutexWait.h"
#include "tests/recorder/RingPair.h"
#include "tests/support/RunProgram.h"
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <random>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::ring;
using namespace tapeback::test;

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
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < count; ++i) {
    Out out = ring.out.await();
    wrong += out.what != Out::Record || out.record.address != i || out.name == 0 ||
             payloadOf(i, sizeOf(i)) != out.payload;
  }
  sender.join();
  CHECK(wrong == 0);
  CHECK(ring.consumer.corruptions() == 0);
}

TEST_CASE("every field of a record comes out, with and without the rare ones") {
  Pair ring;
  Record record = eventRecord(0x1122334455667788);
  record.kind = uint8_t(PacketKind::DmaDescriptor);
  record.width = 8;
  record.flags = 0x55;
  record.value = 0x99aabbccddeeff00;
  record.device = 0x1234;
  record.space = 0x4321;
  record.origin = 1;
  record.completion = 2;
  record.hints = SamePayload;
  REQUIRE(ring.producer->append(record));
  record.mask = 1, record.expected = 2, record.deadline = 3, record.length = 4, record.link = 5,
  record.count = 6;
  uint8_t bytes[3] = {7, 8, 9};
  REQUIRE(ring.producer->append(record, bytes, sizeof(bytes)));
  for (int extended = 0; extended < 2; ++extended) {
    Out out = ring.out.await();
    REQUIRE(out.what == Out::Record);
    const Record &seen = out.record;
    CHECK(seen.type == RecordType::Event);
    CHECK(seen.kind == record.kind);
    CHECK(seen.width == record.width);
    CHECK(seen.flags == record.flags);
    CHECK(seen.address == record.address);
    CHECK(seen.value == record.value);
    CHECK(seen.device == record.device);
    CHECK(seen.space == record.space);
    CHECK(seen.origin == record.origin);
    CHECK(seen.completion == record.completion);
    CHECK((seen.hints & SamePayload));
    CHECK(seen.mask == (extended ? 1 : 0));
    CHECK(seen.expected == (extended ? 2 : 0));
    CHECK(seen.deadline == (extended ? 3 : 0));
    CHECK(seen.length == (extended ? 4 : 0));
    CHECK(seen.link == (extended ? 5 : 0));
    CHECK(seen.count == (extended ? 6 : 0));
    CHECK(out.payload == std::vector<uint8_t>(bytes, bytes + (extended ? 3 : 0)));
  }
}

TEST_CASE("accesses complete in their slot; what never comes back is there as issued") {
  Pair ring;
  for (uint64_t i = 0; i < 5000; ++i) {
    Access access =
        someAccess(i % 2 ? PacketKind::RegisterRead : PacketKind::RegisterWrite, i, i % 2 ? 0 : i * 3);
    IssuedAccess underway = ring.producer->issueInPlace(access);
    REQUIRE(underway.name);
    ring.producer->completeInPlace(underway, access, i % 7 ? Completion::Done : Completion::Failed, i * 3);
    Out out = ring.out.await();
    REQUIRE(out.what == Out::Access);
    CHECK(out.name == underway.name);
    CHECK(out.access.address == i);
    CHECK(out.access.value == i * 3);
    CHECK(out.access.kind == uint8_t(access.kind()));
    CHECK(out.access.completion == uint8_t(i % 7 ? Completion::Done : Completion::Failed));
    CHECK(out.access.issue <= out.access.complete);
    CHECK(out.access.issue > 0);
  }
  IssuedAccess hangs = ring.producer->issueInPlace(someAccess(PacketKind::RegisterWrite, 77, 78));
  REQUIRE(hangs.name);
  ring.consumer.freeze();
  Out out = ring.out.next();
  REQUIRE(out.what == Out::Record);
  CHECK(out.record.type == RecordType::Issue);
  CHECK(out.record.address == 77);
  CHECK(out.record.value == 78);
  CHECK(out.name == hangs.name);
  CHECK(ring.out.next().what == Out::Empty);
}

TEST_CASE(
    "an event that is a name comes out as a record with a payload does, however long, in and out of groups") {
  for (unsigned lanes : {maxLanes, 2u}) { // 2: the second thread shares the last lane.
    Pair ring(smallRing(lanes));
    uint64_t wrong = 0;
    auto send = [&](uint16_t thread) {
      for (uint64_t i = 0; i < 3000; ++i) {
        std::vector<uint8_t> name = payloadOf(i, i % 50 == 0 ? 5000 : i % 300);
        const Access event = Access::makeEvent(PacketKind::SpanBegin, i, ~i, 0x1234, thread, Origin::Program);
        std::optional<Producer::Group> group;
        if (i % 5 == 0)
          group.emplace(*ring.producer);
        const uint64_t sequence = ring.producer->appendEvent(event, name.data(), name.size());
        group.reset();
        Out out = ring.out.await();
        const Record &seen = out.record;
        wrong += !sequence || out.what != Out::Record || out.name != sequence ||
                 seen.type != RecordType::Event || seen.kind != uint8_t(PacketKind::SpanBegin) ||
                 seen.address != i || seen.value != ~i || seen.device != 0x1234 || seen.thread != thread ||
                 seen.space != 0 || seen.width != 0 || seen.flags != 0 || seen.completion != 0 ||
                 seen.origin != uint8_t(Origin::Program) || seen.link != 0 || !seen.time ||
                 out.payload != name;
      }
    };
    send(0);
    std::thread([&] { send(1); }).join();
    CHECK(wrong == 0);
    CHECK(ring.consumer.corruptions() == 0);
  }
}

TEST_CASE("what completes in place comes behind another lane's record that came before it") {
  Pair ring;
  ring.producer->append(eventRecord(1));
  Access access = someAccess(PacketKind::RegisterRead, 2, 0);
  IssuedAccess underway = ring.producer->issueInPlace(access);
  CHECK(ring.out.await().record.address == 1); // One lane only: what is in it was looked at.
  std::thread([&] { ring.producer->append(eventRecord(3, 1)); }).join();
  ring.producer->completeInPlace(underway, access, Completion::Done, 0);
  Out issued = ring.out.await(), other = ring.out.await(), completed = ring.out.await();
  CHECK(issued.record.type == RecordType::Issue);
  CHECK(other.record.address == 3);
  CHECK(completed.record.type == RecordType::Complete);
  CHECK(completed.record.sequence == underway.name);
  CHECK(other.record.time <= completed.record.time);
}

/// As many threads as told, with groups of two events and with accesses.
static void manyThreads(const RingOptions &options, unsigned threads, uint64_t each) {
  Pair ring(options);
  std::vector<std::thread> senders;
  for (uint16_t t = 0; t < threads; ++t)
    senders.emplace_back([&, t] {
      for (uint64_t i = 0; i < each; ++i) {
        std::vector<uint8_t> payload = payloadOf(t * 100000 + i, i % 40 == 0 ? 9000 : 20);
        {
          Producer::Group group(*ring.producer);
          ring.producer->append(eventRecord(3 * i, t), payload.data(), payload.size());
          ring.producer->append(eventRecord(3 * i + 1, t));
        }
        Access access = someAccess(PacketKind::RegisterRead, 3 * i + 2, 0, t);
        IssuedAccess underway = ring.producer->issueInPlace(access);
        ring.producer->completeInPlace(underway, access, Completion::Done, i);
      }
      ring.producer->threadEnds();
    });
  std::vector<uint64_t> next(threads, 0);
  uint64_t wrong = 0, seen = 0;
  int open = -1; // The thread whose group is half read.
  std::vector<Record> issued(threads);
  while (seen < threads * each * 3) {
    Out out = ring.out.await();
    uint64_t address = out.access.address;
    uint16_t thread = out.access.thread;
    bool whole = out.what == Out::Access;
    if (out.what == Out::Record) {
      address = out.record.address;
      thread = out.record.thread;
      whole = out.record.type == RecordType::Event || out.record.type == RecordType::Complete;
    }
    REQUIRE(out.what != Out::Corrupt);
    REQUIRE(thread < threads);
    if (!whole) {
      issued[thread] = out.record;
      continue;
    }
    ++seen;
    wrong += address != next[thread]++;
    if (address % 3 == 2) {
      wrong += (out.what == Out::Access ? out.access.value : out.record.value) != address / 3;
      wrong += out.what == Out::Record && issued[thread].sequence != out.record.sequence;
      continue;
    }
    wrong += open >= 0 && open != thread;
    open = address % 3 == 0 ? int(thread) : -1;
    if (address % 3 == 0)
      wrong += out.payload != payloadOf(thread * 100000 + address / 3, out.payload.size());
  }
  for (std::thread &sender : senders)
    sender.join();
  CHECK(wrong == 0);
  CHECK(ring.consumer.corruptions() == 0);
}

TEST_CASE("threads of one process: each one's order is kept, groups stay together, nothing is lost") {
  SUBCASE("a lane each") {
    manyThreads(smallRing(), 8, 1500);
  }
  SUBCASE("most of them in one lane") {
    manyThreads(smallRing(3), 8, 500);
  }
  SUBCASE("all of them in turn for two lanes") {
    manyThreads(smallRing(2), 4, 500);
  }
  SUBCASE("more threads than lanes") {
    manyThreads(smallRing(), 80, 40);
  }
  SUBCASE("fences of the producer") {
    RingOptions options = smallRing();
    options.fullFences = true;
    manyThreads(options, 8, 500);
  }
  SUBCASE("stamps of the monotonic clock") {
    RingOptions options = smallRing();
    options.monotonicStamps = true;
    manyThreads(options, 8, 500);
  }
}

TEST_CASE("lanes are handed on from threads that end, and order stays") {
  Pair ring(smallRing(4));
  constexpr uint64_t threads = 200;
  for (uint64_t i = 0; i < threads; ++i)
    std::thread([&] {
      ring.producer->append(eventRecord(i));
      // Every other one says nothing when it ends: it is found to be gone.
      if (i % 2)
        ring.producer->threadEnds();
    }).join();
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < threads; ++i)
    wrong += ring.out.await().record.address != i;
  CHECK(wrong == 0);
  // A thread that was joined may be there for another moment, and then the next has to share. But it goes.
  for (uint64_t shared = ~uint64_t(0); ring.file->lane(3).head.load() != shared;) {
    shared = ring.file->lane(3).head.load();
    std::thread([&] { ring.producer->append(eventRecord(0)); }).join();
    REQUIRE(ring.out.await().what == Out::Record);
  }
}

TEST_CASE("a payload above the capture limit is cut and says so") {
  RingOptions options = smallRing();
  options.captureLimit = 10000;
  Pair ring(options);
  std::vector<uint8_t> payload = payloadOf(1, 10001);
  Record content = eventRecord(1), name = eventRecord(3);
  content.kind = uint8_t(PacketKind::MemoryWrite);
  REQUIRE(ring.producer->append(content, payload.data(), payload.size()));
  REQUIRE(ring.producer->append(content, payload.data(), 10000));
  REQUIRE(ring.producer->append(name, payload.data(), payload.size())); // No memory content.
  Out out = ring.out.await();
  CHECK((out.record.flags & Truncated));
  CHECK(out.payload == std::vector<uint8_t>(payload.begin(), payload.begin() + 10000));
  out = ring.out.await();
  CHECK(!(out.record.flags & Truncated));
  CHECK(out.payload.size() == 10000);
  out = ring.out.await();
  CHECK(!(out.record.flags & Truncated));
  CHECK(out.payload.size() == 10001);
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
  // The lane is full when the producer says that it sleeps for space.
  while (!ring.file->lane(0).spaceWanted.load())
    std::this_thread::yield();
  uint64_t whenFull = sent;
  CHECK(!stopped);
  CHECK(whenFull > 40);
  CHECK(whenFull * 1000 < ring.file->slotCount(0) * slotBytes);
  for (int i = 0; i < 20; ++i)
    REQUIRE(ring.out.await().what == Out::Record);
  ring.consumer.release();
  while (sent == whenFull)
    std::this_thread::yield();
  ring.file->header().collectorState.store(uint32_t(CollectorState::Closed));
  sender.join();
  CHECK(!ring.producer->recording());
  CHECK(ring.producer->append(eventRecord(1)) == 0);
  CHECK(ring.producer->issueInPlace(someAccess(PacketKind::RegisterRead, 1, 0)).name == 0);
}

TEST_CASE("an access waits for space, too") {
  Pair ring;
  constexpr uint64_t count = 20000; // Many times the lane.
  std::thread sender([&] {
    for (uint64_t i = 0; i < count; ++i) {
      Access access = someAccess(PacketKind::RegisterWrite, i, i);
      ring.producer->completeInPlace(ring.producer->issueInPlace(access), access, Completion::Done, i);
    }
  });
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < count;) {
    Out out = ring.out.await();
    if (out.what == Out::Record && out.record.type == RecordType::Issue)
      continue; // Seen before it came back.
    wrong += (out.what == Out::Access ? out.access.address : out.record.address) != i++;
  }
  sender.join();
  CHECK(wrong == 0);
}

TEST_CASE("told not to wait, a producer drops operations but never completions, and counts") {
  RingOptions options = smallRing();
  options.dropWhenFull = true;
  Pair ring(options);
  std::vector<uint8_t> payload(1000);
  uint64_t kept = 0, dropped = 0;
  // A poll that is under way meanwhile.
  Record poll = eventRecord(7);
  poll.type = RecordType::Issue;
  poll.kind = uint8_t(PacketKind::Poll);
  uint64_t name = ring.producer->append(poll);
  REQUIRE(name);
  for (int i = 0; i < 100; ++i)
    (ring.producer->append(eventRecord(uint64_t(i)), payload.data(), payload.size()) ? kept : dropped) += 1;
  for (uint64_t i = 0; i < 2000; ++i) {
    Access access = someAccess(PacketKind::RegisterWrite, i, i);
    IssuedAccess underway = ring.producer->issueInPlace(access);
    ring.producer->completeInPlace(underway, access, Completion::Done, i);
    (underway.name ? kept : dropped) += 1;
  }
  CHECK(kept > 20);
  CHECK(dropped > 1000);
  poll.type = RecordType::Complete;
  poll.sequence = name;
  CHECK(ring.producer->append(poll));
  uint64_t events = 0, completions = 0, reported = 0;
  auto takeAll = [&] {
    for (;;) {
      Out out = ring.out.next();
      if (out.what == Out::Empty)
        break;
      REQUIRE(out.what != Out::Corrupt);
      events += out.what == Out::Access || out.record.type == RecordType::Event;
      completions += out.what == Out::Record && out.record.type == RecordType::Complete;
      reported += out.what == Out::Record && out.record.type == RecordType::Dropped ? out.record.value : 0;
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

TEST_CASE("wake() ends a wait, also one that has not begun") {
  // Else this takes longer than a test may.
  constexpr unsigned forEver = 3'600'000;
  Pair ring;
  ring.consumer.wake();
  ring.consumer.wait(forEver);
  std::atomic<bool> done{false};
  std::thread waker([&] {
    while (!ring.file->header().dataWanted.load())
      std::this_thread::yield();
    done = true;
    ring.consumer.wake();
  });
  while (!done)
    ring.consumer.wait(forEver);
  waker.join();
}

TEST_CASE("what a thread was about to publish when it was held up comes in its order, however late") {
  Pair ring;
  Access access = someAccess(PacketKind::RegisterRead, 7, 0);
  IssuedAccess held = ring.producer->issueInPlace(access);
  REQUIRE(held.slot);
  Out issued = ring.out.await();
  CHECK(issued.record.type == RecordType::Issue);
  // It has its second stamp, and is held up before the rest of Producer::completeInPlace().
  Lane &lane = ring.file->lane(0);
  lane.busy.store(BusyStamping);
  held.slot->complete = ring.producer->stamp();
  std::thread([&] { ring.producer->append(eventRecord(8, 1)); }).join();
  CHECK(ring.out.next().what == Out::Empty); // Later than what is owed.
  held.slot->completion = uint8_t(Completion::Done);
  held.slot->state.store(SlotState::Completed);
  lane.busy.store(BusyNot);
  Out first = ring.out.await(), second = ring.out.await();
  CHECK(first.record.type == RecordType::Complete);
  CHECK(first.record.sequence == held.name);
  CHECK(second.record.address == 8);
  CHECK(first.record.time <= second.record.time);
}

TEST_CASE("a frozen consumer comes to an end although the producer goes on") {
  Pair ring;
  for (int i = 0; i < 10; ++i)
    ring.producer->append(eventRecord(uint64_t(i)));
  ring.consumer.freeze();
  for (int i = 0; i < 10; ++i)
    ring.producer->append(eventRecord(uint64_t(i)));
  unsigned count = 0;
  while (ring.out.next().what == Out::Record)
    ++count;
  CHECK(count == 10);
}

/// A place for rings that no other test knows.
struct OwnDirectory {
  OwnDirectory() { setenv("TAPEBACK_RING_DIRECTORY", scratch.file("").c_str(), 1); }
  ~OwnDirectory() { unsetenv("TAPEBACK_RING_DIRECTORY"); }
  ScratchDirectory scratch;
};

TEST_CASE("the ring's file is private, and named only once it is locked") {
  OwnDirectory directories;
  llvm::Expected<std::unique_ptr<RingFile>> file = RingFile::create(someTable(), {});
  REQUIRE(bool(file));
  std::string path = (*file)->path(), directory = path.substr(0, path.rfind('/'));
  struct stat status;
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0600);
  // Only what is used is allocated.
  CHECK(uint64_t(status.st_blocks) * 512 < (*file)->bytes() / 4);
  REQUIRE(stat(directory.c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0700);
  CHECK(removeStaleRings(/*evenUnread=*/true) == 0); // This one lives.
  auto producer = std::make_unique<OwnProducer>();
  CHECK(producer->attach(path.c_str()) == Producer::Attach::Attached);
  CHECK(producer->recording());
  llvm::Expected<std::unique_ptr<RingFile>> left = RingFile::openLeftBehind(path);
  CHECK(!left);
  llvm::consumeError(left.takeError());
  file->reset();
  CHECK(stat(directory.c_str(), &status) != 0);
  CHECK(std::make_unique<OwnProducer>()->attach(path.c_str()) == Producer::Attach::Failed);
}

TEST_CASE("a table of any size that is allowed has its room, and the lanes behind it their memory") {
  OwnDirectory directories;
  for (size_t size : {size_t(0), size_t(28 << 10), size_t(28 << 10) + 1, size_t(maxTableBytes)}) {
    CAPTURE(size);
    std::vector<uint8_t> table(size);
    for (size_t i = 0; i < size; ++i)
      table[i] = uint8_t(i * 7 + i / 251);
    llvm::Expected<std::unique_ptr<RingFile>> file = RingFile::create(table, smallRing());
    REQUIRE(bool(file));
    const Header &header = (*file)->header();
    REQUIRE(header.tableBytes == size);
    llvm::ArrayRef<uint8_t> there(static_cast<const uint8_t *>((*file)->base()) + header.tableOffset, size);
    CHECK(there == llvm::ArrayRef<uint8_t>(table));
    CHECK(header.tableOffset + size <= header.lanesOffset);
    struct stat status;
    REQUIRE(stat((*file)->path().c_str(), &status) == 0);
    CHECK(uint64_t(status.st_size) == (*file)->bytes());
    CHECK(uint64_t(status.st_blocks) * 512 >=
          header.dataOffset + ((*file)->slotCount(0) + (*file)->slotCount(1)) * slotBytes);
  }
  llvm::Expected<std::unique_ptr<RingFile>> refused =
      RingFile::create(std::vector<uint8_t>(maxTableBytes + 1), smallRing());
  REQUIRE_FALSE(bool(refused));
  CHECK(toFailure(refused.takeError()).code == "description-too-large");
}

#ifndef __SANITIZE_THREAD__
/// A collector in a process of its own, that makes a ring and waits to be killed.
static pid_t otherCollector(std::string &path) {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  pid_t collector = fork();
  REQUIRE(collector >= 0);
  if (collector == 0) {
    llvm::Expected<std::unique_ptr<RingFile>> file = RingFile::create(someTable(), smallRing());
    std::string made = file ? (*file)->path() : "";
    if (write(ready[1], made.c_str(), made.size() + 1) < 0)
      _exit(1);
    for (;;)
      pause();
  }
  char name[512] = "";
  REQUIRE(read(ready[0], name, sizeof(name)) > 1);
  close(ready[0]);
  close(ready[1]);
  path = name;
  return collector;
}

TEST_CASE("a producer that waits notices that the collector was killed; what it left can be read, and is "
          "removed later") {
  OwnDirectory directories;
  std::string path;
  pid_t collector = otherCollector(path);
  auto producer = std::make_unique<OwnProducer>();
  REQUIRE(producer->attach(path.c_str()) == Producer::Attach::Attached);
  std::atomic<uint64_t> sent{0};
  std::atomic<bool> stopped{false};
  std::atomic<int> senderId{0};
  std::thread sender([&] {
    senderId = gettid();
    std::vector<uint8_t> payload(1000);
    while (producer->append(eventRecord(sent), payload.data(), payload.size()))
      ++sent;
    stopped = true;
  });
  while (!senderId || (!stopped && !waitsInTheRing("self/task/" + std::to_string(senderId))))
    std::this_thread::yield();
  CHECK(!stopped);
  kill(collector, SIGKILL);
  waitpid(collector, nullptr, 0);
  sender.join();
  CHECK(!producer->recording());

  llvm::Expected<std::unique_ptr<RingFile>> left = RingFile::openLeftBehind(path);
  REQUIRE(bool(left));
  RingConsumer consumer(**left);
  consumer.freeze();
  OneByOne out(consumer);
  uint64_t count = 0;
  while (out.next().what == Out::Record)
    ++count;
  CHECK(count == sent);
  CHECK(consumer.corruptions() == 0);
  left->reset();

  struct stat status;
  CHECK(stat(path.c_str(), &status) == 0);
  removeStaleRings();
  CHECK(stat(path.c_str(), &status) == 0); // It has what no tape has.
  CHECK(removeStaleRings(/*evenUnread=*/true) == 1);
  CHECK(stat(path.c_str(), &status) != 0);
  left = RingFile::openLeftBehind(path);
  CHECK(!left);
  llvm::consumeError(left.takeError());
}

TEST_CASE("one process at a time; a dead one's place is free, and what it wrote stays") {
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
    auto *producer = new OwnProducer;
    Producer::Attach result = producer->attachMapping(ring.file->base(), ring.file->bytes(), nullptr);
    if (result == Producer::Attach::Attached) {
      producer->append(eventRecord(1));
      // And one that it dies in.
      producer->issueInPlace(someAccess(PacketKind::RegisterWrite, 2, 2));
    }
    return int(result);
  };
  CHECK(inChild(attach) == int(Producer::Attach::Busy));
  ring.producer->detach();
  CHECK(inChild(attach) == int(Producer::Attach::Attached));
  // That child died attached.
  CHECK(inChild(attach) == int(Producer::Attach::Attached));
  CHECK(ring.file->header().producersSeen.load() == 3);
  ring.consumer.freeze();
  unsigned events = 0, issues = 0;
  for (Out out = ring.out.next(); out.what != Out::Empty; out = ring.out.next()) {
    REQUIRE(out.what == Out::Record);
    events += out.record.type == RecordType::Event && out.record.address == 1;
    issues += out.record.type == RecordType::Issue && out.record.address == 2;
  }
  CHECK(events == 2);
  CHECK(issues == 2);
}

TEST_CASE("across processes: nothing is lost, doubled, torn or out of order, whoever is faster") {
  for (bool fullFences : {false, true}) {
    RingOptions options = smallRing(5);
    options.fullFences = fullFences;
    Pair ring(options);
    ring.producer->detach();
    constexpr unsigned threads = 4;
    constexpr uint64_t each = 20000;
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto *producer = new OwnProducer;
      if (producer->attachMapping(ring.file->base(), ring.file->bytes(), nullptr) !=
          Producer::Attach::Attached)
        _exit(1);
      std::vector<std::thread> senders;
      for (uint16_t t = 0; t < threads; ++t)
        senders.emplace_back([=] {
          for (uint64_t i = 0; i < each; ++i) {
            Access access = someAccess(PacketKind::RegisterRead, i, 0, t);
            IssuedAccess underway = producer->issueInPlace(access);
            producer->completeInPlace(underway, access, Completion::Done, ~i);
            if (i % 1000 == 0)
              std::this_thread::yield();
          }
        });
      for (std::thread &sender : senders)
        sender.join();
      _exit(0);
    }
    std::vector<uint64_t> next(threads, 0);
    uint64_t wrong = 0, last = 0;
    for (uint64_t seen = 0; seen < threads * each;) {
      Out out = ring.out.await();
      REQUIRE(out.what != Out::Corrupt);
      if (out.what == Out::Record && out.record.type == RecordType::Issue)
        continue;
      ++seen;
      bool access = out.what == Out::Access;
      uint16_t thread = access ? out.access.thread : out.record.thread;
      uint64_t address = access ? out.access.address : out.record.address;
      uint64_t time = access ? out.access.complete : out.record.time;
      REQUIRE(thread < threads);
      wrong += address != next[thread]++;
      wrong += (access ? out.access.value : out.record.value) != ~address;
      wrong += time < last; // One order over all.
      last = time;
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(wrong == 0);
    CHECK(ring.consumer.corruptions() == 0);
  }
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
  CHECK(attach([](Header &h) { h.version = 1; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.headerBytes = 64; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.firstLaneSlots += 1; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.firstLaneSlots *= 2; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.laneSlots = 0; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.laneSlots = uint64_t(1) << 63; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.laneCount = 1; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.laneCount = 65; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.dataOffset = ~uint64_t(4095); }) == A::Foreign);
  CHECK(attach([](Header &h) { h.dataOffset += 64; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.lanesOffset = ~uint64_t(255); }) == A::Foreign);
  CHECK(attach([](Header &h) { h.lanesOffset += 8; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.tableOffset = ~uint64_t(7); }) == A::Foreign);
  CHECK(attach([](Header &h) { h.tableBytes = ~uint64_t(0); }) == A::Foreign);
  CHECK(attach([](Header &h) { h.chunkBytes = 0; }) == A::Foreign);
  CHECK(attach([](Header &h) { h.chunkBytes = 100; }) == A::Foreign);
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
    Pair ring(smallRing(2));
    std::mt19937_64 random(seed);
    std::atomic<bool> quit{false};
    std::atomic<uint64_t> newest{0};
    std::thread collector([&] {
      for (;;) {
        Out out = ring.out.next();
        if (out.what == Out::Record && out.record.kind == uint8_t(PacketKind::Marker))
          newest.store(out.record.address);
        if (out.what != Out::Empty)
          continue;
        if (quit)
          return;
        ring.consumer.wait(20);
      }
    });
    std::vector<uint8_t> payload(3000);
    auto *lane = reinterpret_cast<uint8_t *>(&ring.file->lane(0));
    auto *slots = reinterpret_cast<uint8_t *>(ring.file->slots(0));
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 5; ++i) {
        ring.producer->append(eventRecord(1), payload.data(), random() % payload.size());
        Access access = someAccess(PacketKind::RegisterWrite, 1, 1);
        ring.producer->completeInPlace(ring.producer->issueInPlace(access), access, Completion::Done, 1);
      }
      // Both positions, and frames. (A word that says "closed" or "another process" would rightly end it
      // all.)
      for (uint64_t i = random() % 20; i > 0; --i) {
        uint8_t *at = random() % 3 == 0   ? lane + offsetof(Lane, head) + random() % 8
                      : random() % 3 == 0 ? lane + offsetof(Lane, tail) + random() % 8
                                          : slots + random() % (ring.file->slotCount(0) * slotBytes);
        *at = uint8_t(random());
      }
    }
    // Left alone, it works again, after at most what the damage still hides.
    uint64_t sent = 1000;
    bool recorded = true;
    while (newest < 1000 && recorded) {
      recorded = ring.producer->append(eventRecord(++sent)) != 0;
      std::this_thread::yield();
    }
    CHECK(recorded);
    quit = true;
    ring.consumer.wake();
    collector.join();
    allCorrupt += ring.consumer.corruptions();
  }
  CHECK(allCorrupt > 5); // It was damaged, and it was noticed.
}
#endif
