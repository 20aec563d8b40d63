// Every rule of the grading table: a test that fails if the rule is taken away, and one in which it must not
// apply.
#include "format/Text.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// A program of one read of a register, and what a device makes of it that reads otherwise.
Replayed readOtherwise(uint64_t offset, uint64_t xorBits, unsigned width = 4, bool described = true) {
  ToyProgram program({}, described);
  program.open();
  program.read(offset, width);
  ToyOptions options;
  options.faults.wrongOffsets = {offset};
  options.faults.wrongReadXor = xorBits;
  std::unique_ptr<MemoryTape> tape = program.finish();
  return replay(*tape, options);
}

/// The toy's description with one text replaced.
std::string describedWith(const std::string &from, const std::string &to) {
  std::string text = toy::description;
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

} // namespace

TEST_CASE("compare: a stable register that differs in any bit is a mismatch") {
  CHECK(readOtherwise(toy::scratch, 0x80000000).firstRule() == Rule::ValueDiffers);
  CHECK(readOtherwise(toy::id, 1).firstRule() == Rule::ValueDiffers);
}

TEST_CASE("compare: without a description everything is compared") {
  CHECK(readOtherwise(toy::noise, 1, 4, false).firstRule() == Rule::ValueDiffers);
  CHECK(readOtherwise(toy::scratch, 1, 4, false).firstRule() == Rule::ValueDiffers);
}

TEST_CASE("mask: bits outside the compare mask are tolerated, bits inside are not") {
  Replayed outside = readOtherwise(toy::status, 1);
  INFO(summary(outside));
  CHECK(outside->verdict == Verdict::Match);
  CHECK(outside->grades.of(Rule::MaskedBits) == 1);
  CHECK(readOtherwise(toy::status, 2).firstRule() == Rule::ValueDiffers);
  CHECK(readOtherwise(toy::status, 3).firstRule() == Rule::ValueDiffers);
}

TEST_CASE("mask: it moves with a part access") {
  // WIDE compares all but bits 55:48. Its upper half is read alone: there they are bits 23:16.
  Replayed masked = readOtherwise(toy::wide, 0, 8);
  CHECK(masked->verdict == Verdict::Match);
  for (auto [xorBits, rule] :
       {std::pair(0x00ff0000u, Rule::MaskedBits), std::pair(0x01000000u, Rule::ValueDiffers),
        std::pair(0x00008000u, Rule::ValueDiffers)}) {
    ToyProgram program;
    program.open();
    uint64_t read = program.read(toy::wide + 4, 4);
    std::unique_ptr<MemoryTape> tape = program.finish();
    tape->packets[read].value ^= xorBits;
    Replayed replayed = replay(*tape);
    INFO(xorBits, " ", summary(replayed));
    CHECK(replayed->grades.of(rule) == 1);
    if (rule == Rule::ValueDiffers) {
      CHECK(replayed->firstDivergence->reg == "WIDE");
      CHECK(replayed->firstDivergence->field == (xorBits == 0x01000000u ? "TOP" : ""));
    }
  }
}

TEST_CASE("mask: an access over two registers goes by both, and names the one that differs") {
  // SQUARE (compared) and STATUS (bit 0 not compared) in one 64-bit read.
  for (auto [xorBits, rule, reg] : {std::tuple(uint64_t(1) << 32, Rule::MaskedBits, ""),
                                    std::tuple(uint64_t(2) << 32, Rule::ValueDiffers, "STATUS"),
                                    std::tuple(uint64_t(1), Rule::ValueDiffers, "SQUARE")}) {
    ToyProgram program;
    program.open();
    uint64_t read = program.read(toy::square, 8);
    std::unique_ptr<MemoryTape> tape = program.finish();
    tape->packets[read].value ^= xorBits;
    Replayed replayed = replay(*tape);
    INFO(xorBits, " ", summary(replayed));
    CHECK(replayed->grades.of(rule) == 1);
    if (rule == Rule::ValueDiffers)
      CHECK(replayed->firstDivergence->reg == reg);
  }
}

