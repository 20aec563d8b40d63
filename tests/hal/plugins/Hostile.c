/* A plugin that does what its option `act` says, at the worst moment. What it must not be able to do is hurt
 * the process that opened it. Knows the protocol's descriptors (3 channel, 4 memory), as a hostile plugin
 * would. */
#define _GNU_SOURCE
#include "hal/model/tapeback_model.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHANNEL = 3, MEMORY = 4 };

struct instance {
  const tapeback_model_host *host;
  char act[64];
};

static volatile int forever = 1;
static void loop(void) {
  while (forever)
    ;
}

static void crash(void) {
  volatile int *nowhere = NULL;
  *nowhere = 1;
}

static int is(const struct instance *self, const char *act) {
  return strcmp(self->act, act) == 0;
}

static int create(const tapeback_model_host *host, const tapeback_model_option *options, uint32_t count,
                  void **instance, char *error, size_t size) {
  static struct instance self;
  (void)error, (void)size;
  self.host = host;
  for (uint32_t i = 0; i < count; ++i)
    if (strcmp(options[i].key, "act") == 0)
      snprintf(self.act, sizeof self.act, "%s", options[i].value);
  if (is(&self, "exit-in-create"))
    exit(0);
  if (is(&self, "crash-in-create"))
    crash();
  if (is(&self, "loop-in-create"))
    loop();
  if (is(&self, "no-instance")) {
    *instance = NULL;
    return 0;
  }
  if (is(&self, "status-in-create"))
    return 17;
  if (is(&self, "text-in-create")) {
    memset(error, 0x1b, size); /* Not terminated, and terminal escapes. */
    return TAPEBACK_MODEL_E_INTERNAL;
  }
  *instance = &self;
  return 0;
}

static void destroy(void *instance) {
  if (is(instance, "loop-in-destroy"))
    loop();
  if (is(instance, "crash-in-destroy"))
    crash();
}

static const char *lastError(void *instance) {
  static char text[5000];
  if (is(instance, "long-error"))
    memset(text, 'e', sizeof text); /* Longer than anybody asked for, and not terminated. */
  if (is(instance, "null-error"))
    return NULL;
  if (is(instance, "escape-error"))
    return "\033[2Jhidden\nline";
  return text;
}

static int reset(void *instance, uint32_t kind) {
  (void)instance, (void)kind;
  return 0;
}

/* Something that looks like a reply, but is `size` bytes of `fill`. */
static void sendGarbage(size_t size, int fill) {
  char *bytes = malloc(size);
  memset(bytes, fill, size);
  (void)!send(CHANNEL, bytes, size, MSG_NOSIGNAL);
  free(bytes);
}

/* Holds the channel open beyond our death: the other side must not wait for its end. */
static void leaveHeir(void) {
  if (fork() == 0) {
    struct timespec time = {30, 0};
    nanosleep(&time, NULL);
    _exit(0);
  }
  crash();
}

static void *spam(void *unused) {
  (void)unused;
  while (forever)
    (void)!write(2, "spam spam spam\n", 15);
  return NULL;
}

static int act(struct instance *self, uint64_t *value) {
  const tapeback_model_host *host = self->host;
  if (is(self, "crash-in-read"))
    crash();
  if (is(self, "loop-in-read"))
    loop();
  if (is(self, "stubborn-loop")) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    loop();
  }
  if (is(self, "stop"))
    raise(SIGSTOP);
  if (is(self, "abort-with-words")) {
    fprintf(stderr, "first line\nassertion `device is happy' failed\n");
    abort();
  }
  if (is(self, "exit-in-read"))
    exit(5);
  if (is(self, "close-channel"))
    close(CHANNEL);
  if (is(self, "garbage"))
    sendGarbage(100, 0xa5);
  if (is(self, "zeros"))
    sendGarbage(32, 0);
  if (is(self, "empty"))
    sendGarbage(0, 0);
  if (is(self, "big-garbage"))
    sendGarbage(150000, 0xff);
  if (is(self, "heir"))
    leaveHeir();
  if (is(self, "interrupts"))
    for (int i = 0; i < 1000000; ++i)
      host->interrupt(host->host, (uint32_t)i % 8);
  if (is(self, "bad-vector"))
    *value = (uint64_t)(host->interrupt(host->host, 8) < 0 && host->interrupt(host->host, 0xffffffff) < 0);
  if (is(self, "positive-status"))
    return 1;
  if (is(self, "strange-status"))
    return -1001; /* The host's own numbers. */
  if (is(self, "long-error") || is(self, "null-error") || is(self, "escape-error"))
    return TAPEBACK_MODEL_E_BUS;
  if (is(self, "wide-value"))
    *value = ~UINT64_C(0);
  if (is(self, "print")) {
    for (int i = 0; i < 100000; ++i)
      printf("a line that nobody asked for, number %d\n", i);
    fflush(stdout);
  }
  if (is(self, "log"))
    for (int i = 0; i < 10000; ++i)
      host->log(host->host, i % 7 - 1, i % 2 ? "log line" : NULL);
  if (is(self, "spam")) {
    pthread_t thread;
    pthread_create(&thread, NULL, spam, NULL);
  }
  if (is(self, "truncate-memory"))
    *value = (uint64_t)(ftruncate(MEMORY, 0) != 0 && ftruncate(MEMORY, INT64_C(1) << 50) != 0 &&
                        fcntl(MEMORY, F_ADD_SEALS, F_SEAL_WRITE) != 0);
  if (is(self, "scribble")) { /* Over all of device-visible memory, mapped or not. */
    void *all = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY, 0);
    memset(all, 0x66, 1 << 20);
  }
  if (is(self, "wild-dma")) {
    char bytes[8];
    *value = (uint64_t)(host->dma_read(host->host, 0, bytes, 8) == TAPEBACK_MODEL_E_BUS &&
                        host->dma_write(host->host, ~UINT64_C(0), bytes, 8) == TAPEBACK_MODEL_E_BUS &&
                        host->dma_read(host->host, ~UINT64_C(0) - 3, bytes, ~UINT64_C(0)) ==
                            TAPEBACK_MODEL_E_BUS &&
                        host->dma_read(host->host, 0x1000000, bytes, ~UINT64_C(0)) == TAPEBACK_MODEL_E_BUS);
  }
  return 0;
}

