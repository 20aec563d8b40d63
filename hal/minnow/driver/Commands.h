/* Minnow's registers, and its commands as 64 bytes each, from hal/minnow/SPEC.md. Plain C and C++, no
 * dependencies: drivers, tests and tools share it. Encoders check nothing: wrong commands are for the device
 * to refuse. */
#ifndef TAPEBACK_MINNOW_COMMANDS_H
#define TAPEBACK_MINNOW_COMMANDS_H

#include <stdint.h>
#include <string.h>

/* C's names. NOLINTBEGIN(readability-identifier-naming) */

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MINNOW_BAR_SIZE = 0x10000,
  MINNOW_SCRATCHPAD_SIZE = 0x10000,
  MINNOW_COMMAND_SIZE = 64,
  MINNOW_QUEUES = 2,
  MINNOW_SEMAPHORES = 8,
  MINNOW_COUNTERS = 12,
  MINNOW_MAX_CHAIN = 256,
};

/* Registers (section 2). */
enum {
  MINNOW_ID = 0x000,
  MINNOW_VERSION = 0x004,
  MINNOW_CAPS = 0x008,
  MINNOW_CONTROL = 0x00c,
  MINNOW_STATUS = 0x010,
  MINNOW_IRQ_STATUS = 0x014,
  MINNOW_IRQ_ENABLE = 0x018,
  MINNOW_ERR_CODE = 0x020,
  MINNOW_ERR_QUEUE = 0x024,
  MINNOW_ERR_INDEX = 0x028,
  MINNOW_ERR_OPCODE = 0x02c,
  MINNOW_ERR_ADDR_LO = 0x030,
  MINNOW_ERR_ADDR_HI = 0x034,
  MINNOW_DBG_ADDR = 0x040,
  MINNOW_DBG_DATA = 0x044,
  MINNOW_TIME_LO = 0x050,
  MINNOW_TIME_HI = 0x054,
  MINNOW_QUEUE = 0x100, /* + MINNOW_QUEUE_STRIDE * queue + one of the next */
  MINNOW_QUEUE_STRIDE = 0x40,
  MINNOW_Q_BASE_LO = 0x00,
  MINNOW_Q_BASE_HI = 0x04,
  MINNOW_Q_SIZE = 0x08,
  MINNOW_Q_HEAD = 0x0c,
  MINNOW_Q_TAIL = 0x10,
  MINNOW_Q_DOORBELL = 0x14,
  MINNOW_Q_DONE = 0x18,
  MINNOW_CNT_CONTROL = 0x200,
  MINNOW_CNT_LO = 0x240, /* + 8 * counter */
  MINNOW_CNT_HI = 0x244,
};

#define MINNOW_ID_VALUE 0x4d4e5731u

enum {
  MINNOW_CONTROL_ENABLE = 1,
  MINNOW_CONTROL_SOFT_RESET = 2,
  MINNOW_CONTROL_RESUME = 8,
  MINNOW_STATUS_ENABLED = 1 << 0,
  MINNOW_STATUS_HALTED = 1 << 1,
  MINNOW_STATUS_IDLE = 1 << 2,
  MINNOW_STATUS_Q0_BUSY = 1 << 8,
  MINNOW_STATUS_Q1_BUSY = 1 << 9,
  MINNOW_STATUS_DMA_BUSY = 1 << 10,
  MINNOW_IRQ_FENCE0 = 1 << 0,
  MINNOW_IRQ_FENCE1 = 1 << 1,
  MINNOW_IRQ_ERROR = 1 << 2,
  MINNOW_CNT_FREEZE = 1,
  MINNOW_CNT_SNAPSHOT = 2,
  MINNOW_CNT_CLEAR = 4,
};
#define MINNOW_STATUS_RESETTING 0x80000000u

