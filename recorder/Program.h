// The recorded program as a child process: started, signalled, and waited for.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tapeback {

/// Where the program's standard output goes: where ours does, where its standard error does, or nowhere.
enum class ProgramOutput : uint8_t { Inherit, ToErrors, Discard };

struct ProgramEnd {
  std::optional<int> exit, signal;
};

/// Owns the child. While one exists, SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGCHLD are blocked in the calling
/// thread and in threads it starts, and taken by a thread of this object: those that were sent to us alone
/// are passed on to the program (what a terminal sends reaches it anyway), so that the tape can be closed
/// properly after it ended. One at a time per process. The program keeps running if this object is destroyed
/// before its end.
class Program {
public:
  /// `environment`: "NAME=value", added to or replacing ours. `onEnd` is called once, on another thread. A
  /// program that cannot be run is a Usage failure, one for which the system has no room a System failure;
  /// nothing was started then.
  static llvm::Expected<std::unique_ptr<Program>> start(const std::vector<std::string> &command,
                                                        const std::vector<std::string> &environment,
                                                        ProgramOutput output, std::function<void()> onEnd);
  ~Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// True once it has ended; end() is then valid.
  bool ended() const { return hasEnded.load(std::memory_order_acquire); }
  const ProgramEnd &end() const { return theEnd; }
  int pid() const { return child.load(std::memory_order_relaxed); }

private:
  Program() = default;
  void wait();

  std::atomic<int> child = 0; ///< Its process; 0: not started yet, -1: it will not be.
  std::function<void()> onEnd;
  std::thread waiter;
  std::atomic<bool> hasEnded{false}, quit{false};
  ProgramEnd theEnd;
  std::unique_ptr<struct SavedSignals> saved;
};

} // namespace tapeback
