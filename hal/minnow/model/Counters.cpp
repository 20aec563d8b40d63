#include "hal/minnow/model/Counters.h"
#include "hal/minnow/model/Device.h"
#include <cstring>

namespace minnow {
namespace {

constexpr unsigned widths[counterCount] = {48, 48, 40, 40, 40, 16, 32, 40, 40, 40, 24, 32};

} // namespace

void count(State &state, Counter counter, uint64_t amount) {
  if (!state.enabled || state.freeze)
    return;
  uint64_t mask = (uint64_t(1) << widths[counter]) - 1;
  state.counters[counter] = (state.counters[counter] + amount) & mask;
}

void countTime(State &state, uint64_t nanoseconds) {
  // Whole cycles that end in this time; written so that nothing overflows.
  uint64_t part = state.partOfCycle + nanoseconds % nsPerCycle;
  uint64_t cycles = nanoseconds / nsPerCycle + part / nsPerCycle;
  state.partOfCycle = part % nsPerCycle;

  bool array = false, dma = false;
  uint64_t blocked = 0, empty = 0;
  for (const QueueState &queue : state.queues) {
    array |= queue.phase == Phase::Running && queue.command.opcode() == Gemm;
    dma |= queue.phase == Phase::Running && queue.command.isDma();
    blocked += queue.phase == Phase::Blocked;
    empty += queue.size != 0 && !isBusy(queue);
  }
  count(state, Cycles, cycles);
  count(state, ArrayBusy, array ? cycles : 0);
  count(state, DmaBusy, dma ? cycles : 0);
  count(state, WaitSync, blocked * cycles);
  count(state, WaitQueue, empty * cycles);
}

void writeCounterControl(State &state, uint32_t value) {
  state.freeze = value & 1;
  if (value & 2)
    memcpy(state.snapshot, state.counters, sizeof state.snapshot);
  if (value & 4)
    memset(state.counters, 0, sizeof state.counters);
}

} // namespace minnow
