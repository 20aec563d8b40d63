// Many runs of one replay: what each says, how often the failure comes back, and how sure that is.
#include "replayer/repeat/Repeat.h"
#include "replayer/repeat/KeptStart.h"
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

//===- Runs that begin with a snapshot
//-----------------------------------------------------------------------===//

namespace {

/// What is wrong with the toy's snapshots.
enum class Lie { None, Nothing, Memory, Register, Interrupts, Fails, FailsLater, NoRoom, DiesLater };

/// A toy that can be put back, or says so.
class SnapshotToy : public ScriptedTarget {
public:
  SnapshotToy(ToyOptions options, Lie lie) : ScriptedTarget(std::move(options)), lie(lie) {}

  TargetCapabilities capabilities() const override {
    TargetCapabilities can = ScriptedTarget::capabilities();
    can.snapshots = true;
    can.maxSnapshots = 1;
    return can;
  }
  llvm::Expected<uint64_t> snapshot() override {
    if (lie == Lie::NoRoom)
      return failUsage("snapshot-limit", "no room");
    kept.emplace(*this);
    return uint64_t(1);
  }
  llvm::Error restore(uint64_t) override {
    ++restores;
    // The first follows the look, the second the first run, the third begins the second run.
    if (lie == Lie::Fails || (lie == Lie::FailsLater && restores == 3))
      return failTarget("wedged", "it does not go back", "scripted:");
    std::vector<uint8_t> memory(toyMemorySize);
    bool hasMemory = !llvm::errorToBool(readMemory(toyMemory, memory));
    if (lie == Lie::Nothing)
      return llvm::Error::success();
    static_cast<ScriptedTarget &>(*this) = *kept;
    if (lie == Lie::Memory && hasMemory)
      return writeMemory(toyMemory, memory);
    if (lie == Lie::Register)
      return write(0, toy::scratch, 4, 0x1badc0de);
    if (lie == Lie::Interrupts)
      return waitInterrupt(0, 0).takeError();
    return llvm::Error::success();
  }
  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override {
    if (lie == Lie::DiesLater && restores == 3)
      return failTarget("target-died", "the toy is dead", "scripted:");
    return ScriptedTarget::read(space, address, width);
  }

private:
  Lie lie;
  unsigned restores = 0;
  std::optional<ScriptedTarget> kept;
};

/// `runs` of them, with what KeptStart makes of it.
struct KeptRuns {
  std::vector<ReplayReport> reports;
  std::string whyNot, starts;
  uint64_t used = 0, opened = 0;
  bool verified = false;
};

ReplayOptions watched() {
  ReplayOptions options = quickOptions();
  options.keepDigests = true;
  return options;
}

KeptRuns keptRuns(const MemoryTape &tape, uint64_t packet, const ToyOptions &toy, Lie lie,
                  const ReplayOptions &options = watched(), unsigned runs = 3) {
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape.copy()));
  KeptStart kept(*source, packet);
  KeptRuns result;
  for (unsigned i = 0; i < runs; ++i) {
    llvm::Expected<ReplayReport> report = kept.run(
        [&]() -> llvm::Expected<TargetSet> {
          TargetSet set;
          ++result.opened;
          set.owned.push_back(std::make_unique<SnapshotToy>(toy, lie));
          set.targets.push_back(set.owned.back().get());
          return set;
        },
        [&](KeptStart::Body body) { return body(options); });
    result.reports.push_back(llvm::cantFail(std::move(report)));
    result.starts += replayStartName(result.reports.back().start)[0];
  }
  result.whyNot = kept.whyNot();
  result.used = kept.used();
  result.verified = kept.verified();
  return result;
}

