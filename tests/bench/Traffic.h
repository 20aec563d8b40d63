// Packets as the benchmarks want them. The same seed gives the same packets.
#pragma once

#include "format/Packet.h"
#include <cstddef>

namespace tapeback::bench {

enum class Traffic {
  Registers, ///< A driver's loop over a dozen registers.
  Ring,      ///< A command ring of 1,024 entries with varied 64-bit words, and its doorbell.
  Random,    ///< Noise: the worst there is.
};
std::vector<Packet> traffic(Traffic kind, size_t count);

} // namespace tapeback::bench
