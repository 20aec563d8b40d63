// Trim: what is cut out still replays, says where it comes from, and is refused where it could not.
#include "replayer/Trim.h"
#include "replayer/History.h"
#include "tests/replayer/ReplayHarness.h"
#include "tests/support/RunProgram.h"
#include "triggers/OracleSignature.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

std::unique_ptr<TapeSource> openTape(const std::string &path) {
  return llvm::cantFail(TapeSource::open(path));
}

ReplayReport replayFile(const std::string &path, ToyOptions toy = {}, bool fromReset = false) {
  std::unique_ptr<TapeSource> source = openTape(path);
  ScriptedTarget target(std::move(toy));
  Target *pointer = &target;
  ReplayOptions options = quickOptions();
  options.keptDivergences = 1000;
  options.fromReset = fromReset;
  return llvm::cantFail(replayTape(*source, pointer, options));
}

std::string describe(const ReplayReport &report) {
  std::string text = verdictName(report.verdict);
  for (const Divergence &d : report.divergences)
    text += "; " + divergenceText(d);
  return text;
}

struct Trimmed {
  std::optional<TrimReport> report;
  std::optional<Failure> failure;
};
Trimmed trim(const std::string &in, const std::string &out, uint64_t first, uint64_t last,
             TrimOptions::Start start = TrimOptions::Start::Auto) {
  Trimmed result;
  std::unique_ptr<TapeSource> source = openTape(in);
  TrimOptions options;
  options.firstWindow = first;
  options.lastWindow = last;
  options.start = start;
  llvm::Expected<TrimReport> report = trimTape(*source, out, options);
  if (report)
    result.report = std::move(*report);
  else
    result.failure = toFailure(report.takeError());
  return result;
}

} // namespace

TEST_CASE("Every range of a workload that is cut out verifies, replays, and fares as it did in the whole") {
  ScratchDirectory scratch;
  std::mt19937_64 random(11);
  unsigned byKeyframe = 0, byPrefix = 0, differing = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    ToyWorkload work = makeWorkload(seed, 30);
    writeTape(*work.tape, scratch.file("whole.tape"));
    // A device that answers some reads wrongly: grades to compare.
    ToyOptions faulty;
    faulty.faults.wrongOffsets = {toy::scratch, toy::irq};
    faulty.faults.wrongReadXor = 0x40;
    ReplayReport whole = replayFile(scratch.file("whole.tape"), faulty);
    for (int cut = 0; cut < 12; ++cut) {
      uint64_t windows = work.tape->windows.size();
      uint64_t first = random() % windows, last = first + random() % (windows - first);
      auto start = cut % 3 == 2 ? TrimOptions::Start::Prefix : TrimOptions::Start::Auto;
      Trimmed trimmed = trim(scratch.file("whole.tape"), scratch.file("part.tape"), first, last, start);
      INFO("seed ", seed, " w", first, "..w", last, " ",
           (trimmed.failure ? trimmed.failure->message : trimmed.report->how));
      REQUIRE(trimmed.report);
      byKeyframe += trimmed.report->keyframe;
      byPrefix += trimmed.report->prefixPackets > 0;
      llvm::Expected<VerifyReport> verified = verifyTape(scratch.file("part.tape"));
      REQUIRE(bool(verified));
      ReplayReport clean = replayFile(scratch.file("part.tape"));
      INFO(describe(clean));
      CHECK(clean.verdict == Verdict::Match);

      // The same packets of the range differ, in the same way, and no others.
      ReplayReport part = replayFile(scratch.file("part.tape"), faulty);
      uint64_t from = work.tape->windows[first].firstPacket;
      uint64_t end = work.tape->windows[last].firstPacket + work.tape->windows[last].packetCount;
      std::vector<std::pair<uint64_t, uint64_t>> expected, actual;
      // Whether it is called a mismatch or a consequence depends on what came before in the tape.
      for (const Divergence &d : whole.divergences)
        if (d.place.packet >= from && d.place.packet < end && d.kind == "register-read")
          expected.emplace_back(d.place.packet, *d.actual);
      for (const Divergence &d : part.divergences)
        if (!d.prefix && d.kind == "register-read")
          actual.emplace_back(d.place.packet + trimmed.report->firstPacket, *d.actual);
      CHECK(expected == actual);
      differing += !actual.empty();

      std::unique_ptr<TapeSource> source = openTape(scratch.file("part.tape"));
      REQUIRE(source->reader().manifest().parentRoot);
      CHECK(*source->reader().manifest().parentRoot ==
            openTape(scratch.file("whole.tape"))->reader().summary().root);
      CHECK(source->reader().manifest().derivation ==
            "trim w" + std::to_string(first) + "..w" + std::to_string(last));
      CHECK(source->reader().summary().windows == trimmed.report->prefixWindows + last - first + 1);
      Packet packet;
      PacketExtra extra;
      for (uint64_t i = 0; i < source->reader().summary().packets; ++i) {
        llvm::cantFail(source->packetAt(i, packet, extra));
        CHECK(bool(packet.flags & Prefix) == (i < trimmed.report->prefixPackets));
        Packet original = work.tape->packets[i + trimmed.report->firstPacket];
        packet.flags &= ~Prefix;
        CHECK(packet.kind == original.kind);
        CHECK(packet.value == original.value);
        CHECK(packet.address == original.address);
        CHECK(extra.payload == work.tape->extras[i + trimmed.report->firstPacket].payload);
      }
    }
  }
  CHECK(byKeyframe > 20);
  CHECK(byPrefix > 20);
  CHECK(differing > 5);
}