/// In words what of two reports of the same tape differs, but for how they began.
std::string otherwise(const ReplayReport &one, const ReplayReport &two) {
  if (one.verdict != two.verdict)
    return std::string(verdictName(one.verdict)) + " and " + verdictName(two.verdict);
  for (unsigned rule = 0; rule < ruleCount; ++rule)
    if (one.grades.of(Rule(rule)) != two.grades.of(Rule(rule)))
      return ruleName(Rule(rule));
  if (one.windowDigests != two.windowDigests)
    return "digests";
  if (one.packets != two.packets || one.packetsReplayed != two.packetsReplayed ||
      one.windows != two.windows || one.windowsDiverged != two.windowsDiverged || one.stopped != two.stopped)
    return "counts";
  if (one.divergences.size() != two.divergences.size())
    return "number of divergences";
  for (size_t i = 0; i < one.divergences.size(); ++i)
    if (divergenceText(one.divergences[i]) != divergenceText(two.divergences[i]))
      return divergenceText(one.divergences[i]);
  if (one.signature.has_value() != two.signature.has_value() || one.signatureMatch != two.signatureMatch)
    return "signature";
  if (one.relocation.size() != two.relocation.size() ||
      one.relocation[0].pointers != two.relocation[0].pointers ||
      one.relocation[0].registers != two.relocation[0].registers)
    return "relocation";
  return {};
}

} // namespace

TEST_CASE("kept start: runs from a snapshot come out as those that were played all the way") {
  unsigned found = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    ToyWorkload work = makeWorkload(seed, 30);
    for (size_t window : {size_t(3), work.tape->windows.size() / 2}) {
      uint64_t place = work.tape->windows[window].firstPacket;
      // Faults that act before the place, and behind it: there they must be found in every run.
      std::vector<ToyFaults> faults(6);
      faults[1].corruptDma = work.dmas.size() - 1;
      faults[2].corruptDma = 0;
      faults[3].wrongRead = work.reads.size() - 2;
      faults[4].stickyIrqFrom = work.acknowledges.empty() ? 0 : work.acknowledges.size() - 1;
      faults[5].hangDma = work.dmas.size() - 1;
      for (size_t fault = 0; fault < faults.size(); ++fault)
        for (const char *layout : {"auto", "reverse"}) {
          ToyOptions toy;
          toy.faults = faults[fault];
          ReplayOptions options = watched();
          options.player.binding.layout = llvm::cantFail(parseMemoryLayout(layout));
          Replayed whole = replay(*work.tape, toy, options);
          REQUIRE_MESSAGE(whole.report, summary(whole));
          KeptRuns kept = keptRuns(*work.tape, place, toy, Lie::None, options);
          INFO("seed ", seed, " packet ", place, " fault ", fault, " ", layout, ": ", summary(whole), "; ",
               kept.whyNot);
          CHECK(kept.starts == "rss");
          CHECK(kept.opened == 1);
          CHECK(kept.used == 2);
          CHECK(kept.verified);
          for (const ReplayReport &report : kept.reports)
            CHECK(otherwise(*whole, report) == "");
          found += whole->firstDivergence && whole->firstDivergence->place.packet >= place;
        }
    }
  }
  CHECK(found > 16);
}

TEST_CASE("kept start: a restore that lies is told, and not used") {
  ToyWorkload work = makeWorkload(5, 30);
  uint64_t place = work.tape->windows[work.tape->windows.size() / 2].firstPacket;
  ToyOptions toy;
  toy.faults.corruptDma = work.dmas.size() - 1;
  Replayed whole = replay(*work.tape, toy, watched());
  REQUIRE(whole.report);
  const std::pair<Lie, const char *> lies[] = {{Lie::Nothing, "was"},
                                               {Lie::Memory, "memory at 0x200000 was"},
                                               {Lie::Register, "SCRATCH was"},
                                               {Lie::NoRoom, "could not be taken: no room"}};
  for (const auto &[lie, said] : lies) {
    KeptRuns kept = keptRuns(*work.tape, place, toy, lie);
    INFO("lie ", unsigned(lie), ": ", kept.whyNot);
    CHECK(llvm::StringRef(kept.whyNot).contains(said));
    CHECK(kept.used == 0);
    CHECK(!kept.verified);
    CHECK(kept.starts == "rrr");
    // The run that the look may have harmed was played again.
    for (const ReplayReport &report : kept.reports)
      CHECK(otherwise(*whole, report) == "");
  }
}

