// tapeback-model-host: the process in which one model plugin lives. Started by the model target, never by
// hand.
//
// It dies with its parent: by the end of the channel when it waits for a request, and by a signal when a
// plugin loops.
#include "hal/model/host/Session.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

pid_t parent;

// PR_SET_PDEATHSIG fires when the *thread* that started us ends; only if the process is gone too are we
// orphans.
void onParentThreadEnd(int) {
  if (getppid() != parent)
    _exit(0);
}

// Too big for the stack of a small thread limit, and there is exactly one.
tapeback::modelhost::Session session;

} // namespace

int main(int argc, char **argv) {
  char *end = nullptr;
  long expected = argc == 2 ? strtol(argv[1], &end, 10) : 0;
  if (expected <= 0 || *end) {
    fputs("tapeback-model-host is started by Tapeback itself; name a model as a target: model:edu\n", stderr);
    return 2;
  }
  parent = pid_t(expected);
  struct sigaction action = {};
  action.sa_handler = onParentThreadEnd;
  action.sa_flags = SA_RESTART;
  sigaction(SIGHUP, &action, nullptr);
  if (prctl(PR_SET_PDEATHSIG, SIGHUP) != 0 || getppid() != parent)
    return 1; // The parent died before we asked to be told.
  int code = session.run();
  // Not exit(): a plugin's own exit handlers and leak checkers have no say in how we end.
  fflush(nullptr);
  _exit(code);
}
