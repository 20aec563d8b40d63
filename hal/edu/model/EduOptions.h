/* Options of the edu model: its timing, and the faults that can be planted in it. */
#ifndef TAPEBACK_EDU_OPTIONS_H
#define TAPEBACK_EDU_OPTIONS_H

#include "hal/model/tapeback_model.h"
#include <stdbool.h>
#include <stdint.h>

/* What each does exactly: hal/edu/README.md. */
typedef enum EduFault {
  EduFaultNone,
  EduFaultDmaLastByte, /* A transfer that crosses 4 KiB of host memory loses its last byte. */
  EduFaultFactorial,   /* One operand gives a wrong result. */
  EduFaultIrqSticky,   /* Bits of IRQ_STATUS are not cleared by IRQ_ACK. */
  EduFaultLiveness,    /* One read of LIVENESS is wrong. */
  EduFaultDmaHeals,    /* The byte that dma-last-byte loses on the way in comes with the next transfer. */
  EduFaultPair,        /* After a transfer that crosses 4 KiB one operand gives a wrong result. */
  EduFaultEarlyDone,   /* A transfer to the host says that it is done before its data is there. */
} EduFault;

typedef struct EduOptions {
  uint64_t accessTime;    /* Nanoseconds of device time per register access. */
  uint64_t factorialTime; /* … from writing FACTORIAL until COMPUTING is clear. */
  uint64_t dmaTime;       /* … from writing DMA_CMD until RUN is clear. */
  uint64_t dmaMask;       /* Applied to host addresses. */
  EduFault fault;
  uint64_t operand;    /* fault=factorial */
  uint64_t after;      /* fault=liveness */
  uint32_t stickyBits; /* fault=irq-sticky */
} EduOptions;

/* False: something is wrong, which `error` says in one sentence. */
bool eduParseOptions(const tapeback_model_option *given, uint32_t count, EduOptions *options, char *error,
                     size_t size);

#endif
