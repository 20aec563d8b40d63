// Loops of reads that are polls, values of one run that flow into later writes, and the order in which things
// may be seen as done: each with a replay that must match, and one that must not.
#include "replayer/CompletionOrder.h"
#include "replayer/LiveMemory.h"
#include "replayer/PollFinder.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t busy = 1;

/// A program that waits for SQUARE in a loop of its own.
struct LoopProgram {
  std::unique_ptr<MemoryTape> tape;
  std::vector<uint64_t> reads; ///< Of STATUS; the last is the loop's end.
};
LoopProgram squareByLoop(ToyOptions options = {}) {
  ToyProgram program(std::move(options));
  LoopProgram result;
  program.open();
  program.write(toy::square, 12);
  do {
    result.reads.push_back(program.read(toy::status));
    llvm::cantFail(program.target().advance(1000));
  } while (program.tape().packets[result.reads.back()].value & busy);
  program.checkEqual("square", program.read(toy::square), 144);
  result.tape = program.finish();
  REQUIRE(result.reads.size() > 3);
  return result;
}

/// Reads of one register as a tape has them, thread by thread.
struct TapeOfReads {
  ToyProgram program;
  std::vector<uint64_t> ordinals;

  explicit TapeOfReads(bool described = true) : program({}, described) { program.open(); }
  void read(uint64_t offset, uint64_t value, uint16_t thread = 0) {
    Packet packet;
    packet.kind = PacketKind::RegisterRead;
    packet.space = 1;
    packet.width = 4;
    packet.address = offset;
    packet.value = value;
    packet.thread = thread;
    ordinals.push_back(program.raw(packet));
  }
  /// One letter a read: T turn, E exit, . none; exits with their masks behind.
  std::string roles() {
    std::unique_ptr<MemoryTape> tape = program.finish();
    auto source = llvm::cantFail(TapeSource::create(tape->copy()));
    AccessRules rules(source->description(0), source->spaceNames(), {});
    PollFinder finder(*source);
    PacketBatch batch;
    std::string text;
    for (uint64_t at = 0; at < tape->packets.size(); at += batch.packets.size()) {
      llvm::cantFail(source->reader().readBlockFrom(at, batch));
      for (size_t i = 0; i < batch.packets.size(); ++i) {
        const Packet &packet = batch.packets[i];
        if (packet.kind != PacketKind::RegisterRead || packet.origin == Origin::Recorder)
          continue;
        const AccessRule &rule = rules.find(packet.space, packet.address, packet.width);
        PollRole role = llvm::cantFail(finder.roleOf(batch, i, rule));
        if (!finder.mayBe(batch, i, rule))
          CHECK(role.kind == PollRole::Kind::None);
        text += role.kind == PollRole::Kind::Turn ? "T" : role.kind == PollRole::Kind::None ? "." : "E";
        if (role.kind == PollRole::Kind::Exit)
          text += std::to_string(role.mask) + "=" + std::to_string(role.value);
      }
    }
    return text;
  }
};

std::string rolesOf(uint64_t offset, std::initializer_list<uint64_t> values, bool described = true) {
  TapeOfReads tape(described);
  for (uint64_t value : values)
    tape.read(offset, value);
  return tape.roles();
}

} // namespace

TEST_CASE("a loop of reads that ends in a change is a poll, at every speed of the target") {
  LoopProgram loop = squareByLoop();
  for (uint64_t slowness : {1, 40}) {
    for (size_t block : {1, 4, 1000}) {
      loop.tape->blockPackets = block;
      ToyOptions options;
      options.slowness = slowness;
      Replayed replayed = replay(*loop.tape, options);
      INFO(slowness, " ", block, " ", summary(replayed));
      CHECK(replayed->verdict == Verdict::Match);
      CHECK(replayed->grades.of(Rule::PollFound) == 1);
      CHECK(replayed->grades.of(Rule::PollIteration) == loop.reads.size() - 1);
    }
  }
  // Recorded where it took longer: all but the last read are turns.
  ToyOptions slow;
  slow.slowness = 9;
  LoopProgram longer = squareByLoop(slow);
  CHECK(longer.reads.size() > loop.reads.size());
  CHECK(replay(*longer.tape)->verdict == Verdict::Match);
}

