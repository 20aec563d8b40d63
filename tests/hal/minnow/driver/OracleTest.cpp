// The shapes, the host's own computation and the packing, against numbers and loops that are none of theirs.
#include "hal/minnow/driver/Parameters.h"
#include "hal/minnow/driver/Random.h"
#include <doctest/doctest.h>

using namespace tapeback::minnow;

namespace {

/// Multiply-accumulates that the network's definition asks for, from its shapes.
uint64_t neededMacs(const Network &network) {
  uint64_t macs = 0;
  for (const Layer &layer : network.layers) {
    const Tensor &in = network.tensors[layer.input], &out = network.tensors[layer.output];
    uint64_t taps = uint64_t(layer.kernelHeight) * layer.kernelWidth;
    if (layer.kind == LayerKind::Convolution)
      macs +=
          taps * (network.kwsFeatures && layer.input == 0 ? in.channels : in.used) * out.used * out.pixels();
    if (layer.kind == LayerKind::Depthwise)
      macs += taps * out.used * out.pixels();
  }
  return macs;
}

} // namespace

TEST_CASE("the networks have the layers and multiplications of MLPerf Tiny's") {
  struct Row {
    const char *name;
    size_t layers;
    uint64_t macs;
    uint32_t height, width, channels; // Of the last picture before the pool; ad: of the output.
  };
  for (const Row &row : {Row{"kws", 11, 2656768, 5, 25, 64}, Row{"ic", 14, 12501632, 8, 8, 64},
                         Row{"ad", 10, 264192, 1, 1, 640}, Row{"vww", 29, 7489664, 3, 3, 256}}) {
    CAPTURE(row.name);
    Network network = networkNamed(row.name).value();
    CHECK(network.layers.size() == row.layers);
    CHECK(neededMacs(network) == row.macs);
    bool pools = network.layers[row.layers - 2].kind == LayerKind::AveragePool;
    const Tensor &tensor = network.tensors[network.layers[row.layers - (pools ? 2 : 1)].input];
    const Tensor &last = pools ? tensor : network.tensors[network.layers.back().output];
    CHECK(last.height == row.height);
    CHECK(last.width == row.width);
    CHECK(last.channels == row.channels);
  }
  CHECK(!networkNamed("resnet"));
}

TEST_CASE("requantisation: rounding to nearest with halves up, saturation, ReLU, zero point") {
  LayerParameters parameters;
  parameters.multiplier = 3;
  parameters.shift = 2;
  // 3/4 of each: 0.75, 1.5, -0.75, -1.5, 2.25, 300, -300, 126.75, 127.5
  std::vector<int32_t> sums{1, 2, -1, -2, 3, 400, -400, 169, 170};
  CHECK(requantised(sums, parameters, false) == Activation{1, 2, -1, -1, 2, 127, -128, 127, 127});
  CHECK(requantised(sums, parameters, true) == Activation{1, 2, 0, 0, 2, 127, 0, 127, 127});
  parameters.zeroPoint = -5;
  CHECK(requantised(sums, parameters, false) == Activation{-4, -3, -6, -6, -3, 127, -128, 122, 123});
  parameters = LayerParameters();
  parameters.multiplier = 0x7fffffff;
  parameters.shift = 62;
  CHECK(requantised({INT32_MIN, INT32_MAX, 0}, parameters, false) == Activation{-1, 1, 0});
}

TEST_CASE("a convolution, by hand: padding, stride, two channels") {
  NetworkBuilder build("hand", 3, 3, 1);
  build.convolution("c", 0, 2, {3, 3, 2, true}, false);
  Network network = build.take();
  CHECK(network.tensors[0].border == 1);
  Activation input(9 * 8);
  for (int i = 0; i < 9; ++i)
    input[size_t(i) * 8] = int8_t(i + 1); // 1 2 3 / 4 5 6 / 7 8 9
  LayerParameters parameters;
  parameters.weights.resize(9 * 8 * 8);
  for (size_t tap = 0; tap < 9; ++tap) {
    parameters.weights[tap * 64] = 1;                     // Channel 0: the sum of the window.
    parameters.weights[tap * 64 + 1] = tap == 4 ? 10 : 0; // Channel 1: ten times its middle.
  }
  parameters.bias.resize(8);
  parameters.bias[1] = 7;
  std::vector<int32_t> sums = sumsOf(network, network.layers[0], parameters, input);
  CHECK(std::vector<int32_t>{sums[0], sums[8], sums[16], sums[24]} == std::vector<int32_t>{12, 16, 24, 28});
  CHECK(std::vector<int32_t>{sums[1], sums[9], sums[17], sums[25]} == std::vector<int32_t>{17, 37, 77, 97});
}

TEST_CASE("kws: a 1x5 convolution of the packed features is the 10x4 one with stride 2 of the features") {
  Network network = networkNamed("kws").value();
  std::vector<int8_t> features(size_t(kwsTime) * kwsFrequencies);
  Random random(3);
  for (int8_t &feature : features)
    feature = int8_t(random.between(-128, 127));
  LayerParameters parameters = makeParameters(network, 3).layers[0];
  std::vector<int32_t> sums = sumsOf(network, network.layers[0], parameters, packKwsFeatures(features));
  REQUIRE(sums.size() == 5 * 25 * 64);
  for (int x = 0; x < 5; ++x)
    for (int y = 0; y < 25; ++y)
      for (int o = 0; o < 64; ++o) {
        int32_t sum = parameters.bias[size_t(o)];
        for (int ky = 0; ky < 10; ++ky)
          for (int kx = 0; kx < 4; ++kx) {
            int time = 2 * y + ky - 4, frequency = 2 * x + kx - 1;
            if (time < 0 || time >= 49 || frequency < 0 || frequency >= 10)
              continue;
            // Weight (ky, kx): row ky % 2 of the packed pair ky / 2.
            size_t weight = size_t(((ky / 2) * 8 + (ky % 2) * 4 + kx) * 64 + o);
            sum += features[size_t(time * 10 + frequency)] * parameters.weights[weight];
          }
        REQUIRE(sums[size_t((x * 25 + y) * 64 + o)] == sum);
      }
}

TEST_CASE("a seed decides weights and inputs; calibrated layers use their range") {
  Network network = networkNamed("ad").value();
  CHECK(makeInput(network, 1, 0) == makeInput(network, 1, 0));
  CHECK(makeInput(network, 1, 0) != makeInput(network, 1, 1));
  CHECK(makeInput(network, 1, 0) != makeInput(network, 2, 0));
  NetworkParameters parameters = makeParameters(network, 1);
  CHECK(parameters.layers[0].weights != makeParameters(network, 2).layers[0].weights);
  Activation activation = makeInput(network, 1, 0);
  for (size_t i = 0; i < network.layers.size(); ++i) {
    CAPTURE(network.layers[i].name);
    activation = outputOf(network, network.layers[i], parameters.layers[i], activation, {});
    int peak = 0, busy = 0;
    for (int8_t value : activation) {
      peak = std::max(peak, std::abs(int(value)));
      busy += value != 0;
    }
    CHECK(peak >= 127);
    CHECK(busy >= int(activation.size() / 4));
  }
}