TEST_CASE("ignore: volatile registers, counters and times are read and not compared") {
  Replayed replayed = readOtherwise(toy::noise, 0xffff);
  INFO(summary(replayed));
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->grades.of(Rule::PolicyIgnore) == 1);
  CHECK(replayed.target->reads == 4); // Three of the fingerprint, and this one.
}

TEST_CASE("relocate: address registers are compared at the recorded addresses") {
  CHECK(readOtherwise(toy::source, 0x1000, 8).firstRule() == Rule::ValueDiffers);
}

TEST_CASE("substitute without a place to flow into: never silently matched, even where the value agrees") {
  Replayed same = readOtherwise(toy::substitute, 0);
  INFO(summary(same));
  CHECK(same->verdict == Verdict::Incomplete);
  CHECK(same->grades.of(Rule::PolicySubstitute) == 1);
  CHECK(exitCodeFor(*same, Expectation::Match) == 5);
  CHECK(readOtherwise(toy::substitute, 7)->verdict == Verdict::Incomplete);
}

TEST_CASE("side-effect: done exactly once") {
  ToyProgram program;
  program.open();
  program.write(toy::irqAck, 1);
  program.write(toy::irqAck, 1);
  std::unique_ptr<MemoryTape> tape = program.finish();
  Replayed replayed = replay(*tape);
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed.target->writesTo[toy::irqAck] == 2);
}

TEST_CASE("forbidden: a write is refused before anything is touched, with the packet named") {
  ToyProgram program;
  program.open();
  program.write(toy::scratch, 1);
  uint64_t write = program.write(toy::fuse, 0xb10);
  std::unique_ptr<MemoryTape> tape = program.finish();
  Replayed refused = replay(*tape);
  REQUIRE(refused.failure);
  CHECK(refused.failure->cls == FailureClass::Usage);
  CHECK(refused.failure->code == "forbidden-write");
  CHECK(refused.failure->message.find("FUSE") != std::string::npos);
  CHECK(refused.failure->where == "packet " + std::to_string(write));
  CHECK(refused.failure->hint.find("--allow-register FUSE") != std::string::npos);
  CHECK(refused.target->accesses == 0);
  CHECK(refused.target->resets == 0);

  ReplayOptions options = quickOptions();
  options.player.binding.allowRegisters = {"SCRATCH"};
  CHECK(replay(*tape, {}, options).failure);
  options.player.binding.allowRegisters = {"FUSE", "FUZE"};
  Replayed mistyped = replay(*tape, {}, options);
  REQUIRE(mistyped.failure);
  CHECK(mistyped.failure->code == "unknown-register");
  CHECK(mistyped.failure->message.find("FUZE") != std::string::npos);
  CHECK(mistyped.target->accesses == 0);
  options.player.binding.allowRegisters = {"FUSE"};
  Replayed allowed = replay(*tape, {}, options);
  REQUIRE(allowed.report);
  CHECK(allowed->verdict == Verdict::Match);
  CHECK(allowed.target->writesTo[toy::fuse] == 1);
}

TEST_CASE("forbidden: part writes and writes that reach into the register are refused too") {
  for (auto [offset, width] :
       {std::pair(toy::fuse + 2, 2u), std::pair(toy::noise, 8u), std::pair(toy::fuse + 3, 1u)}) {
    ToyProgram program;
    program.open();
    Packet packet;
    packet.kind = PacketKind::RegisterWrite;
    packet.space = 1;
    packet.address = offset;
    packet.width = uint8_t(width);
    program.raw(packet);
    Replayed refused = replay(*program.finish());
    REQUIRE(refused.failure);
    CHECK(refused.failure->code == "forbidden-write");
  }
}

/// The forbidden write is refused by a player that nobody has looked ahead for; what its target has seen by
/// then.
static ScriptedTarget playerRefuses(const MemoryTape &tape) {
  auto source = llvm::cantFail(TapeSource::create(tape.copy()));
  ScriptedTarget target;
  Target *pointer = &target;
  auto player = llvm::cantFail(Player::create(*source, pointer, {}));
  PacketBatch batch;
  llvm::cantFail(source->reader().readBlockFrom(0, batch));
  ObservationLog log;
  llvm::Expected<size_t> issued = player->issue(batch, 0, batch.packets.size(), log);
  REQUIRE(!issued);
  CHECK(toFailure(issued.takeError()).code == "forbidden-write");
  return target;
}

