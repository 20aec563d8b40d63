// Recordings from end to end: programs run under `tapeback record`, and their tapes read back.
#include "tests/recorder/Background.h"
#include "tests/support/Skip.h"
#include <csignal>
#include <fstream>
#include <set>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// What one packet of a scenario must be.
struct Wanted {
  PacketKind kind;
  uint64_t address = 0, value = 0;
  Completion completion = Completion::Done;
  std::string payload = {};
};

llvm::StringRef signatureText(const llvm::json::Object &json, const char *key) {
  const llvm::json::Object *signature = json.getObject("signature");
  return signature ? signature->getString(key).value_or("") : "";
}

} // namespace

TEST_CASE("every call of the C API is on the tape as it was made") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  RunResult run = runProgram(recordCommand(path, {"every-call"}));
  REQUIRE_MESSAGE(run.exited(0), run);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  std::vector<size_t> maps = tape.find(PacketKind::MemoryMap);
  REQUIRE(maps.size() == 1);
  uint64_t iova = tape.packets[maps[0]].address;
  std::string in(300, 0), copied;
  for (int i = 0; i < 300; ++i)
    in[size_t(i)] = char(i * 7 + 1);
  std::string zeroes(8192, 0), memory = zeroes;
  memory.replace(5, 300, in);
  copied = in.substr(0, 100);
  using K = PacketKind;
  using C = Completion;
  const std::vector<Wanted> wanted = {
      {K::Open, 0, 0, C::Done, "recorder-test-model"},
      {K::Reset},
      {K::RegisterRead, 0}, // The fingerprint.
      {K::Marker, 0, 0, C::Done, "begin"},
      {K::RegisterWrite, 0x10, 0x12},
      {K::RegisterWrite, 0x12, 0x3456},
      {K::RegisterWrite, 0x14, 0x789abcde},
      {K::RegisterWrite, 0x18, 0x1122334455667788},
      {K::RegisterRead, 0x10, 0x12},
      {K::RegisterRead, 0x12, 0x3456},
      {K::RegisterRead, 0x14, 0x789abcde},
      {K::RegisterRead, 0x18, 0x1122334455667788},
      {K::RegisterRead, 0x10, 0}, // bar2
      {K::Poll, 0x14, 0x789abcde},
      {K::Poll, 0x14, 0x789abcde, C::TimedOut},
      {K::MemoryMap, iova},
      {K::MemoryWrite, iova, 0, C::Done, zeroes},
      {K::MemoryWrite, iova + 5, 0, C::Done, in},
      {K::MemoryRead, iova + 5, 0, C::Done, in},
      {K::MemoryWait, iova + 8,
       uint8_t(in[3]) | uint64_t(uint8_t(in[4])) << 8 | uint64_t(uint8_t(in[5])) << 16 |
           uint64_t(uint8_t(in[6])) << 24},
      {K::MemoryWait, iova + 8,
       uint8_t(in[3]) | uint64_t(uint8_t(in[4])) << 8 | uint64_t(uint8_t(in[5])) << 16 |
           uint64_t(uint8_t(in[6])) << 24,
       C::TimedOut},
      {K::Acquire, iova, 0, C::Done, memory.substr(0, 64)},
      {K::MemoryWrite, iova + 100, 0, C::Done, memory.substr(100, 28)},
      {K::RegisterWrite, 0x300, iova + 5},
      {K::RegisterWrite, 0x308, iova + 4090},
      {K::RegisterWrite, 0x310, 100},
      {K::MemoryWrite, iova + 5, 0, C::Done, copied},
      {K::DmaDescriptor, iova + 5, 100, C::Done, copied},
      {K::MemoryWrite, iova + 4090, 0, C::Done, std::string(100, 0)},
      {K::DmaDescriptor, iova + 4090, 100},
      {K::RegisterWrite, 0x318, 1},
      {K::RegisterRead, 0x318, 0},
      {K::DmaCompletion, iova + 5, 0},
      {K::DmaCompletion, iova + 4090, 0, C::Done, copied},
      {K::Acquire, iova + 4090, 0, C::Done, copied},
      {K::Oracle, iova + 4090, 0, C::Done, "copy"},
      {K::RegisterWrite, 0x200, 1},
      {K::Interrupt, 0, 0},
      {K::Interrupt, 0, 0, C::TimedOut},
      {K::CounterSnapshot, 0, 1},
      {K::SpanBegin, 0, 0, C::Done, "outer"},
      {K::SpanBegin, 0, 0, C::Done, "inner"},
      {K::SpanEnd},
      {K::SpanEnd},
      {K::RegisterRead, 0x14, 0x789abcde},
      {K::Oracle, 0, 0x789abcde, C::Done, "word"},
      {K::Oracle, 0, 1, C::Done, "yes"},
      {K::Reset},
      {K::RegisterRead, 0x14, 0},
      {K::Oracle, 0, 0, C::Done, "wrong"},
      {K::Oracle, 0, 0, C::Done, "no"},
      {K::Oracle, 0, 0, C::Done, "gave-up"},
      {K::RegisterRead, 0x108, 0, C::Failed},
      {K::MemoryUnmap, iova},
      {K::Close},
  };
  REQUIRE(tape.packets.size() == wanted.size());
  uint64_t time = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    CAPTURE(packetKindName(wanted[i].kind));
    const Packet &packet = tape.packets[i];
    REQUIRE(packet.kind == wanted[i].kind);
    CHECK(packet.address == wanted[i].address);
    CHECK(packet.value == wanted[i].value);
    CHECK(packet.completion == wanted[i].completion);
    CHECK(tape.payload(i) == wanted[i].payload);
    CHECK(packet.thread == 0);
    CHECK(packet.issueTime >= time); // One thread: in order.
    CHECK(packet.completeTime >= packet.issueTime);
    CHECK(!(packet.flags & (Concurrent | Truncated | NotCaptured)));
    time = packet.issueTime;
  }
  // Details that the table does not show.
  CHECK(tape.packets[1].origin == Origin::Recorder);
  CHECK(tape.packets[2].origin == Origin::Recorder);
  CHECK(tape.packets[47].origin == Origin::Program);
  CHECK(tape.packets[8].width == 1);
  CHECK(tape.packets[9].width == 2);
  CHECK(tape.packets[11].width == 8);
  CHECK(tape.reader->spaces()[tape.packets[12].space] == "bar2");
  CHECK(tape.reader->spaces()[tape.packets[11].space] == "bar0");
  CHECK(tape.extras[13].mask == 0xff);
  CHECK(tape.extras[13].expected == 0xde);
  CHECK(tape.extras[13].deadline == 1000000);
  CHECK(tape.extras[13].count == 1);
  CHECK(tape.extras[14].count > 1);
  CHECK(tape.extras[15].length == 8192);
  CHECK((tape.packets[27].flags & TransferToDevice));
  CHECK((tape.packets[29].flags & TransferFromDevice));
  CHECK(tape.extras[32].link == 27);
  CHECK(tape.extras[33].link == 29);
  CHECK(tape.extras[35].link == 34);
  CHECK(tape.extras[37].count == 1);
  CHECK(tape.extras[42].link == 41); // Inner first.
  CHECK(tape.extras[43].link == 40);
  CHECK(tape.extras[45].link == 44);
  CHECK(tape.extras[46].link == noLink);
  CHECK(tape.extras[49].link == 48);
  CHECK(tape.extras[49].expected == 0x700);
  CHECK((tape.packets[49].flags & Failed));
  CHECK(!(tape.packets[45].flags & Failed));
  CHECK((tape.packets[51].flags & Failed));
  // And what is said of the run.
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getString("schema") == "tapeback.record/1");
  CHECK(json.getString("verdict") == "match");
  CHECK(json.getObject("program")->getInteger("exit") == 0);
  CHECK(json.getInteger("packets") == int64_t(wanted.size()));
  CHECK(json.getString("outcome") == "failed");
  CHECK(signatureText(json, "name") == "wrong");
  CHECK(signatureText(json, "object") == "bar0+0x14");
  CHECK(json.getArray("notes")->size() == 1); // The bus error, in words.
  CHECK(tape.reader->outcome().packet == 49);
}

