// Many runs of one replay: what each says, how often the failure comes back, and how sure that is.
#include "replayer/repeat/Repeat.h"
#include "tests/replayer/ReplayHarness.h"
#include <cmath>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// A run whose check fails because the device squares wrongly, recorded as such.
std::unique_ptr<MemoryTape> failingTape(uint64_t operand = 7) {
  ToyOptions bad;
  bad.faults.wrongSquareOf = operand;
  ToyProgram program(bad);
  program.open();
  program.marker("square");
  program.square(operand);
  program.checkEqual("square", program.packets() - 1, operand * operand);
  std::unique_ptr<MemoryTape> tape = program.finish();
  ReplayReport report = *replay(*tape, bad);
  tape->theOutcome.kind = Outcome::Kind::Failed;
  REQUIRE(report.signature);
  tape->theOutcome.signature = report.signature;
  return tape;
}

RepeatReport repeatOn(const MemoryTape &tape, unsigned runs,
                      const std::function<ToyOptions(unsigned)> &toyOf) {
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape.copy()));
  RepeatOptions options;
  options.runs = runs;
  options.identities = identityRegisters(*source);
  return llvm::cantFail(
      repeatReplay(tape.theOutcome, options, [&](unsigned number) -> llvm::Expected<ReplayReport> {
        ScriptedTarget target(toyOf(number));
        Target *one = &target;
        return replayTape(*source, one, quickOptions());
      }));
}

} // namespace

TEST_CASE("interval: Wilson's, at the ends and in the middle") {
  // Worked out by hand from the formula; 1.959964² = 3.841459.
  RateInterval none = wilsonInterval(0, 10);
  CHECK(none.rate == 0);
  CHECK(none.low == 0);
  CHECK(none.high == doctest::Approx(3.841459 / 13.841459).epsilon(1e-5));
  RateInterval all = wilsonInterval(10, 10);
  CHECK(all.high == 1);
  CHECK(all.low == doctest::Approx(10 / 13.841459).epsilon(1e-5));
  RateInterval half = wilsonInterval(5, 10);
  CHECK(half.rate == 0.5);
  CHECK(half.low == doctest::Approx(0.2366).epsilon(1e-3));
  CHECK(half.high == doctest::Approx(0.7634).epsilon(1e-3));
  RateInterval three = wilsonInterval(3, 100);
  CHECK(three.low == doctest::Approx(0.01025).epsilon(1e-2));
  CHECK(three.high == doctest::Approx(0.08452).epsilon(1e-2));
  RateInterval nothing = wilsonInterval(0, 0);
  CHECK(nothing.low == 0);
  CHECK(nothing.high == 1);
}

TEST_CASE("interval: it covers the true rate about as often as it says") {
  for (double rate : {0.03, 0.3, 0.5, 0.9}) {
    // Exact: the probability of every count, and whether its interval has the rate in it.
    constexpr uint64_t runs = 60;
    double covered = 0, probability = std::pow(1 - rate, double(runs));
    for (uint64_t hits = 0; hits <= runs; ++hits) {
      RateInterval interval = wilsonInterval(hits, runs);
      if (interval.low <= rate && rate <= interval.high)
        covered += probability;
      probability *= double(runs - hits) / double(hits + 1) * rate / (1 - rate);
    }
    CAPTURE(rate);
    CHECK(covered > 0.91);
    CHECK(covered < 0.99);
  }
}

TEST_CASE("repeat: a failure that comes back in some runs, in their order") {
  RepeatReport report = repeatOn(*failingTape(), 10, [](unsigned number) {
    ToyOptions toy;
    if (number % 3 == 0)
      toy.faults.wrongSquareOf = 7;
    return toy;
  });
  CHECK(report.order() == "E..E..E..E");
  CHECK(report.hits == 4);
  CHECK(report.counted == 10);
  CHECK(report.counts[unsigned(RunOutcome::ReproducedExact)] == 4);
  CHECK(report.counts[unsigned(RunOutcome::Passed)] == 6);
  CHECK(report.interval.rate == doctest::Approx(0.4));
  CHECK(report.interval.low < 0.4);
  CHECK(report.interval.high > 0.4);
  // Where the failure does not come back the read differs from the tape's: one place, six times.
  REQUIRE(report.histogram.size() == 1);
  CHECK(report.histogram[0].count == 6);
  CHECK(report.histogram[0].text.find("SQUARE") != std::string::npos);
  CHECK(exitCodeFor(report, Expectation::Signature) == 0);
  CHECK(exitCodeFor(report, Expectation::Divergence) == 0);
  CHECK(exitCodeFor(report, Expectation::Match) == 1);
}

