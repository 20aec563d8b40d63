// A second target in lockstep: what it answers and what it holds, compared at every window.
#include "replayer/shadow/ShadowRun.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Shadowed {
  ReplayReport replay;
  ShadowReport shadow;
};

Shadowed shadow(const MemoryTape &tape, ToyOptions toy, ToyOptions beside) {
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape.copy()));
  ScriptedTarget target(std::move(toy)), second(std::move(beside));
  Target *one = &target, *other = &second;
  ReplayOptions options = quickOptions();
  ShadowOptions shadowOptions;
  shadowOptions.player = options.player;
  ShadowRun run(*source, other, shadowOptions);
  options.observers.push_back(&run);
  Shadowed result;
  result.replay = llvm::cantFail(replayTape(*source, one, options));
  result.shadow = run.result();
  return result;
}

std::unique_ptr<MemoryTape> workload() {
  return std::move(makeWorkload(5, 40).tape);
}

} // namespace

TEST_CASE("shadow: two that are alike") {
  Shadowed seen = shadow(*workload(), {}, {});
  CHECK(seen.replay.verdict == Verdict::Match);
  CHECK_FALSE(seen.shadow.differs());
  CHECK(seen.shadow.windows == seen.replay.windows);
  CHECK(seen.shadow.answersCompared == seen.replay.packets);
  CHECK(seen.shadow.statesCompared > 20);
  CHECK(seen.shadow.statesCompared + seen.shadow.notQuiescent == seen.shadow.windows);
  CHECK(seen.shadow.coverage.memory);
  CHECK(seen.shadow.coverage.registers.count("SCRATCH"));
  CHECK(seen.shadow.coverage.windows.count("buffer"));
  CHECK(seen.shadow.memoryBytes == toyMemorySize);
  CHECK_FALSE(seen.shadow.stopped);
}

TEST_CASE("shadow: another answer is named, and the replay's own verdict stays") {
  ToyProgram program;
  program.open();
  program.square(3);
  program.marker("later");
  uint64_t written = program.square(7);
  ToyOptions bad;
  bad.faults.wrongSquareOf = 7;
  Shadowed seen = shadow(*program.finish(), {}, bad);
  CHECK(seen.replay.verdict == Verdict::Match);
  CHECK(seen.shadow.differs());
  REQUIRE(!seen.shadow.answers.empty());
  CHECK(seen.shadow.answers[0].place.packet > written);
  CHECK(seen.shadow.answers[0].reg == "SQUARE");
  CHECK(seen.shadow.answers[0].expected == 49u);
  CHECK(seen.shadow.windowsDiffer >= 1);
}

TEST_CASE("shadow: a state that nobody has read differs at the end of its window") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, 4096);
  ToyProgram::Dma load = program.dma(true, toyMemory, 0, 64);
  program.square(3);
  program.square(4);
  ToyOptions bad;
  bad.faults.corruptDma = 0;
  bad.faults.corruptOffset = 10;
  std::unique_ptr<MemoryTape> tape = program.finish();
  for (bool targetIsBad : {false, true}) {
    Shadowed seen = targetIsBad ? shadow(*tape, bad, {}) : shadow(*tape, {}, bad);
    CHECK(seen.replay.verdict == Verdict::Match); // The host never looks.
    CHECK(seen.shadow.answersDiffer == 0);
    REQUIRE(seen.shadow.state);
    CHECK(seen.shadow.state->difference.name == "buffer");
    CHECK(seen.shadow.state->difference.offset == 10);
    CHECK(seen.shadow.state->window == load.window);
    CHECK(seen.shadow.statesDiffer >= 2);
  }
}

TEST_CASE("shadow: memory that the device writes astray differs though the host never looks") {
  ToyOptions bad;
  bad.faults.strayWriteAtDma = 1;
  Shadowed seen = shadow(*workload(), {}, bad);
  CHECK(seen.shadow.differs());
  REQUIRE(seen.shadow.state);
  CHECK(seen.shadow.state->difference.kind == StateDifference::Kind::Memory);
}

TEST_CASE("shadow: behind a reset there is nothing to compare until something came after it") {
  ToyProgram program;
  program.open();
  program.write(toy::scratch, 7);
  program.reset();
  program.marker("next");
  program.write(toy::scratch, 8);
  std::unique_ptr<MemoryTape> tape = program.finish();
  ToyOptions keeps;
  keeps.faults.resetKeepsState = true;
  Shadowed seen = shadow(*tape, {}, keeps);
  for (size_t i = 0; i < tape->windows.size(); ++i) {
    const WindowInfo &window = tape->windows[i];
    if (window.packetCount &&
        tape->packets[window.firstPacket + window.packetCount - 1].kind == PacketKind::Reset)
      CHECK(seen.shadow.notQuiescent >= 1);
  }
  CHECK(seen.shadow.notQuiescent >= 1);
}

TEST_CASE("shadow: windows are not read back where that would disturb") {
  ToyOptions blind;
  blind.capabilities.peek = false;
  Shadowed seen = shadow(*workload(), blind, {});
  CHECK_FALSE(seen.shadow.differs());
  CHECK(seen.shadow.coverage.windows.empty());
  CHECK(seen.shadow.coverage.notVisible.count("buffer"));
  CHECK(seen.shadow.coverage.memory);
}

TEST_CASE("shadow: one that dies does not end the replay") {
  ToyOptions dies;
  dies.faults.dieAt = 40;
  Shadowed seen = shadow(*workload(), {}, dies);
  CHECK(seen.replay.verdict == Verdict::Match);
  CHECK(seen.shadow.stopped);
  REQUIRE(seen.shadow.failure);
  CHECK(seen.shadow.failure->code == "target-died");
  CHECK(seen.shadow.windows < seen.replay.windows);
}

TEST_CASE("shadow: one that does not answer is compared with nothing") {
  ToyOptions silent;
  silent.capabilities.answers = false;
  Shadowed seen = shadow(*workload(), {}, silent);
  CHECK(seen.shadow.answersCompared == 0);
  CHECK(seen.shadow.notComparable == seen.replay.packets);
  CHECK(seen.shadow.statesCompared == 0);
}