TEST_CASE("the manifest and the device say what was recorded on what") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  RunOptions options;
  options.environment["TAPEBACK_SEED"] = "4711";
  RunResult run = runProgram(recordCommand(path, {"threads", "1", "1"}), options);
  REQUIRE_MESSAGE(run.exited(0), run);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  const auto &facts = tape.reader->manifest().facts;
  for (const char *key :
       {"host", "kernel", "tool-version", "start-time", "capture-options", "description-hash"})
    CHECK_MESSAGE(facts.count(key), key);
  CHECK(facts.at("seed") == "4711");
  CHECK(facts.at("target") == testModelUri());
  CHECK(facts.at("workload") == scenarioProgram() + " threads 1 1");
  REQUIRE(tape.reader->devices().size() == 1);
  const DeviceRecord &device = tape.reader->devices()[0];
  CHECK(device.alias == "recorder-test-model");
  CHECK(device.targetUri == testModelUri());
  CHECK(device.identity.at("vendor") == "0x7e57");
  CHECK(device.identity.at("kind") == "model");
  CHECK(device.description == readWholeFile(testDescription()));
}

TEST_CASE(
    "64 threads: every operation is there, each thread's in its order, checks linked to their own reads") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  RunResult run = runProgram(recordCommand(path, {"threads", "64", "40"}));
  REQUIRE_MESSAGE(run.exited(0), run);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  // Threads by what they write: number * 1000 + round.
  std::map<uint64_t, unsigned> next;
  std::set<uint16_t> numbers;
  unsigned wrong = 0;
  for (size_t i = 0; i < tape.packets.size(); ++i) {
    const Packet &packet = tape.packets[i];
    if (packet.kind == PacketKind::RegisterWrite) {
      wrong += packet.value % 1000 != next[packet.value / 1000]++;
      numbers.insert(packet.thread);
    }
    if (packet.kind == PacketKind::Oracle) {
      uint64_t link = tape.extras[i].link;
      wrong += link >= i || tape.packets[link].kind != PacketKind::RegisterRead ||
               tape.packets[link].thread != packet.thread || tape.packets[link].value != packet.value;
    }
  }
  CHECK(wrong == 0);
  CHECK(next.size() == 64);
  for (const auto &[thread, count] : next)
    CHECK(count == 40);
  CHECK(tape.find(PacketKind::Oracle).size() == 64 * 40);
  CHECK(numbers.size() >= 1); // Threads that never ran at once may share a number.
  CHECK(numbers.size() <= 64);
}

