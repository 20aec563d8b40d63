// `record --durable`: what is on stable storage before an access is made, and what `recover` makes of it when
// everything else is gone.
#include "recorder/durable/LeftBehind.h"
#include "tests/recorder/Background.h"
#include <random>
#include <sys/stat.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// A recording in the middle of an access that does not come back, killed with all its processes, and its
/// shared memory taken away, as if the host had gone down.
struct HungHost {
  explicit HungHost(const char *mode)
      : path(scratch.file("t.tape")), run(command(mode), scratch.file("log")) {
    REQUIRE_MESSAGE(run.waitFor("hanging"), run.errors());
    REQUIRE(run.waitForTheDeviceToLoop());
    std::string ring = environmentOf(run.program, "TAPEBACK_RING");
    REQUIRE(!ring.empty());
    kill(run.recorder, SIGKILL);
    kill(run.program, SIGKILL);
    CHECK(run.waitRecorder() == -SIGKILL);
    run.program = -1;
    CHECK(run.leftBehind(20) == 0);
    std::filesystem::remove_all(std::filesystem::path(ring).parent_path());
  }
  std::vector<std::string> command(const char *mode) const {
    std::vector<std::string> words = recordCommand(path, {"hang"}, {std::string("--durable=") + mode});
    words[4] += "?timeout=60000";
    return words;
  }
  static std::string environmentOf(pid_t pid, const std::string &name) {
    std::istringstream all(readWholeFile("/proc/" + std::to_string(pid) + "/environ"));
    for (std::string entry; std::getline(all, entry, '\0');)
      if (entry.rfind(name + "=", 0) == 0)
        return entry.substr(name.size() + 1);
    return "";
  }
  std::string log() const { return path + ".partial.durable"; }
  RecoverReport recover(const char *to = "saved.tape") {
    LeftBehind tail(path + ".partial");
    RecoverOptions options;
    options.tail = &tail;
    llvm::Expected<RecoverReport> report = recoverTape(path + ".partial", scratch.file(to), options);
    REQUIRE(bool(report));
    return *report;
  }
  static bool speaksOf(const RecoverReport &report, const std::string &text) {
    for (const std::string &note : report.notes)
      if (note.find(text) != std::string::npos)
        return true;
    return false;
  }

  ScratchDirectory scratch;
  std::string path;
  Background run;
};

std::vector<Packet> pendingOf(const WholeTape &tape) {
  std::vector<Packet> pending;
  for (const Packet &packet : tape.packets)
    if (packet.completion == Completion::Pending)
      pending.push_back(packet);
  return pending;
}

} // namespace

TEST_CASE("the access that took the host with it is on the recovered tape, pending, and is named") {
  for (const char *mode : {"may-hang", "all"}) {
    CAPTURE(mode);
    HungHost host(mode);
    RecoverReport report = host.recover();
    WholeTape tape(host.scratch.file("saved.tape"));
    REQUIRE_MESSAGE(tape.error.empty(), tape.error);
    std::vector<Packet> pending = pendingOf(tape);
    REQUIRE(pending.size() == 1);
    CHECK(pending[0].kind == PacketKind::RegisterRead);
    CHECK(pending[0].address == 0x100);
    CHECK(pending[0].width == 4);
    CHECK(pending[0].completeTime == 0);
    CHECK(tape.reader->spaces()[pending[0].space] == "bar0");
    CHECK(tape.packets.back().completion == Completion::Pending);
    CHECK(HungHost::speaksOf(report, "bar0+0x100"));
    CHECK(report.lostAnything()); // What the recorder had not written went with the host.
    // The read before it came back: with `all` it is in the log, whatever became of the tape.
    unsigned reads = 0;
    for (size_t i : tape.find(PacketKind::RegisterRead))
      reads += tape.packets[i].address == 0x14 && tape.packets[i].completion == Completion::Done;
    if (std::string(mode) == "all")
      CHECK(reads == 1);
    // The same tape again with what the log had: nothing is added twice.
    LeftBehind tail(host.scratch.file("saved.tape"));
    RecoverOptions options;
    options.tail = &tail;
    llvm::Expected<RecoverReport> again =
        recoverTape(host.scratch.file("saved.tape"), host.scratch.file("again.tape"), options);
    REQUIRE(bool(again));
    CHECK(again->wasComplete);
  }
}