TEST_CASE("a change that does not come is a timeout that names the register and what was waited for") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.write(toy::source, toyMemory, 8);
  program.write(toy::destination, toy::bufferBase, 8);
  program.write(toy::count, 4, 8);
  program.write(toy::command, 1);
  uint64_t last = 0;
  do {
    last = program.read(toy::command);
    llvm::cantFail(program.target().advance(20'000));
  } while (program.tape().packets[last].value & 1);
  program.read(toy::scratch);
  ToyOptions options;
  options.faults.hangDma = 0;
  Replayed replayed = replay(*program.finish(), options);
  INFO(summary(replayed));
  CHECK(replayed.firstRule() == Rule::ConditionNotMet);
  REQUIRE(replayed->firstDivergence);
  CHECK(replayed->firstDivergence->place.packet == last);
  CHECK(replayed->firstDivergence->reg == "CMD");
  CHECK(replayed->firstDivergence->field == "RUN");
  std::string text = divergenceText(*replayed->firstDivergence);
  CHECK(text.find("waited 5 ms for value & 0x1 = 0x0") != std::string::npos);
}

TEST_CASE("one read that shows something as done is waited for, too: the recorded host may have been slow") {
  for (uint64_t offset : {toy::status, toy::command}) {
    ToyProgram program;
    program.open();
    program.map(toyMemory, toyMemorySize);
    if (offset == toy::status)
      program.write(toy::square, 12);
    else {
      program.write(toy::source, toyMemory, 8);
      program.write(toy::destination, toy::bufferBase, 8);
      program.write(toy::command, 1);
    }
    llvm::cantFail(program.target().advance(1'000'000));
    uint64_t shown = program.read(offset);
    program.read(offset == toy::status ? toy::square : toy::turn);
    std::unique_ptr<MemoryTape> tape = program.finish();
    ToyOptions slow;
    slow.slowness = 40;
    Replayed replayed = replay(*tape, slow);
    INFO(summary(replayed));
    CHECK(replayed->verdict == Verdict::Match);
    CHECK(replayed->grades.of(Grade::Tolerated) == replayed->grades.of(Rule::Evidence));
    if (offset == toy::status)
      continue;
    slow.faults.hangDma = 0;
    Replayed hangs = replay(*tape, slow);
    CHECK(hangs.firstRule() == Rule::ConditionNotMet);
    REQUIRE(hangs->firstDivergence);
    CHECK(hangs->firstDivergence->place.packet == shown);
    CHECK(hangs->firstDivergence->field == "RUN");
  }
}

TEST_CASE("what did not change in the loop is compared at its end") {
  LoopProgram loop = squareByLoop();
  ToyOptions options;
  options.faults.wrongOffsets = {toy::status};
  options.faults.wrongReadXor = 0x80;
  Replayed replayed = replay(*loop.tape, options);
  INFO(summary(replayed));
  CHECK(replayed.firstRule() == Rule::ValueDiffers);
  CHECK(replayed->firstDivergence->place.packet == loop.reads.back());
  CHECK(replayed->firstDivergence->field == "IRQ_ON_SQUARE");
}

TEST_CASE("which reads are turns, which one is the end, and what it waits for") {
  CHECK(rolesOf(toy::scratch, {0, 0, 0, 4}) == "TTTE4=4");
  CHECK(rolesOf(toy::scratch, {6, 6, 2}) == "TTE4=0");
  CHECK(rolesOf(toy::scratch, {0, 4}) == "TE4=4");
  // Read once more when the loop is over.
  CHECK(rolesOf(toy::scratch, {0, 0, 4, 4, 4}) == "TTE4=4..");
  // No change, or one read only: reads like others.
  CHECK(rolesOf(toy::scratch, {5, 5, 5}) == "...");
  CHECK(rolesOf(toy::scratch, {5}) == ".");
  // Several bits, one after the other: both were seen.
  CHECK(rolesOf(toy::scratch, {0, 1, 1, 9}) == "TTTE9=9");
  // What had been changing all the time is not what was waited for …
  CHECK(rolesOf(toy::scratch, {0x10, 0x20, 0x30, 0x41}) == "TTTE1=1");
  CHECK(rolesOf(toy::scratch, {0x10, 0x20, 0x30, 0x21}) == "TTTE1=1");
  // … unless nothing else is left.
  CHECK(rolesOf(toy::scratch, {1, 2, 3, 1}) == "TTTE2=0");
  // Within the description's mask.
  CHECK(rolesOf(toy::status, {0x81, 0x81, 0}) == "TTE1=0");
  CHECK(rolesOf(toy::status, {0x80, 0x80, 0}) == "...");
  CHECK(rolesOf(toy::noise, {1, 2, 3}) == "...");
  CHECK(rolesOf(toy::exact, {1, 1, 2}) == "...");
  CHECK(rolesOf(toy::noise, {1, 1, 3}, /*described=*/false) == "TTE2=2");
  // Of a register of policy poll-until the last read counts, change or not.
  CHECK(rolesOf(toy::turn, {1}) == "E4294967295=1");
  CHECK(rolesOf(toy::turn, {1, 1}) == "TE4294967295=1");
}

TEST_CASE("reads that change something are never a poll") {
  CHECK(rolesOf(toy::caught, {0, 0, 7}) == "...");
  CHECK(rolesOf(toy::stream, {1, 2, 3}) == "...");
  CHECK(rolesOf(toy::cookie, {1, 1, 2}) == "...");
  CHECK(rolesOf(toy::mayHang, {1, 1, 2}) == "...");
  ToyProgram program;
  program.open();
  program.write(toy::caught, 7);
  for (uint64_t offset : {toy::caught, toy::caught, toy::stream, toy::stream, toy::stream})
    program.read(offset);
  std::unique_ptr<MemoryTape> tape = program.finish();
  Replayed replayed = replay(*tape);
  INFO(summary(replayed));
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed.target->reads == 3 + 5);
  CHECK(replayed->grades.of(Rule::PollIteration) == 0);
  for (uint64_t offset : {toy::caught, toy::stream}) {
    ToyOptions options;
    options.faults.wrongOffsets = {offset};
    Replayed wrong = replay(*tape, options);
    CHECK(wrong.firstRule() == Rule::ValueDiffers);
  }
}

