// Lowered networks on the reference model: what the device computes is what the host does; and where it does
// not, the oracle says so.
#include "tests/hal/minnow/driver/Open.h"

using namespace tapeback::minnow;
using tapeback::test::Opened;

namespace {

/// The problem's text, empty if all held.
std::string run(const std::string &uri, const Network &network, RunOptions options = {},
                AcceleratorOptions accelerator = {}) {
  Opened opened(uri, accelerator);
  RunFigures figures;
  std::string failure;
  bool complete = runNetwork(*opened.accelerator, network, options, figures, failure);
  if (!failure.empty())
    return failure;
  CHECK(complete == !opened.accelerator->failed());
  if (complete)
    CHECK(figures.layers == network.layers.size() * options.inferences);
  CHECK(!opened.accelerator->targetFailed());
  return opened.accelerator->wrong() ? opened.accelerator->problem() : "";
}

using Window = NetworkBuilder::Window;

} // namespace

TEST_CASE("the networks of MLPerf Tiny, whatever the order of the two queues") {
  for (const std::string &name : networkNames()) {
    CAPTURE(name);
    CHECK(run("model:minnow", networkNamed(name).value()) == "");
    RunOptions options;
    options.seed = 7;
    options.inferences = 2;
    for (const char *uri : {"model:minnow?jitter=1", "model:minnow?jitter=2&memory-latency=200"})
      CHECK(run(uri, networkNamed(name).value(), options) == "");
  }
}

TEST_CASE("READ_BURSTS wraps in a real workload and is expected to") {
  RunOptions options;
  options.inferences = 4;
  AcceleratorOptions defaults;
  Opened opened("model:minnow", defaults);
  RunFigures figures;
  std::string failure;
  CHECK(runNetwork(*opened.accelerator, networkNamed("vww").value(), options, figures, failure));
  CHECK(figures.counters.readBursts > 0x10000);
}

TEST_CASE("odd shapes: strides, windows, remainders of rows and channels") {
  struct Shape {
    uint32_t height, width, in, out;
    Window window;
  };
  unsigned number = 0;
  for (const Shape &shape : {Shape{1, 1, 8, 8, {1, 1, 1, true}}, Shape{7, 5, 3, 10, {3, 3, 1, true}},
                             Shape{7, 5, 3, 10, {3, 3, 2, true}}, Shape{8, 9, 16, 24, {3, 3, 2, true}},
                             Shape{9, 8, 8, 8, {5, 2, 1, true}}, Shape{9, 8, 8, 8, {2, 5, 3, false}},
                             Shape{13, 1, 8, 16, {3, 1, 1, true}}, Shape{1, 13, 8, 16, {1, 3, 1, true}},
                             Shape{6, 6, 40, 72, {1, 1, 2, true}}, Shape{33, 31, 24, 8, {3, 3, 1, true}},
                             Shape{4, 40, 128, 256, {1, 1, 1, true}}, Shape{2, 3, 256, 320, {1, 1, 1, true}},
                             Shape{3, 3, 64, 512, {3, 3, 1, true}}, Shape{1, 1, 1000, 200, {}}}) {
    ++number;
    NetworkBuilder build("odd", shape.height, shape.width, shape.in);
    uint32_t at = build.convolution("dense", 0, shape.out, shape.window, false);
    at = build.depthwise("depthwise", at, {3, 3, 1, true}, true);
    at = build.depthwise("depthwise2", at, {3, 3, 2, true}, false);
    uint32_t other = build.convolution("shortcut", at, shape.out, {1, 1, 1, true}, false, 0);
    at = build.add("add", at, other, number % 2);
    at = build.averagePool("pool", at);
    build.fullyConnected("end", at, 20, false, -9);
    RunOptions options;
    options.seed = number;
    CAPTURE(number);
    CHECK(run("model:minnow?jitter=" + std::to_string(number), build.take(), options) == "");
  }
}

TEST_CASE("lines of a layer whose channels do not all fit are stored one by one") {
  NetworkBuilder build("split", 3, 6, 256);
  build.convolution("wide", 0, 512, {1, 1, 1, true}, true); // One line of sums: 12 KiB; weights: 128 KiB.
  Network network = build.take();
  CHECK(run("model:minnow", network) == "");
}

TEST_CASE("less of the scratchpad, more and smaller tiles") {
  for (const std::string &name : networkNames())
    for (uint32_t kib : {20, 24, 32}) {
      RunOptions options;
      options.scratchpad = kib * 1024;
      CAPTURE(name);
      CAPTURE(kib);
      CHECK(run("model:minnow?jitter=3", networkNamed(name).value(), options) == "");
    }
}

