/* Programs to be recorded, each for one thing that a recorder must get right. Plain C11: the C API's header
 * must do.
 *
 * usage: recorder-scenarios SCENARIO [arguments]
 * Exits 0 if the scenario went as it should, else 9 with a message.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "recorder/tapeback.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(condition)                                                                                      \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: %s does not hold; tb_error: %s\n", __FILE__, __LINE__, #condition,             \
              tb_error());                                                                                   \
      exit(9);                                                                                               \
    }                                                                                                        \
  } while (0)

static tb_device *openOne(const char *name) {
  tb_device *device = NULL;
  int code = tb_open(name, &device);
  MUST(code == TB_OK && device);
  return device;
}

/* Each function of the C API at least once, in a known order. */
static int everyCall(void) {
  tb_device *device = openOne(NULL);
  MUST(tb_recording() == (getenv("TAPEBACK_RING") != NULL));
  MUST(tb_version()[0]);
  uint8_t byte = 0;
  uint16_t half = 0;
  uint32_t word = 0;
  uint64_t quad = 0;
  MUST(tb_mark(device, "begin") == TB_OK);
  MUST(tb_write8(device, "bar0", 0x10, 0x12) == TB_OK);
  MUST(tb_write16(device, "bar0", 0x12, 0x3456) == TB_OK);
  MUST(tb_write32(device, NULL, 0x14, 0x789abcde) == TB_OK);
  MUST(tb_write64(device, "bar0", 0x18, 0x1122334455667788) == TB_OK);
  MUST(tb_read8(device, "bar0", 0x10, &byte) == TB_OK && byte == 0x12);
  MUST(tb_read16(device, "bar0", 0x12, &half) == TB_OK && half == 0x3456);
  MUST(tb_read32(device, "bar0", 0x14, &word) == TB_OK && word == 0x789abcde);
  MUST(tb_read64(device, "bar0", 0x18, &quad) == TB_OK && quad == 0x1122334455667788);
  MUST(tb_read32(device, "bar2", 0x10, &word) == TB_OK && word == 0);
  MUST(tb_poll(device, "bar0", 0x14, 4, 0xff, 0xde, 1000000, &quad) == TB_OK && quad == 0x789abcde);
  MUST(tb_poll(device, "bar0", 0x14, 4, 0xff, 0x00, 1000000, &quad) == TB_E_TIMEOUT && quad == 0x789abcde);
  uint64_t iova = 0;
  void *pointer = NULL;
  MUST(tb_alloc(device, 8000, 0, &iova, &pointer) == TB_OK && iova % 4096 == 0);
  for (int i = 0; i < 8192; ++i)
    MUST(!pointer || ((uint8_t *)pointer)[i] == 0);
  uint8_t out[300], in[300];
  for (int i = 0; i < 300; ++i)
    in[i] = (uint8_t)(i * 7 + 1);
  MUST(tb_mem_write(device, iova + 5, in, sizeof(in)) == TB_OK);
  MUST(tb_mem_read(device, iova + 5, out, sizeof(out)) == TB_OK && !memcmp(in, out, sizeof(in)));
  MUST(tb_wait_mem(device, iova + 8, 4, 0xff, in[3], 1000000, &quad) == TB_OK);
  MUST(tb_wait_mem(device, iova + 8, 4, 0xff, 0, 1000000, NULL) == TB_E_TIMEOUT);
  MUST(tb_acquire(device, iova, 64) == TB_OK);
  MUST(tb_publish(device, iova + 100, 28) == TB_OK);
  /* A copy: 100 bytes from iova to iova + 4090, across a page. */
  MUST(tb_write64(device, "bar0", 0x300, iova + 5) == TB_OK);
  MUST(tb_write64(device, "bar0", 0x308, iova + 4090) == TB_OK);
  MUST(tb_write64(device, "bar0", 0x310, 100) == TB_OK);
  MUST(tb_write32(device, "bar0", 0x318, 1) == TB_OK);
  MUST(tb_read32(device, "bar0", 0x318, &word) == TB_OK && word == 0);
  MUST(tb_check_memory(device, "copy", iova + 4090, in, 100) == 1);
  uint64_t count = 0;
  MUST(tb_write32(device, "bar0", 0x200, 1) == TB_OK);
  MUST(tb_wait_irq(device, 0, 1000000, &count) == TB_OK && count == 1);
  MUST(tb_wait_irq(device, 0, 1000000, &count) == TB_E_TIMEOUT && count == 0);
  MUST(tb_counter(device, "reads", &quad) == TB_OK && quad == 1);
  uint64_t outer = 0, inner = 0;
  MUST(tb_span_begin(device, "outer", &outer) == TB_OK);
  MUST(tb_span_begin(device, "inner", &inner) == TB_OK);
  MUST(tb_span_end(device, inner) == TB_OK);
  MUST(tb_span_end(device, outer) == TB_OK);
  MUST(tb_read32(device, "bar0", 0x14, &word) == TB_OK);
  MUST(tb_check_equal(device, "word", 0x789abcde, word) == 1);
  MUST(tb_check(device, "yes", 1) == 1);
  MUST(tb_reset(device) == TB_OK);
  MUST(tb_read32(device, "bar0", 0x14, &word) == TB_OK && word == 0);
  MUST(tb_check_equal(device, "wrong", 0x700, word) == 0);
  MUST(tb_check(device, "no", 0) == 0);
  MUST(tb_fail(device, "gave-up") == 0);
  MUST(tb_read32(device, "bar0", 0x108, &word) == TB_E_TARGET && tb_error()[0]);
  MUST(tb_free(device, iova) == TB_OK);
  MUST(tb_close(device) == TB_OK);
  return 0;
}

