// When packets are issued: gaps as recorded, scaled, perturbed; and that a perturbation finds what depends on
// timing.
#include "replayer/Pacing.h"
#include "tests/replayer/QueueProgram.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// A toy with a clock that can be asked.
class TimedToy : public ScriptedTarget {
public:
  TimedToy() : ScriptedTarget(options()) {}
  llvm::Expected<uint64_t> deviceTime() override { return now; }
  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override {
    issued.push_back(now);
    return ScriptedTarget::write(space, address, width, value);
  }
  std::vector<uint64_t> issued; ///< Device time of every write.

private:
  static ToyOptions options() {
    ToyOptions result;
    result.capabilities.deviceTime = true;
    return result;
  }
};

/// Writes whose gaps, return to call, are 1, 2, 3 … us; each takes 500 ns of the host's.
std::unique_ptr<MemoryTape> growingGaps(unsigned count) {
  ToyProgram program;
  program.open();
  uint64_t first = program.packets();
  for (unsigned i = 0; i < count; ++i)
    program.write(toy::scratch, i);
  std::unique_ptr<MemoryTape> tape = program.finish();
  uint64_t time = 1'000'000;
  for (uint64_t i = 0; i < first; ++i)
    tape->packets[i].issueTime = tape->packets[i].completeTime = time;
  for (unsigned i = 0; i < count; ++i) {
    time += i * 1000;
    tape->packets[first + i].issueTime = time;
    tape->packets[first + i].completeTime = time += 500;
  }
  return tape;
}

ReplayReport play(const MemoryTape &tape, Target &target, llvm::StringRef timing) {
  auto source = llvm::cantFail(TapeSource::create(tape.copy()));
  Target *raw = &target;
  ReplayOptions options = quickOptions();
  options.player.pacing = llvm::cantFail(parsePacing(timing));
  return llvm::cantFail(replayTape(*source, raw, options));
}

} // namespace

TEST_CASE("Timings have names, and others are refused with a list") {
  for (const char *text : {"fast", "original", "scale=0.5", "stress=7", "scale=0.1,stress=7", "scale=0"}) {
    llvm::Expected<PacingOptions> options = parsePacing(text);
    REQUIRE_MESSAGE(bool(options), text);
    CHECK(pacingText(*options) == text);
  }
  CHECK(pacingText(llvm::cantFail(parsePacing("stress"))) == "stress=1");
  CHECK(pacingText(llvm::cantFail(parsePacing("stress=7,scale=2"))) == "scale=2,stress=7");
  for (const char *text :
       {"", "slow", "scale", "scale=", "scale=x", "scale=-1", "scale=nan", "scale=1e9",
        "stress=", "stress=1,stress=2", "scale=1,", "scale=1,scale=2", "original,stress=1", ",scale=1"}) {
    llvm::Expected<PacingOptions> options = parsePacing(text);
    REQUIRE_MESSAGE(!options, text);
    CHECK(toFailure(options.takeError()).code == "bad-option");
  }
}

TEST_CASE("Quantiles of gap errors are right within a quarter, at every magnitude") {
  CHECK(GapHistogram().quantile(0.99) == 0);
  for (uint64_t unit : {1ull, 7ull, 1000ull, 123456789ull, 1ull << 56}) {
    GapHistogram histogram;
    for (uint64_t i = 1; i <= 100; ++i)
      histogram.add(i * unit);
    CHECK(histogram.count() == 100);
    CHECK(histogram.most() == 100 * unit);
    for (auto [q, wanted] :
         {std::pair(0.5, 50 * unit), std::pair(0.99, 99 * unit), std::pair(1.0, 100 * unit)}) {
      CHECK(histogram.quantile(q) >= wanted);
      CHECK(histogram.quantile(q) - wanted <= wanted / 4);
    }
  }
  GapHistogram extremes;
  extremes.add(0);
  CHECK(extremes.quantile(0.5) == 0);
  extremes.add(~uint64_t(0));
  CHECK(extremes.quantile(1) == ~uint64_t(0));
}