TEST_CASE("a wait that another thread ends comes after what ended it, and both are concurrent") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  RunResult run = runProgram(recordCommand(path, {"wait-for-other"}));
  REQUIRE_MESSAGE(run.exited(0), run);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  REQUIRE(tape.find(PacketKind::Interrupt).size() == 1);
  REQUIRE(tape.find(PacketKind::Poll).size() == 1);
  size_t interrupt = tape.find(PacketKind::Interrupt)[0], poll = tape.find(PacketKind::Poll)[0];
  std::vector<size_t> writes = tape.find(PacketKind::RegisterWrite);
  REQUIRE(writes.size() == 2);
  CHECK(writes[0] < interrupt);
  CHECK(writes[1] < poll);
  CHECK((tape.packets[interrupt].flags & Concurrent));
  CHECK((tape.packets[writes[0]].flags & Concurrent));
  CHECK((tape.packets[poll].flags & Concurrent));
  CHECK(tape.packets[interrupt].thread != tape.packets[writes[0]].thread);
}

TEST_CASE("scenarios that must go as if nobody were watching") {
  struct Row {
    std::vector<std::string> scenario;
    int exit;
  };
  const Row rows[] = {{{"opener-ends"}, 0}, {{"fork"}, 0},       {{"exit-from-thread"}, 5},
                      {{"big-memory"}, 0},  {{"misuse"}, 0},     {{"closes-descriptors"}, 0},
                      {{"stages"}, 0},      {{"exit", "17"}, 17}};
  for (const Row &row : rows) {
    CAPTURE(row.scenario[0]);
    ScratchDirectory scratch;
    std::string path = scratch.file("t.tape");
    RunResult run = runProgram(recordCommand(path, row.scenario));
    CHECK_MESSAGE(run.exited(0), run);
    llvm::json::Object json = jsonOf(run);
    CHECK(json.getObject("program")->getInteger("exit") == row.exit);
    CHECK(json.getString("verdict") == "match");
    WholeTape tape(path);
    CHECK_MESSAGE(tape.error.empty(), tape.error);
    CHECK(scratch.names() == std::vector<std::string>{"t.tape"});
    // The same without recording: the same end.
    RunOptions alone;
    alone.environment["TAPEBACK_TARGET"] = testModelUri();
    alone.environment["TAPEBACK_DESCRIPTION"] = testDescription();
    std::vector<std::string> command{scenarioProgram()};
    command.insert(command.end(), row.scenario.begin(), row.scenario.end());
    RunResult unrecorded = runProgram(command, alone);
    CHECK_MESSAGE(unrecorded.exited(row.exit), unrecorded);
  }
}

