// What a recording survives: kills at any moment of the program, of the recorder and of both, disks that fill
// up and go away. What was recorded is counted by the program itself, in a file that outlives it.
//
// TAPEBACK_FAULT_ROUNDS says how often each kill is done (tools/fault-campaign does 200).
#include "tests/recorder/Background.h"
#include "tests/support/Skip.h"
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

unsigned rounds(unsigned usual) {
  const char *wanted = std::getenv("TAPEBACK_FAULT_ROUNDS");
  return wanted ? unsigned(std::atoi(wanted)) : usual;
}

/// How often each process is killed where both are: half as often as one alone.
unsigned roundsOfBoth(unsigned usual) {
  return std::getenv("TAPEBACK_FAULT_ROUNDS") ? std::max(1U, rounds(usual) / 2) : usual;
}

/// What the program's threads say that came back, in memory shared by a file.
class Counts {
public:
  explicit Counts(const std::string &path) : path(path) {
    writeWholeFile(path, std::string(4096, '\0'));
    int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    void *mapping = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    REQUIRE(mapping != MAP_FAILED);
    counts = static_cast<std::atomic<uint64_t> *>(mapping);
  }
  ~Counts() { munmap(counts, 4096); }
  uint64_t operator[](unsigned thread) const { return counts[thread].load(); }
  std::vector<uint64_t> all(unsigned threads) const {
    std::vector<uint64_t> values;
    for (unsigned i = 0; i < threads; ++i)
      values.push_back(counts[i].load());
    return values;
  }
  const std::string path;

private:
  std::atomic<uint64_t> *counts;
};

/// Empty if each thread's writes on the tape are 1, 2, 3 … in order, with as many as came back or one more
/// (`exactly`), or at least as many.
std::string wrongWrites(const std::vector<Packet> &packets, const std::vector<uint64_t> &cameBack,
                        bool exactly) {
  std::vector<uint64_t> next(cameBack.size(), 1);
  for (const Packet &packet : packets) {
    if (packet.kind != PacketKind::RegisterWrite || packet.address < 0x20 ||
        packet.address >= 0x20 + 4 * cameBack.size())
      continue;
    uint64_t &wanted = next[(packet.address - 0x20) / 4];
    if (packet.value != wanted)
      return "write " + std::to_string(packet.value) + " where " + std::to_string(wanted) + " was due";
    ++wanted;
  }
  for (size_t i = 0; i < cameBack.size(); ++i)
    if (next[i] - 1 < cameBack[i] || (exactly && next[i] - 1 > cameBack[i] + 1))
      return std::to_string(next[i] - 1) + " writes of thread " + std::to_string(i) + ", of which " +
             std::to_string(cameBack[i]) + " came back";
  return "";
}

uint64_t lossesIn(const WholeTape &tape) {
  uint64_t lost = 0;
  for (size_t i : tape.find(PacketKind::Loss))
    lost += tape.packets[i].value;
  return lost;
}

/// What a campaign found, printed for whoever runs it: nothing of it may be wrong.
struct Tally {
  explicit Tally(const char *what) : what(what) {}
  ~Tally() {
    if (std::getenv("TAPEBACK_FAULT_ROUNDS"))
      std::printf(
          "%-36s %3u kills: %llu calls had returned, %llu of these missing, %u tapes wrong; counted as lost "
          "(made when no recorder lived): %llu\n",
          what, kills, (unsigned long long)returned, (unsigned long long)missing, wrong,
          (unsigned long long)lost);
  }
  /// What is on the tape, of which so many must be. Returns what wrongWrites() says.
  std::string add(const WholeTape &tape, const std::vector<uint64_t> &due, bool exactly) {
    ++kills;
    std::vector<uint64_t> there(due.size(), 0);
    for (const Packet &packet : tape.packets)
      if (packet.kind == PacketKind::RegisterWrite && packet.address >= 0x20 &&
          packet.address < 0x20 + 4 * due.size())
        ++there[(packet.address - 0x20) / 4];
    for (size_t i = 0; i < due.size(); ++i) {
      returned += due[i];
      missing += there[i] < due[i] ? due[i] - there[i] : 0;
    }
    std::string found = wrongWrites(tape.packets, due, exactly);
    wrong += !found.empty();
    lost += lossesIn(tape);
    return found;
  }
  const char *what;
  unsigned kills = 0, wrong = 0;
  uint64_t returned = 0, missing = 0, lost = 0;
};