/* What must be refused, and leave nothing on the tape. */
static int misuse(void) {
  tb_device *device = NULL, *second = NULL;
  uint32_t word = 0;
  uint64_t iova = 0;
  MUST(tb_open(NULL, NULL) == TB_E_USAGE);
  MUST(tb_open("nobody", &device) < 0 && !device && tb_error()[0]);
  device = openOne(NULL);
  MUST(tb_open(NULL, &second) == TB_E_USAGE && !second);
  MUST(tb_read32(NULL, "bar0", 0, &word) == TB_E_USAGE);
  MUST(tb_read32(device, "bar0", 0, NULL) == TB_E_USAGE);
  MUST(tb_read32(device, "bar7", 0, &word) == TB_E_USAGE);
  MUST(tb_poll(device, "bar0", 0, 3, 1, 1, 1, NULL) == TB_E_USAGE);
  MUST(tb_poll(device, "bar0", 0, 4, 1, 2, 1, NULL) == TB_E_USAGE);
  MUST(tb_alloc(device, 0, 0, &iova, NULL) == TB_E_USAGE);
  MUST(tb_alloc(device, 1, 3, &iova, NULL) == TB_E_USAGE);
  MUST(tb_alloc(device, 1, 0, NULL, NULL) == TB_E_USAGE);
  MUST(tb_free(device, 0x1234) == TB_E_USAGE);
  MUST(tb_mem_read(device, 0x1234, &word, 4) == TB_E_USAGE);
  MUST(tb_acquire(device, 0x1234, 4) == TB_E_USAGE);
  MUST(tb_publish(device, 0x1234, 4) == TB_E_USAGE);
  MUST(tb_check_memory(device, "x", 0x1234, &word, 4) == TB_E_USAGE);
  MUST(tb_wait_mem(device, 0x1234, 4, 1, 1, 1, NULL) == TB_E_USAGE);
  MUST(tb_mark(device, NULL) == TB_E_USAGE);
  MUST(tb_mark(device, "") == TB_E_USAGE);
  MUST(tb_mark(device, "\xff\xfe") == TB_E_USAGE);
  char longName[300];
  memset(longName, 'x', sizeof(longName) - 1);
  longName[sizeof(longName) - 1] = 0;
  MUST(tb_mark(device, longName) == TB_E_USAGE);
  MUST(tb_counter(device, "no-such-counter", &iova) == TB_E_USAGE);
  MUST(tb_close(device) == TB_OK);
  MUST(tb_read32(device, "bar0", 0, &word) == TB_E_USAGE);
  MUST(tb_close(device) == TB_E_USAGE);
  device = openOne(NULL);
  MUST(tb_close(device) == TB_OK);
  return 0;
}

