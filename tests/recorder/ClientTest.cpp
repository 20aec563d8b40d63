// The client library as a user's program meets it: what it needs, what it exports, and without a recorder.
#include "tests/recorder/Recording.h"
#include "tests/support/NeedQemu.h"
#include "tests/support/Skip.h"
#include <csignal>
#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

using namespace tapeback;
using namespace tapeback::test;

namespace {

const std::string clientLibrary = TAPEBACK_BINARY_DIR "/lib/libtapeback.so";
const std::string backendLibrary = TAPEBACK_BINARY_DIR "/lib/tapeback/libtapeback-backend.so";

/// Names a library defines for others, without the linker's own. Not used where sanitizers add names of
/// theirs.
[[maybe_unused]] std::set<std::string> exportsOf(const std::string &library) {
  RunResult nm = runProgram({"/usr/bin/nm", "-D", "--defined-only", library});
  REQUIRE_MESSAGE(nm.exited(0), nm);
  std::set<std::string> names;
  std::istringstream lines(nm.out);
  std::string address, type, name;
  while (lines >> address >> type >> name)
    names.insert(name);
  return names;
}

RunResult runScenario(const std::vector<std::string> &scenario,
                      std::map<std::string, std::string> environment) {
  std::vector<std::string> command{scenarioProgram()};
  command.insert(command.end(), scenario.begin(), scenario.end());
  RunOptions options;
  options.environment = std::move(environment);
  options.environment.try_emplace("TAPEBACK_RING", "");
  options.environment.try_emplace("TAPEBACK_DESCRIPTION", testDescription());
  return runProgram(command, options);
}

} // namespace

TEST_CASE("libtapeback.so needs libc and nothing else") {
#ifdef TAPEBACK_SANITIZED
  TB_SKIP("a sanitizer's run-time library is linked as well");
#else
  RunResult needed = runProgram({"/usr/bin/objdump", "-p", clientLibrary});
  REQUIRE_MESSAGE(needed.exited(0), needed);
  std::set<std::string> libraries;
  std::istringstream lines(needed.out);
  std::string line, soname;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string key, value;
    words >> key >> value;
    if (key == "NEEDED")
      libraries.insert(value);
    if (key == "SONAME")
      soname = value;
  }
  // The dynamic linker's own name stands there for the thread-local variables.
  libraries.erase("ld-linux-x86-64.so.2");
  CHECK(libraries == std::set<std::string>{"libc.so.6"});
  CHECK(soname == "libtapeback.so.0");
  RunResult ldd = runProgram({"/usr/bin/ldd", clientLibrary});
  CHECK(ldd.out.find("stdc++") == std::string::npos);
  CHECK(ldd.out.find("LLVM") == std::string::npos);
#endif
}

TEST_CASE("libtapeback.so exports what the header declares, and nothing else") {
#ifdef TAPEBACK_SANITIZED
  TB_SKIP("a sanitizer adds symbols of its own");
#else
  std::string header = readWholeFile(TAPEBACK_SOURCE_DIR "/recorder/tapeback.h");
  std::set<std::string> declared;
  std::regex declaration("TB_API[^;(]*?\\b(tb_[a-z0-9_]+)\\(");
  for (std::sregex_iterator it(header.begin(), header.end(), declaration), end; it != end; ++it)
    declared.insert((*it)[1]);
  CHECK(declared.size() >= 30);
  CHECK(exportsOf(clientLibrary) == declared);
  CHECK(exportsOf(backendLibrary) == std::set<std::string>{"tapeback_backend_entry"});
#endif
}

TEST_CASE("without a target there is an error that says what to do") {
  RunResult run = runScenario({"no-target"}, {{"TAPEBACK_TARGET", ""}});
  CHECK_MESSAGE(run.exited(0), run);
  run = runScenario({"every-call"}, {{"TAPEBACK_TARGET", ""}});
  CHECK_MESSAGE(run.exited(9), run);
  CHECK(run.err.find("tapeback record") != std::string::npos);
  CHECK(run.err.find("TAPEBACK_TARGET") != std::string::npos);
}

TEST_CASE("unrecorded, every call works the same") {
  RunResult run = runScenario({"every-call"}, {{"TAPEBACK_TARGET", testModelUri()}});
  CHECK_MESSAGE(run.exited(0), run);
}