TEST_CASE("A recorded failure inside the range keeps its signature, anchored anew, and reproduces") {
  ScratchDirectory scratch;
  ToyOptions faulty;
  faulty.faults.wrongSquareOf = 77;
  ToyProgram program(faulty);
  program.open();
  program.map(toyMemory, toyMemorySize);
  for (int i = 0; i < 6; ++i) {
    program.marker("step");
    program.store(toyMemory, std::vector<uint8_t>(16, uint8_t(i)));
    program.dma(true, toyMemory, 16 * unsigned(i), 16);
    program.square(i == 4 ? 77 : unsigned(i));
    program.checkEqual("square", program.packets() - 1, i == 4 ? 77 * 77 : unsigned(i * i));
  }
  std::unique_ptr<MemoryTape> tape = program.finish();
  auto source = llvm::cantFail(TapeSource::create(tape->copy()));
  for (uint64_t i = 0; i < tape->packets.size(); ++i) {
    if (!(tape->packets[i].flags & Failed) || tape->packets[i].kind != PacketKind::Oracle)
      continue;
    PacketPlace place;
    place.packet = i;
    llvm::cantFail(completePlace(*source, place));
    tape->theOutcome.kind = Outcome::Kind::Failed;
    tape->theOutcome.packet = i;
    tape->theOutcome.signature = checkSignature(
        tape->packets[i], tape->extras[i], "square", &tape->packets[tape->extras[i].link], "bar0",
        source->description(0), {*place.marker, place.markerOccurrence, *place.command});
  }
  REQUIRE(tape->theOutcome.signature);
  CHECK(tape->theOutcome.signature->markerOccurrence == 5);
  CHECK(tape->theOutcome.signature->command == 2);
  writeTape(*tape, scratch.file("whole.tape"));
  uint64_t failing = llvm::cantFail(tape->windowOfPacket(*tape->theOutcome.packet));
  uint64_t windows = tape->windows.size();

  unsigned inside = 0;
  for (uint64_t first = 0; first < windows; ++first)
    for (uint64_t last : {first, failing, windows - 1}) {
      if (last < first)
        continue;
      Trimmed trimmed = trim(scratch.file("whole.tape"), scratch.file("part.tape"), first, last);
      INFO("w", first, "..w", last, " ", (trimmed.failure ? trimmed.failure->message : trimmed.report->how));
      REQUIRE(trimmed.report);
      bool expected = failing >= first && failing <= last;
      CHECK(trimmed.report->failureInside == expected);
      std::unique_ptr<TapeSource> part = openTape(scratch.file("part.tape"));
      const Outcome &outcome = part->reader().outcome();
      CHECK((outcome.kind == Outcome::Kind::Failed) == expected);
      CHECK(bool(outcome.signature) == expected);
      if (!expected)
        continue;
      ++inside;
      CHECK(*outcome.packet == *tape->theOutcome.packet - trimmed.report->firstPacket);
      ReplayReport again = replayFile(scratch.file("part.tape"), faulty);
      INFO(describe(again));
      CHECK(again.verdict == Verdict::Match);
      CHECK(again.reproduced == true);
      CHECK(again.signatureMatch == SignatureMatch::Exact);
      // Without the fault the input differs and the check holds.
      CHECK(replayFile(scratch.file("part.tape")).reproduced == false);
    }
  CHECK(inside > 10);
}

