// Tapes that nobody's writer would write: refused or graded in bounded time and memory, never a crash, never
// a match that is none.
#include "tests/replayer/RandomTape.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// One packet after an ordinary beginning.
Replayed replayOne(const Packet &packet, const PacketExtra &extra = {}) {
  ToyProgram program;
  program.open();
  program.map(toyMemory, toyMemorySize);
  std::unique_ptr<MemoryTape> tape = program.finish();
  tape->add(packet, extra);
  tape->endWindow(true);
  return replay(*tape);
}

Packet packetOf(PacketKind kind, uint64_t address = 0) {
  Packet packet;
  packet.kind = kind;
  packet.address = address;
  return packet;
}

} // namespace

TEST_CASE("Lengths that no memory has are refused without being allocated") {
  for (uint64_t length : {uint64_t(1) << 60, ~uint64_t(0), uint64_t(100) << 20, uint64_t(8193)})
    for (PacketKind kind : {PacketKind::MemoryRead, PacketKind::Acquire, PacketKind::DmaCompletion,
                            PacketKind::MemoryMap, PacketKind::Oracle}) {
      Packet packet = packetOf(kind, kind == PacketKind::MemoryMap ? 0x10000000 : toyMemory);
      packet.flags = TransferFromDevice;
      PacketExtra extra;
      extra.length = length;
      extra.link = 0;
      extra.payload = {1, 2};
      Replayed replayed = replayOne(packet, extra);
      INFO(length, " ", unsigned(kind), " ", test::summary(replayed));
      if (kind == PacketKind::MemoryMap && length < (uint64_t(1) << 30))
        continue; // A megabyte or a hundred is a mapping like another.
      if (replayed.failure) {
        CHECK((replayed.failure->cls == FailureClass::Tape || replayed.failure->code == "memory-limit"));
        continue;
      }
      CHECK(replayed->verdict != Verdict::Match);
    }
}

TEST_CASE("Contents that are not on the tape are the tape's fault") {
  for (PacketKind kind :
       {PacketKind::MemoryWrite, PacketKind::MemoryRead, PacketKind::Submit, PacketKind::DmaDescriptor}) {
    Packet packet = packetOf(kind, toyMemory);
    packet.flags = TransferToDevice;
    PacketExtra extra;
    extra.length = 4;
    extra.payload = {0xdead, 0xbeef};
    Replayed replayed = replayOne(packet, extra);
    REQUIRE(replayed.failure);
    CHECK(replayed.failure->cls == FailureClass::Tape);
  }
}

TEST_CASE("A content longer than its packet says, or shorter, is never a match") {
  for (size_t size : {3, 5}) {
    ToyProgram program;
    program.open();
    program.map(toyMemory, toyMemorySize);
    uint64_t seen = program.acquire(toyMemory, 4);
    std::unique_ptr<MemoryTape> tape = program.finish();
    tape->extras[seen].payload = tape->store(std::vector<uint8_t>(size, 0));
    CHECK(replay(*tape)->verdict == Verdict::Incomplete);
  }
}

TEST_CASE("Devices, spaces, widths, vectors, counters and resets that do not exist") {
  Packet packet = packetOf(PacketKind::RegisterRead);
  packet.device = 7;
  packet.space = 1;
  packet.width = 4;
  Replayed device = replayOne(packet);
  REQUIRE(device.failure);
  CHECK(device.failure->code == "unknown-device");
  packet.device = 0;
  packet.space = 900;
  CHECK(replayOne(packet)->verdict == Verdict::Error);
  packet.space = 1;
  for (unsigned width : {0u, 3u, 16u, 255u}) {
    packet.width = uint8_t(width);
    CHECK(replayOne(packet)->verdict == Verdict::Error);
    packet.kind = PacketKind::RegisterWrite;
    CHECK(replayOne(packet)->verdict == Verdict::Error);
    packet.kind = PacketKind::RegisterRead;
  }
  packet.width = 8;
  packet.address = ~uint64_t(0) - 2;
  CHECK(replayOne(packet)->verdict == Verdict::Error);
  CHECK(replayOne(packetOf(PacketKind::Interrupt, uint64_t(1) << 40))->verdict == Verdict::Error);
  CHECK(replayOne(packetOf(PacketKind::Interrupt, 5))->verdict == Verdict::Error);
  CHECK(replayOne(packetOf(PacketKind::CounterSnapshot, uint64_t(1) << 60))->verdict == Verdict::Incomplete);
  packet = packetOf(PacketKind::Reset);
  packet.value = 99;
  CHECK(replayOne(packet)->verdict == Verdict::Incomplete);
  packet = packetOf(PacketKind::MemoryWait, toyMemory);
  for (unsigned width : {0u, 9u, 200u}) {
    packet.width = uint8_t(width);
    CHECK(replayOne(packet)->verdict == Verdict::Error);
  }
  packet = packetOf(PacketKind::MemoryUnmap, 0x999000);
  CHECK(replayOne(packet)->verdict == Verdict::Error);
}

