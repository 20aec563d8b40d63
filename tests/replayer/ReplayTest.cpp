// Replay as a whole: clean runs match, and every fault that a device can have shows as the right grade at the
// right packet.
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

ToyOptions withFaults(ToyFaults faults) {
  ToyOptions options;
  options.faults = std::move(faults);
  return options;
}

} // namespace

TEST_CASE("A recorded workload replays as a match on a device of its kind") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ToyWorkload work = makeWorkload(seed, 40);
    ToyOptions other;
    other.faults.skew = 12345; // Volatile registers differ.
    Replayed replayed = replay(*work.tape, other);
    INFO(summary(replayed));
    REQUIRE(replayed.report);
    CHECK(replayed->verdict == Verdict::Match);
    CHECK(replayed->packets == work.tape->packets.size());
    CHECK(replayed->packetsReplayed == replayed->packets);
    CHECK(replayed->grades.total() == replayed->packets);
    CHECK(replayed->windows == work.tape->windows.size());
    CHECK(replayed->recordedDigest == replayed->replayedDigest);
    CHECK(replayed->grades.of(Grade::NotCaptured) == 0);
    CHECK(!replayed->signature);
    CHECK(!replayed->reproduced);
    CHECK(replayed->fingerprintsCompared == 3);
    CHECK(replayed->fingerprint.empty());
  }
}

TEST_CASE("The grades do not depend on how the tape is cut into blocks and batches") {
  ToyWorkload work = makeWorkload(5, 60);
  std::optional<Digest> digest;
  for (size_t block : {1, 2, 7, 61, 100000})
    for (size_t batch : {1, 3, 256}) {
      work.tape->blockPackets = block;
      ReplayOptions options = quickOptions();
      options.player.maxBatch = batch;
      ToyFaults faults;
      faults.wrongSquareOf = 0xffff; // None.
      Replayed replayed = replay(*work.tape, withFaults(faults), options);
      INFO(block, " ", batch, " ", summary(replayed));
      REQUIRE(replayed.report);
      CHECK(replayed->verdict == Verdict::Match);
      if (!digest)
        digest = replayed->replayedDigest;
      CHECK(replayed->replayedDigest == *digest);
    }
}

TEST_CASE("A corrupted transfer from the device is a mismatch at its completion, to the byte") {
  ToyWorkload work = makeWorkload(3, 60);
  unsigned tried = 0;
  for (size_t i = 0; i < work.dmas.size(); ++i) {
    if (work.dmaToDevice[i])
      continue;
    ++tried;
    ToyFaults faults;
    faults.corruptDma = i;
    faults.corruptOffset = work.dmaShape[i].second - 1;
    faults.corruptXor = 0x21;
    Replayed replayed = replay(*work.tape, withFaults(faults));
    INFO(summary(replayed));
    REQUIRE(replayed.report);
    CHECK(replayed->verdict == Verdict::Divergence);
    REQUIRE(replayed->firstDivergence);
    const Divergence &first = *replayed->firstDivergence;
    CHECK(first.rule == Rule::ContentDiffers);
    CHECK(first.place.packet == work.dmas[i].completion);
    CHECK(first.kind == "dma-completion");
    CHECK(first.space == "memory");
    CHECK(first.offset == faults.corruptOffset);
    CHECK((*first.expected ^ *first.actual) == 0x21);
    CHECK(replayed->recordedDigest != replayed->replayedDigest);
    CHECK(exitCodeFor(*replayed, Expectation::Match) == 1);
    CHECK(exitCodeFor(*replayed, Expectation::Divergence) == 0);
  }
  CHECK(tried >= 5);
}

