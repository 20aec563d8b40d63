// Bisect against planted faults: the tests know from the workload where the fault acts, not from the tool.
#include "replayer/bisect/Bisect.h"
#include "replayer/Trim.h"
#include "replayer/repeat/StateImage.h"
#include "tests/replayer/BisectHarness.h"
#include "tests/replayer/QueueProgram.h"
#include "tests/support/RunProgram.h"
#include <cmath>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// Slow builds (sanitizers) plant fewer faults: they look at what happens along the way.
constexpr unsigned planted(unsigned faults) {
#ifdef TAPEBACK_SANITIZED
  return faults / 5;
#else
  return faults;
#endif
}

uint64_t windowOf(const MemoryTape &tape, uint64_t packet) {
  for (size_t i = 0; i < tape.windows.size(); ++i)
    if (packet < tape.windows[i].firstPacket + tape.windows[i].packetCount)
      return i;
  return ~uint64_t(0);
}

} // namespace

TEST_CASE("Observed: corrupted transfers are named to the window, packet and byte") {
  std::mt19937_64 random(1);
  unsigned trials = 0;
  for (uint64_t seed = 0; trials < planted(300); ++seed) {
    ToyWorkload work = makeWorkload(seed, 10 + random() % 40);
    std::optional<size_t> dma = pickDma(work, random, false);
    if (!dma)
      continue;
    ++trials;
    ToyOptions bad;
    bad.faults.corruptDma = *dma;
    bad.faults.corruptOffset = random() % work.dmaShape[*dma].second;
    bad.faults.corruptXor = uint8_t(1 + random() % 255);
    Bisected bisected = bisect(*work.tape, {}, bad, false);
    INFO(seed, " ", summary(bisected));
    REQUIRE(bisected.report);
    CHECK(bisected->verdict == Verdict::Divergence);
    CHECK(exitCodeFor(*bisected.report) == 1);
    REQUIRE(bisected->first);
    uint64_t packet = work.dmas[*dma].completion;
    CHECK(bisected->first->place.packet == packet);
    CHECK(bisected->first->place.window == windowOf(*work.tape, packet));
    CHECK(bisected->first->offset == bad.faults.corruptOffset);
    CHECK((*bisected->first->expected ^ *bisected->first->actual) == bad.faults.corruptXor);
    CHECK(!bisected->goodAgainstTape);
    CHECK(!bisected->badIntermittent);
    REQUIRE(!bisected->writers.empty());
    CHECK(bisected->writers[0].place.packet == work.dmas[*dma].doorbell);
    CHECK(bisected->writers[0].reg == "CMD");
    CHECK(bisected->before.size() >= 2);
    CHECK(bisected->before.back().packet == packet);
  }
}

/// `disturbed`: the targets count the probes' own transfers, so that looking shifts where the fault acts.
static void loseBytes(unsigned wanted, bool disturbed, unsigned &neverSeen, unsigned &healed) {
  std::mt19937_64 random(disturbed ? 7 : 2);
  unsigned trials = 0, traced = 0;
  for (uint64_t seed = 0; trials < wanted; ++seed) {
    ToyWorkload work = makeWorkload(seed + 1000, 10 + random() % 50);
    std::optional<size_t> dma = pickDma(work, random, true);
    if (!dma)
      continue;
    ++trials;
    ToyOptions good, bad;
    // Half of them on targets that cannot be peeked: then by prefixes and read-back.
    good.capabilities.peek = trials % 2;
    bad.capabilities.peek = trials % 2 && trials % 3;
    if (disturbed)
      good.capabilities.peek = bad.capabilities.peek = false;
    good.faults.countProbes = bad.faults.countProbes = disturbed;
    bad.faults.corruptDma = *dma;
    auto [start, length] = work.dmaShape[*dma];
    bad.faults.corruptOffset = random() % length;
    bad.faults.corruptXor = uint8_t(1 + random() % 255);
    // What heals at a transfer would heal at the probe's.
    bool heals = !disturbed && random() % 3 == 0 && *dma + 1 < work.dmas.size();
    if (heals)
      bad.faults.healAtDma = *dma + 1 + random() % (work.dmas.size() - *dma - 1);
    Bisected bisected = bisect(*work.tape, good, bad, true);
    INFO(seed, " trial ", trials, " dma ", *dma, " ", summary(bisected));
    REQUIRE(bisected.report);
    CHECK(bisected->verdict == Verdict::Divergence);
    REQUIRE(bisected->first);
    uint64_t packet = work.dmas[*dma].doorbell;
    CHECK(bisected->first->place.packet == packet);
    CHECK(bisected->first->place.window == windowOf(*work.tape, packet));
    CHECK(bisected->first->kind == "register-write");
    CHECK(bisected->first->space == "buffer");
    CHECK(bisected->first->offset == start + bad.faults.corruptOffset);
    CHECK(bisected->first->address == toy::bufferBase + start + bad.faults.corruptOffset);
    CHECK((*bisected->first->expected ^ *bisected->first->actual) == bad.faults.corruptXor);
    CHECK(*bisected->visibleAt >= packet);
    CHECK(*bisected->visibleAt <= work.dmas[*dma].completion);
    REQUIRE(!bisected->writers.empty());
    CHECK(bisected->writers[0].place.packet == packet);
    CHECK(bisected->writers[0].descriptor == work.dmas[*dma].descriptor);
    // What each side had: the wrong byte, and where it came from the same one on both.
    CHECK(bisected->writers[0].good == bisected->first->expected);
    CHECK(bisected->writers[0].bad == bisected->first->actual);
    for (const WriterRecord &writer : llvm::drop_begin(bisected->writers))
      if (writer.good && writer.bad) {
        CHECK(*writer.good == *bisected->first->expected);
        CHECK(*writer.bad == *writer.good);
        ++traced;
      }
    CHECK(bisected->probes > 0);
    CHECK(bisected->coverage.probes.windows.count("buffer"));
    neverSeen += !bisected->observed;
    healed += bisected->healed;
    if (bisected->observed)
      CHECK(bisected->observed->place.packet > packet);
  }
  CHECK(traced * 2 > wanted);
}

