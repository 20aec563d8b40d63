// Register shadows and their last writers.
#include "EduDescription.h"
#include "PacketScript.h"

using namespace tapeback;

TEST_CASE("a shadow is what was written last, or read if nothing was written") {
  PacketScript script(&eduDescription());
  CHECK(!script.state.registerValue(1, 0x20));
  script.read(0x20, 0x01);
  CHECK(script.state.registerValue(1, 0x20) == 0x01);
  script.read(0x20, 0x00);
  CHECK(script.state.registerValue(1, 0x20) == 0x00);
  CHECK(!script.state.lastWriterOfRegister(1, 0x20));
  uint64_t writer = script.write(0x20, 0x80);
  script.read(0x20, 0x81);
  CHECK(script.state.registerValue(1, 0x20) == 0x80);
  CHECK(script.state.lastWriterOfRegister(1, 0x20) == writer);
  script.poll(0x24, 0x100);
  CHECK(script.state.registerValue(1, 0x24) == 0x100);
}

TEST_CASE("part accesses make a whole") {
  PacketScript script(&eduDescription());
  script.write(0x84, 0x11223344);
  CHECK(!script.state.registerValue(1, 0x80)); // Half of it is not known.
  uint64_t writer = script.write(0x80, 0x55667788);
  CHECK(script.state.registerValue(1, 0x80) == 0x1122334455667788);
  CHECK(script.state.registerValue(1, 0x87) == 0x1122334455667788);
  CHECK(script.state.lastWriterOfRegister(1, 0x84) == writer);
  script.write(0x82, 0xabcd, 2);
  CHECK(script.state.registerValue(1, 0x80) == 0x11223344abcd7788);
  // An access that spans two registers tells of both.
  script.read(0x20, 0x0000010000000080, 8);
  CHECK(script.state.registerValue(1, 0x20) == 0x80);
  CHECK(script.state.registerValue(1, 0x24) == 0x100);
}

TEST_CASE("a register that is read-only is not changed by a write, one that is write-only not by a read") {
  PacketScript script(&eduDescription());
  script.read(0x00, 0xed);
  script.write(0x00, 0x12345678);
  CHECK(script.state.registerValue(1, 0x00) == 0xed);
  CHECK(!script.state.lastWriterOfRegister(1, 0x00));
  script.read(0x60, 0xffffffff);
  CHECK(!script.state.registerValue(1, 0x60));
  script.write(0x60, 7);
  CHECK(script.state.registerValue(1, 0x60) == 7);
}

TEST_CASE("what changes when it is read is never in the shadow, and W1C loses the bits that were cleared") {
  Description d = descriptionOf(R"(
tapeback-description: 1
name: d
spaces: [bar0]
registers:
  - {name: RTC, offset: 0, class: read-to-clear, reset: 0}
  - {name: FIFO, offset: 4, class: fifo}
  - {name: W1C, offset: 8, class: w1c}
)");
  PacketScript script(&d);
  script.reset();
  script.read(0, 1);
  script.read(4, 2);
  uint64_t writer = script.write(4, 3);
  CHECK(!script.state.registerValue(1, 0));
  CHECK(!script.state.registerValue(1, 4));
  CHECK(script.state.lastWriterOfRegister(1, 4) == writer);
  script.write(8, 0xff); // Of what, nobody knows yet.
  CHECK(!script.state.registerValue(1, 8));
  script.read(8, 0x0f);
  script.write(8, 0x03);
  CHECK(script.state.registerValue(1, 8) == 0x0c);
  script.read(8, 0x1c);
  CHECK(script.state.registerValue(1, 8) == 0x1c);
  llvm::Expected<Keyframe> keyframe = script.keyframe();
  REQUIRE(bool(keyframe));
  CHECK(keyframe->registers.size() == 1);
}

