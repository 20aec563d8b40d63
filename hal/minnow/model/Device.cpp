#include "hal/minnow/model/Device.h"
#include "hal/minnow/model/Counters.h"
#include <cstring>

namespace minnow {
namespace {

/// The manual allows 1,000.
constexpr uint64_t softResetCycles = 100;

/// Some milliseconds of real time.
constexpr uint64_t workPerAdvance = 16000000;

/// Nanoseconds to the next event, at most `limit`.
uint64_t untilEvent(const State &state, uint64_t limit) {
  auto consider = [&](uint64_t remaining) { limit = remaining < limit ? remaining : limit; };
  if (state.resetRemaining)
    consider(state.resetRemaining);
  for (const QueueState &queue : state.queues)
    if (queue.phase == Phase::Fetching || queue.phase == Phase::Running)
      consider(queue.remaining);
  return limit;
}

/// Moves the clock by `step` (no event lies before its end) and carries out what is then due.
void moveTo(Device &device, uint64_t step) {
  State &state = device.state;
  countTime(state, step);
  state.now += step;
  if (state.resetRemaining)
    state.resetRemaining -= step;
  // First who is due, then the consequences: a step that an event of the same instant begins is not due.
  bool due[queueCount] = {};
  for (unsigned q = 0; q < queueCount; ++q) {
    QueueState &queue = state.queues[q];
    if (queue.phase != Phase::Fetching && queue.phase != Phase::Running)
      continue;
    queue.remaining -= step;
    due[q] = queue.remaining == 0;
  }
  for (unsigned q = 0; q < queueCount; ++q) {
    // Queue 0's end may have taken queue 1's fetch away (a halt).
    bool still = state.queues[q].phase == Phase::Fetching || state.queues[q].phase == Phase::Running;
    if (due[q] && still)
      endStep(device, q);
  }
}

} // namespace

void resetDevice(Device &device) {
  State &state = device.state;
  uint64_t now = state.now, part = state.partOfCycle;
  memset(&state, 0, sizeof state);
  state.version = stateVersion;
  state.now = now;
  state.partOfCycle = part;
  state.jitter = device.options.jitter;
}

void beginSoftReset(Device &device) {
  resetDevice(device);
  device.state.resetRemaining = softResetCycles * nsPerCycle;
}

void passTime(Device &device, uint64_t nanoseconds) {
  while (nanoseconds) {
    uint64_t step = untilEvent(device.state, nanoseconds);
    moveTo(device, step);
    nanoseconds -= step;
  }
}

uint64_t advance(Device &device, uint64_t budget) {
  uint64_t passed = 0, messages = device.messages, work = device.work;
  while (passed < budget && device.messages == messages && device.work - work < workPerAdvance) {
    uint64_t step = untilEvent(device.state, budget - passed);
    moveTo(device, step);
    passed += step;
  }
  return passed;
}

} // namespace minnow
