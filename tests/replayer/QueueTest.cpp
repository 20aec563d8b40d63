// Replay and bisect of command queues: entries, transfers in rows, targets that are faster or slower.
#include "replayer/CommandCompletion.h"
#include "replayer/Commands.h"
#include "replayer/WindowPort.h"
#include "replayer/bisect/Bisect.h"
#include "tests/replayer/QueueProgram.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t data = QueueProgram::data, fence = data + 0x8000;
constexpr uint64_t head0 = MINNOW_QUEUE + MINNOW_Q_HEAD, done0 = MINNOW_QUEUE + MINNOW_Q_DONE;

std::vector<uint8_t> pattern(size_t size, uint8_t seed = 1) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = uint8_t(seed + 7 * i + i / 64);
  return bytes;
}

struct Played {
  std::unique_ptr<TapeSource> source;
  std::unique_ptr<FilterTarget> target;
  std::optional<ReplayReport> report;
  const ReplayReport *operator->() const { return &*report; }
  uint64_t of(Rule rule) const { return report->grades.of(rule); }
};

Played play(const MemoryTape &tape, std::unique_ptr<FilterTarget> target = openMinnow()) {
  Played played;
  played.source = llvm::cantFail(TapeSource::create(tape.copy()));
  played.target = std::move(target);
  Target *raw = played.target.get();
  llvm::Expected<ReplayReport> report = replayTape(*played.source, raw, quickOptions());
  if (!report)
    FAIL(llvm::toString(report.takeError()));
  played.report = std::move(*report);
  return played;
}

std::string summary(const Played &played) {
  std::string text = verdictName(played->verdict);
  for (unsigned rule = 0; rule < ruleCount; ++rule)
    if (uint64_t count = played->grades.of(Rule(rule)))
      text += " " + std::to_string(count) + " " + ruleName(Rule(rule));
  if (played->firstDivergence)
    text += "; " + divergenceText(*played->firstDivergence);
  return text;
}

/// Loads a block in rows, stores it in other rows, and waits for the fence.
struct Copy {
  QueueProgram program;
  QueueProgram::Submitted load, store, fenced;
  uint64_t bell = 0, waited = 0, completed = 0, again = 0;

  Copy() {
    program.store(data, pattern(0x400));
    program.store(data + 0x1000, std::vector<uint8_t>(0x400, 0xee));
    load = program.submit(0, minnow_dma(MINNOW_DMA_LOAD, data, 0, 32, 4, 256, 32));
    store = program.submit(0, minnow_dma(MINNOW_DMA_STORE, data + 0x1000, 0, 16, 8, 64, 16));
    fenced = program.submit(0, minnow_fence(fence, 7, 0));
    bell = program.doorbell(0);
    waited = program.wait(fence, 7);
    program.completion(*load.descriptor);
    completed = program.completion(*store.descriptor);
    again = program.completion(*store.descriptor, true);
  }
};

} // namespace

TEST_CASE("Entries and transfers in rows replay to a match") {
  Copy copy;
  std::unique_ptr<MemoryTape> tape = copy.program.finish();
  Played played = play(*tape);
  CHECK_MESSAGE(played->verdict == Verdict::Match, summary(played));
  CHECK(played->grades.of(Grade::NotCaptured) == 0);
}

TEST_CASE("A wrong byte of one row is named by its place in the transfer, and by the command") {
  Copy copy;
  std::unique_ptr<MemoryTape> tape = copy.program.finish();
  for (uint64_t offset : {0, 15, 16, 100, 127}) {
    auto target = openMinnow();
    uint64_t wrong = data + 0x1000 + offset / 16 * 64 + offset % 16;
    target->onReadMemory = [=](uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
      if (wrong >= iova && wrong - iova < out.size())
        out[wrong - iova] ^= 0x10;
    };
    Played played = play(*tape, std::move(target));
    REQUIRE_MESSAGE(played->firstDivergence, summary(played));
    const Divergence &first = *played->firstDivergence;
    CHECK(first.place.packet == copy.completed);
    CHECK(first.offset == offset);
    CHECK(first.rule == Rule::ContentDiffers);
    CHECK(first.place.commandText.find("q0 #1 DMA_STORE") == 0);
  }
  // Between the rows nothing was written, and nothing is compared.
  auto target = openMinnow();
  target->onReadMemory = [](uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
    if (iova <= data + 0x1010 && data + 0x1010 - iova < out.size())
      out[data + 0x1010 - iova] ^= 1;
  };
  CHECK(play(*tape, std::move(target))->verdict == Verdict::Match);
}

