/* Programs that drive Minnow's queues, each for one thing that a recorder must get right. Plain C11.
 *
 * usage: recorder-queues SCENARIO
 * Exits 0 if the scenario went as it should, else 9 with a message.
 */
#include "hal/minnow/driver/Commands.h"
#include "recorder/tapeback.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(condition)                                                                                      \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%s:%d: %s does not hold; tb_error: %s\n", __FILE__, __LINE__, #condition,             \
              tb_error());                                                                                   \
      exit(9);                                                                                               \
    }                                                                                                        \
  } while (0)

enum { ringEntries = 16 };
static const uint64_t patience = 1000000000;

static tb_device *device;
static uint64_t memory; /* 64 KiB: what the scenarios move. */
static uint8_t *bytes;
static uint64_t rings[2];
static minnow_command *entries[2];
static unsigned tails[2];
static uint64_t fence; /* One word for each queue, and its value so far. */
static uint64_t fenceValue[2];

static void put(uint32_t offset, uint32_t value) {
  MUST(tb_write32(device, "bar0", offset, value) == TB_OK);
}
static uint32_t get(uint32_t offset) {
  uint32_t value = 0;
  MUST(tb_read32(device, "bar0", offset, &value) == TB_OK);
  return value;
}
static uint32_t reg(unsigned queue, uint32_t offset) {
  return MINNOW_QUEUE + MINNOW_QUEUE_STRIDE * queue + offset;
}

static void setUpQueue(unsigned queue) {
  put(reg(queue, MINNOW_Q_BASE_LO), (uint32_t)rings[queue]);
  put(reg(queue, MINNOW_Q_BASE_HI), (uint32_t)(rings[queue] >> 32));
  put(reg(queue, MINNOW_Q_SIZE), ringEntries);
  tails[queue] = 0;
}

static void begin(void) {
  MUST(tb_open(NULL, &device) == TB_OK);
  void *pointer = NULL;
  MUST(tb_alloc(device, 65536, 0, &memory, &pointer) == TB_OK && pointer);
  bytes = pointer;
  MUST(tb_alloc(device, 4096, 0, &fence, &pointer) == TB_OK);
  for (unsigned queue = 0; queue < 2; ++queue) {
    MUST(tb_alloc(device, ringEntries * sizeof(minnow_command), 0, &rings[queue], &pointer) == TB_OK);
    entries[queue] = pointer;
    setUpQueue(queue);
  }
  put(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
}

static void push(unsigned queue, minnow_command command) {
  entries[queue][tails[queue]] = command;
  tails[queue] = (tails[queue] + 1) % ringEntries;
}
static void ring(unsigned queue) {
  put(reg(queue, MINNOW_Q_DOORBELL), tails[queue]);
}
static void pushFence(unsigned queue) {
  push(queue, minnow_fence(fence + 8 * queue, ++fenceValue[queue], 0));
}
static void await(unsigned queue) {
  uint64_t seen = 0;
  MUST(tb_wait_mem(device, fence + 8 * queue, 8, ~UINT64_C(0), fenceValue[queue], patience, &seen) == TB_OK);
}
static void finish(unsigned queue) {
  pushFence(queue);
  ring(queue);
  await(queue);
}
static void awaitIdle(void) {
  uint64_t status = 0;
  MUST(tb_poll(device, "bar0", MINNOW_STATUS, 4, MINNOW_STATUS_RESETTING | MINNOW_STATUS_IDLE,
               MINNOW_STATUS_IDLE, patience, &status) == TB_OK);
}

static void fill(uint64_t offset, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; ++i)
    bytes[offset + i] = (uint8_t)(seed + i * 7);
}

