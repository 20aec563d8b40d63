#include "hal/edu/model/EduModel.h"
#include <string.h>

enum {
  StateVersion = 2,
  Identity = 0x010000ed, /* Version 1.0. */
  HostPage = 4096,
  LateBy = 20000000, /* Nanoseconds: fault=early-done. Longer than a poll looks away. */
};

/* ---- Time ---- */

/* The clock stops at its end, after 584 years. */
static uint64_t later(uint64_t time, uint64_t nanoseconds) {
  return nanoseconds > UINT64_MAX - time ? UINT64_MAX : time + nanoseconds;
}

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
  if (model->options.fault == EduFaultIrqSticky)
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
  if (state->status & EduStatusComputing)
    return;                   /* Busy: the write is lost. */
  state->factorial = operand; /* Read back as the operand until the result is there. */
  state->status |= EduStatusComputing;
  state->factorialDone = state->now + model->options.factorialTime;
}

static void finishFactorial(EduModel *model) {
  EduState *state = &model->state;
  uint32_t operand = state->factorial;
  state->factorial = factorial(operand);
  bool wrong =
      model->options.fault == EduFaultFactorial || (model->options.fault == EduFaultPair && state->armed);
  if (wrong && operand == model->options.operand)
    state->factorial ^= 1;
  state->status &= ~(uint32_t)EduStatusComputing;
  if (state->status & EduStatusIrqOnFactorial)
    raiseInterrupt(model, EduIrqFactorial);
}

/* ---- DMA ---- */

static bool insideBuffer(uint64_t address, uint64_t count) {
  return address >= EduBufferBase && address - EduBufferBase <= EduBufferSize &&
         count <= EduBufferSize - (address - EduBufferBase);
}

/* The data that a transfer has said to be there (fault=early-done). */
static void bringLate(EduModel *model) {
  EduState *state = &model->state;
  state->lateDue = 0;
  if (model->bus.dmaWrite(model->bus.context, state->lateHost, state->buffer + state->lateInside,
                          state->lateCount) != 0)
    model->bus.warn(model->bus.context, "DMA to host memory that is not mapped: dropped");
}

static void heal(EduState *state) {
  if (state->lost)
    state->buffer[state->lost - 1] = (uint8_t)state->lostByte;
  state->lost = 0;
}

static bool startDma(EduModel *model, uint64_t command) {
  EduState *state = &model->state;
  if ((state->dmaCmd & EduDmaRun) || !(command & EduDmaRun))
    return true; /* Busy, or nothing to start: the write is lost. */
  uint64_t inside = command & EduDmaFromDevice ? state->dmaSrc : state->dmaDst;
  if (!insideBuffer(inside, state->dmaCount))
    return false;
  heal(state);
  if (state->lateDue)
    bringLate(model);
  state->dmaCmd = command;
  state->dmaDone = state->now + model->options.dmaTime;
  return true;
}

static bool crossesPage(uint64_t hostAddress, uint64_t count) {
  return count && hostAddress / HostPage != (hostAddress + count - 1) / HostPage;
}

/* How many bytes of a transfer arrive. */
static uint64_t bytesThatArrive(const EduModel *model, uint64_t hostAddress, uint64_t count) {
  bool loses = model->options.fault == EduFaultDmaLastByte && crossesPage(hostAddress, count);
  return loses ? count - 1 : count;
}

/* fault=dma-heals: the last byte that came is kept back until the next transfer. */
static void keepLastByte(EduState *state, uint64_t inside, uint64_t count, uint8_t before) {
  state->lost = inside + count;
  state->lostByte = state->buffer[inside + count - 1];
  state->buffer[inside + count - 1] = before;
}

/* All of the data moves at the end of the transfer's time, as in QEMU. */
static void finishDma(EduModel *model) {
  EduState *state = &model->state;
  bool fromDevice = state->dmaCmd & EduDmaFromDevice;
  uint64_t inside = (fromDevice ? state->dmaSrc : state->dmaDst) - EduBufferBase;
  uint64_t host = (fromDevice ? state->dmaDst : state->dmaSrc) & model->options.dmaMask;
  uint64_t count = bytesThatArrive(model, host, state->dmaCount);
  bool crosses = crossesPage(host, state->dmaCount);
  uint8_t last = count ? state->buffer[inside + count - 1] : 0;
  state->armed |= crosses;
  if (count && fromDevice && model->options.fault == EduFaultEarlyDone) {
    state->lateDue = later(state->now, LateBy);
    state->lateHost = host;
    state->lateInside = inside;
    state->lateCount = count;
  } else if (count && fromDevice) {
    if (model->bus.dmaWrite(model->bus.context, host, state->buffer + inside, count) != 0)
      model->bus.warn(model->bus.context, "DMA to host memory that is not mapped: dropped");
  } else if (count) {
    if (model->bus.dmaRead(model->bus.context, host, state->buffer + inside, count) != 0) {
      model->bus.warn(model->bus.context, "DMA from host memory that is not mapped: all ones");
      memset(state->buffer + inside, 0xff, count);
    }
    if (crosses && model->options.fault == EduFaultDmaHeals)
      keepLastByte(state, inside, count, last);
  }
  state->dmaCmd &= ~(uint64_t)EduDmaRun;
  if (state->dmaCmd & EduDmaIrq)
    raiseInterrupt(model, EduIrqDma);
}