TEST_CASE("Deep: bytes lost in hidden state are named where they were lost, however late they show") {
  unsigned neverSeen = 0, healed = 0;
  loseBytes(planted(200), false, neverSeen, healed);
  CHECK(neverSeen > planted(10)); // Those that observation alone would have called equal …
  CHECK(healed > planted(10));    // … and those that a plain search by halves may miss.
}

TEST_CASE("Deep: bytes lost by devices that looking at disturbs are named where they are lost undisturbed") {
  unsigned neverSeen = 0, healed = 0;
  loseBytes(planted(60), true, neverSeen, healed);
}

TEST_CASE("Deep: acknowledges that do nothing are named themselves, not the read that shows it") {
  std::mt19937_64 random(3);
  unsigned trials = 0;
  for (uint64_t seed = 0; trials < planted(100); ++seed) {
    ToyWorkload work = makeWorkload(seed + 5000, 20 + random() % 40);
    if (work.acknowledges.empty())
      continue;
    ++trials;
    ToyOptions good, bad;
    good.capabilities.peek = bad.capabilities.peek = trials % 2;
    size_t which = random() % work.acknowledges.size();
    bad.faults.stickyIrqFrom = which;
    uint64_t acknowledge = work.acknowledges[which];
    Bisected observed = bisect(*work.tape, good, bad, false);
    INFO(seed, " ", summary(observed));
    REQUIRE(observed->first);
    CHECK(observed->first->place.packet == acknowledge + 1);
    CHECK(observed->first->reg == "IRQ");
    CHECK(observed->first->field == "DMA_DONE");
    Bisected deep = bisect(*work.tape, good, bad, true);
    INFO(summary(deep));
    REQUIRE(deep->first);
    CHECK(deep->first->place.packet == acknowledge);
    CHECK(deep->first->place.window == windowOf(*work.tape, acknowledge));
    CHECK(deep->first->reg == "IRQ");
    CHECK(deep->first->field == "DMA_DONE");
    REQUIRE(!deep->writers.empty());
    CHECK(deep->writers[0].reg == "IRQ_ACK");
    CHECK(deep->observed->place.packet == acknowledge + 1);
  }
}

TEST_CASE("Deep: a wrong result is named at the write that asked for it") {
  ToyProgram program;
  program.open();
  program.marker("a");
  program.square(3);
  program.marker("b");
  uint64_t wrong = program.square(9);
  std::unique_ptr<MemoryTape> tape = program.finish();
  ToyOptions bad;
  bad.faults.wrongSquareOf = 9;
  for (bool peek : {true, false}) {
    ToyOptions good;
    good.capabilities.peek = bad.capabilities.peek = peek;
    Bisected deep = bisect(*tape, good, bad, true);
    INFO(summary(deep));
    REQUIRE(deep->first);
    CHECK(deep->first->place.packet == wrong);
    CHECK(deep->first->reg == "SQUARE");
    CHECK(deep->first->place.marker == "b");
    CHECK(deep->first->place.command == 1);
    CHECK(deep->first->expected == 81);
    CHECK(deep->first->actual == 82);
  }
}

TEST_CASE("Deep: a stray write to memory is named at the transfer that made it") {
  ToyWorkload work = makeWorkload(77, 40);
  for (bool peek : {true, false}) {
    ToyOptions good, bad;
    good.capabilities.peek = bad.capabilities.peek = peek;
    bad.faults.strayWriteAtDma = 5;
    Bisected deep = bisect(*work.tape, good, bad, true);
    INFO(summary(deep));
    REQUIRE(deep->first);
    CHECK(deep->first->place.packet == work.dmas[5].doorbell);
    CHECK(deep->first->space == "memory");
    CHECK(deep->first->address == toyMemory + toyMemorySize - 1);
    CHECK(bisect(*work.tape, good, bad, false)->observed.has_value() == deep->observed.has_value());
  }
}

TEST_CASE("A wrong answer that leaves no state behind is named by what the host saw, and probing does not "
          "invent it") {
  ToyWorkload work = makeWorkload(78, 60);
  std::mt19937_64 random(4);
  ToyOptions probe; // How many reads a run makes.
  Replayed clean = replay(*work.tape);
  uint64_t reads = clean.target->reads;
  for (int i = 0; i < 40; ++i) {
    ToyOptions bad;
    bad.faults.wrongRead = 3 + random() % (reads - 3);
    bad.faults.wrongReadXor = 0x10000;
    Bisected observed = bisect(*work.tape, {}, bad, false);
    Bisected deep = bisect(*work.tape, {}, bad, true);
    INFO(i, " ", summary(observed), " | ", summary(deep));
    CHECK(observed->first.has_value() == deep->first.has_value());
    if (observed->first && deep->first)
      CHECK(observed->first->place.packet == deep->first->place.packet);
  }
}