TEST_CASE("checks at the end only: the last output, and the counters") {
  RunOptions options;
  options.checkLayers = false;
  options.inferences = 2;
  CHECK(run("model:minnow", networkNamed("ad").value(), options) == "");
  options.beforeCheck = [](size_t layer, Activation &expected) {
    if (layer == 3)
      expected[17] = int8_t(expected[17] ^ 1); // Not looked at.
  };
  CHECK(run("model:minnow", networkNamed("ad").value(), options) == "");
  options.beforeCheck = [](size_t layer, Activation &expected) {
    if (layer == 9)
      expected[17] = int8_t(expected[17] ^ 1);
  };
  CHECK(run("model:minnow", networkNamed("ad").value(), options) == "check 'ad/output' does not hold");
}

TEST_CASE("rings of any size, of which some run full") {
  for (uint32_t entries : {8, 16, 128, 1024}) {
    AcceleratorOptions options;
    options.ringEntries = entries;
    CAPTURE(entries);
    CHECK(run("model:minnow?jitter=5", networkNamed("kws").value(), {}, options) == "");
  }
}

TEST_CASE("the oracle must fail: one bit of one expected byte") {
  RunOptions options;
  options.beforeCheck = [](size_t layer, Activation &expected) {
    if (layer == 3)
      expected[17] = int8_t(expected[17] ^ 1);
  };
  CHECK(run("model:minnow", networkNamed("ad").value(), options) == "check 'ad/enc4' does not hold");
  // Going on counts it and finds nothing else.
  AcceleratorOptions goOn;
  goOn.keepGoing = true;
  Opened opened("model:minnow", goOn);
  RunFigures figures;
  std::string failure;
  CHECK(runNetwork(*opened.accelerator, networkNamed("ad").value(), options, figures, failure));
  CHECK(opened.accelerator->wrong() == 1);
  CHECK(figures.layers == 10);
}

TEST_CASE("the counters' check must fail when they were tampered with") {
  Opened opened("model:minnow");
  Accelerator &accelerator = *opened.accelerator;
  Accelerator::Memory memory;
  Accelerator::Fence fence;
  REQUIRE(accelerator.start());
  REQUIRE(accelerator.allocate(4096, memory));
  REQUIRE(accelerator.push(0, minnow_dma(MINNOW_DMA_LOAD, memory.iova, 0, 72, 2, 128, 72)));
  REQUIRE(accelerator.fence(0, false, fence));
  REQUIRE(accelerator.wait(fence));
  REQUIRE(accelerator.waitIdle());
  CHECK(accelerator.expected().readBytes == 144);
  CHECK(accelerator.expected().readBursts == 4);
  CHECK(accelerator.expected().commands == 2);
  REQUIRE(accelerator.checkCounters());
  REQUIRE(tb_write32(opened.device, "bar0", MINNOW_CNT_CONTROL, MINNOW_CNT_CLEAR) == TB_OK);
  CHECK(!accelerator.checkCounters());
  CHECK(accelerator.problem() == "check 'READ_BYTES' does not hold");
}

TEST_CASE("a fence that does not come: the deadline, and what the registers say") {
  AcceleratorOptions options;
  options.deadlineNs = 1'000'000;
  {
    Opened opened("model:minnow", options);
    Accelerator::Fence fence;
    REQUIRE(opened.accelerator->start());
    REQUIRE(opened.accelerator->push(1, minnow_wait(5))); // Nobody signals it.
    REQUIRE(opened.accelerator->fence(1, false, fence));
    CHECK(!opened.accelerator->wait(fence));
    CHECK(opened.accelerator->problem() ==
          "'fence' did not come: status 0x201, queue 0 at 0 of 0, queue 1 at 0 of 2");
    CHECK(opened.accelerator->wrong() == 1);
    CHECK(!opened.accelerator->targetFailed());
  }
  Opened opened("model:minnow", options);
  Accelerator::Fence fence;
  REQUIRE(opened.accelerator->start());
  REQUIRE(opened.accelerator->push(0, minnow_nop()));
  REQUIRE(opened.accelerator->push(0, minnow_make(0x7f, 0))); // No such command.
  REQUIRE(opened.accelerator->fence(0, true, fence));
  CHECK(!opened.accelerator->wait(fence));
  CHECK(opened.accelerator->problem() == "'fence' did not come: status 0x103, queue 0 at 1 of 3, queue 1 at "
                                         "0 of 0; error 1 at queue 0, index 1, "
                                         "command 0x0000007f, address 0x0");
}
