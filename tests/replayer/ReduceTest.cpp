// Reduce against faults whose cause is known from how the toy was made: what has to be left, and what must
// not be taken for the same failure.
#include "replayer/reduce/Reduce.h"
#include "format/Failure.h"
#include "replayer/reduce/Groups.h"
#include "replayer/reduce/KeptTargets.h"
#include "replayer/reduce/Plain.h"
#include "replayer/reduce/Sequential.h"
#include "tests/replayer/BisectHarness.h"
#include "tests/replayer/QueueProgram.h"
#include "tests/support/RunProgram.h"
#include <thread>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// What the toys of these tests do besides.
struct Planted {
  bool farApart = false;  ///< The square of 7 is wrong once 0xabc was written to scratch.
  bool alsoOther = false; ///< … and reads of the wide register are, always: another failure.
  bool dies = false;      ///< A write of 0xdead to scratch kills it, if 0xabc was written before.
  double rate = 1;        ///< In how many of the targets.
  bool leaks = false;     ///< Restores leave something else in a register.
  bool snapshots = false;
};

class PlantedToy : public ScriptedTarget {
public:
  PlantedToy(ToyOptions options, Planted planted, bool active)
      : ScriptedTarget(std::move(options)), planted(planted), active(active) {}

  TargetCapabilities capabilities() const override {
    TargetCapabilities can = ScriptedTarget::capabilities();
    can.snapshots = planted.snapshots;
    can.maxSnapshots = 1;
    return can;
  }
  llvm::Expected<uint64_t> snapshot() override {
    kept = std::make_unique<PlantedToy>(*this, nullptr);
    return 1;
  }
  llvm::Error restore(uint64_t) override {
    if (dead)
      return death();
    static_cast<ScriptedTarget &>(*this) = *kept;
    armed = kept->armed;
    operand = kept->operand;
    return planted.leaks ? ScriptedTarget::write(0, toy::scratch, 4, 0x77) : llvm::Error::success();
  }
  PlantedToy(const PlantedToy &other, std::nullptr_t)
      : ScriptedTarget(other), planted(other.planted), active(other.active), armed(other.armed),
        operand(other.operand) {}

  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override {
    if (dead)
      return death();
    llvm::Expected<uint64_t> value = ScriptedTarget::read(space, address, width);
    if (!value || !active)
      return value;
    if (planted.farApart && armed && operand == 7 && address == toy::square)
      return *value ^ 0x10;
    if (planted.alsoOther && address == toy::wide)
      return *value ^ 1;
    return value;
  }
  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override {
    if (dead)
      return death();
    armed |= address == toy::scratch && value == 0xabc;
    if (address == toy::square)
      operand = value;
    if (active && planted.dies && armed && address == toy::scratch && value == 0xdead) {
      dead = true;
      return death();
    }
    return ScriptedTarget::write(space, address, width, value);
  }
  llvm::Error reset(ResetKind kind) override {
    if (!dead)
      armed = false;
    return ScriptedTarget::reset(kind);
  }

private:
  static llvm::Error death() {
    static unsigned deaths = 12345;
    std::string number = std::to_string(++deaths);
    return failTarget("target-died",
                      "the toy was killed by signal 6; its last words: Assertion `fine' failed, "
                      "process " +
                          number + " at 0x" + number);
  }

  Planted planted;
  bool active, armed = false, dead = false;
  uint64_t operand = 0;
  std::unique_ptr<PlantedToy> kept;
};

/// Seeded: the outcome of a test does not depend on the machine.
EndpointFactory toys(Planted planted, std::shared_ptr<unsigned> opened = std::make_shared<unsigned>(0)) {
  auto chance = std::make_shared<std::mt19937_64>(7);
  return [=]() -> llvm::Expected<TargetSet> {
    bool active = double((*chance)() >> 11) / double(uint64_t(1) << 53) < planted.rate;
    ++*opened;
    return toyTargets(std::make_unique<PlantedToy>(ToyOptions(), planted, active));
  };
}