TEST_CASE("no log, or one that is damaged, of another recording or no log at all makes no packet") {
  HungHost host("may-hang");
  std::string good = readWholeFile(host.log());
  std::mt19937 random(7);
  unsigned added = 0, refused = 0;
  auto recovered = [&] {
    RecoverReport report = host.recover("damaged.tape");
    WholeTape tape(host.scratch.file("damaged.tape"));
    CHECK_MESSAGE(tape.error.empty(), tape.error);
    std::vector<Packet> pending = pendingOf(tape);
    CHECK(pending.size() == report.packetsAdded);
    for (const Packet &packet : pending)
      CHECK(packet.address == 0x100);
    added += pending.size() == 1;
    refused += pending.empty();
  };
  constexpr size_t entries = 548864 - 4096 * 128;
  for (int i = 0; i < 24; ++i) {
    std::string bad = good;
    // In what comes before the entries, or in the one that is there.
    size_t at = i % 2 ? random() % entries : entries + 128 + random() % 72;
    REQUIRE(at < bad.size());
    bad[at] = char(bad[at] ^ (1 << random() % 8));
    writeWholeFile(host.log(), bad);
    recovered();
  }
  CHECK(added > 0);
  CHECK(refused > 0);
  for (size_t length : {size_t(0), size_t(100), size_t(5000), good.size() - 1}) {
    writeWholeFile(host.log(), good.substr(0, length));
    recovered();
  }
  std::filesystem::remove(host.log());
  unsigned before = refused;
  recovered();
  CHECK(refused == before + 1);
  // Another recording's.
  HungHost other("may-hang");
  std::filesystem::copy_file(other.log(), host.log());
  RecoverReport report = host.recover("foreign.tape");
  CHECK(report.packetsAdded == 0);
  CHECK(HungHost::speaksOf(report, "another recording"));
}

TEST_CASE("only what may hang is logged, or everything; what it costs is told, and the log goes with the "
          "tape's end") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  auto accesses = [&](const char *mode, const std::vector<std::string> &scenario) -> int64_t {
    RunResult run = runProgram(recordCommand(path, scenario, {"--force", std::string("--durable=") + mode}));
    CHECK_MESSAGE(run.exited(0), run);
    CHECK(scratch.names() == std::vector<std::string>{"t.tape"});
    const llvm::json::Object json = jsonOf(run);
    const llvm::json::Object *durable = json.getObject("durable");
    if (!durable)
      return -1;
    CHECK(durable->getInteger("failures") == 0);
    CHECK(durable->getInteger("least_ns").value_or(-1) <= durable->getInteger("mean_ns").value_or(-2));
    CHECK(durable->getInteger("mean_ns").value_or(-1) <= durable->getInteger("most_ns").value_or(-2));
    return durable->getInteger("accesses").value_or(-1);
  };
  CHECK(accesses("off", {"threads", "4", "20"}) == -1);
  CHECK(accesses("may-hang", {"threads", "4", "20"}) == 0);
  CHECK(accesses("all", {"threads", "4", "20"}) == 4 * 20 * 2);
  RunResult bad = runProgram(recordCommand(path, {"exit", "0"}, {"--force", "--durable=some"}));
  CHECK_MESSAGE(bad.exited(2), bad);
}

TEST_CASE(
    "a log that cannot be written: the accesses are made, and the recording says that it is not whole") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  Background run(recordCommand(path, {"rounds", "3", "1"}, {"--durable=all"}), scratch.file("log"));
  REQUIRE_MESSAGE(run.waitFor("running"), run.errors());
  // Somebody takes it away.
  std::filesystem::remove(path + ".partial.durable");
  kill(run.program, SIGUSR1);
  run.program = -1;
  CHECK(run.waitRecorder() == 5);
  llvm::json::Object json = jsonOf(run.result());
  CHECK(json.getObject("program")->getInteger("exit") == 0);
  CHECK(json.getString("verdict") == "incomplete");
  WholeTape tape(path);
  CHECK_MESSAGE(tape.error.empty(), tape.error);
  CHECK(tape.find(PacketKind::Oracle).size() == 9);
}