typedef enum minnow_error {
  MINNOW_BAD_OPCODE = 1,
  MINNOW_BAD_ARGUMENT = 2,
  MINNOW_MISALIGNED = 3,
  MINNOW_OUT_OF_RANGE = 4,
  MINNOW_BUS_ERROR = 5,
  MINNOW_CHAIN_TOO_LONG = 6,
  MINNOW_SEMAPHORE_OVERFLOW = 7,
} minnow_error;

typedef enum minnow_counter {
  MINNOW_CNT_CYCLES,
  MINNOW_CNT_MACS,
  MINNOW_CNT_ARRAY_BUSY,
  MINNOW_CNT_READ_BYTES,
  MINNOW_CNT_WRITE_BYTES,
  MINNOW_CNT_READ_BURSTS,
  MINNOW_CNT_WRITE_BURSTS,
  MINNOW_CNT_DMA_BUSY,
  MINNOW_CNT_WAIT_SYNC,
  MINNOW_CNT_WAIT_QUEUE,
  MINNOW_CNT_WAIT_SCRATCHPAD,
  MINNOW_CNT_COMMANDS,
} minnow_counter;

/* Commands (section 4). */
typedef enum minnow_opcode {
  MINNOW_NOP = 0x00,
  MINNOW_DMA_LOAD = 0x01,
  MINNOW_DMA_STORE = 0x02,
  MINNOW_DMA_CHAIN = 0x03,
  MINNOW_GEMM = 0x10,
  MINNOW_VADD32 = 0x20,
  MINNOW_VADD8 = 0x21,
  MINNOW_RELU8 = 0x22,
  MINNOW_REQUANT = 0x23,
  MINNOW_MAXPOOL8 = 0x24,
  MINNOW_FENCE = 0x30,
  MINNOW_SIGNAL = 0x31,
  MINNOW_WAIT = 0x32,
  MINNOW_BARRIER = 0x33,
} minnow_opcode;

enum { MINNOW_ACCUMULATE = 1, MINNOW_BROADCAST = 1, MINNOW_REQUANT_RELU = 1, MINNOW_INTERRUPT = 1 };

/* As it lies in the ring; fields are words in the host's order, which is the device's (little-endian). */
typedef struct minnow_command {
  uint32_t w[16];
} minnow_command;

/* A descriptor of a chain, as it lies in host memory. */
typedef struct minnow_descriptor {
  uint64_t host_address;
  uint32_t scratchpad_address;
  uint32_t row_bytes;
  uint32_t rows;
  uint32_t host_stride;
  uint32_t scratchpad_stride;
  uint32_t flags;
  uint64_t next;
  uint8_t ignored[24];
} minnow_descriptor;

enum { MINNOW_DESCRIPTOR_STORE = 1, MINNOW_DESCRIPTOR_LAST = 2 };

static inline minnow_command minnow_make(uint32_t opcode, uint32_t flags) {
  minnow_command c;
  memset(&c, 0, sizeof c);
  c.w[0] = opcode | flags << 8;
  return c;
}

static inline minnow_command minnow_nop(void) {
  return minnow_make(MINNOW_NOP, 0);
}

/* opcode: MINNOW_DMA_LOAD or MINNOW_DMA_STORE. */
static inline minnow_command minnow_dma(uint32_t opcode, uint64_t host, uint32_t scratchpad,
                                        uint32_t row_bytes, uint32_t rows, uint32_t host_stride,
                                        uint32_t scratchpad_stride) {
  minnow_command c = minnow_make(opcode, 0);
  c.w[2] = (uint32_t)host;
  c.w[3] = (uint32_t)(host >> 32);
  c.w[4] = scratchpad;
  c.w[5] = row_bytes;
  c.w[6] = rows;
  c.w[7] = host_stride;
  c.w[8] = scratchpad_stride;
  return c;
}

static inline minnow_command minnow_dma_chain(uint64_t descriptor) {
  minnow_command c = minnow_make(MINNOW_DMA_CHAIN, 0);
  c.w[2] = (uint32_t)descriptor;
  c.w[3] = (uint32_t)(descriptor >> 32);
  return c;
}