/// 0xabc, a hundred operations of all kinds, the square of 7, as many again.
std::unique_ptr<MemoryTape> farApartTape(unsigned between, uint64_t last = 0) {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  auto others = [&] {
    for (unsigned i = 0; i < between; ++i) {
      program.marker("op");
      program.store(toyMemory + 64 * (i % 16), std::vector<uint8_t>(48, uint8_t(i + 1)));
      program.dma(true, toyMemory + 64 * (i % 16), 16 * (i % 8), 48);
      program.dma(false, toyMemory + 4096, 16 * (i % 8), 48);
      program.square(i % 7);
      program.read(toy::wide, 8);
    }
  };
  others();
  program.write(toy::scratch, 0xabc);
  others();
  program.square(7);
  if (last)
    program.write(toy::scratch, last);
  return program.finish();
}

struct Reduced {
  std::unique_ptr<TapeSource> source;
  std::optional<TapeImage> image;
  std::optional<ReduceReport> report;
  std::optional<Failure> failure;
  std::vector<Packet> packets() const {
    return llvm::cantFail(makeCandidate(*image, report->selection)).packets;
  }
};

Reduced reduceToy(const MemoryTape &tape, const Endpoints &endpoints, ReduceOptions options = {}) {
  options.trial.player = quickOptions().player;
  Reduced result;
  result.source = llvm::cantFail(TapeSource::create(tape.copy()));
  result.image = llvm::cantFail(TapeImage::load(*result.source));
  llvm::Expected<ReduceReport> report = reduceTape(*result.image, endpoints, options);
  if (report)
    result.report = std::move(*report);
  else
    result.failure = toFailure(report.takeError());
  return result;
}

bool hasWrite(const std::vector<Packet> &packets, uint64_t offset, uint64_t value) {
  return llvm::any_of(packets, [&](const Packet &packet) {
    return packet.kind == PacketKind::RegisterWrite && packet.address == offset && packet.value == value;
  });
}

} // namespace

TEST_CASE("reduce: two packets far apart are what is left, and another failure is none") {
  std::unique_ptr<MemoryTape> tape = farApartTape(40);
  Planted bad;
  bad.farApart = true;
  Reduced reduced = reduceToy(*tape, {toys({}), toys(bad)});
  REQUIRE_MESSAGE(reduced.report, reduced.failure->message);
  CHECK(reduced.report->minimal);
  CHECK(reduced.report->certain);
  // The write that arms it, the operand, and the read.
  CHECK(reduced.report->after <= 4);
  CHECK(hasWrite(reduced.packets(), toy::scratch, 0xabc));
  CHECK(hasWrite(reduced.packets(), toy::square, 7));
  ReduceOptions plain;
  plain.plain = true;
  Reduced peer = reduceToy(*tape, {toys({}), toys(bad)}, plain);
  REQUIRE(peer.report);
  CHECK(peer.report->minimal);
  CHECK(2 * reduced.report->runs <= peer.report->runs);

  // Of a device that fails in two ways the first is kept: the smaller tape fails earlier, but otherwise.
  bad.alsoOther = true;
  std::unique_ptr<MemoryTape> shorter = farApartTape(0);
  Reduced same = reduceToy(*shorter, {toys({}), toys(bad)});
  REQUIRE(same.report);
  CHECK(same.report->failure.object == "SQUARE");
  Reduced other = reduceToy(*tape, {toys({}), toys(bad)});
  REQUIRE(other.report);
  CHECK(other.report->failure.object != "SQUARE");
  CHECK(!hasWrite(other.packets(), toy::square, 7));
}

TEST_CASE("reduce: transfers become shorter, and contents zero") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.store(toyMemory, std::vector<uint8_t>(48, 0x5a));
  program.dma(true, toyMemory, 0, 48);
  program.dma(false, toyMemory + 256, 0, 48);
  std::unique_ptr<MemoryTape> tape = program.finish();
  ToyOptions options;
  options.faults.corruptDma = 0;
  Reduced reduced = reduceToy(*tape, {toys({}), endpoint(options)});
  REQUIRE_MESSAGE(reduced.report, reduced.failure->message);
  CHECK(reduced.report->minimal);
  CHECK(reduced.report->shortened >= 1);
  for (const Packet &packet : reduced.packets())
    if (packet.kind == PacketKind::RegisterWrite && packet.address == toy::count)
      CHECK(packet.value < 48);
}

