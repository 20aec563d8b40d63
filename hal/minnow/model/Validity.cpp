// Whether a snapshot's bytes are a state that this model can be in: what is used as an index or a length is
// checked here, once, so that nothing else has to.
#include "hal/minnow/model/Device.h"

namespace minnow {
namespace {

bool isPlainFlag(uint32_t value) {
  return value <= 1;
}

bool isValidDma(const QueueState &queue) {
  if (queue.stage == DmaStage::Descriptor)
    return queue.command.opcode() == DmaChain && queue.descriptors < mostDescriptors;
  return queue.stage == DmaStage::Row && !check(queue.job) && queue.row < queue.job.rows &&
         isPlainFlag(queue.job.store) && isPlainFlag(queue.last) && queue.descriptors <= mostDescriptors;
}

bool isValidQueue(const QueueState &queue) {
  bool sizeValid =
      queue.size == 0 || (queue.size >= 2 && queue.size <= 1024 && (queue.size & (queue.size - 1)) == 0);
  uint32_t indices = queue.size ? queue.size : 1;
  if (!sizeValid || queue.head >= indices || queue.tail >= indices || queue.base % commandBytes)
    return false;
  uint8_t opcode = queue.command.opcode();
  switch (queue.phase) {
  case Phase::Idle: return true;
  case Phase::Fetching: return queue.remaining != 0;
  case Phase::Running:
    return queue.remaining != 0 && !check(queue.command) && (!queue.command.isDma() || isValidDma(queue));
  case Phase::Blocked: return (opcode == Wait || opcode == Barrier) && !check(queue.command);
  }
  return false;
}

} // namespace

bool isValid(const State &state) {
  for (const QueueState &queue : state.queues)
    if (!isValidQueue(queue))
      return false;
  return state.version == stateVersion && state.error.queue < queueCount && isPlainFlag(state.enabled) &&
         isPlainFlag(state.halting) && isPlainFlag(state.halted) && isPlainFlag(state.freeze) &&
         state.irqStatus <= irqBits && state.irqEnable <= irqBits && state.partOfCycle < nsPerCycle &&
         state.debugAddress <= scratchpadBytes - 4 && state.debugAddress % 4 == 0;
}

} // namespace minnow
