// Many lanes, one order: what the collector's end makes of lanes written by hand, and of threads that write
// them as fast as they can.
#include "recorder/CaptureCompiler.h"
#include "recorder/ring/RingConsumer.h"
#include "recorder/ring/RingFile.h"
#include "recorder/ring/RingProducer.h"
#include "tests/recorder/Feeder.h"
#include <array>
#include <doctest/doctest.h>
#include <thread>

using namespace tapeback;
using namespace tapeback::ring;
using namespace tapeback::test;

namespace {

constexpr ClockFacts nanoseconds{StampSource::Monotonic, 0, 0, 0, uint64_t(1) << 32};

/// Three lanes of 64 slots, and a collector behind them.
struct Lanes {
  static constexpr uint64_t slotCount = 64;
  Header header = {};
  std::array<Lane, 3> lanes = {};
  std::array<std::array<Slot, slotCount>, 3> slots = {};
  RingConsumer consumer;
  Feeder feeder;

  Lanes() : consumer(header, views(), nanoseconds, 1 << 20) { feeder.open(); }
  std::vector<RingConsumer::LaneView> views() {
    std::vector<RingConsumer::LaneView> list;
    for (size_t i = 0; i < lanes.size(); ++i)
      list.push_back({&lanes[i], slots[i].data(), slotCount});
    return list;
  }

  Slot &put(unsigned lane, RecordType type, PacketKind kind, uint64_t issue, uint64_t complete) {
    uint64_t at = lanes[lane].head.load();
    Slot &slot = slots[lane][at % slotCount];
    slot.issue = issue;
    slot.complete = complete;
    slot.type = type;
    slot.kind = uint8_t(kind);
    slot.slots = 1;
    slot.hints = 0;
    slot.thread = uint16_t(lane);
    slot.state.store(SlotState::Completed);
    lanes[lane].head.store(at + 1);
    return slot;
  }
  /// A read that completed in place, or (complete = 0) has yet to.
  Slot &access(unsigned lane, uint64_t issue, uint64_t complete) {
    Slot &slot = put(lane, RecordType::Issue, PacketKind::RegisterRead, issue, complete);
    slot.space = 1;
    slot.width = 4;
    slot.address = 0;
    slot.value = issue;
    slot.hints = CompletesInPlace;
    slot.state.store(complete ? SlotState::Completed : SlotState::Issued);
    return slot;
  }
  Slot &event(unsigned lane, uint64_t time, uint8_t hints = 0) {
    Slot &slot = put(lane, RecordType::Event, PacketKind::Marker, time, time);
    slot.hints = hints;
    return slot;
  }
  /// Takes all that is there now onto the tape.
  void take() {
    RingConsumer::Batch batch;
    for (;;) {
      switch (consumer.next(batch)) {
      case RingConsumer::Status::Empty: return;
      case RingConsumer::Status::Corrupt: feeder.collector->damaged(); break;
      case RingConsumer::Status::Accesses:
        feeder.collector->acceptAccesses(batch.accesses, batch.firstName, batch.concurrent);
        break;
      case RingConsumer::Status::Record:
        feeder.collector->accept(batch.record, batch.payload, batch.others);
        break;
      }
    }
  }
  /// What is on the tape behind the open: issue times, '!' behind those that are concurrent.
  std::string tape() const {
    std::string text;
    for (size_t i = 1; i < feeder.tape.packets.size(); ++i) {
      const Packet &packet = feeder.tape.packets[i];
      text += (text.empty() ? "" : " ") + std::to_string(packet.issueTime);
      text += packet.flags & Concurrent ? "!" : "";
    }
    return text;
  }
  std::string end() {
    consumer.freeze();
    take();
    CHECK(bool(feeder.finish()));
    CHECK(feeder.tape.violation.empty());
    return tape();
  }
};

} // namespace

TEST_CASE("lanes are merged by the time at which things were over, and what overlaps is concurrent") {
  Lanes lanes;
  lanes.access(0, 10, 100);
  lanes.access(1, 20, 30);
  lanes.event(1, 50);
  lanes.access(2, 110, 120);
  lanes.access(1, 130, 140);
  lanes.access(0, 140, 150);
  lanes.take();
  CHECK(lanes.tape() == "20! 50 10! 110 130! 140!");
}