/* Rows into the scratchpad and back, the second time without touching them in between. */
static void rows(void) {
  fill(0, 1024, 1);
  for (unsigned time = 0; time < 2; ++time) {
    MUST(tb_mark(device, time ? "again" : "first") == TB_OK);
    push(0, minnow_dma(MINNOW_DMA_LOAD, memory, 0, 64, 4, 256, 64));
    push(0, minnow_dma(MINNOW_DMA_STORE, memory + 4096, 0, 256, 1, 0, 0));
    finish(0);
    for (unsigned row = 0; row < 4; ++row)
      MUST(memcmp(bytes + 4096 + 64 * row, bytes + 256 * row, 64) == 0);
    MUST(tb_acquire(device, memory + 4096, 256) == TB_OK);
  }
  MUST(tb_mark(device, "changed") == TB_OK);
  bytes[256] ^= 0xff; /* In a row. */
  bytes[100] ^= 0xff; /* In a gap. */
  push(0, minnow_dma(MINNOW_DMA_LOAD, memory, 0, 64, 4, 256, 64));
  finish(0);
  awaitIdle();
}

/* What the device is yet to write is not captured: it reads back what it stores itself. */
static void owned(void) {
  fill(0, 128, 3);
  push(0, minnow_dma(MINNOW_DMA_LOAD, memory, 0, 128, 1, 0, 0));
  push(0, minnow_dma(MINNOW_DMA_STORE, memory + 8192, 0, 64, 1, 0, 0));
  /* Half of it the device's own, half the host's. */
  fill(8192 + 64, 64, 9);
  push(0, minnow_dma(MINNOW_DMA_LOAD, memory + 8192, 1024, 128, 1, 0, 0));
  push(0, minnow_dma(MINNOW_DMA_STORE, memory + 8192, 64, 64, 1, 0, 0));
  finish(0);
  MUST(memcmp(bytes + 8192, bytes + 64, 64) == 0);
  awaitIdle();
}

/* Descriptors in host memory; the last of them stores. */
static void chain(void) {
  minnow_descriptor *list = (minnow_descriptor *)(void *)(bytes + 16384);
  fill(0, 512, 5);
  list[0] = minnow_make_descriptor(memory, 0, 64, 2, 128, 64, 0, memory + 16384 + 128);
  list[2] = minnow_make_descriptor(memory + 256, 128, 64, 1, 0, 0, 0, memory + 16384 + 64);
  list[1] = minnow_make_descriptor(memory + 12288, 0, 192, 1, 0, 0,
                                   MINNOW_DESCRIPTOR_STORE | MINNOW_DESCRIPTOR_LAST, 0);
  push(1, minnow_dma_chain(memory + 16384));
  finish(1);
  MUST(memcmp(bytes + 12288, bytes, 64) == 0 && memcmp(bytes + 12288 + 64, bytes + 128, 64) == 0);
  awaitIdle();
}

/* How the host learns that it is done: by HEAD, by DONE, by IDLE, by taking a range. */
static void progress(void) {
  uint64_t seen = 0;
  for (unsigned way = 0; way < 4; ++way) {
    static const char *const names[] = {"head", "done", "idle", "acquire"};
    MUST(tb_mark(device, names[way]) == TB_OK);
    push(0, minnow_dma(MINNOW_DMA_STORE, memory + 4096 * way, 0, 64, 1, 0, 0));
    ring(0);
    if (way == 0)
      MUST(tb_poll(device, "bar0", reg(0, MINNOW_Q_HEAD), 4, ~0u, tails[0], patience, &seen) == TB_OK);
    else if (way == 1)
      MUST(tb_poll(device, "bar0", reg(0, MINNOW_Q_DONE), 4, ~0u, way + 1, patience, &seen) == TB_OK);
    else if (way == 2)
      awaitIdle();
    else
      while (tb_acquire(device, memory + 4096 * way, 64) == TB_OK && get(reg(0, MINNOW_Q_HEAD)) != tails[0])
        ;
  }
  awaitIdle();
}