/* A read that never comes back. */
static int hang(void) {
  tb_device *device = openOne(NULL);
  uint32_t word = 0;
  MUST(tb_mark(device, "before") == TB_OK);
  MUST(tb_read32(device, "bar0", 0x14, &word) == TB_OK);
  fputs("hanging\n", stderr);
  MUST(tb_read32(device, "bar0", 0x100, &word) == TB_OK);
  return 9;
}

static void work(tb_device *device, unsigned number, unsigned rounds) {
  uint64_t at = 0x10 + (number % 16) * 4;
  for (unsigned i = 0; i < rounds; ++i) {
    uint32_t word = 0;
    MUST(tb_write32(device, "bar0", at, number * 1000 + i) == TB_OK);
    MUST(tb_read32(device, "bar0", at, &word) == TB_OK);
    MUST(tb_check_equal(device, "sum", word, word) == 1);
  }
}

struct job {
  tb_device *device;
  unsigned number, rounds;
};
static void *workThread(void *argument) {
  struct job *job = argument;
  work(job->device, job->number, job->rounds);
  return NULL;
}

static int threads(unsigned count, unsigned rounds) {
  tb_device *device = openOne(NULL);
  pthread_t ids[256];
  struct job jobs[256];
  MUST(count <= 256);
  for (unsigned i = 0; i < count; ++i) {
    jobs[i] = (struct job){device, i, rounds};
    MUST(pthread_create(&ids[i], NULL, workThread, &jobs[i]) == 0);
  }
  for (unsigned i = 0; i < count; ++i)
    MUST(pthread_join(ids[i], NULL) == 0);
  MUST(tb_close(device) == TB_OK);
  return 0;
}

/* One thread waits for what another one does later. */
static atomic_int waitsDone;
/* The model's clock goes on only while somebody waits: the wait is then under way, and in the ring. */
static void untilSomebodyWaits(tb_device *device) {
  uint64_t before = 0, now = 0;
  MUST(tb_read64(device, "bar0", 0x120, &before) == TB_OK);
  do {
    MUST(tb_read64(device, "bar0", 0x120, &now) == TB_OK);
  } while (now == before);
}
static void *raiseLater(void *argument) {
  untilSomebodyWaits(argument);
  MUST(tb_write32(argument, "bar0", 0x200, 1) == TB_OK);
  while (!atomic_load(&waitsDone))
    sched_yield();
  untilSomebodyWaits(argument);
  MUST(tb_write32(argument, "bar0", 0x20, 0x55) == TB_OK);
  return NULL;
}
/* Without a deadline: it would be the model's time, which goes by while the other thread cannot run. */
static int waitForOther(void) {
  tb_device *device = openOne(NULL);
  pthread_t id;
  MUST(pthread_create(&id, NULL, raiseLater, device) == 0);
  MUST(tb_wait_irq(device, 0, UINT64_MAX, NULL) == TB_OK);
  atomic_store(&waitsDone, 1);
  MUST(tb_poll(device, "bar0", 0x20, 4, 0xff, 0x55, UINT64_MAX, NULL) == TB_OK);
  MUST(pthread_join(id, NULL) == 0);
  MUST(tb_close(device) == TB_OK);
  return 0;
}