TEST_CASE("a call that has not come back is concurrent with what others do meanwhile, and stands where it "
          "came back") {
  Lanes lanes;
  Slot &slow = lanes.access(0, 10, 0);
  lanes.access(1, 20, 30);
  lanes.take();
  CHECK(lanes.tape() == "20!");
  lanes.access(1, 40, 50);
  lanes.take();
  CHECK(lanes.tape() == "20! 40!");
  slow.complete = 60;
  slow.value = 7;
  slow.state.store(SlotState::Completed);
  lanes.access(1, 70, 80);
  lanes.take();
  CHECK(lanes.tape() == "20! 40! 10! 70");
  CHECK(lanes.feeder.tape.packets[3].value == 7);
  CHECK(lanes.feeder.collector->report().pending == 0);
}

TEST_CASE("a call that never comes back holds nobody up, and is pending") {
  Lanes lanes;
  lanes.access(0, 10, 0);
  lanes.access(1, 20, 30);
  lanes.take();
  lanes.access(0, 40, 50); // The lane goes on: its thread left the call, or another has the lane.
  CHECK(lanes.end() == "20! 10! 40");
  CHECK(lanes.feeder.collector->report().pending == 1);
  CHECK(lanes.feeder.collector->report().whole());
}

TEST_CASE("a group stays together, whatever others did in between") {
  Lanes lanes;
  lanes.event(0, 10);
  lanes.event(1, 20);
  lanes.event(0, 30, Joined);
  lanes.event(0, 40, Joined);
  lanes.event(1, 50);
  lanes.take();
  CHECK(lanes.tape() == "10 30 40 20 50");
}

TEST_CASE("a group that is not complete is waited for") {
  Lanes lanes;
  lanes.lanes[0].busy.store(BusyStamping);
  lanes.event(0, 10);
  lanes.event(1, 20);
  lanes.take();
  CHECK(lanes.tape() == "10");
  lanes.lanes[0].busy.store(BusyWaiting); // For space.
  CHECK(lanes.lanes[0].tail.load() == 1);
  lanes.event(0, 30, Joined);
  lanes.take();
  CHECK(lanes.tape() == "10 30");
  lanes.lanes[0].busy.store(BusyNot);
  lanes.take();
  CHECK(lanes.tape() == "10 30 20");
}

TEST_CASE("a thread that is about to publish is waited for; one that never does is not") {
  Lanes lanes;
  lanes.lanes[1].busy.store(BusyStamping);
  lanes.event(0, 20);
  lanes.take();
  CHECK(lanes.tape() == "");
  CHECK(lanes.consumer.watermark() == 0);
  lanes.event(1, 10);
  lanes.lanes[1].busy.store(BusyNot);
  lanes.take();
  CHECK(lanes.tape() == "10 20");
  CHECK(lanes.consumer.watermark() > 20);
  lanes.lanes[1].busy.store(BusyStamping);
  lanes.event(0, 30);
  while (lanes.tape() == "10 20")
    lanes.take();
  CHECK(lanes.tape() == "10 20 30");
}

TEST_CASE("damage in one lane costs what is in it, and nothing of the others") {
  Lanes lanes;
  lanes.event(0, 10);
  lanes.event(0, 20).slots = 999;
  lanes.event(0, 30);
  lanes.event(1, 40);
  lanes.take();
  lanes.event(0, 50);
  CHECK(lanes.end() == "10 1001 40 50"); // The loss has no time but the latest that was seen.
  CHECK(lanes.feeder.collector->report().notUnderstood == 1);
}

namespace {

/// Who ran when, as a tape tells it.
struct Interval {
  uint64_t issue, complete;
  uint16_t thread;
  bool concurrent;
};

/// What is wrong with an order of operations; empty if nothing is. Those that touch (one was over at the very
/// stamp at which the other began) may count as concurrent or not: the clock has steps.
std::string wrongIn(const std::vector<Interval> &order) {
  constexpr size_t threads = 8;
  std::array<uint64_t, threads> lastOf = {};
  std::vector<bool> overlaps(order.size()), touches(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const Interval &one = order[i];
    if (i && one.complete < order[i - 1].complete)
      return "order at " + std::to_string(i);
    if (one.issue < lastOf[one.thread])
      return "thread's order at " + std::to_string(i);
    lastOf[one.thread] = one.complete;
    for (size_t j = i; j-- > 0 && order[j].complete >= one.issue;) {
      if (order[j].thread == one.thread)
        continue;
      (order[j].complete > one.issue ? overlaps : touches)[i] = true;
      (order[j].complete > one.issue ? overlaps : touches)[j] = true;
    }
  }
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i].concurrent != overlaps[i] && !(order[i].concurrent && touches[i]))
      return "overlap at " + std::to_string(i);
  return "";
}

} // namespace