TEST_CASE(
    "a program ends with the last of its own threads, or by a signal; what that one did is on the tape") {
  for (bool signalled : {false, true}) {
    CAPTURE(signalled);
    ScratchDirectory scratch;
    const std::string path = scratch.file("t.tape"), how = signalled ? "1" : "0";
    RunResult run = runProgram(recordCommand(path, {"main-ends", how}));
    CHECK_MESSAGE(run.exited(0), run);
    CHECK((run.err.find("closed at exit") != std::string::npos) == !signalled);
    llvm::json::Object json = jsonOf(run);
    if (signalled)
      CHECK(json.getObject("program")->getInteger("signal") == SIGTERM);
    else
      CHECK(json.getObject("program")->getInteger("exit") == 0);
    WholeTape tape(path);
    REQUIRE_MESSAGE(tape.error.empty(), tape.error);
    size_t reads = 0;
    for (size_t i : tape.find(PacketKind::RegisterRead))
      reads += tape.packets[i].origin == Origin::Program;
    CHECK(reads == 50);
    CHECK(tape.find(PacketKind::Close).size() == (signalled ? 0 : 1));
    // Alone, where nothing of ours may keep it: no target of this has a thread in the program.
    RunOptions alone;
    alone.environment["TAPEBACK_TARGET"] = testModelUri();
    RunResult unrecorded = runProgram({scenarioProgram(), "main-ends", how}, alone);
    CHECK_MESSAGE((signalled ? unrecorded.signal == SIGTERM : unrecorded.exited(0)), unrecorded);
  }
}

TEST_CASE("what was refused leaves no packet; a child of fork() leaves none either") {
  ScratchDirectory scratch;
  std::string misuse = scratch.file("m.tape"), forks = scratch.file("f.tape");
  REQUIRE(runProgram(recordCommand(misuse, {"misuse"})).exited(0));
  WholeTape tape(misuse);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  for (const Packet &packet : tape.packets)
    CHECK((packet.kind == PacketKind::Open || packet.kind == PacketKind::Close ||
           packet.origin == Origin::Recorder));
  REQUIRE(runProgram(recordCommand(forks, {"fork"})).exited(0));
  WholeTape forked(forks);
  REQUIRE_MESSAGE(forked.error.empty(), forked.error);
  CHECK(forked.find(PacketKind::RegisterWrite).size() == 20);
  CHECK(forked.find(PacketKind::Marker).empty());
  CHECK(forked.find(PacketKind::Close).size() == 1);
}

TEST_CASE("memory larger than chunk and ring; above the capture limit it is cut, and says so") {
  ScratchDirectory scratch;
  std::string whole = scratch.file("w.tape"), cut = scratch.file("c.tape");
  REQUIRE(runProgram(recordCommand(whole, {"big-memory"}, {"--ring-bytes", "65536"})).exited(0));
  WholeTape tape(whole);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  size_t acquire = tape.find(PacketKind::Acquire)[0];
  std::string content = tape.payload(acquire);
  REQUIRE(content.size() == 5 << 20);
  unsigned wrong = 0;
  for (size_t i = 0; i < content.size(); ++i)
    wrong += uint8_t(content[i]) != uint8_t(i * 31 + (i >> 8) * 17);
  CHECK(wrong == 0);
  REQUIRE(runProgram(recordCommand(cut, {"big-memory"}, {"--capture-limit", "1000000"})).exited(0));
  WholeTape shorter(cut);
  REQUIRE_MESSAGE(shorter.error.empty(), shorter.error);
  acquire = shorter.find(PacketKind::Acquire)[0];
  CHECK((shorter.packets[acquire].flags & Truncated));
  CHECK(shorter.extras[acquire].length == 5 << 20);
  CHECK(shorter.payload(acquire) == content.substr(0, 1000000));
}

TEST_CASE("a host address in two registers is followed wherever it is") {
  ScratchDirectory scratch;
  const std::string description = scratch.file("halves.yaml"), path = scratch.file("t.tape");
  std::ofstream(description) << R"(tapeback-description: 1
name: halves
spaces: [bar0]
registers:
  - {name: FROM_LO, offset: 0x10, class: address-low, reset: 0}
  - {name: FROM_HI, offset: 0x14, class: address-high, reset: 0}
  - {name: BYTES, offset: 0x18, reset: 0}
  - {name: GO, offset: 0x1c, access: wo, policy: side-effect}
  - {name: BUSY, offset: 0x20, access: ro, class: poll}
activities:
  - name: take
    starts: {register: GO, mask: 1, value: 1}
    done: [{register: BUSY, value: 0}]
    transfers:
      - {direction: to-device, host-address: FROM_LO, device-address: FROM_LO, count: BYTES}
)";
  RunResult run = runProgram({tapebackProgram(), "record", "--json", "--target", "null:", "--description",
                              description, "-o", path, "--", scenarioProgram(), "halves"});
  REQUIRE_MESSAGE((run.exited(0) || run.exited(5)), run);
  CHECK(jsonOf(run).getObject("program")->getInteger("exit") == 0);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  const uint64_t memory = tape.packets[tape.find(PacketKind::MemoryMap).front()].address;
  CHECK(memory >= uint64_t(1) << 33);
  const std::vector<size_t> transfers = tape.find(PacketKind::DmaDescriptor);
  REQUIRE(transfers.size() == 2);
  CHECK(tape.packets[transfers[0]].address == memory);
  CHECK(!bool(tape.packets[transfers[0]].flags & NotCaptured));
  CHECK(tape.payload(transfers[0]) == "in the upper half of the address");
  // Where nothing is, nothing was captured, and the tape says so.
  CHECK(tape.packets[transfers[1]].address == memory + (uint64_t(1) << 32));
  CHECK(bool(tape.packets[transfers[1]].flags & NotCaptured));
}

