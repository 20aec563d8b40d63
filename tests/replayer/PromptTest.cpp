// The prompt: stop anywhere, look, change, go on. Driven by lines, as a pipe would.
#include "replayer/prompt/Prompt.h"
#include "format/Text.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Session {
  ReplayReport report;
  std::string text;
  size_t linesLeft = 0;
  std::map<uint64_t, uint64_t> writesTo;

  bool says(llvm::StringRef what) const { return llvm::StringRef(text).contains(what); }
};

struct SessionSetup {
  std::optional<uint64_t> until;
  bool atDivergence = false, shadowed = false;
  ToyOptions toy, second;
  std::vector<std::string> allow;
};

Session converse(const MemoryTape &tape, std::vector<std::string> lines, const SessionSetup &setup) {
  std::unique_ptr<TapeSource> source = llvm::cantFail(TapeSource::create(tape.copy()));
  ScriptedTarget target(setup.toy), beside(setup.second);
  Target *one = &target, *other = &beside;
  ReplayOptions options = quickOptions();
  options.player.binding.allowRegisters = setup.allow;
  ShadowOptions shadowOptions;
  shadowOptions.player = options.player;
  ShadowRun shadow(*source, other, shadowOptions);
  Session session;
  size_t used = 0;
  PromptIo io;
  io.readLine = [&](llvm::StringRef) -> std::optional<std::string> {
    if (used == lines.size())
      return std::nullopt;
    session.text += "> " + lines[used] + "\n";
    return lines[used++];
  };
  io.print = [&](llvm::StringRef text) { session.text += text.str(); };
  io.packetText = [](uint64_t packet) -> llvm::Expected<std::string> {
    return "packet " + std::to_string(packet) + " in words\n";
  };
  io.resolve = [](llvm::StringRef place) -> llvm::Expected<uint64_t> {
    if (!place.consume_front("p"))
      return failUsage("bad-range", "no such place");
    return parseNumber(place);
  };
  PromptOptions promptOptions;
  promptOptions.until = setup.until;
  promptOptions.atDivergence = setup.atDivergence;
  promptOptions.shadow = setup.shadowed ? &shadow : nullptr;
  Prompt prompt(*source, io, promptOptions);
  if (setup.shadowed)
    options.observers.push_back(&shadow);
  options.observers.push_back(&prompt);
  session.report = llvm::cantFail(replayTape(*source, one, options));
  session.linesLeft = lines.size() - used;
  session.writesTo = target.writesTo;
  return session;
}

/// Squares and transfers; `places` are the packets of the squares' writes.
struct PromptTape {
  std::unique_ptr<MemoryTape> tape;
  std::vector<uint64_t> places;
  uint64_t packets = 0;
};
PromptTape promptTape() {
  PromptTape result;
  ToyProgram program;
  program.open();
  program.map(toyMemory, 4096);
  for (uint64_t i = 2; i < 8; ++i) {
    program.marker("square");
    result.places.push_back(program.square(i));
    program.write(toy::scratch, 0x100 + i);
  }
  std::vector<uint8_t> content(64, 0x5a);
  program.store(toyMemory + 256, content);
  program.dma(true, toyMemory + 256, 0, 64);
  program.read(toy::scratch);
  result.packets = program.packets();
  result.tape = program.finish();
  return result;
}

} // namespace

TEST_CASE("prompt: it stops before the place, says where that is, and goes on to the end") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.until = tape.places[2];
  Session session = converse(*tape.tape, {"where", "continue", "quit"}, setup);
  INFO(session.text);
  CHECK(session.says("before packet " + std::to_string(tape.places[2])));
  CHECK(session.says("after marker \"square\" (occurrence 3), command 0"));
  CHECK(session.says("next: packet " + std::to_string(tape.places[2]) + " in words"));
  CHECK(session.says("the replay is over"));
  CHECK(session.report.verdict == Verdict::Match);
  CHECK(session.report.packetsReplayed == tape.packets);
  CHECK(session.linesLeft == 0);
}