TEST_CASE("A thousand waits that never end do not take a thousand deadlines") {
  ToyProgram program;
  program.open();
  std::unique_ptr<MemoryTape> tape = program.finish();
  Packet poll = packetOf(PacketKind::Poll, toy::scratch);
  poll.space = 1;
  poll.width = 4;
  PacketExtra extra;
  extra.mask = 1;
  extra.expected = 1;
  extra.deadline = ~uint64_t(0);
  for (int i = 0; i < 1000; ++i)
    tape->add(poll, extra);
  tape->endWindow(true);
  HostTimer timer;
  Replayed replayed = replay(*tape);
  CHECK(timer.elapsed() < 3'000'000'000);
  CHECK(replayed->packetsReplayed < 50);
  CHECK(!replayed->stopped.empty());
  // Those that the tape itself expects to time out are bounded by a budget of their own.
  for (Packet &packet : tape->packets)
    if (packet.kind == PacketKind::Poll)
      packet.completion = Completion::TimedOut;
  ReplayOptions options = quickOptions();
  options.maxUselessWait = 200'000'000;
  Replayed expected = replay(*tape, {}, options);
  CHECK(timer.elapsed() < 6'000'000'000);
  CHECK(expected->verdict == Verdict::Incomplete);
  CHECK(!expected->stopped.empty());
}

TEST_CASE("Accesses that the target refuses do not go on for ever") {
  ToyProgram program;
  program.open();
  std::unique_ptr<MemoryTape> tape = program.finish();
  Packet read = packetOf(PacketKind::RegisterRead, 0x100000);
  read.space = 1;
  read.width = 4;
  for (int i = 0; i < 5000; ++i)
    tape->add(read);
  tape->endWindow(true);
  Replayed replayed = replay(*tape);
  CHECK(replayed->verdict == Verdict::Error);
  CHECK(!replayed->stopped.empty());
  CHECK(replayed->grades.of(Grade::TargetError) < 400);
}

TEST_CASE("Windows that do not fit the packets are a bad index, not a crash") {
  ToyWorkload work = makeWorkload(2, 5);
  work.tape->windows[2].packetCount += 3;
  work.tape->windows[3].firstPacket += 1;
  Replayed replayed = replay(*work.tape);
  CHECK((replayed.failure || replayed->packets > 0));
  work.tape->windows.clear();
  Replayed none = replay(*work.tape);
  REQUIRE(none.failure);
}

TEST_CASE("An empty tape is a match of nothing") {
  ToyProgram program;
  Replayed replayed = replay(*program.finish());
  REQUIRE(replayed.report);
  CHECK(replayed->verdict == Verdict::Match);
  CHECK(replayed->packets == 0);
}

TEST_CASE("Four thousand random tapes: grades add up, and a match is one") {
  std::mt19937_64 random(99);
  HostTimer timer;
  unsigned refused = 0, played = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<uint8_t> bytes(1 + random() % 2000);
    for (uint8_t &byte : bytes)
      byte = uint8_t(random());
    std::unique_ptr<MemoryTape> tape = tapeFromBytes(bytes);
    ReplayOptions options = quickOptions();
    options.fromReset = true;
    options.player.waits.maxDeadline = options.player.waits.defaultDeadline = 10'000;
    options.player.binding.maxMappedBytes = 1 << 20;
    Replayed replayed = replay(*tape, {}, options);
    if (replayed.failure) {
      ++refused;
      continue;
    }
    ++played;
    CHECK(replayed->grades.total() == tape->packets.size());
    if (replayed->verdict == Verdict::Match)
      CHECK(replayed->grades.of(Grade::Exact) + replayed->grades.of(Grade::Tolerated) ==
            tape->packets.size());
  }
  CHECK(refused > 100);
  CHECK(played > 100);
  CHECK(timer.elapsed() < 120'000'000'000);
}