TEST_CASE("kept start: an interrupt that was not waited for yet is part of the state") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  program.dma(/*toDevice=*/true, toyMemory, 0, 16, /*interrupt=*/true);
  uint64_t place = program.marker("here");
  program.waitInterrupt();
  program.read(toy::irq);
  std::unique_ptr<MemoryTape> tape = program.finish();
  Replayed whole = replay(*tape, {}, watched());
  REQUIRE(whole.report);
  INFO(summary(whole));
  CHECK(whole->verdict == Verdict::Match);
  KeptRuns kept = keptRuns(*tape, place, {}, Lie::None);
  CHECK(kept.starts == "rss");
  for (const ReplayReport &report : kept.reports)
    CHECK(otherwise(*whole, report) == "");
  KeptRuns lying = keptRuns(*tape, place, {}, Lie::Interrupts);
  INFO(lying.whyNot);
  CHECK(llvm::StringRef(lying.whyNot).contains("interrupts of vector 0 was"));
  CHECK(lying.starts == "rrr");
  for (const ReplayReport &report : lying.reports)
    CHECK(otherwise(*whole, report) == "");
}

TEST_CASE("kept start: a restore that fails is the target's failure") {
  ToyWorkload work = makeWorkload(6, 20);
  uint64_t place = work.tape->windows[work.tape->windows.size() / 2].firstPacket;
  for (Lie lie : {Lie::Fails, Lie::FailsLater}) {
    KeptRuns kept = keptRuns(*work.tape, place, {}, lie);
    size_t which = lie == Lie::Fails ? 0 : 1;
    const ReplayReport &report = kept.reports[which];
    CHECK(report.verdict == Verdict::Error);
    REQUIRE(report.targetFailure);
    CHECK(report.targetFailure->code == "restore-failed");
    CHECK(classifyRun(report, false).outcome == RunOutcome::TargetError);
    CHECK(exitCodeFor(report, Expectation::Match) == 4);
    CHECK(llvm::StringRef(kept.whyNot).contains("it does not go back"));
    // The others are what they would have been.
    for (size_t i = 0; i < kept.reports.size(); ++i)
      CHECK((i == which) == (kept.reports[i].verdict != Verdict::Match));
    CHECK(kept.reports[2].start == ReplayStart::Reset);
  }
}

TEST_CASE("kept start: after a run that the target did not survive the next begins with a fresh one") {
  ToyWorkload work = makeWorkload(7, 20);
  uint64_t place = work.tape->windows[work.tape->windows.size() / 2].firstPacket;
  // Behind the place, in every run: the first could not be proved, and is played again.
  ToyOptions toy;
  Replayed clean = replay(*work.tape);
  toy.faults.dieAt = clean.target->accesses - 1;
  Replayed whole = replay(*work.tape, toy, watched());
  REQUIRE(whole.report);
  REQUIRE(whole->verdict == Verdict::Error);
  KeptRuns dying = keptRuns(*work.tape, place, toy, Lie::None);
  CHECK(dying.starts == "rrr");
  CHECK(llvm::StringRef(dying.whyNot).contains("did not survive"));
  for (const ReplayReport &report : dying.reports)
    CHECK(otherwise(*whole, report) == "");
  // In one later run only: what was proved stays proved.
  KeptRuns once = keptRuns(*work.tape, place, {}, Lie::DiesLater, watched(), 3);
  INFO(once.whyNot);
  CHECK(once.starts == "rsr");
  CHECK(once.opened == 2);
  CHECK(once.whyNot == "");
  CHECK(once.reports[1].verdict == Verdict::Error);
  CHECK(once.reports[2].verdict == Verdict::Match);
}

TEST_CASE("kept start: a target without snapshots, and a replay that ends on the way") {
  ToyWorkload work = makeWorkload(8, 20);
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(work.tape->copy()));
  KeptStart kept(*source, work.tape->windows[4].firstPacket);
  for (int i = 0; i < 2; ++i) {
    ReplayReport report = llvm::cantFail(kept.run(
        [&]() -> llvm::Expected<TargetSet> {
          TargetSet set;
          set.owned.push_back(std::make_unique<ScriptedTarget>());
          set.targets.push_back(set.owned.back().get());
          return set;
        },
        [&](KeptStart::Body body) { return body(quickOptions()); }));
    CHECK(report.verdict == Verdict::Match);
    CHECK(report.start == ReplayStart::Reset);
  }
  CHECK(kept.whyNot() == "the target has no snapshots");
  ToyOptions toy;
  toy.faults.dieAt = 12; // Behind the reset's fingerprint.
  KeptRuns dying = keptRuns(*work.tape, work.tape->windows.back().firstPacket, toy, Lie::None);
  CHECK(dying.whyNot == "the replay ended before the range");
  CHECK(dying.starts == "rrr");
}