TEST_CASE("The internal state at the cut is restored: what was moved in before it is read back behind it") {
  ScratchDirectory scratch;
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.write(toy::scratch, 0x1234);
  std::vector<uint8_t> content{9, 8, 7, 6, 5};
  program.store(toyMemory, content);
  program.dma(true, toyMemory, 100, 5);
  uint64_t cut = program.openWindow() + 1;
  program.marker("behind");
  program.dma(false, toyMemory + 0x100, 98, 9);
  program.read(toy::scratch);
  writeTape(*program.finish(), scratch.file("whole.tape"));
  Trimmed trimmed =
      trim(scratch.file("whole.tape"), scratch.file("part.tape"), cut, cut, TrimOptions::Start::Keyframe);
  REQUIRE(trimmed.report);
  CHECK(trimmed.report->keyframe);
  CHECK(trimmed.report->prefixPackets == 0);
  ReplayReport replayed = replayFile(scratch.file("part.tape"));
  INFO(describe(replayed));
  CHECK(replayed.verdict == Verdict::Match);
  ToyOptions broken;
  broken.faults.corruptDma = 0; // The first transfer to memory above scratch: the one behind the cut.
  CHECK(replayFile(scratch.file("part.tape"), broken).verdict == Verdict::Divergence);
}

TEST_CASE("What the recipe does not restore keeps a range from beginning with a keyframe") {
  ScratchDirectory scratch;
  ToyProgram program;
  program.open();
  program.marker("before");
  program.square(12); // Leaves 144 in SQUARE, which no step of the recipe restores.
  program.marker("behind");
  program.read(toy::square);
  writeTape(*program.finish(), scratch.file("whole.tape"));
  std::unique_ptr<TapeSource> source = openTape(scratch.file("whole.tape"));
  uint64_t last = source->reader().summary().windows - 1;
  Trimmed refused =
      trim(scratch.file("whole.tape"), scratch.file("part.tape"), last, last, TrimOptions::Start::Keyframe);
  REQUIRE(refused.failure);
  CHECK(refused.failure->code == "not-trimmable");
  CHECK(refused.failure->message.find("SQUARE") != std::string::npos);
  CHECK(scratch.names() == std::vector<std::string>{"whole.tape"}); // Nothing half-written.
  Trimmed prefixed = trim(scratch.file("whole.tape"), scratch.file("part.tape"), last, last);
  REQUIRE(prefixed.report);
  CHECK(prefixed.report->prefixPackets > 0);
  CHECK(!prefixed.report->notes.empty());
  CHECK(replayFile(scratch.file("part.tape")).verdict == Verdict::Match);
}

TEST_CASE("What the device did by itself before the cut keeps a range from beginning with a keyframe") {
  ScratchDirectory scratch;
  for (uint64_t value : {0, 0x100})
    for (bool acknowledged : {false, true}) {
      ToyProgram program;
      program.open();
      program.write(toy::scratch, 1);
      uint64_t cut = program.openWindow() + 1;
      program.marker("cut");
      if (acknowledged)
        program.write(toy::irqAck, 1); // May have had any effect.
      Packet read;
      read.kind = PacketKind::RegisterRead;
      read.space = 1;
      read.address = toy::irq;
      read.width = 4;
      read.value = value;
      program.raw(read);
      writeTape(*program.finish(), scratch.file("whole.tape"));
      Trimmed trimmed =
          trim(scratch.file("whole.tape"), scratch.file("part.tape"), cut, cut, TrimOptions::Start::Keyframe);
      CAPTURE(value);
      CAPTURE(acknowledged);
      CHECK(bool(trimmed.report) == (value == 0 || acknowledged));
      if (!trimmed.report)
        CHECK_MESSAGE(trimmed.failure->message.find("IRQ") != std::string::npos, trimmed.failure->message);
    }
}

TEST_CASE("A cut behind lost packets is refused with the reason, one before them is not") {
  ScratchDirectory scratch;
  ToyProgram program;
  program.open();
  program.marker("before");
  program.write(toy::scratch, 1);
  program.loss(5);
  program.marker("behind");
  program.read(toy::scratch);
  writeTape(*program.finish(), scratch.file("whole.tape"));
  uint64_t last = openTape(scratch.file("whole.tape"))->reader().summary().windows - 1;
  Trimmed refused = trim(scratch.file("whole.tape"), scratch.file("part.tape"), last, last);
  INFO((refused.failure ? refused.failure->message : refused.report->how));
  REQUIRE(refused.failure);
  CHECK(refused.failure->cls == FailureClass::Usage);
  CHECK(refused.failure->code == "not-trimmable");
  CHECK(refused.failure->message.find("lost") != std::string::npos);
  CHECK(trim(scratch.file("whole.tape"), scratch.file("part.tape"), 0, 1).report);
}