TEST_CASE("forbidden: the player refuses by itself what nobody looked for") {
  ToyProgram program;
  program.open();
  program.write(toy::fuse, 1);
  std::unique_ptr<MemoryTape> tape = program.finish();
  CHECK(playerRefuses(*tape).writesTo[toy::fuse] == 0);
}

TEST_CASE("forbidden: ranges, whatever lies in them, unless the range or the register is named") {
  std::string text = describedWith("registers:\n", "forbidden:\n"
                                                   "  - {name: flash, first: 0x100, last: 0x1fe}\n"
                                                   "  - {name: few, first: 0x74, last: 0x74}\n"
                                                   "  - {name: fuses, first: 0x44, last: 0x4f}\n"
                                                   "registers:\n");
  struct {
    uint64_t offset;
    unsigned width;
    const char *forbids; ///< Null: nothing does.
  } const cases[] = {{0x100, 4, "flash"},         {0xfd, 4, "flash"},      {0xfc, 4, nullptr},
                     {0x1fe, 1, "flash"},         {0x1ff, 1, nullptr},     {0xf9, 8, "flash"},
                     {toy::cookieBack, 4, "few"}, {toy::fuse, 4, "fuses"}, {toy::square, 4, nullptr}};
  for (const auto &c : cases) {
    CAPTURE(c.offset);
    ToyProgram program;
    program.open();
    Packet packet;
    packet.kind = PacketKind::RegisterWrite;
    packet.space = 1;
    packet.address = c.offset;
    packet.width = uint8_t(c.width);
    uint64_t ordinal = program.raw(packet);
    std::unique_ptr<MemoryTape> tape = program.finish();
    tape->theDevices[0].description = text;
    Replayed replayed = replay(*tape);
    INFO(summary(replayed));
    if (!c.forbids) {
      CHECK(replayed->verdict == Verdict::Match);
      continue;
    }
    REQUIRE(replayed.failure);
    CHECK(replayed.failure->code == "forbidden-write");
    CHECK(replayed.failure->message.find(c.forbids) != std::string::npos);
    CHECK(replayed.failure->where == "packet " + std::to_string(ordinal));
    CHECK(replayed.failure->hint.find(std::string("--allow-register ") + c.forbids) != std::string::npos);
    CHECK(replayed.target->accesses == 0);
    CHECK(replayed.target->resets == 0);
    ReplayOptions options = quickOptions();
    options.player.binding.allowRegisters = {"COUNT"};
    CHECK(replay(*tape, {}, options).failure);
    options.player.binding.allowRegisters = {c.forbids};
    CHECK(replay(*tape, {}, options)->verdict == Verdict::Match);
    bool isRegister = c.offset == toy::cookieBack || c.offset == toy::fuse;
    options.player.binding.allowRegisters = {c.offset == toy::fuse ? "FUSE" : "COOKIE_BACK"};
    CHECK(bool(replay(*tape, {}, options).report) == isRegister);
    CHECK(playerRefuses(*tape).writes == 0);
  }
}

TEST_CASE("forbidden: reads are allowed and compared") {
  CHECK(readOtherwise(toy::fuse, 0)->verdict == Verdict::Match);
  CHECK(readOtherwise(toy::fuse, 1).firstRule() == Rule::ValueDiffers);
}

TEST_CASE("may-hang: re-issued if it came back, left out if it did not") {
  for (PacketKind kind : {PacketKind::RegisterRead, PacketKind::RegisterWrite}) {
    ToyProgram program;
    program.open();
    Packet packet;
    packet.kind = kind;
    packet.space = 1;
    packet.address = toy::mayHang;
    packet.width = 4;
    packet.completion = Completion::Pending;
    program.raw(packet);
    std::unique_ptr<MemoryTape> tape = program.finish();
    Replayed replayed = replay(*tape);
    INFO(summary(replayed));
    CHECK(replayed->verdict == Verdict::Incomplete);
    CHECK(replayed->grades.of(Rule::PendingNotReissued) == 1);
    CHECK(replayed.target->accesses == 3);
    tape->packets.back().completion = Completion::Done;
    Replayed done = replay(*tape);
    CHECK(done->verdict == Verdict::Match);
    CHECK(done.target->accesses == 4);
  }
}