static inline minnow_command minnow_gemm(uint32_t a, uint32_t b, uint32_t c_address, uint32_t m, uint32_t n,
                                         uint32_t k, uint32_t lda, uint32_t ldb, uint32_t ldc,
                                         uint32_t flags) {
  minnow_command c = minnow_make(MINNOW_GEMM, flags);
  c.w[2] = a;
  c.w[3] = b;
  c.w[4] = c_address;
  c.w[5] = m;
  c.w[6] = n;
  c.w[7] = k;
  c.w[8] = lda;
  c.w[9] = ldb;
  c.w[10] = ldc;
  return c;
}

/* opcode: MINNOW_VADD32 or MINNOW_VADD8. */
static inline minnow_command minnow_vadd(uint32_t opcode, uint32_t a, uint32_t b, uint32_t d, uint32_t rows,
                                         uint32_t cols, uint32_t lda, uint32_t ldb, uint32_t ldd,
                                         uint32_t flags) {
  minnow_command c = minnow_make(opcode, flags);
  c.w[2] = a;
  c.w[3] = b;
  c.w[4] = d;
  c.w[5] = rows;
  c.w[6] = cols;
  c.w[7] = lda;
  c.w[8] = ldb;
  c.w[9] = ldd;
  return c;
}

static inline minnow_command minnow_relu8(uint32_t a, uint32_t d, uint32_t rows, uint32_t cols, uint32_t lda,
                                          uint32_t ldd) {
  return minnow_vadd(MINNOW_RELU8, a, 0, d, rows, cols, lda, 0, ldd, 0);
}

static inline minnow_command minnow_requant(uint32_t a, uint32_t d, uint32_t rows, uint32_t cols,
                                            uint32_t lda, uint32_t ldd, uint32_t multiplier, uint32_t shift,
                                            int32_t zero_point, uint32_t flags) {
  minnow_command c = minnow_vadd(MINNOW_REQUANT, a, 0, d, rows, cols, lda, 0, ldd, flags);
  c.w[10] = multiplier;
  c.w[11] = shift;
  c.w[12] = (uint32_t)zero_point;
  return c;
}

static inline minnow_command minnow_maxpool8(uint32_t a, uint32_t d, uint32_t height, uint32_t width,
                                             uint32_t channels, uint32_t window, uint32_t stride) {
  return minnow_vadd(MINNOW_MAXPOOL8, a, 0, d, height, width, channels, window, stride, 0);
}

static inline minnow_command minnow_fence(uint64_t host, uint64_t value, uint32_t flags) {
  minnow_command c = minnow_make(MINNOW_FENCE, flags);
  c.w[2] = (uint32_t)host;
  c.w[3] = (uint32_t)(host >> 32);
  c.w[4] = (uint32_t)value;
  c.w[5] = (uint32_t)(value >> 32);
  return c;
}

static inline minnow_command minnow_signal(uint32_t semaphore) {
  minnow_command c = minnow_make(MINNOW_SIGNAL, 0);
  c.w[2] = semaphore;
  return c;
}

static inline minnow_command minnow_wait(uint32_t semaphore) {
  minnow_command c = minnow_make(MINNOW_WAIT, 0);
  c.w[2] = semaphore;
  return c;
}

static inline minnow_command minnow_barrier(void) {
  return minnow_make(MINNOW_BARRIER, 0);
}

static inline minnow_descriptor minnow_make_descriptor(uint64_t host, uint32_t scratchpad, uint32_t row_bytes,
                                                       uint32_t rows, uint32_t host_stride,
                                                       uint32_t scratchpad_stride, uint32_t flags,
                                                       uint64_t next) {
  minnow_descriptor d;
  memset(&d, 0, sizeof d);
  d.host_address = host;
  d.scratchpad_address = scratchpad;
  d.row_bytes = row_bytes;
  d.rows = rows;
  d.host_stride = host_stride;
  d.scratchpad_stride = scratchpad_stride;
  d.flags = flags;
  d.next = next;
  return d;
}

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif
