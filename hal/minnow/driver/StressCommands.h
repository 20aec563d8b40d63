// Random commands for the stress plan: good ones that stay inside the scratchpad and a region of host memory,
// and bad ones.
#pragma once

#include "hal/minnow/driver/Evaluate.h"
#include "hal/minnow/driver/StressRandom.h"

namespace tapeback::stress {

class CommandSource {
public:
  /// `state`: what operands hold now, to choose numbers that matter. `data` and `dataEnd`: device addresses
  /// of the host memory that commands may use; behind `dataEnd` nothing is mapped.
  CommandSource(Random &random, const Evaluation &state, uint64_t data, uint64_t dataEnd)
      : random(random), state(state), data(data), dataEnd(dataEnd) {}

  /// A defined command that passes all checks: GEMM or one of the vector unit. `half`: which half of the
  /// scratchpad it prefers.
  minnow_command compute(unsigned half);
  /// DMA_LOAD or DMA_STORE, all of it mapped.
  minnow_command transfer(unsigned half, bool store);
  /// A descriptor, not linked to others.
  minnow_descriptor descriptor(unsigned half, bool store);
  /// A command that fails: Evaluation says how.
  minnow_command failing(unsigned half);
  /// A descriptor that fails.
  minnow_descriptor failingDescriptor(unsigned half);

private:
  uint32_t dimension(uint32_t most);
  /// Where `bytes` (a multiple of 8) fit into the scratchpad.
  uint32_t place(unsigned half, uint64_t bytes);
  uint32_t stride(uint64_t rowBytes);
  minnow_command gemm(unsigned half);
  minnow_command vector(unsigned half);
  minnow_command requant(unsigned half);
  minnow_command pool(unsigned half);
  minnow_command broken(unsigned half);
  minnow_command refusedByBus(unsigned half);

  Random &random;
  const Evaluation &state;
  uint64_t data, dataEnd;
  uint32_t recent[2][8] = {}; ///< Where results went: good places to read from.
  unsigned recents = 0;
  uint32_t loadEnd[2] = {}; ///< Behind the last word that a load wrote: for commands that use it at once.
};

} // namespace tapeback::stress