TEST_CASE("may-hang: one that hangs here is a target error that names the packet and says that it was to be "
          "expected") {
  for (uint64_t offset : {toy::mayHang, toy::scratch}) {
    ToyProgram program;
    program.open();
    program.write(toy::scratch, 1);
    uint64_t at = program.read(offset);
    program.read(toy::scratch);
    ToyOptions options;
    options.faults.hangAt = 4; // Behind the fingerprint's three and the write.
    Replayed hung = replay(*program.finish(), options);
    INFO(summary(hung));
    CHECK(hung->verdict == Verdict::Error);
    CHECK(exitCodeFor(*hung, Expectation::Match) == 4);
    CHECK(hung->packetsReplayed == at + 1);
    REQUIRE(hung->targetFailure);
    CHECK(hung->targetFailure->code == "target-hung");
    CHECK(llvm::StringRef(hung->targetFailure->where).starts_with("packet " + std::to_string(at)));
    bool expected = hung->targetFailure->hint.find("MAYHANG may hang; timeout=MS") != std::string::npos;
    CHECK(expected == (offset == toy::mayHang));
  }
}

TEST_CASE("pending: what never came back is re-issued and never counts as a match") {
  for (PacketKind kind : {PacketKind::RegisterRead, PacketKind::RegisterWrite, PacketKind::Poll}) {
    ToyProgram program;
    program.open();
    Packet packet;
    packet.kind = kind;
    packet.space = 1;
    packet.address = toy::scratch;
    packet.width = 4;
    packet.value = 0;
    packet.completion = Completion::Pending;
    program.raw(packet);
    std::unique_ptr<MemoryTape> tape = program.finish();
    Replayed replayed = replay(*tape);
    INFO(summary(replayed));
    CHECK(replayed->verdict == Verdict::Incomplete);
    CHECK(replayed->grades.of(Rule::PendingOperation) == 1);
    CHECK(replayed.target->accesses == 4);
    ToyOptions dies;
    dies.faults.dieAt = 3;
    CHECK(replay(*tape, dies)->verdict == Verdict::Error);
  }
}

TEST_CASE("pending: a late completion is compared with what the operation gave this time") {
  for (auto [late, verdict] : {std::pair(0u, Verdict::Incomplete), std::pair(9u, Verdict::Divergence)}) {
    ToyProgram program;
    program.open();
    Packet packet;
    packet.kind = PacketKind::RegisterRead;
    packet.space = 1;
    packet.address = toy::scratch;
    packet.width = 4;
    packet.completion = Completion::Pending;
    uint64_t pending = program.raw(packet);
    packet.kind = PacketKind::LateCompletion;
    packet.completion = Completion::Done;
    packet.value = late;
    PacketExtra extra;
    extra.link = pending;
    program.raw(packet, extra);
    Replayed replayed = replay(*program.finish());
    INFO(summary(replayed));
    CHECK(replayed->verdict == verdict);
  }
}

TEST_CASE("poll: replayed as its condition; other bits and the number of reads are evidence") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  ToyProgram::Dma dma = program.dma(true, toyMemory, 0, 4);
  std::unique_ptr<MemoryTape> tape = program.finish();
  tape->packets[dma.poll].value ^= 0x100;
  tape->extras[dma.poll].count = 1;
  Replayed replayed = replay(*tape);
  INFO(summary(replayed));
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->grades.of(Rule::PollCondition) == 1);
  CHECK(replayed.target->reads > 4);
}

TEST_CASE("poll: a condition that never comes is a timeout, after the tape's deadline and not ours") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  ToyProgram::Dma dma = program.dma(true, toyMemory, 0, 4);
  std::unique_ptr<MemoryTape> tape = program.finish();
  ToyOptions options;
  options.faults.hangDma = 0;
  ReplayOptions patient = quickOptions();
  patient.player.waits.maxDeadline = 60'000'000'000;
  for (uint64_t deadline : {1'000'000, 50'000'000}) {
    tape->extras[dma.poll].deadline = deadline;
    HostTimer timer;
    Replayed replayed = replay(*tape, options, patient);
    INFO(summary(replayed));
    CHECK(replayed.firstRule() == Rule::ConditionNotMet);
    CHECK(replayed->firstDivergence->place.packet == dma.poll);
    CHECK(replayed.target->now > deadline);
    CHECK(timer.elapsed() > deadline);
    CHECK(timer.elapsed() < deadline + 2'000'000'000);
  }
}

