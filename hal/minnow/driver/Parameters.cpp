#include "hal/minnow/driver/Parameters.h"
#include "hal/minnow/driver/Random.h"
#include <algorithm>
#include <cstring>

namespace tapeback::minnow {

namespace {

/// Sums are mapped so that the largest would become this: what lies above 127 saturates.
constexpr uint64_t calibrationPeak = 150;

/// The largest multiplier below 2³¹ (with its shift) that maps the largest sum to calibrationPeak.
void calibrate(LayerParameters &parameters, const std::vector<int32_t> &sums, bool relu) {
  int64_t largest = 1;
  for (int32_t sum : sums)
    largest = std::max(largest, relu ? int64_t(sum) : std::abs(int64_t(sum)));
  auto peak = uint64_t(largest);
  uint32_t shift = 0;
  while (shift < 40 && (calibrationPeak << (shift + 1)) / peak < (uint64_t(1) << 31))
    ++shift;
  parameters.shift = shift;
  parameters.multiplier = uint32_t(std::clamp<uint64_t>((calibrationPeak << shift) / peak, 1, 0x7fffffff));
}

void drawWeights(LayerParameters &parameters, const Network &network, const Layer &layer, Random &random) {
  const Tensor &in = network.tensors[layer.input], &out = network.tensors[layer.output];
  size_t taps = size_t(layer.kernelHeight) * layer.kernelWidth;
  size_t rows = layer.kind == LayerKind::Depthwise ? taps : taps * in.channels;
  parameters.weights.resize(rows * out.channels);
  // Two draws: small weights are the more frequent ones.
  for (size_t i = 0; i < parameters.weights.size(); ++i)
    if (i % out.channels < out.used)
      parameters.weights[i] = int8_t(random.between(-64, 63) + random.between(-63, 63));
  parameters.bias.resize(out.channels);
  for (uint32_t o = 0; o < out.used; ++o)
    parameters.bias[o] = random.between(-4000, 4000);
}

void align(std::vector<uint8_t> &bytes, size_t alignment) {
  bytes.resize((bytes.size() + alignment - 1) / alignment * alignment);
}

template <typename T>
void append(std::vector<uint8_t> &bytes, const T *items, size_t count) {
  const auto *first = reinterpret_cast<const uint8_t *>(items);
  bytes.insert(bytes.end(), first, first + count * sizeof(T));
  align(bytes, 8);
}

std::vector<int8_t> diagonal(const Layer &layer, const std::vector<int8_t> &weights, uint32_t channels) {
  uint32_t taps = layer.kernelHeight * layer.kernelWidth;
  std::vector<int8_t> matrices(size_t(taps) * channels * 8);
  for (uint32_t group = 0; group < channels / 8; ++group)
    for (uint32_t tap = 0; tap < taps; ++tap)
      for (uint32_t c = 0; c < 8; ++c)
        matrices[((size_t(group) * taps + tap) * 8 + c) * 8 + c] =
            weights[size_t(tap) * channels + group * 8 + c];
  return matrices;
}

} // namespace

NetworkParameters makeParameters(const Network &network, uint64_t seed) {
  Random random(seed ^ 0x6d696e6e6f77); // "minnow"
  NetworkParameters parameters;
  std::vector<Activation> activations(network.tensors.size());
  activations[0] = makeInput(network, seed, 0);
  for (const Layer &layer : network.layers) {
    LayerParameters own;
    own.zeroPoint = layer.zeroPoint;
    const Activation &input = activations[layer.input];
    if (layer.kind == LayerKind::Convolution || layer.kind == LayerKind::Depthwise)
      drawWeights(own, network, layer, random);
    if (layer.kind != LayerKind::Add)
      calibrate(own, sumsOf(network, layer, own, input), layer.relu);
    activations[layer.output] = outputOf(network, layer, own, input, activations[layer.second]);
    parameters.layers.push_back(std::move(own));
  }
  return parameters;
}

Activation makeInput(const Network &network, uint64_t seed, uint64_t number) {
  Random random(seed * 0x9e3779b97f4a7c15 + number + 1);
  if (network.kwsFeatures) {
    std::vector<int8_t> features(size_t(kwsTime) * kwsFrequencies);
    for (int8_t &feature : features)
      feature = int8_t(random.between(-128, 127));
    return packKwsFeatures(features);
  }
  const Tensor &tensor = network.tensors[0];
  Activation input(tensor.elements());
  for (size_t i = 0; i < input.size(); ++i)
    if (i % tensor.channels < tensor.used)
      input[i] = int8_t(random.between(-128, 127));
  return input;
}

Blob packBlob(const Network &network, const NetworkParameters &parameters) {
  Blob blob;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer &layer = network.layers[i];
    const LayerParameters &own = parameters.layers[i];
    const Tensor &in = network.tensors[layer.input], &out = network.tensors[layer.output];
    uint32_t header[6] = {
        uint32_t(layer.kind),   out.height * out.width, out.channels, own.multiplier, own.shift,
        uint32_t(own.zeroPoint)};
    append(blob.bytes, header, 6);
    BlobPlaces places;
    places.bias = uint32_t(blob.bytes.size());
    append(blob.bytes, own.bias.data(), own.bias.size());
    places.biasBytes = uint32_t(blob.bytes.size()) - places.bias;
    align(blob.bytes, 64);
    places.weights = uint32_t(blob.bytes.size());
    std::vector<int8_t> weights = own.weights;
    if (layer.kind == LayerKind::Depthwise)
      weights = diagonal(layer, own.weights, in.channels);
    if (layer.kind == LayerKind::AveragePool)
      weights.assign(in.pixels(), 1);
    append(blob.bytes, weights.data(), weights.size());
    places.weightBytes = uint32_t(blob.bytes.size()) - places.weights;
    blob.layers.push_back(places);
  }
  return blob;
}

} // namespace tapeback::minnow