/* What the device was told is forgotten, by the API and by a register. */
static void resets(void) {
  for (unsigned way = 0; way < 2; ++way) {
    MUST(tb_mark(device, way ? "soft" : "api") == TB_OK);
    put(MINNOW_CONTROL, 0);
    push(0, minnow_dma(MINNOW_DMA_STORE, memory + 4096, 0, 64, 1, 0, 0));
    push(0, minnow_nop());
    ring(0);
    if (way) {
      put(MINNOW_CONTROL, MINNOW_CONTROL_SOFT_RESET);
      uint64_t status = 0;
      MUST(tb_poll(device, "bar0", MINNOW_STATUS, 4, MINNOW_STATUS_RESETTING, 0, patience, &status) == TB_OK);
    } else {
      MUST(tb_reset(device) == TB_OK);
    }
    setUpQueue(0);
    put(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
    push(0, minnow_dma(MINNOW_DMA_STORE, memory + 4096, 0, 64, 1, 0, 0));
    finish(0);
  }
}

/* A ring that wraps, with more than a ring of commands. */
static void wrap(void) {
  for (unsigned i = 0; i < 3 * ringEntries; ++i) {
    push(i % 2, minnow_dma(MINNOW_DMA_LOAD, memory + 64 * i, 0, 64, 1, 0, 0));
    if (i % 5 == 4) {
      finish(0);
      finish(1);
    }
  }
  finish(0);
  finish(1);
}

/* The same value in the same place again: seeing it proves nothing until it was seen to be another. */
static void sameFence(void) {
  uint64_t seen = 0, *word = (uint64_t *)(void *)(bytes + 32768);
  for (unsigned time = 0; time < 2; ++time) {
    MUST(tb_mark(device, time ? "cleared" : "first") == TB_OK);
    push(0, minnow_dma(MINNOW_DMA_STORE, memory, 0, 64, 1, 0, 0));
    push(0, minnow_fence(memory + 32768, 1, 0));
    ring(0);
    MUST(tb_wait_mem(device, memory + 32768, 8, ~UINT64_C(0), 1, patience, &seen) == TB_OK);
    if (!time)
      *word = 0;
  }
  MUST(tb_mark(device, "doubtful") == TB_OK);
  put(MINNOW_CONTROL, 0);
  push(0, minnow_dma(MINNOW_DMA_STORE, memory, 0, 64, 1, 0, 0));
  push(0, minnow_fence(memory + 32768, 1, 0));
  ring(0);
  MUST(tb_wait_mem(device, memory + 32768, 8, ~UINT64_C(0), 1, patience, &seen) == TB_OK);
  MUST(tb_mark(device, "idle") == TB_OK);
  put(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  awaitIdle();
}

/* A late store: the host's own here, through its pointer, into what it was given. */
static void stray(void) {
  push(0, minnow_dma(MINNOW_DMA_STORE, memory, 0, 64, 1, 0, 0));
  push(0, minnow_dma(MINNOW_DMA_STORE, memory + 4096, 0, 64, 1, 0, 0));
  push(0, minnow_dma(MINNOW_DMA_STORE, memory + 8192, 0, 64, 1, 0, 0));
  finish(0);
  bytes[7] ^= 0x55;
  uint8_t byte = 1;
  MUST(tb_mem_write(device, memory + 8192, &byte, 1) == TB_OK);
  MUST(tb_mark(device, "next") == TB_OK);
  finish(0);
}

/* A store after the doorbell into what the device was given. */
static void afterwards(void) {
  fill(0, 256, 7);
  put(MINNOW_CONTROL, 0); /* So that it is certain that the device comes later. */
  push(0, minnow_dma(MINNOW_DMA_LOAD, memory, 0, 64, 2, 128, 64));
  push(0, minnow_dma(MINNOW_DMA_LOAD, memory + 4096, 128, 64, 1, 0, 0));
  pushFence(0);
  ring(0);
  bytes[100] ^= 1; /* In the gap: nobody's. */
  bytes[130] ^= 1;
  put(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE);
  await(0);
  MUST(tb_mark(device, "again") == TB_OK);
  push(0, minnow_dma(MINNOW_DMA_LOAD, memory, 0, 64, 2, 128, 64));
  finish(0);
}

/* A failing command is skipped by RESUME; what is behind it is done. */
static void resume(void) {
  push(0, minnow_make(0x7f, 0));
  push(0, minnow_dma(MINNOW_DMA_LOAD, UINT64_C(0x7000000000), 0, 64, 1, 0, 0));
  push(0, minnow_dma(MINNOW_DMA_STORE, memory, 0, 64, 1, 0, 0));
  ring(0);
  uint64_t status = 0;
  for (unsigned i = 0; i < 2; ++i) {
    MUST(tb_poll(device, "bar0", MINNOW_STATUS, 4, MINNOW_STATUS_HALTED, MINNOW_STATUS_HALTED, patience,
                 &status) == TB_OK);
    put(MINNOW_CONTROL, MINNOW_CONTROL_ENABLE | MINNOW_CONTROL_RESUME);
  }
  awaitIdle();
}

/* What no driver does; a recorder must come back from it, soon and with the truth. */
static void hostile(void) {
  MUST(tb_mark(device, "doorbell") == TB_OK);
  put(MINNOW_CONTROL, 0);
  put(reg(0, MINNOW_Q_DOORBELL), 0xfffffff3); /* 3 modulo 16. */
  MUST(tb_reset(device) == TB_OK);
  MUST(tb_mark(device, "size") == TB_OK);
  for (unsigned i = 0; i < 3; ++i) {
    static const uint32_t sizes[] = {0xffffffff, 0, 65536};
    put(reg(0, MINNOW_Q_BASE_LO), (uint32_t)rings[0]);
    put(reg(0, MINNOW_Q_BASE_HI), (uint32_t)(rings[0] >> 32));
    put(reg(0, MINNOW_Q_SIZE), sizes[i]);
    put(reg(0, MINNOW_Q_DOORBELL), i == 2 ? 20000 : 5);
    MUST(tb_reset(device) == TB_OK);
  }
  MUST(tb_mark(device, "unmapped") == TB_OK);
  put(reg(0, MINNOW_Q_BASE_HI), 0xffffffff);
  put(reg(0, MINNOW_Q_BASE_LO), 0xffffffc0);
  put(reg(0, MINNOW_Q_SIZE), 16);
  put(reg(0, MINNOW_Q_DOORBELL), 4);
  MUST(tb_reset(device) == TB_OK);
  MUST(tb_mark(device, "loop") == TB_OK);
  setUpQueue(0);
  minnow_descriptor *list = (minnow_descriptor *)(void *)(bytes + 16384);
  list[0] = minnow_make_descriptor(memory, 0, 64, 1, 0, 0, 0, memory + 16384);
  push(0, minnow_dma_chain(memory + 16384));
  ring(0);
  MUST(tb_reset(device) == TB_OK);
  MUST(tb_mark(device, "rows") == TB_OK);
  setUpQueue(0);
  push(0, minnow_dma(MINNOW_DMA_LOAD, memory, 0, 64, 65536, 0, 0));
  push(0, minnow_dma(MINNOW_DMA_LOAD, memory, 0, 0xfffffff8, 0xffffffff, 0xfffffff8, 0));
  push(0, minnow_dma(MINNOW_DMA_STORE, memory, 0, 0xfffffff8, 0xffffffff, 0xfffffff8, 0));
  push(0, minnow_dma(MINNOW_DMA_STORE, memory, 0, 8, 65536, 16, 0));
  push(0, minnow_dma(MINNOW_DMA_LOAD, UINT64_C(0xfffffffffffffff8), 0, 64, 2, 64, 0));
  push(0, minnow_dma(MINNOW_DMA_LOAD, memory, 0, 64, 0, 0, 0));
  push(0, minnow_fence(UINT64_C(0xfffffffffffffffc), 1, 0));
  push(0, minnow_fence(UINT64_C(0x7000000000), 1, 0));
  ring(0);
  MUST(tb_reset(device) == TB_OK);
}

static const struct {
  const char *name;
  void (*run)(void);
} scenarios[] = {{"rows", rows},     {"owned", owned},     {"chain", chain},          {"progress", progress},
                 {"wrap", wrap},     {"resets", resets},   {"same-fence", sameFence}, {"stray", stray},
                 {"resume", resume}, {"hostile", hostile}, {"afterwards", afterwards}};

int main(int count, char **arguments) {
  for (size_t i = 0; count == 2 && i < sizeof(scenarios) / sizeof(scenarios[0]); ++i)
    if (strcmp(arguments[1], scenarios[i].name) == 0) {
      begin();
      scenarios[i].run();
      MUST(tb_close(device) == TB_OK);
      return 0;
    }
  fprintf(stderr, "usage: recorder-queues SCENARIO\n");
  return 9;
}