TEST_CASE("poll: one that timed out in the recording must time out again") {
  ToyProgram program;
  program.open();
  uint64_t poll = program.poll(toy::scratch, 0xff, 5, 100'000);
  std::unique_ptr<MemoryTape> tape = program.finish();
  REQUIRE(tape->packets[poll].completion == Completion::TimedOut);
  Replayed same = replay(*tape);
  CHECK(same->verdict == Verdict::Match);
  CHECK(same->grades.of(Rule::TimedOutAsRecorded) == 1);
  ToyOptions options;
  options.faults.wrongOffsets = {toy::scratch};
  options.faults.wrongReadXor = 5;
  Replayed met = replay(*tape, options);
  INFO(summary(met));
  CHECK(met.firstRule() == Rule::TimedOutInRecording);
}

TEST_CASE("poll: a hostile deadline does not hold the replay up") {
  ToyProgram program;
  program.open();
  uint64_t poll = program.poll(toy::scratch, 0xff, 5, 100'000);
  std::unique_ptr<MemoryTape> tape = program.finish();
  tape->extras[poll].deadline = ~uint64_t(0);
  HostTimer timer;
  Replayed replayed = replay(*tape);
  CHECK(timer.elapsed() < 2'000'000'000);
  CHECK(replayed->grades.of(Rule::TimedOutAsRecorded) == 1);
}

TEST_CASE("poll-until: of a hand-made loop only the last read counts, and it is waited for") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.write(toy::source, toyMemory, 8);
  program.write(toy::destination, toy::bufferBase, 8);
  program.write(toy::count, 4, 8);
  program.write(toy::command, 1);
  uint64_t turns = 0, last = 0;
  for (bool done = false; !done; ++turns) {
    last = program.read(toy::turn);
    done = program.tape().packets[last].value == 1;
    llvm::cantFail(program.target().advance(10'000));
  }
  program.write(toy::scratch, 1);
  REQUIRE(turns > 3);
  std::unique_ptr<MemoryTape> tape = program.finish();
  for (size_t block : {1, 5, 1000}) { // Looking ahead crosses blocks.
    tape->blockPackets = block;
    Replayed replayed = replay(*tape);
    INFO(summary(replayed));
    CHECK(replayed->verdict == Verdict::Match);
    CHECK(replayed->grades.of(Rule::PollIteration) == turns - 1);
  }
  ToyOptions options;
  options.faults.hangDma = 0;
  Replayed never = replay(*tape, options);
  INFO(summary(never));
  CHECK(never.firstRule() == Rule::ConditionNotMet);
  CHECK(never->firstDivergence->place.packet == last);
}

TEST_CASE("memory: a fence is waited for, and times out if it does not come") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.store(toyMemory, std::vector<uint8_t>{0x78, 0x56, 0x34, 0x12});
  uint64_t wait = program.waitMemory(toyMemory, 4, 0xffffffff, 0x12345678);
  std::unique_ptr<MemoryTape> tape = program.finish();
  CHECK(replay(*tape)->verdict == Verdict::Match);
  tape->extras[wait].expected = 0x12345679;
  tape->extras[wait].deadline = 1000;
  Replayed replayed = replay(*tape);
  CHECK(replayed.firstRule() == Rule::ConditionNotMet);
  CHECK(replayed->firstDivergence->place.packet == wait);
}

TEST_CASE("memory: reads and acquires are compared to the byte") {
  for (bool acquire : {false, true}) {
    ToyProgram program;
    program.open();
    program.map(toyMemory, toyMemorySize);
    program.store(toyMemory, std::vector<uint8_t>{1, 2, 3, 4, 5});
    uint64_t seen = acquire ? program.acquire(toyMemory, 5) : program.load(toyMemory, 5);
    std::unique_ptr<MemoryTape> tape = program.finish();
    CHECK(replay(*tape)->verdict == Verdict::Match);
    tape->extras[seen].payload = tape->store(std::vector<uint8_t>{1, 2, 3, 9, 5});
    Replayed replayed = replay(*tape);
    CHECK(replayed.firstRule() == Rule::ContentDiffers);
    CHECK(replayed->firstDivergence->offset == 3);
    CHECK(replayed->firstDivergence->expected == 9);
    CHECK(replayed->firstDivergence->actual == 4);
  }
}

TEST_CASE("memory: content that was not captured is not captured, never a match") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.store(toyMemory, std::vector<uint8_t>{1, 2, 3, 4, 5});
  uint64_t seen = program.acquire(toyMemory, 5);
  std::unique_ptr<MemoryTape> original = program.finish();
  std::unique_ptr<MemoryTape> tape = original->copy();
  tape->packets[seen].flags |= NotCaptured;
  CHECK(replay(*tape)->grades.of(Rule::ContentNotCaptured) == 1);
  CHECK(replay(*tape)->verdict == Verdict::Incomplete);
  // The beginning is there and agrees, or differs.
  tape = original->copy();
  tape->packets[seen].flags |= Truncated;
  tape->extras[seen].payload = tape->store(std::vector<uint8_t>{1, 2});
  CHECK(replay(*tape)->grades.of(Rule::ContentTruncated) == 1);
  CHECK(replay(*tape)->verdict == Verdict::Incomplete);
  tape->extras[seen].payload = tape->store(std::vector<uint8_t>{1, 7});
  CHECK(replay(*tape).firstRule() == Rule::ContentDiffers);
  // A write whose content is missing.
  tape = original->copy();
  tape->packets[seen - 1].flags |= NotCaptured;
  tape->extras[seen - 1].payload = {};
  Replayed write = replay(*tape);
  CHECK(write->grades.of(Rule::ContentNotCaptured) == 1);
  CHECK(write->verdict == Verdict::Divergence); // What is then read is not what was recorded.
}

TEST_CASE("counters: exact ones are compared, rates are not, unknown ones are not captured") {
  for (bool native : {false, true}) {
    ToyProgram program;
    program.open();
    uint64_t exact = program.counter(0);
    program.counter(1);
    std::unique_ptr<MemoryTape> tape = program.finish();
    ToyOptions options;
    options.capabilities.counters = native;
    options.faults.skew = 99;
    Replayed same = replay(*tape, options);
    INFO(summary(same));
    CHECK(same->verdict == Verdict::Match);
    CHECK(same->grades.of(Rule::CounterRate) == 1);
    options.faults.counterError = 3;
    Replayed wrong = replay(*tape, options);
    CHECK(wrong.firstRule() == Rule::ValueDiffers);
    CHECK(wrong->firstDivergence->place.packet == exact);
    CHECK(wrong->firstDivergence->reg == "exact");
    tape->packets[exact].address = 77;
    CHECK(replay(*tape, options)->grades.of(Rule::UnknownCounter) == 1);
  }
}

TEST_CASE("interrupts: that it came counts, how many does not") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.dma(true, toyMemory, 0, 4, true);
  uint64_t wait = program.waitInterrupt();
  std::unique_ptr<MemoryTape> tape = program.finish();
  tape->extras[wait].count = 17;
  Replayed replayed = replay(*tape);
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->grades.of(Rule::InterruptCount) == 1);
  // One that did not come in the recording must not come now.
  tape->packets[wait].completion = Completion::TimedOut;
  CHECK(replay(*tape).firstRule() == Rule::TimedOutInRecording);
}