TEST_CASE("prompt: quitting ends the replay where it is, and what was played counts") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.until = tape.places[2];
  for (bool endOfInput : {false, true}) {
    Session session = converse(
        *tape.tape, endOfInput ? std::vector<std::string>{} : std::vector<std::string>{"quit"}, setup);
    CHECK(session.report.packetsReplayed == tape.places[2]);
    CHECK(session.report.packets == tape.places[2]);
    CHECK(session.report.verdict == Verdict::Match);
    CHECK_FALSE(session.says("the replay is over"));
  }
}

TEST_CASE("prompt: steps by packet, command and window") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.until = tape.places[1];
  uint64_t at = tape.places[1];
  Session session = converse(*tape.tape, {"step", "step 2", "s packet 1", "quit"}, setup);
  INFO(session.text);
  for (uint64_t step : {0, 1, 3, 4})
    CHECK(session.says("before packet " + std::to_string(at + step) + ","));
  CHECK(session.report.packetsReplayed == at + 4);

  session = converse(*tape.tape, {"step command", "step command 2", "quit"}, setup);
  INFO(session.text);
  CHECK(session.says("before packet " + std::to_string(tape.places[1] + 1) + ","));
  CHECK(session.report.packetsReplayed == tape.places[3] + 1); // The third square from here.

  session = converse(*tape.tape, {"step window", "quit"}, setup);
  std::unique_ptr<MemoryTape> copy = tape.tape->copy();
  WindowInfo window = llvm::cantFail(copy->window(llvm::cantFail(copy->windowOfPacket(at))));
  CHECK(session.report.packetsReplayed == window.firstPacket + window.packetCount);

  session = converse(*tape.tape, {"until p" + std::to_string(at + 5), "until p1", "quit"}, setup);
  CHECK(session.says("is not ahead"));
  CHECK(session.report.packetsReplayed == at + 5);
}

TEST_CASE("prompt: reads and writes the device as it is now") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.until = tape.places[3];
  Session session = converse(
      *tape.tape, {"read SCRATCH", "read bar0+0x4 2", "write SCRATCH 0xabc", "read SCRATCH", "quit"}, setup);
  INFO(session.text);
  CHECK(session.says("SCRATCH = 0x104, recorded last 0x104"));
  CHECK(session.says("bar0+0x4 = 0x104"));
  CHECK(session.says("SCRATCH = 0xabc, recorded last 0x104"));
}

TEST_CASE("prompt: forbidden registers stay forbidden, unless named") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.until = tape.places[0];
  Session session = converse(*tape.tape, {"write FUSE 1", "quit"}, setup);
  CHECK(session.says("FUSE is forbidden by the description"));
  CHECK(session.writesTo[toy::fuse] == 0);
  setup.allow = {"FUSE"};
  session = converse(*tape.tape, {"write FUSE 1", "quit"}, setup);
  CHECK(session.writesTo[toy::fuse] == 1);
  std::string text = toy::description;
  text.replace(text.find("registers:"), 10,
               "forbidden: [{name: flash, first: 0x100, last: 0x1ff}]\nregisters:");
  tape.tape->theDevices[0].description = text;
  session = converse(*tape.tape, {"write bar0+0x104 1", "quit"}, setup);
  CHECK(session.says("flash is forbidden by the description"));
  CHECK(session.writesTo[0x104] == 0);
}

TEST_CASE("prompt: memory and counters") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.until = tape.packets - 1;
  Session session = converse(*tape.tape,
                             {"memory 0x200100 4", "store 0x200100 00ff", "memory 0x200100 4",
                              "memory 0x900000", "store 0x200100 0g", "counters", "quit"},
                             setup);
  INFO(session.text);
  CHECK(session.says("0x200100: 5a 5a 5a 5a"));
  CHECK(session.says("0x200100: 00 ff 5a 5a"));
  CHECK(session.says("no memory is mapped at 0x900000"));
  CHECK(session.says("pairs of hexadecimal digits"));
  CHECK(session.says("exact = "));
  CHECK(session.says("rate = "));
}

