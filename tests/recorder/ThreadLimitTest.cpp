// A recorder whose user may have no more threads: before the program is launched that is an error, and
// afterwards no reason to stop.
#include "tests/recorder/Recording.h"
#include "tests/support/Skip.h"
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// What runs a command as a user who has no other process, and may have `most` of them and of threads.
std::vector<std::string> withProcesses(unsigned most, const std::vector<std::string> &command) {
  // Root is held to no limit; others have processes already, which a namespace of users does not count.
  std::string id = std::to_string(1'800'000'000 + getpid());
  std::vector<std::string> all =
      geteuid() == 0 ? std::vector<std::string>{"/usr/bin/env", "setpriv", "--reuid",       id,
                                                "--regid",      id,        "--clear-groups"}
                     : std::vector<std::string>{"/usr/bin/env", "unshare", "--user"};
  all.insert(all.end(), {"prlimit", "--nproc=" + std::to_string(most)});
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

/// Empty if such a user can be had here.
std::string whyNotHere() {
  if (!runProgram(withProcesses(64, {tapebackProgram(), "targets", "--help"})).exited(0))
    return "no user without processes is to be had here, or it may not run what was built";
  if (runProgram(withProcesses(1, {"/bin/sh", "-c", "sh -c : & wait"})).exited(0))
    return "users are not held to a number of processes here";
  return "";
}

/// Where any user may write. Not under TMPDIR, which may be one user's alone.
struct CommonFolder {
  CommonFolder() {
    REQUIRE(mkdtemp(path.data()));
    REQUIRE(mkdir(file("rings").c_str(), 0700) == 0);
    for (const std::string &folder : {path, file("rings")})
      REQUIRE(chmod(folder.c_str(), 0777) == 0);
  }
  ~CommonFolder() {
    std::error_code ignored; // The system's temporary files are cleaned by others, too.
    std::filesystem::remove_all(path, ignored);
  }
  std::string file(const std::string &name) const { return path + "/" + name; }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto &entry : std::filesystem::directory_iterator(path))
      found.insert(entry.path().filename());
    return found;
  }
  std::string path = "/tmp/tapeback-test-XXXXXX";
};

struct Limited {
  Limited(unsigned most, const std::vector<std::string> &options) {
    std::vector<std::string> command{tapebackProgram(),     "record", "--json", "--target", "null:", "-o",
                                     scratch.file("a.tape")};
    command.insert(command.end(), options.begin(), options.end());
    // More than one block of contents: the writer wants a thread for them.
    command.insert(command.end(), {"--", "/bin/sh", "-c", ": > \"$1\"; exec \"$0\" rounds 60 0",
                                   scenarioProgram(), scratch.file("launched")});
    RunOptions surroundings;
    surroundings.environment["TAPEBACK_RING_DIRECTORY"] = scratch.file("rings");
    // Who looks for leaks does so in a process more.
    const char *asan = std::getenv("ASAN_OPTIONS");
    surroundings.environment["ASAN_OPTIONS"] = std::string(asan ? asan : "") + ":detect_leaks=0";
    run = runProgram(withProcesses(most, command), surroundings);
  }
  bool launched() const { return std::filesystem::exists(scratch.file("launched")); }

  CommonFolder scratch;
  RunResult run;
};

} // namespace

TEST_CASE("where no thread is to be had, nothing is launched and nothing stays behind") {
  if (std::string why = whyNotHere(); !why.empty())
    TB_SKIP(why);
  for (bool flight : {false, true}) {
    CAPTURE(flight);
    unsigned refused = 0;
    bool whole = false;
    for (unsigned most = 1; most <= 12 && !whole; ++most) {
      CAPTURE(most);
      Limited limited(most, flight ? std::vector<std::string>{"--flight", "100p", "--at-end", "always"}
                                   : std::vector<std::string>());
      CHECK(std::filesystem::is_empty(limited.scratch.file("rings")));
      if (limited.launched()) {
        // With the very number that is needed: the writer's second thread is not to be had.
        REQUIRE_MESSAGE(limited.run.exited(0), limited.run);
        WholeTape tape(limited.scratch.file("a.tape"));
        CHECK_MESSAGE(tape.error.empty(), tape.error);
        CHECK(tape.packets.size() > 60);
        CHECK(limited.scratch.names() == std::set<std::string>{"a.tape", "launched", "rings"});
        whole = true;
        continue;
      }
      ++refused;
      CHECK_MESSAGE(limited.run.exited(5), limited.run);
      const llvm::json::Object object = jsonOf(limited.run);
      const llvm::json::Object *error = object.getObject("error");
      REQUIRE_MESSAGE(error, limited.run);
      llvm::StringRef code = error->getString("code").value_or("");
      CHECK_MESSAGE((code == "no-thread" || code == "cannot-run"), limited.run);
      CHECK_MESSAGE(error->getString("message").value_or("").contains("Resource temporarily unavailable"),
                    limited.run);
      CHECK(limited.scratch.names() == std::set<std::string>{"rings"});
    }
    CHECK(refused >= 2); // Without the thread that waits, and without the program.
    CHECK(whole);
  }
}
