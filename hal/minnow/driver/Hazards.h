// Which bytes the two queues' commands touch, so that a plan never lets two commands race.
//
// Commands have sequence numbers in the order in which the plan makes them, which is one that the device may
// take. A queue knows the other's commands up to a number: those that SIGNAL/WAIT or BARRIER put in front of
// its next one.
#pragma once

#include "hal/minnow/driver/Evaluate.h"
#include <algorithm>

namespace tapeback::stress {

class Hazards {
public:
  explicit Hazards(uint32_t arenaBytes)
      : scratchpad(MINNOW_SCRATCHPAD_SIZE / granule), host(arenaBytes / granule) {}

  /// Number of the newest command.
  uint64_t newest() const { return sequence; }
  /// All that was done is known to both: the device was idle.
  void synchronise() { known[0] = known[1] = sequence; }
  /// What comes on `queue` comes after what the other did up to `number`.
  void learn(unsigned queue, uint64_t number) { known[queue] = std::max(known[queue], number); }
  uint64_t knows(unsigned queue) const { return known[queue]; }

  bool races(unsigned queue, const std::vector<Extent> &extents) const {
    bool found = false;
    for (const Extent &extent : extents)
      each(extent, [&](size_t i) {
        const Granule &granule = (extent.host ? host : scratchpad)[i];
        uint64_t other = granule.written[1 - queue];
        if (extent.writes)
          other = std::max(other, granule.read[1 - queue]);
        found = found || other > known[queue];
      });
    return found;
  }
  /// A new command touches these.
  void add(unsigned queue, const std::vector<Extent> &extents) {
    ++sequence;
    for (const Extent &extent : extents)
      each(extent, [&](size_t i) {
        Granule &granule = (extent.host ? host : scratchpad)[i];
        (extent.writes ? granule.written : granule.read)[queue] = sequence;
      });
  }
  /// Number of the last command of `queue` that wrote to these eight bytes of host memory.
  uint64_t hostWriter(unsigned queue, uint64_t offset) const { return host[offset / granule].written[queue]; }

private:
  static constexpr uint64_t granule = 8; ///< Operands begin at multiples of 8; nothing smaller is shared.
  struct Granule {
    uint64_t written[2] = {}, read[2] = {};
  };

  template <typename Function>
  static void each(const Extent &extent, Function function) {
    for (uint64_t row = 0; row < extent.rows; ++row) {
      uint64_t at = extent.at + row * extent.stride;
      for (uint64_t i = at / granule; i <= (at + extent.rowBytes - 1) / granule; ++i)
        function(i);
    }
  }

  uint64_t sequence = 0, known[2] = {};
  std::vector<Granule> scratchpad, host;
};

} // namespace tapeback::stress