/* The device is opened and reset by threads that end; its helper process must not. */
static void *openThread(void *argument) {
  *(tb_device **)argument = openOne(NULL);
  return NULL;
}
static int openerEnds(void) {
  tb_device *device = NULL;
  pthread_t id;
  MUST(pthread_create(&id, NULL, openThread, &device) == 0);
  MUST(pthread_join(id, NULL) == 0);
  usleep(50000);
  work(device, 1, 10);
  MUST(tb_close(device) == TB_OK);
  return 0;
}

static int forks(void) {
  tb_device *device = openOne(NULL), *other = NULL;
  work(device, 1, 10);
  pid_t child = fork();
  MUST(child >= 0);
  if (child == 0) {
    uint32_t word = 0;
    if (tb_read32(device, "bar0", 0x10, &word) != TB_E_FORKED || !strstr(tb_error(), "fork"))
      _exit(1);
    if (tb_mark(device, "child") != TB_E_FORKED || tb_close(device) != TB_E_FORKED)
      _exit(2);
    if (tb_open(NULL, &other) != TB_E_FORKED || tb_recording())
      _exit(3);
    exit(0); /* Runs the destructors. */
  }
  int status = 0;
  MUST(waitpid(child, &status, 0) == child);
  MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  work(device, 2, 10);
  MUST(tb_close(device) == TB_OK);
  return 0;
}

static void *exitThread(void *argument) {
  work(argument, 3, 50);
  exit(5);
}
static int exitFromThread(void) {
  tb_device *device = openOne(NULL);
  pthread_t id;
  MUST(pthread_create(&id, NULL, exitThread, device) == 0);
  for (;;) {
    uint32_t word = 0;
    if (tb_read32(device, "bar0", 0x10, &word) != TB_OK)
      pause();
  }
}

/* The main thread ends before another one, which then is the last. `how`: 0 it just ends; 1 by a signal to
 * the process; 2 with such a signal waiting that it does not take itself. */
static tb_device *closedAtExit;
static void closeAtExit(void) {
  MUST(tb_close(closedAtExit) == TB_OK);
  fputs("closed at exit\n", stderr);
}
/* A process's state is its main thread's. Not by pthread_join: sanitizers know of no main thread to join. */
static int mainLives(void) {
  char text[512] = "";
  FILE *file = fopen("/proc/self/stat", "r");
  MUST(file && fread(text, 1, sizeof(text) - 1, file) > 0 && fclose(file) == 0);
  const char *name = strrchr(text, ')');
  MUST(name && name[1] == ' ');
  return name[2] != 'Z';
}
static void *lastThread(void *how) {
  while (mainLives())
    sched_yield();
  for (int i = 0; i < 50; ++i)
    MUST(tb_read32(closedAtExit, "bar0", 0, &(uint32_t){0}) == TB_OK);
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  if (*(unsigned *)how == 2)
    MUST(pthread_sigmask(SIG_BLOCK, &term, NULL) == 0);
  if (*(unsigned *)how)
    MUST(kill(getpid(), SIGTERM) == 0);
  return NULL;
}
static int mainEnds(unsigned how) {
  static unsigned passed;
  passed = how;
  closedAtExit = openOne(NULL);
  MUST(atexit(closeAtExit) == 0);
  pthread_t id;
  MUST(pthread_create(&id, NULL, lastThread, &passed) == 0);
  MUST(pthread_detach(id) == 0);
  pthread_exit(NULL);
}

/* Cuts the ring's file to so many bytes, and leaves without touching it again. */
static int cutsRing(long bytes) {
  tb_device *device = openOne(NULL);
  work(device, 1, 500);
  MUST(truncate(getenv("TAPEBACK_RING"), bytes) == 0);
  _exit(0);
}

