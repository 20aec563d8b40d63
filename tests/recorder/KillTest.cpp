// Programs and recorders that are killed, interrupted and stopped at any moment.
#include "tests/recorder/Background.h"
#include "tests/recorder/FutexWait.h"
#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE(
    "a program killed at 50 random moments: the tape is closed properly, says so, and nothing stays behind") {
  std::mt19937 random(4711);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    ScratchDirectory scratch;
    std::string path = scratch.file("t.tape");
    Background run(recordCommand(path, {"forever"}), scratch.file("log"));
    REQUIRE_MESSAGE(run.waitFor("running"), run.errors());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
    kill(run.program, SIGKILL);
    run.program = -1;
    CHECK(run.waitRecorder() == 0);
    WholeTape tape(path);
    REQUIRE_MESSAGE(tape.error.empty(), tape.error);
    const Outcome &outcome = tape.reader->outcome();
    CHECK(outcome.kind == Outcome::Kind::Failed);
    CHECK(outcome.programSignal == SIGKILL);
    REQUIRE(outcome.signature);
    CHECK(outcome.signature->oracle == "died");
    CHECK(outcome.signature->name == "SIGKILL");
    CHECK(tape.find(PacketKind::Loss).empty());
    unsigned here = 0;
    for (size_t i = 0; i < tape.packets.size(); ++i)
      if (tape.packets[i].completion == Completion::Pending) {
        ++here;
        CHECK(i + 1 == tape.packets.size());
      }
    CHECK(here <= 1);
    CHECK(run.leftBehind(20) == 0);
  }
}

TEST_CASE("the operation that never came back is in the tape: program killed, interrupted, or recorder told "
          "to stop") {
  struct Row {
    int signal;
    bool toRecorder;
  };
  for (Row row : {Row{SIGKILL, false}, Row{SIGINT, true}, Row{SIGTERM, true}, Row{SIGALRM, false}}) {
    CAPTURE(row.signal);
    ScratchDirectory scratch;
    std::string path = scratch.file("t.tape");
    // A model's operation may take a minute: it is the program that ends.
    std::vector<std::string> command = recordCommand(path, {"hang"});
    command[4] += "?timeout=60000";
    Background run(command, scratch.file("log"));
    REQUIRE_MESSAGE(run.waitFor("hanging"), run.errors());
    REQUIRE(run.waitForTheDeviceToLoop());
    kill(row.toRecorder ? run.recorder : run.program, row.signal);
    run.program = -1;
    CHECK(run.waitRecorder() == 0);
    WholeTape tape(path);
    REQUIRE_MESSAGE(tape.error.empty(), tape.error);
    REQUIRE(!tape.packets.empty());
    const Packet &last = tape.packets.back();
    CHECK(last.kind == PacketKind::RegisterRead);
    CHECK(last.address == 0x100);
    CHECK(last.completion == Completion::Pending);
    CHECK(last.completeTime == 0);
    CHECK(tape.reader->outcome().programSignal == row.signal);
    CHECK(tape.reader->outcome().signature->marker == "before");
    CHECK(jsonOf(run.result()).getInteger("pending") == 1);
    CHECK(run.leftBehind(20) == 0); // The looping model's host as well.
  }
}

TEST_CASE(
    "the recorder killed at random moments: the program goes on to its end, and what was written is saved") {
  std::mt19937 random(11);
  unsigned kept = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    ScratchDirectory scratch;
    std::string path = scratch.file("t.tape");
    // A small ring: the program would wait for the recorder for ever if it did not notice.
    Background run(recordCommand(path, {"rounds", "1000", "1"}, {"--ring-bytes", "65536"}),
                   scratch.file("log"));
    REQUIRE_MESSAGE(run.waitFor("running"), run.errors());
    kill(run.program, SIGUSR1);
    // By what was recorded, however fast that is: there is something to save.
    std::error_code none;
    CHECK(within(60, [&] { return std::filesystem::file_size(path + ".partial", none) + 1 > (2 << 20); }));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    kill(run.recorder, SIGKILL);
    if (run.waitRecorder() == 0)
      continue; // It was done before.
    int end = run.waitProgram(60);
    CHECK((end == 0 ||
           end == -2000)); // The recorder may have seen its end, and be killed while it wrote the tape's.
    CHECK(run.errors().find("done") != std::string::npos);
    if (access(path.c_str(), F_OK) == 0) {
      // Killed between publishing the tape and its own end: what is published is whole.
      WholeTape whole(path);
      CHECK_MESSAGE(whole.error.empty(), whole.error);
      CHECK(access((path + ".partial").c_str(), F_OK) != 0);
      continue;
    }
    llvm::Expected<RecoverReport> recovered = recoverTape(path + ".partial", scratch.file("saved.tape"));
    if (!recovered) {
      // Killed before the first block was written: there is nothing to save, and that is said.
      CHECK(llvm::toString(recovered.takeError()) != "");
      continue;
    }
    WholeTape saved(scratch.file("saved.tape"));
    CHECK_MESSAGE(saved.error.empty(), saved.error);
    kept += saved.packets.size() > 0;
    CHECK(run.leftBehind(20) == 0);
  }
  CHECK(kept > 0);
}

