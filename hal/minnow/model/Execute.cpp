// What commands do, DMA excepted (SPEC.md, section 4).
#include "hal/minnow/model/Arithmetic.h"
#include "hal/minnow/model/Costs.h"
#include "hal/minnow/model/Counters.h"
#include "hal/minnow/model/Device.h"

namespace minnow {
namespace {

bool isBlockedIn(const QueueState &queue, Opcode opcode) {
  return queue.phase == Phase::Blocked && queue.command.opcode() == opcode;
}

void signal(Device &device, unsigned q) {
  State &state = device.state;
  const QueueState &queue = state.queues[q], &other = state.queues[1 - q];
  uint32_t which = queue.command.word[2];
  if (state.semaphores[which] == 255)
    return fail(device, q, {ErrorCode::SemaphoreOverflow, which}, queue.command.word[0]);
  ++state.semaphores[which];
  complete(device, q);
  if (isBlockedIn(other, Wait) && other.command.word[2] == which) {
    --state.semaphores[which];
    complete(device, 1 - q);
  }
}

void wait(Device &device, unsigned q) {
  QueueState &queue = device.state.queues[q];
  uint8_t &semaphore = device.state.semaphores[queue.command.word[2]];
  if (semaphore == 0) {
    queue.phase = Phase::Blocked;
    return;
  }
  --semaphore;
  complete(device, q);
}

void barrier(Device &device, unsigned q) {
  QueueState *queues = device.state.queues;
  queues[q].phase = Phase::Blocked;
  if (!isBlockedIn(queues[1 - q], Barrier))
    return;
  complete(device, 0);
  complete(device, 1);
}

void fence(Device &device, unsigned q) {
  const Command &command = device.state.queues[q].command;
  uint64_t address = command.wide(2), value = command.wide(4);
  if (!device.bus.write(device.bus.context, address, &value, sizeof value))
    return fail(device, q, {ErrorCode::BusError, address}, command.word[0]);
  bool interrupts = command.flag();
  complete(device, q);
  if (interrupts)
    raise(device, irqFence0 << q);
}

} // namespace

void beginCommand(Device &device, unsigned q) {
  QueueState &queue = device.state.queues[q];
  if (queue.command.isDma())
    beginDma(device, q);
  else
    queue.remaining = commandTime(device, q, queue.command);
}

void endCommandStep(Device &device, unsigned q) {
  const Command &command = device.state.queues[q].command;
  const uint32_t *w = command.word;
  switch (command.opcode()) {
  case DmaLoad:
  case DmaStore:
  case DmaChain: return endDmaStep(device, q);
  case Fence: return fence(device, q);
  case Signal: return signal(device, q);
  case Wait: return wait(device, q);
  case Barrier: return barrier(device, q);
  case Gemm: count(device.state, Macs, uint64_t(w[5]) * w[6] * w[7]); break;
  default: break;
  }
  compute(command, device.state.scratchpad); // Nothing for NOP.
  complete(device, q);
}

} // namespace minnow