/* A user who cannot come to the ring, or root who could and must not: it is another one's. */
static int otherUser(int root) {
  tb_device *device = NULL;
  if (root)
    MUST(chown(getenv("TAPEBACK_RING"), 65534, 65534) == 0);
  else
    MUST(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
  MUST(tb_open(NULL, &device) == TB_E_USAGE && !device);
  fprintf(stderr, "%s\n", tb_error());
  return 0;
}

static int twoDevices(void) {
  tb_device *a = openOne("a"), *b = NULL;
  work(a, 1, 5);
  b = openOne("b");
  work(b, 2, 5);
  work(a, 3, 5);
  MUST(tb_open(NULL, &(tb_device *){NULL}) == TB_E_USAGE); /* Which one? */
  MUST(tb_close(a) == TB_OK);
  a = openOne("a");
  work(a, 4, 5);
  MUST(tb_close(b) == TB_OK);
  MUST(tb_close(a) == TB_OK);
  return 0;
}

/* Until killed: writes count up in each thread, and FILE says how many calls came back. */
struct counting {
  tb_device *device;
  _Atomic uint64_t *done;
  unsigned number;
};
static void *countThread(void *argument) {
  struct counting *own = argument;
  uint64_t at = 0x20 + own->number * 4;
  for (uint32_t i = 1;; ++i) {
    MUST(tb_write32(own->device, "bar0", at, i) == TB_OK);
    atomic_store(&own->done[own->number], i);
    if (i % 16 == 0)
      MUST(tb_mark(own->device, "sixteen") == TB_OK);
    if (i % 64 == 0)
      MUST(tb_poll(own->device, "bar0", at, 4, 0xffffffff, i, 1000000, NULL) == TB_OK);
  }
}
static int counting(const char *file, unsigned count) {
  FILE *shared = fopen(file, "r+");
  MUST(shared && count <= 8);
  _Atomic uint64_t *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(shared), 0);
  MUST(done != MAP_FAILED);
  fclose(shared);
  tb_device *device = openOne(NULL);
  struct counting threads[8];
  pthread_t id;
  for (unsigned i = 0; i < count; ++i) {
    threads[i] = (struct counting){device, done, i};
    if (i + 1 < count)
      MUST(pthread_create(&id, NULL, countThread, &threads[i]) == 0);
    else
      countThread(&threads[i]);
  }
  return 9;
}

/* Until killed: a bit of everything, as fast as it goes. */
static int forever(void) {
  tb_device *device = openOne(NULL);
  uint64_t iova = 0;
  MUST(tb_alloc(device, 65536, 0, &iova, NULL) == TB_OK);
  uint8_t bytes[3000];
  fputs("running\n", stderr);
  for (unsigned i = 0;; ++i) {
    uint32_t word = 0;
    memset(bytes, (int)i, sizeof(bytes));
    MUST(tb_mark(device, "round") == TB_OK);
    MUST(tb_mem_write(device, iova + i % 1000, bytes, sizeof(bytes)) == TB_OK);
    MUST(tb_write64(device, "bar0", 0x300, iova + i % 1000) == TB_OK);
    MUST(tb_write64(device, "bar0", 0x308, iova + 32768 + i % 777) == TB_OK);
    MUST(tb_write64(device, "bar0", 0x310, sizeof(bytes)) == TB_OK);
    MUST(tb_write32(device, "bar0", 0x318, 1) == TB_OK);
    MUST(tb_poll(device, "bar0", 0x318, 4, 1, 0, 1000000000, NULL) == TB_OK);
    MUST(tb_check_memory(device, "copied", iova + 32768 + i % 777, bytes, sizeof(bytes)) == 1);
    MUST(tb_read32(device, "bar0", 0x14, &word) == TB_OK);
  }
}

/* Goes on for so many rounds whatever becomes of the recorder; if told so, begins when a SIGUSR1 says so. */
static int rounds(unsigned count, unsigned waits) {
  sigset_t go;
  sigemptyset(&go);
  sigaddset(&go, SIGUSR1);
  MUST(pthread_sigmask(SIG_BLOCK, &go, NULL) == 0);
  tb_device *device = openOne(NULL);
  uint64_t iova = 0;
  MUST(tb_alloc(device, 65536, 0, &iova, NULL) == TB_OK);
  static uint8_t bytes[60000];
  fputs("running\n", stderr);
  if (waits)
    MUST(sigwait(&go, &(int){0}) == 0);
  for (unsigned i = 0; i < count; ++i) {
    for (unsigned k = 0; k < sizeof(bytes); ++k) /* Does not compress, is not seen twice. */
      bytes[k] = (uint8_t)((i * 2654435761u + k * 40503u) >> (k % 13));
    MUST(tb_mem_write(device, iova, bytes, sizeof(bytes)) == TB_OK);
    work(device, i, 3);
  }
  MUST(tb_close(device) == TB_OK);
  fputs("done\n", stderr);
  return 0;
}

