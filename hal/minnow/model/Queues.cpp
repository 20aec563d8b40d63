// The life of a command in its queue, and the halt (SPEC.md, sections 3 and 6).
#include "hal/minnow/model/Costs.h"
#include "hal/minnow/model/Counters.h"
#include "hal/minnow/model/Device.h"

namespace minnow {
namespace {

bool mayStart(const State &state) {
  return state.enabled && !state.halting && !state.resetRemaining;
}

uint32_t next(const QueueState &queue, uint32_t index) {
  return queue.size ? (index + 1) & (queue.size - 1) : 0;
}

void stepOverHead(QueueState &queue) {
  queue.head = next(queue, queue.head);
  ++queue.done;
  queue.phase = Phase::Idle;
}

void endFetch(Device &device, unsigned q) {
  QueueState &queue = device.state.queues[q];
  queue.phase = Phase::Idle;
  if (!mayStart(device.state) || !isBusy(queue))
    return; // ENABLE was cleared meanwhile: as if it had never begun.
  uint64_t address = queue.base + uint64_t(queue.head) * commandBytes;
  if (!device.bus.read(device.bus.context, address, &queue.command, sizeof queue.command))
    return fail(device, q, {ErrorCode::BusError, address}, 0);
  if (Fault fault = check(queue.command))
    return fail(device, q, fault, queue.command.word[0]);
  queue.phase = Phase::Running;
  beginCommand(device, q);
}

} // namespace

void startQueues(Device &device) {
  for (QueueState &queue : device.state.queues)
    if (mayStart(device.state) && queue.phase == Phase::Idle && queue.size && isBusy(queue)) {
      queue.phase = Phase::Fetching;
      queue.remaining = burstTime(device);
    }
}

void endStep(Device &device, unsigned q) {
  if (device.state.queues[q].phase == Phase::Fetching)
    endFetch(device, q);
  else
    endCommandStep(device, q);
  settleHalt(device);
  startQueues(device);
}

void complete(Device &device, unsigned q) {
  stepOverHead(device.state.queues[q]);
  count(device.state, Commands, 1);
}

void fail(Device &device, unsigned q, Fault fault, uint32_t opcode) {
  State &state = device.state;
  QueueState &queue = state.queues[q];
  queue.phase = Phase::Idle;
  if (state.halting)
    return; // The first error is kept. This command is still at HEAD and is executed again after RESUME.
  state.halting = 1;
  state.error = {uint32_t(fault.code), q, queue.head, opcode, fault.address};
  raise(device, irqError);
}

void settleHalt(Device &device) {
  State &state = device.state;
  if (!state.halting || state.halted)
    return;
  bool running = false;
  for (QueueState &queue : state.queues) {
    if (queue.phase == Phase::Fetching)
      queue.phase = Phase::Idle; // Not running yet: it is fetched again after RESUME.
    running |= queue.phase == Phase::Running;
  }
  state.halted = !running;
}

void resume(Device &device) {
  State &state = device.state;
  if (!state.halted)
    return;
  // HEAD and DONE, but not COMMANDS: what is skipped was not completed.
  stepOverHead(state.queues[state.error.queue]);
  state.error = {};
  state.halting = state.halted = 0;
  startQueues(device);
}

} // namespace minnow
