#include "recorder/client/Session.h"
#include "recorder/client/Array.h"
#include "recorder/client/Device.h"
#include "recorder/client/DurableLog.h"
#include "recorder/client/Gaps.h"
#include "recorder/ring/Fence.h"
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace tapeback::client {

constinit Session theSession;
constinit std::atomic<bool> isForked{false};
constinit std::atomic<bool> manyThreads{false};
// The attributes again: in a file that has this and its users, GCC forgets those of the declaration.
[[gnu::visibility("hidden"), gnu::tls_model("initial-exec")]] constinit thread_local HotThread hotThread = {
    0, false, nullptr};
static pthread_mutex_t threadsLock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t threadsInUse[65536 / 8];
static bool firstCame; ///< Some thread has registered.
static pthread_key_t threadEnd;

static void releaseThread(void *) {
  theSession.producer.threadEnds();
  unsigned number = hotThread.number - 1u;
  free(hotThread.state);
  // A later destructor of the thread that calls us begins anew, as another thread.
  hotThread = {0, false, nullptr};
  if (number == 65535 - 1)
    return; // Shared: more than one may have it.
  Locked lock(threadsLock);
  threadsInUse[number / 8] &= uint8_t(~(1u << (number % 8)));
}

void registerThread() {
  session();
  Locked lock(threadsLock);
  unsigned number = 0;
  // More threads at once than a tape can tell apart share the last number.
  while (number < 65534 && (threadsInUse[number / 8] & (1u << (number % 8))))
    ++number;
  threadsInUse[number / 8] |= uint8_t(1u << (number % 8));
  hotThread.number = uint16_t(number + 1);
  hotThread.state = static_cast<ThreadState *>(calloc(1, sizeof(ThreadState)));
  if (!firstCame) {
    firstCame = true;
    hotThread.sole = ring::membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  } else if (!manyThreads.load(std::memory_order_relaxed)) {
    manyThreads.store(true, std::memory_order_seq_cst);
    ring::membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  }
  pthread_setspecific(threadEnd, &hotThread);
}

ThreadState *thisThread() {
  if (!hotThread.number)
    registerThread();
  if (!hotThread.state)
    hotThread.state = static_cast<ThreadState *>(calloc(1, sizeof(ThreadState)));
  return hotThread.state;
}

uint64_t findRead(uint16_t device, uint64_t value) {
  const ThreadState *state = hotThread.state;
  for (unsigned back = 1; state && back <= ThreadState::recentReads; ++back) {
    const RecentRead &read = state->reads[(state->nextRead - back) % ThreadState::recentReads];
    if (read.sequence && read.device == device && read.value == value)
      return read.sequence;
  }
  return 0;
}

int fail(int status, const char *format, ...) {
  ThreadState *state = thisThread();
  if (!state)
    return status;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(state->error, sizeof(state->error), format, arguments);
  va_end(arguments);
  return status;
}

int failBackend(int status, const tapeback_backend_failure &failure) {
  int mapped = status == TAPEBACK_BACKEND_E_USAGE         ? TB_E_USAGE
               : status == TAPEBACK_BACKEND_E_UNSUPPORTED ? TB_E_UNSUPPORTED
               : status == TAPEBACK_BACKEND_E_NO_MEMORY   ? TB_E_NO_MEMORY
                                                          : TB_E_TARGET;
  return fail(mapped, "%s: %s", failure.code, failure.message);
}

static void inChild() {
  isForked.store(true, std::memory_order_relaxed);
  theSession.producer.forked();
  endShortcuts();
}

static void start() {
  pthread_key_create(&threadEnd, releaseThread);
  pthread_atfork(nullptr, nullptr, inChild);
  attachGaps();
  const char *path = secure_getenv(ring::environmentName);
  if (!path || !*path)
    return;
  theSession.ringNamed = true;
  switch (theSession.producer.attach(path)) {
  case ring::Producer::Attach::Attached:
    attachDurableLog(theSession.ringError, sizeof(theSession.ringError));
    if (theSession.ringError[0])
      theSession.ringStatus = TB_E_USAGE;
    return;
  case ring::Producer::Attach::Busy:
    theSession.ringStatus = TB_E_USAGE;
    snprintf(theSession.ringError, sizeof(theSession.ringError),
             "another process is being recorded: a recording has one process that uses the device at a time");
    return;
  case ring::Producer::Attach::Foreign:
    theSession.ringStatus = TB_E_USAGE;
    snprintf(theSession.ringError, sizeof(theSession.ringError),
             "%s is not a ring of this version: libtapeback.so (%s) and tapeback must be of one installation",
             path, TAPEBACK_VERSION);
    return;
  case ring::Producer::Attach::Failed:
    // The collector died and its ring is gone: the program goes on without.
    if (errno == ENOENT)
      return;
    theSession.ringStatus = TB_E_USAGE;
    snprintf(theSession.ringError, sizeof(theSession.ringError),
             "cannot attach to the recorder's ring %s: %s%s", path, strerror(errno),
             errno == EACCES || errno == EPERM
                 ? "; it is for processes of the user who records: open the first "
                   "device before changing user, or record as that user"
                 : "");
    return;
  }
}

Session &session() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start);
  return theSession;
}

/// While there are other threads they may be in calls, and go on until the process is gone: what they do is
/// recorded to the last, and the place is given up by the process's end.
[[gnu::destructor]] static void end() {
  if (!forked() && !manyThreads.load(std::memory_order_acquire))
    theSession.producer.detach();
}

/// DIRECTORY/tapeback/libtapeback-backend.so beside this library, or what TAPEBACK_BACKEND says.
static bool backendPath(char *out, size_t size) {
  if (const char *named = secure_getenv("TAPEBACK_BACKEND"); named && *named)
    return size_t(snprintf(out, size, "%s", named)) < size;
  Dl_info here;
  if (!dladdr(reinterpret_cast<void *>(&tb_open), &here) || !here.dli_fname)
    return false;
  char real[4096];
  if (!realpath(here.dli_fname, real))
    return false;
  char *slash = strrchr(real, '/');
  if (!slash)
    return false;
  *slash = 0;
  return size_t(snprintf(out, size, "%s/tapeback/libtapeback-backend.so", real)) < size;
}

const tapeback_backend *loadBackend() {
  static pthread_mutex_t loadLock = PTHREAD_MUTEX_INITIALIZER;
  Locked lock(loadLock);
  if (theSession.backend)
    return theSession.backend;
  char path[4200];
  if (!backendPath(path, sizeof(path))) {
    fail(TB_E_UNSUPPORTED, "cannot tell where libtapeback-backend.so lies; set TAPEBACK_BACKEND to its path");
    return nullptr;
  }
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fail(TB_E_UNSUPPORTED, "cannot load the target library: %s (set TAPEBACK_BACKEND to its path)",
         dlerror());
    return nullptr;
  }
  auto entry =
      reinterpret_cast<const tapeback_backend *(*)(uint32_t)>(dlsym(library, "tapeback_backend_entry"));
  const tapeback_backend *table = entry ? entry(TAPEBACK_BACKEND_ABI) : nullptr;
  if (!table || table->struct_size < sizeof(tapeback_backend)) {
    fail(TB_E_UNSUPPORTED, "%s is not the target library of this libtapeback.so (%s)", path,
         TAPEBACK_VERSION);
    dlclose(library);
    return nullptr;
  }
  theSession.backend = table;
  return table;
}

} // namespace tapeback::client
