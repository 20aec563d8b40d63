// Quiescence, synchronisation points, commands and markers.
#include "EduDescription.h"
#include "PacketScript.h"

using namespace tapeback;

TEST_CASE("a device that was told nothing is quiescent") {
  PacketScript script(&eduDescription());
  CHECK(script.state.quiescent());
  script.read(0x00, 0x010000ed);
  script.write(0x04, 5);
  CHECK(script.state.quiescent());
  CHECK(!script.state.atSynchronisation());
  CHECK(script.state.commands() == 0);
}

TEST_CASE("an activity runs from its starting write until its end is seen") {
  PacketScript script(&eduDescription());
  script.write(0x08, 5);
  CHECK(!script.state.quiescent());
  CHECK(script.state.running() == std::vector<std::string>{"factorial"});
  CHECK(script.state.commands() == 1);
  script.poll(0x20, 0x81); // Still computing.
  CHECK(!script.state.quiescent());
  CHECK(!script.state.atSynchronisation());
  script.read(0x24, 0x100); // Another activity's end.
  CHECK(!script.state.quiescent());
  script.read(0x20, 0x80);
  CHECK(script.state.quiescent());
  CHECK(script.state.atSynchronisation());
  CHECK(script.state.running().empty());
  script.read(0x20, 0x80); // Seen again: nothing was running any more.
  CHECK(!script.state.atSynchronisation());
}

TEST_CASE("a poll whose deadline passed still shows what it read last") {
  PacketScript script(&eduDescription());
  script.write(0x08, 5);
  script.access(PacketKind::Poll, 0x20, 4, 1, Completion::TimedOut);
  CHECK(!script.state.quiescent());
  script.access(PacketKind::Poll, 0x20, 4, 0, Completion::Failed); // Read nothing.
  CHECK(!script.state.quiescent());
  script.access(PacketKind::Poll, 0x20, 4, 0, Completion::TimedOut);
  CHECK(script.state.quiescent());
}

TEST_CASE("a transfer is complete with its completion, not before") {
  PacketScript script(&eduDescription());
  uint64_t descriptor = script.startDma(true, 0x1000, 0x40000, bytesOf("abcd"));
  CHECK(script.state.running() == std::vector<std::string>{"dma"});
  script.poll(0x98, 0, 8); // The end is seen; the recorder still has to tell of the transfer.
  CHECK(!script.state.quiescent());
  CHECK(!script.state.atSynchronisation());
  script.finishDma(descriptor, 0x1000);
  CHECK(script.state.quiescent());
  CHECK(script.state.atSynchronisation());
}

TEST_CASE("an end that was never polled for is known by the completion") {
  PacketScript script(&eduDescription());
  uint64_t descriptor = script.startDma(false, 0x1000, 0x40000, bytesOf("abcd"));
  script.acquire(0x1000, bytesOf("abcd"));
  CHECK(!script.state.atSynchronisation()); // The completion follows.
  CHECK(!script.state.quiescent());
  script.finishDma(descriptor, 0x1000, bytesOf("abcd"));
  CHECK(script.state.quiescent());
  CHECK(script.state.atSynchronisation());
}

TEST_CASE("the end may show in either of two registers") {
  PacketScript script(&eduDescription());
  uint64_t descriptor = script.startDma(true, 0x1000, 0x40000, bytesOf("abcd"));
  script.read(0x24, 0x100);
  script.finishDma(descriptor, 0x1000);
  CHECK(script.state.quiescent());
}

TEST_CASE("a write of another part of the register is no command, a read of another part shows no end") {
  PacketScript script(&eduDescription());
  script.write(0x9c, 0); // Upper half of DMA_CMD.
  CHECK(script.state.commands() == 0);
  script.write(0x98, 1); // Lower half.
  CHECK(script.state.commands() == 1);
  CHECK(!script.state.quiescent());
  script.write(0x9c, 0);
  CHECK(script.state.commands() == 1);
  script.read(0x9c, 0);
  CHECK(!script.state.quiescent());
  script.read(0x98, 0);
  CHECK(script.state.quiescent());
}

