#include "hal/edu/model/EduModel.h"
#include <string.h>

enum {
  STATE_VERSION = 1,
  IDENTITY = 0x010000ed, /* Version 1.0. */
  HOST_PAGE = 4096,
};

/* ---- Interrupts ---- */

/* One message per raise. IRQ_STATUS accumulates; a raise that leaves it zero is none. */
static void raiseInterrupt(EduModel *model, uint32_t bits) {
  model->state.irqStatus |= bits;
  if (!model->state.irqStatus)
    return;
  ++model->raised;
  model->bus.interrupt(model->bus.context, 0);
}

static void acknowledge(EduModel *model, uint32_t bits) {
  if (model->options.fault == EDU_FAULT_IRQ_STICKY)
    bits &= ~model->options.stickyBits;
  model->state.irqStatus &= ~bits;
}

/* ---- Factorial ---- */

/* n! modulo 2^32. From 34 on it is 0: 34! has 32 factors of two. */
static uint32_t factorial(uint32_t n) {
  if (n >= 34)
    return 0;
  uint32_t product = 1;
  for (; n > 1; --n)
    product *= n;
  return product;
}

static void startFactorial(EduModel *model, uint32_t operand) {
  EduState *state = &model->state;
  if (state->status & EDU_STATUS_COMPUTING)
    return;                   /* Busy: the write is lost. */
  state->factorial = operand; /* Read back as the operand until the result is there. */
  state->status |= EDU_STATUS_COMPUTING;
  state->factorialDone = state->now + model->options.factorialTime;
}

static void finishFactorial(EduModel *model) {
  EduState *state = &model->state;
  uint32_t operand = state->factorial;
  state->factorial = factorial(operand);
  if (model->options.fault == EDU_FAULT_FACTORIAL && operand == model->options.operand)
    state->factorial ^= 1;
  state->status &= ~(uint32_t)EDU_STATUS_COMPUTING;
  if (state->status & EDU_STATUS_IRQ_ON_FACTORIAL)
    raiseInterrupt(model, EDU_IRQ_FACTORIAL);
}

/* ---- DMA ---- */

static bool insideBuffer(uint64_t address, uint64_t count) {
  return address >= EDU_BUFFER_BASE && address - EDU_BUFFER_BASE <= EDU_BUFFER_SIZE &&
         count <= EDU_BUFFER_SIZE - (address - EDU_BUFFER_BASE);
}

static bool startDma(EduModel *model, uint64_t command) {
  EduState *state = &model->state;
  if ((state->dmaCmd & EDU_DMA_RUN) || !(command & EDU_DMA_RUN))
    return true; /* Busy, or nothing to start: the write is lost. */
  uint64_t inside = command & EDU_DMA_FROM_DEVICE ? state->dmaSrc : state->dmaDst;
  if (!insideBuffer(inside, state->dmaCount))
    return false;
  state->dmaCmd = command;
  state->dmaDone = state->now + model->options.dmaTime;
  return true;
}

/* How many bytes of a transfer arrive. */
static uint64_t bytesThatArrive(const EduModel *model, uint64_t hostAddress, uint64_t count) {
  if (model->options.fault != EDU_FAULT_DMA_LAST_BYTE || count == 0)
    return count;
  bool crosses = hostAddress / HOST_PAGE != (hostAddress + count - 1) / HOST_PAGE;
  return crosses ? count - 1 : count;
}

/* All of the data moves at the end of the transfer's time, as in QEMU. */
static void finishDma(EduModel *model) {
  EduState *state = &model->state;
  bool fromDevice = state->dmaCmd & EDU_DMA_FROM_DEVICE;
  uint64_t inside = (fromDevice ? state->dmaSrc : state->dmaDst) - EDU_BUFFER_BASE;
  uint64_t host = (fromDevice ? state->dmaDst : state->dmaSrc) & model->options.dmaMask;
  uint64_t count = bytesThatArrive(model, host, state->dmaCount);
  if (count && fromDevice) {
    if (model->bus.dmaWrite(model->bus.context, host, state->buffer + inside, count) != 0)
      model->bus.warn(model->bus.context, "DMA to host memory that is not mapped: dropped");
  } else if (count) {
    if (model->bus.dmaRead(model->bus.context, host, state->buffer + inside, count) != 0) {
      model->bus.warn(model->bus.context, "DMA from host memory that is not mapped: all ones");
      memset(state->buffer + inside, 0xff, count);
    }
  }
  state->dmaCmd &= ~(uint64_t)EDU_DMA_RUN;
  if (state->dmaCmd & EDU_DMA_IRQ)
    raiseInterrupt(model, EDU_IRQ_DMA);
}

/* ---- Time ---- */

/* The clock stops at its end, after 584 years. */
static uint64_t later(uint64_t time, uint64_t nanoseconds) {
  return nanoseconds > UINT64_MAX - time ? UINT64_MAX : time + nanoseconds;
}

static bool nextEvent(const EduState *state, uint64_t *when) {
  bool computing = state->status & EDU_STATUS_COMPUTING, moving = state->dmaCmd & EDU_DMA_RUN;
  if (!computing && !moving)
    return false;
  if (computing && moving)
    *when = state->factorialDone <= state->dmaDone ? state->factorialDone : state->dmaDone;
  else
    *when = computing ? state->factorialDone : state->dmaDone;
  return true;
}

