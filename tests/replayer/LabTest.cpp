// The lab around a replay: its file, its commands, and registers that are read before a reset forgets them.
#include "replayer/lab/Guard.h"
#include "replayer/lab/HookRun.h"
#include "replayer/lab/PostMortem.h"
#include "replayer/lab/SideEffects.h"
#include "tests/replayer/ReplayHarness.h"
#include <csignal>

using namespace tapeback;
using namespace tapeback::test;

namespace {

Failure labFailure(llvm::StringRef yaml) {
  llvm::Expected<std::unique_ptr<LabFile>> file = parseLabFile(yaml, "lab.yaml");
  if (file) {
    FAIL_CHECK("taken: " << yaml.str());
    return Failure(FailureClass::System, "", "");
  }
  return toFailure(file.takeError());
}

Hook shellHook(const std::string &script, uint64_t seconds = 60) {
  return {"x-test", {"/bin/sh", "-c", script}, seconds};
}

/// The toy's description with a post-mortem list, and a register whose write resets it.
std::string describedWithList() {
  return std::string(toy::description) + "post-mortem: [STATUS, IRQ, SQUARE]\n"
                                         "resets: [{register: COUNT, mask: 0xff, value: 0x7f}]\n";
}

std::unique_ptr<MemoryTape> withList(std::unique_ptr<MemoryTape> tape) {
  tape->theDevices[0].description = describedWithList();
  return tape;
}

struct Examined {
  std::vector<PostMortemValue> values;
  std::optional<uint64_t> packet;
};
Examined examine(const MemoryTape &tape, ToyOptions toy) {
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape.copy()));
  ScriptedTarget target(std::move(toy));
  Target *one = &target;
  PostMortem postMortem(*source);
  ReplayOptions options = quickOptions();
  options.observers.push_back(&postMortem);
  llvm::cantFail(replayTape(*source, one, options));
  return {postMortem.values(), postMortem.packet()};
}

} // namespace

TEST_CASE("lab: a file says which commands there are and when they run") {
  std::unique_ptr<LabFile> file = llvm::cantFail(parseLabFile(R"(
tapeback-lab: 1
doc: rack 4
hooks:
  - name: power-cycle
    run: [/usr/local/bin/rack, cycle, port-7]
    timeout-seconds: 30
  - name: x-warm-up
    run: ["/bin/true"]
before-run: [x-warm-up, power-cycle]
after-failure: [power-cycle]
)",
                                                              "lab.yaml"));
  REQUIRE(file->hooks.size() == 2);
  CHECK(file->hooks[0].text() == "power-cycle: /usr/local/bin/rack cycle port-7");
  CHECK(file->hooks[0].timeoutSeconds == 30);
  CHECK(file->hooks[1].timeoutSeconds == 60);
  REQUIRE(file->beforeRun.size() == 2);
  CHECK(file->beforeRun[1] == &file->hooks[0]);
  REQUIRE(file->afterFailure.size() == 1);
}

TEST_CASE("lab: what is wrong in it is said with its place") {
  for (const char *yaml :
       {"tapeback-lab: 2\n", "hooks: []\n", "tapeback-lab: 1\nhoks: []\n",
        "tapeback-lab: 1\nhooks: [{name: power-cylce, run: [/bin/true]}]\n",
        "tapeback-lab: 1\nhooks: [{name: power-cycle, run: []}]\n",
        "tapeback-lab: 1\nhooks: [{name: power-cycle, run: [rack]}]\n",
        "tapeback-lab: 1\nhooks: [{name: power-cycle, run: [/bin/true], timeout-seconds: 0}]\n",
        "tapeback-lab: 1\nhooks: [{name: power-cycle, run: [/bin/true], timeout-seconds: 99999}]\n",
        "tapeback-lab: 1\nhooks: [{name: x-a, run: [/bin/true]}, {name: x-a, run: [/bin/false]}]\n",
        "tapeback-lab: 1\nbefore-run: [power-cycle]\n",
        "tapeback-lab: 1\nforbidden: [{name: f, space: bar0, first: 2, last: 1}]\n",
        "tapeback-lab: 1\nforbidden: [{name: f, space: bar0, first: x, last: 1}]\n",
        "tapeback-lab: 1\nforbidden: [{name: f, first: 0, last: 1}]\n",
        "tapeback-lab: 1\nhooks: [{name: x-, run: [/a]}]\n"}) {
    CAPTURE(yaml);
    Failure failure = labFailure(yaml);
    CHECK(failure.cls == FailureClass::Usage);
    CHECK((failure.where + failure.message).find("lab.yaml") != std::string::npos);
  }
}

