#include "recorder/client/Session.h"
#include "recorder/client/Array.h"
#include "recorder/client/Gaps.h"
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace tapeback::client {

constinit Session theSession;
static std::atomic<bool> isForked{false};
static pthread_mutex_t threadsLock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t threadsInUse[65536 / 8];
static pthread_key_t threadEnd;
static thread_local constinit ThreadState threadState;

static void releaseThread(void *value) {
  unsigned number = unsigned(reinterpret_cast<uintptr_t>(value)) - 1;
  Locked lock(threadsLock);
  threadsInUse[number / 8] &= uint8_t(~(1u << (number % 8)));
}

ThreadState &thisThread() {
  return threadState;
}

uint16_t threadNumber() {
  if (threadState.number)
    return uint16_t(threadState.number - 1);
  Locked lock(threadsLock);
  for (unsigned number = 0; number < 65535; ++number) {
    if (threadsInUse[number / 8] & (1u << (number % 8)))
      continue;
    threadsInUse[number / 8] |= uint8_t(1u << (number % 8));
    threadState.number = uint16_t(number + 1);
    // The key holds a number, never a pointer that is followed. NOLINTNEXTLINE(performance-no-int-to-ptr)
    pthread_setspecific(threadEnd, reinterpret_cast<void *>(uintptr_t(number + 1)));
    return uint16_t(number);
  }
  return 65535; // More threads at once than a tape can tell apart share the last number.
}

void rememberRead(uint16_t device, uint64_t sequence, uint64_t value) {
  threadState.reads[threadState.nextRead++ % ThreadState::recentReads] = {sequence, value, device};
}

uint64_t findRead(uint16_t device, uint64_t value) {
  for (unsigned back = 1; back <= ThreadState::recentReads; ++back) {
    const RecentRead &read = threadState.reads[(threadState.nextRead - back) % ThreadState::recentReads];
    if (read.sequence && read.device == device && read.value == value)
      return read.sequence;
  }
  return 0;
}

int fail(int status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(threadState.error, sizeof(threadState.error), format, arguments);
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

bool forked() {
  return isForked.load(std::memory_order_relaxed);
}

static void inChild() {
  isForked.store(true, std::memory_order_relaxed);
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
  case ring::Producer::Attach::Attached: return;
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
             "cannot attach to the recorder's ring %s: %s", path, strerror(errno));
    return;
  }
}

Session &session() {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, start);
  return theSession;
}

[[gnu::destructor]] static void end() {
  if (!forked())
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