TEST_CASE("started again while its old transfers were never told complete") {
  PacketScript script(&eduDescription());
  script.startDma(true, 0x1000, 0x40000, bytesOf("abcd"));
  script.poll(0x98, 0, 8); // The completion is missing.
  uint64_t descriptor = script.startDma(true, 0x2000, 0x40010, bytesOf("efgh"));
  CHECK(!script.state.quiescent());
  script.poll(0x98, 0, 8);
  script.finishDma(descriptor, 0x2000);
  CHECK(script.state.quiescent());
}

TEST_CASE("several transfers of one start") {
  PacketScript script(&eduDescription());
  uint64_t first =
      script.content(PacketKind::DmaDescriptor, 0x1000, bytesOf("ab"), TransferToDevice, 0x40000, 0);
  uint64_t second =
      script.content(PacketKind::DmaDescriptor, 0x2000, bytesOf("cd"), TransferToDevice, 0x40010, 0);
  script.write(0x98, 1, 8);
  script.poll(0x98, 0, 8);
  script.finishDma(second, 0x2000);
  CHECK(!script.state.atSynchronisation());
  CHECK(!script.state.quiescent());
  script.finishDma(second, 0x2000); // Told twice.
  CHECK(!script.state.quiescent());
  script.finishDma(first, 0x1000);
  CHECK(script.state.atSynchronisation());
  CHECK(script.state.quiescent());
}

TEST_CASE("operations that did not come back") {
  PacketScript script(&eduDescription());
  uint64_t read = script.access(PacketKind::RegisterRead, 0x20, 4, 0, Completion::Pending);
  CHECK(script.state.running() == std::vector<std::string>{"an operation that has not come back"});
  CHECK(!script.state.registerValue(1, 0x20));
  script.range(PacketKind::LateCompletion, 0, 0, 0, 0x80, read);
  CHECK(script.state.quiescent());
  CHECK(script.state.registerValue(1, 0x20) == 0x80);

  // A start that hung may have started.
  uint64_t write = script.access(PacketKind::RegisterWrite, 0x98, 8, 1, Completion::Pending);
  CHECK(script.state.running() == std::vector<std::string>{"dma", "an operation that has not come back"});
  CHECK(!script.state.registerValue(1, 0x98));
  uint64_t late = script.range(PacketKind::LateCompletion, 0, 0, 0, 0, write);
  CHECK(script.state.registerValue(1, 0x98) == 1);
  CHECK(script.state.lastWriterOfRegister(1, 0x98) == late);
  CHECK(script.state.running() == std::vector<std::string>{"dma"});

  // One that failed, too; and so is one whose late completion is a failure.
  PacketScript failed(&eduDescription());
  failed.access(PacketKind::RegisterWrite, 0x08, 4, 5, Completion::Failed);
  CHECK(failed.state.running() == std::vector<std::string>{"factorial"});
  CHECK(!failed.state.registerValue(1, 0x08));
  failed.read(0x20, 0);
  uint64_t hung = failed.access(PacketKind::Poll, 0x20, 4, 0, Completion::Pending);
  Packet packet;
  packet.kind = PacketKind::LateCompletion;
  packet.completion = Completion::Failed;
  PacketExtra extra;
  extra.link = hung;
  failed.apply(packet, extra);
  CHECK(failed.state.quiescent());
}

TEST_CASE("waits and acquires are synchronisation points") {
  PacketScript script(nullptr);
  script.event(PacketKind::Interrupt);
  CHECK(script.state.atSynchronisation());
  script.event(PacketKind::Interrupt, 0, Completion::TimedOut);
  CHECK(!script.state.atSynchronisation());
  script.access(PacketKind::MemoryWait, 0x1000, 4, 7);
  CHECK(script.state.atSynchronisation());
  script.access(PacketKind::MemoryWait, 0x1000, 4, 7, Completion::TimedOut);
  CHECK(!script.state.atSynchronisation());
  script.acquire(0x1000, bytesOf("abc"));
  CHECK(script.state.atSynchronisation());
  script.range(PacketKind::Acquire, 0x1000, 0);
  CHECK(script.state.atSynchronisation());
  script.reset();
  CHECK(script.state.atSynchronisation());
  script.mark("m");
  CHECK(!script.state.atSynchronisation());
}