TEST_CASE("Two that do not differ: it is said, and exit code 0") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    ToyWorkload work = makeWorkload(seed + 9000, 30);
    ToyOptions other;
    other.faults.skew = 999; // Volatile registers do.
    for (bool deep : {false, true}) {
      ToyOptions good;
      good.capabilities.peek = other.capabilities.peek = seed % 2;
      Bisected bisected = bisect(*work.tape, good, other, deep);
      INFO(summary(bisected));
      REQUIRE(bisected.report);
      CHECK(bisected->verdict == Verdict::Match);
      CHECK(exitCodeFor(*bisected.report) == 0);
      CHECK(!bisected->first);
      CHECK(bisected->coverage.windowsObserved == work.tape->windows.size());
      if (deep) {
        uint64_t quiescent = 0, skipped = 0;
        for (const WindowInfo &window : work.tape->windows)
          quiescent += window.quiescent;
        for (const auto &[reason, count] : bisected->coverage.windowsNotProbed)
          skipped += count;
        CHECK(bisected->coverage.windowsProbed == quiescent);
        CHECK(bisected->coverage.windowsProbed + skipped == work.tape->windows.size());
        CHECK(bisected->coverage.probes.registers.count("SQUARE"));
        CHECK(bisected->coverage.probes.registers.count("CMD") == 0);
        CHECK(bisected->coverage.probes.memory);
      }
    }
  }
}

TEST_CASE("A good endpoint that is not what was recorded is said to be so") {
  ToyWorkload work = makeWorkload(31, 30);
  std::mt19937_64 random(5);
  size_t dma = *pickDma(work, random, false);
  ToyOptions wrong;
  wrong.faults.corruptDma = dma;
  for (bool deep : {false, true}) {
    // The good one is wrong, the bad one is not: they differ, and the tape says who.
    Bisected swapped = bisect(*work.tape, wrong, {}, deep);
    INFO(summary(swapped));
    REQUIRE(swapped->goodAgainstTape);
    CHECK(swapped->goodAgainstTape->place.packet == work.dmas[dma].completion);
    CHECK(swapped->first->place.packet == work.dmas[dma].completion);
    // Both are wrong in the same way: no difference, but not what was recorded.
    Bisected both = bisect(*work.tape, wrong, wrong, deep);
    CHECK(both->verdict == Verdict::Match);
    REQUIRE(both->goodAgainstTape);
    CHECK(both->goodAgainstTape->place.packet == work.dmas[dma].completion);
    // That may be a failure that comes seldom: how seldom is said. Where they differ it is not.
    auto told = [](const Bisected &bisected) {
      return llvm::any_of(bisected->notes, [](llvm::StringRef note) {
        return note.starts_with("neither endpoint did what the tape recorded: after 2 passes without it, a "
                                "failure that comes in up to 78 % of passes");
      });
    };
    CHECK_MESSAGE(told(both), summary(both));
    CHECK(!told(swapped));
    CHECK(!told(bisect(*work.tape, {}, {}, deep)));
  }
  // Wrong only behind the place where the two part.
  ToyOptions late, bad;
  size_t last = dma;
  for (size_t i = 0; i < work.dmas.size(); ++i)
    if (!work.dmaToDevice[i])
      last = i;
  size_t first = *pickDma(work, random, false);
  for (size_t i = 0; i < work.dmas.size(); ++i)
    if (!work.dmaToDevice[i]) {
      first = i;
      break;
    }
  REQUIRE(first < last);
  late.faults.corruptDma = last;
  bad.faults.corruptDma = first;
  Bisected behind = bisect(*work.tape, late, bad, false);
  CHECK(behind->first->place.packet == work.dmas[first].completion);
  REQUIRE(behind->goodAgainstTape);
  CHECK(behind->goodAgainstTape->place.packet == work.dmas[last].completion);
}

TEST_CASE(
    "An endpoint that does not repeat itself is called intermittent; if it is the good one, no state is "
    "searched") {
  ToyWorkload work = makeWorkload(31, 30);
  std::mt19937_64 random(5);
  ToyOptions bad;
  bad.faults.corruptDma = *pickDma(work, random, false);
  bad.faults.activeOnlyOnOddRuns = true;
  for (bool deep : {false, true})
    for (bool isGood : {false, true}) {
      auto made = std::make_shared<unsigned>(deep ? 1 : 0); // Deep takes a baseline first.
      Endpoints endpoints{endpoint({}), endpoint(bad, made)};
      if (isGood)
        std::swap(endpoints.good, endpoints.bad);
      BisectOptions options = quickBisect(deep);
      options.runs = 4;
      options.rateRuns = 10;
      Bisected bisected = bisect(*work.tape, endpoints, options);
      INFO(deep, isGood, " ", summary(bisected));
      REQUIRE(bisected.report);
      CHECK((bisected->goodIntermittent || bisected->badIntermittent));
      CHECK(bisected->goodIntermittent == isGood);
      REQUIRE(bisected->runs.size() == 10);
      unsigned diverged = 0;
      for (const BisectRun &run : bisected->runs)
        diverged += run.diverged;
      CHECK(diverged == 5);
      REQUIRE(bisected->rate);
      CHECK(bisected->rate->hits == 5);
      CHECK(bisected->verdict == Verdict::Divergence);
      REQUIRE(bisected->first);
      CHECK(bisected->first->place.packet == work.dmas[*bad.faults.corruptDma].completion);
      CHECK(bisected->search.has_value() == (deep && !isGood));
      if (deep && isGood)
        CHECK(!bisected->notes.empty());
    }
}