/// Started, and at a random point: after so many writes of the first thread.
struct Counting {
  Counting(std::mt19937 &random, unsigned threads, uint64_t most,
           const std::vector<std::string> &options = {})
      : threads(threads), counts(scratch.file("counts")), path(scratch.file("t.tape")),
        run(recordCommand(path, {"counting", counts.path, std::to_string(threads)}, options),
            scratch.file("log")) {
    uint64_t point = random() % most;
    REQUIRE_MESSAGE(within(60, [&] { return counts[0] > point; }), run.errors());
    REQUIRE(run.findProgram());
  }
  RunResult recover() {
    return runProgram({tapebackProgram(), "recover", "--json", path + ".partial", "-o", saved()});
  }
  std::string saved() const { return scratch.file("saved.tape"); }

  ScratchDirectory scratch;
  unsigned threads;
  Counts counts;
  std::string path;
  Background run;
};

} // namespace

TEST_CASE("what a fault test compares with is found wrong when it is wrong") {
  auto write = [](uint64_t address, uint64_t value) {
    Packet packet;
    packet.kind = PacketKind::RegisterWrite;
    packet.address = address;
    packet.value = value;
    return packet;
  };
  std::vector<Packet> good{write(0x20, 1), write(0x24, 1), write(0x20, 2)};
  CHECK(wrongWrites(good, {2, 1}, true) == "");
  CHECK(wrongWrites(good, {1, 0}, true) == "");
  CHECK(wrongWrites(good, {0, 0}, true) != ""); // One that was not made.
  CHECK(wrongWrites(good, {0, 0}, false) == "");
  CHECK(wrongWrites(good, {3, 1}, false) != "");                               // One is missing at the end,
  CHECK(wrongWrites({good[0], good[1], write(0x20, 3)}, {2, 1}, false) != ""); // in the middle,
  CHECK(wrongWrites({good[0], good[0], good[2]}, {2, 0}, false) != "");        // or there twice.
}

TEST_CASE("the program killed at random points: every packet whose call had returned is on the tape") {
  std::mt19937 random(1);
  Tally tally("the program");
  for (unsigned round = 0; round < rounds(4); ++round) {
    CAPTURE(round);
    Counting c(random, 1 + round % 4, 20000);
    kill(c.run.program, SIGKILL);
    c.run.program = -1;
    CHECK(c.run.waitRecorder() == 0);
    WholeTape tape(c.path);
    REQUIRE_MESSAGE(tape.error.empty(), tape.error);
    CHECK(tally.add(tape, c.counts.all(c.threads), true) == "");
    CHECK(lossesIn(tape) == 0);
    CHECK(c.run.leftBehind(20) == 0);
  }
}

TEST_CASE("the recorder killed at random points: its tape and its ring have everything together") {
  std::mt19937 random(2);
  Tally tally("the recorder");
  for (unsigned round = 0; round < rounds(4); ++round) {
    CAPTURE(round);
    // A small ring is used again and again, a large one never.
    std::vector<std::string> options = {"--ring-bytes", round % 2 ? "65536" : "16777216"};
    Counting c(random, 1 + round % 4, 20000, options);
    kill(c.run.recorder, SIGKILL);
    std::vector<uint64_t> before = c.counts.all(c.threads);
    c.run.waitRecorder();
    if (round % 3 == 0) {
      // It goes on without, far beyond what the ring has room for: that is counted. (Four threads that want
      // the device at once take their time.)
      uint64_t more = c.counts[0] + (round % 2 ? 20'000 : 300'000);
      CHECK(within(60, [&] { return c.counts[0] > more; }));
    }
    kill(c.run.program, SIGKILL);
    CHECK(c.run.waitProgram() == -SIGKILL);
    RunResult recovered = c.recover();
    CHECK_MESSAGE((recovered.exited(0) || recovered.exited(5)), recovered);
    WholeTape tape(c.saved());
    REQUIRE_MESSAGE(tape.error.empty(), tape.error);
    CHECK_MESSAGE(tally.add(tape, before, false) == "", recovered);
    // What is not there is a loss, and nothing else is.
    bool all = wrongWrites(tape.packets, c.counts.all(c.threads), true).empty();
    CHECK_MESSAGE(all == (lossesIn(tape) == 0), recovered);
    CHECK(recovered.exited(all ? 0 : 5));
  }
}

