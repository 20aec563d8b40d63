// Keyframes: what they hold, whether one can be restored and why not, and beginning from one.
#include "EduDescription.h"
#include "PacketScript.h"
#include "format/Failure.h"

using namespace tapeback;

namespace {

Keyframe taken(PacketScript &script) {
  llvm::Expected<Keyframe> keyframe = script.keyframe();
  REQUIRE(bool(keyframe));
  return std::move(*keyframe);
}

std::optional<uint64_t> valueIn(const Keyframe &keyframe, uint64_t address) {
  for (const KeyframeRegister &reg : keyframe.registers)
    if (reg.space == 1 && reg.address == address)
      return reg.value;
  return std::nullopt;
}

std::string contentOf(PacketScript &script, const std::vector<KeyframeExtent> &extents) {
  std::string text;
  for (const KeyframeExtent &extent : extents) {
    llvm::ArrayRef<uint8_t> bytes = script.lookup()(extent.content);
    CHECK(bytes.size() == extent.length);
    text += "[" + std::to_string(extent.space) + ":" + std::to_string(extent.address) + " " +
            std::string(bytes.begin(), bytes.end()) + "]";
  }
  return text;
}

} // namespace

TEST_CASE("after a reset and some work, edu can be restored") {
  PacketScript script(&eduDescription());
  script.reset();
  script.map(0x10000, 0x2000);
  script.dma(true, 0x10ffe, 0x40010, bytesOf("abcd"));
  script.write(0x20, 0x80);
  script.memoryWrite(0x90000, bytesOf("not mapped"));
  Keyframe keyframe = taken(script);
  CHECK(keyframe.restorable);
  CHECK(keyframe.reason == "restore recipe of edu, 5 steps");
  CHECK(keyframe.device == 0);
  CHECK(valueIn(keyframe, 0x20) == 0x80);
  CHECK(valueIn(keyframe, 0x80) == 0x10ffe);
  CHECK(valueIn(keyframe, 0x00) == 0x010000ed);
  CHECK(!valueIn(keyframe, 0x60));
  CHECK(contentOf(script, keyframe.memory) == "[0:69630 ab][0:69632 cd]");
  CHECK(contentOf(script, keyframe.internal) == "[0:262160 abcd]"); // Not what is still as the reset left it.
  REQUIRE(keyframe.mappings.size() == 1);
}

TEST_CASE("why a keyframe cannot be restored") {
  {
    PacketScript script(nullptr);
    CHECK(!taken(script).restorable);
    CHECK(taken(script).reason == "there is no device description");
  }
  {
    Description bare = descriptionOf("{tapeback-description: 1, name: bare}");
    PacketScript script(&bare);
    CHECK(!taken(script).restorable);
    CHECK(taken(script).reason == "the description of bare has no restore recipe");
  }
  {
    Description empty = descriptionOf("{tapeback-description: 1, name: empty, restore: []}");
    PacketScript script(&empty);
    CHECK(taken(script).restorable);
    script.content(PacketKind::Submit, 0x1000, bytesOf("x"));
    CHECK(!taken(script).restorable);
    CHECK(taken(script).reason == "the device was not quiescent: a submission");
  }
  PacketScript script(&eduDescription());
  CHECK(taken(script).reason == "the content of window buffer is not known at 0x40000");
  script.dma(true, 0x1000, 0x40000, std::vector<uint8_t>(2048, 'x'));
  CHECK(taken(script).reason == "the content of window buffer is not known at 0x40800");
  script.dma(true, 0x1000, 0x40800, std::vector<uint8_t>(2047, 'y'));
  CHECK(taken(script).reason == "register STATUS is not known");
  CHECK(!taken(script).restorable);
  script.read(0x20, 0);
  CHECK(taken(script).restorable);
  uint64_t descriptor = script.startDma(true, 0x1000, 0x40100, bytesOf("abcd"));
  script.write(0x08, 3);
  CHECK(!taken(script).restorable);
  CHECK(taken(script).reason == "the device was not quiescent: dma, factorial");
  script.read(0x20, 0);
  script.read(0x98, 0, 8);
  CHECK(taken(script).reason == "the device was not quiescent: dma");
  script.finishDma(descriptor, 0x1000);
  CHECK(taken(script).restorable);
  script.access(PacketKind::RegisterWrite, 0x80, 8, 1, Completion::Failed);
  CHECK(taken(script).reason == "register DMA_SRC is not known");
  script.loss(LossCause::RingFull);
  CHECK(taken(script).reason == "the device was not quiescent: dma (perhaps: packets were lost), factorial "
                                "(perhaps: packets were lost)");
}

TEST_CASE("a window with a hole that was never captured, in what the reset defined") {
  PacketScript script(&eduDescription());
  script.reset();
  script.dma(true, 0x1000, 0x40000, bytesOf("abcd"));
  CHECK(taken(script).restorable);
  uint64_t blind =
      script.range(PacketKind::DmaDescriptor, 0x1000, 2, TransferToDevice | NotCaptured, 0x40ffd, 0);
  script.write(0x98, 1, 8);
  script.poll(0x98, 0, 8);
  script.finishDma(blind, 0x1000);
  CHECK(taken(script).reason == "the content of window buffer is not known at 0x40ffd");
  script.dma(true, 0x1000, 0x40ffc, bytesOf("XYZ"));
  CHECK(taken(script).restorable);
}