TEST_CASE("threads that write as fast as they can: every access once, in order, overlaps exact") {
  constexpr unsigned threads = 5;
  constexpr uint64_t each = 20'000;
  RingOptions options;
  options.dataBytes = 64 << 10; // Full most of the time.
  options.lanes = 4;            // Two threads share the last.
  options.monotonicStamps = true;
  llvm::Expected<std::vector<uint8_t>> table = compileCaptureTable({{"a", "null:", nullptr}});
  REQUIRE(bool(table));
  llvm::Expected<std::unique_ptr<RingFile>> file = RingFile::createAnonymous(*table, options);
  REQUIRE(bool(file));
  auto producer = std::make_unique<Producer>();
  REQUIRE(producer->attachMapping((*file)->base(), (*file)->bytes(), nullptr) == Producer::Attach::Attached);
  RingConsumer consumer(**file);
  Feeder feeder;
  feeder.open();
  std::atomic<unsigned> running{threads};
  std::vector<std::thread> all;
  for (unsigned thread = 0; thread < threads; ++thread)
    all.emplace_back([&, thread] {
      const Access access =
          Access::make(PacketKind::RegisterRead, 0, 0, 0, 1, uint16_t(thread), 4, Origin::Program);
      for (uint64_t i = 0; i < each; ++i) {
        IssuedAccess underway = producer->issueInPlace(access);
        producer->completeInPlace(underway, access, Completion::Done, i);
      }
      producer->threadEnds();
      if (--running == 0)
        consumer.wake();
    });
  RingConsumer::Batch batch;
  auto take = [&] {
    for (;;) {
      switch (consumer.next(batch)) {
      case RingConsumer::Status::Empty: return;
      case RingConsumer::Status::Corrupt: feeder.collector->damaged(); break;
      case RingConsumer::Status::Accesses:
        feeder.collector->acceptAccesses(batch.accesses, batch.firstName, batch.concurrent);
        break;
      case RingConsumer::Status::Record:
        feeder.collector->accept(batch.record, batch.payload, batch.others);
        break;
      }
    }
  };
  while (running) {
    take();
    consumer.wait(250);
  }
  for (std::thread &thread : all)
    thread.join();
  consumer.freeze();
  take();
  REQUIRE(bool(feeder.finish()));
  CHECK(feeder.collector->report().whole());
  CHECK(feeder.tape.violation.empty());
  std::vector<Interval> order;
  std::array<uint64_t, threads> next = {};
  for (size_t i = 1; i < feeder.tape.packets.size(); ++i) {
    const Packet &packet = feeder.tape.packets[i];
    order.push_back({packet.issueTime, packet.completeTime, packet.thread, (packet.flags & Concurrent) != 0});
    REQUIRE(packet.value == next[packet.thread]++);
  }
  CHECK(order.size() == threads * each);
  CHECK(wrongIn(order) == "");
  producer->release();
}

TEST_CASE("the check of orders and overlaps sees what is wrong") {
  std::vector<Interval> order = {
      {10, 20, 0, false}, {30, 50, 1, true}, {40, 60, 0, true}, {70, 80, 1, false}};
  CHECK(wrongIn(order) == "");
  auto with = [&](size_t at, Interval other) {
    std::vector<Interval> changed = order;
    changed[at] = other;
    return wrongIn(changed);
  };
  CHECK(with(0, {10, 20, 0, true}) == "overlap at 0");
  CHECK(with(1, {30, 50, 1, false}) == "overlap at 1");
  CHECK(with(1, {30, 35, 1, true}) == "overlap at 1");
  CHECK(with(3, {55, 80, 1, false}) == "overlap at 3");
  CHECK(with(3, {45, 58, 1, true}) == "order at 3");
  CHECK(with(2, {15, 60, 0, true}) == "thread's order at 2");
}