TEST_CASE("hook: exit status, output, variables, and no input") {
  HookResult result = llvm::cantFail(runHook(
      shellHook("echo out; echo err >&2; echo $TAPEBACK_TARGET; cat; exit 3"), {{"TAPEBACK_TARGET", "toy"}}));
  CHECK(result.exit == 3);
  CHECK_FALSE(result.ok());
  CHECK(result.fate() == "exited with 3");
  CHECK(result.output == "out\nerr\ntoy\n");
  CHECK(llvm::cantFail(runHook(shellHook("exit 0"), {})).ok());
  HookResult killed = llvm::cantFail(runHook(shellHook("kill -TERM $$"), {}));
  CHECK_FALSE(killed.ok());
  CHECK(killed.signal == 15);
}

TEST_CASE("hook: time and output are bounded") {
  HookResult slow = llvm::cantFail(runHook(shellHook("echo begun; sleep 1000 & sleep 1000", 1), {}));
  CHECK(slow.timedOut);
  CHECK_FALSE(slow.ok());
  HookResult loud = llvm::cantFail(
      runHook(shellHook("i=0; while [ $i -lt 3000 ]; do echo "
                        "0123456789012345678901234567890123456789012345678901234567890123456789; "
                        "i=$((i+1)); done; echo last"),
              {}));
  CHECK(loud.ok());
  CHECK(loud.outputCut);
  CHECK(loud.output.size() <= (64u << 10));
  CHECK(llvm::StringRef(loud.output).ends_with("last\n"));
}

TEST_CASE("hook: one that leaves a child behind is not waited for longer than itself") {
  HookResult result = llvm::cantFail(runHook(shellHook("sleep 1000 & echo $!"), {}));
  CHECK(result.ok());
  pid_t left = pid_t(std::strtol(result.output.c_str(), nullptr, 10));
  REQUIRE(left > 1);
  CHECK(kill(left, SIGKILL) == 0); // It was meant to stay: a lab's command may start a server.
}

TEST_CASE("hook: the first that fails ends the row, and what cannot be started says why") {
  Hook good = shellHook("echo fine"), bad = shellHook("echo broken; exit 1"), missing = shellHook("");
  missing.run = {"/nonexistent/rack"};
  std::vector<HookResult> results;
  llvm::Error error = runHooks({&good, &bad, &good}, {}, results);
  CHECK(results.size() == 2);
  Failure failure = toFailure(std::move(error));
  CHECK(failure.cls == FailureClass::Target);
  CHECK(failure.code == "hook-failed");
  CHECK(failure.hint.find("broken") != std::string::npos);
  failure = toFailure(runHooks({&missing}, {}, results));
  CHECK(failure.code == "cannot-run-hook");
  CHECK(failure.message.find("No such file") != std::string::npos);
}

TEST_CASE("post-mortem: registers are read after a failure, before the reset that follows it") {
  ToyProgram program;
  program.open();
  program.square(7);
  uint64_t reset = program.reset();
  program.square(5);
  std::unique_ptr<MemoryTape> tape = withList(program.finish());
  ToyOptions bad;
  bad.faults.wrongSquareOf = 7;
  Examined seen = examine(*tape, bad);
  CHECK(seen.packet == reset);
  REQUIRE(seen.values.size() == 3);
  CHECK(seen.values[2].reg == "SQUARE");
  REQUIRE(seen.values[2].value);
  CHECK(*seen.values[2].value != 0); // Afterwards it would be 0, or 25.
  CHECK(*seen.values[2].value != 25);
  // Without failure nothing is read.
  CHECK(examine(*tape, {}).values.empty());
}

