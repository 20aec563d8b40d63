// Triggers of the library whose fault no model of ours can be told to have: streams with the fault planted by
// hand, and beside each the nearest thing that is none.
#include "tests/triggers/Stream.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace tapeback;
using namespace tapeback::test;
using namespace tapeback::triggers;

namespace {

constexpr uint64_t bell = 0x114, bell1 = 0x154, control = 0x0c, status = 0x10, counterControl = 0x200;

Program fromLibrary(StringRef file, const Description *device = &minnow()) {
  auto text = MemoryBuffer::getFile(std::string(TAPEBACK_SOURCE_DIR) + "/triggers/library/" + file.str());
  REQUIRE(text);
  return compiled((*text)->getBuffer(), device);
}

/// Names of the triggers that fired, each once, in order.
std::vector<std::string> fired(const Stream &s) {
  std::vector<std::string> names;
  for (const Output &output : s.outputs)
    if (output.op == ActionOp::Fire && !is_contained(names, s.program.triggers[output.trigger].name))
      names.push_back(s.program.triggers[output.trigger].name);
  return names;
}

using Names = std::vector<std::string>;

uint64_t wait(Stream &s, uint64_t address, uint64_t duration, Completion completion = Completion::Done) {
  Packet packet;
  packet.kind = PacketKind::MemoryWait;
  packet.address = address;
  packet.completion = completion;
  packet.completeTime = s.now + duration;
  return s.add(packet);
}

uint64_t interrupt(Stream &s, Completion completion) {
  Packet packet;
  packet.kind = PacketKind::Interrupt;
  packet.completion = completion;
  return s.add(packet);
}

PacketExtra ranged(uint64_t length, uint64_t link = noLink) {
  PacketExtra extra;
  extra.length = length;
  extra.link = link;
  return extra;
}

} // namespace

