// Memory of which neither a description nor the program tells: what was stored to is on the tape before the
// register write that may hand it over, and a replay finds it there.
#include "tests/recorder/Recording.h"
#include "llvm/ADT/StringExtras.h"
#include <fstream>

using namespace tapeback;
using namespace tapeback::test;

namespace {

using K = PacketKind;
constexpr uint64_t page = 4096;

struct Tracked {
  explicit Tracked(const std::string &description, bool withThread = false, const std::string &how = "scan") {
    std::vector<std::string> command{"/usr/bin/env",
                                     "TAPEBACK_PAGES=" + how,
                                     tapebackProgram(),
                                     "record",
                                     "--json",
                                     "--target",
                                     testModelUri(),
                                     "-o",
                                     path()};
    if (!description.empty()) {
      std::ofstream(scratch.file("d.yaml")) << description;
      command.insert(command.end(), {"--description", scratch.file("d.yaml")});
    }
    command.insert(command.end(), {"--", scenarioProgram(), "tracked", withThread ? "1" : "0"});
    RunResult run = runProgram(command);
    REQUIRE_MESSAGE(run.exited(0), run);
    REQUIRE_MESSAGE(jsonOf(run).getObject("program")->getInteger("exit") == 0, run);
    tape.emplace(path());
    REQUIRE_MESSAGE(tape->error.empty(), tape->error);
    memory = tape->packets[tape->find(K::MemoryMap).at(0)].address;
  }
  std::string path() const { return scratch.file("tracked.tape"); }
  std::string verdict() const {
    std::vector<std::string> command{tapebackProgram(), "replay",      "--json", path(),
                                     "--target",        testModelUri()};
    return jsonOf(runProgram(command)).getString("verdict").value_or("?").str();
  }
  /// What round `n` captured, and in front of which register: "PAGE+PAGES@REGISTER".
  std::vector<std::string> captured(unsigned n) const {
    std::vector<std::string> found;
    std::vector<std::string> open;
    unsigned round = 0;
    for (size_t i = 0; i < tape->packets.size(); ++i) {
      const Packet &packet = tape->packets[i];
      if (packet.kind == K::Marker)
        ++round;
      if (round != n + 1)
        continue;
      if (packet.kind == K::MemoryWrite)
        open.push_back(std::to_string((packet.address - memory) / page) + "+" +
                       std::to_string(tape->extras[i].length / page));
      if (packet.kind == K::RegisterWrite) {
        for (const std::string &one : open)
          found.push_back(one + "@" + llvm::utohexstr(packet.address, true));
        open.clear();
      }
    }
    return found;
  }

  ScratchDirectory scratch;
  std::optional<WholeTape> tape;
  uint64_t memory = 0;
};

const char *const plain = R"(tapeback-description: 1
name: tracked
spaces: [bar0, bar2]
registers:
  - {name: SRC, space: bar0, offset: 0x300, width: 8}
  - {name: DST, space: bar0, offset: 0x308, width: 8}
  - {name: LENGTH, space: bar0, offset: 0x310, width: 8}
  - {name: GO, space: bar0, offset: 0x318, width: 4, access: rw, class: poll}
)";

} // namespace

TEST_CASE("nobody tells: pages stored to are captured once, before the next register write") {
  struct {
    const char *description, *how;
  } const ways[] = {{"", "scan"}, {plain, "scan"}, {"", "soft-dirty"}, {"", "compare"}};
  for (const auto &[description, how] : ways) {
    CAPTURE(how);
    Tracked run(description, false, how);
    CHECK(run.captured(0) == std::vector<std::string>{"3+1@300", "5+1@300"});
    CHECK(run.captured(1).empty()); // Nothing stored; what the device wrote to page 9 is not the host's.
    CHECK(run.captured(2) == std::vector<std::string>{"3+1@300", "5+1@300"});
    // The device must find it: without the captures it would copy what memory has been filled with.
    CHECK(run.verdict() == "match");
  }
}

TEST_CASE("the description tells when memory is handed over: captured there and nowhere else") {
  Tracked run(std::string(plain) + "hand-over: [{register: GO, mask: 0x1, value: 0x1}]\n");
  CHECK(run.captured(0) == std::vector<std::string>{"3+1@318", "5+1@318"});
  CHECK(run.captured(1).empty());
  CHECK(run.captured(2) == std::vector<std::string>{"3+1@318", "5+1@318"});
  CHECK(run.verdict() == "match");
}

TEST_CASE("a hand-over that never comes captures nothing, and the replay diverges") {
  Tracked run(std::string(plain) + "hand-over: [{register: GO, mask: 0x100, value: 0x100}]\n");
  for (unsigned round = 0; round < 3; ++round)
    CHECK(run.captured(round).empty());
  CHECK(run.verdict() == "divergence");
}

TEST_CASE(
    "another thread stores all the time: no page is missed, and none that nobody stored to is captured") {
  Tracked run("", true);
  std::vector<std::string> first;
  for (const std::string &one : run.captured(0))
    if (one.rfind("20+1", 0) != 0)
      first.push_back(one);
  CHECK(first == std::vector<std::string>{"3+1@300", "5+1@300"});
  CHECK(run.verdict() == "match");
}