TEST_CASE("A bad endpoint that dies is a divergence where it died; a good one is a failure") {
  ToyWorkload work = makeWorkload(31, 30);
  ToyOptions dies;
  dies.faults.dieAt = 90;
  for (bool deep : {false, true}) {
    Bisected bad = bisect(*work.tape, {}, dies, deep);
    INFO(summary(bad));
    REQUIRE(bad.report);
    CHECK(bad->verdict == Verdict::Divergence);
    CHECK(bad->first->rule == Rule::TargetFailed);
    CHECK(bad->first->failure == "the toy died");
    CHECK(exitCodeFor(*bad.report) == 1);
    Bisected good = bisect(*work.tape, dies, {}, deep);
    INFO(summary(good));
    REQUIRE(good.report);
    CHECK(good->verdict == Verdict::Error);
    REQUIRE(good->goodFailure);
    CHECK(good->goodFailure->code == "target-died");
    CHECK(exitCodeFor(*good.report) == 4);
  }
  ToyOptions unusable;
  unusable.space = "bar1";
  CHECK(bisect(*work.tape, {}, unusable, false).failure->code == "missing-space");
}

TEST_CASE("Endpoints that do not answer cannot be told apart") {
  ToyWorkload work = makeWorkload(31, 5);
  ToyOptions null;
  null.capabilities.answers = false;
  for (bool deep : {false, true}) {
    Bisected bisected = bisect(*work.tape, {}, null, deep);
    REQUIRE(bisected.report);
    CHECK(bisected->verdict == Verdict::Incomplete);
    CHECK(exitCodeFor(*bisected.report) == 5);
    CHECK(bisected->coverage.packetsNotCompared == work.tape->packets.size());
  }
}

TEST_CASE("What cannot be seen is said: no description, no read-back, no transfers") {
  ToyOptions blind;
  blind.capabilities.peek = false;
  ToyWorkload work = makeWorkload(31, 20);
  std::string text = work.tape->theDevices[0].description;
  size_t at = text.find("read-back: dma, ");
  REQUIRE(at != std::string::npos);
  work.tape->theDevices[0].description = text.erase(at, 16);
  Bisected hidden = bisect(*work.tape, blind, blind, true);
  INFO(summary(hidden));
  REQUIRE(hidden.report);
  CHECK(hidden->verdict == Verdict::Match);
  CHECK(hidden->coverage.probes.windows.empty());
  REQUIRE(hidden->coverage.probes.notVisible.count("buffer"));
  CHECK(hidden->coverage.probes.notVisible.at("buffer").find("names no activity") != std::string::npos);

  work.tape->theDevices[0].description.clear();
  Bisected undescribed = bisect(*work.tape, {}, {}, true);
  REQUIRE(undescribed.report);
  CHECK(undescribed->coverage.probes.registers.empty());
  CHECK(undescribed->coverage.probes.memory);
}

TEST_CASE("Registers that differ from the start are a difference of the targets, not of the run") {
  ToyWorkload work = makeWorkload(31, 20);
  ToyOptions other;
  other.faults.wrongOffsets = {toy::wide}; // The workload never looks at it.
  Bisected bisected = bisect(*work.tape, {}, other, true);
  INFO(summary(bisected));
  REQUIRE(bisected.report);
  CHECK(bisected->verdict == Verdict::Match);
  REQUIRE(bisected->coverage.probes.notVisible.count("WIDE"));
  CHECK(bisected->coverage.probes.notVisible.at("WIDE").find("before the first packet") != std::string::npos);
}

TEST_CASE("The verification keeps to its budget and says what it left out") {
  ToyWorkload work = makeWorkload(55, 60);
  ToyOptions blind;
  blind.capabilities.peek = false;
  Endpoints endpoints{endpoint(blind), endpoint(blind)};
  BisectOptions options = quickBisect(true);
  options.maxProbes = 5;
  Bisected bisected = bisect(*work.tape, endpoints, options);
  REQUIRE(bisected.report);
  CHECK(bisected->probes <= 7);
  CHECK(bisected->coverage.windowsNotProbed.count("more windows than --max-probes"));
}

//===- Snapshots, plan, budget
//-----------------------------------------------------------------------------------===//

