// The networks that minnow-run executes, as shapes: the four of MLPerf Tiny (v1.1, closed division), and
// whatever a test builds. Pure: no weights, no addresses, no device.
//
// Tensors are int8, height × width × channels with channels innermost, and channels a multiple of 8 (the
// device moves 8 bytes at least). Source of the shapes: github.com/mlcommons/tiny,
// benchmark/training/*/keras_model.py.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tapeback::minnow {

struct Tensor {
  uint32_t height = 1, width = 1, channels = 8;
  uint32_t used = 8;   ///< Channels that mean something; those behind them are zero.
  uint32_t border = 0; ///< Pixels of zero around it in host memory, for layers that pad.

  uint32_t pixels() const { return height * width; }
  uint32_t elements() const { return pixels() * channels; }
  /// With its border.
  uint32_t paddedWidth() const { return width + 2 * border; }
  uint32_t paddedBytes() const { return (height + 2 * border) * paddedWidth() * channels; }
};

enum class LayerKind : uint8_t {
  Convolution, ///< A fully connected layer is one of 1×1 on a picture of 1×1.
  Depthwise,
  Add,         ///< Two tensors of one shape, saturating; `relu` as a step of its own.
  AveragePool, ///< Over the whole picture.
};

struct Layer {
  std::string name;
  LayerKind kind = LayerKind::Convolution;
  uint32_t input = 0, second = 0, output = 0; ///< Tensors; `second` for Add only.
  uint32_t kernelHeight = 1, kernelWidth = 1, stride = 1;
  uint32_t padTop = 0, padLeft = 0; ///< What is below and right follows from the output's shape.
  bool relu = false;
  int32_t zeroPoint = 0; ///< Of the output.
};

struct Network {
  std::string name;
  std::vector<Tensor> tensors; ///< The first is the input.
  std::vector<Layer> layers;   ///< In order of execution.
  bool kwsFeatures = false;    ///< The input is what packKwsFeatures makes of kws' features.
};

/// Builds a network layer by layer. Each call answers with the index of the layer's output tensor.
class NetworkBuilder {
public:
  NetworkBuilder(std::string name, uint32_t height, uint32_t width, uint32_t used);

  /// Padded "same" as TensorFlow does it if `same`, else not at all.
  struct Window {
    uint32_t height = 1, width = 1, stride = 1;
    bool same = true;
  };
  uint32_t convolution(std::string name, uint32_t input, uint32_t channels, Window window, bool relu,
                       int32_t zeroPoint = 0);
  uint32_t depthwise(std::string name, uint32_t input, Window window, bool relu);
  uint32_t fullyConnected(std::string name, uint32_t input, uint32_t channels, bool relu,
                          int32_t zeroPoint = 0);
  uint32_t add(std::string name, uint32_t a, uint32_t b, bool relu);
  uint32_t averagePool(std::string name, uint32_t input);
  Network take() { return std::move(network); }

private:
  uint32_t finish(Layer layer, Tensor output);
  Tensor windowed(Layer &layer, Window window);

  Network network;
};

/// "kws": DS-CNN, 12 words from 49×10 features. "ic": ResNet-8, 10 classes from 32×32×3. "ad": the
/// autoencoder of 640 features. "vww": MobileNet v1, a quarter as wide, person or not from 96×96×3.
std::optional<Network> networkNamed(std::string_view name);
/// Those, in that order.
const std::vector<std::string> &networkNames();

/// What the first layer of kws gets: 10×4 windows at every second place need no multiple of 8 channels, so
/// the host packs two rows of four columns into each group of 8 channels: packed[x][i][4·r + c] = features[2i
/// + r][2x + c] of the padded features. Frequency becomes the packed picture's height, time its width.
constexpr uint32_t kwsTime = 49, kwsFrequencies = 10, kwsPadTime = 4, kwsPadFrequency = 1;
std::vector<int8_t> packKwsFeatures(const std::vector<int8_t> &features);

} // namespace tapeback::minnow