TEST_CASE("no capture limit cuts names, facts or the sense of a recording") {
  ScratchDirectory scratch;
  for (const char *limit : {"0", "1", "20"}) {
    std::string path = scratch.file(std::string(limit) + ".tape");
    RunResult run = runProgram(recordCommand(path, {"every-call"}, {"--capture-limit", limit}));
    CHECK_MESSAGE(run.exited(0), run);
    WholeTape tape(path);
    REQUIRE_MESSAGE(tape.error.empty(), tape.error);
    REQUIRE(tape.reader->devices().size() == 1);
    CHECK(!tape.reader->devices()[0].identity.empty());
    unsigned cut = 0;
    for (size_t i = 0; i < tape.packets.size(); ++i) {
      PacketKind kind = tape.packets[i].kind;
      if (kind == PacketKind::MemoryWrite || kind == PacketKind::MemoryRead || kind == PacketKind::Acquire) {
        CHECK(tape.payload(i).size() <= std::stoul(limit));
        cut += (tape.packets[i].flags & (Truncated | NotCaptured)) != 0;
      }
      if (kind == PacketKind::Marker)
        CHECK(!tape.payload(i).empty());
    }
    CHECK(cut > 0);
  }
}

TEST_CASE("two devices, one of them opened twice") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  RunResult run = runProgram({tapebackProgram(), "record", "--json", "--target", "a=" + testModelUri(),
                              "--target", "b=" + testModelUri(), "--description", testDescription(), "-o",
                              path, "--", scenarioProgram(), "two-devices"});
  REQUIRE_MESSAGE(run.exited(0), run);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  REQUIRE(tape.reader->devices().size() == 2);
  CHECK(tape.reader->devices()[0].alias == "a");
  CHECK(tape.reader->devices()[1].alias == "b");
  unsigned writes[2] = {0, 0};
  for (size_t i : tape.find(PacketKind::RegisterWrite))
    ++writes[tape.packets[i].device];
  CHECK(writes[0] == 15);
  CHECK(writes[1] == 5);
  CHECK(tape.find(PacketKind::Open).size() == 3);
}

TEST_CASE("start and stop conditions, from end to end") {
  ScratchDirectory scratch;
  auto record = [&](const char *name, std::vector<std::string> options) {
    std::string path = scratch.file(name);
    RunResult run = runProgram(recordCommand(path, {"stages"}, options));
    REQUIRE_MESSAGE(run.exited(0), run);
    CHECK(jsonOf(run).getBoolean("started") == true);
    return path;
  };
  WholeTape all(record("all.tape", {}));
  WholeTape late(record("late.tape", {"--start", "marker:stage#3"}));
  WholeTape doorbell(record("doorbell.tape", {"--start", "write:LENGTH=12", "--stop", "write:bar0+0x10=2"}));
  for (const WholeTape *tape : {&all, &late, &doorbell})
    REQUIRE_MESSAGE(tape->error.empty(), tape->error);
  REQUIRE(late.packets.size() > 3);
  CHECK(late.packets[0].kind == PacketKind::Loss);
  CHECK(late.packets[0].issueTime > 0); // A time like the others', or listings count from 0.
  CHECK(late.packets[0].issueTime <= late.packets[1].issueTime);
  CHECK(late.packets[1].kind == PacketKind::Marker);
  CHECK(late.find(PacketKind::Marker).size() == 3);
  RunResult none = runProgram(recordCommand(scratch.file("none.tape"), {"stages"}, {"--stop", ""}));
  CHECK_MESSAGE(none.exited(2), none);
  // What is on the late tape is what the other one has from there on.
  size_t offset = all.find(PacketKind::Marker)[2];
  CHECK(late.packets[0].value == offset);
  REQUIRE(late.packets.size() - 1 == all.packets.size() - offset);
  for (size_t i = 1; i < late.packets.size(); ++i) {
    CHECK(late.packets[i].kind == all.packets[offset + i - 1].kind);
    CHECK(late.payload(i) == all.payload(offset + i - 1));
  }
  llvm::Expected<Keyframe> keyframe = late.reader->keyframe(0);
  REQUIRE(bool(keyframe));
  CHECK(keyframe->packet == 0);
  CHECK(keyframe->mappings.size() == 1);
  CHECK(!keyframe->memory.empty());
  CHECK(doorbell.packets[1].kind == PacketKind::RegisterWrite);
  CHECK(doorbell.packets[1].value == 12);
  CHECK(doorbell.packets.back().kind == PacketKind::Loss);
  CHECK(doorbell.packets[doorbell.packets.size() - 2].value == 2);
  llvm::Expected<std::vector<TapeReader::TriggerRecord>> triggers = doorbell.reader->triggers();
  REQUIRE(bool(triggers));
  CHECK(triggers->size() == 2);
}

