// diff: what goes together, what differs, and each kind of difference where it must be reported.
#include "replayer/diff/Align.h"
#include "replayer/diff/TapeDiff.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

DiffReport compareTapes(const MemoryTape &a, const MemoryTape &b, DiffOptions options = {}) {
  auto open = [](const MemoryTape &tape) { return llvm::cantFail(TapeSource::create(tape.copy())); };
  return llvm::cantFail(diffTapes(open(a), open(b), options));
}

std::string words(const DiffReport &report) {
  std::string text = verdictName(report.verdict);
  for (const TapeDifference &difference : report.differences)
    text += "\n  " + differenceText(difference);
  for (const auto &[rule, count] : report.tolerated)
    text += "\n  tolerated " + std::to_string(count) + " " + rule;
  for (const auto &[why, count] : report.notCompared)
    text += "\n  not compared " + std::to_string(count) + " " + why;
  return text;
}

/// A run with a bit of everything; `change` happens in the middle of it, on one of the two tapes.
using Step = std::function<void(ToyProgram &)>;
std::unique_ptr<MemoryTape> sampleRun(const Step &change = {}, uint64_t iova = toyMemory,
                                      ToyOptions toy = {}) {
  ToyProgram program(std::move(toy));
  program.open();
  program.map(iova, 4096);
  std::vector<uint8_t> pattern(64);
  for (size_t i = 0; i < pattern.size(); ++i)
    pattern[i] = uint8_t(i * 7);
  program.marker("load");
  program.store(iova, pattern);
  program.dma(true, iova, 0, 64);
  program.marker("work");
  program.square(5);
  if (change)
    change(program);
  program.marker("work");
  program.square(7);
  program.marker("unload");
  program.dma(false, iova + 128, 0, 64);
  program.checkMemory("copied", iova + 128, pattern);
  return program.finish();
}

/// The tape with one packet changed after it was recorded.
std::unique_ptr<MemoryTape> edited(std::unique_ptr<MemoryTape> tape, PacketKind kind,
                                   const std::function<void(MemoryTape &, Packet &, PacketExtra &)> &edit) {
  for (size_t i = tape->packets.size(); i-- > 0;)
    if (tape->packets[i].kind == kind && tape->packets[i].origin == Origin::Program) {
      edit(*tape, tape->packets[i], tape->extras[i]);
      return tape;
    }
  FAIL("no such packet");
  return tape;
}

/// The one kind of difference there is, and its count.
void checkOnly(const DiffReport &report, DiffKind kind, uint64_t count = 1) {
  INFO(words(report));
  CHECK(report.verdict == Verdict::Divergence);
  CHECK(exitCodeFor(report) == 1);
  CHECK(report.total() == count);
  CHECK(report.counts[unsigned(kind)] == count);
  REQUIRE(report.first);
  CHECK(report.first->kind == kind);
}

std::vector<std::pair<size_t, size_t>> alignText(llvm::StringRef a, llvm::StringRef b, size_t edits = 1024) {
  auto keys = [](llvm::StringRef text) { return std::vector<uint64_t>(text.begin(), text.end()); };
  return alignKeys(keys(a), keys(b), edits);
}

} // namespace

TEST_CASE("align: a longest common subsequence") {
  CHECK(alignText("", "").empty());
  CHECK(alignText("abc", "").empty());
  CHECK(alignText("abc", "abc").size() == 3);
  CHECK(alignText("abcabba", "cbabac").size() == 4);
  CHECK(alignText("xaxbxc", "abc").size() == 3);
  CHECK(alignText("abc", "def").empty());
}

TEST_CASE("align: against all subsequences, for random words") {
  std::mt19937_64 random(11);
  for (unsigned round = 0; round < 400; ++round) {
    std::string a, b;
    for (size_t n = random() % 12; n; --n)
      a += char('a' + random() % 3);
    for (size_t n = random() % 12; n; --n)
      b += char('a' + random() % 3);
    std::vector<std::vector<size_t>> longest(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 1; i <= a.size(); ++i)
      for (size_t k = 1; k <= b.size(); ++k)
        longest[i][k] =
            a[i - 1] == b[k - 1] ? longest[i - 1][k - 1] + 1 : std::max(longest[i - 1][k], longest[i][k - 1]);
    CAPTURE(a);
    CAPTURE(b);
    for (size_t edits : {size_t(1024), size_t(2)}) {
      auto pairs = alignText(a, b, edits);
      for (size_t i = 0; i < pairs.size(); ++i) {
        REQUIRE(a[pairs[i].first] == b[pairs[i].second]);
        if (i)
          REQUIRE((pairs[i - 1].first < pairs[i].first && pairs[i - 1].second < pairs[i].second));
      }
      if (edits == 1024)
        REQUIRE(pairs.size() == longest[a.size()][b.size()]);
    }
  }
}

