// From layers to Minnow commands: which bytes go where in the 64 KiB scratchpad, in which tiles, on which
// queue. Pure: addresses in, commands out; the same for every inference.
//
// A tile is some rows of a layer's output and some of its channels. Queue 1 loads tiles, queue 0 computes and
// stores them; while queue 0 works on one tile, queue 1 loads the next into the other buffer. Semaphores
// order the two:
//   0, 1   buffer 0, 1 is loaded (queue 1 signals, queue 0 waits)
//   2, 3   the tile that used buffer 0, 1 no longer needs what was loaded (queue 0 signals, queue 1 waits)
//
//   scratchpad   | biases of all layers | weights 0 | weights 1 | input 0 | input 1 | sums (int32) | output |
//
// Convolutions take no im2col copy: in a picture with channels innermost, the pixels under one row of the
// kernel lie behind each other, so a GEMM whose `lda` is one stride of pixels and whose k is (kernel width ·
// channels) sees the columns of im2col as overlapping rows of A. One GEMM for each row of the kernel,
// accumulated. With stride 1 it runs on across the ends of lines (the sums there belong to no pixel and are
// left behind by the store); otherwise there is one for each line of the output. Depthwise convolutions are
// the same for each group of 8 channels, loaded as planes by a chain of strided transfers, with diagonal
// matrices for weights: the array's width is 8.
#pragma once

#include "hal/minnow/driver/Commands.h"
#include "hal/minnow/driver/Parameters.h"

namespace tapeback::minnow {

/// What lies where in the arena: the network's host memory, one allocation. Offsets in bytes.
struct ArenaLayout {
  uint32_t blob = 0;
  std::vector<uint32_t> tensors; ///< With borders.
  uint32_t descriptors = 0;      ///< Last: how many there are is known when all is lowered.
};
ArenaLayout layOut(const Network &network, const Blob &blob);

struct Tile {
  std::vector<minnow_command> load;    ///< Queue 1.
  std::vector<minnow_command> compute; ///< Queue 0.
};

struct LoweredNetwork {
  std::vector<minnow_command> prologue; ///< Queue 1, once after a reset: the biases, which then stay.
  std::vector<std::vector<Tile>> layers;
  std::vector<minnow_descriptor> descriptors; ///< To be put at the arena's descriptors.

  /// Of the arena; the same wherever it lies.
  size_t arenaBytes(const ArenaLayout &layout) const {
    return layout.descriptors + descriptors.size() * sizeof(minnow_descriptor);
  }
};

/// `arena` is the device's address of the arena. Nothing, with a reason, if a layer cannot be made to fit.
struct LoweringResult {
  LoweredNetwork network;
  std::string failure; ///< Empty: all well.
};
/// Only the first `scratchpad` bytes are used: the fewer, the more tiles.
LoweringResult lower(const Network &network, const NetworkParameters &parameters, const Blob &blob,
                     const ArenaLayout &layout, uint64_t arena, uint32_t scratchpad = MINNOW_SCRATCHPAD_SIZE);

} // namespace tapeback::minnow
