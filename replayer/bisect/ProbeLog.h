// What the passes and probes of a bisection showed, in a file: one that was interrupted goes on where it was.
//
// JSON, one object a line; the first says what it is about. Lines are appended as results come; a last line
// that was cut off is taken away. The file is untrusted: bounded, and checked as it is read.
#pragma once

#include "replayer/Divergence.h"
#include "replayer/bisect/Bisect.h"
#include "llvm/Support/JSON.h"
#include <deque>

namespace tapeback {

struct LoggedProbe {
  bool differs = false;
  std::optional<StateDifference> difference; ///< Nothing although it differs: an endpoint failed on the way.
};

struct LoggedPass {
  BisectRun run;
  std::optional<Divergence> divergence;         ///< Without place's marker and command, and without the wait.
  bool goodDiffers = false, badDiffers = false; ///< From the first pass.
};

/// One file. One thread. Results of one kind at one place are handed out in the order in which they came.
class ProbeLog {
public:
  /// Opens a file, or makes one that only its owner can read. `about`: whatever the results depend on. Usage
  /// failures: "other-state" if the file is about something else, "bad-state" if it is none; either is left
  /// as it was.
  static llvm::Expected<std::unique_ptr<ProbeLog>> open(llvm::StringRef path, llvm::StringRef about);
  ~ProbeLog();

  /// What the next such probe or pass showed when it was made; nothing: it was not.
  std::optional<LoggedProbe> probe(uint64_t end, unsigned parts);
  std::optional<LoggedPass> pass();
  /// Appends, and returns once it is with the system.
  llvm::Error add(uint64_t end, unsigned parts, const LoggedProbe &probe);
  llvm::Error add(const LoggedPass &pass);

  uint64_t used() const { return usedCount; } ///< Results that were not made again.

private:
  ProbeLog(std::string path, int fd) : path(std::move(path)), fd(fd) {}
  llvm::Error read(llvm::StringRef text, llvm::StringRef about);
  llvm::Error append(llvm::StringRef line);

  std::string path;
  int fd;
  std::map<std::pair<uint64_t, unsigned>, std::deque<LoggedProbe>> probes;
  std::deque<LoggedPass> passes;
  uint64_t usedCount = 0;
};

} // namespace tapeback