TEST_CASE("an unfinished tape that somebody has removed is not offered for recovery") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  for (bool removed : {true, false}) {
    CAPTURE(removed);
    // What takes the tape's name makes that it cannot be finished in either case.
    std::vector<std::string> command = recordCommand(path, {});
    command.pop_back();
    command.insert(command.end(), {"/bin/sh", "-c",
                                   removed ? "rm \"$1.partial\"; exec \"$0\" threads 1 10"
                                           : "mkdir \"$1\"; exec \"$0\" threads 1 10",
                                   scenarioProgram(), path});
    RunResult run = runProgram(command);
    CHECK_MESSAGE(run.exited(5), run);
    llvm::json::Object json = jsonOf(run);
    CHECK(json.getBoolean("finished") == false);
    CHECK(json.getBoolean("removed") == removed);
    CHECK((run.err.find("`tapeback recover`") == std::string::npos) == removed);
    CHECK((run.err.find("nothing is left of it") != std::string::npos) == removed);
    CHECK(std::filesystem::exists(path + ".partial") == !removed);
  }
}

TEST_CASE("recover says of a killed recording's ring what it is, and that a flight recording is lost") {
  for (bool flight : {true, false}) {
    CAPTURE(flight);
    ScratchDirectory scratch, rings;
    const std::string path = scratch.file("t.tape"), shared = std::getenv("TAPEBACK_RING_DIRECTORY");
    setenv("TAPEBACK_RING_DIRECTORY", rings.path().c_str(), 1);
    Background run(
        recordCommand(path, {"forever"},
                      flight ? std::vector<std::string>{"--flight", "100p"} : std::vector<std::string>()),
        scratch.file("log"));
    setenv("TAPEBACK_RING_DIRECTORY", shared.c_str(), 1);
    REQUIRE_MESSAGE(run.waitFor("running"), run.errors());
    REQUIRE(rings.names().size() == 1);
    const std::string folder = rings.file(rings.names()[0]), saved = scratch.file("saved.tape");
    auto recover = [&](const std::string &in) {
      return runProgram({tapebackProgram(), "recover", in, "-o", saved});
    };
    RunResult early = recover(folder);
    CHECK_MESSAGE(early.exited(2), early);
    CHECK(early.err.find("the recording still runs") != std::string::npos);
    for (pid_t process : {run.recorder, run.program})
      kill(process, SIGKILL);
    CHECK(run.waitRecorder() == -SIGKILL);
    run.program = -1;
    CHECK(run.leftBehind(20) == 0);
    for (const std::string &in : {folder, folder + "/ring"}) {
      RunResult refused = recover(in);
      CHECK_MESSAGE(refused.exited(2), refused);
      CHECK_MESSAGE(refused.err.find(flight ? "were in the recorder's memory, and are lost"
                                            : path + ".partial") != std::string::npos,
                    refused);
    }
    RunResult partial = recover(path + ".partial");
    if (flight) {
      CHECK_MESSAGE(partial.exited(2), partial);
      CHECK_MESSAGE(partial.err.find("A recording with --flight leaves none") != std::string::npos, partial);
    } else {
      CHECK_MESSAGE((partial.exited(0) || partial.exited(5)), partial);
    }
    CHECK(std::filesystem::exists(saved) == !flight);
  }
}

