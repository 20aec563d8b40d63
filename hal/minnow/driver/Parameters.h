// A network's synthetic weights, and the file they would be in: one blob that lies in host memory as the
// loader put it, layer after layer. Weights begin at multiples of 64 bytes, as the bus likes it; headers and
// biases on the next 8-byte boundary, so that a long bias crosses a page of 4 KiB in the middle of a burst.
//
// Everything follows from a seed. Scales are calibrated as a converter does it: from the range of each
// layer's sums on the first input, so that a few of the largest saturate.
#pragma once

#include "hal/minnow/driver/Network.h"
#include "hal/minnow/driver/Oracle.h"

namespace tapeback::minnow {

struct LayerParameters {
  /// Convolution: kernel height × kernel width × channels in × channels out. Depthwise: kernel height ×
  /// kernel width × channels. Others: none.
  std::vector<int8_t> weights;
  std::vector<int32_t> bias; ///< One per output channel; none for Add and AveragePool.
  uint32_t multiplier = 1, shift = 0;
  int32_t zeroPoint = 0;
};

struct NetworkParameters {
  std::vector<LayerParameters> layers; ///< As Network::layers.
};

NetworkParameters makeParameters(const Network &network, uint64_t seed);
/// The input of inference `number` (from 0). Random, as far as a channel is used.
Activation makeInput(const Network &network, uint64_t seed, uint64_t number);

/// Where a layer's parts begin in the blob.
struct BlobPlaces {
  uint32_t bias = 0, biasBytes = 0;
  uint32_t weights = 0, weightBytes = 0;
};
struct Blob {
  std::vector<uint8_t> bytes;
  std::vector<BlobPlaces> layers; ///< As Network::layers.
};

/// The blob: per layer a header of 24 bytes, the bias, the weights as the device wants them: convolutions as
/// they are, a matrix of (height·width·in) × out; depthwise as diagonal matrices, per group of 8 channels
/// (height·width·8) × 8; average pools as a row of ones.
Blob packBlob(const Network &network, const NetworkParameters &parameters);

} // namespace tapeback::minnow