TEST_CASE("failed operations: as recorded, or not") {
  ToyProgram program;
  program.open();
  uint64_t read = program.read(toy::scratch);
  program.read(toy::id);
  std::unique_ptr<MemoryTape> tape = program.finish();
  ToyOptions options;
  options.faults.busErrorAt = 3;
  CHECK(replay(*tape, options)->verdict == Verdict::Error);
  tape->packets[read].completion = Completion::Failed;
  Replayed same = replay(*tape, options);
  INFO(summary(same));
  CHECK(same->verdict == Verdict::Match);
  CHECK(same->grades.of(Rule::FailedAsRecorded) == 1);
  Replayed succeeds = replay(*tape);
  CHECK(succeeds.firstRule() == Rule::FailedInRecording);
  // A target that died in the recording is dead for the rest of it.
  tape->packets.back().completion = Completion::Failed;
  options.faults = {};
  options.faults.dieAt = 3;
  Replayed dead = replay(*tape, options);
  INFO(summary(dead));
  CHECK(dead->verdict == Verdict::Match);
  CHECK(dead->grades.of(Rule::FailedAsRecorded) == 2);
}

TEST_CASE("loss: what differs behind it is not held against the target, and nothing is a match") {
  ToyProgram program;
  program.open();
  program.write(toy::scratch, 1);
  program.read(toy::scratch);
  program.loss(10);
  program.read(toy::scratch);
  std::unique_ptr<MemoryTape> tape = program.finish();
  Replayed same = replay(*tape);
  INFO(summary(same));
  CHECK(same->verdict == Verdict::Incomplete);
  CHECK(same->lossesCrossed == 1);
  CHECK(same->grades.of(Rule::LostPackets) == 1);
  tape->packets.back().value = 77;
  Replayed differs = replay(*tape);
  CHECK(differs->verdict == Verdict::Incomplete);
  CHECK(differs->grades.of(Rule::AfterLoss) == 1);
  // Before the loss it is.
  ToyOptions options;
  options.faults.wrongOffsets = {toy::scratch};
  CHECK(replay(*tape, options)->verdict == Verdict::Divergence);
}

