// A thread that takes no signals: those are for the thread that passes them on to the recorded program.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace tapeback {

template <typename Function>
std::thread startQuietThread(Function function) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // Inherited.
  std::thread thread(std::move(function));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

} // namespace tapeback