TEST_CASE("a program that writes over the ring: the tape verifies, and the loss is told") {
  unsigned incomplete = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    ScratchDirectory scratch;
    std::string path = scratch.file("t.tape");
    RunResult run = runProgram(recordCommand(path, {"scribble", std::to_string(seed)}));
    CHECK_MESSAGE((run.exited(0) || run.exited(5)), run);
    llvm::json::Object json = jsonOf(run);
    CHECK(json.getObject("program")->getInteger("exit") == 0); // The program itself is not disturbed.
    WholeTape tape(path);
    CHECK_MESSAGE(tape.error.empty(), tape.error);
    incomplete += run.exited(5);
    CHECK((json.getString("verdict") == "incomplete") == run.exited(5));
    CHECK((tape.find(PacketKind::Loss).size() > 0) == run.exited(5));
  }
  CHECK(incomplete > 10);
}

TEST_CASE("errors before the launch: exit 2, nothing launched, nothing written") {
  ScratchDirectory scratch;
  std::string tape = scratch.file("t.tape"), proof = scratch.file("launched");
  writeWholeFile(scratch.file("bad.yaml"), "tapeback-description: 1\nname: [\n");
  writeWholeFile(scratch.file("old.tape"), "precious");
  std::string target = testModelUri();
  struct Row {
    const char *what;
    std::vector<std::string> options;
    const char *code;
    bool ownProgram = false;
  };
  const Row rows[] = {
      {"no target", {"-o", tape}, "no-target"},
      {"no output", {"--target", target}, "no-output"},
      {"scheme", {"--target", "nonsense:x", "-o", tape}, "unknown-scheme"},
      {"uri", {"--target", "model", "-o", tape}, nullptr},
      {"alias twice", {"--target", "a=null:", "--target", "a=null:", "-o", tape}, "bad-alias"},
      {"alias", {"--target", "a b=null:", "-o", tape}, "bad-alias"},
      {"description missing", {"--target", target, "--description", "nowhere.yaml", "-o", tape}, nullptr},
      {"description bad",
       {"--target", target, "--description", scratch.file("bad.yaml"), "-o", tape},
       nullptr},
      {"description unknown",
       {"--target", target, "--description", "no-such", "-o", tape},
       "unknown-description"},
      {"condition", {"--target", target, "--start", "someday", "-o", tape}, "bad-condition"},
      {"stop", {"--target", target, "--stop", "begin", "-o", tape}, "bad-condition"},
      {"register", {"--target", "edu=model:edu", "--start", "write:DMA_CMF", "-o", tape}, "unknown-register"},
      {"exists", {"--target", target, "-o", scratch.file("old.tape")}, "output-exists"},
      {"directory", {"--target", target, "-o", scratch.path()}, "cannot-create"},
      {"no directory", {"--target", target, "-o", scratch.file("none/t.tape")}, "cannot-create"},
      {"no program", {"--target", target, "-o", tape, "--", scratch.file("none")}, "program-not-found", true},
      {"no executable", {"--target", target, "-o", tape, "--", scratch.file("old.tape")}, "cannot-run", true},
      {"nothing to run", {"--target", target, "-o", tape, "--"}, nullptr, true},
      {"no --", {"--target", target, "-o", tape}, nullptr, true},
      {"option", {"--target", target, "--no-such-option", "-o", tape}, nullptr},
  };
  std::vector<std::string> before = scratch.names();
  for (const Row &row : rows) {
    CAPTURE(row.what);
    std::vector<std::string> command{tapebackProgram(), "record", "--json"};
    command.insert(command.end(), row.options.begin(), row.options.end());
    if (!row.ownProgram)
      command.insert(command.end(), {"--", "/bin/sh", "-c", "touch " + proof});
    RunResult run = runProgram(command);
    CHECK_MESSAGE(run.exited(2), run);
    llvm::json::Object json = jsonOf(run);
    CHECK(json.getString("verdict") == "error");
    REQUIRE(json.getObject("error"));
    if (row.code)
      CHECK(json.getObject("error")->getString("code") == row.code);
    CHECK(!json.getObject("error")->getString("message").value_or("").empty());
    CHECK(!run.err.empty());
    CHECK(scratch.names() == before);
  }
  CHECK(readWholeFile(scratch.file("old.tape")) == "precious");
}