namespace {

/// How a toy's snapshots are not what they should be.
enum class Snapshots { Work, None, Lie, Fail, FailLater, Few };

/// Whether it can be looked at without side effect, and whether what it shows is what it holds: always, never
/// of a register, or only at first.
enum class Looks { None, True, Lie, LieLater };

/// A toy that can be put back, or says so. Counts what it was asked to do in all its lives.
class KeepingToy : public ScriptedTarget, public LookableTarget {
public:
  KeepingToy(ToyOptions options, Snapshots kind, Looks looks)
      : ScriptedTarget(std::move(options)), kind(kind), looks(looks) {}

  bool canLook() const override { return looks != Looks::None; }
  llvm::Error look(TargetLook &look) override {
    ++looked;
    for (TargetOperation &reg : look.registers) {
      ScriptedTarget copy = *this;
      llvm::Expected<uint64_t> value = copy.read(reg.space, reg.address, reg.width);
      if (!value)
        return value.takeError();
      bool lies = looks == Looks::Lie || (looks == Looks::LieLater && looked > 3);
      reg.value = lies && reg.address == toy::irq ? 0x40 : *value;
    }
    shown = buffer;
    look.contents.assign(look.windows.size(), shown);
    return llvm::Error::success();
  }

  TargetCapabilities capabilities() const override {
    TargetCapabilities can = ScriptedTarget::capabilities();
    can.snapshots = kind != Snapshots::None;
    can.maxSnapshots = kind == Snapshots::Few ? 2 : 64;
    return can;
  }
  llvm::Expected<uint64_t> snapshot() override {
    if (kept.size() == 64)
      return failUsage("snapshot-limit", "no room");
    kept.emplace(++last, *this);
    return last;
  }
  llvm::Error restore(uint64_t which) override {
    ++restores;
    if (kind == Snapshots::Fail || (kind == Snapshots::FailLater && restores > 20))
      return failTarget("wedged", "it does not go back", "scripted:");
    if (kind == Snapshots::Lie)
      return llvm::Error::success();
    static_cast<ScriptedTarget &>(*this) = kept.at(which);
    return llvm::Error::success();
  }
  llvm::Error releaseSnapshot(uint64_t which) override {
    kept.erase(which);
    return llvm::Error::success();
  }

private:
  Snapshots kind;
  Looks looks;
  std::vector<uint8_t> shown;
  unsigned restores = 0, looked = 0;
  uint64_t last = 0;
  std::map<uint64_t, ScriptedTarget> kept;
};

EndpointFactory keeping(const ToyOptions &options, Snapshots kind, std::shared_ptr<unsigned> made = nullptr,
                        Looks looks = Looks::None) {
  return [=]() -> llvm::Expected<TargetSet> {
    if (made)
      ++*made;
    return toyTargets(std::make_unique<KeepingToy>(options, kind, looks));
  };
}

const char *nameOf(const BisectReport &report) {
  return bisectMethodName(report.plan.method);
}

} // namespace

TEST_CASE("Snapshots: what is named is what is named without them, and costs one pass") {
  std::mt19937_64 random(21);
  unsigned trials = 0, healed = 0, blind = 0, glances = 0;
  for (uint64_t seed = 0; trials < 60; ++seed) {
    ToyWorkload work = makeWorkload(seed + 400, 20 + random() % 40);
    std::optional<size_t> dma = pickDma(work, random, true);
    if (!dma)
      continue;
    ++trials;
    ToyOptions good, bad;
    good.capabilities.peek = bad.capabilities.peek = trials % 2;
    // Looking would move the fault, if it were not undone.
    good.faults.countProbes = bad.faults.countProbes = trials % 4 == 0;
    bad.faults.corruptDma = *dma;
    auto [start, length] = work.dmaShape[*dma];
    bad.faults.corruptOffset = random() % length;
    // What heals at a transfer would heal at the probe's.
    if (random() % 3 == 0 && !bad.faults.countProbes && *dma + 1 < work.dmas.size())
      bad.faults.healAtDma = *dma + 1 + random() % (work.dmas.size() - *dma - 1);
    if (random() % 4 == 0 && !work.acknowledges.empty()) {
      bad.faults.corruptDma.reset();
      bad.faults.stickyIrqFrom = random() % work.acknowledges.size();
    }
    auto made = std::make_shared<unsigned>(0);
    Looks looks = trials % 4 == 1 ? Looks::True : Looks::None; // Only of those that can be peeked.
    Bisected kept =
        bisect(*work.tape,
               {keeping(good, Snapshots::Work, nullptr, looks), keeping(bad, Snapshots::Work, made, looks)},
               quickBisect(true));
    glances += looks == Looks::True;
    ToyOptions seen = good, wrong = bad;
    seen.capabilities.peek = wrong.capabilities.peek = true;
    seen.faults.countProbes = wrong.faults.countProbes = false;
    Bisected plain = bisect(*work.tape, seen, wrong, true);
    INFO(seed, " ", summary(kept), " | ", summary(plain));
    REQUIRE(kept.report);
    CHECK(std::string(nameOf(*kept.report)) == "deep-snapshot");
    REQUIRE(kept->first.has_value());
    REQUIRE(plain->first.has_value());
    CHECK(divergenceText(*kept->first, "good", "bad") == divergenceText(*plain->first, "good", "bad"));
    CHECK(kept->observed.has_value() == plain->observed.has_value());
    if (kept->observed && plain->observed)
      CHECK(kept->observed->place.packet == plain->observed->place.packet);
    CHECK(kept->visibleAt == plain->visibleAt);
    CHECK(kept->healed == plain->healed);
    CHECK(!kept->badIntermittent);
    CHECK(*made == 2); // The baseline's, and one that plays the tape.
    healed += kept->healed;
    blind += !kept->observed;
  }
  CHECK(healed > 3);
  CHECK(blind > 3);
  CHECK(glances > 10);
}