TEST_CASE("repeat: drift shows in the halves") {
  RepeatReport report = repeatOn(*failingTape(), 8, [](unsigned number) {
    ToyOptions toy;
    if (number >= 4)
      toy.faults.wrongSquareOf = 7;
    return toy;
  });
  CHECK(report.order() == "....EEEE");
  CHECK(report.firstHalfHits == 0);
  CHECK(report.firstHalfCounted == 4);
  CHECK(report.hits == 4);
}

TEST_CASE("repeat: another failure, a target that fails, and a reset that left state behind") {
  RepeatReport report = repeatOn(*failingTape(), 4, [](unsigned number) {
    ToyOptions toy;
    if (number == 1)
      toy.faults.dieAt = 5;
    if (number == 2) {
      toy.faults.wrongOffsets = {toy::irq}; // The fingerprint's, which should read 0.
      toy.faults.wrongSquareOf = 7;
    }
    if (number == 3)
      toy.faults.wrongSquareOf = 7;
    return toy;
  });
  CHECK(report.order() == ".!xE");
  CHECK(report.runs[1].reason == "target-died");
  CHECK(report.runs[2].reason == "the reset left state behind in IRQ");
  CHECK(report.excluded.size() == 1);
  CHECK(report.counted == 3);
  CHECK(report.hits == 1);
}

TEST_CASE("repeat: an identity that differs is no state that was left behind") {
  RepeatReport report = repeatOn(*failingTape(), 1, [](unsigned) {
    ToyOptions toy;
    toy.faults.wrongSquareOf = 7;
    toy.faults.wrongOffsets = {toy::id};
    return toy;
  });
  CHECK(report.order() == "E");
}

TEST_CASE("repeat: of a tape without failure a divergence is what counts") {
  ToyProgram program;
  program.open();
  program.square(7);
  program.square(9);
  std::unique_ptr<MemoryTape> tape = program.finish();
  RepeatReport report = repeatOn(*tape, 3, [](unsigned number) {
    ToyOptions toy;
    if (number == 2)
      toy.faults.wrongSquareOf = 9;
    return toy;
  });
  CHECK_FALSE(report.tapeFails);
  CHECK(report.order() == "..o");
  CHECK(report.hits == 1);
  CHECK(exitCodeFor(report, Expectation::Match) == 1);
  RepeatReport good = repeatOn(*tape, 3, [](unsigned) { return ToyOptions(); });
  CHECK(good.order() == "...");
  CHECK(exitCodeFor(good, Expectation::Match) == 0);
  CHECK(exitCodeFor(good, Expectation::Divergence) == 1);
}

TEST_CASE("repeat: levels of the match are told apart") {
  ReplayReport report;
  report.signature = Signature();
  const std::pair<SignatureMatch, RunOutcome> levels[] = {
      {SignatureMatch::Exact, RunOutcome::ReproducedExact},
      {SignatureMatch::SamePlace, RunOutcome::ReproducedSamePlace},
      {SignatureMatch::SameKind, RunOutcome::ReproducedSameKind},
      {SignatureMatch::None, RunOutcome::OtherFailure}};
  for (const auto &[level, outcome] : levels) {
    report.signatureMatch = level;
    CHECK(classifyRun(report, true).outcome == outcome);
  }
  report.signature.reset();
  report.verdict = Verdict::Incomplete;
  report.stopped = "it took too long";
  CHECK(classifyRun(report, true).outcome == RunOutcome::Excluded);
  CHECK(classifyRun(report, true).reason == "it ended early: it took too long");
  report.verdict = Verdict::Error;
  CHECK(classifyRun(report, true).outcome == RunOutcome::TargetError);
}

TEST_CASE("repeat: a lab that is broken is not asked for ever, and other failures end it") {
  MemoryTape tape;
  RepeatOptions options;
  options.runs = 1000;
  unsigned asked = 0;
  RepeatReport report =
      llvm::cantFail(repeatReplay(tape.theOutcome, options, [&](unsigned) -> llvm::Expected<ReplayReport> {
        ++asked;
        return failTarget("unreachable", "nobody there");
      }));
  CHECK(asked == options.maxExcludedInRow);
  CHECK_FALSE(report.stopped.empty());
  CHECK(report.excluded["unreachable: nobody there"] == asked);
  CHECK(exitCodeFor(report, Expectation::Match) == 5);
  CHECK(report.interval.high == 1);
  llvm::Expected<RepeatReport> bad =
      repeatReplay(tape.theOutcome, options,
                   [](unsigned) -> llvm::Expected<ReplayReport> { return failUsage("bad", "bad"); });
  REQUIRE_FALSE(bad);
  CHECK(toFailure(bad.takeError()).code == "bad");
}