TEST_CASE("post-mortem: a register write that resets counts as well, and the end of the tape") {
  ToyProgram program;
  program.open();
  program.square(7);
  uint64_t soft = program.write(toy::count, 0x17f, 8);
  program.square(5);
  ToyOptions bad;
  bad.faults.wrongSquareOf = 7;
  std::unique_ptr<MemoryTape> tape = withList(program.finish());
  CHECK(examine(*tape, bad).packet == soft);
  ToyProgram other;
  other.open();
  other.write(toy::count, 0x17e, 8); // Not what resets.
  other.square(7);
  Examined seen = examine(*withList(other.finish()), bad);
  CHECK_FALSE(seen.packet);
  CHECK(seen.values.size() == 3);
}

TEST_CASE("post-mortem: a dead target says so once, and a device without a list costs nothing") {
  ToyProgram program;
  program.open();
  program.square(7);
  ToyOptions dead;
  dead.faults.dieAt = 5;
  std::unique_ptr<MemoryTape> tape = program.finish();
  CHECK(examine(*tape, dead).values.empty());
  Examined seen = examine(*withList(std::move(tape)), dead);
  REQUIRE(seen.values.size() == 3);
  CHECK_FALSE(seen.values[0].value);
  CHECK_FALSE(seen.values[0].failure.empty());
  CHECK(seen.values[2].failure == "the target does not answer any more");
}

TEST_CASE("side effects: every kind of them, grouped, and none for what is not issued again") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, 4096);
  program.dma(true, toyMemory, 0, 64);
  for (uint64_t i = 0; i < 7; ++i)
    program.write(toy::scratch, i);
  program.read(toy::mayHang);
  program.waitMemory(toyMemory, 4, 0, 0);
  program.reset();
  program.unmap(toyMemory);
  program.write(toy::fuse, 1);
  std::unique_ptr<MemoryTape> tape = withList(program.finish());
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape->copy()));
  ReplayOptions options = quickOptions();
  SideEffects effects = llvm::cantFail(findSideEffects(*source, options));
  auto find = [&](llvm::StringRef kind, llvm::StringRef reg = "") -> const SideEffect * {
    for (const SideEffect &effect : effects.groups)
      if (effect.kind == kind && (reg.empty() || effect.reg == reg))
        return &effect;
    return nullptr;
  };
  for (const char *kind : {"register-write", "memory-write", "memory-map", "memory-unmap", "reset", "wait",
                           "reset-at-start", "fingerprint-read", "post-mortem-read", "read-with-effect"})
    CHECK_MESSAGE(find(kind), kind);
  const SideEffect *scratch = find("register-write", "SCRATCH");
  REQUIRE(scratch);
  CHECK(scratch->count == 7);
  CHECK(scratch->values.size() == 4);
  CHECK(scratch->moreValues);
  CHECK_FALSE(scratch->forbidden);
  REQUIRE(find("register-write", "FUSE"));
  CHECK(find("register-write", "FUSE")->forbidden);
  CHECK(effects.forbidden == 1);
  CHECK(effects.firstForbidden);
  CHECK(find("read-with-effect", "MAYHANG"));
  CHECK_FALSE(find("read-with-effect", "SCRATCH"));
  CHECK(find("wait")->longestWait > 0);
  CHECK(sideEffectText(*scratch).find("7 register-write bar0 SCRATCH = 0x0, 0x1, 0x2, 0x3 …") == 0);

  options.player.binding.allowRegisters = {"FUSE"};
  options.endPacket = source->reader().summary().packets;
  effects = llvm::cantFail(findSideEffects(*source, options));
  CHECK(effects.forbidden == 0);
  options.endPacket = 3;
  effects = llvm::cantFail(findSideEffects(*source, options));
  CHECK_FALSE(find("register-write", "SCRATCH"));
}

