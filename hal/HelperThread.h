// A thread of ours in a program that is not: it takes none of the program's signals, and the program ends
// without it.
//
// A process ends when the last of its threads does; a helper that waits for QEMU or a device would be that
// thread, and wait for ever in a program whose main thread called pthread_exit(). Nothing tells a thread of
// another one's end, so the helper looks for itself, between what it waits for.
#pragma once

#include <csignal>
#include <pthread.h>

namespace tapeback {

class HelperThread {
public:
  /// The longest that a helper waits for anything before it looks again.
  static constexpr int lookMs = 200;

  /// Any thread of the program. 0, or an errno. The thread is joinable, and blocks all signals.
  int start(pthread_t &thread, void *(*run)(void *), void *argument);
  /// Called by the helper itself, again and again. When only helpers are left, ends the process as the C
  /// library does after the last thread: exit(0), on a thread of its own that takes signals as the starter
  /// did, while the helper serves what exit handlers ask of it.
  void look();

private:
  sigset_t starters{};
  bool wasAlone = false, ending = false;
};

} // namespace tapeback
