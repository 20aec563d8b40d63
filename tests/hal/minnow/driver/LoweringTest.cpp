// What the lowering makes of layers, without a device: order between the queues, room, doubled buffers.
#include "hal/minnow/driver/Lowering.h"
#include <doctest/doctest.h>

using namespace tapeback::minnow;

namespace {

constexpr uint64_t arena = 0x10000000;

struct Lowered {
  explicit Lowered(Network from) : network(std::move(from)) {
    NetworkParameters parameters = makeParameters(network, 1);
    Blob blob = packBlob(network, parameters);
    layout = layOut(network, blob);
    LoweringResult result = lower(network, parameters, blob, layout, arena);
    failure = result.failure;
    lowered = std::move(result.network);
  }
  Network network;
  ArenaLayout layout;
  LoweredNetwork lowered;
  std::string failure;
};

uint32_t opcode(const minnow_command &command) {
  return command.w[0] & 0xff;
}

} // namespace

TEST_CASE(
    "every layer of every network: semaphores come out even, and queue 1 may run two tiles ahead, no more") {
  for (const std::string &name : networkNames()) {
    Lowered all(networkNamed(name).value());
    REQUIRE(all.failure == "");
    for (size_t i = 0; i < all.lowered.layers.size(); ++i) {
      CAPTURE(name + "/" + all.network.layers[i].name);
      const std::vector<Tile> &tiles = all.lowered.layers[i];
      int balance[8] = {};
      for (size_t t = 0; t < tiles.size(); ++t) {
        CAPTURE(t);
        int waits = 0;
        for (const minnow_command &command : tiles[t].load) {
          balance[command.w[2] % 8] += opcode(command) == MINNOW_SIGNAL;
          balance[command.w[2] % 8] -= opcode(command) == MINNOW_WAIT;
          waits += opcode(command) == MINNOW_WAIT;
        }
        CHECK(waits == (t >= 2));
        CHECK(opcode(tiles[t].load.back()) == MINNOW_SIGNAL);
        CHECK(opcode(tiles[t].compute.front()) == MINNOW_WAIT);
        CHECK(opcode(tiles[t].compute.back()) != MINNOW_WAIT);
        for (const minnow_command &command : tiles[t].compute) {
          balance[command.w[2] % 8] += opcode(command) == MINNOW_SIGNAL;
          balance[command.w[2] % 8] -= opcode(command) == MINNOW_WAIT;
        }
      }
      for (int left : balance)
        CHECK(left == 0);
    }
  }
}

TEST_CASE("layers of some size have two tiles or more, so that loads and computation can overlap") {
  for (const std::string &name : networkNames()) {
    Lowered all(networkNamed(name).value());
    for (size_t i = 0; i < all.lowered.layers.size(); ++i) {
      const Tensor &out = all.network.tensors[all.network.layers[i].output];
      bool divisible =
          out.height > 1 || (out.channels >= 16 && all.network.layers[i].kind == LayerKind::Convolution);
      CAPTURE(name + "/" + all.network.layers[i].name);
      CHECK((all.lowered.layers[i].size() >= 2) == divisible);
    }
  }
}

TEST_CASE("loads of neighbouring tiles do not touch each other's operands") {
  for (const std::string &name : networkNames()) {
    Lowered all(networkNamed(name).value());
    for (size_t i = 0; i < all.lowered.layers.size(); ++i)
      for (size_t t = 0; t + 1 < all.lowered.layers[i].size(); ++t)
        for (const minnow_command &load : all.lowered.layers[i][t + 1].load) {
          if (opcode(load) != MINNOW_DMA_LOAD)
            continue;
          uint32_t first = load.w[4], end = first + (load.w[6] - 1) * load.w[8] + load.w[5];
          for (const minnow_command &command : all.lowered.layers[i][t].compute) {
            if (opcode(command) != MINNOW_GEMM)
              continue;
            uint32_t a = command.w[2], aEnd = a + (command.w[5] - 1) * command.w[8] + command.w[7];
            uint32_t b = command.w[3], bEnd = b + (command.w[7] - 1) * command.w[9] + command.w[6];
            CAPTURE(name + "/" + all.network.layers[i].name);
            CHECK((end <= a || first >= aEnd));
            CHECK((end <= b || first >= bEnd));
          }
        }
  }
}

TEST_CASE("a chain's links follow each other to the last, whose next leads nowhere") {
  Lowered all(networkNamed("kws").value());
  REQUIRE(all.lowered.prologue.size() == 1);
  uint64_t first = all.lowered.prologue[0].w[2] | uint64_t(all.lowered.prologue[0].w[3]) << 32;
  CHECK(first == arena + all.layout.descriptors);
  size_t links = 0;
  for (const minnow_descriptor &link : all.lowered.descriptors) {
    ++links;
    if (link.flags & MINNOW_DESCRIPTOR_LAST) {
      CHECK(link.next == 0);
      break;
    }
    CHECK(link.next == first + links * sizeof link);
  }
  CHECK(links == 10); // All layers but the pool have biases.
}

TEST_CASE("what cannot fit is refused with the layer's name") {
  NetworkBuilder wide("wide", 4, 4, 1024);
  wide.convolution("too-deep", 0, 8, {3, 3, 1, true}, true); // k = 3 · 1024.
  CHECK(Lowered(wide.take()).failure == "layer too-deep does not fit");
  NetworkBuilder many("many", 1, 1, 8);
  uint32_t at = 0;
  for (int i = 0; i < 17; ++i)
    at = many.fullyConnected("fc" + std::to_string(i), at, 1000, true);
  CHECK(Lowered(many.take()).failure == "the biases do not fit");
}
