#include "hal/minnow/driver/NetworkRun.h"
#include <algorithm>

namespace tapeback::minnow {

namespace {

/// A span for as long as it lives. Spans left open by a failure are closed, too.
class Span {
public:
  Span(Accelerator &accelerator, const std::string &name) : accelerator(accelerator) {
    opened = accelerator.good("tb_span_begin", tb_span_begin(accelerator.handle(), name.c_str(), &id));
  }
  Span(const Span &) = delete;
  Span &operator=(const Span &) = delete;
  ~Span() {
    if (opened)
      accelerator.good("tb_span_end", tb_span_end(accelerator.handle(), id));
  }
  explicit operator bool() const { return opened; }

private:
  Accelerator &accelerator;
  uint64_t id = 0;
  bool opened;
};

/// As it lies in host memory.
std::vector<uint8_t> withBorder(const Tensor &tensor, const Activation &activation) {
  std::vector<uint8_t> bytes(tensor.paddedBytes());
  size_t line = size_t(tensor.width) * tensor.channels;
  for (uint32_t y = 0; y < tensor.height; ++y)
    std::copy_n(activation.begin() + ptrdiff_t(y * line), line,
                bytes.begin() +
                    ptrdiff_t(((size_t(y) + tensor.border) * tensor.paddedWidth() + tensor.border) *
                              tensor.channels));
  return bytes;
}

class NetworkRun {
public:
  NetworkRun(Accelerator &accelerator, const Network &network, const RunOptions &options, RunFigures &figures)
      : accelerator(accelerator), network(network), options(options), figures(figures),
        parameters(makeParameters(network, options.seed)), blob(packBlob(network, parameters)),
        layout(layOut(network, blob)), layers(std::min(network.layers.size(), options.layers)),
        activations(network.tensors.size()) {}

  bool run(std::string &failure) {
    Span span(accelerator, network.name);
    // Lowered once for its size, and once more where it lies.
    LoweringResult result = lower(network, parameters, blob, layout, 0, options.scratchpad);
    failure = result.failure.empty() ? "" : network.name + ": " + result.failure;
    if (!span || !failure.empty() || !accelerator.start() ||
        !accelerator.allocate(result.network.arenaBytes(layout), arena))
      return false;
    lowered = lower(network, parameters, blob, layout, arena.iova, options.scratchpad).network;
    if (!prepare())
      return false;
    for (uint64_t inference = 0; inference < options.inferences; ++inference) {
      if (!infer(inference))
        return false;
      ++figures.inferences;
    }
    figures.counters = accelerator.expected();
    return (options.checkLayers || accelerator.checkCounters()) && accelerator.stop() &&
           accelerator.releaseMemory(arena);
  }

private:
  /// The blob and the chains into memory, the biases into the scratchpad.
  bool prepare() {
    Span span(accelerator, "parameters");
    std::string marker = network.name + "/parameters";
    Accelerator::Fence fence;
    if (!span || !accelerator.good("tb_mark", tb_mark(accelerator.handle(), marker.c_str())) ||
        !accelerator.fill(arena, layout.blob, blob.bytes.data(), blob.bytes.size()) ||
        !accelerator.fill(arena, layout.descriptors, lowered.descriptors.data(),
                          lowered.descriptors.size() * sizeof(minnow_descriptor)) ||
        !push(1, lowered.prologue) || !accelerator.fence(1, true, fence) || !accelerator.wait(fence))
      return false;
    return accelerator.acknowledge(fence) && accelerator.waitIdle() &&
           (!options.checkLayers || accelerator.checkCounters());
  }

  bool infer(uint64_t inference) {
    Span span(accelerator, "inference " + std::to_string(inference));
    activations[0] = makeInput(network, options.seed, inference);
    std::vector<uint8_t> bytes = withBorder(network.tensors[0], activations[0]);
    if (!span || !accelerator.fill(arena, layout.tensors[0], bytes.data(), bytes.size()))
      return false;
    for (size_t i = 0; i < layers; ++i) {
      if (!runLayer(i))
        return false;
      ++figures.layers;
    }
    return true;
  }

  bool runLayer(size_t index) {
    const Layer &layer = network.layers[index];
    std::string name = network.name + "/" + layer.name;
    if (!accelerator.good("tb_mark", tb_mark(accelerator.handle(), name.c_str())))
      return false;
    Span span(accelerator, layer.name);
    if (!span)
      return false;
    const std::vector<Tile> &tiles = lowered.layers[index];
    fences.assign(tiles.size(), {});
    // One tile ahead, so that queue 1 loads while queue 0 computes.
    if (!submit(tiles, 0))
      return false;
    for (size_t t = 0; t < tiles.size(); ++t) {
      Span tile(accelerator, "tile " + std::to_string(t));
      if (!tile || (t + 1 < tiles.size() && !submit(tiles, t + 1)) || !accelerator.wait(fences[t]))
        return false;
      ++figures.tiles;
    }
    return check(index, name);
  }

  bool submit(const std::vector<Tile> &tiles, size_t t) {
    return push(1, tiles[t].load) && push(0, tiles[t].compute) &&
           accelerator.fence(0, t + 1 == tiles.size(), fences[t]);
  }

  bool push(unsigned queue, const std::vector<minnow_command> &commands) {
    for (const minnow_command &command : commands) {
      const minnow_descriptor *chain = nullptr;
      if ((command.w[0] & 0xff) == MINNOW_DMA_CHAIN) {
        uint64_t first = uint64_t(command.w[3]) << 32 | command.w[2];
        chain = &lowered.descriptors[(first - arena.iova - layout.descriptors) / sizeof(minnow_descriptor)];
      }
      if (!accelerator.push(queue, command, chain))
        return false;
    }
    return true;
  }

  /// The output first: a store that the fence has overtaken may still be on its way.
  bool check(size_t index, const std::string &name) {
    const Layer &layer = network.layers[index];
    const Tensor &tensor = network.tensors[layer.output];
    Activation &output = activations[layer.output];
    output = outputOf(network, layer, parameters.layers[index], activations[layer.input],
                      activations[layer.second]);
    Activation compared = output;
    if (options.beforeCheck)
      options.beforeCheck(index, compared);
    std::vector<uint8_t> expected = withBorder(tensor, compared);
    bool looked = options.checkLayers || index + 1 == layers;
    if (looked && !accelerator.held(name.c_str(), tb_check_memory(accelerator.handle(), name.c_str(),
                                                                  arena.iova + layout.tensors[layer.output],
                                                                  expected.data(), expected.size())))
      return false;
    return accelerator.acknowledge(fences.back()) && accelerator.waitIdle() &&
           (!options.checkLayers || accelerator.checkCounters());
  }

  Accelerator &accelerator;
  const Network &network;
  const RunOptions &options;
  RunFigures &figures;
  NetworkParameters parameters;
  Blob blob;
  ArenaLayout layout;
  const size_t layers; ///< That are executed.
  LoweredNetwork lowered;
  Accelerator::Memory arena;
  std::vector<Activation> activations; ///< Of the present inference, as the oracle has them.
  std::vector<Accelerator::Fence> fences;
};

} // namespace

bool runNetwork(Accelerator &accelerator, const Network &network, const RunOptions &options,
                RunFigures &figures, std::string &failure) {
  return NetworkRun(accelerator, network, options, figures).run(failure);
}

} // namespace tapeback::minnow
