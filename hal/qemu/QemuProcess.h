// One QEMU process: started with nothing it does not need, watched, and gone when we are.
//
// A thread of its own (the keeper) forks the process, gathers its last words and collects its fate. It lives
// exactly as long as the process does, because PR_SET_PDEATHSIG follows the *thread* that forked: were it the
// caller's, QEMU would die with any short-lived thread that opened the target. When this process dies, by
// SIGKILL or by exec, the keeper dies with it, and the kernel kills QEMU. A program whose own threads have
// all ended is ended by it (HelperThread).
#pragma once

#include "hal/FileDescriptor.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

struct QemuLaunch {
  std::string program;                ///< Absolute path.
  std::vector<std::string> arguments; ///< Without the program's name.
  /// Become descriptors 3, 4, … of the new process; it gets no others. They stay the caller's.
  std::vector<int> descriptors;
};

/// For -sandbox: it may not start anything, nor get more rights.
constexpr const char *qemuSandbox = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// Owns the process: the destructor kills it and waits for its end. Used by one thread at a time. Failures of
/// start: Target "target-died" if it cannot be executed, System if this machine cannot make a process. The
/// process does not send us SIGCHLD and is not seen by a waitpid(-1) of the program we are part of.
class QemuProcess {
public:
  static llvm::Expected<std::unique_ptr<QemuProcess>> start(const QemuLaunch &launch);
  /// With one end of a new socket as descriptor 3, before those of `launch`; `socket` gets the other.
  static llvm::Expected<std::unique_ptr<QemuProcess>> startOnSocket(QemuLaunch launch,
                                                                    FileDescriptor &socket);
  ~QemuProcess();
  QemuProcess(const QemuProcess &) = delete;
  QemuProcess &operator=(const QemuProcess &) = delete;

  /// Waits at most `nanoseconds` for its end; true if it has ended.
  bool waitEnd(uint64_t nanoseconds);
  bool ended() { return waitEnd(0); }
  void kill();

  /// How it ended; nothing while it runs, or if this program did not let us see.
  struct End {
    int signal = 0, exitCode = 0; ///< One of them is not zero, unless it ended of its own will.
  };
  std::optional<End> end();
  /// True if none of its threads is at work or could be: all sleep.
  bool sleeps();

  /// "exited with code 1", "was killed by signal 6 (Aborted)", "is still running".
  std::string fate();
  /// The tail of its standard output and error; complete once it has ended.
  std::string output();

private:
  struct Keeper;
  explicit QemuProcess(std::shared_ptr<Keeper> keeper);
  std::shared_ptr<Keeper> keeper;
};

} // namespace tapeback
