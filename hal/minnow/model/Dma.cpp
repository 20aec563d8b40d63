// Rows, bursts and descriptor chains (SPEC.md, sections 4 and 5). A step is one row, or one descriptor read.
#include "hal/minnow/model/Costs.h"
#include "hal/minnow/model/Counters.h"
#include "hal/minnow/model/Device.h"

namespace minnow {
namespace {

constexpr uint32_t mostBurstBytes = 64;

bool transfer(const Bus &bus, bool store, uint64_t host, uint8_t *scratchpad, uint32_t bytes) {
  return store ? bus.write(bus.context, host, scratchpad, bytes)
               : bus.read(bus.context, host, scratchpad, bytes);
}

void countBurst(State &state, bool store, uint64_t bytes, uint64_t bursts) {
  count(state, store ? WriteBytes : ReadBytes, bytes);
  count(state, store ? WriteBursts : ReadBursts, bursts);
}

/// Moves a row burst by burst, until one is refused.
Fault moveBursts(Device &device, const DmaJob &job, uint64_t host, uint8_t *scratchpad) {
  for (uint32_t at = 0; at < job.rowBytes; at += mostBurstBytes) {
    uint32_t bytes = job.rowBytes - at < mostBurstBytes ? job.rowBytes - at : mostBurstBytes;
    if (!transfer(device.bus, job.store, host + at, scratchpad + at, bytes))
      return {ErrorCode::BusError, host + at};
    countBurst(device.state, job.store, bytes, 1);
  }
  return {};
}

Fault moveRow(Device &device, const DmaJob &job, uint32_t row) {
  uint64_t host = job.host + uint64_t(row) * job.hostStride;
  uint8_t *scratchpad = device.state.scratchpad + job.scratchpad + uint64_t(row) * job.scratchpadStride;
  // All of it at once is the same, and faster, if all of it is mapped.
  if (!transfer(device.bus, job.store, host, scratchpad, job.rowBytes))
    return moveBursts(device, job, host, scratchpad);
  countBurst(device.state, job.store, job.rowBytes, (job.rowBytes + mostBurstBytes - 1) / mostBurstBytes);
  return {};
}

void beginJob(Device &device, unsigned q, const DmaJob &job) {
  QueueState &queue = device.state.queues[q];
  queue.stage = DmaStage::Row;
  queue.job = job;
  queue.row = 0;
  queue.remaining = rowTime(device, q, job.rowBytes);
}

void beginDescriptor(Device &device, unsigned q, uint64_t address) {
  QueueState &queue = device.state.queues[q];
  queue.stage = DmaStage::Descriptor;
  queue.descriptor = address;
  queue.remaining = burstTime(device);
}

/// A descriptor was read, as late as this: the one before it has been carried out.
void endDescriptor(Device &device, unsigned q) {
  QueueState &queue = device.state.queues[q];
  uint32_t opcode = queue.command.word[0];
  Descriptor descriptor;
  if (!device.bus.read(device.bus.context, queue.descriptor, &descriptor, sizeof descriptor))
    return fail(device, q, {ErrorCode::BusError, queue.descriptor}, opcode);
  ++queue.descriptors;
  Fault fault = check(descriptor.job());
  if (!fault && queue.descriptors == mostDescriptors && !descriptor.isLast())
    fault = {ErrorCode::ChainTooLong, queue.descriptor};
  if (fault)
    return fail(device, q, fault, opcode);
  queue.last = descriptor.isLast();
  queue.next = descriptor.next;
  beginJob(device, q, descriptor.job());
}

/// All rows of a job are moved.
void endJob(Device &device, unsigned q) {
  QueueState &queue = device.state.queues[q];
  if (queue.command.opcode() != DmaChain || queue.last)
    return complete(device, q);
  if (Fault fault = checkDescriptorAddress(queue.next))
    return fail(device, q, fault, queue.command.word[0]);
  beginDescriptor(device, q, queue.next);
}

} // namespace

void beginDma(Device &device, unsigned q) {
  QueueState &queue = device.state.queues[q];
  queue.descriptors = 0;
  queue.last = 0;
  if (queue.command.opcode() == DmaChain)
    beginDescriptor(device, q, queue.command.wide(2));
  else
    beginJob(device, q, jobOf(queue.command));
}

void endDmaStep(Device &device, unsigned q) {
  QueueState &queue = device.state.queues[q];
  if (queue.stage == DmaStage::Descriptor)
    return endDescriptor(device, q);
  if (Fault fault = moveRow(device, queue.job, queue.row))
    return fail(device, q, fault, queue.command.word[0]);
  if (++queue.row == queue.job.rows)
    return endJob(device, q);
  queue.remaining = rowTime(device, q, queue.job.rowBytes);
}

} // namespace minnow
