// Contents of memory and of internal windows, and who wrote each byte last.
#include "EduDescription.h"
#include "PacketScript.h"

using namespace tapeback;

TEST_CASE("what the host wrote is known, with its writer") {
  PacketScript script(nullptr);
  uint64_t first = script.memoryWrite(0x0ffe, bytesOf("abcdef")); // Over a page boundary.
  uint64_t second = script.memoryWrite(0x1000, bytesOf("XY"));
  CHECK(script.memory(0x0ffc, 10) == "??abXYef??");
  CHECK(script.state.lastWriterOfMemory(0x0ffe) == first);
  CHECK(script.state.lastWriterOfMemory(0x1000) == second);
  CHECK(script.state.lastWriterOfMemory(0x1001) == second);
  CHECK(script.state.lastWriterOfMemory(0x1002) == first);
  CHECK(script.state.lastWriterOfMemory(0x1003) == first);
  CHECK(!script.state.lastWriterOfMemory(0x1004));
  CHECK(!script.state.lastWriterOfMemory(0x0ffd));
}

TEST_CASE("what was not captured is not known, but its writer is") {
  PacketScript script(nullptr);
  script.memoryWrite(0x1000, bytesOf("abcdefgh"));
  uint64_t blind = script.range(PacketKind::MemoryWrite, 0x1002, 2, NotCaptured);
  CHECK(script.memory(0x1000, 8) == "ab??efgh");
  CHECK(script.state.lastWriterOfMemory(0x1002) == blind);
  // Truncated: shorter than it says.
  Packet packet;
  packet.kind = PacketKind::MemoryWrite;
  packet.address = 0x1004;
  packet.flags = Truncated;
  PacketExtra extra;
  extra.length = 4;
  extra.payload = script.store(bytesOf("X"));
  script.apply(packet, extra);
  CHECK(script.memory(0x1000, 8) == "ab??X???");
  // More payload than length: only the length counts.
  packet.address = 0x1000;
  extra.length = 1;
  extra.payload = script.store(bytesOf("123"));
  script.apply(packet, extra);
  CHECK(script.memory(0x1000, 8) == "1b??X???");
  // A payload that nobody can find.
  packet.address = 0x1000;
  extra.payload = {7, 0xdead};
  script.apply(packet, extra);
  CHECK(script.memory(0x1000, 2) == "?b");
  // A write that failed, or hangs.
  packet.address = 0x1001;
  packet.completion = Completion::Pending;
  script.apply(packet, extra);
  CHECK(script.memory(0x1000, 2) == "??");
}

TEST_CASE("what was read is known; if it is not what was written, somebody else wrote it") {
  PacketScript script(nullptr);
  uint64_t writer = script.memoryWrite(0x1000, bytesOf("abcdef"));
  script.acquire(0x1001, bytesOf("bXYef"));
  CHECK(script.memory(0x1000, 7) == "abXYef?");
  CHECK(script.state.lastWriterOfMemory(0x1001) == writer);
  CHECK(!script.state.lastWriterOfMemory(0x1002));
  CHECK(!script.state.lastWriterOfMemory(0x1003));
  CHECK(script.state.lastWriterOfMemory(0x1004) == writer);
  script.content(PacketKind::MemoryRead, 0x2000, bytesOf("seen"));
  CHECK(script.memory(0x2000, 4) == "seen");
  CHECK(!script.state.lastWriterOfMemory(0x2000));
  script.access(PacketKind::MemoryWait, 0x3000, 2, 0x4241);
  CHECK(script.memory(0x3000, 3) == "AB?");
}

TEST_CASE("mapping and unmapping") {
  PacketScript script(nullptr);
  script.map(0x1000, 0x1000);
  script.memoryWrite(0x1000, bytesOf("old"));
  script.range(PacketKind::MemoryUnmap, 0x1000, 0x1000);
  CHECK(script.memory(0x1000, 3) == "???");
  CHECK(!script.state.lastWriterOfMemory(0x1000));
  script.map(0x1000, 0x2000);
  CHECK(script.memory(0x1000, 3) == "???");
  script.map(0x8000, 0); // Nothing.
  llvm::Expected<Keyframe> keyframe = script.keyframe();
  REQUIRE(bool(keyframe));
  REQUIRE(keyframe->mappings.size() == 1);
  CHECK(keyframe->mappings[0].address == 0x1000);
  CHECK(keyframe->mappings[0].length == 0x2000);
}

