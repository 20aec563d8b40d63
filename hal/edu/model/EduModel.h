/* A reference model of QEMU's educational PCI device, written from its public specification (docs/specs/edu
 * in QEMU's documentation) and from what QEMU 7.2 was seen to do where that is silent; hal/edu/README.md
 * lists which is which.
 *
 * This file knows the device and nothing of Tapeback's plugin ABI: EduPlugin.c wraps it. All state is in
 * EduModel, and all that a snapshot must hold is in EduState; there are no globals. Not thread-safe. */
#ifndef TAPEBACK_EDU_MODEL_H
#define TAPEBACK_EDU_MODEL_H

#include "hal/edu/model/EduOptions.h"
#include <stdbool.h>
#include <stdint.h>

enum {
  EduBarSize = 0x100000,
  EduBufferBase = 0x40000, /* In device addresses, as DMA uses them. */
  EduBufferSize = 4096,
};

/* Registers of BAR 0. */
enum {
  EduIdent = 0x00,
  EduLiveness = 0x04,
  EduFactorial = 0x08,
  EduStatus = 0x20,
  EduIrqStatus = 0x24,
  EduIrqRaise = 0x60,
  EduIrqAck = 0x64,
  EduDmaSrc = 0x80,
  EduDmaDst = 0x88,
  EduDmaCount = 0x90,
  EduDmaCmd = 0x98,
};

enum {
  EduStatusComputing = 0x01,
  EduStatusIrqOnFactorial = 0x80,
  EduIrqFactorial = 0x001, /* Bits of IRQ_STATUS. */
  EduIrqDma = 0x100,
  EduDmaRun = 0x01,
  EduDmaFromDevice = 0x02,
  EduDmaIrq = 0x04,
};

/* Everything that decides the future, host memory excepted. Copied whole by snapshots: no pointers, no
 * padding that matters, and a version so that a snapshot of another build is refused. */
typedef struct EduState {
  uint64_t version;
  uint64_t now;           /* Nanoseconds of device time. */
  uint64_t factorialDone; /* Time at which the running computation ends; meaningful while COMPUTING is set. */
  uint64_t dmaDone;       /* The same for the transfer; meaningful while DMA_CMD has RUN. */
  uint64_t dmaSrc, dmaDst, dmaCount, dmaCmd;
  uint64_t livenessReads; /* Since reset, for the liveness fault. */
  uint64_t lost;          /* dma-heals: one more than where in the buffer a byte is missing; 0 nowhere. */
  uint64_t lateDue, lateHost, lateInside, lateCount; /* early-done: what is still to come. 0 due: nothing. */
  uint32_t lostByte, armed;                          /* pair: a transfer has crossed 4 KiB. */
  uint32_t liveness, factorial, status, irqStatus;
  uint8_t buffer[EduBufferSize];
} EduState;

/* What the device is plugged into. Each function returns 0 or a negative number. */
typedef struct EduBus {
  void *context;
  int (*dmaRead)(void *context, uint64_t address, void *out, uint64_t size);
  int (*dmaWrite)(void *context, uint64_t address, const void *in, uint64_t size);
  int (*interrupt)(void *context, uint32_t vector);
  void (*warn)(void *context, const char *text);
} EduBus;

typedef struct EduModel {
  EduState state;
  EduOptions options;
  EduBus bus;
  uint64_t raised; /* Interrupts ever; tells eduAdvance that one came. */
} EduModel;

/* Whether a state that came from outside can be taken: right version, and a running transfer inside the
 * buffer. */
bool eduStateValid(const EduState *state);

/* To the state after power-on. Device time goes on. */
void eduReset(EduModel *model);

/* One access, which takes options.accessTime of device time. Accesses that the specification does not allow
 * write nothing; they read as zero if they do not even reach the device (8 or 16 bits, or not aligned), else
 * as all ones. False: the write asked for a transfer outside the buffer; a bus error, and nothing starts. */
uint64_t eduRead(EduModel *model, uint64_t address, unsigned width);
bool eduWrite(EduModel *model, uint64_t address, unsigned width, uint64_t value);
/* What a register holds. Takes no time, and counts as no read. False: no such access. */
bool eduPeek(const EduModel *model, uint64_t address, unsigned width, uint64_t *value);

/* Lets time pass until `budget` is used up or an interrupt was raised; returns how much passed. */
uint64_t eduAdvance(EduModel *model, uint64_t budget);

#endif