TEST_CASE("Snapshots: a target that shows other than what it holds is read everywhere") {
  ToyWorkload work = makeWorkload(3, 60);
  REQUIRE(work.acknowledges.size() > 4);
  ToyOptions bad;
  bad.faults.stickyIrqFrom = work.acknowledges.size() / 2; // Where the lie is.
  for (Looks looks : {Looks::True, Looks::Lie, Looks::LieLater}) {
    auto made = std::make_shared<unsigned>(0);
    Bisected bisected =
        bisect(*work.tape,
               {keeping({}, Snapshots::Work, nullptr, looks), keeping(bad, Snapshots::Work, made, looks)},
               quickBisect(true));
    INFO(int(looks), " ", summary(bisected));
    REQUIRE(bisected.report);
    CHECK(std::string(nameOf(*bisected.report)) == "deep-snapshot");
    REQUIRE(bisected->first);
    CHECK(bisected->first->place.packet == work.acknowledges[work.acknowledges.size() / 2]);
    CHECK(bisected->first->reg == "IRQ");
  }
  // Nothing seen by the host, nothing shown by a look: the last place is read, and then all of them are.
  ToyWorkload quiet = makeWorkload(7, 60);
  std::mt19937_64 random(5);
  bad = {};
  bad.faults.corruptDma = *pickDma(quiet, random, true);
  for (Looks looks : {Looks::True, Looks::LieLater}) {
    auto made = std::make_shared<unsigned>(0);
    Bisected bisected =
        bisect(*quiet.tape,
               {keeping({}, Snapshots::Work, nullptr, looks), keeping({}, Snapshots::Work, made, looks)},
               quickBisect(true));
    INFO(int(looks), " ", summary(bisected));
    REQUIRE(bisected.report);
    CHECK(bisected->verdict == Verdict::Match);
    CHECK(bisected->coverage.windowsProbed > 20);
    bool said = false;
    for (const std::string &note : bisected->notes)
      said |= note.find("not what it is read to hold") != std::string::npos;
    CHECK(said == (looks == Looks::LieLater));
  }
}

// One that acts from a keyframe, too: tests/e2e/EduLoopTest.
TEST_CASE(
    "Keyframes: a fault that acts at a number since power-on is looked for from the start, and it is said") {
  ScratchDirectory scratch;
  ToyWorkload work = makeWorkload(12, 60);
  writeTape(*work.tape, scratch.file("whole.tape"));
  ToyOptions good;
  good.capabilities.peek = false;
  std::mt19937_64 random(6);
  size_t dma = *pickDma(work, random, true);
  while (work.dmas[dma].doorbell < work.tape->packets.size() / 2)
    dma = *pickDma(work, random, true);
  ToyOptions bad = good;
  bad.faults.corruptDma = dma;
  BisectOptions options = quickBisect(true);
  unsigned parts = 0;
  options.cut = [&](uint64_t first, uint64_t last) -> llvm::Expected<BisectPart> {
    std::unique_ptr<TapeSource> whole = llvm::cantFail(TapeSource::open(scratch.file("whole.tape")));
    TrimOptions trim;
    trim.firstWindow = first;
    trim.lastWindow = last;
    llvm::Expected<TrimReport> cut = trimTape(*whole, scratch.file("part.tape"), trim);
    if (!cut)
      return cut.takeError();
    CHECK(cut->firstPacket > 0);
    ++parts;
    return BisectPart{llvm::cantFail(TapeSource::open(scratch.file("part.tape"))), cut->firstPacket};
  };
  Bisected bisected = bisect(*work.tape, {endpoint(good), endpoint(bad)}, options);
  INFO(summary(bisected));
  REQUIRE(bisected.report);
  REQUIRE(bisected->first);
  CHECK(bisected->first->place.packet == work.dmas[dma].doorbell);
  CHECK(parts == 1);
  CHECK(!bisected->insideStart);
  CHECK(bisected->plan.keyframes > 0);
  bool said = false;
  for (const std::string &note : bisected->notes)
    said |= note.find("do not differ as they do from the start") != std::string::npos;
  CHECK(said);
}

TEST_CASE("Snapshots: over 1,000 windows a deep bisect costs at most one and a half replays") {
  ToyWorkload work = makeWorkload(5, 1100);
  REQUIRE(work.tape->windows.size() >= 1000);
  for (double part : {0.1, 0.5, 0.95}) {
    ToyOptions bad;
    size_t dma = size_t(double(work.dmas.size()) * part);
    while (!work.dmaToDevice[dma])
      ++dma;
    bad.faults.corruptDma = dma;
    Bisected bisected =
        bisect(*work.tape, {keeping({}, Snapshots::Work), keeping(bad, Snapshots::Work)}, quickBisect(true));
    INFO(summary(bisected), "; ", bisected->packetsToBad, " of ", work.tape->packets.size());
    CHECK(bisected->first->place.packet == work.dmas[dma].doorbell);
    CHECK(bisected->packetsToBad * 2 <= work.tape->packets.size() * 3);
    CHECK(bisected->packetsToBad <= bisected->plan.ways[0].packets * 3 / 2);
  }
}

