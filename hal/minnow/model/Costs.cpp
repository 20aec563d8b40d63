#include "hal/minnow/model/Costs.h"
#include "hal/minnow/model/Counters.h"

namespace minnow {
namespace {

/// 0 … 31 cycles, from a generator of Marsaglia's kind, if option `jitter` asks for it.
uint64_t jitter(Device &device) {
  uint64_t &x = device.state.jitter;
  if (!x)
    return 0;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x >> 59;
}

/// What a step of `cycles` in the scratchpad loses to the other queue's step that is under way there: one
/// cycle in eight of those that they share.
uint64_t conflict(Device &device, unsigned q, uint64_t cycles) {
  const QueueState &other = device.state.queues[1 - q];
  if (other.phase != Phase::Running || !other.command.usesScratchpad())
    return 0;
  uint64_t others = other.remaining / nsPerCycle;
  uint64_t lost = (others < cycles ? others : cycles) / 8;
  count(device.state, WaitScratchpad, lost);
  return lost;
}

uint64_t words(uint64_t bytes) {
  return (bytes + 7) / 8;
}

uint64_t computeCycles(const Command &command) {
  const uint32_t *w = command.word;
  switch (command.opcode()) {
  case Gemm: // Tiles of 8×8, each filled and drained.
    return words(w[5]) * words(w[6]) * (uint64_t(w[7]) + 16);
  case Vadd32: return w[5] * words(uint64_t(w[6]) * 4) * 3;
  case Vadd8: return w[5] * words(w[6]) * 3;
  case Relu8: return w[5] * words(w[6]) * 2;
  case Requant: return w[5] * (words(uint64_t(w[6]) * 4) + words(w[6]));
  case Maxpool8: {
    uint64_t outHeight = (w[5] - w[8]) / w[9] + 1, outWidth = (w[6] - w[8]) / w[9] + 1;
    return outHeight * outWidth * words(w[7]) * (uint64_t(w[8]) * w[8] + 1);
  }
  default: return 0;
  }
}

} // namespace

uint64_t burstTime(Device &device) {
  device.work += 64;
  return (device.options.memoryLatency + 8 + jitter(device)) * nsPerCycle;
}

uint64_t rowTime(Device &device, unsigned q, uint32_t rowBytes) {
  device.work += 64 + rowBytes;
  uint64_t cycles = words(rowBytes) + 2 * ((rowBytes + 63) / 64);
  cycles += conflict(device, q, cycles);
  return (device.options.memoryLatency + cycles + jitter(device)) * nsPerCycle;
}

uint64_t commandTime(Device &device, unsigned q, const Command &command) {
  uint64_t cycles = computeCycles(command);
  device.work += 64 + cycles * 8;
  cycles += conflict(device, q, cycles);
  if (command.opcode() == Fence)
    cycles += device.options.memoryLatency;
  return (cycles + 8 + jitter(device)) * nsPerCycle;
}

} // namespace minnow