TEST_CASE("diff: a tape is what it is") {
  DiffReport report = compareTapes(*sampleRun(), *sampleRun());
  INFO(words(report));
  CHECK(report.verdict == Verdict::Match);
  CHECK(exitCodeFor(report) == 0);
  CHECK(report.aligned > 30);
  CHECK(report.exact == report.aligned);
  CHECK_FALSE(report.first);
}

TEST_CASE("diff: another answer of a register") {
  ToyOptions other;
  other.faults.wrongSquareOf = 7;
  DiffReport report = compareTapes(*sampleRun(), *sampleRun({}, toyMemory, other));
  checkOnly(report, DiffKind::Value);
  CHECK(report.first->what.reg == "SQUARE");
  CHECK(report.first->what.place.marker == "work");
  CHECK(report.first->what.place.markerOccurrence == 2);
  CHECK(report.first->what.expected == 49u);
  CHECK(report.first->what.actual != 49u);
}

TEST_CASE("diff: policies count, so that what is ignored or masked is no difference") {
  auto reads = [](ToyProgram &program) {
    program.read(toy::noise);
    program.read(toy::status);
  };
  ToyOptions other;
  other.faults.skew = 12345;
  std::unique_ptr<MemoryTape> tape = sampleRun(reads, toyMemory, other);
  for (Packet &packet : tape->packets)
    if (packet.kind == PacketKind::RegisterRead && packet.address == toy::status)
      packet.value ^= 1; // Outside the mask.
  DiffReport report = compareTapes(*sampleRun(reads), *tape);
  INFO(words(report));
  CHECK(report.verdict == Verdict::Match);
  CHECK(report.tolerated["ignore"] == 1);
  CHECK(report.tolerated["mask"] == 1);
}

TEST_CASE("diff: other content that the device has written, and a check that fails of it") {
  ToyOptions other;
  other.faults.corruptDma = 1;
  other.faults.corruptOffset = 9;
  auto bad = [&] {
    ToyProgram program(other);
    program.open();
    program.map(toyMemory, 4096);
    program.dma(true, toyMemory, 0, 64);
    program.dma(false, toyMemory + 128, 0, 64);
    program.check("copied", false);
    return program.finish();
  };
  auto good = [&] {
    ToyProgram program;
    program.open();
    program.map(toyMemory, 4096);
    program.dma(true, toyMemory, 0, 64);
    program.dma(false, toyMemory + 128, 0, 64);
    program.check("copied", true);
    return program.finish();
  };
  DiffReport report = compareTapes(*good(), *bad());
  INFO(words(report));
  CHECK(report.counts[unsigned(DiffKind::Content)] == 1);
  CHECK(report.counts[unsigned(DiffKind::Check)] == 1);
  CHECK(report.total() == 2);
  REQUIRE(report.first);
  CHECK(report.first->kind == DiffKind::Content);
  CHECK(report.first->what.offset == 9u);
  CHECK(report.differences[1].kind == DiffKind::Check);
}

TEST_CASE("diff: another input: a register, memory, a transfer") {
  auto writes = [](uint64_t value) {
    return [=](ToyProgram &program) { program.write(toy::scratch, value); };
  };
  DiffReport report = compareTapes(*sampleRun(writes(1)), *sampleRun(writes(0x81)));
  checkOnly(report, DiffKind::Input);
  CHECK(report.first->what.reg == "SCRATCH");
  CHECK(report.first->what.actual == 0x81u);

  auto stores = [](uint8_t byte) {
    return [=](ToyProgram &program) {
      std::vector<uint8_t> content(32, 0x11);
      content[17] = byte;
      program.store(toyMemory + 512, content);
    };
  };
  report = compareTapes(*sampleRun(stores(1)), *sampleRun(stores(2)));
  checkOnly(report, DiffKind::Input);
  CHECK(report.first->what.offset == 17u);
  CHECK(report.first->what.expected == 1u);
  CHECK(report.first->what.actual == 2u);
}