TEST_CASE("devices by name, unrecorded") {
  RunResult run = runScenario({"two-devices"},
                              {{"TAPEBACK_TARGET_a", testModelUri()}, {"TAPEBACK_TARGET_b", testModelUri()}});
  CHECK_MESSAGE(run.exited(9),
                run); // It asks for the only one, which here is a missing target, not an ambiguous one.
  CHECK(run.err.find("TB_E_USAGE") != std::string::npos);
}

TEST_CASE("a ring that is gone is gone on without; one that is none is refused") {
  ScratchDirectory scratch;
  std::map<std::string, std::string> environment{{"TAPEBACK_TARGET", testModelUri()},
                                                 {"TAPEBACK_RING", scratch.file("ring")}};
  RunResult gone = runScenario({"threads", "2", "5"}, environment);
  CHECK_MESSAGE(gone.exited(0), gone);
  writeWholeFile(scratch.file("ring"), std::string(100000, 'x'));
  RunResult foreign = runScenario({"threads", "2", "5"}, environment);
  CHECK_MESSAGE(foreign.exited(9), foreign);
  CHECK(foreign.err.find("not a ring of this version") != std::string::npos);
}

TEST_CASE("a target library that is missing or another's is refused with its path") {
  RunResult missing = runScenario({"threads", "1", "1"}, {{"TAPEBACK_TARGET", testModelUri()},
                                                          {"TAPEBACK_BACKEND", "/nowhere/backend.so"}});
  CHECK_MESSAGE(missing.exited(9), missing);
  CHECK(missing.err.find("/nowhere/backend.so") != std::string::npos);
  RunResult foreign = runScenario({"threads", "1", "1"},
                                  {{"TAPEBACK_TARGET", testModelUri()}, {"TAPEBACK_BACKEND", clientLibrary}});
  CHECK_MESSAGE(foreign.exited(9), foreign);
  CHECK(foreign.err.find("not the target library") != std::string::npos);
}

TEST_CASE("QEMU's keeper does not keep a program alive whose own threads have ended, nor from its signals") {
  TB_NEED_QEMU();
  RunResult ends = runScenario({"main-ends", "0"}, {{"TAPEBACK_TARGET", "qemu:edu"}});
  CHECK_MESSAGE(ends.exited(0), ends);
  // The handler closes the device, which the keeper must live to see.
  CHECK(ends.err.find("closed at exit") != std::string::npos);
  // A signal that was waiting for somebody to take it.
  RunResult killed = runScenario({"main-ends", "2"}, {{"TAPEBACK_TARGET", "qemu:edu"}});
  CHECK_MESSAGE(killed.signal == SIGTERM, killed);
  CHECK(!killed.timedOut);
}

TEST_CASE("edu-exercise: usage, and its exit codes") {
  auto run = [](std::vector<std::string> arguments, const std::string &target) {
    arguments.insert(arguments.begin(), buildProgram("edu-exercise"));
    RunOptions options;
    options.environment["TAPEBACK_TARGET"] = target;
    options.environment["TAPEBACK_RING"] = "";
    return runProgram(arguments, options);
  };
  CHECK(run({"--help"}, "").exited(0));
  for (std::vector<std::string> bad : {std::vector<std::string>{"--seed"},
                                       {"--seed", "x"},
                                       {"--ops", "-1"},
                                       {"--only", "nonsense"},
                                       {"--nonsense", "1"},
                                       {"7"}})
    CHECK(run(bad, "model:edu").exited(2));
  RunResult good = run({"--seed", "2", "--ops", "600", "--gaps"}, "model:edu");
  CHECK_MESSAGE(good.exited(0), good);
  CHECK(good.out.find("gaps: p50 ") != std::string::npos);
  for (const char *fault : {"dma-last-byte", "factorial", "irq-sticky", "liveness"}) {
    RunResult wrong = run({"--ops", "1500"}, std::string("model:edu?fault=") + fault);
    CHECK_MESSAGE(wrong.exited(1), wrong);
    CHECK(wrong.err.find("does not hold") != std::string::npos);
  }
  CHECK(run({"--ops", "5"}, "model:/nowhere.so").exited(3));
  CHECK(run({"--ops", "5"}, "").exited(3));
}