/* Memory contents larger than chunk, ring and capture limit. */
static int bigMemory(void) {
  tb_device *device = openOne(NULL);
  uint64_t iova = 0;
  size_t size = (size_t)5 << 20;
  void *pointer = NULL;
  MUST(tb_alloc(device, size, 0, &iova, &pointer) == TB_OK);
  uint8_t *bytes = malloc(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = (uint8_t)(i * 31 + (i >> 8) * 17);
  MUST(tb_mem_write(device, iova, bytes, size) == TB_OK);
  MUST(tb_check_memory(device, "big", iova, bytes, size) == 1);
  free(bytes);
  MUST(tb_close(device) == TB_OK);
  return 0;
}

/* Two transfers from memory above 4 GiB, whose address is written in halves; the second one's upper half is
 * that of nothing. Between them and at the end, a read that says "done". */
static int halves(void) {
  tb_device *device = openOne(NULL);
  uint64_t iova = 0;
  void *memory = NULL;
  uint32_t done = 0;
  MUST(tb_alloc(device, 64, (size_t)1 << 33, &iova, &memory) == TB_OK && iova >> 33 && memory);
  memcpy(memory, "in the upper half of the address", 32);
  for (unsigned i = 0; i < 2; ++i) {
    MUST(tb_write32(device, "bar0", 0x10, (uint32_t)iova) == TB_OK);
    MUST(tb_write32(device, "bar0", 0x14, (uint32_t)(iova >> 32) + i) == TB_OK);
    MUST(tb_write32(device, "bar0", 0x18, 32) == TB_OK);
    MUST(tb_write32(device, "bar0", 0x1c, 1) == TB_OK);
    MUST(tb_read32(device, "bar0", 0x20, &done) == TB_OK && !done);
  }
  return tb_close(device) != TB_OK;
}

/* A program gone wrong: it writes over the ring. */
static int scribble(unsigned seed) {
  tb_device *device = openOne(NULL);
  work(device, 1, 20);
  FILE *maps = fopen("/proc/self/maps", "r");
  MUST(maps);
  char line[4096];
  unsigned long from = 0, to = 0;
  while (fgets(line, sizeof(line), maps))
    if (strstr(line, "tapeback-") && strstr(line, "/ring"))
      MUST(sscanf(line, "%lx-%lx", &from, &to) == 2);
  fclose(maps);
  MUST(from && to > from);
  srand(seed);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 50; ++i) {
      /* Half of it into the header, where the positions are. */
      unsigned long at = rand() % 2 ? (unsigned long)rand() % 4096 : (unsigned long)rand() % (to - from - 8);
      uint64_t value = (uint64_t)rand() << (rand() % 40);
      memcpy((char *)from + at, &value, 1 + (size_t)(rand() % 8));
    }
    uint32_t word = 0;
    MUST(tb_read32(device, "bar0", 0x14, &word) == TB_OK); /* Recorded or not, the device works. */
  }
  MUST(tb_close(device) == TB_OK);
  return 0;
}

/* How often SIGINT comes: once is what a user meant. */
static atomic_int interrupts;
static void countInterrupt(int signal) {
  (void)signal;
  atomic_fetch_add(&interrupts, 1);
}
static int countInterrupts(void) {
  tb_device *device = openOne(NULL);
  signal(SIGINT, countInterrupt);
  fputs("running\n", stderr);
  for (int i = 0; i < 6000 && !atomic_load(&interrupts); ++i)
    usleep(10000);
  usleep(300000); /* A second one would come now. */
  MUST(tb_close(device) == TB_OK);
  return atomic_load(&interrupts);
}