TEST_CASE(
    "A corrupted transfer to the device shows where it is read back, and the check fails as a consequence") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.marker("fill");
  std::vector<uint8_t> content{1, 2, 3, 4, 5, 6, 7, 8};
  program.store(toyMemory, content);
  program.dma(true, toyMemory, 16, 8);
  program.marker("read");
  ToyProgram::Dma back = program.dma(false, toyMemory + 0x100, 16, 8);
  uint64_t check = program.checkMemory("same", toyMemory + 0x100, content);
  ToyFaults faults;
  faults.corruptDma = 0;
  faults.corruptOffset = 3;
  Replayed replayed = replay(*program.finish(), withFaults(faults));
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  REQUIRE(replayed->divergences.size() == 3);
  CHECK(replayed->firstDivergence->place.packet == back.completion);
  CHECK(replayed->firstDivergence->offset == 3);
  CHECK(replayed->firstDivergence->place.marker == "read");
  CHECK(replayed->firstDivergence->place.markerOccurrence == 1);
  CHECK(replayed->firstDivergence->place.command == 1);
  CHECK(replayed->divergences[2].place.packet == check);
  CHECK(replayed->divergences[2].rule == Rule::InputDiverged);
  REQUIRE(replayed->signature);
  CHECK(replayed->signature->oracle == "check");
  CHECK(replayed->signature->name == "same");
  CHECK(replayed->signature->offset == 3);
  CHECK(replayed->signature->xorClass == 0xff);
  CHECK(!replayed->reproduced); // The tape records no failure.
}

TEST_CASE("A wrong register value is a mismatch with register, field and both values") {
  ToyProgram program;
  program.open();
  program.write(toy::status, 0x80);
  uint64_t read = program.read(toy::status);
  ToyFaults faults;
  faults.wrongOffsets = {toy::status};
  faults.wrongReadXor = 0x80;
  Replayed replayed = replay(*program.finish(), withFaults(faults));
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  REQUIRE(replayed->firstDivergence);
  const Divergence &first = *replayed->firstDivergence;
  CHECK(first.place.packet == read);
  CHECK(first.rule == Rule::ValueDiffers);
  CHECK(first.space == "bar0");
  CHECK(first.address == toy::status);
  CHECK(first.reg == "STATUS");
  CHECK(first.field == "IRQ_ON_SQUARE");
  CHECK(first.offset == 0);
  CHECK(first.expected == 0x80);
  CHECK(first.actual == 0);
}

TEST_CASE("A transfer that never ends is a timeout; what differs behind it is consequential") {
  ToyWorkload work = makeWorkload(9, 30);
  ToyFaults faults;
  faults.hangDma = 2;
  Replayed replayed = replay(*work.tape, withFaults(faults));
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Divergence);
  CHECK(replayed->firstDivergence->place.packet == work.dmas[2].poll);
  CHECK(replayed->firstDivergence->rule == Rule::ConditionNotMet);
  CHECK(replayed->firstDivergence->grade == Grade::Timeout);
  CHECK(replayed->grades.of(Grade::Timeout) == 1);
  CHECK(replayed->grades.of(Rule::AfterBranch) > 0);
  CHECK(replayed->grades.of(Rule::ValueDiffers) == 0);
  // Every later transfer would time out as well: the replay gives up before it has waited for all of them.
  CHECK(!replayed->stopped.empty());
  CHECK(replayed->packetsReplayed < replayed->packets);
  CHECK(replayed->grades.of(Rule::NotReached) == replayed->packets - replayed->packetsReplayed);
}

TEST_CASE("An interrupt that does not come is a timeout, and it is said when its cause shows") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.dma(true, toyMemory, 0, 8, true);
  uint64_t wait = program.waitInterrupt();
  std::unique_ptr<MemoryTape> tape = program.finish();
  ToyFaults faults;
  faults.noInterrupts = true;
  Replayed replayed = replay(*tape, withFaults(faults));
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->firstDivergence->place.packet == wait);
  CHECK(replayed.firstRule() == Rule::CauseWithoutInterrupt);
  // The cause register answers zero: then it is just missing.
  faults.wrongOffsets = {toy::irq};
  faults.wrongReadXor = 0x100;
  tape->packets[wait - 0].address = 0;
  Replayed missing = replay(*tape, withFaults(faults));
  INFO(summary(missing));
  CHECK(missing.firstRule() == Rule::InterruptMissing);
}

TEST_CASE("A target without interrupts waits for the cause instead, and says so") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.dma(true, toyMemory, 0, 8, true);
  program.waitInterrupt();
  ToyOptions options;
  options.capabilities.interrupts = false;
  std::unique_ptr<MemoryTape> tape = program.finish();
  Replayed replayed = replay(*tape, options);
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->grades.of(Rule::InterruptCause) == 1);
  options.faults.hangDma = 0;
  Replayed never = replay(*tape, options);
  INFO(summary(never));
  CHECK(never->grades.of(Grade::Timeout) >= 1);
}

