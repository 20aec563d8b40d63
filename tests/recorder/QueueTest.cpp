// Queues from end to end: programs drive Minnow's model, and the tape has what a replay needs, once, and what
// the host learnt, when it learnt it.
#include "tests/recorder/Recording.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

using K = PacketKind;

/// The tape of a scenario, and what a replay of it says.
struct Recorded {
  explicit Recorded(const std::string &scenario, const std::vector<std::string> &options = {}) {
    std::vector<std::string> command{tapebackProgram(), "record", "--json", "--target",
                                     "model:minnow",    "-o",     path(),   "--counters"};
    if (options.empty())
      command.push_back("off");
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"--", TAPEBACK_BINARY_DIR "/bin/tests/recorder-queues", scenario});
    RunResult run = runProgram(command);
    REQUIRE_MESSAGE(run.exited(0), run);
    json = jsonOf(run);
    REQUIRE_MESSAGE(json.getObject("program")->getInteger("exit") == 0, run);
    tape.emplace(path());
    REQUIRE_MESSAGE(tape->error.empty(), tape->error);
    for (size_t i = 0; i < tape->packets.size(); ++i)
      if (tape->packets[i].kind == K::Marker)
        markers[tape->payload(i)] = i;
  }
  std::string path() const { return scratch.file("queue.tape"); }
  std::string replay() const {
    RunResult run = runProgram({tapebackProgram(), "replay", "--json", path(), "--target", "model:minnow"});
    return jsonOf(run).getString("verdict").value_or("?").str();
  }
  /// Packets of that kind, optionally from a marker to the next one.
  std::vector<size_t> find(K kind, const std::string &marker = {}) const {
    std::vector<size_t> found;
    bool in = marker.empty();
    for (size_t i = 0; i < tape->packets.size(); ++i) {
      if (tape->packets[i].kind == K::Marker && !marker.empty())
        in = i == markers.at(marker);
      // What is mapped is zero, and on the tape as such; not meant here.
      bool fresh = kind == K::MemoryWrite && i && tape->packets[i - 1].kind == K::MemoryMap;
      if (in && tape->packets[i].kind == kind && !fresh)
        found.push_back(i);
    }
    return found;
  }
  /// Address, rows, and flags, for short.
  std::string text(size_t i) const {
    const Packet &packet = tape->packets[i];
    const PacketExtra &extra = tape->extras[i];
    std::string result = std::to_string(packet.address - memory()) + "+" + std::to_string(extra.length);
    if (extra.count)
      result += "/" + std::to_string(extra.count) + ":" + std::to_string(extra.expected);
    if (packet.flags & DeviceOwned)
      result += " owned";
    if (packet.flags & NotCaptured)
      result += " not captured";
    if (packet.kind == K::DmaCompletion && packet.value)
      result += " again";
    if (packet.origin == Origin::Recorder)
      result += " recorder";
    return result;
  }
  std::vector<std::string> texts(K kind, const std::string &marker = {}) const {
    std::vector<std::string> result;
    for (size_t i : find(kind, marker))
      result.push_back(text(i));
    return result;
  }
  uint64_t memory() const { return tape->packets[tape->find(K::MemoryMap).front()].address; }

  ScratchDirectory scratch;
  llvm::json::Object json;
  std::optional<WholeTape> tape;
  std::map<std::string, size_t> markers;
};

using Texts = std::vector<std::string>;

} // namespace

TEST_CASE("entries, rows, and memory that is captured once") {
  Recorded r("rows");
  std::vector<size_t> submits = r.find(K::Submit, "first");
  REQUIRE(submits.size() == 3);
  CHECK(r.tape->packets[submits[0]].value == 0);
  CHECK(r.tape->extras[submits[2]].count == 2);
  CHECK(r.tape->payload(submits[0]).size() == 64);
  CHECK(r.tape->payload(submits[0])[0] == 1);
  CHECK(r.texts(K::MemoryWrite, "first") == Texts{"0+256/4:256"});
  CHECK(r.texts(K::DmaDescriptor, "first") == Texts{"0+256/4:256", "4096+256"});
  CHECK(r.texts(K::DmaCompletion, "first") == Texts{"0+256/4:256", "4096+256"});
  std::vector<size_t> descriptors = r.find(K::DmaDescriptor, "first");
  CHECK(r.tape->extras[descriptors[0]].link == noLink);
  CHECK(r.tape->extras[descriptors[0]].mask == 64); // The device's stride.
  CHECK(r.tape->payload(descriptors[0]).size() == 256);
  CHECK(r.tape->payload(descriptors[0]) == r.tape->payload(r.find(K::MemoryWrite, "first")[0]));
  CHECK(r.tape->payload(r.find(K::DmaCompletion, "first")[1]) == r.tape->payload(descriptors[0]));
  // In front of the doorbell, entry by entry; the completions behind the fence.
  CHECK(submits[0] < descriptors[0]);
  CHECK(descriptors[0] < submits[1]);
  size_t wait = r.find(K::MemoryWait, "first").front();
  CHECK(submits[2] < wait);
  CHECK(r.find(K::DmaCompletion, "first").front() == wait + 1);
  // The same again is told again, but not captured again.
  CHECK(r.texts(K::MemoryWrite, "again").empty());
  CHECK(r.texts(K::DmaDescriptor, "again") == Texts{"0+256/4:256", "4096+256"});
  CHECK(r.tape->payload(r.find(K::DmaDescriptor, "again")[0]).size() == 256);
  // One row changed, and a gap, which is nobody's.
  CHECK(r.texts(K::MemoryWrite, "changed") == Texts{"0+256/4:256"});
  CHECK(r.replay() == "match");
}

