// A child process on the other end of a channel: started, watched, listened to, ended.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <sys/types.h>

namespace tapeback {

/// Owns the child, the channel's end, and the pipe that its standard output and error go to. Ends the child
/// when destroyed: closes the channel, gives it `graceMs` to leave, then kills it. After fork() the copy in
/// the child process closes its descriptors and touches nothing else. Not thread-safe; may be started from a
/// process with many threads.
class HostProcess {
public:
  HostProcess() = default;
  HostProcess(const HostProcess &) = delete;
  HostProcess &operator=(const HostProcess &) = delete;
  ~HostProcess();

  /// Starts `program` with our process id as its argument; descriptors 3 the channel and 4 `memory`, nothing
  /// else open.
  llvm::Error start(const std::string &program, int memory);

  int channel() const { return channelEnd; }

  enum class Event { Message, Death, Timeout };
  /// Waits until the channel has something to read, the child is gone, or `deadlineNs` (CLOCK_MONOTONIC)
  /// passed. Keeps what the child prints meanwhile.
  Event wait(uint64_t deadlineNs);

  /// Kills the child if it lives, reaps it, and says how it ended: "was killed by signal 9 (Killed)".
  std::string finish();

  /// The end of what the child printed, as one printable line; empty if nothing.
  std::string lastWords() const;

  pid_t id() const { return child; }
  static uint64_t nowNs();

private:
  void drainOutput();
  void closeAll();
  bool reap(bool block, int *status);

  pid_t child = -1, owner = -1;
  int channelEnd = -1, output = -1, handle = -1;
  std::string tail;
  std::string fate; ///< Set when reaped.
};

} // namespace tapeback