TEST_CASE("a recorder that is only stopped holds the program up, and nothing is lost") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  Background run(recordCommand(path, {"rounds", "400", "1"}, {"--ring-bytes", "65536"}), scratch.file("log"));
  REQUIRE_MESSAGE(run.waitFor("running"), run.errors());
  kill(run.recorder, SIGSTOP);
  int stopped = 0;
  CHECK(waitpid(run.recorder, &stopped, WUNTRACED) == run.recorder);
  CHECK(WIFSTOPPED(stopped));
  kill(run.program, SIGUSR1); // From here on, and not before, it fills the ring.
  CHECK(within(60, [&] { return waitsInTheRing(std::to_string(run.program)); }));
  CHECK(run.errors().find("done") == std::string::npos);
  kill(run.recorder, SIGCONT);
  run.program = -1;
  CHECK(run.waitRecorder() == 0);
  WholeTape tape(path);
  REQUIRE_MESSAGE(tape.error.empty(), tape.error);
  CHECK(tape.find(PacketKind::Oracle).size() == 1200);
  CHECK(tape.find(PacketKind::Loss).empty());
}

TEST_CASE("an interrupt reaches the program once: from a terminal, or passed on") {
  SUBCASE("sent to the recorder") {
    ScratchDirectory scratch;
    Background run(recordCommand(scratch.file("t.tape"), {"count-interrupts"}, {"--propagate-exit"}),
                   scratch.file("log"));
    REQUIRE_MESSAGE(run.waitFor("running"), run.errors());
    kill(run.recorder, SIGINT);
    run.program = -1;
    CHECK(run.waitRecorder() == 1);
  }
  SUBCASE("typed at a terminal") {
    ScratchDirectory scratch;
    std::vector<std::string> command =
        recordCommand(scratch.file("t.tape"), {"count-interrupts"}, {"--propagate-exit"});
    int terminal = -1;
    pid_t recorder = startOnTerminal(command, terminal);
    std::string seen;
    bool typed = false;
    char buffer[512];
    for (ssize_t got; (got = read(terminal, buffer, sizeof(buffer))) > 0;) {
      seen.append(buffer, size_t(got));
      if (!typed && seen.find("running") != std::string::npos)
        typed = write(terminal, "\x03", 1) == 1;
    }
    close(terminal);
    int status = 0;
    CHECK(waitpid(recorder, &status, 0) == recorder);
    CHECK(typed);
    CHECK(WIFEXITED(status));
    CHECK_MESSAGE(WEXITSTATUS(status) == 1, seen);
    CHECK(seen.find("tapeback.record/1") != std::string::npos);
  }
}

TEST_CASE("on a terminal: packets, rate, bytes, ring, losses and armed triggers while it runs, a summary at "
          "the end") {
  ScratchDirectory scratch;
  writeWholeFile(scratch.file("t.trig"),
                 "trigger t { when marker \"round\" count 2 { fire \"two\"; disarm; } }\n"
                 "trigger never { when marker \"never\" { fire \"never\"; } }\n");
  std::vector<std::string> command =
      recordCommand(scratch.file("t.tape"), {"forever"}, {"--trigger", scratch.file("t.trig")});
  command.erase(std::find(command.begin(), command.end(), "--json"));
  int terminal = -1;
  pid_t recorder = startOnTerminal(command, terminal);
  // Until a line has all of it; the first one has no rate yet.
  std::string seen;
  bool told = false;
  char buffer[512];
  for (ssize_t got; (got = read(terminal, buffer, sizeof(buffer))) > 0;) {
    seen.append(buffer, size_t(got));
    for (size_t at = seen.find("recording: "); at != std::string::npos && !told;
         at = seen.find("recording: ", at + 1)) {
      std::string line = seen.substr(at, seen.find("\x1b[K", at) - at);
      told = true;
      for (const char *part :
           {" packets, ", "/s, ", " MB, ring ", " % full, none lost, ", "1 triggers armed, fired 1 times"})
        told &= line.find(part) != std::string::npos;
      if (told)
        kill(recorder, SIGTERM); // Passed on to the program.
    }
  }
  close(terminal);
  int status = 0;
  CHECK(waitpid(recorder, &status, 0) == recorder);
  CHECK_MESSAGE(told, seen);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  // The line is wiped, and the summary stands alone.
  size_t summary = seen.rfind("t.tape: ");
  REQUIRE_MESSAGE(summary != std::string::npos, seen);
  CHECK(seen.find("recording: ", summary) == std::string::npos);
  for (std::string part :
       {" packets in ", " windows, ", " memory contents, ", " bytes", "the run failed: ", "signal 15"})
    CHECK_MESSAGE(seen.find(part, summary) != std::string::npos, part);
}
