// Executes a network on an Accelerator, layer by layer, and checks each layer against the oracle.
//
// On the tape: a span for the network, one for each inference, layer and tile; a marker "network/layer" at
// the begin of each layer, so that windows have the names of layers. At a layer's end: the fence, the memory
// check of the layer's output with its border, the interrupt acknowledged, idle, the exact counters.
#pragma once

#include "hal/minnow/driver/Accelerator.h"
#include "hal/minnow/driver/Lowering.h"

namespace tapeback::minnow {

struct RunOptions {
  uint64_t seed = 1;
  uint64_t inferences = 1;
  size_t layers = SIZE_MAX;                     ///< Only so many of the first.
  uint32_t scratchpad = MINNOW_SCRATCHPAD_SIZE; ///< Use only so many bytes of it.
  /// False: of each inference only the last output is looked at, and the counters once at the run's end.
  bool checkLayers = true;
  /// Called with each layer's expected output before it is compared: tests falsify it there.
  void (*beforeCheck)(size_t layer, Activation &expected) = nullptr;
};

struct RunFigures {
  uint64_t inferences = 0, layers = 0, tiles = 0; ///< Completed.
  ExactCounters counters;
};

/// False: see the accelerator's problem(), or `failure` if the network cannot be lowered.
bool runNetwork(Accelerator &accelerator, const Network &network, const RunOptions &options,
                RunFigures &figures, std::string &failure);

} // namespace tapeback::minnow