TEST_CASE("both killed at random points: tape and ring together lose nothing") {
  std::mt19937 random(3);
  Tally tally("both");
  for (unsigned round = 0; round < roundsOfBoth(4); ++round) {
    CAPTURE(round);
    std::vector<std::string> options = {"--ring-bytes", round % 2 ? "65536" : "16777216"};
    Counting c(random, 1 + round % 4, 20000, options);
    // Either may be the first.
    for (bool recorder : {round % 4 < 2, round % 4 >= 2})
      kill(recorder ? c.run.recorder : c.run.program, SIGKILL);
    CHECK(c.run.waitRecorder() == -SIGKILL);
    c.run.program = -1;
    CHECK(c.run.leftBehind(20) == 0);
    if (std::filesystem::exists(c.path)) {
      // The program was the first, and its recorder was through with the tape when it was killed.
      WholeTape whole(c.path);
      CHECK_MESSAGE(whole.error.empty(), whole.error);
      CHECK(tally.add(whole, c.counts.all(c.threads), true) == "");
      continue;
    }
    RunResult recovered = c.recover();
    CHECK_MESSAGE(recovered.exited(0), recovered);
    WholeTape tape(c.saved());
    REQUIRE_MESSAGE(tape.error.empty(), tape.error);
    CHECK_MESSAGE(tally.add(tape, c.counts.all(c.threads), true) == "", recovered);
    CHECK(lossesIn(tape) == 0);
    // Once more, and from where it is told: the same. The next recording leaves it alone, and says so.
    RunResult next = runProgram({tapebackProgram(), "record", "--json", "--target", "null:", "-o",
                                 c.scratch.file("n.tape"), "--", "true"});
    CHECK_MESSAGE(next.err.find(c.path + ".partial") != std::string::npos, next);
    std::filesystem::remove(c.saved());
    CHECK(c.recover().exited(0));
    CHECK(WholeTape(c.saved()).packets.size() == tape.packets.size());
  }
}

TEST_CASE("the output's folder goes away: the program goes on, and the recording says that it is not whole") {
  ScratchDirectory scratch;
  std::string folder = scratch.file("folder");
  std::filesystem::create_directory(folder);
  Background run(recordCommand(folder + "/t.tape", {"rounds", "20", "1"}), scratch.file("log"));
  REQUIRE_MESSAGE(run.waitFor("running"), run.errors());
  std::filesystem::remove_all(folder);
  kill(run.program, SIGUSR1);
  run.program = -1;
  CHECK(run.waitRecorder() == 5);
  CHECK(run.errors().find("done") != std::string::npos);
  llvm::json::Object json = jsonOf(run.result());
  CHECK(json.getObject("program")->getInteger("exit") == 0);
  CHECK(json.getString("verdict") == "incomplete");
  CHECK(json.getBoolean("finished") == false);
}

/// A shell in a mount namespace of its own, where `folder` is a file system of that size.
static std::vector<std::string> onSmallDisk(const std::string &folder, const char *size) {
  return {"/usr/bin/unshare",
          geteuid() == 0 ? "-m" : "-rm",
          "sh",
          "-c",
          "mount -t tmpfs -o size=" + std::string(size) + " none \"$0\" && exec \"$@\"",
          folder};
}
static bool haveNamespaces(const std::string &folder) {
  std::vector<std::string> command = onSmallDisk(folder, "64k");
  command.push_back("true");
  return runProgram(command).exited(0);
}