/* Carries out what is due now; true if there was something. At the same instant the factorial comes first. */
static bool carryOutDue(EduModel *model) {
  EduState *state = &model->state;
  if ((state->status & EDU_STATUS_COMPUTING) && state->factorialDone <= state->now) {
    finishFactorial(model);
    return true;
  }
  if ((state->dmaCmd & EDU_DMA_RUN) && state->dmaDone <= state->now) {
    finishDma(model);
    return true;
  }
  return false;
}

/* Events happen at their own times, in order. */
static void passTime(EduModel *model, uint64_t nanoseconds) {
  EduState *state = &model->state;
  uint64_t end = later(state->now, nanoseconds), when = 0;
  while (nextEvent(state, &when) && when <= end) {
    state->now = when > state->now ? when : state->now;
    carryOutDue(model);
  }
  state->now = end;
}

uint64_t eduAdvance(EduModel *model, uint64_t budget) {
  EduState *state = &model->state;
  uint64_t start = state->now;
  uint64_t end = later(start, budget), when = 0;
  uint64_t before = model->raised;
  while (nextEvent(state, &when) && when <= end) {
    state->now = when > state->now ? when : state->now;
    carryOutDue(model);
    if (model->raised != before)
      return state->now - start;
  }
  state->now = end;
  return end - start;
}

/* ---- Registers ---- */

/* What the bus lets through to the device at all: 32 and 64 bits, at their natural place. */
static bool reachesDevice(uint64_t address, unsigned width) {
  return (width == 4 || width == 8) && address % width == 0;
}

/* "Only size == 4 accesses are allowed for addresses < 0x80. size == 4 or size == 8 for the rest." */
static bool deviceAnswers(uint64_t address, unsigned width) {
  return width == 4 || address >= 0x80;
}

static uint32_t readLiveness(EduModel *model) {
  uint64_t earlier = model->state.livenessReads++;
  bool wrong = model->options.fault == EDU_FAULT_LIVENESS && earlier == model->options.after;
  return wrong ? model->state.liveness ^ 1 : model->state.liveness;
}

static uint64_t readRegister(EduModel *model, uint64_t address) {
  EduState *state = &model->state;
  switch (address) {
  case EDU_IDENT: return IDENTITY;
  case EDU_LIVENESS: return readLiveness(model);
  case EDU_FACTORIAL: return state->factorial;
  case EDU_STATUS: return state->status;
  case EDU_IRQ_STATUS: return state->irqStatus;
  case EDU_DMA_SRC: return state->dmaSrc;
  case EDU_DMA_DST: return state->dmaDst;
  case EDU_DMA_COUNT: return state->dmaCount;
  case EDU_DMA_CMD: return state->dmaCmd;
  default: return UINT64_MAX; /* Write-only registers too. */
  }
}

/* DMA registers cannot be changed under a running transfer. */
static void writeDmaRegister(EduState *state, uint64_t *which, uint64_t value) {
  if (!(state->dmaCmd & EDU_DMA_RUN))
    *which = value;
}

uint64_t eduRead(EduModel *model, uint64_t address, unsigned width) {
  passTime(model, model->options.accessTime);
  if (!reachesDevice(address, width))
    return 0;
  uint64_t value = deviceAnswers(address, width) ? readRegister(model, address) : UINT64_MAX;
  return width == 8 ? value : (uint32_t)value;
}

bool eduWrite(EduModel *model, uint64_t address, unsigned width, uint64_t value) {
  EduState *state = &model->state;
  passTime(model, model->options.accessTime);
  if (!reachesDevice(address, width) || !deviceAnswers(address, width))
    return true;
  uint32_t word = (uint32_t)value;
  value = width == 8 ? value : word;
  switch (address) {
  case EDU_LIVENESS: state->liveness = ~word; break;
  case EDU_FACTORIAL: startFactorial(model, word); break;
  case EDU_STATUS:
    state->status =
        (state->status & ~(uint32_t)EDU_STATUS_IRQ_ON_FACTORIAL) | (word & EDU_STATUS_IRQ_ON_FACTORIAL);
    break;
  case EDU_IRQ_RAISE: raiseInterrupt(model, word); break;
  case EDU_IRQ_ACK: acknowledge(model, word); break;
  case EDU_DMA_SRC: writeDmaRegister(state, &state->dmaSrc, value); break;
  case EDU_DMA_DST: writeDmaRegister(state, &state->dmaDst, value); break;
  case EDU_DMA_COUNT: writeDmaRegister(state, &state->dmaCount, value); break;
  case EDU_DMA_CMD: return startDma(model, value);
  default: break; /* Read-only registers and holes take no writes. */
  }
  return true;
}

bool eduStateValid(const EduState *state) {
  uint64_t inside = state->dmaCmd & EDU_DMA_FROM_DEVICE ? state->dmaSrc : state->dmaDst;
  return state->version == STATE_VERSION &&
         (!(state->dmaCmd & EDU_DMA_RUN) || insideBuffer(inside, state->dmaCount));
}

void eduReset(EduModel *model) {
  uint64_t now = model->state.now;
  memset(&model->state, 0, sizeof model->state);
  model->state.version = STATE_VERSION;
  model->state.now = now;
}