TEST_CASE("Gaps pass on the device's clock as recorded, scaled, or not at all") {
  constexpr unsigned count = 20;
  std::unique_ptr<MemoryTape> tape = growingGaps(count);
  for (auto [timing, permille] :
       {std::pair("original", 1000), std::pair("scale=0.5", 500), std::pair("scale=3", 3000)}) {
    CAPTURE(timing);
    TimedToy toy;
    ReplayReport report = play(*tape, toy, timing);
    CHECK(report.verdict == Verdict::Match);
    REQUIRE(toy.issued.size() == count);
    for (unsigned i = 1; i < count; ++i) // An access takes the toy 1 us.
      CHECK(toy.issued[i] - toy.issued[i - 1] == 1000 + i * permille);
    CHECK(report.pacing.timing == timing);
    CHECK(report.pacing.clock == std::string("device"));
    CHECK(report.pacing.gaps == count); // The first is behind the reset.
    CHECK(report.pacing.wanted == uint64_t(permille) * (count - 1) * count / 2);
    CHECK(report.pacing.p99 == 0);
  }
  TimedToy toy;
  ReplayReport fast = play(*tape, toy, "fast");
  CHECK(fast.pacing.timing == "fast");
  CHECK(fast.pacing.gaps == 0);
  CHECK(toy.issued.back() - toy.issued.front() == (count - 1) * 1000);
}

TEST_CASE("Gaps are the recorded device's where the tape knows its time") {
  std::unique_ptr<MemoryTape> tape = growingGaps(4);
  tape->theClocks.push_back({"device"});
  // The recorded device was a hundred times slower than its clock says, as simulated ones are.
  for (Packet &packet : tape->packets) {
    if (packet.kind == PacketKind::RegisterWrite)
      continue;
    packet.kind = PacketKind::ClockSample;
    packet.clock = 1;
    packet.origin = Origin::Recorder;
    packet.issueTime = packet.completeTime = 900'000;
    packet.value = 10'000;
  }
  Packet end = tape->packets.front();
  end.issueTime = end.completeTime = 1'900'000;
  end.value = 20'000;
  tape->add(end);
  tape->windows.back().packetCount++;
  TimedToy toy;
  ReplayReport report = play(*tape, toy, "original");
  REQUIRE(toy.issued.size() == 4);
  CHECK(toy.issued[3] - toy.issued[2] == 1000 + 30);
  CHECK(report.pacing.wanted == 10 + 20 + 30);
}

TEST_CASE("A perturbation is its seed's, keeps the order, and differs from others") {
  std::unique_ptr<MemoryTape> tape = growingGaps(50);
  auto issuedBy = [&](const char *timing) {
    TimedToy toy;
    CHECK(play(*tape, toy, timing).verdict == Verdict::Match);
    return toy.issued;
  };
  std::vector<uint64_t> first = issuedBy("stress=3");
  CHECK(first == issuedBy("stress=3"));
  CHECK(first != issuedBy("stress=4"));
  CHECK(std::is_sorted(first.begin(), first.end()));
  unsigned shorter = 0, longer = 0, none = 0;
  for (unsigned i = 1; i < first.size(); ++i) {
    uint64_t gap = first[i] - first[i - 1] - 1000;
    none += gap == 0;
    shorter += gap < i * 1000;
    longer += gap > i * 1000;
  }
  CHECK(none > 0);
  CHECK(shorter > 10);
  CHECK(longer > 10);
}