TEST_CASE("What the host stored in rows is put back in rows") {
  QueueProgram program;
  program.store(data, std::vector<uint8_t>(256, 0x11));
  Packet packet;
  packet.kind = PacketKind::MemoryWrite;
  packet.address = data;
  PacketExtra extra;
  extra.length = 24;
  extra.count = 3;
  extra.expected = 64;
  std::vector<uint8_t> content = pattern(24), whole(256, 0x11);
  extra.payload = program.tape().store(content);
  for (size_t row = 0; row < 3; ++row)
    std::copy_n(content.begin() + row * 8, 8, whole.begin() + row * 64);
  llvm::cantFail(program.target().writeMemory(data, whole));
  program.raw(packet, extra);
  program.acquire(data, 256);
  std::unique_ptr<MemoryTape> tape = program.finish();
  Played played = play(*tape);
  CHECK_MESSAGE(played->verdict == Verdict::Match, summary(played));
  CHECK(std::equal(whole.begin(), whole.end(), tape->blob(tape->extras.back().payload)->begin()));
}

TEST_CASE("Rows that make no sense are refused, and nothing else happens") {
  struct Case {
    uint64_t length, count, stride;
  };
  for (Case wrong : {Case{25, 3, 64}, Case{24, 3, ~uint64_t(0) / 2}, Case{1 << 20, 1 << 18, 4},
                     Case{0, 5, 64}, Case{24, 3, 1 << 20}})
    for (PacketKind kind : {PacketKind::MemoryWrite, PacketKind::DmaCompletion}) {
      Copy copy;
      Packet packet;
      packet.kind = kind;
      packet.flags = TransferFromDevice;
      packet.address = data;
      PacketExtra extra;
      extra.length = wrong.length;
      extra.count = wrong.count;
      extra.expected = wrong.stride;
      extra.link = *copy.store.descriptor;
      extra.payload = copy.program.tape().store(std::vector<uint8_t>(std::min<uint64_t>(wrong.length, 64)));
      copy.program.raw(packet, extra);
      Played played = play(*copy.program.finish());
      INFO(wrong.length, " in ", wrong.count, " of ", wrong.stride, ": ", summary(played));
      CHECK(played->verdict == Verdict::Error);
      CHECK(played->packetsReplayed == played->packets);
    }
}

TEST_CASE("A transfer of a Submit writes nothing: what the device has written stays") {
  Copy copy;
  // Recorded as if the memory had been something else: the tape's word about it is evidence only.
  copy.program.tape().extras[*copy.load.descriptor].payload =
      copy.program.tape().store(std::vector<uint8_t>(128, 0x77));
  Played played = play(*copy.program.finish());
  CHECK_MESSAGE(played->verdict == Verdict::Match, summary(played));
}

TEST_CASE("What the device itself is to write needs no payload; what was not captured does") {
  for (uint8_t flag : {uint8_t(DeviceOwned), uint8_t(NotCaptured)}) {
    QueueProgram program;
    program.store(data, pattern(64));
    program.submit(0, minnow_dma(MINNOW_DMA_LOAD, data, 0, 64, 1, 0, 0));
    auto first = program.submit(0, minnow_dma(MINNOW_DMA_STORE, data + 0x1000, 0, 64, 1, 0, 0));
    program.submit(0, minnow_dma(MINNOW_DMA_LOAD, data + 0x1000, 0x100, 64, 1, 0, 0), flag);
    auto last = program.submit(0, minnow_dma(MINNOW_DMA_STORE, data + 0x2000, 0x100, 64, 1, 0, 0));
    program.submit(0, minnow_fence(fence, 1, 0));
    program.doorbell(0);
    program.wait(fence, 1);
    program.completion(*first.descriptor);
    program.completion(*last.descriptor);
    Played played = play(*program.finish());
    CHECK_MESSAGE(played->verdict == (flag == DeviceOwned ? Verdict::Match : Verdict::Incomplete),
                  summary(played));
    CHECK(played->grades.divergences() == 0);
  }
}

