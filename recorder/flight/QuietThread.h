// A thread that takes no signals: those are for the thread that passes them on to the recorded program.
#pragma once

#include "format/Failure.h"
#include "llvm/ADT/ScopeExit.h"
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace tapeback {

/// Throws std::system_error if there is no thread to be had.
template <typename Function>
std::thread startQuietThread(Function function) {
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);                     // Not sent but met: recorder/ring/MappingGuard.h.
  pthread_sigmask(SIG_SETMASK, &all, &before); // Inherited.
  auto restore = llvm::make_scope_exit([&] { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  return std::thread(std::move(function));
}

/// What `start` starts, or a System failure: without "the thread that `does`" there is no recording.
template <typename Start>
llvm::Expected<std::thread> threadOrFailure(const char *does, Start start) {
  try {
    return start();
  } catch (const std::system_error &error) {
    return failSystem("no-thread",
                      std::string("cannot start the thread that ") + does + ": " + error.code().message(), {},
                      "let this user have more processes and threads (ulimit -u), or end some of them");
  }
}

} // namespace tapeback