TEST_CASE("what the device is yet to write is its own") {
  Recorded r("owned");
  // The load's second half is the host's.
  CHECK(r.texts(K::MemoryWrite) == Texts{"0+128", "8256+64"});
  CHECK(r.texts(K::DmaDescriptor) == Texts{"0+128", "8192+64", "8192+128 owned", "8192+64"});
  // Two stores into the same range: only the last one's content can be told.
  CHECK(r.texts(K::DmaCompletion) == Texts{"0+128", "8192+64 owned", "8192+128", "8192+64", "8192+64 again"});
  CHECK(r.replay() == "match");
}

TEST_CASE("lists in host memory are followed, element by element") {
  Recorded r("chain");
  CHECK(r.texts(K::MemoryWrite) == Texts{"16384+64", "0+128/2:128", "16512+64", "256+64", "16448+64"});
  CHECK(r.texts(K::DmaDescriptor) == Texts{"0+128/2:128", "256+64", "12288+192"});
  CHECK(r.replay() == "match");
}

TEST_CASE("each way to learn that it is done") {
  Recorded r("progress");
  CHECK(r.texts(K::DmaCompletion, "head") == Texts{"0+64"});
  CHECK(r.texts(K::DmaCompletion, "done") == Texts{"0+64 again", "4096+64"});
  CHECK(r.texts(K::DmaCompletion, "idle") == Texts{"4096+64 again", "8192+64"});
  CHECK(r.texts(K::DmaCompletion, "acquire").front() == "12288+64");
  CHECK(r.replay() == "match");
}

TEST_CASE("rings wrap, and numbers of entries go on") {
  Recorded r("wrap");
  uint64_t next[2] = {};
  for (size_t i : r.find(K::Submit))
    CHECK(r.tape->extras[i].count == next[r.tape->packets[i].value]++);
  CHECK(next[0] > 16);
  CHECK(next[1] > 16);
  CHECK(r.find(K::DmaCompletion).size() == 48);
  CHECK(r.replay() == "match");
}

TEST_CASE("a reset forgets what was told; nothing is said to be done") {
  Recorded r("resets");
  for (const char *way : {"api", "soft"}) {
    CHECK(r.find(K::DmaDescriptor, way).size() == 2);
    // Of the second only. What the first was to write is not known, so it is captured anew.
    CHECK(r.find(K::DmaCompletion, way).size() == 1);
    CHECK(r.tape->extras[r.find(K::DmaCompletion, way)[0]].link == r.find(K::DmaDescriptor, way)[1]);
    CHECK(r.texts(K::MemoryWrite, way) == Texts{"4096+64"});
    std::vector<size_t> submits = r.find(K::Submit, way);
    CHECK(r.tape->extras[submits[submits.size() - 2]].count == 0);
  }
  CHECK(r.replay() == "match");
}

TEST_CASE("a fence's value that lies there already proves nothing") {
  Recorded r("same-fence");
  CHECK(r.find(K::DmaCompletion, "first").size() == 1);
  CHECK(r.find(K::DmaCompletion, "cleared").size() == 1);
  CHECK(r.texts(K::MemoryWrite, "cleared") == Texts{"32768+8"});
  CHECK(r.find(K::DmaCompletion, "doubtful").empty());
  CHECK(r.find(K::DmaCompletion, "idle").size() == 1);
  CHECK(r.replay() == "match");
}

