// The program's checks, redone: what they say in a replay, and whether a recorded failure reproduces.
#include "tests/replayer/ReplayHarness.h"
#include "triggers/OracleSignature.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// Makes the tape's outcome the first failed check, as the recorder does.
void recordOutcome(MemoryTape &tape) {
  auto source = llvm::cantFail(TapeSource::create(tape.copy()));
  for (uint64_t i = 0; i < tape.packets.size(); ++i) {
    const Packet &packet = tape.packets[i];
    if (packet.kind != PacketKind::Oracle || !(packet.flags & Failed))
      continue;
    PacketPlace place;
    place.device = packet.device;
    place.packet = i;
    llvm::cantFail(completePlace(*source, place));
    const PacketExtra &extra = tape.extras[i];
    const Packet *origin = extra.link == noLink ? nullptr : &tape.packets[extra.link];
    tape.theOutcome.kind = Outcome::Kind::Failed;
    tape.theOutcome.packet = i;
    tape.theOutcome.signature =
        checkSignature(packet, extra, llvm::cantFail(source->name(extra.payload)), origin,
                       origin ? source->spaceName(origin->space) : "", source->description(packet.device),
                       {place.marker.value_or(""), place.markerOccurrence, place.command.value_or(0)});
    return;
  }
}

} // namespace

TEST_CASE("A value check is redone with the value of this run") {
  ToyProgram program;
  program.open();
  program.marker("m");
  program.square(7);
  uint64_t check = program.checkEqual("forty-nine", program.packets() - 1, 49);
  std::unique_ptr<MemoryTape> tape = program.finish();
  CHECK(replay(*tape)->verdict == Verdict::Match);
  ToyOptions options;
  options.faults.wrongSquareOf = 7;
  Replayed replayed = replay(*tape, options);
  INFO(summary(replayed));
  CHECK(replayed->grades.of(Rule::ValueDiffers) == 1);
  CHECK(replayed->grades.of(Rule::InputDiverged) == 1);
  CHECK(replayed->divergences[1].place.packet == check);
  REQUIRE(replayed->signature);
  CHECK(replayed->signature->name == "forty-nine");
  CHECK(replayed->signature->object == "SQUARE");
  CHECK(replayed->signature->xorClass == 3); // 49 ^ 50
  CHECK(replayed->signature->marker == "m");
  CHECK(replayed->signature->command == 1);
}

TEST_CASE("A check whose input is tolerated is still redone") {
  ToyProgram program;
  program.open();
  uint64_t read = program.read(toy::noise);
  program.checkEqual("noise", read, program.tape().packets[read].value);
  std::unique_ptr<MemoryTape> tape = program.finish();
  ToyOptions options;
  options.faults.skew = 5;
  Replayed replayed = replay(*tape, options);
  INFO(summary(replayed));
  CHECK(replayed->verdict == Verdict::Divergence);
  CHECK(replayed.firstRule() == Rule::OracleDiffers);
}

TEST_CASE("A recorded failure reproduces on the same fault, and not without it") {
  ToyOptions faulty;
  faulty.faults.wrongSquareOf = 7;
  ToyProgram program(faulty);
  program.open();
  program.marker("m");
  program.square(7);
  program.checkEqual("forty-nine", program.packets() - 1, 49);
  std::unique_ptr<MemoryTape> tape = program.finish();
  recordOutcome(*tape);
  Replayed same = replay(*tape, faulty);
  INFO(summary(same));
  CHECK(same->verdict == Verdict::Match);
  CHECK(same->reproduced == true);
  CHECK(same->signatureMatch == SignatureMatch::Exact);
  CHECK(exitCodeFor(*same, Expectation::Signature) == 0);
  Replayed fixed = replay(*tape);
  INFO(summary(fixed));
  CHECK(fixed->verdict == Verdict::Divergence);
  CHECK(fixed->reproduced == false);
  CHECK(!fixed->signature);
  CHECK(exitCodeFor(*fixed, Expectation::Signature) == 1);
}

TEST_CASE("A memory check is redone: same failure, another one, none, and what cannot be told") {
  std::vector<uint8_t> expected{1, 2, 3, 4, 5, 6, 7, 8};
  auto record = [&](ToyOptions options) {
    ToyProgram program(options);
    program.open();
    program.map(toyMemory, toyMemorySize);
    program.store(toyMemory, expected);
    program.dma(true, toyMemory, 0, 8);
    program.dma(false, toyMemory + 64, 0, 8);
    program.checkMemory("copy", toyMemory + 64, expected);
    std::unique_ptr<MemoryTape> tape = program.finish();
    recordOutcome(*tape);
    return tape;
  };
  ToyOptions at5, at2;
  at5.faults.corruptDma = at2.faults.corruptDma = 1;
  at5.faults.corruptOffset = 5;
  at2.faults.corruptOffset = 2;
  std::unique_ptr<MemoryTape> failed = record(at5), passed = record({});

  Replayed same = replay(*failed, at5);
  CHECK(same->verdict == Verdict::Match);
  CHECK(same->reproduced == true);
  CHECK(same->signatureMatch == SignatureMatch::Exact);

  Replayed earlier = replay(*failed, at2);
  INFO(summary(earlier));
  REQUIRE(earlier->signature);
  CHECK(earlier->signature->offset == 2);
  CHECK(earlier->signatureMatch < SignatureMatch::Exact);

  // Byte 5 is right now. What the check expected behind it nobody knows: neither reproduced nor not.
  Replayed fixed = replay(*failed);
  INFO(summary(fixed));
  CHECK(fixed->grades.of(Rule::OracleUnknown) == 1);
  CHECK(!fixed->reproduced);
  CHECK(exitCodeFor(*fixed, Expectation::Signature) == 5);

  Replayed broken = replay(*passed, at5);
  REQUIRE(broken->signature);
  CHECK(broken->signature->offset == 5);
  CHECK(broken->signature->xorClass == 0xff);
  CHECK(!broken->reproduced);
}