TEST_CASE("reduce: what no answer shows is not found, and said") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.store(toyMemory, std::vector<uint8_t>(48, 0x5a));
  program.dma(true, toyMemory, 0, 48); // Nothing reads the buffer.
  std::unique_ptr<MemoryTape> tape = program.finish();
  ToyOptions options;
  options.faults.corruptDma = 0;
  Reduced reduced = reduceToy(*tape, {toys({}), endpoint(options)});
  REQUIRE(reduced.failure);
  CHECK(reduced.failure->code == "does-not-fail");
  CHECK(reduced.failure->hint.find("--probe deep") != std::string::npos);
}

TEST_CASE("reduce: a death is the failure, alone and beside a second target, and is written so") {
  std::unique_ptr<MemoryTape> tape = farApartTape(10, 0xdead);
  Planted bad;
  bad.dies = true;
  for (bool alone : {true, false}) {
    Endpoints endpoints{alone ? EndpointFactory() : toys({}), toys(bad)};
    Reduced reduced = reduceToy(*tape, endpoints);
    INFO("alone: ", alone);
    REQUIRE_MESSAGE(reduced.report, reduced.failure->message);
    CHECK(reduced.report->failure.what == "target-died");
    // The same each time, whatever number the process had.
    CHECK(reduced.report->failure.object == "Assertion `fine' failed, process # at #");
    CHECK(reduced.report->minimal);
    CHECK(reduced.report->after <= 3);
    CHECK(hasWrite(reduced.packets(), toy::scratch, 0xabc));
    ScratchDirectory scratch;
    llvm::Expected<ReducedTape> written =
        writeReduced(*reduced.image, reduced.report->selection, endpoints, TrialOptions(),
                     reduced.report->failure, 1, scratch.file("small.tape"));
    REQUIRE_MESSAGE(bool(written), llvm::toString(written.takeError()));
    CHECK(written->signature.oracle == "target-error");
    std::unique_ptr<TapeSource> small = llvm::cantFail(TapeSource::open(scratch.file("small.tape")));
    PlantedToy dying(ToyOptions(), bad, true), sound(ToyOptions(), {}, true);
    Target *target = &dying;
    ReplayReport replayed = llvm::cantFail(replayTape(*small, target, quickOptions()));
    CHECK(replayed.signature == written->signature);
    target = &sound;
    CHECK(llvm::cantFail(replayTape(*small, target, quickOptions())).verdict == Verdict::Divergence);
  }
  Reduced survivor = reduceToy(*tape, {{}, toys({})});
  REQUIRE(survivor.failure);
  CHECK(survivor.failure->code == "does-not-fail");
}

TEST_CASE("reduce: a failure that comes in a third of the runs is measured, and reduced by its rate") {
  std::unique_ptr<MemoryTape> tape = farApartTape(3);
  Planted bad;
  bad.farApart = true;
  bad.rate = 0.3;
  ReduceOptions options;
  options.intermittent.on = true;
  Reduced reduced = reduceToy(*tape, {toys({}), toys(bad)}, options);
  REQUIRE_MESSAGE(reduced.report, reduced.failure->message);
  CHECK(reduced.report->minimal);
  CHECK(!reduced.report->certain);
  REQUIRE(reduced.report->rateBefore);
  REQUIRE(reduced.report->rateAfter);
  CHECK(reduced.report->rateBefore->interval().low <= 0.3);
  CHECK(reduced.report->rateBefore->interval().high >= 0.3);
  CHECK(hasWrite(reduced.packets(), toy::scratch, 0xabc));
  CHECK(hasWrite(reduced.packets(), toy::square, 7));
  CHECK(reduced.report->after <= 8);
  // A search that takes one run for an answer loses it, or does not even find it.
  ReduceOptions naive;
  naive.tries = naive.needed = 2;
  Reduced lost = reduceToy(*tape, {toys({}), toys(bad)}, naive);
  if (lost.report)
    CHECK(lost.report->after > reduced.report->after);
  else
    CHECK(lost.failure->code == "does-not-fail");
}