TEST_CASE("Snapshots: such as do not work are said to, and not used") {
  ToyWorkload work = makeWorkload(33, 40);
  std::mt19937_64 random(5);
  size_t dma = *pickDma(work, random, true);
  ToyOptions bad;
  bad.faults.corruptDma = dma;
  const std::pair<Snapshots, const char *> kinds[] = {{Snapshots::None, "the bad target has no snapshots"},
                                                      {Snapshots::Lie, "the bad target is not as it was"},
                                                      {Snapshots::Fail, "could not be put back"},
                                                      {Snapshots::FailLater, "could not be put back"},
                                                      {Snapshots::Few, "keeps only 2 snapshots"}};
  for (const auto &[kind, said] : kinds)
    for (bool peek : {false, true}) {
      ToyOptions good, wrong = bad;
      good.capabilities.peek = wrong.capabilities.peek = peek;
      Bisected bisected =
          bisect(*work.tape, {keeping(good, Snapshots::Work), keeping(wrong, kind)}, quickBisect(true));
      INFO(said, " ", peek, " ", summary(bisected));
      REQUIRE(bisected.report);
      CHECK(std::string(nameOf(*bisected.report)) == (peek ? "deep-lockstep" : "deep-search"));
      CHECK(bisected->first->place.packet == work.dmas[dma].doorbell);
      bool isSaid = false;
      for (const BisectPlan::Way &way : bisected->plan.ways)
        isSaid |= way.method == BisectPlan::Method::Snapshot && way.whyNot.find(said) != std::string::npos;
      CHECK(isSaid);
    }
  BisectOptions options = quickBisect(true);
  options.snapshots = false;
  Bisected without =
      bisect(*work.tape, {keeping({}, Snapshots::Work), keeping(bad, Snapshots::Work)}, options);
  CHECK(std::string(without->method) == "deep-lockstep");
}

TEST_CASE("Snapshots: what does not come again from one is intermittent, and searched by runs of its own") {
  ToyWorkload work = makeWorkload(31, 30);
  std::mt19937_64 random(5);
  ToyOptions bad;
  bad.faults.corruptDma = *pickDma(work, random, true);
  // The fault is in the first run that is looked at, and in no other.
  auto made = std::make_shared<unsigned>(0);
  EndpointFactory once = [=]() -> llvm::Expected<TargetSet> {
    return toyTargets(
        std::make_unique<KeepingToy>((*made)++ == 1 ? bad : ToyOptions(), Snapshots::Work, Looks::None));
  };
  BisectOptions options = quickBisect(true);
  options.runs = 2;
  options.rateRuns = 8;
  options.noisy.maxBlind = 10;
  Bisected bisected = bisect(*work.tape, {keeping({}, Snapshots::Work), once}, options);
  INFO(summary(bisected));
  REQUIRE(bisected.report);
  if (bisected->observed) {
    CHECK(bisected->badIntermittent);
    REQUIRE(bisected->search);
    CHECK(bisected->search->state == NoisySearch::State::NothingSeen);
  }
}

TEST_CASE("Snapshots: a target that dies, also when it is looked at, is named where the host saw it die") {
  ToyWorkload work = makeWorkload(31, 30);
  unsigned named = 0, fellBack = 0;
  for (uint64_t at = 60; at < 100; at += 3) {
    ToyOptions dies;
    dies.faults.dieAt = at;
    Bisected seen = bisect(*work.tape, {}, dies, false);
    Bisected kept =
        bisect(*work.tape, {keeping({}, Snapshots::Work), keeping(dies, Snapshots::Work)}, quickBisect(true));
    INFO(at, " ", summary(kept), " | ", summary(seen));
    if (!kept.report) { // Without snapshots, a look that is not put back kills it, too.
      CHECK(kept.failure->cls == FailureClass::Target);
      ++fellBack;
      continue;
    }
    REQUIRE(kept->first);
    CHECK(kept->first->place.packet == seen->first->place.packet);
    CHECK(kept->verdict == Verdict::Divergence);
    ++named;
    fellBack += std::string(nameOf(*kept.report)) != "deep-snapshot";
  }
  MESSAGE(named, " named, ", fellBack, " could not be looked at");
  CHECK(named >= 3);
  CHECK(fellBack >= 1);
}

TEST_CASE("Plan: the cheapest way that the targets allow, told before anything else is done") {
  ToyWorkload work = makeWorkload(33, 40);
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(work.tape->copy()));
  auto plan = [&](bool deep, bool peek, Snapshots kind) {
    ToyOptions toy;
    toy.capabilities.peek = peek;
    return llvm::cantFail(planBisect(*source, {keeping(toy, kind), keeping(toy, kind)}, quickBisect(deep)));
  };
  using Method = BisectPlan::Method;
  CHECK(plan(false, true, Snapshots::Work).method == Method::Observed);
  CHECK(plan(true, true, Snapshots::Work).method == Method::Snapshot);
  CHECK(plan(true, false, Snapshots::Work).method == Method::Snapshot);
  CHECK(plan(true, true, Snapshots::None).method == Method::Lockstep);
  CHECK(plan(true, false, Snapshots::None).method == Method::Search);
  BisectPlan search = plan(true, false, Snapshots::Lie);
  CHECK(search.method == Method::Search);
  CHECK(search.ways.size() == 4);
  CHECK(search.packets == work.tape->packets.size());
  for (size_t i = 1; i < search.ways.size(); ++i)
    CHECK(search.ways[i - 1].packets <= search.ways[i].packets);
}