TEST_CASE("Where nothing is mapped there was nothing to capture; where the device still writes, nothing to "
          "compare") {
  Copy copy;
  MemoryTape &tape = copy.program.tape();
  auto add = [&](PacketKind kind, uint64_t address, uint8_t flags) {
    Packet packet;
    packet.kind = kind;
    packet.address = address;
    packet.flags = flags;
    PacketExtra extra;
    extra.length = 64;
    return tape.add(packet, extra);
  };
  for (PacketKind kind : {PacketKind::Submit, PacketKind::MemoryWrite, PacketKind::DmaDescriptor})
    add(kind, QueueProgram::base + QueueProgram::size - 8, NotCaptured | TransferToDevice);
  uint64_t again = add(PacketKind::DmaCompletion, data + 0x1000, TransferFromDevice | DeviceOwned);
  tape.extras[again].link = *copy.store.descriptor;
  auto whole = copy.program.finish();
  Played played = play(*whole);
  CHECK_MESSAGE(played->verdict == Verdict::Match, summary(played));
  CHECK(played.of(Rule::NotMapped) == 3);
  CHECK(played.of(Rule::StillOwned) == 1);
  uint64_t lookedAt = played.target->memoryReads;
  whole->packets[again].flags = TransferFromDevice;
  whole->packets[again - 1].address = whole->packets[again - 2].address = whole->packets[again - 3].address =
      data;
  played = play(*whole);
  CHECK_MESSAGE(played->verdict == Verdict::Incomplete, summary(played));
  CHECK(played.of(Rule::ContentNotCaptured) == 4);
  CHECK(played.target->memoryReads == lookedAt + 1); // Nobody looks at what is still owned.
}

TEST_CASE("A queue that is farther than recorded will do; one that is not is waited for, but not for ever") {
  QueueProgram program;
  for (unsigned i = 0; i < 6; ++i)
    program.submit(0, minnow_nop());
  program.doorbell(0);
  program.settle();
  uint64_t head = program.read(head0), done = program.read(done0);
  MemoryTape tape = *program.finish();
  CHECK(tape.packets[head].value == 6);
  CHECK(play(tape)->verdict == Verdict::Match); // Waited for: nothing else lets the time pass.

  // Recorded earlier than it is seen now.
  tape.packets[head].value = tape.packets[done].value = 3;
  Played ahead = play(tape);
  CHECK_MESSAGE(ahead->verdict == Verdict::Match, summary(ahead));
  CHECK(ahead.of(Rule::QueueProgress) + ahead.of(Rule::Same) == tape.packets.size());

  // Recorded farther than a queue of six can come, which is not behind its tail.
  for (uint64_t packet : {head, done}) {
    MemoryTape wrong = tape;
    wrong.packets[packet].value = 7;
    Played behind = play(wrong);
    REQUIRE_MESSAGE(behind->firstDivergence, summary(behind));
    CHECK(behind->firstDivergence->rule == Rule::ConditionNotMet);
    CHECK(behind->firstDivergence->place.packet == packet);
  }

  // A device that says for some time that it has got nowhere.
  tape.packets[head].value = 6;
  auto slow = openMinnow();
  unsigned asked = 0;
  slow->onRead = [&](uint64_t address, uint64_t value) {
    return address == head0 && asked++ < 10 ? 0 : value;
  };
  CHECK(play(tape, std::move(slow))->verdict == Verdict::Match);
  CHECK(asked == 11);
  auto stuck = openMinnow();
  stuck->onRead = [](uint64_t address, uint64_t value) { return address == head0 ? 5 : value; };
  CHECK(play(tape, std::move(stuck))->firstDivergence->rule == Rule::ConditionNotMet);
}

