// Ticks: what the tape says when time passes without packets, and when it must not.
#include "tests/recorder/Feeder.h"
#include <doctest/doctest.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t second = 1'000'000'000;

CollectorOptions tickingOptions() {
  CollectorOptions options;
  options.tickIntervalNs = second;
  return options;
}

/// Looks at the empty ring four times a second, from one time to another.
void letPass(Feeder &f, uint64_t from, uint64_t to) {
  for (uint64_t now = from; now <= to; now += second / 4)
    f.collector->idle(now);
}

} // namespace

TEST_CASE("a tick for every second without packets, the recorder's own, and none while packets come") {
  Feeder f(tickingOptions());
  f.open();
  letPass(f, 10 * second, 13 * second);
  std::vector<size_t> ticks = f.find(PacketKind::Tick);
  REQUIRE(ticks.size() == 3);
  uint64_t before = 10 * second;
  for (size_t tick : ticks) {
    const Packet &packet = f.tape.packets[tick];
    CHECK(packet.origin == Origin::Recorder);
    CHECK(packet.issueTime == packet.completeTime);
    CHECK(packet.issueTime - before == second);
    before = packet.issueTime;
  }
  for (uint64_t now = 13 * second; now < 18 * second; now += second / 2) {
    f.mark("busy");
    f.collector->idle(now);
  }
  CHECK(f.find(PacketKind::Tick).size() == 3);
  CHECK(bool(f.finish()));
  CHECK(f.tape.violation.empty());
}

TEST_CASE("a recorder that was held up itself says nothing of the program") {
  Feeder f(tickingOptions());
  f.open();
  f.collector->idle(1 * second);
  f.collector->idle(100 * second);
  f.collector->idle(100 * second + second / 4);
  CHECK(f.find(PacketKind::Tick).empty());
}

TEST_CASE("no tick before the first device, outside the recorded part, or where none are wanted") {
  Feeder early(tickingOptions());
  letPass(early, 0, 5 * second);
  CHECK(early.tape.packets.empty());
  CollectorOptions late = tickingOptions();
  late.start = llvm::cantFail(StartStopCondition::parse("marker:go", "--start", {}));
  Feeder before(late);
  before.open();
  letPass(before, 10 * second, 15 * second);
  CHECK(before.tape.packets.empty());
  CHECK(before.collector->report().notRecorded == 1);
  Feeder never;
  never.open();
  letPass(never, 10 * second, 15 * second);
  CHECK(never.find(PacketKind::Tick).empty());
}

TEST_CASE("ticks alone flush nothing: silence costs no blocks") {
  Feeder f(tickingOptions());
  f.open();
  letPass(f, 10 * second, 40 * second);
  CHECK(f.find(PacketKind::Tick).size() == 30);
  CHECK(f.tape.flushes == 1);
  f.mark("x");
  letPass(f, 41 * second, 43 * second);
  CHECK(f.tape.flushes == 2);
}

namespace {

/// Notes what it is told.
struct Listener : PacketObserver {
  std::vector<uint64_t> ticks;
  uint64_t packets = 0;
  ObserverWishes wishes;
  bool wants = false;
  void deviceOpened(uint16_t, uint16_t) override {}
  void spaceAdded(uint16_t, llvm::StringRef) override {}
  void clockAdded(uint8_t, uint64_t) override {}
  void packet(uint64_t, const Packet &, const PacketExtra &, llvm::ArrayRef<uint8_t>) override { ++packets; }
  void passed(uint64_t, llvm::ArrayRef<Packet> run) override { packets += run.size(); }
  void tick(uint64_t now) override {
    ticks.push_back(now);
    wants = wishes.any();
  }
  void ended() override {}
  const triggers::KeyFilter *filterOf(const Packet &) override { return nullptr; }
  uint64_t filterGeneration() const override { return 0; }
  const ObserverWishes *takeWishes() override {
    bool now = wants;
    wants = false;
    return now ? &wishes : nullptr;
  }
};

} // namespace

TEST_CASE("an observer hears how far time is known, which is never behind a call that has not come back") {
  Listener listener;
  CollectorOptions options;
  options.observer = &listener;
  Feeder f(options);
  f.collector->seenUntil(500);
  CHECK(listener.ticks.empty()); // Nothing to stand behind yet.
  f.open();
  f.collector->seenUntil(2000);
  f.issue(PacketKind::Poll, 0, Feeder::at(0));
  uint64_t issued = f.now;
  f.collector->seenUntil(3000);
  f.complete(0);
  listener.wishes.markers = {"late"};
  f.collector->seenUntil(4000);
  CHECK(listener.ticks == std::vector<uint64_t>{2000, issued, 4000});
  CHECK(f.find(PacketKind::Marker).size() == 1);
  listener.wishes = {};
  CHECK(bool(f.finish()));
  CHECK(listener.packets == f.tape.packets.size());
}
