// The reference model of Minnow, written from hal/minnow/SPEC.md alone: functional, with plausible times.
//
// Time moves from event to event: an event is the end of a queue's step (a fetch, a row of DMA, a whole
// computation, a fence …), and a step's effects happen at its end. Both queues' steps run side by side in
// device time; of two that end together, queue 0's comes first. So every run with the same accesses at the
// same times is the same.
//
// This knows the device and nothing of the plugin ABI but its options: Plugin.cpp wraps it. No globals, no
// exceptions, no memory of its own; not thread-safe.
#pragma once

#include "hal/minnow/model/Checks.h"
#include "hal/minnow/model/Options.h"
#include "hal/minnow/model/State.h"

namespace minnow {

/// What the device is plugged into. False from read and write: refused, nothing moved.
struct Bus {
  void *context;
  bool (*read)(void *context, uint64_t address, void *out, uint64_t size);
  bool (*write)(void *context, uint64_t address, const void *in, uint64_t size);
  void (*interrupt)(void *context);
};

struct Device {
  State state;
  Options options;
  Bus bus;
  uint64_t messages; ///< Interrupts sent, ever; tells advance() that one was.
  uint64_t work;     ///< Rough units of real work done, ever; bounds one advance().
};

// Device.cpp: life and time.

/// To the state after power-on. Device time and the timestamp go on.
void resetDevice(Device &device);
/// SOFT_RESET: the same, but it is reported as under way for a while, in which writes are lost.
void beginSoftReset(Device &device);
/// Lets exactly `nanoseconds` pass.
void passTime(Device &device, uint64_t nanoseconds);
/// Lets at most `budget` nanoseconds pass: less if an interrupt was sent, or enough real work was done for
/// one call. Never none of a budget that is not 0. Returns how much passed.
uint64_t advance(Device &device, uint64_t budget);

// Registers.cpp: one access each, which takes options.accessTime and acts at its end. False: a bus error.

bool readRegister(Device &device, uint64_t offset, uint32_t width, uint64_t &value);
/// What a read would give, without it. False: none, or one that does something.
bool peekRegister(const Device &device, uint64_t offset, uint32_t width, uint64_t &value);
bool writeRegister(Device &device, uint64_t offset, uint32_t width, uint64_t value);

// Queues.cpp: from HEAD to HEAD + 1.

/// Begins to fetch wherever a queue may and has something to do.
void startQueues(Device &device);
/// The step of queue q has come to its end.
void endStep(Device &device, unsigned q);
/// The command of queue q is finished: HEAD, DONE, COMMANDS.
void complete(Device &device, unsigned q);
/// The command of queue q failed. `opcode` is for ERR_OPCODE.
void fail(Device &device, unsigned q, Fault fault, uint32_t opcode);
/// Enters the halt as soon as it may.
void settleHalt(Device &device);
void resume(Device &device);
inline bool isBusy(const QueueState &queue) {
  return queue.head != queue.tail;
}
/// Whether queue q is executing a command, blocked or not.
inline bool isExecuting(const QueueState &queue) {
  return queue.phase == Phase::Running || queue.phase == Phase::Blocked;
}

// Execute.cpp: commands.

/// The command of queue q was fetched and checked: its first step begins.
void beginCommand(Device &device, unsigned q);
/// The end of a step of a running command.
void endCommandStep(Device &device, unsigned q);

// Dma.cpp: rows and descriptors.

void beginDma(Device &device, unsigned q);
void endDmaStep(Device &device, unsigned q);

// Interrupts.cpp

constexpr uint32_t irqFence0 = 1, irqError = 4, irqBits = 7;
void raise(Device &device, uint32_t bits);
void writeIrqEnable(Device &device, uint32_t bits);

// Validity.cpp

/// Whether a state that came from outside can be taken: every index and every command in it is what this
/// model could have put there.
bool isValid(const State &state);

} // namespace minnow