TEST_CASE("A ring that wraps: as far is counted from the tail") {
  QueueProgram program(8);
  std::vector<uint64_t> heads;
  for (unsigned round = 0; round < 4; ++round) {
    for (unsigned i = 0; i < 5; ++i)
      program.submit(0, minnow_nop());
    program.doorbell(0);
    program.settle();
    heads.push_back(program.read(head0));
  }
  MemoryTape tape = *program.finish();
  for (uint64_t packet : heads)
    tape.packets[packet].value = (tape.packets[packet].value + 8 - 3) % 8;
  Played played = play(tape);
  CHECK_MESSAGE(played->verdict == Verdict::Match, summary(played));
  CHECK(played.of(Rule::QueueProgress) >= 1);
  // One behind the tail: before the ring has gone round, no sound queue is there.
  MemoryTape wrong = tape;
  wrong.packets[heads[0]].value = 6;
  CHECK(play(wrong)->verdict == Verdict::Divergence);
}

TEST_CASE("A fence that was passed before it was looked at is as good as met; another queue's is not") {
  for (unsigned other : {0, 1}) {
    QueueProgram program;
    program.submit(0, minnow_fence(fence, 1, 0));
    program.doorbell(0);
    uint64_t first = program.wait(fence, 1);
    program.submit(other, minnow_fence(fence, 2, 0));
    uint64_t bell = program.doorbell(other);
    program.wait(fence, 2);
    MemoryTape tape = *program.finish();
    // As a program would that waits for the first fence only when both were handed over.
    std::rotate(tape.packets.begin() + long(first), tape.packets.begin() + long(first) + 1,
                tape.packets.begin() + long(bell) + 1);
    std::rotate(tape.extras.begin() + long(first), tape.extras.begin() + long(first) + 1,
                tape.extras.begin() + long(bell) + 1);
    for (size_t i = 0; i < tape.packets.size(); ++i)
      tape.packets[i].extra = uint32_t(i + 1);
    auto fast = openMinnow();
    fast->onReadMemory = [](uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
      if (iova == fence && out[0] == 1)
        out[0] = 2;
    };
    Played played = play(tape, std::move(fast));
    INFO(summary(played));
    if (other) {
      REQUIRE(played->firstDivergence);
      CHECK(played->firstDivergence->rule == Rule::ConditionNotMet);
      CHECK(played->firstDivergence->place.commandText.find("FENCE") != std::string::npos);
    } else {
      CHECK(played->verdict == Verdict::Match);
      CHECK(played.of(Rule::FencePassed) == 1);
    }
  }
}

TEST_CASE(
    "The second look at a transfer is compared where it found the same, and evidence where it did not") {
  Copy copy;
  MemoryTape tape = *copy.program.finish();
  uint64_t seen = 0;
  auto late = [&] {
    auto target = openMinnow();
    seen = 0;
    target->onReadMemory = [&](uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
      if (iova == data + 0x1000 && ++seen == 2)
        out[3] ^= 0x80;
    };
    return target;
  };
  Played differs = play(tape, late());
  REQUIRE_MESSAGE(differs->firstDivergence, summary(differs));
  CHECK(differs->firstDivergence->place.packet == copy.again);
  tape.packets[copy.again].origin = Origin::Recorder;
  Played evidence = play(tape, late());
  CHECK_MESSAGE(evidence->verdict == Verdict::Match, summary(evidence));
  CHECK(evidence.of(Rule::Evidence) >= 1);
}