TEST_CASE("sequential test: wrong no more often than it says, and quick where the rates are far apart") {
  std::mt19937_64 random(5);
  auto answers = [&](double rate, SequentialTest::Answer wanted, double &runs) {
    unsigned right = 0;
    constexpr unsigned trials = 2000;
    uint64_t all = 0;
    for (unsigned i = 0; i < trials; ++i) {
      SequentialTest test(0.03, 0.15, 0.05);
      while (test.answer() == SequentialTest::Answer::Open)
        test.add(double(random() >> 11) / double(uint64_t(1) << 53) < rate);
      right += test.answer() == wanted;
      all += test.runs();
    }
    runs = double(all) / trials;
    return right;
  };
  double runs = 0;
  // At most 5 % of 2,000 wrong; 1 % of such experiments would have more than 124.
  CHECK(answers(0.15, SequentialTest::Answer::High, runs) >= 2000 - 124);
  CHECK(answers(0.03, SequentialTest::Answer::Low, runs) >= 2000 - 124);
  CHECK(answers(0.5, SequentialTest::Answer::High, runs) == 2000);
  CHECK(runs < 5);
  CHECK(answers(0, SequentialTest::Answer::Low, runs) == 2000);
  CHECK(runs < 25);
}

TEST_CASE("kept targets: put back instead of opened, unless that does not bring them back") {
  std::unique_ptr<MemoryTape> tape = farApartTape(5);
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape->copy()));
  Planted bad;
  bad.farApart = bad.snapshots = true;
  for (bool leaks : {false, true}) {
    bad.leaks = leaks;
    auto opened = std::make_shared<unsigned>(0);
    KeptTargets kept(*source, quickOptions().player, toys(bad, opened));
    Reduced reduced = reduceToy(*tape, {toys({}), kept.factory()});
    INFO("leaks: ", leaks, " ", kept.whyNot());
    REQUIRE_MESSAGE(reduced.report, reduced.failure->message);
    CHECK(reduced.report->after <= 4);
    if (leaks) {
      CHECK(kept.whyNot().find("is not as it was") != std::string::npos);
      CHECK(*opened >= reduced.report->runs);
    } else {
      CHECK(kept.whyNot().empty());
      CHECK(*opened == 1);
      CHECK(kept.restored() + 1 >= reduced.report->runs);
    }
  }
  // One that dies in every run is opened for every run.
  Planted dying;
  dying.dies = dying.snapshots = true;
  std::unique_ptr<MemoryTape> deadly = farApartTape(5, 0xdead);
  KeptTargets kept(*source, quickOptions().player, toys(dying));
  Reduced reduced = reduceToy(*deadly, {{}, kept.factory()});
  REQUIRE_MESSAGE(reduced.report, reduced.failure->message);
  CHECK(reduced.report->after <= 3);
  CHECK(kept.opened() > 1);
}