TEST_CASE("memory goes with its device") {
  for (PacketKind kind :
       {PacketKind::Close, PacketKind::Open}) { // Of a process that died only the open tells.
    PacketScript script(nullptr);
    script.map(0x1000, 0x1000);
    script.memoryWrite(0x1000, bytesOf("old"));
    script.range(kind, 0, 0);
    CHECK(script.memory(0x1000, 3) == "???");
    CHECK(!script.state.lastWriterOfMemory(0x1000));
    llvm::Expected<Keyframe> keyframe = script.keyframe();
    REQUIRE(bool(keyframe));
    CHECK(keyframe->mappings.empty());
  }
}

TEST_CASE("a window is known through transfers to the device") {
  PacketScript script(&eduDescription());
  CHECK(script.window(0x40000, 4) == "????");
  uint64_t descriptor = script.startDma(true, 0x1000, 0x40002, bytesOf("abcd"));
  CHECK(script.window(0x40000, 8) == "????????"); // Under way.
  CHECK(script.state.lastWriterOfWindow("buffer", 0x40002) == descriptor);
  script.poll(0x98, 0, 8);
  script.finishDma(descriptor, 0x1000);
  CHECK(script.window(0x40000, 8) == "??abcd??");
  CHECK(script.state.lastWriterOfWindow("buffer", 0x40005) == descriptor);
  CHECK(!script.state.lastWriterOfWindow("buffer", 0x40006));
  CHECK(!script.state.lastWriterOfWindow("none", 0x40002));
  CHECK(!script.state.lastWriterOfWindow("buffer", 0x50000));
}

TEST_CASE("a transfer from the device writes memory, and confirms or corrects the window") {
  PacketScript script(&eduDescription());
  script.dma(true, 0x1000, 0x40000, bytesOf("abcd"));
  uint64_t told = *script.state.lastWriterOfWindow("buffer", 0x40000);
  uint64_t descriptor = script.startDma(false, 0x2000, 0x40000, bytesOf("abXd"));
  CHECK(script.memory(0x2000, 4) == "????"); // Whatever the device has written by now.
  script.poll(0x98, 2, 8);
  script.finishDma(descriptor, 0x2000, bytesOf("abXd"));
  CHECK(script.memory(0x2000, 4) == "abXd");
  CHECK(script.state.lastWriterOfMemory(0x2003) == descriptor);
  CHECK(script.window(0x40000, 5) == "abXd?");
  CHECK(script.state.lastWriterOfWindow("buffer", 0x40000) == told);
  CHECK(!script.state.lastWriterOfWindow("buffer", 0x40002)); // Not by any packet.
  CHECK(script.state.lastWriterOfWindow("buffer", 0x40003) == told);
}

TEST_CASE("after a reset the window is as the description says, except where somebody wrote") {
  PacketScript script(&eduDescription());
  script.dma(true, 0x1000, 0x40000, bytesOf("abcd"));
  uint64_t reset = script.reset();
  CHECK(script.window(0x40000, 4) == std::string(4, '\0'));
  CHECK(script.window(0x40000 + 4094, 2) ==
        std::string(1, '\0') + "?"); // The last byte is beyond the window.
  CHECK(script.state.lastWriterOfWindow("buffer", 0x40000) == reset);
  uint64_t blind =
      script.range(PacketKind::DmaDescriptor, 0x1000, 2, TransferToDevice | NotCaptured, 0x40001, 0);
  script.write(0x98, 1, 8);
  script.poll(0x98, 0, 8);
  script.finishDma(blind, 0x1000);
  CHECK(script.window(0x40000, 4) == std::string(1, '\0') + "??" + std::string(1, '\0'));
  CHECK(script.state.lastWriterOfWindow("buffer", 0x40001) == blind);
  script.reset(1); // Not the one after which it is defined.
  CHECK(script.window(0x40000, 4) == "????");
}