TEST_CASE("Data that arrives after its completion is an order violation") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  std::vector<uint8_t> content(32, 0x77);
  program.store(toyMemory, content);
  program.dma(true, toyMemory, 0, 32);
  ToyProgram::Dma back = program.dma(false, toyMemory + 0x200, 0, 32);
  ToyFaults faults;
  faults.lateDataOfDma = 1;
  std::unique_ptr<MemoryTape> tape = program.finish();
  Replayed replayed = replay(*tape, withFaults(faults));
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->firstDivergence->place.packet == back.completion);
  CHECK(replayed.firstRule() == Rule::CompletionBeforeData);
  CHECK(replayed->grades.of(Grade::OrderViolation) == 1);
  CHECK(replayed->verdict == Verdict::Divergence);
}

TEST_CASE("The poison is recognised where nothing was written") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  // As an imported tape would have it: memory that was mapped but not written before it is read.
  std::unique_ptr<MemoryTape> tape = program.finish();
  for (size_t i = 0; i < tape->packets.size(); ++i)
    if (tape->packets[i].kind == PacketKind::MemoryWrite)
      tape->packets[i].kind = PacketKind::Tick;
  Packet acquire;
  acquire.kind = PacketKind::Acquire;
  acquire.address = toyMemory;
  PacketExtra extra;
  extra.length = 4;
  extra.payload = tape->store(std::vector<uint8_t>{1, 2, 3, 4});
  tape->add(acquire, extra);
  tape->endWindow(true);
  ReplayOptions options = quickOptions();
  options.player.binding.poison = 0x3c;
  Replayed replayed = replay(*tape, {}, options);
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  REQUIRE(replayed->firstDivergence);
  CHECK(replayed->firstDivergence->poisoned);
  CHECK(replayed->firstDivergence->actual == 0x3c);
}

TEST_CASE("A target that dies stops the replay, and the packet is named") {
  ToyWorkload work = makeWorkload(4, 40);
  for (uint64_t access : {0, 3, 50, 200}) {
    ToyFaults faults;
    faults.dieAt = access;
    Replayed replayed = replay(*work.tape, withFaults(faults));
    INFO(access, " ", summary(replayed));
    if (access < 3) { // While the target is brought to the start (the fingerprint is three reads).
      REQUIRE(replayed.failure);
      CHECK(replayed.failure->cls == FailureClass::Target);
      continue;
    }
    REQUIRE(replayed.report);
    CHECK(replayed->verdict == Verdict::Error);
    REQUIRE(replayed->targetFailure);
    CHECK(replayed->targetFailure->code == "target-died");
    CHECK(replayed->targetFailure->where.find("packet " +
                                              std::to_string(replayed->firstDivergence->place.packet)) == 0);
    CHECK(replayed->firstDivergence->grade == Grade::TargetError);
    CHECK(replayed->packetsReplayed == replayed->firstDivergence->place.packet + 1);
    CHECK(exitCodeFor(*replayed, Expectation::Match) == 4);
    CHECK(exitCodeFor(*replayed, Expectation::Divergence) == 4);
  }
}

TEST_CASE("A refused access is a target error at its packet; the rest is still replayed") {
  ToyWorkload work = makeWorkload(4, 40);
  ToyFaults faults;
  faults.busErrorAt = 60;
  Replayed replayed = replay(*work.tape, withFaults(faults));
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Error);
  CHECK(replayed->grades.of(Grade::TargetError) == 1);
  CHECK(replayed->packetsReplayed == replayed->packets);
}