TEST_CASE("diff: another buffer") {
  auto loads = [](uint64_t region) {
    return [=](ToyProgram &program) {
      for (uint64_t i = 0; i < 2; ++i)
        program.map(0x400000 + i * 0x10000, 256);
      program.load(0x400000 + region * 0x10000 + 16, 8);
    };
  };
  checkOnly(compareTapes(*sampleRun(loads(0)), *sampleRun(loads(1))), DiffKind::Address);
}

TEST_CASE("diff: another condition") {
  auto polls = [](uint64_t mask) { return [=](ToyProgram &program) { program.poll(toy::status, mask, 0); }; };
  DiffReport report = compareTapes(*sampleRun(polls(2)), *sampleRun(polls(4)));
  checkOnly(report, DiffKind::Condition);
  CHECK(report.first->what.expected == 2u);
}

TEST_CASE("diff: what failed, timed out or hung in one of them") {
  for (Completion completion : {Completion::Failed, Completion::TimedOut, Completion::Pending}) {
    CAPTURE(int(completion));
    auto bad = edited(sampleRun(), PacketKind::Poll,
                      [&](MemoryTape &, Packet &packet, PacketExtra &) { packet.completion = completion; });
    checkOnly(compareTapes(*sampleRun(), *bad), DiffKind::Outcome);
    checkOnly(compareTapes(*bad, *sampleRun()), DiffKind::Outcome);
  }
}

TEST_CASE("diff: what only one of them has is deleted or inserted, and everything else still goes together") {
  auto more = [](ToyProgram &program) {
    program.write(toy::scratch, 3);
    program.read(toy::exact);
  };
  DiffReport report = compareTapes(*sampleRun(), *sampleRun(more));
  checkOnly(report, DiffKind::Inserted, 2);
  CHECK(report.differences.size() == 1);
  CHECK(report.first->count == 2);
  CHECK(report.first->what.reg == "SCRATCH");
  CHECK(report.first->placeB.packet > 0);
  report = compareTapes(*sampleRun(more), *sampleRun());
  checkOnly(report, DiffKind::Deleted, 2);
  CHECK(report.first->what.place.marker == "work");
}

TEST_CASE("diff: a whole marker more, among many of the same name") {
  auto run = [](unsigned times, unsigned odd) {
    ToyProgram program;
    program.open();
    for (unsigned i = 0; i < times; ++i) {
      program.marker(i == odd ? "odd" : "op");
      program.square(i == odd ? 3 : 4);
    }
    return program.finish();
  };
  DiffReport report = compareTapes(*run(40, 99), *run(41, 20));
  INFO(words(report));
  CHECK(report.total() == report.counts[unsigned(DiffKind::Inserted)]);
  CHECK(report.total() == 4); // Marker, write, poll, read.
  CHECK(report.first->what.kind == "marker");
}

TEST_CASE("diff: loops that wait are compared by how they end") {
  auto loop = [](unsigned turns, bool change = true) {
    return [=](ToyProgram &program) {
      Packet read;
      read.kind = PacketKind::RegisterRead;
      read.space = 1;
      read.width = 4;
      read.address = toy::irq;
      for (unsigned i = 0; i + 1 < turns; ++i) {
        read.value = change ? 1 : 2;
        program.raw(read);
      }
      read.value = 2;
      program.raw(read);
    };
  };
  DiffReport report = compareTapes(*sampleRun(loop(3)), *sampleRun(loop(90)));
  INFO(words(report));
  CHECK(report.verdict == Verdict::Match);
  CHECK(report.tolerated["poll-iteration"] == 1);
  // Without a change it is no loop that waits.
  checkOnly(compareTapes(*sampleRun(loop(3, false)), *sampleRun(loop(5, false))), DiffKind::Inserted, 2);
}