TEST_CASE("loss: the end of a recording is none, a gap in it is") {
  for (bool more : {false, true}) {
    ToyProgram program;
    program.open();
    program.read(toy::scratch);
    program.loss(1000, LossCause::NotRecording);
    if (more)
      program.read(toy::scratch);
    Replayed replayed = replay(*program.finish());
    INFO(summary(replayed));
    CHECK(replayed->grades.of(Rule::OutsideRecording) == 1);
    CHECK(replayed->verdict == (more ? Verdict::Incomplete : Verdict::Match));
    CHECK(replayed->lossesCrossed == more);
  }
}

TEST_CASE("evidence: what the recorder read by itself is not read again") {
  ToyProgram program;
  program.open();
  Packet packet;
  packet.kind = PacketKind::RegisterRead;
  packet.space = 1;
  packet.address = toy::irq;
  packet.width = 4;
  packet.value = 0x1234;
  packet.origin = Origin::Recorder;
  program.raw(packet);
  program.raw(packet);
  Replayed replayed = replay(*program.finish());
  INFO(summary(replayed));
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->grades.of(Rule::Evidence) == 5);
  CHECK(replayed.target->reads == 3);
}

TEST_CASE("unknown kinds are not captured") {
  ToyProgram program;
  program.open();
  Packet packet;
  packet.kind = PacketKind(200);
  program.raw(packet);
  Replayed replayed = replay(*program.finish());
  CHECK(replayed->verdict == Verdict::Incomplete);
  CHECK(replayed->grades.of(Rule::UnknownKind) == 1);
}

TEST_CASE("unsupported: a target that cannot be reset leaves resets out") {
  ToyProgram program;
  program.open();
  program.read(toy::scratch);
  program.reset();
  ToyOptions options;
  options.capabilities.reset = false;
  Replayed replayed = replay(*program.finish(), options);
  INFO(summary(replayed));
  CHECK(replayed->verdict == Verdict::Incomplete);
  CHECK(replayed->grades.of(Rule::Unsupported) == 2);
}

TEST_CASE("A target without memory is refused before it is touched, if the tape needs memory") {
  ToyProgram program;
  program.open();
  uint64_t map = program.map(toyMemory, toyMemorySize);
  ToyOptions options;
  options.capabilities.memory = false;
  std::unique_ptr<MemoryTape> tape = program.finish();
  Replayed refused = replay(*tape, options);
  REQUIRE(refused.failure);
  CHECK(refused.failure->cls == FailureClass::Usage);
  CHECK(refused.failure->code == "no-memory");
  CHECK(refused.failure->message.find("packet " + std::to_string(map)) != std::string::npos);
  CHECK(refused.target->resets == 0);
  ReplayOptions before = quickOptions();
  before.endPacket = map;
  CHECK(replay(*tape, options, before)->verdict == Verdict::Match);
}