TEST_CASE("Budget: a difference that lasts takes ceil(log2 N) + 2 probes; one that heals, the verification") {
  std::mt19937_64 random(8);
  for (unsigned operations : {20u, 60u, 150u}) {
    ToyWorkload work = makeWorkload(operations, operations);
    ToyOptions good, bad;
    good.capabilities.peek = bad.capabilities.peek = false;
    bad.faults.stickyIrqFrom = random() % work.acknowledges.size();
    Bisected bisected = bisect(*work.tape, good, bad, true);
    INFO(summary(bisected));
    double places = double(bisected->plan.places);
    CHECK(bisected->searchProbes <= uint64_t(std::ceil(std::log2(places))) + 2);
    CHECK(bisected->verifyProbes <= bisected->plan.places);
    CHECK(bisected->probes >= bisected->searchProbes + bisected->verifyProbes + bisected->insideProbes);
  }
}

TEST_CASE("One probe alone repeats a step of the search") {
  ToyWorkload work = makeWorkload(55, 40);
  std::mt19937_64 random(5);
  size_t dma = *pickDma(work, random, true);
  ToyOptions good, bad;
  good.capabilities.peek = bad.capabilities.peek = false;
  bad.faults.corruptDma = dma;
  Bisected whole = bisect(*work.tape, good, bad, true);
  REQUIRE(whole->steps.size() > 3);
  for (const BisectStep &step : whole->steps) {
    BisectOptions options = quickBisect(true);
    options.at = step.packet;
    Bisected again = bisect(*work.tape, {endpoint(good), endpoint(bad)}, options);
    INFO(step.packet, " ", summary(again));
    CHECK(std::string(again->method) == "probe");
    CHECK(again->stateAt.has_value() == (step.differed > 0));
    CHECK((again->verdict == Verdict::Divergence) == (step.differed > 0));
    CHECK(exitCodeFor(*again.report) == (step.differed > 0));
  }
}

/// A prefix that ends anywhere is one step of a longer run: bisect relies on it.
TEST_CASE("Where a run is interrupted changes nothing: state and time are those of a run in one piece") {
  constexpr uint64_t data = QueueProgram::data, fence = data + 0x8000;
  QueueProgram program;
  for (unsigned round = 0; round < 6; ++round) {
    for (unsigned q = 0; q < 2; ++q) {
      uint64_t at = data + 0x2000 * q;
      program.store(at, std::vector<uint8_t>(0x400, uint8_t(17 * round + q + 1)));
      program.submit(q, minnow_dma(MINNOW_DMA_LOAD, at, 0x1000 * q, 32, 4, 256, 32));
      program.submit(q, minnow_dma(MINNOW_DMA_STORE, at + 0x1000, 0x1000 * q, 16, 8, 64, 16));
      program.submit(q, minnow_fence(fence + 8 * q, round + 1, 0));
    }
    program.doorbell(0);
    program.doorbell(1);
    program.wait(fence, round + 1);
    program.wait(fence + 8, round + 1);
    program.marker("round");
  }
  std::unique_ptr<MemoryTape> tape = program.finish();
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape->copy()));
  StartState start = llvm::cantFail(findStartState(*source, false));
  unsigned played = 0;
  for (const std::string uri : {"model:minnow", "rtl:minnow?jitter=64&seed=5"}) {
#ifndef TAPEBACK_HAS_RTL
    if (uri.front() == 'r')
      continue;
#endif
    EndpointFactory open = [&]() -> llvm::Expected<TargetSet> {
      llvm::Expected<std::unique_ptr<Target>> target = openTarget(uri);
      if (!target)
        return target.takeError();
      TargetSet set;
      set.owned.push_back(std::move(*target));
      set.targets.push_back(set.owned.back().get());
      return set;
    };
    std::optional<StateImage> whole;
    uint64_t total = source->reader().summary().packets;
    for (uint64_t step : {total, uint64_t(1), uint64_t(3), uint64_t(32)}) {
      Lockstep::Options options;
      options.player = quickOptions().player;
      options.compare = options.withTape = false;
      auto run = llvm::cantFail(Lockstep::start(*source, {open, open}, start, options));
      for (uint64_t at = step; run->position() < total && !run->stopped(); at += step)
        llvm::cantFail(run->runTo(at));
      REQUIRE(run->position() == total);
      StateImage image = llvm::cantFail(lookAtState(*run->bad.player));
      if (!whole)
        whole = image;
      std::optional<std::string> differs = stateDifference(*whole, image);
      CHECK_MESSAGE(!differs, uri << " in steps of " << step << ": " << differs.value_or(""));
      CHECK(image.entries.size() > 10);
      ++played;
    }
  }
  CHECK(played >= 4);
}