TEST_CASE("--on-divergence stop issues nothing after the first packet that differs") {
  ToyProgram program;
  program.open();
  program.write(toy::scratch, 5);
  uint64_t read = program.read(toy::scratch);
  program.write(toy::scratch, 6);
  program.write(toy::scratch, 7);
  std::unique_ptr<MemoryTape> tape = program.finish();
  ToyFaults faults;
  faults.wrongOffsets = {toy::scratch};
  ReplayOptions options = quickOptions();
  options.stopAtDivergence = true;
  Replayed replayed = replay(*tape, withFaults(faults), options);
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->packetsReplayed == read + 1);
  CHECK(replayed.target->writesTo[toy::scratch] == 1);
  options.stopAtDivergence = false;
  CHECK(replay(*tape, withFaults(faults), options).target->writesTo[toy::scratch] == 3);
}

TEST_CASE("A range ends the replay without a verdict on the rest") {
  ToyWorkload work = makeWorkload(4, 40);
  ToyFaults faults;
  faults.hangDma = 4;
  ReplayOptions options = quickOptions();
  options.endPacket = work.dmas[4].doorbell;
  Replayed replayed = replay(*work.tape, withFaults(faults), options);
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->packets == work.dmas[4].doorbell);
}

TEST_CASE("A target without answers is never a match") {
  ToyWorkload work = makeWorkload(4, 10);
  ToyOptions options;
  options.capabilities.answers = false;
  Replayed replayed = replay(*work.tape, options);
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Incomplete);
  CHECK(replayed->grades.of(Grade::NotCaptured) == replayed->packets);
  CHECK(exitCodeFor(*replayed, Expectation::Match) == 5);
  CHECK(exitCodeFor(*replayed, Expectation::Divergence) == 5);
  CHECK(!replayed->reproduced);
}

TEST_CASE("A target without the tape's register space is refused, and told what there is") {
  ToyWorkload work = makeWorkload(4, 3);
  ToyOptions options;
  options.space = "bar7";
  Replayed replayed = replay(*work.tape, options);
  REQUIRE(replayed.failure);
  CHECK(replayed.failure->cls == FailureClass::Usage);
  CHECK(replayed.failure->code == "missing-space");
  CHECK(replayed.failure->message.find("bar0") != std::string::npos);
  CHECK(replayed.failure->hint.find("bar7") != std::string::npos);
}

TEST_CASE("What target and tape say of themselves is compared and reported, not refused") {
  ToyWorkload work = makeWorkload(4, 3);
  ToyOptions options;
  options.facts = {{"vendor", "0x1111"}, {"serial", "7"}}; // The tape states no serial: no contradiction.
  Replayed replayed = replay(*work.tape, options);
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Match);
  REQUIRE(replayed->identity.size() == 1);
  REQUIRE(replayed->identity[0].size() == 1);
  CHECK(replayed->identity[0][0].key == "vendor");
  CHECK(replayed->identity[0][0].recorded == "0x70f0");
  CHECK(replayed->identity[0][0].replayed == "0x1111");
}

TEST_CASE("A reset that succeeds and leaves state behind is reported") {
  ToyProgram program;
  program.open();
  program.read(toy::id);
  std::unique_ptr<MemoryTape> tape = program.finish();
  llvm::Expected<std::unique_ptr<TapeSource>> source = TapeSource::create(tape->copy());
  REQUIRE(bool(source));
  ToyOptions options;
  options.faults.resetKeepsState = true;
  ScriptedTarget target(options);
  llvm::cantFail(target.write(0, toy::scratch, 4, 0xdead));
  Target *pointer = &target;
  llvm::Expected<ReplayReport> report = replayTape(**source, pointer, quickOptions());
  REQUIRE(bool(report));
  CHECK(report->verdict == Verdict::Match); // Nothing that the program saw differs …
  REQUIRE(report->fingerprint.size() == 1); // … but the device was not what a reset makes it.
  CHECK(report->fingerprint[0].reg == "SCRATCH");
  CHECK(report->fingerprint[0].expected == 0);
  CHECK(report->fingerprint[0].actual == 0xdead);
  CHECK(report->fingerprint[0].fromTape);
}

TEST_CASE("Memory that cannot be placed where it was is a target error with the address") {
  ToyProgram program;
  program.open();
  uint64_t map = program.map(toyMemory, toyMemorySize);
  ToyOptions options;
  options.capabilities.chooseIova = false;
  ReplayOptions stay = quickOptions();
  stay.player.binding.layout.kind = MemoryLayout::Kind::Never;
  Replayed replayed = replay(*program.finish(), options, stay);
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Error);
  CHECK(replayed->firstDivergence->place.packet == map);
  CHECK(replayed->targetFailure->code == "iova-unavailable");
}

