// A collector that lags behind while records flow: none is left lying, and the first after a silence wakes
// it.
#include "tests/recorder/RingPair.h"
#include <thread>

using namespace tapeback;
using namespace tapeback::ring;
using namespace tapeback::test;

TEST_CASE("a lagging collector gets every record in order, by a small ring that is full most of the time") {
  constexpr uint64_t count = 100'000;
  Pair ring;
  std::thread thread([&] {
    for (uint64_t i = 0; i < count; ++i)
      ring.producer->append(eventRecord(i));
  });
  uint64_t wrong = 0;
  for (uint64_t next = 0; next < count; ++next) {
    Out out = ring.out.await();
    wrong += out.what != Out::Record || out.record.address != next;
  }
  thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("told to lag behind, the consumer leaves what little has come for the next look, and takes much at "
          "once") {
  Pair ring;
  ring.consumer.lagBehind();
  auto append = [&](uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      ring.producer->append(eventRecord(first + i));
  };
  append(0, 1);
  CHECK(ring.out.next().what == Out::Record);
  append(1, 1);
  CHECK(ring.out.next().what == Out::Empty);
  CHECK(ring.out.next().record.address == 1);
  append(2, 200); // A fifth of the lane.
  for (uint64_t i = 2; i < 202; ++i)
    CHECK(ring.out.next().record.address == i);
  append(202, 1);
  ring.consumer.freeze(); // To the end.
  CHECK(ring.out.next().record.address == 202);
}

TEST_CASE("a record that comes alone, long after the others, wakes the collector") {
  RingOptions options = smallRing();
  options.dataBytes = 1 << 20;
  for (bool fullFences : {false, true}) {
    options.fullFences = fullFences;
    Pair ring(options);
    ring.producer->append(eventRecord(1));
    REQUIRE(ring.out.await().what == Out::Record);
    // Again and again: it sleeps, and only this record ends it. (If it does not, the test's time-out does.)
    for (uint64_t i = 2; i < 40; ++i) {
      std::thread thread([&] {
        while (ring.file->header().dataWanted.load() != WantsAny)
          std::this_thread::yield();
        ring.producer->append(eventRecord(i));
        ring.producer->threadEnds();
      });
      Out out;
      while ((out = ring.out.next()).what == Out::Empty)
        ring.consumer.wait(3'600'000);
      CHECK(out.record.address == i);
      thread.join();
    }
  }
}

TEST_CASE("while few records come the consumer looks ever more seldom, and is woken only after a silence") {
  RingOptions options = smallRing();
  options.dataBytes = 1 << 20;
  struct Row {
    unsigned longest, waits;
  };
  // At 2, 4, 8, 16, 32 … milliseconds until 128 are over without a record, and then woken; or at 2 and then
  // woken.
  for (const Row &row : {Row{32, 9}, Row{0, 2}}) {
    CAPTURE(row.longest);
    Pair ring(options);
    ring.consumer.lagBehind(row.longest);
    ring.producer->append(eventRecord(1));
    REQUIRE(ring.out.next().what == Out::Record);
    REQUIRE(ring.out.next().what == Out::Empty);
    std::thread thread([&] {
      while (ring.file->header().dataWanted.load() != WantsAny)
        std::this_thread::yield();
      ring.producer->append(eventRecord(2));
      ring.producer->threadEnds();
    });
    unsigned waits = 0;
    Out out;
    while ((out = ring.out.next()).what == Out::Empty) {
      ring.consumer.wait(3'600'000);
      ++waits;
    }
    thread.join();
    CHECK(out.record.address == 2);
    CHECK(waits == row.waits);
  }
}