TEST_CASE("a reset as described makes the described values, another one leaves nothing known") {
  PacketScript script(&eduDescription());
  script.write(0x20, 0x80);
  script.read(0x00, 0xed);
  uint64_t reset = script.reset();
  CHECK(script.state.registerValue(1, 0x20) == 0);
  CHECK(script.state.registerValue(1, 0x00) == 0x010000ed);
  CHECK(!script.state.registerValue(1, 0x60)); // No reset value.
  CHECK(script.state.lastWriterOfRegister(1, 0x20) == reset);
  script.read(0x20, 1); // Not written since: what is read counts.
  CHECK(script.state.registerValue(1, 0x20) == 1);
  CHECK(script.state.lastWriterOfRegister(1, 0x20) == reset);
  for (uint64_t kind : {uint64_t(1), uint64_t(2), uint64_t(4), ~uint64_t(0)}) {
    CAPTURE(kind);
    script.write(0x20, 0x80);
    script.reset(kind); // Not the power cycle after which the values hold.
    CHECK(!script.state.registerValue(1, 0x20));
  }
  script.reset(3);
  CHECK(script.state.registerValue(1, 0x20) == 0);
  script.event(PacketKind::Reset, 0, Completion::Failed);
  CHECK(!script.state.registerValue(1, 0x20));
}

TEST_CASE("a loss leaves nothing known") {
  PacketScript script(&eduDescription());
  script.write(0x20, 0x80);
  script.write(0x1000, 1); // Undescribed.
  script.loss(LossCause::RingFull);
  CHECK(!script.state.registerValue(1, 0x20));
  CHECK(!script.state.lastWriterOfRegister(1, 0x20));
  CHECK(!script.state.registerValue(1, 0x1000));
}

TEST_CASE("registers that no description knows") {
  PacketScript script(nullptr);
  script.read(0x10, 7);
  CHECK(script.state.registerValue(1, 0x10) == 7);
  CHECK(script.state.registerValue(1, 0x13) == 7);
  CHECK(!script.state.registerValue(1, 0x14));
  CHECK(!script.state.lastWriterOfRegister(1, 0x10));
  uint64_t writer = script.write(0x10, 0x1ff, 1);
  CHECK(script.state.registerValue(1, 0x10) ==
        0xff); // The other shape is gone, and the value cut to its width.
  CHECK(!script.state.registerValue(1, 0x11));
  CHECK(script.state.lastWriterOfRegister(1, 0x10) == writer);
  script.read(0x10, 3, 1);
  CHECK(script.state.registerValue(1, 0x10) == 0xff);
  script.write(0x0c, 1, 8); // Covers it.
  CHECK(script.state.registerValue(1, 0x10) == 1);
  script.write(~uint64_t(0) - 3, 9);
  CHECK(script.state.registerValue(1, ~uint64_t(0)) == 9);
  script.write(~uint64_t(0), 1, 8); // Past the end.
  CHECK(script.state.registerValue(1, ~uint64_t(0)) == 1);
  script.access(PacketKind::RegisterWrite, 0x0c, 8, 2, Completion::Failed);
  CHECK(!script.state.registerValue(1, 0x0c));
  CHECK(!script.state.registerValue(9, 0x10)); // Spaces are apart.
  uint64_t reset = script.reset();
  CHECK(!script.state.registerValue(1, 0x10));
  CHECK(script.state.lastWriterOfRegister(1, 0x10) == reset);

  ShadowLimits limits;
  limits.undescribedRegisters = 10;
  PacketScript few(nullptr, limits);
  for (uint64_t i = 0; i < 1000; ++i)
    few.write(8 * i, i);
  CHECK(few.state.registerValue(1, 72) == 9);
  CHECK(!few.state.registerValue(1, 80));
  CHECK(few.keyframe()->registers.size() == 10);
}

TEST_CASE("a space that gets its name later") {
  ShadowState state(&eduDescription(), {"memory"}, 0);
  Packet packet;
  packet.kind = PacketKind::RegisterWrite;
  packet.space = 5;
  packet.address = 0x08;
  packet.width = 4;
  packet.value = 3;
  state.apply(0, packet, {}, nullptr);
  CHECK(state.quiescent()); // Not known to be FACTORIAL.
  state.addSpace(5, "bar0");
  state.apply(1, packet, {}, nullptr);
  CHECK(!state.quiescent());
  auto none = [](llvm::ArrayRef<uint8_t>) -> llvm::Expected<BlobId> { return BlobId(); };
  llvm::Expected<Keyframe> keyframe = state.keyframe(none);
  REQUIRE(bool(keyframe));
  bool found = false;
  for (const KeyframeRegister &reg : keyframe->registers)
    found |= reg.space == 5 && reg.address == 8 && reg.value == 3 && reg.width == 4;
  CHECK(found);
}