static int readRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  (void)space, (void)width;
  *value = 0;
  return address == 0 ? act(instance, value) : 0;
}

static int writeRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t value) {
  (void)space, (void)address, (void)width, (void)value;
  return is(instance, "fail-in-write") ? TAPEBACK_MODEL_E_INTERNAL : 0;
}

static int advance(void *instance, uint64_t budget, uint64_t *advanced) {
  *advanced = budget;
  if (is(instance, "advance-too-far"))
    *advanced = budget + 1;
  if (is(instance, "advance-by-one"))
    *advanced = 1;
  if (is(instance, "advance-nothing"))
    *advanced = 0;
  if (is(instance, "loop-in-advance"))
    loop();
  return 0;
}

static int deviceTime(void *instance, uint64_t *nanoseconds) {
  (void)instance;
  *nanoseconds = 0;
  return 0;
}

static int peek(void *instance, uint32_t window, uint64_t offset, void *out, uint64_t size) {
  (void)window, (void)offset, (void)out, (void)size;
  return is(instance, "crash-in-peek") ? (crash(), 0) : 0;
}

static int peekRegister(void *instance, uint32_t space, uint64_t address, uint32_t width, uint64_t *value) {
  (void)space, (void)address, (void)width;
  *value = 42;
  return act(instance, value);
}

static int snapshotSize(void *instance, uint64_t *size) {
  *size = is(instance, "huge-snapshot") ? ~UINT64_C(0) : 16;
  if (is(instance, "empty-snapshot"))
    *size = 0;
  return 0;
}
static int snapshotSave(void *instance, void *out, uint64_t size) {
  memset(out, 1, size);
  return is(instance, "failing-save") ? TAPEBACK_MODEL_E_INTERNAL : 0;
}
static int snapshotLoad(void *instance, const void *in, uint64_t size) {
  (void)in, (void)size;
  return is(instance, "failing-load") ? TAPEBACK_MODEL_E_INTERNAL : 0;
}

static const tapeback_model_space spaces[] = {{"bar0", 4096}};
static const tapeback_model_window windows[] = {{"inside", 4096}};

static const tapeback_model table = {
    .struct_size = sizeof(tapeback_model),
    .abi_major = TAPEBACK_MODEL_ABI_MAJOR,
    .capabilities = TAPEBACK_MODEL_CAP_MEMORY | TAPEBACK_MODEL_CAP_INTERRUPTS | TAPEBACK_MODEL_CAP_SNAPSHOT |
                    TAPEBACK_MODEL_CAP_DEVICE_TIME | TAPEBACK_MODEL_CAP_PEEK |
                    TAPEBACK_MODEL_CAP_PEEK_REGISTERS,
    .interrupt_vectors = 8,
    .name = "hostile",
    .space_count = 1,
    .spaces = spaces,
    .windows = windows,
    .window_count = 1,
    .create = create,
    .destroy = destroy,
    .last_error = lastError,
    .reset = reset,
    .read = readRegister,
    .write = writeRegister,
    .advance = advance,
    .device_time = deviceTime,
    .peek = peek,
    .peek_register = peekRegister,
    .snapshot_size = snapshotSize,
    .snapshot_save = snapshotSave,
    .snapshot_load = snapshotLoad,
};

const tapeback_model *tapeback_model_entry(uint32_t hostAbiMajor) {
  return hostAbiMajor == TAPEBACK_MODEL_ABI_MAJOR ? &table : NULL;
}