TEST_CASE("transfers that reach beyond the window are cut to it") {
  PacketScript script(&eduDescription());
  script.dma(true, 0x1000, 0x3fffe, bytesOf("abcd"));
  CHECK(script.window(0x3fffe, 5) == "??cd?");
  script.dma(true, 0x1000, 0x40ffd, bytesOf("wxyz"));
  CHECK(script.window(0x40ffd, 4) == "wx??");
  script.dma(true, 0x1000, 0x90000, bytesOf("abcd")); // Outside of it altogether.
  CHECK(script.window(0x40000, 4) == "cd??");
  script.dma(false, 0x5000, 0x3fffe, bytesOf("1234"));
  CHECK(script.memory(0x5000, 4) == "1234");
  CHECK(script.window(0x40000, 2) == "34");
}

TEST_CASE("without recorded descriptors the registers tell what a transfer touched") {
  PacketScript script(&eduDescription());
  script.reset();
  script.memoryWrite(0x1000, bytesOf("abcdefgh"));
  script.write(0x80, 0x40002, 8);
  script.write(0x88, 0x1002, 8);
  script.write(0x90, 3, 8);
  uint64_t command = script.write(0x98, 3, 8); // From the device.
  CHECK(script.memory(0x1000, 8) == "ab???fgh");
  CHECK(script.state.lastWriterOfMemory(0x1002) == command);
  CHECK(script.window(0x40002, 1) == std::string(1, '\0'));
  script.poll(0x98, 2, 8);
  CHECK(script.state.quiescent());
  script.write(0x80, 0x1000, 8);
  script.write(0x88, 0x40001, 8);
  command = script.write(0x98, 1, 8); // To the device.
  CHECK(script.window(0x40000, 5) == std::string(1, '\0') + "???" + std::string(1, '\0'));
  CHECK(script.state.lastWriterOfWindow("buffer", 0x40003) == command);
  // Of no bytes: nothing.
  script.write(0x90, 0, 8);
  script.write(0x98, 3, 8);
  CHECK(script.memory(0x1000, 1) == "a");
  // To who knows where: nothing is known any more.
  script.write(0x90, 8, 8);
  script.access(PacketKind::RegisterWrite, 0x88, 8, 0x1000, Completion::Failed);
  script.write(0x98, 3, 8);
  CHECK(script.memory(0x1000, 1) == "?");
  CHECK(!script.state.lastWriterOfMemory(0x1000));
  script.write(0x98, 1, 8);
  CHECK(script.window(0x40000, 1) == "?");
}

TEST_CASE("a loss leaves no content known") {
  PacketScript script(&eduDescription());
  script.reset();
  script.memoryWrite(0x1000, bytesOf("abcd"));
  script.dma(true, 0x1000, 0x40000, bytesOf("abcd"));
  script.loss(LossCause::Damage);
  CHECK(script.memory(0x1000, 4) == "????");
  CHECK(script.window(0x40000, 8) == "????????");
  CHECK(!script.state.lastWriterOfMemory(0x1000));
  CHECK(!script.state.lastWriterOfWindow("buffer", 0x40000));
}

TEST_CASE("content beyond the limit is not known, rather than wrong") {
  ShadowLimits limits;
  limits.pages = 2;
  PacketScript script(&eduDescription(), limits);
  script.reset();
  CHECK(script.window(0x40000, 1) == std::string(1, '\0'));
  script.memoryWrite(0x1000, bytesOf("a"));
  script.memoryWrite(0x2000, bytesOf("b"));
  script.memoryWrite(0x3000, bytesOf("c"));
  CHECK(script.memory(0x1000, 1) == "a");
  CHECK(script.memory(0x2000, 1) == "b");
  CHECK(script.memory(0x3000, 1) == "?");
  CHECK(script.window(0x40000, 1) == "?"); // It might have been written without room to say so.
  script.range(PacketKind::MemoryUnmap, 0x1000, 0x1000);
  script.memoryWrite(0x3000, bytesOf("c"));
  CHECK(script.memory(0x3000, 1) == "c");
}

TEST_CASE("writers beyond the limit are forgotten, oldest first") {
  ShadowLimits limits;
  limits.writers = 100;
  PacketScript script(nullptr, limits);
  uint64_t newest = 0;
  for (uint64_t i = 0; i < 1000; ++i)
    newest = script.memoryWrite(16 * i, bytesOf("x"));
  CHECK(script.state.lastWriterOfMemory(16 * 999) == newest);
  CHECK(!script.state.lastWriterOfMemory(0));
}
