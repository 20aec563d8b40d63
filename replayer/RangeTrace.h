// A waveform of a range of packets: the target's trace is on from before the first until behind the last.
#pragma once

#include "hal/Target.h"
#include <string>

namespace tapeback {

struct TraceRange {
  std::string file;
  uint64_t firstPacket = 0, endPacket = ~uint64_t(0);
};

/// One thread. The target must outlive this; who makes one calls finish() whatever happens in between.
class RangeTrace {
public:
  RangeTrace(TraceRange range, Target &target) : range(std::move(range)), target(&target) {}

  /// Called before packet `next` is issued: switches on or off.
  llvm::Error before(uint64_t next);
  /// The first packet at or before `end` that must not be issued together with `next`: an edge of the range.
  uint64_t edgeBehind(uint64_t next, uint64_t end) const;
  llvm::Error finish();
  /// Some packet of the range was issued.
  bool written() const { return state == State::Written; }

private:
  enum class State : uint8_t { Before, On, Written };
  TraceRange range;
  Target *target;
  State state = State::Before;
};

} // namespace tapeback
