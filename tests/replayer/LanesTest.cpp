// Threads that overlapped: what is kept of their order, and what a replay in lanes makes of it.
#include "replayer/Lanes.h"
#include "tests/replayer/ReplayHarness.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

Packet operation(uint16_t thread, uint64_t issue, uint64_t complete) {
  Packet packet;
  packet.kind = PacketKind::RegisterRead;
  packet.thread = thread;
  packet.issueTime = issue;
  packet.completeTime = complete;
  return packet;
}

std::vector<std::pair<size_t, size_t>> clustersOf(std::vector<Packet> packets) {
  PacketBatch batch;
  batch.packets = std::move(packets);
  std::vector<std::pair<size_t, size_t>> result;
  for (LaneCluster cluster : findClusters(batch))
    result.emplace_back(cluster.begin, cluster.end);
  return result;
}

/// Thread 1 waits for what thread 2 writes; the wait came back before the write did, so that the tape has it
/// in front. `ordered`: the write had not begun when the wait was over, and must not help it.
std::unique_ptr<MemoryTape> waitInFront(bool ordered) {
  ToyProgram program;
  program.open();
  program.write(toy::scratch, 0);
  uint64_t write = program.write(toy::scratch, 7);
  uint64_t poll = program.poll(toy::scratch, 0xff, 7);
  program.read(toy::scratch);
  std::unique_ptr<MemoryTape> tape = program.finish();
  std::swap(tape->packets[write], tape->packets[poll]);
  std::swap(tape->extras[write], tape->extras[poll]);
  uint64_t time = 1'000'000;
  for (Packet &packet : tape->packets) {
    packet.extra = 0;
    packet.thread = 1;
    packet.issueTime = packet.completeTime = time += 1000;
  }
  // Now the poll is at `write`.
  Packet &wait = tape->packets[write], &cause = tape->packets[poll];
  cause.thread = 2;
  wait.completeTime = wait.issueTime + 100;
  cause.issueTime = ordered ? wait.completeTime : wait.issueTime + 50;
  cause.completeTime = wait.completeTime + 50;
  return tape;
}

} // namespace

TEST_CASE("Groups of overlapping operations are as small as they can be") {
  // One thread after another; and one thread by itself, however its stamps lie.
  CHECK(clustersOf({operation(1, 0, 10), operation(2, 10, 20), operation(1, 20, 30)}).empty());
  CHECK(clustersOf({operation(1, 0, 10), operation(1, 5, 20)}).empty());
  using Pairs = std::vector<std::pair<size_t, size_t>>;
  CHECK(clustersOf({operation(1, 0, 10), operation(2, 9, 20), operation(1, 20, 30)}) == Pairs{{0, 2}});
  // The wait at the end began before all of the others.
  CHECK(clustersOf({operation(2, 0, 10), operation(2, 10, 20), operation(2, 20, 30), operation(1, 5, 100),
                    operation(2, 100, 110)}) == Pairs{{0, 4}});
  // What never came back is waited for by nobody.
  CHECK(clustersOf({operation(1, 0, 0), operation(2, 10, 20)}).empty());
  std::vector<Packet> many;
  for (uint64_t i = 0; i < 10'000; ++i)
    many.push_back(operation(uint16_t(i % 3), i, i + 5));
  Pairs parts = clustersOf(many);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0] == std::pair<size_t, size_t>(0, 4096));
  CHECK(parts[2].second == many.size());
}

TEST_CASE("A lane goes on when all that had come back before is done, and not earlier") {
  PacketBatch batch;
  batch.packets = {operation(1, 0, 10), operation(2, 5, 12), operation(1, 11, 20), operation(2, 12, 30)};
  LaneSchedule schedule(batch, {0, 4});
  REQUIRE(schedule.lanes() == 2);
  CHECK(schedule.mayIssue(0));
  CHECK(schedule.mayIssue(1));
  schedule.done(1); // Packet 1. Packet 3 began at 12, when packet 0 had come back.
  CHECK(!schedule.mayIssue(1));
  schedule.done(0);
  CHECK(schedule.mayIssue(1));
  CHECK(schedule.mayIssue(0));
  schedule.done(0);
  schedule.done(1);
  CHECK(schedule.finished());
  CHECK(!schedule.mayIssue(0));
}

TEST_CASE("In lanes a wait lets the thread go on that it waits for; but only where they overlapped") {
  for (bool ordered : {false, true})
    for (bool lanes : {false, true}) {
      CAPTURE(ordered);
      CAPTURE(lanes);
      ReplayOptions options = quickOptions();
      options.lanes = lanes;
      Replayed replayed = replay(*waitInFront(ordered), {}, options);
      INFO(summary(replayed));
      REQUIRE(replayed.report);
      bool helped = lanes && !ordered;
      CHECK(replayed->verdict == (helped ? Verdict::Match : Verdict::Divergence));
      CHECK(replayed->lanes.packets == (helped ? 2 : 0));
      CHECK(replayed->lanes.overtaken == (helped ? 1 : 0));
      if (!helped)
        CHECK(replayed.firstRule() == Rule::ConditionNotMet);
    }
}

TEST_CASE("Lanes change nothing for threads whose order the device does not see, and miss nothing") {
  ToyWorkload work = makeWorkload(21, 100);
  // Every other operation is another thread's, and events and reads of neighbours overlap.
  uint64_t time = 1'000'000;
  for (size_t i = 0; i < work.tape->packets.size(); ++i) {
    Packet &packet = work.tape->packets[i];
    packet.thread = uint16_t(1 + i / 40 % 2);
    packet.issueTime = time;
    packet.completeTime = time += 100;
    if (packet.kind == PacketKind::Marker)
      packet.completeTime = packet.issueTime;
  }
  for (size_t i = 40; i < work.tape->packets.size();
       i += 40) // The first of each run begins in the run before.
    work.tape->packets[i].issueTime -= 50;
  ReplayOptions options = quickOptions();
  Replayed plain = replay(*work.tape, {}, options);
  options.lanes = true;
  Replayed lanes = replay(*work.tape, {}, options);
  INFO(summary(lanes));
  CHECK(plain->verdict == Verdict::Match);
  CHECK(lanes->verdict == Verdict::Match);
  CHECK(lanes->lanes.clusters > 5);
  CHECK(lanes->replayedDigest == plain->replayedDigest);
  ToyOptions faulty;
  auto fromDevice = std::find(work.dmaToDevice.begin(), work.dmaToDevice.end(), false);
  REQUIRE(fromDevice != work.dmaToDevice.end());
  faulty.faults.corruptDma = uint64_t(fromDevice - work.dmaToDevice.begin());
  options.lanes = true;
  CHECK(replay(*work.tape, faulty, options)->verdict == Verdict::Divergence);
}