TEST_CASE("what was completed is looked at once more; a late store shows") {
  Recorded r("stray");
  // The one stored to through a pointer is evidence; the one written through the API is the host's.
  CHECK(r.texts(K::DmaCompletion, "next") == Texts{"0+64 again recorder", "4096+64 again"});
  size_t late = r.find(K::DmaCompletion, "next").front();
  CHECK(r.tape->payload(late)[7] == 0x55);
  CHECK(r.replay() == "match");
}

TEST_CASE("a store into what the device was given shows when it is given back, as evidence") {
  Recorded r("afterwards");
  CHECK(r.texts(K::MemoryWrite).front() == "0+128/2:128");
  std::vector<size_t> writes = r.find(K::MemoryWrite);
  REQUIRE(writes.size() == 3);
  CHECK(r.text(writes[1]) == "0+128/2:128 recorder");
  CHECK(r.tape->payload(writes[1])[64 + 2] == char(uint8_t(7 + 130 * 7) ^ 1));
  // Behind both completions; and it is captured when it is handed over again.
  CHECK(writes[1] == r.find(K::DmaCompletion)[1] + 1);
  CHECK(r.texts(K::MemoryWrite, "again") == Texts{"0+128/2:128"});
}

TEST_CASE("failing commands: memory that is not there is not captured, and the rest goes on") {
  Recorded r("resume");
  CHECK(r.find(K::Submit).size() == 3);
  std::vector<size_t> descriptors = r.find(K::DmaDescriptor);
  REQUIRE(descriptors.size() == 2);
  CHECK((r.tape->packets[descriptors[0]].flags & NotCaptured));
  CHECK(r.find(K::DmaCompletion).size() == 2);
}

TEST_CASE("what no driver does comes to an end, and the tape says what it could not see") {
  Recorded r("hostile");
  CHECK(r.find(K::Submit, "doorbell").size() == 3);
  // Neither a ring of 4 billion entries nor none can be followed; one of 65,536 is, as far as it goes.
  CHECK(r.find(K::Submit, "size").size() == 20000);
  for (size_t i : r.find(K::Submit, "unmapped"))
    CHECK((r.tape->packets[i].flags & NotCaptured));
  CHECK(r.find(K::Submit, "unmapped").size() == 4);
  CHECK(r.find(K::DmaDescriptor, "loop").size() == 256);
  std::vector<size_t> rows = r.find(K::DmaDescriptor, "rows");
  REQUIRE(rows.size() == 5);
  CHECK(r.tape->payload(rows[0]).size() == 64 * 65536);
  CHECK((r.tape->packets[rows[1]].flags & NotCaptured));
  CHECK((r.tape->packets[rows[4]].flags & NotCaptured));
}

TEST_CASE("counters and the device's clock, as the recorder's own") {
  Recorded off("progress");
  CHECK(off.find(K::CounterSnapshot).empty());
  Recorded r("progress", {"markers"});
  CHECK(r.find(K::ClockSample).size() == 4);
  CHECK(r.find(K::CounterSnapshot).size() == 4 * 12);
  for (size_t i : r.find(K::CounterSnapshot)) {
    CHECK(r.tape->packets[i].origin == Origin::Recorder);
    CHECK(r.tape->packets[i].issueTime <= r.tape->packets[i].completeTime);
  }
  uint64_t last = 0;
  for (size_t i : r.find(K::ClockSample)) {
    CHECK(r.tape->packets[i].clock == 1);
    CHECK(r.tape->packets[i].value >= last);
    last = r.tape->packets[i].value;
  }
  CHECK(last > 0);
  // Directly behind what they belong to; the third counts bytes that were stored.
  CHECK(r.find(K::ClockSample, "idle").front() == r.markers.at("idle") + 1);
  std::vector<size_t> snapshots = r.find(K::CounterSnapshot, "idle");
  CHECK(r.tape->packets[snapshots[4]].address == 4);
  CHECK(r.tape->packets[snapshots[4]].value == 128);
  CHECK(r.replay() == "match");
  Recorded fences("rows", {"fences"});
  CHECK(fences.find(K::ClockSample).size() == 3);
  Recorded often("wrap", {"1ms"});
  CHECK(!often.find(K::ClockSample).empty());
}

TEST_CASE("--counters: what it does not understand is refused") {
  for (const char *bad : {"", "nothing", "markers,", "0ms", "5", "1ms,2ms", "off,markers", "4000000000ms"}) {
    RunResult run = runProgram({tapebackProgram(), "record", "--target", "model:minnow", "-o",
                                "/nowhere/x.tape", "--counters", bad, "--", "/bin/true"});
    CHECK_MESSAGE(run.exited(2), bad);
    CHECK(run.err.find("--counters") != std::string::npos);
  }
}