TEST_CASE("Packets are told in commands") {
  Copy copy;
  auto source = llvm::cantFail(TapeSource::create(copy.program.finish()));
  auto text = [&](uint64_t packet) { return llvm::cantFail(commandText(*source, packet)); };
  CHECK(text(copy.load.submit).find("q0 #0 DMA_LOAD host=0x1020000") == 0);
  CHECK(text(*copy.load.descriptor) == text(copy.load.submit));
  CHECK(text(copy.completed) == text(copy.store.submit));
  CHECK(text(copy.again) == text(copy.store.submit));
  CHECK(text(copy.waited) == text(copy.fenced.submit));
  CHECK(text(copy.bell) == "3 commands: " + text(copy.load.submit) + "; " + text(copy.store.submit) + "; " +
                               text(copy.fenced.submit));
  CHECK(text(0).empty());
  CHECK(llvm::cantFail(submitsOfDoorbell(*source, copy.bell)) ==
        std::vector<uint64_t>{copy.load.submit, copy.store.submit, copy.fenced.submit});
  CHECK(llvm::cantFail(doorbellOf(*source, *copy.load.descriptor)) == copy.bell);
}

TEST_CASE("A window's port: whole and part words, and only where the device lets it be used") {
  Copy copy;
  auto source = llvm::cantFail(TapeSource::create(copy.program.finish()));
  auto target = openMinnow();
  auto needs = llvm::cantFail(findNeeds(*source, std::nullopt));
  DeviceBinding binding = llvm::cantFail(DeviceBinding::bind(*source, 0, *target, {}, needs[0]));
  const InternalWindow &window = source->description(0)->windows[0];
  WindowPort port = llvm::cantFail(WindowPort::open(binding, window));
  llvm::cantFail(target->write(0, MINNOW_DBG_ADDR, 4, 0x44));
  std::vector<uint8_t> all(window.size), content = pattern(3001), back(3001);
  for (uint64_t offset : {0x100, 0x1005, 0xffff - 3001}) {
    llvm::cantFail(port.write(offset, content));
    llvm::cantFail(port.read(offset, back));
    CHECK(back == content);
    std::copy(content.begin(), content.end(), all.begin() + long(offset));
  }
  std::vector<uint8_t> peeked(window.size);
  llvm::cantFail(target->peek("scratchpad", 0, peeked));
  CHECK(peeked == all);
  CHECK(llvm::cantFail(target->read(0, MINNOW_DBG_ADDR, 4)) == 0x44);

  llvm::cantFail(target->write(0, MINNOW_CONTROL, 4, MINNOW_CONTROL_ENABLE));
  llvm::Expected<WindowPort> refused = WindowPort::open(binding, window);
  REQUIRE(!refused);
  Failure failure = toFailure(refused.takeError());
  CHECK(failure.code == "not-visible");
  CHECK(failure.message.find("CONTROL & 0x1 = 0x0 or STATUS & 0x2 = 0x2") != std::string::npos);
}

TEST_CASE("A keyframe's window is restored through the port") {
  QueueProgram program;
  std::vector<uint8_t> content = pattern(256, 9);
  program.store(data, content);
  program.submit(0, minnow_dma(MINNOW_DMA_LOAD, data, 0x200, 256, 1, 0, 0));
  program.submit(0, minnow_fence(fence, 1, 0));
  program.doorbell(0);
  program.wait(fence, 1);
  uint64_t cut = program.rewind(0);
  auto stored = program.submit(0, minnow_dma(MINNOW_DMA_STORE, data + 0x1000, 0x200, 256, 1, 0, 0));
  program.submit(0, minnow_fence(fence, 2, 0));
  program.doorbell(0);
  program.wait(fence, 2);
  program.completion(*stored.descriptor);
  std::unique_ptr<MemoryTape> whole = program.finish();
  for (bool right : {true, false}) {
    MemoryTape tape;
    tape.blobs = whole->blobs;
    tape.theDevices = whole->theDevices;
    tape.theSpaces = whole->theSpaces;
    Keyframe keyframe;
    keyframe.restorable = true;
    keyframe.mappings.push_back({0, QueueProgram::base, QueueProgram::size, {}});
    std::vector<uint8_t> kept = content;
    kept[17] ^= right ? 0 : 1;
    keyframe.internal.push_back({0, 0x200, 256, tape.store(kept)});
    for (auto [offset, value] :
         {std::pair<uint64_t, uint64_t>{MINNOW_QUEUE + MINNOW_Q_BASE_LO, QueueProgram::base},
          {MINNOW_QUEUE + MINNOW_Q_SIZE, 16},
          {MINNOW_CONTROL, 1}})
      keyframe.registers.push_back({1, offset, 4, value});
    tape.keyframes.push_back(keyframe);
    for (uint64_t i = cut; i < whole->packets.size(); ++i) {
      PacketExtra extra = whole->extras[i];
      if (whole->packets[i].kind == PacketKind::DmaCompletion)
        extra.link -= cut;
      tape.add(whole->packets[i], extra);
    }
    tape.endWindow(true);
    Played played = play(tape);
    INFO(summary(played));
    CHECK(played->verdict == (right ? Verdict::Match : Verdict::Divergence));
    if (!right)
      CHECK(played->firstDivergence->offset == 17);
  }
}