TEST_CASE("limits that were reached make a keyframe unrestorable where it matters") {
  ShadowLimits limits;
  limits.pages = 1;
  PacketScript script(&eduDescription(), limits);
  script.reset();
  script.map(0x1000, 0x1000);
  script.dma(true, 0x1000, 0x40000, bytesOf("abcd"));
  CHECK(taken(script).reason ==
        "the content of window buffer is not known at 0x40000 (more content than can be remembered)");
  limits = {};
  limits.mappings = 8;
  PacketScript mapped(&eduDescription(), limits);
  mapped.reset();
  for (uint64_t i = 0; i < 8; ++i)
    mapped.map(0x2000 * i, 0x1000);
  CHECK(taken(mapped).restorable);
  mapped.map(0x80000, 0x1000);
  CHECK(taken(mapped).reason == "there were more mappings than can be remembered");
  limits = {};
  limits.outstanding = 2;
  PacketScript busy(&eduDescription(), limits);
  for (int i = 0; i < 3; ++i)
    busy.access(PacketKind::RegisterRead, 0x20, 4, 0, Completion::Pending);
  CHECK(taken(busy).reason ==
        "the device was not quiescent: an operation that has not come back, more than can be "
        "remembered");
  busy.reset();
  CHECK(taken(busy).restorable);
}

TEST_CASE("a store that fails fails the keyframe") {
  PacketScript script(&eduDescription());
  script.map(0x1000, 0x1000);
  script.memoryWrite(0x1000, bytesOf("abc"));
  script.dma(true, 0x1000, 0x40000, bytesOf("abcd"));
  int calls = 0;
  llvm::Expected<Keyframe> keyframe =
      script.state.keyframe([&](llvm::ArrayRef<uint8_t>) -> llvm::Expected<BlobId> {
        ++calls;
        return failSystem("disk-full", "the disk is full");
      });
  REQUIRE(!keyframe);
  CHECK(toFailure(keyframe.takeError()).code == "disk-full");
  CHECK(calls == 1);
}

TEST_CASE("a state that begins from a keyframe answers as the one it was taken of") {
  PacketScript script(&eduDescription());
  script.reset();
  script.map(0x10000, 0x2000);
  script.dma(true, 0x10ffe, 0x40010, bytesOf("abcd"));
  script.write(0x20, 0x80);
  script.write(0x1000, 5); // Undescribed.
  Keyframe keyframe = taken(script);
  keyframe.packet = 100;
  REQUIRE(keyframe.restorable);

  PacketScript later(&eduDescription());
  later.blobs = script.blobs;
  later.lastBlob = script.lastBlob;
  later.mark("before");
  later.startDma(true, 0x10000, 0x40000, bytesOf("gone"));
  later.state.seed(keyframe, later.lookup());
  later.next = 100;
  CHECK(later.state.quiescent());
  CHECK(later.memory(0x10ffd, 6) == "?abcd?");
  CHECK(later.window(0x4000f, 6) == std::string(1, '\0') + "abcd" + std::string(1, '\0'));
  CHECK(later.state.registerValue(1, 0x20) == 0x80);
  CHECK(later.state.registerValue(1, 0x1000) == 5);
  CHECK(!later.state.lastWriterOfRegister(1, 0x20));
  // The loss that the keyframe stands behind is no loss; the next one is.
  later.loss(LossCause::NotRecording);
  CHECK(later.state.quiescent());
  CHECK(later.state.registerValue(1, 0x20) == 0x80);
  Keyframe again = taken(later);
  CHECK(again.restorable);
  CHECK(contentOf(later, again.internal) == contentOf(script, keyframe.internal));
  CHECK(contentOf(later, again.memory) == contentOf(script, keyframe.memory));
  CHECK(again.registers.size() == keyframe.registers.size());
  CHECK(again.mappings.size() == 1);
  later.loss(LossCause::NotRecording);
  CHECK(!later.state.registerValue(1, 0x20));

  PacketScript real(&eduDescription());
  real.blobs = script.blobs;
  real.state.seed(keyframe, real.lookup());
  real.next = 100;
  real.loss(LossCause::RingFull); // At its place, but packets are truly missing.
  CHECK(!real.state.registerValue(1, 0x20));
}

TEST_CASE("beginning from a keyframe that was not restorable leaves open what may be running") {
  PacketScript script(&eduDescription());
  script.startDma(true, 0x10000, 0x40000, bytesOf("abcd"));
  Keyframe keyframe = taken(script);
  PacketScript later(&eduDescription());
  later.state.seed(keyframe, nullptr);
  CHECK(!later.state.quiescent());
  CHECK(later.window(0x40000, 1) == "?");
}

TEST_CASE("a hostile keyframe") {
  Keyframe keyframe;
  keyframe.restorable = true;
  keyframe.packet = ~uint64_t(0);
  keyframe.registers = {
      {1, 0, 0, 1}, {1, ~uint64_t(0), 8, 1}, {65535, 0, 255, 1}, {1, 0x20, 3, 5}, {1, 0x81, 8, 1}};
  keyframe.mappings = {{0, ~uint64_t(0), ~uint64_t(0), {}}, {0, 0, ~uint64_t(0), {}}, {0, 5, 0, {}}};
  keyframe.memory = {{0, ~uint64_t(0) - 1, ~uint64_t(0), {1, 1}}, {0, 5, 0, {1, 1}}};
  keyframe.internal = {{0, 0x3fffe, 10, {1, 1}}, {0, 0x40ffd, ~uint64_t(0), {1, 1}}, {9, 0, 1, {1, 1}}};
  PacketScript script(&eduDescription());
  script.blobs[1] = bytesOf("abcdefgh");
  script.state.seed(keyframe, script.lookup());
  CHECK(script.memory(~uint64_t(0) - 1, 2) == "ab");
  CHECK(script.window(0x40ffd, 2) == "ab");
  CHECK(script.window(0x40000, 1) == std::string(1, '\0'));
  llvm::Expected<Keyframe> again = script.keyframe();
  REQUIRE(bool(again));
}