TEST_CASE("Ranges that are not there are refused") {
  ScratchDirectory scratch;
  ToyWorkload work = makeWorkload(1, 3);
  writeTape(*work.tape, scratch.file("whole.tape"));
  uint64_t windows = work.tape->windows.size();
  for (auto [first, last] :
       {std::pair<uint64_t, uint64_t>(2, 1), std::pair<uint64_t, uint64_t>(0, windows),
        std::pair<uint64_t, uint64_t>(windows, windows), std::pair<uint64_t, uint64_t>(0, ~0ull)}) {
    Trimmed refused = trim(scratch.file("whole.tape"), scratch.file("part.tape"), first, last);
    REQUIRE(refused.failure);
    CHECK(refused.failure->code == "bad-range");
  }
}

TEST_CASE("A trimmed tape can be trimmed again") {
  ScratchDirectory scratch;
  ToyWorkload work = makeWorkload(8, 40);
  writeTape(*work.tape, scratch.file("0.tape"));
  uint64_t windows = work.tape->windows.size();
  REQUIRE(trim(scratch.file("0.tape"), scratch.file("1.tape"), windows / 4, windows - 1).report);
  uint64_t left = openTape(scratch.file("1.tape"))->reader().summary().windows;
  Trimmed again = trim(scratch.file("1.tape"), scratch.file("2.tape"), left / 2, left - 2);
  INFO((again.failure ? again.failure->message : again.report->how));
  REQUIRE(again.report);
  ReplayReport replayed = replayFile(scratch.file("2.tape"));
  INFO(describe(replayed));
  CHECK(replayed.verdict == Verdict::Match);
}

TEST_CASE("A tape that begins in the middle: with a keyframe it is restored, without one refused") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.write(toy::scratch, 0x77);
  program.store(toyMemory, std::vector<uint8_t>{1, 2, 3});
  program.dma(true, toyMemory, 7, 3);
  uint64_t cut = program.packets();
  program.read(toy::scratch);
  program.dma(false, toyMemory + 64, 7, 3);
  std::unique_ptr<MemoryTape> whole = program.finish();
  auto source = llvm::cantFail(TapeSource::create(whole->copy()));
  auto history = llvm::cantFail(History::before(*source, 0, cut, true));
  // As the recorder writes it: a keyframe, the loss of what came before, the rest.
  auto late = std::make_unique<MemoryTape>();
  late->theDevices = whole->theDevices;
  late->theSpaces = whole->theSpaces;
  late->blobs = whole->blobs;
  Keyframe keyframe = llvm::cantFail(history->state().keyframe(
      [&](llvm::ArrayRef<uint8_t> content) -> llvm::Expected<BlobId> { return late->store(content); }));
  REQUIRE(keyframe.restorable);
  late->keyframes.push_back(keyframe);
  Packet loss;
  loss.kind = PacketKind::Loss;
  loss.address = uint64_t(LossCause::NotRecording);
  loss.value = cut;
  late->add(loss);
  for (uint64_t i = cut; i < whole->packets.size(); ++i) {
    PacketExtra extra = whole->extras[i];
    if (linksToPacket(whole->packets[i].kind) && extra.link != noLink)
      extra.link = extra.link - cut + 1;
    late->add(whole->packets[i], extra);
  }
  late->endWindow(true);
  Replayed restored = replay(*late);
  INFO(test::summary(restored));
  REQUIRE(restored.report);
  CHECK(restored->verdict == Verdict::Match);
  CHECK(restored->lossesCrossed == 0);

  // What is restored is what the keyframe says, not luck.
  std::unique_ptr<MemoryTape> other = late->copy();
  for (KeyframeRegister &reg : other->keyframes[0].registers)
    if (reg.address == toy::scratch)
      reg.value = 0x78;
  CHECK(replay(*other).firstRule() == Rule::ValueDiffers);
  other = late->copy();
  for (KeyframeExtent &extent : other->keyframes[0].internal)
    extent.content = other->store(std::vector<uint8_t>(extent.length, 0x11));
  CHECK(replay(*other).firstRule() == Rule::ContentDiffers);

  for (bool withKeyframe : {true, false}) {
    std::unique_ptr<MemoryTape> bad = late->copy();
    if (withKeyframe) {
      bad->keyframes[0].restorable = false;
      bad->keyframes[0].reason = "the moon was full";
    } else {
      bad->keyframes.clear();
    }
    Replayed refused = replay(*bad);
    REQUIRE(refused.failure);
    CHECK(refused.failure->code == "not-restorable");
    CHECK(refused.target->accesses == 0);
    if (withKeyframe)
      CHECK(refused.failure->message.find("moon") != std::string::npos);
    ReplayOptions options = quickOptions();
    options.fromReset = true;
    Replayed forced = replay(*bad, {}, options);
    REQUIRE(forced.report);
    CHECK(forced->stateUnknown);
    CHECK(forced->verdict == Verdict::Error); // Its memory is not mapped.
    CHECK(forced->grades.of(Rule::AfterLoss) > 0);
  }
}
