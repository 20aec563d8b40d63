#include "hal/minnow/driver/Oracle.h"
#include "hal/minnow/driver/Parameters.h"
#include <algorithm>

namespace tapeback::minnow {

namespace {

int8_t clamp(int64_t value, int64_t low) {
  return int8_t(std::min<int64_t>(std::max(value, low), 127));
}

/// Calls visit(sum's index, input's first channel, weight's first index) for each output pixel and each of
/// its window's places inside the picture.
template <typename Visit>
void eachTap(const Tensor &in, const Tensor &out, const Layer &layer, size_t weightsPerTap, Visit visit) {
  for (uint32_t y = 0; y < out.height; ++y)
    for (uint32_t x = 0; x < out.width; ++x)
      for (uint32_t ky = 0; ky < layer.kernelHeight; ++ky)
        for (uint32_t kx = 0; kx < layer.kernelWidth; ++kx) {
          int64_t row = int64_t(y) * layer.stride + ky - layer.padTop;
          int64_t column = int64_t(x) * layer.stride + kx - layer.padLeft;
          if (row < 0 || column < 0 || row >= in.height || column >= in.width)
            continue;
          visit((size_t(y) * out.width + x) * out.channels,
                (size_t(row) * in.width + size_t(column)) * in.channels,
                (size_t(ky) * layer.kernelWidth + kx) * weightsPerTap);
        }
}

} // namespace

std::vector<int32_t> sumsOf(const Network &network, const Layer &layer, const LayerParameters &parameters,
                            const Activation &input) {
  const Tensor &in = network.tensors[layer.input], &out = network.tensors[layer.output];
  const std::vector<int8_t> &weights = parameters.weights;
  std::vector<uint32_t> sums(out.elements()); // Modulo 2³², as the device adds.
  if (layer.kind == LayerKind::AveragePool) {
    for (size_t i = 0; i < input.size(); ++i)
      sums[i % out.channels] += uint32_t(int32_t(input[i]));
  } else if (layer.kind == LayerKind::Depthwise) {
    eachTap(in, out, layer, in.channels, [&](size_t to, size_t from, size_t weight) {
      for (uint32_t c = 0; c < in.channels; ++c)
        sums[to + c] += uint32_t(int32_t(input[from + c]) * weights[weight + c]);
    });
  } else {
    eachTap(in, out, layer, size_t(in.channels) * out.channels, [&](size_t to, size_t from, size_t weight) {
      for (uint32_t c = 0; c < in.channels; ++c)
        for (uint32_t o = 0; o < out.channels; ++o)
          sums[to + o] += uint32_t(int32_t(input[from + c]) * weights[weight + size_t(c) * out.channels + o]);
    });
  }
  std::vector<int32_t> result(sums.size());
  for (size_t i = 0; i < sums.size(); ++i)
    result[i] =
        int32_t(sums[i] + (parameters.bias.empty() ? 0 : uint32_t(parameters.bias[i % out.channels])));
  return result;
}

Activation requantised(const std::vector<int32_t> &sums, const LayerParameters &parameters, bool relu) {
  Activation result(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    int64_t product = int64_t(sums[i]) * parameters.multiplier;
    if (parameters.shift)
      product = (product + (int64_t(1) << (parameters.shift - 1))) >> parameters.shift;
    result[i] = clamp(product + parameters.zeroPoint, relu ? 0 : -128);
  }
  return result;
}

Activation outputOf(const Network &network, const Layer &layer, const LayerParameters &parameters,
                    const Activation &input, const Activation &second) {
  if (layer.kind != LayerKind::Add)
    return requantised(sumsOf(network, layer, parameters, input), parameters, layer.relu);
  Activation result(input.size());
  for (size_t i = 0; i < input.size(); ++i)
    result[i] = clamp(int64_t(input[i]) + second[i], layer.relu ? 0 : -128);
  return result;
}

} // namespace tapeback::minnow