TEST_CASE("On the host's clock no gap is shorter than it was, and the longest is cut") {
  std::unique_ptr<MemoryTape> tape = growingGaps(20);
  auto source = llvm::cantFail(TapeSource::create(tape->copy()));
  ScriptedTarget toy;
  Target *raw = &toy;
  ReplayOptions options = quickOptions();
  options.player.pacing = llvm::cantFail(parsePacing("original"));
  options.player.pacing.maxGap = 15'000;
  HostTimer timer;
  ReplayReport report = llvm::cantFail(replayTape(*source, raw, options));
  CHECK(report.pacing.clock == std::string("host"));
  CHECK(report.pacing.cut == 4);
  CHECK(report.pacing.wanted == 15 * 16 / 2 * 1000 + 4 * 15'000);
  CHECK(timer.elapsed() >= report.pacing.wanted);
  CHECK(report.pacing.p99 >= report.pacing.p50);
  CHECK(report.pacing.max >= report.pacing.p99 / 2);
  CHECK(report.pacing.stretches == 1);
}

TEST_CASE("A tape in many stretches replays as in one") {
  ToyWorkload work = makeWorkload(11, 80);
  Digest whole{};
  for (auto [packets, bytes] :
       {std::pair<uint64_t, uint64_t>(1 << 18, 1 << 20), {1, 1 << 20}, {7, 1 << 20}, {64, 100}, {64, 0}}) {
    auto source = llvm::cantFail(TapeSource::create(work.tape->copy()));
    ScriptedTarget toy;
    Target *raw = &toy;
    ReplayOptions options = quickOptions();
    options.stretch.packets = packets;
    options.stretch.contentBytes = bytes;
    ReplayReport report = llvm::cantFail(replayTape(*source, raw, options));
    CHECK(report.verdict == Verdict::Match);
    if (packets > 64)
      whole = report.replayedDigest;
    CHECK(report.replayedDigest == whole);
    CHECK(report.pacing.stretches >= work.tape->packets.size() / packets);
  }
}

#ifdef TAPEBACK_HAS_RTL
TEST_CASE("Stress shows an erratum that the recorded timing never met") {
  // counter-stall: bytes of a load are not counted while the other queue's unit uses the scratchpad. The
  // recorded host let the GEMM finish first.
  constexpr unsigned operations = 12;
  QueueProgram program(32);
  std::vector<uint64_t> bells;
  program.store(QueueProgram::data, std::vector<uint8_t>(4096, 3));
  for (unsigned i = 0; i < operations; ++i) {
    program.marker("op");
    program.write(MINNOW_CNT_CONTROL, MINNOW_CNT_CLEAR);
    uint64_t fences = QueueProgram::data + 0x8000;
    program.submit(1, minnow_gemm(0x4000, 0x6000, 0x8000, 32, 32, 32, 32, 32, 128, 0));
    program.submit(1, minnow_fence(fences, i + 1, 0));
    program.doorbell(1);
    program.submit(0, minnow_dma(MINNOW_DMA_LOAD, QueueProgram::data, 0, 1024, 1, 1024, 1024));
    program.submit(0, minnow_fence(fences + 8, i + 1, 0));
    bells.push_back(program.doorbell(0));
    program.wait(fences, i + 1);
    program.wait(fences + 8, i + 1);
    program.write(MINNOW_CNT_CONTROL, MINNOW_CNT_SNAPSHOT);
    program.read(MINNOW_CNT_LO + 8 * MINNOW_CNT_READ_BYTES);
  }
  std::unique_ptr<MemoryTape> tape = program.finish();
  uint64_t time = 1'000'000;
  for (size_t i = 0; i < tape->packets.size(); ++i) {
    bool bell = std::find(bells.begin(), bells.end(), i) != bells.end();
    tape->packets[i].issueTime = tape->packets[i].completeTime = time += bell ? 40'000 : 0;
  }
  auto failures = [&](const std::string &timing) {
    auto target = llvm::cantFail(openTarget("rtl:minnow?errata=counter-stall"));
    ReplayReport report = play(*tape, *target, timing);
    CHECK(report.grades.divergences() == report.grades.of(Rule::ValueDiffers));
    return report.grades.divergences();
  };
  uint64_t original = failures("original"), stressed = 0;
  for (const char *seed : {"stress=1", "stress=2", "stress=3"})
    stressed += failures(seed);
  MESSAGE("original: ", original, " of ", operations, "; stress: ", stressed, " of ", 3 * operations);
  CHECK(original == 0);
  CHECK(stressed > operations / 2);
}
#endif