/* ---- What happens by itself ---- */

static bool nextEvent(const EduState *state, uint64_t *when) {
  bool found = false;
  *when = UINT64_MAX;
  if (state->status & EduStatusComputing) {
    *when = state->factorialDone;
    found = true;
  }
  if ((state->dmaCmd & EduDmaRun) && (!found || state->dmaDone < *when)) {
    *when = state->dmaDone;
    found = true;
  }
  if (state->lateDue && (!found || state->lateDue < *when)) {
    *when = state->lateDue;
    found = true;
  }
  return found;
}

/* Carries out what is due now; true if there was something. At the same instant the factorial comes first. */
static bool carryOutDue(EduModel *model) {
  EduState *state = &model->state;
  if ((state->status & EduStatusComputing) && state->factorialDone <= state->now) {
    finishFactorial(model);
    return true;
  }
  if ((state->dmaCmd & EduDmaRun) && state->dmaDone <= state->now) {
    finishDma(model);
    return true;
  }
  if (state->lateDue && state->lateDue <= state->now) {
    bringLate(model);
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
  bool wrong = model->options.fault == EduFaultLiveness && earlier == model->options.after;
  return wrong ? model->state.liveness ^ 1 : model->state.liveness;
}

/* What registers hold. */
static uint64_t showRegister(const EduModel *model, uint64_t address) {
  const EduState *state = &model->state;
  switch (address) {
  case EduIdent: return Identity;
  case EduLiveness: return state->liveness;
  case EduFactorial: return state->factorial;
  case EduStatus: return state->status;
  case EduIrqStatus: return state->irqStatus;
  case EduDmaSrc: return state->dmaSrc;
  case EduDmaDst: return state->dmaDst;
  case EduDmaCount: return state->dmaCount;
  case EduDmaCmd: return state->dmaCmd;
  default: return UINT64_MAX; /* Write-only registers too. */
  }
}

static uint64_t readRegister(EduModel *model, uint64_t address) {
  return address == EduLiveness ? readLiveness(model) : showRegister(model, address);
}

/* DMA registers cannot be changed under a running transfer. */
static void writeDmaRegister(EduState *state, uint64_t *which, uint64_t value) {
  if (!(state->dmaCmd & EduDmaRun))
    *which = value;
}

uint64_t eduRead(EduModel *model, uint64_t address, unsigned width) {
  passTime(model, model->options.accessTime);
  if (!reachesDevice(address, width))
    return 0;
  uint64_t value = deviceAnswers(address, width) ? readRegister(model, address) : UINT64_MAX;
  return width == 8 ? value : (uint32_t)value;
}

bool eduPeek(const EduModel *model, uint64_t address, unsigned width, uint64_t *value) {
  if (!reachesDevice(address, width) || !deviceAnswers(address, width))
    return false;
  uint64_t shown = showRegister(model, address);
  *value = width == 8 ? shown : (uint32_t)shown;
  return true;
}

bool eduWrite(EduModel *model, uint64_t address, unsigned width, uint64_t value) {
  EduState *state = &model->state;
  passTime(model, model->options.accessTime);
  if (!reachesDevice(address, width) || !deviceAnswers(address, width))
    return true;
  uint32_t word = (uint32_t)value;
  value = width == 8 ? value : word;
  switch (address) {
  case EduLiveness: state->liveness = ~word; break;
  case EduFactorial: startFactorial(model, word); break;
  case EduStatus:
    state->status = (state->status & ~(uint32_t)EduStatusIrqOnFactorial) | (word & EduStatusIrqOnFactorial);
    break;
  case EduIrqRaise: raiseInterrupt(model, word); break;
  case EduIrqAck: acknowledge(model, word); break;
  case EduDmaSrc: writeDmaRegister(state, &state->dmaSrc, value); break;
  case EduDmaDst: writeDmaRegister(state, &state->dmaDst, value); break;
  case EduDmaCount: writeDmaRegister(state, &state->dmaCount, value); break;
  case EduDmaCmd: return startDma(model, value);
  default: break; /* Read-only registers and holes take no writes. */
  }
  return true;
}

bool eduStateValid(const EduState *state) {
  uint64_t inside = state->dmaCmd & EduDmaFromDevice ? state->dmaSrc : state->dmaDst;
  bool late = !state->lateDue || insideBuffer(state->lateInside + EduBufferBase, state->lateCount);
  return state->version == StateVersion && state->lost <= EduBufferSize && late &&
         (!(state->dmaCmd & EduDmaRun) || insideBuffer(inside, state->dmaCount));
}

void eduReset(EduModel *model) {
  uint64_t now = model->state.now;
  memset(&model->state, 0, sizeof model->state);
  model->state.version = StateVersion;
  model->state.now = now;
}