TEST_CASE("state: goes on where it was, and is refused where it is damaged") {
  std::unique_ptr<MemoryTape> tape = farApartTape(20);
  Planted bad;
  bad.farApart = true;
  std::string text;
  ReduceOptions options;
  options.maxRuns = 12;
  options.keep = [&](const ReduceState &state) {
    text = writeState(state);
    return llvm::Error::success();
  };
  Reduced stopped = reduceToy(*tape, {toys({}), toys(bad)}, options);
  REQUIRE(stopped.report);
  CHECK(!stopped.report->stopped.empty());
  const uint64_t packets = stopped.source->reader().summary().packets;
  ReduceState state = llvm::cantFail(readState(text, "state", packets));
  CHECK(state.selection.kept == stopped.report->selection.kept);
  CHECK(writeState(state) == text);
  ReduceOptions again;
  again.resume = state;
  Reduced finished = reduceToy(*tape, {toys({}), toys(bad)}, again);
  REQUIRE_MESSAGE(finished.report, finished.failure->message);
  CHECK(finished.report->minimal);
  CHECK(finished.report->after <= 4);
  CHECK(finished.report->runs > stopped.report->runs);

  auto refused = [&](const std::string &damaged, uint64_t count) {
    llvm::Expected<ReduceState> read = readState(damaged, "state", count);
    if (read)
      return std::string();
    return toFailure(read.takeError()).code;
  };
  CHECK(refused(text, state.selection.count() / 2) == "bad-state");
  CHECK(refused("{}", packets) == "bad-state");
  // Many ranges, backwards, cost no more than sorting them once: joined, it is two that are left.
  Change many;
  std::vector<std::pair<uint64_t, uint64_t>> ranges = {{1'000'000, 1'000'001}};
  for (uint64_t i = 200'000; i-- > 0;)
    ranges.emplace_back(2 * i, 2 * i + 2);
  many.addZeroes(ranges);
  CHECK(many.zero == std::vector<std::pair<uint64_t, uint64_t>>{{0, 400'000}, {1'000'000, 1'000'001}});
  many.addZeroes({});
  CHECK(many.zero.size() == 2);
  CHECK(refused("{", packets) != "");
  // Byte by byte: whatever it says, reading it ends.
  unsigned refusals = 0;
  for (size_t i = 0; i < text.size(); i += 7) {
    std::string damaged = text;
    damaged[i] = char(damaged[i] ^ 0x15);
    refusals += !refused(damaged, packets).empty();
  }
  CHECK(refusals > 0);
}

TEST_CASE("reduce: bounded by time it stops where it is, and says so") {
  std::unique_ptr<MemoryTape> tape = farApartTape(20);
  Planted bad;
  bad.farApart = true;
  ReduceOptions options;
  options.maxSeconds = 1;
  HostTimer timer;
  unsigned asked = 0;
  // However fast the machine is: the second is over before the tenth candidate is.
  options.stop = [&] {
    while (++asked >= 10 && timer.elapsed() < 1'100'000'000)
      std::this_thread::yield();
    return false;
  };
  Reduced stopped = reduceToy(*tape, {toys({}), toys(bad)}, options);
  REQUIRE(stopped.report);
  CHECK(stopped.report->stopped == "after 1 s, as asked");
  CHECK(!stopped.report->minimal);
  CHECK(stopped.report->runs < 30);
  options.stop = nullptr;
  options.maxSeconds = 600;
  Reduced finished = reduceToy(*tape, {toys({}), toys(bad)}, options);
  REQUIRE(finished.report);
  CHECK(finished.report->stopped.empty());
  CHECK(finished.report->minimal);
  CHECK(finished.report->runs > stopped.report->runs);
}

TEST_CASE("plain ddmin: finds what has to be there, and nothing else") {
  std::vector<uint32_t> items(1000);
  for (uint32_t i = 0; i < items.size(); ++i)
    items[i] = i;
  auto fails = [](const std::vector<uint32_t> &left) -> llvm::Expected<bool> {
    return llvm::is_contained(left, 3u) && llvm::is_contained(left, 777u) && llvm::is_contained(left, 778u);
  };
  CHECK(llvm::cantFail(plainDdmin(items, fails, [] { return false; })) == std::vector<uint32_t>{3, 777, 778});
  CHECK(llvm::cantFail(plainDdmin(items, fails, [] { return true; })) == items);
}

TEST_CASE("reduce: trigger marks go with their packets") {
  std::unique_ptr<MemoryTape> tape = farApartTape(2);
  uint64_t arming = 0;
  for (uint64_t i = 0; i < tape->packets.size(); ++i)
    if (tape->packets[i].kind == PacketKind::RegisterWrite && tape->packets[i].value == 0xabc)
      arming = i;
  ScratchDirectory scratch;
  tape->triggerRecords = {{arming, "armed"}, {2, "something else"}};
  Planted bad;
  bad.farApart = true;
  Endpoints endpoints{toys({}), toys(bad)};
  Reduced reduced = reduceToy(*tape, endpoints);
  REQUIRE(reduced.report);
  llvm::Expected<ReducedTape> written =
      writeReduced(*reduced.image, reduced.report->selection, endpoints, TrialOptions(),
                   reduced.report->failure, 1, scratch.file("s.tape"));
  REQUIRE_MESSAGE(bool(written), llvm::toString(written.takeError()));
  CHECK(written->marks == 1);
  CHECK(written->marksLeftOut == 1);
  std::unique_ptr<TapeReader> small = llvm::cantFail(TapeReader::open(scratch.file("s.tape")));
  std::vector<TapeReader::TriggerRecord> marks = llvm::cantFail(small->triggers());
  REQUIRE(marks.size() == 1);
  CHECK(marks[0].text == "armed");
  PacketBatch batch;
  llvm::cantFail(small->readPackets(marks[0].packet, 1, batch));
  CHECK(batch.packets[0].value == 0xabc);
}

namespace {

/// A failure of the square of 7 whose rate depends on a packet far before it, and on how often it was tried.
struct Boosted {
  double rate = 0.4;     ///< Once 0x222 was written to scratch …
  double without = 0.02; ///< … and if it was not; then there is another failure in every run.
  unsigned until = ~0u;  ///< So many targets; of later ones …
  double drift = 1;      ///< … the rates are so many times as high.
  bool inTurn = false;   ///< What decides is not drawn, but 0.1, 0.3, 0.5, 0.7, 0.9, and so on.
};

class BoostedToy : public ScriptedTarget {
public:
  BoostedToy(Boosted boosted, double draw) : ScriptedTarget(ToyOptions()), boosted(boosted), draw(draw) {}
  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override {
    llvm::Expected<uint64_t> value = ScriptedTarget::read(space, address, width);
    if (!value)
      return value;
    if (address == toy::wide && !isHigh)
      return *value ^ 1;
    bool fails = draw < (isHigh ? boosted.rate : boosted.without);
    return address == toy::square && operand == 7 && fails ? *value ^ 0x10 : *value;
  }
  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override {
    isHigh |= address == toy::scratch && value == 0x222;
    if (address == toy::square)
      operand = value;
    return ScriptedTarget::write(space, address, width, value);
  }

private:
  Boosted boosted;
  double draw;
  bool isHigh = false;
  uint64_t operand = 0;
};

EndpointFactory boostedToys(Boosted boosted) {
  auto chance = std::make_shared<std::mt19937_64>(11);
  auto opened = std::make_shared<unsigned>(0);
  return [=]() -> llvm::Expected<TargetSet> {
    double draw = double((*chance)() >> 11) / double(uint64_t(1) << 53);
    if (boosted.inTurn)
      draw = 0.1 + 0.2 * (*opened % 5);
    Boosted present = boosted;
    if ((*opened)++ >= boosted.until) {
      present.rate *= boosted.drift;
      present.without *= boosted.drift;
    }
    return toyTargets(std::make_unique<BoostedToy>(present, draw));
  };
}

std::unique_ptr<MemoryTape> boostedTape() {
  ToyProgram program;
  program.open();
  program.write(toy::scratch, 0x222);
  for (unsigned i = 0; i < 4; ++i) {
    program.square(i);
    program.read(toy::wide, 8);
  }
  program.square(7);
  return program.finish();
}

} // namespace

TEST_CASE("reduce: a part that fails far more rarely is none, nor one that fails in another way") {
  std::unique_ptr<MemoryTape> tape = boostedTape();
  ReduceOptions options;
  options.intermittent.on = true;
  Reduced reduced = reduceToy(*tape, {toys({}), boostedToys({})}, options);
  REQUIRE_MESSAGE(reduced.report, reduced.failure->message);
  CHECK(reduced.report->failure.object == "SQUARE");
  CHECK(hasWrite(reduced.packets(), toy::scratch, 0x222));
  CHECK(reduced.report->after <= 5);
  CHECK(reduced.report->minimal);
  CHECK(reduced.report->drift.empty());
  CHECK(!reduced.report->rateLost);

  // Three of five, where it is five with that packet and two without.
  Boosted inTurn;
  inTurn.rate = 1;
  inTurn.without = 0.35;
  inTurn.inTurn = true;
  ReduceOptions ofFive;
  ofFive.tries = 5;
  ofFive.needed = 3;
  Reduced three = reduceToy(*tape, {toys({}), boostedToys(inTurn)}, ofFive);
  REQUIRE_MESSAGE(three.report, three.failure->message);
  CHECK(hasWrite(three.packets(), toy::scratch, 0x222));
  CHECK(!three.report->certain);
  // Two are enough: the packet goes.
  ofFive.needed = 2;
  Reduced two = reduceToy(*tape, {toys({}), boostedToys(inTurn)}, ofFive);
  REQUIRE_MESSAGE(two.report, two.failure->message);
  CHECK(!hasWrite(two.packets(), toy::scratch, 0x222));
}

TEST_CASE(
    "reduce: a rate that drifts meanwhile is seen, and what is left then fails too rarely is no answer") {
  std::unique_ptr<MemoryTape> tape = boostedTape();
  ReduceOptions options;
  options.intermittent.on = true;
  Boosted falls;
  falls.until = 60;
  falls.drift = 0.02;
  Reduced fell = reduceToy(*tape, {toys({}), boostedToys(falls)}, options);
  REQUIRE_MESSAGE(fell.report, fell.failure->message);
  CHECK(fell.report->drift == "fell");
  CHECK(hasWrite(fell.packets(), toy::scratch, 0x222));

  // With the rates so high, a part that has lost the packet fails as often as the whole did at first.
  Boosted rises;
  rises.rate = 0.1;
  rises.without = 0.015;
  rises.until = 130;
  rises.drift = 8;
  Reduced rose = reduceToy(*tape, {toys({}), boostedToys(rises)}, options);
  REQUIRE_MESSAGE(rose.report, rose.failure->message);
  CHECK(rose.report->drift == "rose");
  CHECK(rose.report->rateLost == !hasWrite(rose.packets(), toy::scratch, 0x222));
  CHECK(rose.report->rateLost);
  CHECK(!rose.report->minimal);
}

TEST_CASE("reduce: a search that goes on asks for the rate of the whole tape, not of what was left") {
  std::unique_ptr<MemoryTape> tape = boostedTape();
  ReduceOptions options;
  options.intermittent.on = true;
  options.maxRuns = 60;
  std::optional<ReduceState> state;
  options.keep = [&](const ReduceState &best) {
    state = best;
    return llvm::Error::success();
  };
  Reduced stopped = reduceToy(*tape, {toys({}), boostedToys({})}, options);
  REQUIRE_MESSAGE(stopped.report, stopped.failure->message);
  REQUIRE(!stopped.report->stopped.empty());
  REQUIRE(state);
  REQUIRE(state->rate);
  CHECK(*state->rate == *stopped.report->rateBefore);
  const uint64_t packets = stopped.source->reader().summary().packets;
  ReduceState read = llvm::cantFail(readState(writeState(*state), "state", packets));
  CHECK(read.rate == state->rate);
  ReduceOptions again;
  again.intermittent.on = true;
  again.resume = read;
  Reduced finished = reduceToy(*tape, {toys({}), boostedToys({})}, again);
  REQUIRE_MESSAGE(finished.report, finished.failure->message);
  CHECK(*finished.report->rateBefore == *state->rate);
  CHECK(hasWrite(finished.packets(), toy::scratch, 0x222));
}

TEST_CASE("groups: what cannot be changed is found in few tries, and all else is changed") {
  constexpr size_t count = 1000;
  for (std::vector<size_t> stays : {std::vector<size_t>{}, {0}, {999}, {3, 500, 501}, {1, 2, 3, 4, 5}}) {
    std::vector<bool> changed(count, false);
    unsigned tries = 0;
    auto change = [&](Group group) -> llvm::Expected<bool> {
      ++tries;
      for (size_t stay : stays)
        if (stay >= group.first && stay < group.last)
          return false;
      for (size_t i = group.first; i < group.last; ++i)
        CHECK(!changed[i]);
      std::fill(changed.begin() + long(group.first), changed.begin() + long(group.last), true);
      return true;
    };
    CHECK(llvm::cantFail(changeInGroups({{0, count, false}}, change, [] { return false; })) == stays);
    CHECK(size_t(std::count(changed.begin(), changed.end(), true)) == count - stays.size());
    CHECK(tries <= 1 + 20 * stays.size());
    // Ended at once, nothing is changed, and nothing lost.
    CHECK(llvm::cantFail(changeInGroups({{0, count, false}}, change, [] { return true; })).size() == count);
  }
}

TEST_CASE("candidates: a host that is ahead of the device where it was not is no part of a tape") {
  // Five times three commands in a ring of eight, each waited for.
  QueueProgram program(8);
  constexpr uint64_t fence = QueueProgram::data + 0x8000;
  std::vector<uint64_t> waits, completions;
  for (uint64_t i = 1; i <= 5; ++i) {
    program.submit(0, minnow_dma(MINNOW_DMA_LOAD, QueueProgram::data, 0, 64, 1, 64, 64));
    QueueProgram::Submitted store =
        program.submit(0, minnow_dma(MINNOW_DMA_STORE, QueueProgram::data + 0x1000, 0, 64, 1, 64, 64));
    program.submit(0, minnow_fence(fence, i, 0));
    program.doorbell(0);
    program.settle();
    waits.push_back(program.wait(fence, i));
    completions.push_back(program.completion(*store.descriptor));
  }
  std::unique_ptr<MemoryTape> tape = program.finish();
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape->copy()));
  TapeImage image = llvm::cantFail(TapeImage::load(*source));
  auto with = [&](const std::set<uint64_t> &gone) {
    Selection selection;
    selection.kept.assign(image.packets.size(), true);
    for (uint64_t packet : gone)
      selection.kept[size_t(packet)] = false;
    return llvm::cantFail(makeCandidate(image, selection));
  };
  auto has = [](const Candidate &candidate, uint64_t packet) {
    return llvm::is_contained(candidate.original, uint32_t(packet));
  };
  CHECK(!with({}).ahead);
  // Without one wait six are outstanding, and what the store brought may not be there yet.
  Candidate one = with({waits[1]});
  CHECK(!one.ahead);
  CHECK(!has(one, completions[1]));
  CHECK(has(one, completions[0]));
  CHECK(has(one, completions[2]));
  // Without two nine are: the first may not have been fetched when the ninth takes its place.
  CHECK(with({waits[1], waits[2]}).ahead);
  // As they are, whatever that means.
  Selection plain;
  plain.kept.assign(image.packets.size(), true);
  plain.kept[size_t(waits[1])] = plain.kept[size_t(waits[2])] = false;
  plain.asTheyAre = true;
  Candidate plainly = llvm::cantFail(makeCandidate(image, plain));
  CHECK(!plainly.ahead);
  CHECK(has(plainly, completions[1]));
}

TEST_CASE("candidates: queues that took turns on the tape do so in its parts") {
  QueueProgram program;
  constexpr uint64_t fence = QueueProgram::data + 0x8000;
  auto load = minnow_dma(MINNOW_DMA_LOAD, QueueProgram::data, 0, 64, 1, 64, 64);
  program.submit(0, load);
  const uint64_t fenced = program.submit(0, minnow_fence(fence, 1, 0)).submit;
  program.doorbell(0);
  program.settle();
  const uint64_t waited = program.wait(fence, 1);
  // The host waited for the first queue; the second is made to wait by a semaphore.
  const uint64_t ordered = program.submit(1, minnow_wait(0)).submit;
  program.submit(1, load);
  program.doorbell(1);
  program.submit(0, load);
  const uint64_t signalled = program.submit(0, minnow_signal(0)).submit;
  program.doorbell(0);
  std::unique_ptr<MemoryTape> tape = program.finish();
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape->copy()));
  TapeImage image = llvm::cantFail(TapeImage::load(*source));
  auto isAhead = [&](const std::set<uint64_t> &gone) {
    Selection selection;
    selection.kept.assign(image.packets.size(), true);
    for (uint64_t packet : gone)
      selection.kept[size_t(packet)] = false;
    return llvm::cantFail(makeCandidate(image, selection)).ahead;
  };
  CHECK(!isAhead({}));
  CHECK(isAhead({waited}));
  CHECK(isAhead({fenced})); // The wait goes with it.
  CHECK(isAhead({ordered}));
  CHECK(isAhead({ordered, signalled}));
  CHECK(!isAhead({signalled})); // It hangs, and that is all.
}

TEST_CASE("candidates: a store of an entry that is told of once more is not tried") {
  QueueProgram program;
  minnow_command nop = minnow_fence(QueueProgram::data, 1, 0);
  llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(&nop), sizeof nop);
  uint64_t same = program.store(QueueProgram::base, bytes);
  uint64_t other = program.store(QueueProgram::base + 64, bytes.drop_front(8));
  program.submit(0, nop);
  program.submit(0, nop);
  std::unique_ptr<MemoryTape> tape = program.finish();
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape->copy()));
  TapeImage image = llvm::cantFail(TapeImage::load(*source));
  CHECK(image.restated[size_t(same)]);
  CHECK(!image.restated[size_t(other)]);
}