namespace {
/// Registers and what they gave, in order.
std::string rolesOfReads(std::initializer_list<std::pair<uint64_t, uint64_t>> reads) {
  TapeOfReads tape;
  for (auto [offset, value] : reads)
    tape.read(offset, value);
  return tape.roles();
}
} // namespace

TEST_CASE("a loop may look at several registers in turn") {
  using namespace toy;
  // Both change; each has its own end.
  CHECK(rolesOfReads({{scratch, 0},
                      {square, 8},
                      {scratch, 0},
                      {square, 8},
                      {scratch, 4},
                      {square, 8},
                      {scratch, 4},
                      {square, 0}}) == "TTTTE4=4T.E8=0");
  // One of them never does, and is read like others.
  CHECK(rolesOfReads({{scratch, 0}, {square, 7}, {scratch, 0}, {square, 7}, {scratch, 4}, {square, 7}}) ==
        "T.T.E4=4.");
  CHECK(rolesOfReads({{scratch, 0},
                      {square, 7},
                      {wide, 1},
                      {scratch, 0},
                      {square, 7},
                      {wide, 1},
                      {scratch, 4},
                      {square, 7},
                      {wide, 1}}) == "T..T..E4=4..");
  // Twice is no loop, nor is another order, nor what is read once; nor more registers than four.
  CHECK(rolesOfReads({{scratch, 0}, {square, 8}, {scratch, 4}, {square, 0}}) == "....");
  CHECK(rolesOfReads({{scratch, 0},
                      {square, 8},
                      {wide, 1},
                      {scratch, 4},
                      {wide, 1},
                      {square, 8},
                      {scratch, 4},
                      {square, 8},
                      {wide, 1}}) == ".........");
  CHECK(rolesOfReads({{scratch, 0},
                      {square, 8},
                      {wide, 1},
                      {count, 1},
                      {irq, 0},
                      {scratch, 0},
                      {square, 8},
                      {wide, 1},
                      {count, 1},
                      {irq, 0},
                      {scratch, 4},
                      {square, 8},
                      {wide, 1},
                      {count, 1},
                      {irq, 0}}) == "...............");
  // Never where a read of one of them changes something.
  for (uint64_t never : {caught, stream, cookie, mayHang})
    if (never == cookie) // Its value is of one run, but reading it does no harm.
      CHECK(rolesOfReads({{scratch, 0}, {never, 1}, {scratch, 0}, {never, 2}, {scratch, 4}, {never, 3}}) ==
            "T.T.E4=4.");
    else
      CHECK(rolesOfReads({{scratch, 0}, {never, 1}, {scratch, 0}, {never, 2}, {scratch, 4}, {never, 3}}) ==
            "......");
}