TEST_CASE("no completion: a fence that nobody sees, a wait that runs out, and a slow one that comes") {
  Program program = fromLibrary("completion-timeout.trig");
  Stream lost(program), seen(program), late(program), reset(program);
  lost.submit({0x30, 0, 0x3000});
  lost.write(bell, 1);
  lost.evaluator.tick(2'000'000'000, lost.outputs);
  CHECK(fired(lost) == Names{"completion_timeout"});
  CHECK(lost.outputs[0].packet == 1);
  seen.submit({0x30, 0, 0x3000});
  wait(seen, 0x3000, 900'000'000);
  seen.evaluator.finish(seen.outputs);
  seen.evaluator.tick(5'000'000'000, seen.outputs);
  CHECK(fired(seen).empty());
  wait(late, 0x3000, 200'000'000, Completion::TimedOut);
  CHECK(fired(late) == Names{"completion_timeout"});
  // What a soft reset forgets does not have to come.
  reset.submit({0x30, 0, 0x3000});
  reset.write(control, 2);
  reset.evaluator.tick(5'000'000'000, reset.outputs);
  CHECK(fired(reset).empty());
}

TEST_CASE("poll storm") {
  Program program = fromLibrary("poll-storm.trig");
  Stream storm(program), calm(program), poll(program);
  for (int i = 0; i < 999; ++i)
    storm.read(status, 0);
  CHECK(fired(storm).empty());
  storm.read(status, 0);
  CHECK(fired(storm) == Names{"poll_storm"});
  for (int i = 0; i < 3000; ++i) {
    calm.now += 200'000;
    calm.read(status, 0);
  }
  CHECK(fired(calm).empty());
  Packet packet;
  packet.kind = PacketKind::Poll;
  packet.space = 1;
  packet.address = status;
  packet.width = 4;
  PacketExtra extra;
  extra.count = 100'000;
  poll.add(packet, extra);
  CHECK(fired(poll).empty());
  ++extra.count;
  poll.add(packet, extra);
  CHECK(fired(poll) == Names{"poll_storm"});
}

TEST_CASE("edu: an interrupt without a cause, a lost one, a cause that stays") {
  Program without = fromLibrary("edu-interrupt-without-cause.trig", &edu()),
          lostOnes = fromLibrary("edu-lost-interrupt.trig", &edu());
  Stream spurious(without), caused(without), stays(without);
  interrupt(spurious, Completion::Done);
  spurious.read(0x24, 0);
  CHECK(fired(spurious) == Names{"interrupt_without_cause"});
  interrupt(caused, Completion::Done);
  caused.read(0x24, 1);
  caused.write(0x64, 1);
  caused.read(0x24, 0);
  CHECK(fired(caused).empty());
  stays.write(0x64, 1);
  stays.read(0x24, 0x101);
  CHECK(fired(stays) == Names{"acknowledged_cause_stays"});
  Stream lost(lostOnes), none(lostOnes);
  interrupt(lost, Completion::TimedOut);
  lost.read(0x24, 0x100);
  CHECK(fired(lost) == Names{"lost_interrupt"});
  interrupt(none, Completion::TimedOut);
  none.read(0x24, 0);
  CHECK(fired(none).empty());
}

TEST_CASE("descriptors: outside mapped memory, and in a loop") {
  Program unmapped = fromLibrary("descriptor-unmapped.trig"), loops = fromLibrary("chain-loop.trig");
  Stream outside(unmapped), inside(unmapped), list(unmapped);
  for (Stream *s : {&outside, &inside, &list})
    s->kind(PacketKind::MemoryMap, 0x10000, 0, ranged(0x1000));
  outside.kind(PacketKind::DmaDescriptor, 0x10ff8, 0, ranged(16));
  CHECK(fired(outside) == Names{"descriptor_unmapped"});
  inside.kind(PacketKind::DmaDescriptor, 0x10ff0, 0, ranged(16));
  inside.submit({0x03, 0, 0x10040, 0});
  CHECK(fired(inside).empty());
  list.submit({0x03, 0, 0x20000, 0});
  CHECK(fired(list) == Names{"descriptor_unmapped"});
  auto element = [](Stream &s, uint64_t address, uint64_t next, bool last) {
    std::vector<uint8_t> bytes(64);
    bytes[28] = last ? 2 : 0;
    for (unsigned i = 0; i < 8; ++i)
      bytes[32 + i] = uint8_t(next >> 8 * i);
    Packet packet;
    packet.kind = PacketKind::MemoryWrite;
    packet.address = address;
    s.add(packet, {}, bytes);
  };
  Stream loop(loops), straight(loops);
  loop.submit({0x03, 0, 0x4000});
  element(loop, 0x4000, 0x4040, false);
  CHECK(fired(loop).empty());
  element(loop, 0x4040, 0x4000, false);
  CHECK(fired(loop) == Names{"chain_loop"});
  for (int i = 0; i < 2; ++i) {
    straight.submit({0x03, 0, 0x4000});
    element(straight, 0x4000, 0x4040, false);
    element(straight, 0x4040, 0x4000, true); // LAST: `next` means nothing.
  }
  CHECK(fired(straight).empty());
}

TEST_CASE("a ring's entry is overwritten; a tag is used twice") {
  Program ring = fromLibrary("ring-overflow.trig"), tags = fromLibrary("duplicate-tag.trig");
  Stream over(ring), fits(ring);
  for (Stream *s : {&over, &fits})
    for (uint64_t i = 0; i < 16; ++i)
      s->submit({0x00}, 0, 0x1000 + i * 64);
  over.submit({0x00}, 0, 0x1000);
  CHECK(fired(over) == Names{"ring_overflow"});
  fits.read(0x10c, 3);
  fits.submit({0x00}, 0, 0x1000);
  CHECK(fired(fits).empty());
  Stream twice(tags), once(tags);
  twice.submit({0x50000});
  twice.submit({0x60000});
  CHECK(fired(twice).empty());
  twice.submit({0x50000});
  CHECK(fired(twice) == Names{"duplicate_tag"});
  once.submit({0x50000});
  wait(once, 0x3000, 10);
  once.submit({0x50000});
  once.submit({0x00});
  once.submit({0x00});
  CHECK(fired(once).empty());
}

TEST_CASE("completions out of order within a queue, and across queues, where there is no order") {
  Program program = fromLibrary("out-of-order.trig");
  auto begin = [](Stream &s, uint64_t queue) {
    s.submit({0x01}, queue);
    return s.kind(PacketKind::DmaDescriptor, 0x1000, 0, ranged(64));
  };
  Stream wrong(program), right(program);
  uint64_t first = begin(wrong, 0), second = begin(wrong, 0);
  wrong.kind(PacketKind::DmaCompletion, 0x1000, 0, ranged(64, second));
  CHECK(fired(wrong).empty());
  wrong.kind(PacketKind::DmaCompletion, 0x1000, 0, ranged(64, first));
  CHECK(fired(wrong) == Names{"out_of_order"});
  first = begin(right, 0);
  second = begin(right, 1);
  right.kind(PacketKind::DmaCompletion, 0x1000, 0, ranged(64, second));
  right.kind(PacketKind::DmaCompletion, 0x1000, 0, ranged(64, first));
  right.kind(PacketKind::DmaCompletion, 0x1000, 1, ranged(64, first)); // Looked at again.
  CHECK(fired(right).empty());
}

TEST_CASE("counters that went back, and that were cleared; a late store behind its fence") {
  Program program = fromLibrary("counter-regressed.trig"), fences = fromLibrary("fence-before-data.trig");
  Stream back(program), cleared(program);
  for (Stream *s : {&back, &cleared}) {
    s->write(counterControl, 2);
    s->read(0x298, 100);
    s->write(counterControl, s == &cleared ? 6 : 2);
    s->read(0x298, 90);
  }
  CHECK(fired(back) == Names{"counter_regressed"});
  CHECK(fired(cleared).empty());
  Stream late(fences), same(fences);
  Packet again;
  again.kind = PacketKind::DmaCompletion;
  again.value = 1;
  same.add(again);
  CHECK(fired(same).empty());
  again.origin = Origin::Recorder;
  late.add(again);
  CHECK(fired(late) == Names{"fence_before_data"});
}

TEST_CASE("an outlier of latency") {
  Program program = fromLibrary("latency-outlier.trig");
  Stream early(program), outlier(program);
  wait(early, 0x3000, 500'000'000);
  for (int i = 0; i < 40; ++i)
    wait(outlier, 0x3000, 1'000'000);
  wait(outlier, 0x3000, 99'000'000);
  CHECK(fired(early).empty());
  CHECK(fired(outlier).empty());
  for (int i = 0; i < 100; ++i)
    wait(outlier, 0x3000, 1'000'000);
  wait(outlier, 0x3000, 150'000'000);
  CHECK(fired(outlier) == Names{"latency_outlier"});
}

TEST_CASE("a write to a forbidden register") {
  Expected<Description> parsed =
      parseDescription("tapeback-description: 1\nname: fused\nspaces: [bar0]\nregisters:\n"
                       "  - {name: SAFE, offset: 0}\n"
                       "  - {name: FUSE, offset: 4, policy: forbidden}\n",
                       "fused");
  REQUIRE(bool(parsed));
  Program program = fromLibrary("forbidden-write.trig", &*parsed);
  Stream s(program);
  s.write(0, 1);
  s.read(4, 1);
  CHECK(fired(s).empty());
  s.write(4, 1);
  CHECK(fired(s) == Names{"forbidden_write"});
}

TEST_CASE("an error, and a queue that is busy behind a soft reset") {
  Program errors = fromLibrary("error-register.trig"), stuck = fromLibrary("stuck-queue.trig");
  Stream halted(errors), fine(errors);
  halted.read(status, 1);
  halted.read(status, 3);
  CHECK(fired(halted) == Names{"error_register"});
  fine.read(status, 1);
  fine.read(0x20, 0);
  fine.read(status, 5);
  CHECK(fired(fine).empty());
  Stream busy(stuck), idle(stuck);
  for (Stream *s : {&busy, &idle}) {
    s->write(control, 2);
    s->read(status, 0x80000200);
    s->read(status, s == &busy ? 0x200 : 0x4);
    s->write(bell1, 1);
    s->read(status, 0x200);
  }
  CHECK(fired(busy) == Names{"busy_behind_reset"});
  CHECK(fired(idle).empty());
}