TEST_CASE("diff: memory that lies elsewhere is compared by what addresses point at") {
  constexpr uint64_t elsewhere = 0x7654'3000;
  auto pointers = [](uint64_t base) {
    return [=](ToyProgram &program) {
      std::vector<uint8_t> list(32);
      for (unsigned i = 0; i < 8; ++i)
        list[8 + i] = uint8_t((base + 0x40) >> (8 * i));
      program.store(base + 1024, list);
    };
  };
  DiffReport report =
      compareTapes(*sampleRun(pointers(toyMemory)), *sampleRun(pointers(elsewhere), elsewhere));
  INFO(words(report));
  CHECK(report.verdict == Verdict::Match);
  CHECK(report.relocated);
  CHECK(report.tolerated["relocated"] >= 3);
  // A pointer to another place is a difference, wherever memory lies.
  auto wrong = [](ToyProgram &program) {
    std::vector<uint8_t> list(32);
    for (unsigned i = 0; i < 8; ++i)
      list[8 + i] = uint8_t((elsewhere + 0x48) >> (8 * i));
    program.store(elsewhere + 1024, list);
  };
  checkOnly(compareTapes(*sampleRun(pointers(toyMemory)), *sampleRun(wrong, elsewhere)), DiffKind::Input);
}

TEST_CASE("diff: what is not captured or lost makes no match") {
  auto blind =
      edited(sampleRun(), PacketKind::DmaCompletion, [](MemoryTape &, Packet &packet, PacketExtra &extra) {
        packet.flags |= NotCaptured;
        extra.payload = {};
      });
  DiffReport report = compareTapes(*sampleRun(), *blind);
  INFO(words(report));
  CHECK(report.verdict == Verdict::Incomplete);
  CHECK(exitCodeFor(report) == 5);
  report = compareTapes(*sampleRun(), *sampleRun([](ToyProgram &program) { program.loss(12); }));
  CHECK(report.verdict == Verdict::Incomplete);
  CHECK(report.notCompared.count("packets were lost"));
}

TEST_CASE("diff: threads are compared each in its own order") {
  auto run = [](unsigned interleave) {
    ToyProgram program;
    program.open();
    Packet read;
    read.kind = PacketKind::RegisterWrite;
    read.space = 1;
    read.width = 4;
    read.address = toy::scratch;
    unsigned counts[2] = {0, 0};
    for (unsigned i = 0; i < 40; ++i) {
      unsigned thread = (interleave >> (i % 7)) & 1;
      if (counts[thread] == 20)
        thread = 1 - thread;
      read.thread = uint16_t(thread);
      read.value = thread * 100 + counts[thread]++;
      program.raw(read);
    }
    return program.finish();
  };
  CHECK(compareTapes(*run(0x55), *run(0x2d)).verdict == Verdict::Match);
}

TEST_CASE("diff: long tapes go piece by piece, with the same result") {
  ToyWorkload workload = makeWorkload(3, 120);
  ToyWorkload same = makeWorkload(3, 120);
  std::unique_ptr<MemoryTape> other =
      edited(std::move(same.tape), PacketKind::RegisterWrite,
             [](MemoryTape &, Packet &packet, PacketExtra &) { packet.value ^= 1; });
  size_t changed = 0;
  for (size_t i = 0; i < other->packets.size(); ++i)
    if (!(other->packets[i] == workload.tape->packets[i]))
      changed = i;
  DiffOptions small;
  small.pieceItems = 32;
  checkOnly(compareTapes(*workload.tape, *other, small), DiffKind::Input);
  DiffReport report = compareTapes(*workload.tape, *other, small);
  CHECK(report.first->what.place.packet == changed);
  CHECK(compareTapes(*workload.tape, *workload.tape, small).verdict == Verdict::Match);
}

TEST_CASE("diff: the first few are kept, all are counted") {
  auto writes = [](uint64_t base) {
    return [=](ToyProgram &program) {
      for (uint64_t i = 0; i < 100; ++i)
        program.write(toy::scratch, base + i);
    };
  };
  DiffOptions few;
  few.keptDifferences = 5;
  DiffReport report = compareTapes(*sampleRun(writes(0)), *sampleRun(writes(1000)), few);
  CHECK(report.differences.size() == 5);
  CHECK(report.counts[unsigned(DiffKind::Input)] == 100);
  for (size_t i = 1; i < 5; ++i)
    CHECK(report.differences[i - 1].what.place.packet < report.differences[i].what.place.packet);
}

TEST_CASE("diff: a tape without devices or packets") {
  MemoryTape empty;
  DiffReport report = compareTapes(empty, *sampleRun());
  CHECK(report.counts[unsigned(DiffKind::Inserted)] == report.total());
  CHECK(report.total() > 30);
  CHECK(compareTapes(empty, empty).verdict == Verdict::Match);
}