TEST_CASE("a program that looks at two registers in turn replays at every speed, and a change that does not "
          "come is "
          "named") {
  ToyProgram program;
  program.open();
  program.write(toy::scratch, 77);
  program.write(toy::square, 12);
  uint64_t last = 0, turns = 0;
  do {
    last = program.read(toy::status);
    program.read(toy::scratch);
    ++turns;
    llvm::cantFail(program.target().advance(1000));
  } while (program.tape().packets[last].value & busy);
  program.checkEqual("square", program.read(toy::square), 144);
  REQUIRE(turns > 3);
  std::unique_ptr<MemoryTape> tape = program.finish();
  for (uint64_t slowness : {1, 40})
    for (size_t block : {1, 4, 1000}) {
      tape->blockPackets = block;
      ToyOptions options;
      options.slowness = slowness;
      Replayed replayed = replay(*tape, options);
      INFO(slowness, " ", block, " ", summary(replayed));
      CHECK(replayed->verdict == Verdict::Match);
      CHECK(replayed->grades.of(Rule::PollFound) == 1);
      CHECK(replayed->grades.of(Rule::PollIteration) == turns - 1);
    }
  ToyOptions never;
  never.slowness = 1'000'000'000'000;
  Replayed hangs = replay(*tape, never);
  INFO(summary(hangs));
  CHECK(hangs.firstRule() == Rule::ConditionNotMet);
  REQUIRE(hangs->firstDivergence);
  CHECK(hangs->firstDivergence->place.packet == last);
  CHECK(hangs->firstDivergence->reg == "STATUS");
  // What does not change in the loop is compared, turn by turn.
  ToyOptions wrong;
  wrong.faults.wrongOffsets = {toy::scratch};
  CHECK(replay(*tape, wrong).firstRule() == Rule::ValueDiffers);
}

