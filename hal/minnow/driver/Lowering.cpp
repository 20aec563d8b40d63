#include "hal/minnow/driver/Lowering.h"
#include <algorithm>
#include <bit>

namespace tapeback::minnow {

namespace {

enum Semaphore : uint32_t { Loaded = 0, Released = 2 };

constexpr uint32_t maxDimension = 1024, maxRows = 4096, maxRowBytes = 65536;

uint32_t alignTo(uint32_t value, uint32_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

uint32_t divideUp(uint32_t value, uint32_t by) {
  return (value + by - 1) / by;
}

/// How a convolution is cut, and what its tiles need.
struct Cut {
  uint32_t rows = 1;       ///< Of the output, in a tile.
  uint32_t channels = 8;   ///< Of the output, in a tile.
  uint32_t lines = 1;      ///< Of the input, at most.
  uint32_t lineWidth = 1;  ///< Pixels of an input line that are loaded.
  uint32_t pitch = 1;      ///< Sums of one output line to those of the next.
  uint32_t planeBytes = 0; ///< Depthwise: one group of channels.
  uint32_t weightBytes = 0, inputBytes = 0, sumBytes = 0, outputBytes = 0;

  uint32_t bytes() const { return 2 * weightBytes + 2 * inputBytes + sumBytes + outputBytes; }
  /// Rows of sums of `rows` output lines.
  uint32_t sums(uint32_t lines, uint32_t width) const { return (lines - 1) * pitch + width; }
};

/// What the layers of a network have in common.
struct Surroundings {
  const Network &network;
  const NetworkParameters &parameters;
  const Blob &blob;
  const ArenaLayout &layout;
  uint64_t arena;
  uint32_t biasEnd; ///< Where the biases of all layers end in the scratchpad,
  uint32_t free;    ///< and how many bytes behind it a layer may use.
};

class LayerLowering {
public:
  LayerLowering(const Surroundings &all, size_t index, uint32_t biasAt,
                std::vector<minnow_descriptor> &descriptors)
      : layer(all.network.layers[index]), in(all.network.tensors[layer.input]),
        second(all.network.tensors[layer.second]), out(all.network.tensors[layer.output]),
        places(all.blob.layers[index]), own(all.parameters.layers[index]), blob(all.arena + all.layout.blob),
        inputBase(all.arena + all.layout.tensors[layer.input]),
        secondBase(all.arena + all.layout.tensors[layer.second]),
        outputBase(all.arena + all.layout.tensors[layer.output]), chains(all.arena + all.layout.descriptors),
        biasAt(biasAt), biasEnd(all.biasEnd), free(all.free), descriptors(descriptors) {}

  /// False: it does not fit.
  bool run() {
    switch (layer.kind) {
    case LayerKind::Convolution:
    case LayerKind::Depthwise: return convolution();
    case LayerKind::Add: return add();
    case LayerKind::AveragePool: return averagePool();
    }
    return false;
  }
  std::vector<Tile> tiles;

private:
  bool depthwise() const { return layer.kind == LayerKind::Depthwise; }

  // ---- What all layers share ----

  /// The device's address of a pixel, which may lie in the border.
  static uint64_t pixel(uint64_t base, const Tensor &tensor, int64_t row, int64_t column,
                        uint32_t channel = 0) {
    int64_t at = (row + tensor.border) * tensor.paddedWidth() + column + tensor.border;
    return base + uint64_t(at) * tensor.channels + channel;
  }

  /// The beginning of tile `index` of `count` on queue 1, and on queue 0.
  void beginLoad(Tile &tile, uint32_t index) const {
    if (index >= 2)
      tile.load.push_back(minnow_wait(Released + index % 2));
  }
  void endLoad(Tile &tile, uint32_t index) const {
    tile.load.push_back(minnow_signal(Loaded + index % 2));
    tile.compute.push_back(minnow_wait(Loaded + index % 2));
  }
  void release(Tile &tile, uint32_t index, uint32_t count) const {
    if (index + 2 < count)
      tile.compute.push_back(minnow_signal(Released + index % 2));
  }

  /// `rows` rows, as one if they touch each other.
  static minnow_command transfer(uint32_t opcode, uint64_t host, uint32_t scratchpad, uint32_t rowBytes,
                                 uint32_t rows, uint32_t hostStride, uint32_t scratchpadStride) {
    bool whole = (rows == 1 || (hostStride == rowBytes && scratchpadStride == rowBytes)) &&
                 uint64_t(rowBytes) * rows <= maxRowBytes;
    if (whole)
      return minnow_dma(opcode, host, scratchpad, rowBytes * rows, 1, 0, 0);
    return minnow_dma(opcode, host, scratchpad, rowBytes, rows, hostStride, scratchpadStride);
  }

  minnow_command chain(std::vector<minnow_descriptor> links) {
    uint64_t first = chains + descriptors.size() * sizeof(minnow_descriptor);
    for (size_t i = 0; i < links.size(); ++i) {
      if (i + 1 < links.size())
        links[i].next = first + (i + 1) * sizeof(minnow_descriptor);
      else
        links[i].flags |= MINNOW_DESCRIPTOR_LAST;
      descriptors.push_back(links[i]);
    }
    return minnow_dma_chain(first);
  }

  void requantise(Tile &tile, uint32_t sums, uint32_t output, uint32_t rows, uint32_t channels,
                  uint32_t ldd) const {
    tile.compute.push_back(minnow_requant(sums, output, rows, channels, channels * 4, ldd, own.multiplier,
                                          own.shift, own.zeroPoint, layer.relu ? MINNOW_REQUANT_RELU : 0));
  }

  // ---- Convolutions ----

  Cut cutOf(uint32_t rows, uint32_t channels) const {
    Cut cut;
    cut.rows = rows;
    cut.channels = channels;
    cut.lines = (rows - 1) * layer.stride + layer.kernelHeight;
    // Depthwise loads pixels one by one, so all lie one stride from the next only if lines are whole.
    cut.lineWidth = depthwise() ? in.paddedWidth() : (out.width - 1) * layer.stride + layer.kernelWidth;
    cut.pitch = layer.stride == 1 ? cut.lineWidth : out.width;
    cut.planeBytes = cut.lines * cut.lineWidth * 8;
    cut.inputBytes = depthwise() ? channels / 8 * cut.planeBytes : cut.lines * cut.lineWidth * in.channels;
    uint32_t taps = layer.kernelHeight * layer.kernelWidth;
    cut.weightBytes = taps * channels * (depthwise() ? 8 : in.channels);
    uint32_t sums = cut.sums(rows, out.width);
    cut.sumBytes = sums * (depthwise() ? 8 : channels) * 4;
    cut.outputBytes = sums * channels;
    return cut;
  }

  bool possible(const Cut &cut) const {
    uint32_t gemmRows = layer.stride == 1 ? cut.sums(cut.rows, out.width) : out.width;
    uint32_t k = layer.kernelWidth * (depthwise() ? 8 : in.channels);
    uint32_t pixels = depthwise() ? cut.lines * cut.lineWidth : cut.lines;
    return cut.bytes() <= free && gemmRows <= maxDimension && k <= maxDimension &&
           cut.channels <= maxDimension && cut.sums(cut.rows, out.width) <= maxRows && pixels <= maxRows &&
           (depthwise() || layer.kernelHeight * layer.kernelWidth * in.channels <= maxRows) &&
           cut.channels / 8 <= MINNOW_MAX_CHAIN;
  }

  /// All channels and as many rows as fit, in at least two tiles if the layer has that much; fewer channels
  /// only if not even one row fits, or if there is but one row.
  bool choose(Cut &cut) const {
    uint32_t parts = out.height == 1 && !depthwise() && out.channels >= 16 ? 2 : 1;
    for (; parts <= out.channels / 8; ++parts) {
      uint32_t channels = divideUp(out.channels, parts);
      // So that rows of weights lie as bursts like it: none across a multiple of 64 that it need not cross.
      channels = channels > 64 ? alignTo(channels, 64) : std::bit_ceil(std::max(channels, 8u));
      for (uint32_t rows = out.height > 1 ? divideUp(out.height, 2) : 1; rows > 0; --rows) {
        cut = cutOf(rows, channels);
        if (possible(cut))
          return true;
      }
    }
    return false;
  }

  bool convolution() {
    Cut cut;
    if (!choose(cut))
      return false;
    const uint32_t weights[2] = {reserve(cut.weightBytes), reserve(cut.weightBytes)};
    const uint32_t inputs[2] = {reserve(cut.inputBytes), reserve(cut.inputBytes)};
    uint32_t sums = reserve(cut.sumBytes), output = reserve(cut.outputBytes);
    uint32_t bands = divideUp(out.height, cut.rows), parts = divideUp(out.channels, cut.channels);
    uint32_t count = bands * parts;
    uint32_t weightsLoaded = 0,
             inputsLoaded = 0; // What a tile shares with the one before is not loaded again.
    for (uint32_t index = 0; index < count; ++index) {
      uint32_t part = index / bands, row = index % bands * cut.rows, channel = part * cut.channels;
      uint32_t rows = std::min(cut.rows, out.height - row);
      uint32_t channels = std::min(cut.channels, out.channels - channel);
      Tile tile;
      beginLoad(tile, index);
      if (index % bands == 0)
        loadWeights(tile, weights[weightsLoaded++ % 2], channel, channels);
      if (index == 0 || bands > 1 || depthwise())
        loadInput(tile, cut, inputs[inputsLoaded++ % 2], row, rows, channel, channels);
      endLoad(tile, index);
      uint32_t w = weights[(weightsLoaded - 1) % 2], a = inputs[(inputsLoaded - 1) % 2];
      if (depthwise())
        computePlanes(tile, cut, {w, a, sums, output}, rows, channel, channels, index, count);
      else
        computeDense(tile, cut, {w, a, sums, output}, rows, channel, channels, index, count);
      store(tile, cut, output, row, rows, channel, channels);
      tiles.push_back(std::move(tile));
    }
    return true;
  }

  struct Places {
    uint32_t weights, input, sums, output;
  };

  uint32_t reserve(uint32_t bytes) {
    uint32_t at = used;
    used += bytes;
    return biasEnd + at;
  }

  void loadWeights(Tile &tile, uint32_t to, uint32_t channel, uint32_t channels) const {
    uint32_t taps = layer.kernelHeight * layer.kernelWidth;
    uint64_t from = blob + places.weights;
    if (depthwise())
      tile.load.push_back(
          transfer(MINNOW_DMA_LOAD, from + uint64_t(channel) * taps * 8, to, taps * channels * 8, 1, 0, 0));
    else
      tile.load.push_back(transfer(MINNOW_DMA_LOAD, from + channel, to, channels, taps * in.channels,
                                   out.channels, channels));
  }

  void loadInput(Tile &tile, const Cut &cut, uint32_t to, uint32_t row, uint32_t rows, uint32_t channel,
                 uint32_t channels) {
    uint32_t lines = (rows - 1) * layer.stride + layer.kernelHeight;
    int64_t top = int64_t(row) * layer.stride - layer.padTop;
    if (!depthwise()) {
      uint32_t lineBytes = cut.lineWidth * in.channels;
      tile.load.push_back(transfer(MINNOW_DMA_LOAD, pixel(inputBase, in, top, -int64_t(layer.padLeft)), to,
                                   lineBytes, lines, in.paddedWidth() * in.channels, lineBytes));
      return;
    }
    std::vector<minnow_descriptor> planes;
    for (uint32_t group = 0; group < channels / 8; ++group)
      planes.push_back(minnow_make_descriptor(
          pixel(inputBase, in, top, -int64_t(in.border), channel + group * 8), to + group * cut.planeBytes, 8,
          lines * cut.lineWidth, in.channels, 8, 0, 0));
    tile.load.push_back(chain(std::move(planes)));
  }

  /// The GEMMs of one input (or one plane of it) with `channels` channels in, `outChannels` out.
  void multiply(Tile &tile, const Cut &cut, uint32_t input, uint32_t weights, uint32_t sums, uint32_t rows,
                uint32_t channels, uint32_t outChannels) const {
    uint32_t left = depthwise() ? in.border - layer.padLeft : 0;
    uint32_t k = layer.kernelWidth * channels, line = cut.lineWidth * channels;
    uint32_t steps = layer.stride == 1 ? 1 : rows;
    uint32_t m = layer.stride == 1 ? cut.sums(rows, out.width) : out.width;
    for (uint32_t step = 0; step < steps; ++step)
      for (uint32_t ky = 0; ky < layer.kernelHeight; ++ky)
        tile.compute.push_back(minnow_gemm(
            input + (step * layer.stride + ky) * line + left * channels, weights + ky * k * outChannels,
            sums + step * cut.pitch * outChannels * 4, m, outChannels, k, layer.stride * channels,
            outChannels, outChannels * 4, ky ? MINNOW_ACCUMULATE : 0));
  }

  void computeDense(Tile &tile, const Cut &cut, Places at, uint32_t rows, uint32_t channel, uint32_t channels,
                    uint32_t index, uint32_t count) const {
    uint32_t sums = cut.sums(rows, out.width);
    multiply(tile, cut, at.input, at.weights, at.sums, rows, in.channels, channels);
    release(tile, index, count);
    tile.compute.push_back(minnow_vadd(MINNOW_VADD32, at.sums, biasAt + channel * 4, at.sums, sums, channels,
                                       channels * 4, 0, channels * 4, MINNOW_BROADCAST));
    requantise(tile, at.sums, at.output, sums, channels, channels);
  }

  void computePlanes(Tile &tile, const Cut &cut, Places at, uint32_t rows, uint32_t channel,
                     uint32_t channels, uint32_t index, uint32_t count) const {
    uint32_t sums = cut.sums(rows, out.width);
    uint32_t matrix = layer.kernelHeight * layer.kernelWidth * 64;
    for (uint32_t group = 0; group < channels / 8; ++group) {
      multiply(tile, cut, at.input + group * cut.planeBytes, at.weights + group * matrix, at.sums, rows, 8,
               8);
      if (group + 1 == channels / 8)
        release(tile, index, count);
      tile.compute.push_back(minnow_vadd(MINNOW_VADD32, at.sums, biasAt + (channel + group * 8) * 4, at.sums,
                                         sums, 8, 32, 0, 32, MINNOW_BROADCAST));
      requantise(tile, at.sums, at.output + group * 8, sums, 8, channels);
    }
  }

  void store(Tile &tile, const Cut &cut, uint32_t from, uint32_t row, uint32_t rows, uint32_t channel,
             uint32_t channels) const {
    if (channels == out.channels) {
      tile.compute.push_back(transfer(MINNOW_DMA_STORE, pixel(outputBase, out, row, 0), from,
                                      out.width * channels, rows, out.paddedWidth() * channels,
                                      cut.pitch * channels));
      return;
    }
    for (uint32_t line = 0; line < rows; ++line)
      tile.compute.push_back(transfer(MINNOW_DMA_STORE, pixel(outputBase, out, row + line, 0, channel),
                                      from + line * cut.pitch * channels, channels, out.width, out.channels,
                                      channels));
  }

  // ---- Others ----

  bool add() {
    uint32_t lineBytes = out.width * out.channels;
    uint32_t fitting = std::min(free / (4 * lineBytes), maxRows / out.width);
    uint32_t rows = std::min(fitting, divideUp(out.height, 2));
    if (rows == 0 || out.channels > maxRows)
      return false;
    const uint32_t buffers[2] = {reserve(2 * rows * lineBytes), reserve(2 * rows * lineBytes)};
    uint32_t count = divideUp(out.height, rows);
    for (uint32_t index = 0; index < count; ++index) {
      uint32_t row = index * rows, lines = std::min(rows, out.height - row);
      uint32_t a = buffers[index % 2], b = a + rows * lineBytes;
      Tile tile;
      beginLoad(tile, index);
      tile.load.push_back(transfer(MINNOW_DMA_LOAD, pixel(inputBase, in, row, 0), a, lineBytes, lines,
                                   in.paddedWidth() * in.channels, lineBytes));
      tile.load.push_back(transfer(MINNOW_DMA_LOAD, pixel(secondBase, second, row, 0), b, lineBytes, lines,
                                   second.paddedWidth() * in.channels, lineBytes));
      endLoad(tile, index);
      uint32_t pixels = lines * out.width, channels = out.channels;
      tile.compute.push_back(
          minnow_vadd(MINNOW_VADD8, a, b, a, pixels, channels, channels, channels, channels, 0));
      if (layer.relu)
        tile.compute.push_back(minnow_relu8(a, a, pixels, channels, channels, channels));
      tile.compute.push_back(transfer(MINNOW_DMA_STORE, pixel(outputBase, out, row, 0), a, lineBytes, lines,
                                      out.paddedWidth() * out.channels, lineBytes));
      // The result lies in the buffer itself.
      release(tile, index, count);
      tiles.push_back(std::move(tile));
    }
    return true;
  }

  /// A row of ones times the picture as a matrix of pixels × channels.
  bool averagePool() {
    uint32_t pixels = in.pixels(), ones = alignTo(pixels, 8), lineBytes = in.width * in.channels;
    if (pixels > maxDimension || in.channels > maxDimension || ones + in.elements() + in.channels * 5 > free)
      return false;
    uint32_t a = reserve(ones), b = reserve(in.elements()), sums = reserve(in.channels * 4),
             d = reserve(in.channels);
    Tile tile;
    beginLoad(tile, 0);
    tile.load.push_back(transfer(MINNOW_DMA_LOAD, blob + places.weights, a, ones, 1, 0, 0));
    tile.load.push_back(transfer(MINNOW_DMA_LOAD, pixel(inputBase, in, 0, 0), b, lineBytes, in.height,
                                 in.paddedWidth() * in.channels, lineBytes));
    endLoad(tile, 0);
    tile.compute.push_back(
        minnow_gemm(a, b, sums, 1, in.channels, pixels, ones, in.channels, in.channels * 4, 0));
    requantise(tile, sums, d, 1, in.channels, in.channels);
    tile.compute.push_back(
        transfer(MINNOW_DMA_STORE, pixel(outputBase, out, 0, 0), d, out.channels, 1, 0, 0));
    tiles.push_back(std::move(tile));
    return true;
  }

  const Layer &layer;
  const Tensor &in, &second, &out;
  const BlobPlaces &places;
  const LayerParameters &own;
  const uint64_t blob, inputBase, secondBase, outputBase, chains;
  const uint32_t biasAt, biasEnd, free;
  uint32_t used = 0; ///< Of `free`.
  std::vector<minnow_descriptor> &descriptors;
};

} // namespace

ArenaLayout layOut(const Network &network, const Blob &blob) {
  ArenaLayout layout;
  uint32_t at = alignTo(uint32_t(blob.bytes.size()), 64);
  for (const Tensor &tensor : network.tensors) {
    layout.tensors.push_back(at);
    at = alignTo(at + tensor.paddedBytes(), 64);
  }
  layout.descriptors = at;
  return layout;
}

LoweringResult lower(const Network &network, const NetworkParameters &parameters, const Blob &blob,
                     const ArenaLayout &layout, uint64_t arena, uint32_t scratchpad) {
  LoweringResult result;
  LoweredNetwork &lowered = result.network;
  // The biases: one chain, a link for each layer that has some.
  std::vector<uint32_t> biasAt;
  uint32_t at = 0;
  for (const BlobPlaces &places : blob.layers) {
    biasAt.push_back(at);
    if (places.biasBytes)
      lowered.descriptors.push_back(minnow_make_descriptor(
          arena + layout.blob + places.bias, at, places.biasBytes, 1, 0, 0, 0,
          arena + layout.descriptors + (lowered.descriptors.size() + 1) * sizeof(minnow_descriptor)));
    at += places.biasBytes;
  }
  if (at >= scratchpad || scratchpad > MINNOW_SCRATCHPAD_SIZE ||
      lowered.descriptors.size() > MINNOW_MAX_CHAIN) {
    result.failure = "the biases do not fit";
    return result;
  }
  if (!lowered.descriptors.empty()) {
    lowered.descriptors.back().flags |= MINNOW_DESCRIPTOR_LAST;
    lowered.descriptors.back().next = 0;
    lowered.prologue.push_back(minnow_dma_chain(arena + layout.descriptors));
  }
  const Surroundings all{network, parameters, blob, layout, arena, at, scratchpad - at};
  for (size_t i = 0; i < network.layers.size(); ++i) {
    LayerLowering layer(all, i, biasAt[i], lowered.descriptors);
    if (!layer.run()) {
      result.failure = "layer " + network.layers[i].name + " does not fit";
      return result;
    }
    lowered.layers.push_back(std::move(layer.tiles));
  }
  return result;
}

} // namespace tapeback::minnow