TEST_CASE("a full disk: the program goes on to its end, the loss is counted and shown") {
  ScratchDirectory scratch;
  std::string folder = scratch.file("disk"), partial = scratch.file("t.tape.partial");
  std::filesystem::create_directory(folder);
  if (!haveNamespaces(folder))
    TB_SKIP("no mount namespaces here");
  auto recorded = [](const std::string &path) {
    return recordCommand(path, {"rounds", "60"}, {"--ring-bytes", "65536"});
  };
  std::vector<std::string> command = onSmallDisk(folder, "1m");
  // The disk is gone with its last process.
  for (const std::string &word :
       {std::string("sh"), std::string("-c"),
        "\"$@\"; code=$?; cp '" + folder + "/t.tape.partial' '" + partial + "' && exit $code",
        std::string("sh")})
    command.push_back(word);
  for (const std::string &word : recorded(folder + "/t.tape"))
    command.push_back(word);
  RunResult run = runProgram(command);
  REQUIRE_MESSAGE(run.exited(5), run);
  CHECK(run.err.find("done") != std::string::npos);
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getObject("program")->getInteger("exit") == 0);
  CHECK(json.getString("verdict") == "incomplete");
  const uint64_t lost = uint64_t(json.getObject("loss")->getInteger("disk_errors").value_or(0));
  CHECK(lost > 0);
  // What is lost and what is saved are all that there was.
  RunResult whole = runProgram(recorded(scratch.file("whole.tape")));
  REQUIRE_MESSAGE(whole.exited(0), whole);
  llvm::Expected<RecoverReport> recovered = recoverTape(partial, scratch.file("saved.tape"));
  REQUIRE(bool(recovered));
  WholeTape saved(scratch.file("saved.tape"));
  CHECK(lost + saved.packets.size() - saved.find(PacketKind::Loss).size() ==
        uint64_t(jsonOf(whole).getInteger("packets").value_or(0)));
}

TEST_CASE(
    "shared memory exhausted: before the program starts it is an error that says so, later threads share") {
  ScratchDirectory scratch;
  if (!haveNamespaces("/dev/shm"))
    TB_SKIP("no mount namespaces here");
  std::string path = scratch.file("t.tape");
  auto record = [&](const char *size) {
    std::vector<std::string> command = onSmallDisk("/dev/shm", size);
    for (const std::string &word :
         recordCommand(path, {"threads", "24", "200"}, {"--force", "--ring-bytes", "262144"}))
      command.push_back(word);
    RunOptions where;
    where.environment["TAPEBACK_RING_DIRECTORY"] = "/dev/shm";
    return runProgram(command, where);
  };
  // Enough for the first lanes only.
  RunResult few = record("1m");
  CHECK_MESSAGE(few.exited(0), few);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  CHECK(tape.find(PacketKind::Oracle).size() == 24 * 200);
  CHECK(tape.find(PacketKind::Loss).empty());
  std::filesystem::remove(path);
  RunResult none = record("64k");
  llvm::json::Object json = jsonOf(none);
  if (none.exited(0)) {
    CHECK(WholeTape(path).find(PacketKind::Oracle).size() == 24 * 200); // It found another place.
  } else {
    REQUIRE_MESSAGE(json.getObject("error"), none);
    CHECK(json.getObject("error")->getString("code") == "ring-failed");
    CHECK(!std::filesystem::exists(path));
  }
}

/// A group of processes that may use 64 MiB together, of either kind of control groups.
class SmallMemory {
public:
  SmallMemory() {
    struct Kind {
      const char *root, *limit, *swap, *noSwap;
    };
    for (const Kind &kind :
         {Kind{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "67108864"},
          Kind{"/sys/fs/cgroup", "memory.max", "memory.swap.max", "0"}}) {
      std::string made = std::string(kind.root) + "/tapeback-test-" + std::to_string(getpid());
      if (mkdir(made.c_str(), 0700) != 0)
        continue;
      if (put(made + "/" + kind.limit, "67108864")) {
        put(made + "/" + kind.swap, kind.noSwap); // Not there without swap, which is as well.
        folder = made;
        return;
      }
      rmdir(made.c_str());
    }
  }
  ~SmallMemory() {
    if (!folder.empty())
      within(20, [&] { return rmdir(folder.c_str()) == 0; }); // When its last process is gone.
  }
  SmallMemory(const SmallMemory &) = delete;
  SmallMemory &operator=(const SmallMemory &) = delete;
  bool there() const { return !folder.empty(); }
  std::string members() const { return folder + "/cgroup.procs"; }

private:
  static bool put(const std::string &path, const char *text) {
    int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && ::write(fd, text, strlen(text)) == ssize_t(strlen(text));
    if (fd >= 0)
      ::close(fd);
    return done;
  }
  std::string folder;
};

