// Runs a program as a user would and says everything that came of it: for black-box tests.
//
//   RunResult r = runProgram({tapebackProgram(), "info", "--json", path});
//   CHECK(r.exit == 0);
//
// Every program runs in its own process group, which is killed when the program ends or its time is over, so
// that a test leaves nothing behind. Standard input is empty unless given. Nothing is interpreted by a shell.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace tapeback::test {

struct RunOptions {
  std::chrono::milliseconds timeout{60000};
  std::map<std::string, std::string> environment; ///< Added to (or replacing in) ours; an empty value unsets.
  std::string directory;                          ///< Working directory; empty: ours.
  std::string input;                              ///< Standard input.
  /// Where standard output goes instead of into RunResult::out: a path ("/dev/full"), or "closed", or
  /// "broken-pipe" (a pipe that nobody reads). Empty: captured.
  std::string outputTo;
  bool keepGroup = false;            ///< Do not kill what the program left running.
  size_t maxOutputBytes = 64u << 20; ///< More than this ends the program; see RunResult::tooMuch.
};

struct RunResult {
  int exit = -1;  ///< Exit code; -1 if it was ended by a signal or could not be started.
  int signal = 0; ///< What ended it; 0 if it exited.
  bool timedOut = false;
  bool tooMuch = false;   ///< It wrote more than maxOutputBytes.
  bool sanitizer = false; ///< It exited 86: a sanitizer found a fault. Never an expected result.
  std::string out, err;
  std::chrono::milliseconds elapsed{0};
  uint64_t maxResidentBytes = 0; ///< At its largest, or the largest of the children it waited for.
  std::string command;           ///< As a shell would take it, to do it again by hand.

  /// Exited by itself with that code and without a sanitizer's fault.
  bool exited(int code) const { return exit == code && !signal && !timedOut && !sanitizer; }
};
std::ostream &operator<<(std::ostream &os, const RunResult &result);

RunResult runProgram(const std::vector<std::string> &command, const RunOptions &options = {});

/// Programs of this build: "BUILD/bin/NAME".
std::string buildProgram(const std::string &name);
inline std::string tapebackProgram() {
  return buildProgram("tapeback");
}

/// A directory of its own under the system's temporary directory, removed with all it holds.
class ScratchDirectory {
public:
  ScratchDirectory();
  ScratchDirectory(const ScratchDirectory &) = delete;
  ScratchDirectory &operator=(const ScratchDirectory &) = delete;
  ~ScratchDirectory();

  const std::string &path() const { return directory; }
  std::string file(const std::string &name) const { return directory + "/" + name; }
  /// Names in it, sorted: to see that nothing half-written was left.
  std::vector<std::string> names() const;

private:
  std::string directory;
};

/// Whole files, for tests; a failure throws std::runtime_error (the test fails with it).
std::string readWholeFile(const std::string &path);
void writeWholeFile(const std::string &path, const std::string &content);

} // namespace tapeback::test