TEST_CASE("A device that is opened again has lost its memory, closed or not") {
  for (bool closed : {true, false}) {
    ToyProgram program;
    for (uint8_t run : {1, 2, 3}) {
      program.open();
      program.map(toyMemory, toyMemorySize);
      program.map(toyMemory + 0x10000, toyMemorySize);
      program.store(toyMemory, std::vector<uint8_t>(64, run));
      program.dma(true, toyMemory, 0, 64);
      program.dma(false, toyMemory + 0x10000, 0, 64);
      program.square(run);
      REQUIRE(!program.target().unmap(toyMemory));
      REQUIRE(!program.target().unmap(toyMemory + 0x10000));
      if (closed) {
        Packet close;
        close.kind = PacketKind::Close;
        program.raw(close);
      }
    }
    std::unique_ptr<MemoryTape> tape = program.finish();
    Replayed replayed = replay(*tape);
    INFO(summary(replayed));
    REQUIRE(replayed.report);
    CHECK(replayed->verdict == Verdict::Match);
    CHECK(replayed->grades.total() == tape->packets.size());
  }
}

TEST_CASE("Memory that the recording was refused is not asked for at address 0") {
  ToyProgram program;
  program.open();
  Packet refused;
  refused.kind = PacketKind::MemoryMap;
  refused.completion = Completion::Failed;
  PacketExtra extra;
  extra.length = 4096;
  program.raw(refused, extra);
  program.map(0, 4096); // Which would then be taken.
  program.square(3);
  Replayed replayed = replay(*program.finish());
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->grades.of(Rule::NotMapped) == 1);
}

TEST_CASE("A tape that maps more than is allowed is refused, not held against the target") {
  ToyWorkload work = makeWorkload(1, 5);
  ReplayOptions options = quickOptions();
  options.player.binding.maxMappedBytes = toyMemorySize - 1;
  Replayed replayed = replay(*work.tape, {}, options);
  REQUIRE(replayed.failure);
  CHECK(replayed.failure->cls == FailureClass::Usage);
  CHECK(replayed.failure->code == "memory-limit");
  options.player.binding.maxMappedBytes = toyMemorySize;
  CHECK(replay(*work.tape, {}, options)->verdict == Verdict::Match);
}

TEST_CASE(
    "Poison that comes back because the recording lacks what was given is not held against the target") {
  for (bool missing : {true, false})
    for (bool faulty : {false, true}) {
      ToyProgram program;
      program.open();
      program.map(toyMemory, toyMemorySize);
      std::vector<uint8_t> given(64, 0x11);
      program.store(toyMemory, given);
      program.dma(true, toyMemory, 0, 64);
      program.dma(false, toyMemory + 0x1000, 0, 64);
      program.checkMemory("back", toyMemory + 0x1000, given);
      uint64_t square = program.square(7);
      std::unique_ptr<MemoryTape> tape = program.finish();
      for (size_t i = 0; i < tape->packets.size() && missing; ++i) {
        Packet &packet = tape->packets[i];
        bool gives = packet.kind == PacketKind::MemoryWrite ||
                     (packet.kind == PacketKind::DmaDescriptor && (packet.flags & TransferToDevice));
        if (!gives || packet.address != toyMemory)
          continue;
        packet.flags |= NotCaptured;
        tape->extras[i].payload = {};
      }
      ToyOptions other;
      if (faulty)
        other.faults.wrongSquareOf = 7;
      Replayed replayed = replay(*tape, other);
      INFO(missing, " ", faulty, " ", summary(replayed));
      REQUIRE(replayed.report);
      CHECK(replayed->verdict == (faulty    ? Verdict::Divergence
                                  : missing ? Verdict::Incomplete
                                            : Verdict::Match));
      if (faulty)
        CHECK(replayed->firstDivergence->place.packet >= square);
      if (missing)
        CHECK(replayed->grades.of(Rule::ContentNotCaptured) > 2);
    }
}