TEST_CASE("Deep: a byte that a load brought wrong is named at its doorbell, long before anybody sees it") {
  QueueProgram program;
  uint64_t guilty = 0, shown = 0;
  for (unsigned i = 1; i <= 40; ++i) {
    program.marker("op");
    program.store(data + 64 * i, pattern(64, uint8_t(i)));
    auto load = program.submit(0, minnow_dma(MINNOW_DMA_LOAD, data + 64 * i, 64 * i, 64, 1, 0, 0));
    program.submit(0, minnow_fence(fence, i, 0));
    uint64_t bell = program.doorbell(0);
    program.wait(fence, i);
    program.completion(*load.descriptor);
    if (i == 5)
      guilty = bell;
  }
  auto stored = program.submit(0, minnow_dma(MINNOW_DMA_STORE, data + 0x2000, 64 * 5, 64, 1, 0, 0));
  program.submit(0, minnow_fence(fence, 99, 0));
  program.doorbell(0);
  program.wait(fence, 99);
  shown = program.completion(*stored.descriptor);
  auto source = llvm::cantFail(TapeSource::create(program.finish()));
  constexpr uint64_t wrong = data + 64 * 5 + 40;
  Endpoints endpoints;
  auto single = [](std::unique_ptr<Target> target) {
    TargetSet set;
    set.targets.push_back(target.get());
    set.owned.push_back(std::move(target));
    return set;
  };
  endpoints.good = [&]() -> llvm::Expected<TargetSet> { return single(openMinnow()); };
  endpoints.bad = [&]() -> llvm::Expected<TargetSet> {
    // What the device reads at one place differs from what the host finds there.
    std::unique_ptr<Target> inner = llvm::cantFail(openTarget("model:minnow"));
    Target *memory = inner.get();
    auto target = std::make_unique<FilterTarget>(std::move(inner));
    target->afterWriteMemory = [memory](uint64_t iova, llvm::ArrayRef<uint8_t> in) {
      if (wrong < iova || wrong - iova >= in.size())
        return;
      uint8_t byte = uint8_t(in[wrong - iova] ^ 0x20);
      llvm::cantFail(memory->writeMemory(wrong, byte));
    };
    target->onReadMemory = [](uint64_t iova, llvm::MutableArrayRef<uint8_t> out) {
      if (wrong >= iova && wrong - iova < out.size())
        out[wrong - iova] ^= 0x20;
    };
    return single(std::move(target));
  };
  BisectOptions options;
  options.deep = true;
  BisectReport report = llvm::cantFail(bisectTape(*source, endpoints, options));
  REQUIRE(report.first);
  CHECK(std::string(report.method) == "deep-lockstep");
  CHECK(report.first->place.packet == guilty);
  CHECK(report.first->space == "scratchpad");
  CHECK(report.first->offset == 64 * 5 + 40);
  CHECK(report.first->place.commandText.find("DMA_LOAD") != std::string::npos);
  REQUIRE(report.observed);
  CHECK(report.observed->place.packet == shown);
  REQUIRE(!report.writers.empty());
  CHECK(report.writers.front().place.packet == guilty);
}