/* What daemons do. */
static int closesDescriptors(void) {
  tb_device *device = openOne(NULL);
  work(device, 1, 5);
  for (int fd = 3; fd < 64; ++fd)
    if (!getenv("KEEP_FDS"))
      (void)dup2(1, fd);
  MUST(tb_mark(device, "after") == TB_OK);
  return 0; /* The target's own descriptors are gone: nothing more is asked of it. */
}

/* Dies of a signal (of abort() if none is named) behind so many rounds. */
static int crash(int which, unsigned rounds) {
  volatile uintptr_t wild = 8; /* Volatile: or the compiler sees it coming. */
  tb_device *device = openOne(NULL);
  work(device, 1, rounds ? rounds : 5);
  MUST(tb_mark(device, "crash") == TB_OK);
  if (which == SIGSEGV) {
    signal(SIGSEGV, SIG_DFL);  /* A sanitizer would make an exit of it. */
    *(volatile int *)wild = 1; /* As a program gone wrong does it. */
  }
  if (which)
    kill(getpid(), which);
  abort();
}

/* Takes memory until there is none, and is killed for it. */
static int eat(void) {
  tb_device *device = openOne(NULL);
  work(device, 1, 50);
  MUST(tb_mark(device, "hungry") == TB_OK);
  for (;;) {
    char *bytes = malloc(1 << 20);
    MUST(bytes);
    memset(bytes, 1, 1 << 20);
  }
}

/* Marks and doorbells to start and stop at. */
static int stages(void) {
  tb_device *device = openOne(NULL);
  uint64_t iova = 0;
  MUST(tb_alloc(device, 8192, 0, &iova, NULL) == TB_OK);
  for (unsigned i = 0; i < 5; ++i) {
    char bytes[100];
    memset(bytes, 'a' + (int)i, sizeof(bytes));
    MUST(tb_mark(device, "stage") == TB_OK);
    MUST(tb_mem_write(device, iova, bytes, sizeof(bytes)) == TB_OK);
    MUST(tb_write64(device, "bar0", 0x300, iova) == TB_OK);
    MUST(tb_write64(device, "bar0", 0x308, iova + 4096) == TB_OK);
    MUST(tb_write64(device, "bar0", 0x310, 10 + i) == TB_OK);
    MUST(tb_write32(device, "bar0", 0x318, 1) == TB_OK);
    MUST(tb_poll(device, "bar0", 0x318, 4, 1, 0, 1000000000, NULL) == TB_OK);
    MUST(tb_check_memory(device, "stage", iova + 4096, bytes, 10 + i) == 1);
    MUST(tb_write32(device, "bar0", 0x10, i) == TB_OK);
  }
  MUST(tb_close(device) == TB_OK);
  return 0;
}

/* Stores through pointers of which nobody tells: three rounds in which page 3 is copied to page 9, and once
 * nothing new is stored. The other argument: a thread that stores to page 20 all the time. */
