// Host memory as the RTL's bus master sees it: bursts are answered after a latency, with seeded jitter, in
// order for one id and in any order between ids.
//
// A burst becomes visible in host memory, or is taken from there, in the cycle in which its answer begins.
// One instance per device; not thread-safe. All that decides the future is in State, without pointers.
#pragma once

#include "hal/minnow/rtl/RtlOptions.h"
#include "hal/model/tapeback_model.h"

namespace tapeback::minnow {

/// What the master puts on the bus in a cycle, and whether it takes the beat that is offered.
struct BusFromDevice {
  bool requestValid, requestWrite;
  uint8_t requestId, requestBeats;
  uint64_t requestAddress;
  bool dataValid, dataLast;
  uint64_t data;
  bool responseReady;
};

/// The beat offered in a cycle.
struct BusToDevice {
  bool valid = false, write = false, error = false, last = false;
  uint8_t id = 0;
  uint64_t data = 0;
};

class HostBus {
public:
  HostBus(const tapeback_model_host &host, const RtlOptions &options) : host(host), options(options) {
    restart();
  }

  /// As after power-on: nothing outstanding, the drawing begins again.
  void restart();
  /// What is offered in cycle `now`. Begins a burst's answer if one is due; then host memory is accessed.
  BusToDevice offer(uint64_t now);
  /// The end of cycle `now`: what was asked, and whether the offer was taken.
  void finishCycle(uint64_t now, const BusFromDevice &from);
  bool idle() const { return state.count == 0; }

  static constexpr uint32_t maxBursts = 16, maxBeats = 8, ids = 4;

  struct Burst {
    uint64_t address, due, order;
    uint64_t data[maxBeats];
    uint8_t id, beats, given, received;
    uint8_t write, complete, error, unused;
  };
  struct State {
    uint64_t random, order;
    uint64_t lastDue[ids];
    Burst bursts[maxBursts];
    uint32_t count;
    int32_t answering; ///< Index of the burst whose answer has begun, or -1.
  };
  const State &saved() const { return state; }
  /// False: not a state that can be.
  bool restore(const State &saved);

private:
  uint64_t draw();
  void schedule(Burst &burst, uint64_t now);
  void begin(Burst &burst);
  void remove(uint32_t index);

  const tapeback_model_host &host;
  const RtlOptions &options;
  State state;
};

} // namespace tapeback::minnow