TEST_CASE("packets of another device change nothing and end nothing") {
  PacketScript script(&eduDescription());
  script.event(PacketKind::Interrupt);
  Packet other;
  other.kind = PacketKind::RegisterWrite;
  other.device = 1;
  other.space = 1;
  other.address = 0x08;
  other.width = 4;
  script.apply(other);
  CHECK(!script.state.atSynchronisation());
  CHECK(script.state.quiescent());
  CHECK(!script.state.registerValue(1, 0x08));
  CHECK(script.state.commands() == 0);
}

TEST_CASE("a submission is outstanding until a fence or an acquire") {
  PacketScript script(nullptr);
  script.content(PacketKind::Submit, 0x1000, bytesOf("entry"));
  CHECK(script.state.running() == std::vector<std::string>{"a submission"});
  CHECK(script.state.commands() == 1);
  script.event(PacketKind::Interrupt);
  CHECK(!script.state.quiescent());
  script.access(PacketKind::MemoryWait, 0x2000, 4, 1, Completion::TimedOut);
  CHECK(!script.state.quiescent());
  script.access(PacketKind::MemoryWait, 0x2000, 4, 1);
  CHECK(script.state.quiescent());
  script.content(PacketKind::Submit, 0x1000, bytesOf("entry"));
  script.acquire(0x2000, bytesOf("x"));
  CHECK(script.state.quiescent());
}

TEST_CASE("after a loss everything may be running, until seen otherwise") {
  PacketScript script(&eduDescription());
  script.loss(LossCause::RingFull);
  CHECK(script.state.running() == std::vector<std::string>{"dma (perhaps: packets were lost)",
                                                           "factorial (perhaps: packets were lost)"});
  script.read(0x98, 0, 8);
  script.read(0x20, 0);
  CHECK(script.state.quiescent());
  script.loss(LossCause::Source);
  script.reset();
  CHECK(script.state.quiescent());
}

TEST_CASE("a reset ends everything") {
  PacketScript script(&eduDescription());
  script.startDma(true, 0x1000, 0x40000, bytesOf("abcd"));
  script.write(0x08, 3);
  script.access(PacketKind::RegisterRead, 0x20, 4, 0, Completion::Pending);
  script.content(PacketKind::Submit, 0x1000, bytesOf("entry"));
  CHECK(!script.state.quiescent());
  script.event(PacketKind::Reset, 0, Completion::Failed); // One that failed ends nothing.
  CHECK(!script.state.quiescent());
  script.reset();
  CHECK(script.state.quiescent());
}

TEST_CASE("commands count from the last marker, markers by name") {
  PacketScript script(&eduDescription());
  CHECK(script.state.marker() == "");
  CHECK(script.state.markerOccurrence() == 0);
  script.write(0x08, 3);
  script.mark("layer");
  CHECK(script.state.marker() == "layer");
  CHECK(script.state.markerOccurrence() == 1);
  CHECK(script.state.commandsSinceMarker() == 0);
  script.write(0x08, 3);
  script.write(0x98, 1, 8);
  script.write(0x98, 0, 8); // Starts nothing.
  CHECK(script.state.commands() == 3);
  CHECK(script.state.commandsSinceMarker() == 2);
  script.mark("other");
  script.mark("layer");
  CHECK(script.state.markerOccurrence() == 2);
  CHECK(script.state.commandsSinceMarker() == 0);
  CHECK(script.state.commands() == 3);

  ShadowLimits limits;
  limits.markers = 2;
  PacketScript few(nullptr, limits);
  few.mark("a");
  few.mark("b");
  few.mark("c");
  CHECK(few.state.marker() == "c");
  CHECK(few.state.markerOccurrence() == 0); // Not counted any more, and says so.
  few.mark("a");
  CHECK(few.state.markerOccurrence() == 2);
}