TEST_CASE("With what the check wanted on the tape, a memory check that failed is redone whole") {
  std::vector<uint8_t> expected{1, 2, 3, 4, 5, 6, 7, 8};
  ToyOptions at5, at6;
  at5.faults.corruptDma = at6.faults.corruptDma = 1;
  at5.faults.corruptOffset = 5;
  at6.faults.corruptOffset = 6;
  ToyProgram program(at5);
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.store(toyMemory, expected);
  program.dma(true, toyMemory, 0, 8);
  program.dma(false, toyMemory + 64, 0, 8);
  // As the recorder writes it: what was wanted directly before the check.
  uint64_t check = program.checkMemory("copy", toyMemory + 64, expected);
  std::unique_ptr<MemoryTape> tape = program.finish();
  Packet wants = tape->packets[check];
  wants.kind = PacketKind::Expectation;
  wants.flags = 0;
  PacketExtra extra;
  extra.length = 8;
  extra.payload = tape->store(expected);
  tape->packets.insert(tape->packets.begin() + check, wants);
  tape->extras.insert(tape->extras.begin() + check, extra);
  tape->windows.clear();
  tape->endWindow(true);
  recordOutcome(*tape);
  Replayed same = replay(*tape, at5);
  INFO(summary(same));
  CHECK(same->verdict == Verdict::Match);
  CHECK(same->reproduced == true);
  CHECK(same->grades.of(Rule::Evidence) == 4);
  Replayed fixed = replay(*tape);
  INFO(summary(fixed));
  CHECK(fixed->verdict == Verdict::Divergence);
  CHECK(fixed->reproduced == false);
  CHECK(exitCodeFor(*fixed, Expectation::Signature) == 1);
  Replayed later = replay(*tape, at6);
  INFO(summary(later));
  REQUIRE(later->signature);
  CHECK(later->signature->offset == 6);
  // One for other memory is none.
  tape->packets[check].address += 8;
  CHECK(replay(*tape)->grades.of(Rule::OracleUnknown) == 1);
}

TEST_CASE("A check that only the program can make keeps its outcome, unless something differed before") {
  ToyProgram program;
  program.open();
  program.read(toy::scratch);
  program.check("whatever", false);
  std::unique_ptr<MemoryTape> tape = program.finish();
  recordOutcome(*tape);
  Replayed same = replay(*tape);
  CHECK(same->verdict == Verdict::Match);
  CHECK(same->reproduced == true);
  ToyOptions options;
  options.faults.wrongOffsets = {toy::scratch};
  Replayed differs = replay(*tape, options);
  INFO(summary(differs));
  CHECK(differs->grades.of(Rule::OracleUnknown) == 1);
  CHECK(!differs->reproduced);
}

TEST_CASE("A check whose input cannot be found is not captured") {
  ToyProgram program;
  program.open();
  uint64_t read = program.read(toy::scratch);
  uint64_t check = program.checkEqual("zero", read, 0);
  std::unique_ptr<MemoryTape> tape = program.finish();
  for (uint64_t link : {check, check + 1, uint64_t(1) << 60, ~uint64_t(0) - 1, uint64_t(0)}) {
    tape->extras[check].link = link;
    Replayed replayed = replay(*tape);
    INFO(link, " ", summary(replayed));
    CHECK(replayed->verdict == Verdict::Incomplete);
    CHECK(replayed->grades.of(Rule::LinkLost) == 1);
  }
}

TEST_CASE("A target's failure that is the tape's signature is what was asked for") {
  ToyProgram program;
  program.open();
  uint64_t read = program.read(toy::scratch);
  std::unique_ptr<MemoryTape> tape = program.finish();
  tape->packets[read].completion = Completion::Failed;
  auto source = llvm::cantFail(TapeSource::create(tape->copy()));
  tape->theOutcome.kind = Outcome::Kind::Failed;
  tape->theOutcome.packet = read;
  tape->theOutcome.signature = targetErrorSignature(tape->packets[read], "bar0", source->description(0), {});
  ToyOptions dies;
  dies.faults.dieAt = 3;
  Replayed same = replay(*tape, dies);
  INFO(summary(same));
  CHECK(same->reproduced == true);
  CHECK(exitCodeFor(*same, Expectation::Signature) == 0);
  CHECK(exitCodeFor(*same, Expectation::Match) == 0);
  Replayed lives = replay(*tape);
  CHECK(lives->reproduced == false);
  CHECK(exitCodeFor(*lives, Expectation::Signature) == 1);
  // Dying elsewhere is another failure.
  dies.faults.dieAt = 2;
  CHECK(replay(*tape, dies).failure);
}

TEST_CASE("The death of the program says nothing about the device") {
  ToyProgram program;
  program.open();
  program.read(toy::scratch);
  std::unique_ptr<MemoryTape> tape = program.finish();
  tape->theOutcome.kind = Outcome::Kind::Failed;
  tape->theOutcome.signature = diedSignature(9, 0, {});
  Replayed replayed = replay(*tape);
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(!replayed->reproduced);
  CHECK(exitCodeFor(*replayed, Expectation::Signature) == 5);
}