TEST_CASE("--force replaces, --propagate-exit passes the program's end on") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  writeWholeFile(path, "old");
  CHECK(runProgram(recordCommand(path, {"exit", "3"}, {"--force", "--propagate-exit"})).exited(3));
  CHECK(readWholeFile(path).size() > 1000);
  CHECK(runProgram(recordCommand(path, {"exit", "0"}, {"--force", "--propagate-exit"})).exited(0));
  CHECK(runProgram(recordCommand(path, {"crash"}, {"--force", "--propagate-exit"})).exited(128 + 6));
  RunResult run = runProgram(recordCommand(path, {"crash"}, {"--force"}));
  CHECK(run.exited(0));
  CHECK(jsonOf(run).getObject("program")->getInteger("signal") == 6);
  CHECK(signatureText(jsonOf(run), "oracle") == "died");
  CHECK(signatureText(jsonOf(run), "name") == "SIGABRT");
  CHECK(signatureText(jsonOf(run), "marker") == "crash");
}

TEST_CASE("a target that cannot be opened is the program's to report, and the recording says why") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  RunResult run = runProgram({tapebackProgram(), "record", "--json", "--target", "model:/nowhere/model.so",
                              "-o", path, "--", buildProgram("edu-exercise")});
  CHECK_MESSAGE(run.exited(0), run);
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getObject("program")->getInteger("exit") == 3);
  REQUIRE(json.getArray("notes")->size() == 1);
  CHECK((*json.getArray("notes"))[0].getAsString()->contains("could not be opened"));
  CHECK(json.getString("outcome") == "failed");
}

TEST_CASE("a recording of nothing says so, and why") {
  ScratchDirectory scratch;
  struct Row {
    std::vector<std::string> scenario, options;
    const char *why; ///< Null: something was recorded.
  };
  const Row rows[] = {{{"exit", "0"}, {}, "no device was opened through libtapeback.so"},
                      {{"opens-nothing"}, {}, "came to libtapeback.so, but opened no device"},
                      {{"stages"}, {"--start", "marker:never"}, "marker:never was never met"},
                      {{"stages"}, {}, nullptr}};
  for (const Row &row : rows) {
    CAPTURE(row.scenario[0]);
    std::string path = scratch.file("t.tape");
    std::vector<std::string> options = row.options;
    options.push_back("--force");
    RunResult run = runProgram(recordCommand(path, row.scenario, options));
    REQUIRE_MESSAGE(run.exited(0), run);
    llvm::json::Object json = jsonOf(run);
    std::vector<std::string> command = recordCommand(path, row.scenario, options);
    command.erase(std::find(command.begin(), command.end(), "--json"));
    RunResult text = runProgram(command);
    REQUIRE_MESSAGE(text.exited(0), text);
    bool said = text.out.find("NOTHING WAS RECORDED") != std::string::npos;
    if (row.why) {
      CHECK(json.getString("nothing_because").value_or("").contains(row.why));
      CHECK(json.getArray("warnings")->size() == 1);
      CHECK(text.out.find(row.why) != std::string::npos);
      CHECK(text.err.find(row.why) != std::string::npos);
    }
    CHECK(said == (row.why != nullptr));
    REQUIRE(json.get("nothing_because"));
    CHECK((json.get("nothing_because")->kind() == llvm::json::Value::Null) == !row.why);
  }
}

TEST_CASE("a program that changed its user before it opened a device is refused, and told what to do") {
  if (geteuid() != 0)
    TB_SKIP("only root can become somebody else");
  for (const char *root : {"0", "1"}) {
    CAPTURE(root);
    ScratchDirectory scratch;
    RunResult run = runProgram(recordCommand(scratch.file("t.tape"), {"other-user", root}));
    REQUIRE_MESSAGE(run.exited(0), run);
    CHECK(run.err.find("Permission denied; it is for processes of the user who records") !=
          std::string::npos);
    llvm::json::Object json = jsonOf(run);
    CHECK(json.getObject("program")->getInteger("exit") == 0);
    CHECK(json.getString("nothing_because").value_or("").contains("another user's"));
  }
}