TEST_CASE("A space that no packet uses is not missed") {
  ToyProgram program;
  program.open();
  program.read(toy::scratch);
  std::unique_ptr<MemoryTape> tape = program.finish();
  tape->theSpaces.push_back("rom");
  CHECK(replay(*tape)->verdict == Verdict::Match);
  tape->packets.back().space = 2;
  CHECK(replay(*tape).failure->code == "missing-space");
}

TEST_CASE(
    "bus-configuration: never re-issued; a config space that the description knows is a space like others") {
  ToyProgram program;
  program.open();
  std::unique_ptr<MemoryTape> tape = program.finish();
  tape->theSpaces.push_back("config");
  for (PacketKind kind : {PacketKind::RegisterRead, PacketKind::RegisterWrite, PacketKind::Poll}) {
    Packet packet;
    packet.kind = kind;
    packet.space = 2;
    packet.width = 4;
    packet.address = 0x10;
    packet.value = 0xfebf0000;
    tape->add(packet);
  }
  tape->endWindow(true);
  Replayed replayed = replay(*tape);
  INFO(summary(replayed));
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->grades.of(Rule::BusConfiguration) == 3);
  CHECK(replayed.target->writes == 0);
  // Even where the target has such a space, and without a description.
  std::unique_ptr<MemoryTape> bare = tape->copy();
  bare->theDevices[0].description.clear();
  ToyOptions options;
  options.space = "config";
  Replayed had = replay(*bare, options);
  INFO(summary(had));
  REQUIRE(had.report);
  CHECK(had->grades.of(Rule::BusConfiguration) == 3);
  CHECK(had.target->accesses == 0);
  std::string text = describedWith("spaces: [bar0]", "spaces: [bar0, config]");
  text.insert(text.find("windows:"), "  - {name: CFG, space: config, offset: 0x10, class: stable}\n");
  tape->theDevices[0].description = text;
  CHECK(replay(*tape).failure->code == "missing-space");
}

TEST_CASE("Every rule has a name of its own, a sentence, a grade, and a line in the README") {
  std::set<std::string> names;
  llvm::Expected<std::string> readme = readTextFile(TAPEBACK_SOURCE_DIR "/replayer/README.md");
  REQUIRE(bool(readme));
  for (unsigned i = 0; i < ruleCount; ++i) {
    Rule rule = Rule(i);
    CHECK(names.insert(ruleName(rule)).second);
    CHECK(std::string(ruleText(rule)).size() > 10);
    std::string row = std::string("| ") + gradeName(gradeOf(rule)) + " | `" + ruleName(rule) + "` |";
    INFO(row);
    CHECK(readme->find(row) != std::string::npos);
  }
}

TEST_CASE("The description on the tape can be replaced, and one that does not hold is the tape's fault or "
          "the user's") {
  ToyProgram program;
  program.open();
  program.read(toy::noise);
  std::unique_ptr<MemoryTape> tape = program.finish();
  std::string strict = describedWith("access: ro, class: volatile", "access: ro, class: stable");
  auto source = llvm::cantFail(TapeSource::create(tape->copy(), strict));
  ToyOptions options;
  options.faults.skew = 1;
  ScriptedTarget target(options);
  Target *pointer = &target;
  llvm::Expected<ReplayReport> report = replayTape(*source, pointer, quickOptions());
  REQUIRE(bool(report));
  CHECK(report->verdict == Verdict::Divergence);

  std::string broken = "tapeback-description: 1\nname: [";
  llvm::Expected<std::unique_ptr<TapeSource>> given = TapeSource::create(tape->copy(), broken);
  REQUIRE(!given);
  CHECK(toFailure(given.takeError()).cls == FailureClass::Usage);
  tape->theDevices[0].description = broken;
  llvm::Expected<std::unique_ptr<TapeSource>> carried = TapeSource::create(tape->copy());
  REQUIRE(!carried);
  CHECK(toFailure(carried.takeError()).cls == FailureClass::Tape);
}
