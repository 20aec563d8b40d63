#include "hal/minnow/rtl/HostBus.h"
#include <algorithm>
#include <cstring>

namespace tapeback::minnow {

void HostBus::restart() {
  state = State{};
  state.random = options.seed;
  state.answering = -1;
}

/// splitmix64.
uint64_t HostBus::draw() {
  uint64_t z = state.random += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

void HostBus::schedule(Burst &burst, uint64_t now) {
  uint64_t extra = options.jitter ? draw() % (options.jitter + 1) : 0;
  uint64_t &last = state.lastDue[burst.id % ids];
  burst.due = last = std::max(last, now + options.latency + extra);
  burst.complete = 1;
}

/// Host memory is accessed now. A refused burst moves nothing and is answered by one beat.
void HostBus::begin(Burst &burst) {
  uint64_t size = uint64_t(burst.beats) * 8;
  int status = burst.write ? host.dma_write(host.host, burst.address, burst.data, size)
                           : host.dma_read(host.host, burst.address, burst.data, size);
  burst.error = status != TAPEBACK_MODEL_OK;
}

BusToDevice HostBus::offer(uint64_t now) {
  if (state.answering < 0) {
    for (uint32_t i = 0; i < state.count; ++i) {
      const Burst &burst = state.bursts[i];
      if (!burst.complete || burst.due > now)
        continue;
      const Burst *best = state.answering < 0 ? nullptr : &state.bursts[state.answering];
      if (!best || burst.due < best->due || (burst.due == best->due && burst.order < best->order))
        state.answering = int32_t(i);
    }
    if (state.answering < 0)
      return {};
    begin(state.bursts[state.answering]);
  }
  const Burst &burst = state.bursts[state.answering];
  BusToDevice beat;
  beat.valid = true;
  beat.write = burst.write;
  beat.error = burst.error;
  beat.last = burst.write || burst.error || burst.given + 1 == burst.beats;
  beat.id = burst.id;
  beat.data = burst.write || burst.error ? 0 : burst.data[burst.given];
  return beat;
}

void HostBus::finishCycle(uint64_t now, const BusFromDevice &from) {
  if (state.answering >= 0 && from.responseReady) {
    Burst &burst = state.bursts[state.answering];
    if (burst.write || burst.error || ++burst.given == burst.beats) {
      remove(uint32_t(state.answering));
      state.answering = -1;
    }
  }
  if (from.dataValid && state.count) {
    // Data follows its request before the next request: it belongs to the newest burst.
    Burst &burst = state.bursts[state.count - 1];
    if (burst.write && !burst.complete && burst.received < maxBeats) {
      burst.data[burst.received++] = from.data;
      if (from.dataLast)
        schedule(burst, now);
    }
  }
  if (from.requestValid && state.count < maxBursts) {
    Burst &burst = state.bursts[state.count++];
    burst = Burst{};
    burst.address = from.requestAddress;
    burst.order = state.order++;
    burst.id = from.requestId;
    burst.beats = uint8_t(std::clamp<unsigned>(from.requestBeats, 1, maxBeats));
    burst.write = from.requestWrite;
    if (!burst.write)
      schedule(burst, now);
  }
}

/// Keeps the order of the others.
void HostBus::remove(uint32_t index) {
  std::copy(state.bursts + index + 1, state.bursts + state.count, state.bursts + index);
  state.bursts[--state.count] = Burst{};
}

bool HostBus::restore(const State &saved) {
  if (saved.count > maxBursts || saved.answering < -1 || saved.answering >= int32_t(saved.count))
    return false;
  for (uint32_t i = 0; i < saved.count; ++i) {
    const Burst &burst = saved.bursts[i];
    if (burst.id >= ids || burst.beats < 1 || burst.beats > maxBeats || burst.given >= burst.beats ||
        burst.received > maxBeats)
      return false;
  }
  state = saved;
  return true;
}

} // namespace tapeback::minnow