TEST_CASE("loops of several threads, and what ends a loop") {
  TapeOfReads mixed;
  for (auto [thread, value] : {std::pair(0, 0u), std::pair(1, 8u), std::pair(0, 0u), std::pair(1, 8u),
                               std::pair(0, 4u), std::pair(1, 0u)})
    mixed.read(toy::scratch, value, uint16_t(thread));
  CHECK(mixed.roles() == "TTTTE4=4E8=0");

  TapeOfReads broken;
  broken.read(toy::scratch, 0);
  broken.program.write(toy::fuse + 8, 1);
  broken.read(toy::scratch, 4);
  broken.program.marker("m");
  broken.read(toy::scratch, 5);
  CHECK(broken.roles() == "...");

  TapeOfReads far;
  far.read(toy::scratch, 0);
  for (int i = 0; i < 100; ++i)
    far.read(toy::id, toy::idValue, 1);
  far.read(toy::scratch, 4);
  CHECK(far.roles().find('E') == std::string::npos);
}

TEST_CASE("a tape that looks like one endless loop: every read gets its role, the runner's time limit is the "
          "bound") {
  TapeOfReads tape;
  for (int i = 0; i < 20'000; ++i)
    tape.read(toy::scratch, uint64_t(i & 1), uint16_t(i % 64));
  CHECK(tape.roles().size() >= 20'000);
}

TEST_CASE("substitute: the live value is handed back, waited for, and put into the field that has it") {
  ToyProgram program;
  program.open();
  uint64_t cookie = program.read(toy::cookie);
  uint64_t value = program.tape().packets[cookie].value;
  program.write(toy::cookieBack, value);
  program.poll(toy::cookieDone, 0xffffffff, value);
  program.read(toy::cookieDone);
  program.write(toy::cookieTag, 0xab000001 | (value & 0xff) << 8);
  program.read(toy::cookieTag);
  std::unique_ptr<MemoryTape> tape = program.finish();
  Replayed same = replay(*tape);
  INFO(summary(same));
  CHECK(same->verdict == Verdict::Match);
  CHECK(same->grades.of(Rule::LiveValue) == 0);

  ToyOptions options;
  options.faults.skew = 0x11; // Other cookies than the recorded ones.
  Replayed other = replay(*tape, options);
  INFO(summary(other));
  CHECK(other->verdict == Verdict::Match);
  CHECK(other->grades.of(Rule::LiveValue) == 6);
  uint64_t live = llvm::cantFail(other.target->read(0, toy::cookieBack, 4));
  CHECK(live != value);
  CHECK(llvm::cantFail(other.target->read(0, toy::cookieTag, 4)) == (0xab000001 | (live & 0xff) << 8));

  // The other bits of the field's register are compared as ever.
  options.faults.wrongOffsets = {toy::cookieTag};
  Replayed wrong = replay(*tape, options);
  CHECK(wrong.firstRule() == Rule::ValueDiffers);
  CHECK(wrong->firstDivergence->reg == "COOKIE_TAG");
  // A device that answers with another value than the one it gave.
  options.faults.wrongOffsets = {toy::cookieDone};
  Replayed forgot = replay(*tape, options);
  CHECK(forgot.firstRule() == Rule::ConditionNotMet);
}

TEST_CASE("substitute: a value that was never read is left as it is, and the latest of equal ones is meant") {
  llvm::Expected<Description> toy = parseDescription(toy::description, "toy");
  REQUIRE(bool(toy));
  auto index = [&](const char *name) { return toy->indexOf(*toy->findByName(name)); };
  Substitution substitution(&*toy);
  unsigned from = index("COOKIE"), to = index("COOKIE_BACK");
  CHECK(substitution.live(to, 5) == 5);
  substitution.wasRead(from, 5, 50);
  substitution.wasRead(from, 6, 60);
  CHECK(substitution.live(to, 5) == 50);
  CHECK(substitution.live(to, 6) == 60);
  CHECK(substitution.live(to, 7) == 7);
  CHECK(substitution.live(index("SCRATCH"), 5) == 5);
  substitution.wasRead(from, 5, 55);
  CHECK(substitution.live(to, 5) == 55);
  CHECK(substitution.recorded(to, 55, 5) == 5);
  CHECK(substitution.recorded(to, 50, 5) == 50);
  substitution.reset();
  CHECK(substitution.live(to, 5) == 5);
  for (uint64_t i = 0; i < 5000; ++i)
    substitution.wasRead(from, i, i + 1);
  CHECK(substitution.live(to, 4999) == 5000);
  CHECK(substitution.live(to, 0) == 0); // Long forgotten.
}

namespace {

/// The toy with a ring whose entries have the cookie as their tag, and as the value of their fence.
std::string describedWithTags() {
  std::string text = toy::description;
  auto replace = [&](llvm::StringRef from, llvm::StringRef to) {
    size_t at = text.find(from.str());
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to.str());
  };
  replace("flows-into: [{register: COOKIE_BACK}",
          "flows-into: [{layout: order, field: tag}, {register: COOKIE_BACK}");
  replace("registers:\n", "registers:\n"
                          "  - {name: RING, space: bar0, offset: 0x90, width: 8, class: address-low}\n"
                          "  - {name: RING_SIZE, space: bar0, offset: 0x98}\n"
                          "  - {name: BELL, space: bar0, offset: 0x9c, policy: side-effect}\n");
  return text +
         "layouts:\n"
         "  - name: order\n"
         "    size: 16\n"
         "    fields: [{name: kind, offset: 0}, {name: tag, offset: 4}, {name: at, offset: 8, width: 8, "
         "address: true}]\n"
         "    fence: {address: at, value: tag}\n"
         "queues: [{name: ring, base: RING, size: RING_SIZE, doorbell: BELL, layout: order}]\n";
}

/// Reads a cookie, submits an entry with it, has the toy copy the tag to where the fence is, waits for it
/// there.
std::unique_ptr<MemoryTape> tagTape(bool reads = true) {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  uint64_t value = 0x1234;
  if (reads)
    value = program.tape().packets[program.read(toy::cookie)].value;
  constexpr uint64_t fence = toyMemory + 0x100;
  std::vector<uint8_t> entry(16);
  entry[0] = 3;
  for (unsigned i = 0; i < 8; ++i) {
    entry[4 + (i & 3)] = uint8_t(value >> (8 * (i & 3)));
    entry[8 + i] = uint8_t(fence >> (8 * i));
  }
  llvm::cantFail(program.target().writeMemory(toyMemory, entry));
  Packet submit;
  submit.kind = PacketKind::Submit;
  submit.address = toyMemory;
  PacketExtra told;
  told.length = entry.size();
  told.payload = program.tape().store(entry);
  program.raw(submit, told);
  auto move = [&](uint64_t source, uint64_t destination, uint64_t command) {
    program.write(toy::source, source, 8);
    program.write(toy::destination, destination, 8);
    program.write(toy::count, 8, 8);
    program.write(toy::command, command);
    program.poll(toy::command, 1, 0);
  };
  move(toyMemory + 4, toy::bufferBase, 1);
  move(toy::bufferBase, fence, 3);
  program.waitMemory(fence, 4, 0xffffffff, value & 0xffffffff);
  program.load(fence, 8);
  program.load(toyMemory + 2, 4); // The lower half of the tag, with what is before it.
  std::unique_ptr<MemoryTape> tape = program.finish();
  tape->theDevices[0].description = describedWithTags();
  return tape;
}

} // namespace

TEST_CASE(
    "substitute: the live value goes into commands in memory, and its fence and what is read are told as "
    "recorded") {
  std::unique_ptr<MemoryTape> tape = tagTape();
  Replayed same = replay(*tape);
  INFO(summary(same));
  CHECK(same->verdict == Verdict::Match);
  CHECK(same->grades.of(Rule::LiveValue) == 0);

  ToyOptions options;
  options.faults.skew = 0x11;
  Replayed other = replay(*tape, options);
  INFO(summary(other));
  CHECK(other->verdict == Verdict::Match);
  CHECK(other->grades.of(Rule::LiveValue) == 5); // The cookie, the entry, the fence, both reads.
  auto wasRead = llvm::find_if(tape->packets, [](const Packet &packet) {
    return packet.kind == PacketKind::RegisterRead && packet.address == toy::cookie;
  });
  uint64_t live = wasRead->value + 3 * options.faults.skew;
  std::vector<uint8_t> stored(16);
  llvm::cantFail(other.target->readMemory(toyMemory, stored));
  for (unsigned i = 0; i < 4; ++i)
    CHECK(stored[4 + i] == uint8_t(live >> (8 * i)));
  CHECK(stored[0] == 3);

  // A device that writes another tag back, and one that spoils what is beside it.
  options.faults.corruptDma = 1;
  Replayed forgot = replay(*tape, options);
  INFO(summary(forgot));
  CHECK(forgot.firstRule() == Rule::ConditionNotMet);
  options.faults.corruptOffset = 5;
  Replayed spoilt = replay(*tape, options);
  INFO(summary(spoilt));
  CHECK(spoilt.firstRule() == Rule::ContentDiffers);
  CHECK(spoilt->firstDivergence->offset == 5);
  // Where the description does not say that the value flows there, the recorded one is what was submitted.
  tape->theDevices[0].description.replace(
      tape->theDevices[0].description.find("{layout: order, field: tag}, "), 29, "");
  options.faults = {};
  options.faults.skew = 0x11;
  Replayed left = replay(*tape, options);
  llvm::cantFail(left.target->readMemory(toyMemory, stored));
  CHECK(stored[4] != uint8_t(live));
  // A value that was never read is nobody's.
  Replayed unread = replay(*tagTape(/*reads=*/false), options);
  INFO(summary(unread));
  CHECK(unread->verdict == Verdict::Match);
  CHECK(unread->grades.of(Rule::LiveValue) == 0);
}

TEST_CASE("live values in memory: whole, in part, in bits, the newest, and none once it is overwritten") {
  LiveMemory memory;
  memory.learn(0x1000, 4, 0xffffffff, 0x11223344, 0xaabbccdd);
  auto told = [&](uint64_t address, std::vector<uint8_t> content) {
    memory.revert(address, content);
    return content;
  };
  using Bytes = std::vector<uint8_t>;
  CHECK(told(0xffe, {1, 2, 0xdd, 0xcc, 0xbb, 0xaa, 7}) == Bytes{1, 2, 0x44, 0x33, 0x22, 0x11, 7});
  CHECK(told(0x1000, {0xdd, 0xcc}) == Bytes{0x44, 0x33});
  CHECK(told(0x1003, {0xaa, 1}) == Bytes{0x11, 1});
  CHECK(told(0x1000, {0xde, 0xcc, 0xbb, 0xaa}) == Bytes{0xde, 0xcc, 0xbb, 0xaa});
  CHECK(told(0x1004, {0xdd, 0xcc}) == Bytes{0xdd, 0xcc});
  CHECK(memory.any(0x1003, 1));
  CHECK_FALSE(memory.any(0x1004, 100));
  CHECK_FALSE(memory.any(0xfff, 1));
  // A later value of the same place, and one that is the same in both runs.
  memory.learn(0x1000, 4, 0xffffffff, 5, 6);
  memory.learn(0x1000, 4, 0xffffffff, 0xaabbccdd, 0xaabbccdd);
  CHECK(told(0x1000, {6, 0, 0, 0}) == Bytes{5, 0, 0, 0});
  CHECK(told(0x1000, {0xdd, 0xcc, 0xbb, 0xaa}) == Bytes{0xdd, 0xcc, 0xbb, 0xaa});
  memory.overwritten(0x1003, 1);
  CHECK(memory.empty());
  // Two fields of one word.
  memory.learn(0x2000, 2, 0x00f0, 0x10, 0x20);
  memory.learn(0x2000, 2, 0xff00, 0x300, 0x400);
  CHECK(told(0x2000, {0x2a, 0x04}) == Bytes{0x1a, 0x03});
  CHECK(told(0x2000, {0x2a, 0x05}) == Bytes{0x1a, 0x05});
  memory.clear();
  memory.learn(0x3000, 4, ~uint64_t(0), 9, 9);
  CHECK(memory.empty());
  for (uint64_t i = 0; i < 70'000; ++i)
    memory.learn(i * 8, 8, ~uint64_t(0), 1, 2);
  CHECK(memory.any(8 * 65'535, 8));
  CHECK_FALSE(memory.any(8 * 65'536, 8));
  CHECK(told(~uint64_t(0) - 3, {1, 2, 3, 4}) == Bytes{1, 2, 3, 4});
}

TEST_CASE("interrupts that came together stand for the waits that they were recorded for") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.dma(true, toyMemory, 0, 4, true);
  program.dma(true, toyMemory, 8, 4, true);
  uint64_t first = program.waitInterrupt();
  std::unique_ptr<MemoryTape> tape = program.finish();
  REQUIRE(tape->extras[first].count == 2);
  // On the recorded device they came one by one.
  tape->extras[first].count = 1;
  tape->add(tape->packets[first], tape->extras[first]);
  tape->windows.clear();
  tape->endWindow(true);
  Replayed early = replay(*tape);
  INFO(summary(early));
  CHECK(early->verdict == Verdict::Match);
  CHECK(early->grades.of(Rule::InterruptCount) == 1);
  CHECK(early->grades.of(Rule::InterruptEarly) == 1);
  // A third one was not among them.
  tape->add(tape->packets[first], tape->extras[first]);
  tape->windows.clear();
  tape->endWindow(true);
  Replayed third = replay(*tape);
  INFO(summary(third));
  CHECK(third->grades.of(Grade::Timeout) == 1);
  CHECK(third->firstDivergence->place.packet == tape->packets.size() - 1);
}

TEST_CASE("what each rule decided is counted register by register") {
  ToyProgram program;
  program.open();
  program.write(toy::scratch, 1);
  program.read(toy::scratch);
  program.read(toy::noise);
  program.read(toy::status);
  program.read(toy::fuse + 0x100);
  program.marker("m");
  ToyOptions toy;
  toy.faults.wrongOffsets = {toy::status};
  toy.faults.skew = 7;
  ReplayOptions options = quickOptions();
  std::unique_ptr<MemoryTape> tape = program.finish();
  CHECK(replay(*tape, toy, options)->policies.empty());
  options.countByRegister = true;
  Replayed replayed = replay(*tape, toy, options);
  INFO(summary(replayed));
  GradeCounts sums;
  std::map<std::string, std::map<Rule, uint64_t>> rows;
  for (const PolicyCount &row : replayed->policies) {
    for (auto [rule, count] : row.rules)
      for (uint64_t i = 0; i < count; ++i)
        sums.add(rule);
    rows[row.reg ? row.reg->name : packetKindName(row.kind)] = row.rules;
  }
  for (unsigned rule = 0; rule < ruleCount; ++rule)
    CHECK(sums.of(Rule(rule)) == replayed->grades.of(Rule(rule)));
  CHECK(rows["SCRATCH"] == std::map<Rule, uint64_t>{{Rule::Same, 2}, {Rule::Evidence, 1}});
  CHECK(rows["NOISE"] == std::map<Rule, uint64_t>{{Rule::PolicyIgnore, 1}});
  CHECK(rows["STATUS"] == std::map<Rule, uint64_t>{{Rule::MaskedBits, 1}});
  CHECK(rows["register-read"] == std::map<Rule, uint64_t>{{Rule::Same, 1}});
  CHECK(rows["marker"] == std::map<Rule, uint64_t>{{Rule::Same, 1}});
  CHECK(replayed->policies.front().reg->name == "ID");
}