TEST_CASE("a program that cuts the ring's file short: the recorder closes its tape, which says that it is "
          "not whole") {
  for (const char *bytes : {"0", "4096"}) {
    CAPTURE(bytes);
    ScratchDirectory scratch, rings;
    const std::string path = scratch.file("t.tape");
    RunOptions options;
    options.environment["TAPEBACK_RING_DIRECTORY"] = rings.path();
    RunResult run = runProgram(recordCommand(path, {"cuts-ring", bytes}), options);
    CHECK_MESSAGE(run.exited(5), run);
    CHECK(run.err.find("cut short") != std::string::npos);
    llvm::json::Object json = jsonOf(run);
    CHECK(json.getObject("program")->getInteger("exit") == 0);
    CHECK(json.getString("verdict") == "incomplete");
    WholeTape tape(path);
    REQUIRE_MESSAGE(tape.error.empty(), tape.error);
    CHECK(!tape.find(PacketKind::Loss).empty());
    CHECK(scratch.names() == std::vector<std::string>{"t.tape"});
    CHECK(rings.names().empty());
  }
}

TEST_CASE("a file size limit: the program runs to its end, the recording says that it is not whole") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  // The recorder gets 1 MiB (or half of it: shells differ in the unit), the program as much as it likes.
  std::vector<std::string> command{"/bin/sh", "-c", "ulimit -S -f 1024; exec \"$@\"", "sh"};
  std::vector<std::string> record = recordCommand(path, {}, {"--ring-bytes", "65536"});
  record.pop_back();
  command.insert(command.end(), record.begin(), record.end());
  command.insert(command.end(), {"/bin/sh", "-c", "ulimit -S -f unlimited; exec \"$@\"", "sh",
                                 scenarioProgram(), "rounds", "300"});
  RunResult run = runProgram(command);
  CHECK_MESSAGE(run.exited(5), run);
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getObject("program")->getInteger("exit") == 0);
  CHECK(json.getString("verdict") == "incomplete");
  CHECK(json.getBoolean("finished") == false);
  CHECK(json.getObject("error") != nullptr);
  CHECK(json.getObject("loss")->getInteger("disk_errors").value_or(0) > 0);
  CHECK(scratch.names() == std::vector<std::string>{"t.tape.partial"});
  // What was written can be saved.
  llvm::Expected<RecoverReport> recovered = recoverTape(path + ".partial", scratch.file("saved.tape"));
  REQUIRE(bool(recovered));
  CHECK(recovered->packetsKept > 0); // What was flushed before the limit.
  WholeTape saved(scratch.file("saved.tape"));
  CHECK_MESSAGE(saved.error.empty(), saved.error);
}

TEST_CASE("told to drop rather than wait, what is missing is counted and on the tape") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  RunResult run =
      runProgram(recordCommand(path, {"rounds", "300"}, {"--ring-bytes", "65536", "--drop-when-full"}));
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getObject("program")->getInteger("exit") == 0);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  uint64_t lost = 0;
  for (size_t i : tape.find(PacketKind::Loss))
    lost += tape.packets[i].value;
  // 60,000 bytes do not fit into what a 64 KiB ring leaves free for those that may be dropped.
  CHECK(lost > 0);
  CHECK(int64_t(lost) == json.getObject("loss")->getInteger("ring_full"));
  CHECK_MESSAGE(run.exited(5), run);
}

TEST_CASE("a terminal that goes ends the program, and the tape is closed") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape"), runs = scratch.file("runs");
  std::vector<std::string> command{tapebackProgram(),
                                   "record",
                                   "--target",
                                   testModelUri(),
                                   "-o",
                                   path,
                                   "--",
                                   "sh",
                                   "-c",
                                   "echo > " + runs + "; exec sleep 60"};
  int terminal = -1;
  pid_t recorder = startOnTerminal(command, terminal);
  auto eventually = [](auto holds) {
    for (int i = 0; i < 6000; ++i) {
      if (holds())
        return true;
      usleep(10'000);
    }
    return false;
  };
  CHECK(eventually([&] { return access(runs.c_str(), F_OK) == 0; }));
  close(terminal);
  int status = 0;
  bool ended = eventually([&] { return waitpid(recorder, &status, WNOHANG) == recorder; });
  CHECK(ended);
  if (!ended) {
    kill(recorder, SIGTERM);
    waitpid(recorder, &status, 0);
  }
  CHECK(scratch.names() == std::vector<std::string>{"runs", "t.tape"});
  WholeTape tape(path);
  CHECK_MESSAGE(tape.error.empty(), tape.error);
}
