// Bisect against planted faults: the tests know from the workload where the fault acts, not from the tool.
#include "replayer/bisect/Bisect.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Bisected {
  std::unique_ptr<TapeSource> source;
  std::optional<BisectReport> report;
  std::optional<Failure> failure;
  const BisectReport *operator->() const { return &*report; }
};

EndpointFactory endpoint(const ToyOptions &options, std::shared_ptr<unsigned> made = nullptr) {
  return [options, made]() -> llvm::Expected<TargetSet> {
    ToyOptions present = options;
    if (made && options.faults.activeOnlyOnOddRuns && (*made)++ % 2 == 0)
      present.faults = {};
    TargetSet set;
    set.owned.push_back(std::make_unique<ScriptedTarget>(present));
    set.targets.push_back(set.owned.back().get());
    return set;
  };
}

BisectOptions quickBisect(bool deep) {
  BisectOptions options;
  options.player = quickOptions().player;
  options.probe.waits = options.player.waits;
  options.deep = deep;
  return options;
}

Bisected bisect(const MemoryTape &tape, const Endpoints &endpoints, const BisectOptions &options) {
  Bisected result;
  result.source = llvm::cantFail(TapeSource::create(tape.copy()));
  llvm::Expected<BisectReport> report = bisectTape(*result.source, endpoints, options);
  if (report)
    result.report = std::move(*report);
  else
    result.failure = toFailure(report.takeError());
  return result;
}

Bisected bisect(const MemoryTape &tape, const ToyOptions &good, const ToyOptions &bad, bool deep) {
  return bisect(tape, {endpoint(good), endpoint(bad)}, quickBisect(deep));
}

std::string summary(const Bisected &bisected) {
  if (bisected.failure)
    return "failure " + bisected.failure->code + ": " + bisected.failure->message;
  std::string text = std::string(verdictName(bisected->verdict)) + " " + bisected->method;
  if (bisected->first)
    text += "; " + divergenceText(*bisected->first, "good", "bad");
  if (bisected->observed)
    text += "; observed " + divergenceText(*bisected->observed, "good", "bad");
  for (const std::string &note : bisected->notes)
    text += "; note: " + note;
  return text;
}

uint64_t windowOf(const MemoryTape &tape, uint64_t packet) {
  for (size_t i = 0; i < tape.windows.size(); ++i)
    if (packet < tape.windows[i].firstPacket + tape.windows[i].packetCount)
      return i;
  return ~uint64_t(0);
}

/// A transfer of the workload in the wanted direction, or none.
std::optional<size_t> pickDma(const ToyWorkload &work, std::mt19937_64 &random, bool toDevice) {
  std::vector<size_t> candidates;
  for (size_t i = 0; i < work.dmas.size(); ++i)
    if (work.dmaToDevice[i] == toDevice)
      candidates.push_back(i);
  if (candidates.empty())
    return std::nullopt;
  return candidates[random() % candidates.size()];
}

} // namespace

TEST_CASE("Observed: 300 corrupted transfers are named to the window, packet and byte") {
  std::mt19937_64 random(1);
  unsigned trials = 0;
  for (uint64_t seed = 0; trials < 300; ++seed) {
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
  unsigned trials = 0;
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
    CHECK(bisected->probes > 0);
    CHECK(bisected->coverage.probes.windows.count("buffer"));
    neverSeen += !bisected->observed;
    healed += bisected->healed;
    if (bisected->observed)
      CHECK(bisected->observed->place.packet > packet);
  }
}

TEST_CASE("Deep: 400 bytes lost in hidden state are named where they were lost, however late they show") {
  unsigned neverSeen = 0, healed = 0;
  loseBytes(400, false, neverSeen, healed);
  CHECK(neverSeen > 20); // Those that observation alone would have called equal …
  CHECK(healed > 20);    // … and those that a plain search by halves may miss.
}

TEST_CASE(
    "Deep: 60 bytes lost by devices that looking at disturbs are named where they are lost undisturbed") {
  unsigned neverSeen = 0, healed = 0;
  loseBytes(60, true, neverSeen, healed);
}

TEST_CASE("Deep: 150 acknowledges that do nothing are named themselves, not the read that shows it") {
  std::mt19937_64 random(3);
  unsigned trials = 0;
  for (uint64_t seed = 0; trials < 150; ++seed) {
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

TEST_CASE("An endpoint that does not repeat itself is called intermittent, and no state is searched") {
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
      Bisected bisected = bisect(*work.tape, endpoints, options);
      INFO(deep, isGood, " ", summary(bisected));
      REQUIRE(bisected.report);
      CHECK((bisected->goodIntermittent || bisected->badIntermittent));
      CHECK(bisected->goodIntermittent == isGood);
      REQUIRE(bisected->runs.size() == 4);
      unsigned diverged = 0;
      for (const BisectRun &run : bisected->runs)
        diverged += run.diverged;
      CHECK(diverged == 2);
      CHECK(bisected->verdict == Verdict::Divergence);
      CHECK(bisected->first->place.packet == work.dmas[*bad.faults.corruptDma].completion);
      if (deep)
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