TEST_CASE("side effects: a range that the description forbids is marked, and named") {
  ToyProgram program;
  program.open();
  program.write(toy::scratch, 1);
  uint64_t write = program.write(0x108, 7);
  std::unique_ptr<MemoryTape> tape = program.finish();
  std::string text = toy::description;
  text.replace(text.find("registers:"), 10,
               "forbidden: [{name: flash, first: 0x100, last: 0x1ff}]\nregisters:");
  tape->theDevices[0].description = text;
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape->copy()));
  ReplayOptions options = quickOptions();
  SideEffects effects = llvm::cantFail(findSideEffects(*source, options));
  CHECK(effects.forbidden == 1);
  CHECK(effects.firstForbidden == write);
  CHECK(llvm::any_of(effects.groups, [](const SideEffect &effect) {
    return effect.forbidden && effect.address == 0x108 && effect.reg.empty();
  }));
  std::vector<PlannedWrite> forbidden;
  llvm::cantFail(planWrites(*source, options, [&](const PlannedWrite &one) {
    if (one.forbidden)
      forbidden.push_back(one);
    return true;
  }));
  REQUIRE(forbidden.size() == 1);
  CHECK(forbidden[0].forbiddenBy == "flash");
  options.player.binding.allowRegisters = {"flash"};
  CHECK(llvm::cantFail(findSideEffects(*source, options)).forbidden == 0);
}

TEST_CASE("side effects: a tape that touches everything has as many groups as are shown") {
  ToyProgram program;
  program.open();
  Packet write;
  write.kind = PacketKind::RegisterWrite;
  write.space = 1;
  write.width = 4;
  for (uint64_t i = 1; i < 6000; ++i) {
    write.address = i << 12;
    program.raw(write);
  }
  std::unique_ptr<MemoryTape> tape = program.finish();
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape->copy()));
  SideEffects effects = llvm::cantFail(findSideEffects(*source, quickOptions()));
  CHECK(effects.groups.size() == 4096);
  CHECK(effects.ungrouped > 1900);
}

TEST_CASE("guard: ranges that the lab forbids are refused with the packet named, unless they are named") {
  ToyProgram program;
  program.open();
  program.map(toyMemory, 4096);
  uint64_t scratch = program.write(toy::scratch, 1);
  uint64_t wide = program.write(toy::wide, 1, 8);
  uint64_t stored = program.store(toyMemory + 100, std::vector<uint8_t>(16));
  std::unique_ptr<MemoryTape> tape = program.finish();
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape->copy()));
  auto refused = [&](ForbiddenRange range, std::vector<std::string> allowed = {},
                     std::optional<uint64_t> end = {}) -> std::string {
    llvm::Error error = refuseForbiddenRanges(*source, range, allowed, end);
    if (!error)
      return "";
    Failure failure = toFailure(std::move(error));
    CHECK(failure.code == "forbidden-write");
    CHECK(failure.cls == FailureClass::Usage);
    CHECK(failure.message.find("'" + range.name + "'") != std::string::npos);
    return failure.where;
  };
  auto packet = [](uint64_t ordinal) { return "packet " + std::to_string(ordinal); };
  CHECK(refused({"r", "bar0", toy::scratch, toy::scratch}) == packet(scratch));
  CHECK(refused({"r", "bar0", toy::wide + 7, toy::wide + 7}) == packet(wide)); // Its last byte.
  CHECK(refused({"r", "bar0", toy::wide + 8, 0xffff}) == "");
  CHECK(refused({"r", "bar1", 0, ~uint64_t(0)}) == "");
  CHECK(refused({"r", "memory", toyMemory + 115, toyMemory + 115}) != "");
  CHECK(refused({"r", "memory", toyMemory + 4096, ~uint64_t(0)}) == "");
  CHECK(refused({"r", "memory", 0, toyMemory - 1}) == "");
  CHECK(refused({"r", "bar0", 0, 0xff}, {"r"}) == "");
  CHECK(refused({"r", "bar0", 0, 0xff}, {"other"}) == packet(scratch));
  CHECK(refused({"r", "bar0", 0, 0xff}, {}, scratch) == "");
  CHECK(stored > wide);
}