static atomic_bool storingOver;
static void *storing(void *page) {
  while (!atomic_load(&storingOver))
    ++*(volatile unsigned *)page;
  return NULL;
}
static int tracked(unsigned withThread) {
  tb_device *device = openOne(NULL);
  uint64_t iova = 0;
  void *pointer = NULL;
  MUST(tb_alloc(device, 32 * 4096, 0, &iova, &pointer) == TB_OK && pointer);
  unsigned char *memory = pointer;
  pthread_t thread;
  if (withThread)
    MUST(pthread_create(&thread, NULL, storing, memory + 20 * 4096) == 0);
  for (int round = 0; round < 3; ++round) {
    MUST(tb_mark(device, "round") == TB_OK);
    if (round != 1) {
      memset(memory + 3 * 4096, 'a' + round, 100);
      memory[5 * 4096 + 7] = (unsigned char)(round + 1);
    }
    MUST(tb_write64(device, "bar0", 0x300, iova + 3 * 4096) == TB_OK);
    MUST(tb_write64(device, "bar0", 0x308, iova + 9 * 4096) == TB_OK);
    MUST(tb_write64(device, "bar0", 0x310, 100) == TB_OK);
    MUST(tb_write32(device, "bar0", 0x318, 1) == TB_OK);
    MUST(tb_check_memory(device, "copy", iova + 9 * 4096, memory + 3 * 4096, 100) == 1);
  }
  if (withThread) {
    atomic_store(&storingOver, 1);
    MUST(pthread_join(thread, NULL) == 0);
  }
  MUST(tb_free(device, iova) == TB_OK);
  MUST(tb_close(device) == TB_OK);
  return 0;
}

/* Makes a call, waits until FILE is there, and makes so many calls more, of which closing is none. */
static int whenThere(const char *file, unsigned calls) {
  tb_device *device = openOne(NULL);
  MUST(tb_mark(device, "ask") == TB_OK);
  while (access(file, F_OK) != 0)
    usleep(1000);
  for (unsigned i = 0; i < calls; ++i)
    MUST(tb_read32(device, "bar0", 0x0, &(uint32_t){0}) == TB_OK);
  _exit(0);
}

int main(int argc, char **argv) {
  const char *scenario = argc > 1 ? argv[1] : "";
  unsigned first = argc > 2 ? (unsigned)atoi(argv[2]) : 0, second = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
  if (!strcmp(scenario, "every-call"))
    return everyCall();
  if (!strcmp(scenario, "when-there"))
    return whenThere(argc > 2 ? argv[2] : "", second);
  if (!strcmp(scenario, "misuse"))
    return misuse();
  if (!strcmp(scenario, "hang"))
    return hang();
  if (!strcmp(scenario, "threads"))
    return threads(first, second);
  if (!strcmp(scenario, "wait-for-other"))
    return waitForOther();
  if (!strcmp(scenario, "opener-ends"))
    return openerEnds();
  if (!strcmp(scenario, "fork"))
    return forks();
  if (!strcmp(scenario, "exit-from-thread"))
    return exitFromThread();
  if (!strcmp(scenario, "main-ends"))
    return mainEnds(first);
  if (!strcmp(scenario, "cuts-ring"))
    return cutsRing((long)first);
  if (!strcmp(scenario, "other-user"))
    return otherUser((int)first);
  if (!strcmp(scenario, "two-devices"))
    return twoDevices();
  if (!strcmp(scenario, "counting"))
    return argc > 3 ? counting(argv[2], second) : 2;
  if (!strcmp(scenario, "forever"))
    return forever();
  if (!strcmp(scenario, "rounds"))
    return rounds(first, second);
  if (!strcmp(scenario, "big-memory"))
    return bigMemory();
  if (!strcmp(scenario, "halves"))
    return halves();
  if (!strcmp(scenario, "scribble"))
    return scribble(first);
  if (!strcmp(scenario, "closes-descriptors"))
    return closesDescriptors();
  if (!strcmp(scenario, "count-interrupts"))
    return countInterrupts();
  if (!strcmp(scenario, "eat"))
    return eat();
  if (!strcmp(scenario, "crash"))
    return crash((int)first, second);
  if (!strcmp(scenario, "stages"))
    return stages();
  if (!strcmp(scenario, "tracked"))
    return tracked(first);
  if (!strcmp(scenario, "opens-nothing"))
    return tb_recording() == 1 ? 0 : 9;
  if (!strcmp(scenario, "exit"))
    return (int)first;
  if (!strcmp(scenario, "no-target"))
    return tb_open(NULL, &(tb_device *){NULL}) == TB_E_NO_TARGET ? 0 : 9;
  fprintf(stderr, "unknown scenario '%s'\n", scenario);
  return 2;
}