TEST_CASE("prompt: who wrote it") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.until = tape.packets - 1;
  Session session =
      converse(*tape.tape, {"who SCRATCH", "who 0x200100", "who buffer+3", "who 0x900000", "quit"}, setup);
  INFO(session.text);
  // The write behind the last square; the store; the transfer's descriptor or doorbell.
  size_t answers = 0;
  for (size_t at = 0; (at = session.text.find(" in words", at)) != std::string::npos; ++at)
    ++answers;
  CHECK(answers == 4); // With the place where it stopped.
  CHECK(session.says("nobody has written it"));
}

TEST_CASE("prompt: what would the model say") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.until = tape.places[5];
  setup.shadowed = true;
  setup.toy.faults.wrongOffsets = {toy::wide};
  setup.toy.faults.wrongReadXor = 0x10;
  Session session = converse(*tape.tape,
                             {"read WIDE", "model read WIDE", "model memory 0x200000 2", "model counters",
                              "model", "differences", "quit"},
                             setup);
  INFO(session.text);
  CHECK(session.says("WIDE = 0x10"));
  CHECK(session.says("WIDE = 0x0"));
  CHECK(session.says("0x200000: "));
  setup.shadowed = false;
  session = converse(*tape.tape, {"model read WIDE", "quit"}, setup);
  CHECK(session.says("there is no second target (start with --shadow URI)"));
}

TEST_CASE("prompt: it stops behind each packet that differs") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.atDivergence = true;
  setup.toy.faults.wrongSquareOf = 4;
  Session session = converse(*tape.tape, {"differences", "continue"}, setup);
  INFO(session.text);
  CHECK(session.says("stopped: window "));
  CHECK(session.says("SQUARE"));
  CHECK(session.says("1 packets differ"));
  CHECK(session.says("the replay is over"));
  CHECK(session.report.firstDivergence);
  // Nothing was issued behind it when it stopped.
  session = converse(*tape.tape, {}, setup);
  CHECK(session.report.packetsReplayed == session.report.firstDivergence->place.packet + 1);
}

TEST_CASE("prompt: what it does not understand changes nothing") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.until = tape.places[0];
  std::vector<std::string> lines = {"",
                                    "   ",
                                    "dance",
                                    "read",
                                    "read NOWHERE",
                                    "read bar7+0",
                                    "read IRQ_ACK",
                                    "write SCRATCH",
                                    "write SCRATCH 0x100000000",
                                    "write SCRATCH x",
                                    "step 0",
                                    "step sideways",
                                    "step 99999999999999999999",
                                    "memory",
                                    "memory 1 99999",
                                    "store 0x200000",
                                    "until",
                                    "until nowhere",
                                    "who",
                                    "device 7",
                                    "device",
                                    "bar0+",
                                    std::string(5000, 'x'),
                                    "read bar0+0x4 3",
                                    "help",
                                    "quit"};
  Session session = converse(*tape.tape, lines, setup);
  INFO(session.text);
  CHECK(session.linesLeft == 0);
  CHECK(session.report.packetsReplayed == tape.places[0]);
  CHECK(llvm::StringRef(session.text).count("error: ") == 21);
  CHECK(session.says("* 0 toy"));
  CHECK(session.says("step command"));
}

TEST_CASE("prompt: a target that dies is looked at all the same") {
  PromptTape tape = promptTape();
  SessionSetup setup;
  setup.toy.faults.dieAt = 9;
  Session session = converse(*tape.tape, {"read SCRATCH", "where", "continue", "step", "quit"}, setup);
  INFO(session.text);
  CHECK(session.says("the replay has ended: the target failed"));
  CHECK(session.says("error: "));
  CHECK(session.says("the replay is over: there is nothing to go on with"));
  CHECK(session.report.verdict == Verdict::Error);
  CHECK(session.linesLeft == 0);
}
