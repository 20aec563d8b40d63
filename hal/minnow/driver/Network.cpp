#include "hal/minnow/driver/Network.h"
#include <algorithm>

namespace tapeback::minnow {

namespace {

uint32_t upTo8(uint32_t channels) {
  return (channels + 7) / 8 * 8;
}

constexpr NetworkBuilder::Window pointwise = {1, 1, 1, true};

Network kws() {
  NetworkBuilder build("kws", 5, 29, 8);
  uint32_t at = build.convolution("conv1", 0, 64, {1, 5, 1, false}, true); // 10×4, stride 2, packed.
  for (const char *block : {"1", "2", "3", "4"}) {
    at = build.depthwise(std::string("dw") + block, at, {3, 3, 1, true}, true);
    at = build.convolution(std::string("pw") + block, at, 64, pointwise, true);
  }
  at = build.averagePool("pool", at);
  build.fullyConnected("words", at, 12, false, 3);
  Network network = build.take();
  network.kwsFeatures = true;
  return network;
}

Network ic() {
  NetworkBuilder build("ic", 32, 32, 3);
  uint32_t at = build.convolution("conv1", 0, 16, {3, 3, 1, true}, true);
  struct Stack {
    const char *name;
    uint32_t channels, stride;
  };
  for (const Stack &stack : {Stack{"stack1", 16, 1}, Stack{"stack2", 32, 2}, Stack{"stack3", 64, 2}}) {
    std::string name = stack.name;
    uint32_t inner = build.convolution(name + ".conv1", at, stack.channels, {3, 3, stack.stride, true}, true);
    inner = build.convolution(name + ".conv2", inner, stack.channels, {3, 3, 1, true}, false);
    uint32_t shortcut = stack.stride == 1 ? at
                                          : build.convolution(name + ".shortcut", at, stack.channels,
                                                              {1, 1, stack.stride, true}, false);
    at = build.add(name + ".add", inner, shortcut, true);
  }
  at = build.averagePool("pool", at);
  build.fullyConnected("classes", at, 10, false, 3);
  return build.take();
}

Network ad() {
  NetworkBuilder build("ad", 1, 1, 640);
  uint32_t at = 0;
  for (const char *layer : {"enc1", "enc2", "enc3", "enc4"})
    at = build.fullyConnected(layer, at, 128, true);
  at = build.fullyConnected("bottleneck", at, 8, true);
  for (const char *layer : {"dec1", "dec2", "dec3", "dec4"})
    at = build.fullyConnected(layer, at, 128, true);
  build.fullyConnected("output", at, 640, false);
  return build.take();
}

Network vww() {
  NetworkBuilder build("vww", 96, 96, 3);
  uint32_t at = build.convolution("conv1", 0, 8, {3, 3, 2, true}, true);
  struct Block {
    uint32_t stride, channels;
  };
  unsigned number = 0;
  for (const Block &block :
       {Block{1, 16}, Block{2, 32}, Block{1, 32}, Block{2, 64}, Block{1, 64}, Block{2, 128}, Block{1, 128},
        Block{1, 128}, Block{1, 128}, Block{1, 128}, Block{1, 128}, Block{2, 256}, Block{1, 256}}) {
    std::string suffix = std::to_string(++number);
    at = build.depthwise("dw" + suffix, at, {3, 3, block.stride, true}, true);
    at = build.convolution("pw" + suffix, at, block.channels, pointwise, true);
  }
  at = build.averagePool("pool", at);
  build.fullyConnected("person", at, 2, false, 3);
  return build.take();
}

struct Named {
  const char *name;
  Network (*make)();
};
constexpr Named table[] = {{"kws", kws}, {"ic", ic}, {"ad", ad}, {"vww", vww}};

} // namespace

NetworkBuilder::NetworkBuilder(std::string name, uint32_t height, uint32_t width, uint32_t used) {
  network.name = std::move(name);
  network.tensors.push_back({height, width, upTo8(used), used, 0});
}

uint32_t NetworkBuilder::finish(Layer layer, Tensor output) {
  layer.output = uint32_t(network.tensors.size());
  network.tensors.push_back(output);
  network.layers.push_back(std::move(layer));
  return network.layers.back().output;
}

/// The output's height and width; sets the layer's padding and sees to the input's border.
Tensor NetworkBuilder::windowed(Layer &layer, Window window) {
  Tensor &input = network.tensors[layer.input];
  layer.kernelHeight = window.height;
  layer.kernelWidth = window.width;
  layer.stride = window.stride;
  auto along = [&](uint32_t size, uint32_t kernel, uint32_t &before) {
    if (!window.same)
      return (size - kernel) / window.stride + 1;
    uint32_t out = (size + window.stride - 1) / window.stride;
    uint32_t reach = (out - 1) * window.stride + kernel;
    uint32_t total = reach > size ? reach - size : 0;
    before = total / 2;
    input.border = std::max(input.border, total - before);
    return out;
  };
  Tensor output;
  output.height = along(input.height, window.height, layer.padTop);
  output.width = along(input.width, window.width, layer.padLeft);
  return output;
}

uint32_t NetworkBuilder::convolution(std::string name, uint32_t input, uint32_t channels, Window window,
                                     bool relu, int32_t zeroPoint) {
  Layer layer;
  layer.name = std::move(name);
  layer.input = input;
  layer.relu = relu;
  layer.zeroPoint = zeroPoint;
  Tensor output = windowed(layer, window);
  output.used = channels;
  output.channels = upTo8(channels);
  return finish(std::move(layer), output);
}

uint32_t NetworkBuilder::depthwise(std::string name, uint32_t input, Window window, bool relu) {
  Layer layer;
  layer.name = std::move(name);
  layer.kind = LayerKind::Depthwise;
  layer.input = input;
  layer.relu = relu;
  Tensor output = windowed(layer, window);
  output.used = network.tensors[input].used;
  output.channels = network.tensors[input].channels;
  return finish(std::move(layer), output);
}

uint32_t NetworkBuilder::fullyConnected(std::string name, uint32_t input, uint32_t channels, bool relu,
                                        int32_t zeroPoint) {
  return convolution(std::move(name), input, channels, pointwise, relu, zeroPoint);
}

uint32_t NetworkBuilder::add(std::string name, uint32_t a, uint32_t b, bool relu) {
  Layer layer;
  layer.name = std::move(name);
  layer.kind = LayerKind::Add;
  layer.input = a;
  layer.second = b;
  layer.relu = relu;
  Tensor output = network.tensors[a];
  output.border = 0;
  return finish(std::move(layer), output);
}

uint32_t NetworkBuilder::averagePool(std::string name, uint32_t input) {
  Layer layer;
  layer.name = std::move(name);
  layer.kind = LayerKind::AveragePool;
  layer.input = input;
  Tensor output = network.tensors[input];
  output.height = output.width = 1;
  output.border = 0;
  return finish(std::move(layer), output);
}

std::optional<Network> networkNamed(std::string_view name) {
  for (const Named &row : table)
    if (name == row.name)
      return row.make();
  return std::nullopt;
}

const std::vector<std::string> &networkNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Named &row : table)
      all.emplace_back(row.name);
    return all;
  }();
  return names;
}

std::vector<int8_t> packKwsFeatures(const std::vector<int8_t> &features) {
  constexpr uint32_t columns = 5, halves = 29;
  std::vector<int8_t> packed(size_t(columns) * halves * 8);
  for (uint32_t x = 0; x < columns; ++x)
    for (uint32_t i = 0; i < halves; ++i)
      for (uint32_t r = 0; r < 2; ++r)
        for (uint32_t c = 0; c < 4; ++c) {
          uint32_t time = 2 * i + r, frequency = 2 * x + c; // In the padded features.
          if (time < kwsPadTime || time >= kwsPadTime + kwsTime || frequency < kwsPadFrequency ||
              frequency >= kwsPadFrequency + kwsFrequencies)
            continue;
          packed[(x * halves + i) * 8 + 4 * r + c] =
              features[(time - kwsPadTime) * kwsFrequencies + frequency - kwsPadFrequency];
        }
  return packed;
}

} // namespace tapeback::minnow