namespace {

const char *completingDevice = R"(
tapeback-description: 1
name: c
spaces: [bar0]
registers: [{name: BASE, offset: 0, width: 8}, {name: SIZE, offset: 8}, {name: TAIL, offset: 12}, {name: TAIL1, offset: 16}, {name: HEAD, offset: 20}]
layouts:
  - name: entry
    size: 8
    tag: id
    opcode: {offset: 0, width: 1}
    fields: [{name: id, offset: 2, width: 2}, {name: at, offset: 4, address: true}]
    forms:
      - {name: DO, opcode: 0}
      - {name: MAKE, opcode: 1, fields: [{name: n, offset: 1, width: 1}], creates: {kind: completion-queue, number: n, base: at, size: n}}
  - name: answer
    size: 8
    fields: [{name: queue, offset: 0, width: 2}, {name: id, offset: 2, width: 2}, {name: phase, offset: 4, bits: 0}]
    completes: {queue: queue, tag: id, phase: phase}
queues:
  - {name: q0, number: 7, base: BASE, size: SIZE, doorbell: TAIL, layout: entry}
  - {name: q1, number: 8, base: BASE, size: SIZE, doorbell: TAIL1, layout: entry}
completion-queues: [{name: c0, number: 0, base: BASE, size: SIZE, doorbell: HEAD, layout: answer}]
)";

std::vector<uint8_t> answer(uint8_t queue, uint8_t tag, bool phase) {
  return {queue, 0, tag, 0, phase, 0, 0, 0};
}
std::vector<uint8_t> entryOf(uint8_t tag, uint8_t opcode = 0, uint8_t at = 0) {
  return {opcode, 0, tag, 0, at, 0, 0, 0};
}

} // namespace

TEST_CASE("completions: by number and tag, in any order, round and round") {
  Description d = cantFail(parseDescription(completingDevice, "test"));
  CommandCompletion follower(&d);
  constexpr uint64_t base = 0x40, size = 2;
  follower.submitted(0, 0, entryOf(5));
  follower.submitted(0, 1, entryOf(6));
  follower.submitted(1, 0, entryOf(5));
  CHECK(follower.next(base, size) == base);
  CHECK(!follower.saw(base, size, answer(7, 6, false))); // Of the round before: not there yet.
  CHECK(follower.seen(base) == 0);
  CHECK(follower.saw(base, size, answer(7, 6, true)));
  CHECK(follower.next(base, size) == base + 8);
  CHECK(follower.find(0, 1)); // The second is done, the first is not, nor the other queue's of that tag.
  CHECK(!follower.find(0, 0));
  CHECK(!follower.find(1, 0));
  CHECK(follower.saw(base, size, answer(8, 5, true)));
  CHECK(follower.find(1, 0));
  CHECK(!follower.find(0, 0));
  CHECK(follower.next(base, size) == base);
  CHECK(!follower.saw(base, size, answer(7, 5, true))); // The phase turned.
  CHECK(follower.saw(base, size, answer(7, 5, false)));
  CHECK(follower.find(0, 0));
  CHECK(follower.seen(base) == 3);
  follower.forget(0, 0);
  CHECK(!follower.find(0, 0));
  // One that nobody submitted is passed over.
  CHECK(follower.saw(base, size, answer(7, 99, false)));
  CHECK(follower.seen(base) == 4);
}

TEST_CASE("completions: a ring that is made anew, and a reset, begin anew") {
  Description d = cantFail(parseDescription(completingDevice, "test"));
  CommandCompletion follower(&d);
  constexpr uint64_t base = 0x40, size = 4;
  follower.submitted(0, 0, entryOf(5));
  CHECK(follower.saw(base, size, answer(7, 5, true)));
  CHECK(follower.next(base, size) == base + 8);
  follower.submitted(0, 1, entryOf(6, 1, base));
  CHECK(follower.next(base, size) == base);
  CHECK(follower.find(0, 0));
  follower.reset();
  CHECK(!follower.find(0, 0));
  CHECK(!follower.saw(base, size, answer(7, 6, false)));
  CHECK(follower.saw(base, size, answer(7, 6, true)));
  CHECK(!follower.find(0, 1)); // It was submitted before the reset.
}