TEST_CASE("the system takes the program's life for want of memory: all that it did is on the tape, and how "
          "it died") {
#ifdef TAPEBACK_SANITIZED
  // It needs so nearly what the group has that the program gets slower and slower instead.
  TB_SKIP("a sanitizer has memory of its own");
#endif
  SmallMemory group;
  if (!group.there())
    TB_SKIP("no control group with a limit of memory can be made here");
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  std::vector<std::string> command = recordCommand(path, {});
  command.pop_back();
  command.insert(command.end(),
                 {"sh", "-c", "echo $$ >\"$0\" && exec \"$@\"", group.members(), scenarioProgram(), "eat"});
  RunResult run = runProgram(command);
  CHECK_MESSAGE(run.exited(0), run);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  CHECK(tape.reader->outcome().programSignal == SIGKILL);
  REQUIRE(tape.reader->outcome().signature);
  CHECK(tape.reader->outcome().signature->oracle == "died");
  CHECK(tape.reader->outcome().signature->marker == "hungry");
  CHECK(tape.find(PacketKind::Oracle).size() == 50);
  CHECK(tape.packets.back().kind == PacketKind::Marker);
  CHECK(tape.find(PacketKind::Loss).empty());
}

TEST_CASE("two recordings at once do not meet, and their rings are their user's alone") {
  ScratchDirectory scratch;
  Counts one(scratch.file("one")), two(scratch.file("two"));
  Background a(recordCommand(scratch.file("a.tape"), {"counting", one.path, "1"}), scratch.file("a.log"));
  Background b(recordCommand(scratch.file("b.tape"), {"counting", two.path, "2"}), scratch.file("b.log"));
  REQUIRE(within(60, [&] { return one[0] > 3000 && two[1] > 3000; }));
  for (Background *run : {&a, &b}) {
    REQUIRE(run->findProgram());
    std::istringstream environment(readWholeFile("/proc/" + std::to_string(run->program) + "/environ"));
    std::string ring;
    for (std::string entry; std::getline(environment, entry, '\0');)
      if (entry.rfind("TAPEBACK_RING=", 0) == 0)
        ring = entry.substr(14);
    struct stat file, folder;
    REQUIRE(stat(ring.c_str(), &file) == 0);
    REQUIRE(stat(ring.substr(0, ring.rfind('/')).c_str(), &folder) == 0);
    CHECK((file.st_mode & 07777) == 0600);
    CHECK((folder.st_mode & 07777) == 0700);
    CHECK(file.st_uid == geteuid());
  }
  for (Background *run : {&a, &b}) {
    kill(run->program, SIGKILL);
    run->program = -1;
  }
  // Each is the other's parent's child as well: whoever is waited for first.
  CHECK(a.waitRecorder() == 0);
  CHECK(b.waitRecorder() == 0);
  WholeTape first(scratch.file("a.tape")), second(scratch.file("b.tape"));
  REQUIRE_MESSAGE(first.error.empty(), first.error);
  REQUIRE_MESSAGE(second.error.empty(), second.error);
  CHECK(wrongWrites(first.packets, one.all(1), true) == "");
  CHECK(wrongWrites(second.packets, two.all(2), true) == "");
}

TEST_CASE("a program that records twice in a run: processes in turn, each in its order") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  std::vector<std::string> command = recordCommand(path, {});
  command.pop_back();
  std::string once = scenarioProgram() + " threads 2 30";
  command.insert(command.end(), {"sh", "-c", once + " && " + once});
  RunResult run = runProgram(command);
  CHECK_MESSAGE(run.exited(0), run);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  CHECK(tape.find(PacketKind::Open).size() == 2);
  CHECK(tape.find(PacketKind::Oracle).size() == 2 * 2 * 30);
  CHECK(tape.find(PacketKind::Loss).empty());
}
