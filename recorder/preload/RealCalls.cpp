#include "recorder/preload/RealCalls.h"
#include <dlfcn.h>
#include <pthread.h>

namespace tapeback::preload {

static RealCalls calls;

template <typename Function>
static void find(Function &function, const char *name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

static void findAll() {
  find(calls.open, "open");
  find(calls.openat, "openat");
  find(calls.close, "close");
  find(calls.ioctl, "ioctl");
  find(calls.fcntl, "fcntl");
  find(calls.dup, "dup");
  find(calls.dup2, "dup2");
  find(calls.dup3, "dup3");
  find(calls.read, "read");
  find(calls.pread, "pread");
  find(calls.pwrite, "pwrite");
  find(calls.mmap, "mmap");
}

const RealCalls &real() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, findAll);
  return calls;
}

} // namespace tapeback::preload
