// What a compiled program does with packets and time.
#include "tests/triggers/Stream.h"
#include <random>

using namespace llvm;
using namespace tapeback;
using namespace tapeback::test;
using namespace tapeback::triggers;

namespace {

using Points = std::vector<uint64_t>;
constexpr uint64_t controlAt = 0x0c, statusAt = 0x10, irqStatusAt = 0x14, errorAt = 0x20;

Packet ended(PacketKind kind, uint64_t address, Completion completion, uint64_t value = 0) {
  Packet packet;
  packet.kind = kind;
  packet.address = address;
  packet.completion = completion;
  packet.value = value;
  return packet;
}

} // namespace

TEST_CASE("level, edge, changed value, masked, range and set") {
  Program program = compiled(R"(
    trigger level { when read STATUS && STATUS.HALTED == 1 { fire "level"; } }
    trigger rising { when rose(STATUS.HALTED) { fire "rose"; } }
    trigger falling { when fell(STATUS.HALTED) { fire "fell"; } }
    trigger change { when changed(STATUS) { fire "changed"; } }
    trigger pattern { when read STATUS && value == 0x1x1 { fire "pattern"; } }
    trigger members { when read STATUS && value in {2, 0x100..0x1ff} { fire "set"; } }
  )");
  Stream s(program);
  for (uint64_t value : {0x0, 0x2, 0x3, 0x101, 0x101, 0x111})
    s.read(statusAt, value);
  auto of = [&](uint32_t trigger) {
    Points all;
    for (const Output &output : s.outputs)
      if (output.trigger == trigger)
        all.push_back(output.packet);
    return all;
  };
  CHECK(of(0) == Points{1, 2});
  CHECK(of(1) == Points{1});
  CHECK(of(2) == Points{3});
  CHECK(of(3) == Points{1, 2, 3, 5});
  CHECK(of(4) == Points{3, 4, 5});
  CHECK(of(5) == Points{1, 3, 4, 5});
}

TEST_CASE("part accesses find their register, and a slot keeps the other bytes") {
  Program program = compiled(
      "trigger t { when access DMA_SRC && DMA_SRC == 0x1122334455667788 { fire \"whole\"; } }", &edu());
  Stream s(program);
  s.write(0x80, 0x0, 8);
  s.write(0x80, 0x55667788, 4);
  s.write(0x84, 0x11223344, 4);
  s.write(0x88, 0x11223344, 4);
  CHECK(s.points() == Points{2});
}

TEST_CASE("commands are decoded, and what belongs to another command is unknown") {
  Program program = compiled(R"(
    trigger wide { when submit && GEMM.k > 512 { fire "wide", GEMM.k, GEMM.m; } }
    trigger negative { when submit REQUANT && REQUANT.zero_point < 0 { fire "negative", REQUANT.zero_point; } }
    trigger named { when submit FENCE && queue == q1 { fire "fence"; } }
    trigger other { when submit && !(GEMM.k > 512) { fire "not wide"; } }
  )");
  Stream s(program);
  s.submit({0x10, 0, 0, 0, 0, 8, 8, 513});
  s.submit({0x10, 0, 0, 0, 0, 8, 8, 512});
  s.submit({0x23, 0, 0, 0, 0, 1, 1, 8, 0, 8, 1, 0, uint32_t(-5)});
  s.submit({0x30}, 0);
  s.submit({0x30}, 1);
  s.submit({0x7f});
  std::vector<std::pair<uint32_t, uint64_t>> fired;
  for (const Output &output : s.outputs)
    fired.push_back({output.trigger, output.packet});
  CHECK(fired == std::vector<std::pair<uint32_t, uint64_t>>{
                     {0, 0}, {3, 1}, {1, 2}, {3, 2}, {3, 3}, {2, 4}, {3, 4}, {3, 5}});
  CHECK(s.outputs[0].values[0].value == 513);
  CHECK(int64_t(s.outputs[2].values[0].value) == -5);
}

TEST_CASE("count, rate and holdoff") {
  Program program = compiled(R"(
    trigger third { when read STATUS count 3 { fire "third"; } }
    trigger fast { when read STATUS rate 3 in 50 ns { fire "fast"; } }
    trigger near { when read STATUS rate 2 in 1 packets { fire "near"; } }
    trigger held { when read STATUS holdoff 100 ns { fire "held"; } }
  )");
  Stream s(program);
  for (uint64_t time : {100, 200, 300, 320, 350, 360, 1000})
    s.at(time).read(statusAt, 0);
  auto of = [&](uint32_t trigger) {
    Points all;
    for (const Output &output : s.outputs)
      if (output.trigger == trigger)
        all.push_back(output.packet);
    return all;
  };
  CHECK(of(0) == Points{2, 5});
  CHECK(of(1) == Points{4});
  CHECK(of(2) == Points{1, 3, 5});
  CHECK(of(3) == Points{0, 2, 6});
}

TEST_CASE("not within: fires without a packet, at the deadline, and not if it came just in time") {
  const char *source = R"(trigger t {
    sequence write CONTROL then not within 100 ns read STATUS { fire "nothing came"; }
  })";
  Program program = compiled(source);
  Stream late(program), inTime(program), ticked(program), atEnd(program);
  late.at(1000).write(controlAt, 1);
  late.at(1101).read(statusAt, 0);
  CHECK(late.points() == Points{0});
  CHECK(late.outputs[0].time == 1100);
  inTime.at(1000).write(controlAt, 1);
  inTime.at(1100).read(statusAt, 0);
  inTime.at(5000).read(errorAt, 0);
  CHECK(inTime.points().empty());
  ticked.at(1000).write(controlAt, 1);
  ticked.evaluator.tick(1100, ticked.outputs);
  CHECK(ticked.points().empty());
  ticked.evaluator.tick(1101, ticked.outputs);
  CHECK(ticked.points() == Points{0});
  // A tape that ends in a call that took long: time goes on to its completion.
  atEnd.at(1000).write(controlAt, 1);
  Packet hang = ended(PacketKind::MemoryWait, 0x100, Completion::TimedOut);
  hang.completeTime = 9000;
  atEnd.at(1010).add(hang);
  CHECK(atEnd.points().empty());
  atEnd.evaluator.finish(atEnd.outputs);
  CHECK(atEnd.points() == Points{1});
  CHECK(atEnd.outputs[0].time == 1100);
}

TEST_CASE("sequences: eventually, within, and from the start again") {
  Program program = compiled(R"(trigger t {
    sequence write CONTROL { }
      then eventually read STATUS && value == 1
      then within 3 packets read ERR_CODE && value != 0
    { fire "all three"; }
  })");
  Stream s(program);
  s.write(controlAt, 1); // 0
  s.read(errorAt, 5);    // 1: too early
  s.read(statusAt, 1);   // 2
  s.read(statusAt, 1);   // 3
  s.read(statusAt, 1);   // 4
  s.read(errorAt, 5);    // 5: the third packet
  CHECK(s.points() == Points{5});
  s.write(controlAt, 1); // 6
  s.read(statusAt, 1);   // 7
  for (int i = 0; i < 3; ++i)
    s.read(statusAt, 1); // 8, 9, 10
  s.read(errorAt, 5);    // 11: too late
  CHECK(s.points() == Points{5});
}

TEST_CASE("correlation by value: the completion of that command") {
  Program program = compiled(R"(trigger t {
    table fences[4];
    always {
      when submit FENCE { fences[FENCE.host] = packet; }
      when memory-wait && completion == done { remove fences[address]; }
      after 1 us of fences { fire "never seen", expired; }
    }
  })");
  Stream s(program);
  s.at(1000).submit({0x30, 0, 0x100});
  s.at(1500).submit({0x30, 0, 0x200});
  s.at(1600).submit({0x30, 0, 0x300});
  s.at(1700).add(ended(PacketKind::MemoryWait, 0x200, Completion::Done));
  s.at(2500).read(statusAt, 0);
  s.at(9000).read(statusAt, 0);
  REQUIRE(s.outputs.size() == 2);
  CHECK(s.outputs[0].values[0].value == 0x100);
  CHECK(s.outputs[0].packet == 3);
  CHECK(s.outputs[0].time == 2000);
  CHECK(s.outputs[1].values[0].value == 0x300);
  CHECK(s.outputs[1].packet == 4);
  // A full table drops its oldest, and says so.
  for (uint32_t i = 0; i < 6; ++i)
    s.submit({0x30, 0, 0x1000 + i});
  CHECK(s.evaluator.shortfalls().evictions == 2);
}

TEST_CASE("latency against the running p99") {
  Program program = compiled(R"(trigger t {
    stat waits;
    when memory-wait && samples(waits) >= 100 && duration > 4 * p99(waits) { fire "slow", duration, p99(waits); }
    when memory-wait { record waits duration; }
  })");
  Stream s(program);
  for (uint64_t i = 0; i < 150; ++i) {
    Packet wait = ended(PacketKind::MemoryWait, 0x100, Completion::Done);
    wait.completeTime = s.now + 100 + i % 7;
    s.add(wait);
  }
  CHECK(s.points().empty());
  Packet slow = ended(PacketKind::MemoryWait, 0x100, Completion::Done);
  slow.completeTime = s.now + 1000;
  s.add(slow);
  CHECK(s.points() == Points{150});
  CHECK(s.outputs[0].values[1].value >= 106);
  CHECK(s.outputs[0].values[1].value <= 113);
}

TEST_CASE("counters: delta, wrap, regression, rate, ratio") {
  Program program = compiled(R"(
    trigger wrap { when wrapped(READ_BURSTS) { fire "wrap", delta(READ_BURSTS); } }
    trigger back { when regressed(MACS) { fire "back"; } }
    trigger slow { when counter-snapshot && delta(MACS) * 1 s / interval(MACS) < 1000 && delta(MACS) > 0 { fire "slow"; } }
    trigger ratio { when counter-snapshot && delta(WAIT_SYNC) * 100 > delta(CYCLES) * 90 { fire "waiting"; } }
  )");
  Stream s(program);
  auto sample = [&](uint64_t time, uint64_t counter, uint64_t value) {
    return s.at(time).kind(PacketKind::CounterSnapshot, counter, value);
  };
  sample(1000, 5, 0xfff0);        // 0
  sample(2000, 5, 0x10);          // 1: READ_BURSTS has 16 bits
  sample(3000, 1, 5000);          // 2: MACS
  sample(1'000'003'000, 1, 5010); // 3: 10 a second
  sample(1'000'004'000, 1, 5005); // 4: back
  sample(1'000'005'000, 0, 100);  // 5: CYCLES
  sample(1'000'006'000, 8, 0);    // 6: WAIT_SYNC
  sample(1'000'007'000, 0, 200);  // 7
  sample(1'000'008'000, 8, 95);   // 8: 95 of 100
  std::vector<std::pair<uint32_t, uint64_t>> fired;
  for (const Output &output : s.outputs)
    fired.push_back({output.trigger, output.packet});
  std::vector<std::pair<uint32_t, uint64_t>> wanted = {{0, 1}, {2, 3}, {1, 4}, {3, 8}};
  CHECK(fired == wanted);
  CHECK(s.outputs[0].values[0].value == 0x20);
}

TEST_CASE("device time advances at clock samples; packets are a clock, too") {
  Program program = compiled(R"(
    trigger device_time { state a { when write CONTROL -> b; } state b { after 5 us device { fire "device"; } -> a; } }
    trigger packets { state a { when write CONTROL -> b; } state b { after 2 packets { fire "packets"; } -> a; } }
  )");
  Stream s(program);
  auto clock = [&](uint64_t microseconds) {
    Packet sample;
    sample.kind = PacketKind::ClockSample;
    sample.clock = 1;
    sample.value = microseconds;
    s.add(sample);
  };
  clock(100);            // 0
  s.write(controlAt, 1); // 1
  clock(105);            // 2: five are in time
  s.read(statusAt, 0);   // 3: the second packet since
  clock(106);            // 4
  std::vector<std::pair<uint32_t, uint64_t>> fired;
  for (const Output &output : s.outputs)
    fired.push_back({output.trigger, output.packet});
  std::vector<std::pair<uint32_t, uint64_t>> wanted = {{1, 3}, {0, 3}};
  CHECK(fired == wanted);
}

TEST_CASE("raise, arm, disarm, rearm, and bounded chains of events") {
  Program program = compiled(R"(
    trigger first { when write CONTROL { fire "first"; raise go; arm second; } }
    disarmed trigger second { counter n; when read STATUS { n += 1; fire "second", n; } when raised off { disarm; } }
    trigger third { when raised go count 2 { fire "third"; raise off; } }
    trigger loop { when raised endless { raise endless; } when read ERR_CODE { raise endless; } }
    trigger renewed { counter n; when read IRQ_STATUS { n += 1; fire "n", n; rearm; } }
  )");
  Stream s(program);
  s.read(statusAt, 0);   // 0: disarmed
  s.write(controlAt, 1); // 1
  s.read(statusAt, 0);   // 2: second, n = 1
  s.read(statusAt, 0);   // 3: second, n = 2
  s.write(controlAt, 1); // 4: first; third by the second raise; second is disarmed by it
  s.read(statusAt, 0);   // 5
  std::vector<std::pair<uint32_t, uint64_t>> fired, wanted = {{0, 1}, {1, 2}, {1, 3}, {0, 4}, {2, 4}};
  for (const Output &output : s.outputs)
    if (output.op == ActionOp::Fire)
      fired.push_back({output.trigger, output.packet});
  CHECK(fired == wanted);
  CHECK_FALSE(s.evaluator.shortfalls().any());
  s.read(errorAt, 0);
  CHECK(s.evaluator.shortfalls().raises == 1);
  s.outputs.clear();
  s.read(irqStatusAt, 0);
  s.read(irqStatusAt, 0);
  REQUIRE(s.outputs.size() == 2);
  CHECK(s.outputs[1].values[0].value == 1);
  // From outside, as from another process.
  s.outputs.clear();
  s.evaluator.raise("go", s.outputs);
  s.evaluator.raise("go", s.outputs);
  s.evaluator.raise("nobody-waits", s.outputs);
  CHECK(s.points() == Points{8});
}

TEST_CASE("mapped memory, list elements, payload, names") {
  Program program = compiled(R"(
    trigger outside { when dma-descriptor && !mapped(address, length) { fire "outside"; } }
    trigger element { when memory-write && descriptor.rows == 7 { fire "element", descriptor.next; } }
    trigger bytes { when memory-write && payload(1, 2) == 0x0302 { fire "bytes"; } }
    trigger name { when marker "load" || (span-begin && starts("kws/")) { fire "name"; } }
  )");
  Stream s(program);
  PacketExtra range;
  range.length = 0x1000;
  s.kind(PacketKind::MemoryMap, 0x1000, 0, range); // 0
  s.kind(PacketKind::MemoryMap, 0x2000, 0, range); // 1
  range.length = 0x1800;
  s.kind(PacketKind::DmaDescriptor, 0x1400, 0, range); // 2: across both
  s.kind(PacketKind::DmaDescriptor, 0x1801, 0, range); // 3: one byte too far
  range.length = 0x1000;
  s.kind(PacketKind::MemoryUnmap, 0x1000, 0, range); // 4
  range.length = 8;
  s.kind(PacketKind::DmaDescriptor, 0x1ff8, 0, range); // 5
  s.submit({0x03, 0, 0x5000, 0});                      // 6: DMA_CHAIN
  std::vector<uint8_t> descriptor(64);
  descriptor[16] = 7;
  descriptor[32] = 0x40;
  Packet write;
  write.kind = PacketKind::MemoryWrite;
  write.address = 0x5000;
  s.add(write, {}, descriptor); // 7
  s.add(write, {}, descriptor); // 8: no list leads here any more
  write.address = 0x40;
  s.submit({0x03, 0, 0x5000, 0}); // 9
  s.add(write, {}, {1, 2, 3, 4}); // 10
  s.marker("load");               // 11
  s.marker("loads");              // 12
  std::vector<std::pair<uint32_t, uint64_t>> fired, wanted = {{0, 3}, {0, 5}, {1, 7}, {2, 10}, {3, 11}};
  for (const Output &output : s.outputs)
    fired.push_back({output.trigger, output.packet});
  CHECK(fired == wanted);
}

TEST_CASE("keep says which packets are wanted") {
  Program program = compiled("trigger t { keep write CONTROL; when read { fire \"x\"; } }");
  Stream s(program);
  s.write(controlAt, 1);
  CHECK(s.evaluator.keeps(0));
  s.read(statusAt, 1);
  CHECK_FALSE(s.evaluator.keeps(0));
}

TEST_CASE("if, counters that stop at their width, unknown values that change nothing") {
  Program program = compiled(R"(trigger t {
    counter n: 2;
    var v;
    when read STATUS {
      if n >= 2 { n += 5; } else { n += 1; }
      v = GEMM.k;
      fire "n", n, v;
    }
    when write CONTROL { n -= 9; fire "n", n, v; }
  })");
  Stream s(program);
  for (int i = 0; i < 4; ++i)
    s.read(statusAt, 0);
  s.write(controlAt, 0);
  Points values;
  for (const Output &output : s.outputs) {
    values.push_back(output.values[0].value);
    CHECK(output.values[1].value == 0);
  }
  CHECK(values == Points{1, 2, 3, 3, 0});
}

namespace {

/// A random stream of what triggers look at, the same for the same seed.
template <typename Before>
void feed(Stream &s, uint64_t seed, unsigned packets, Before before) {
  std::mt19937_64 random(seed);
  for (unsigned i = 0; i < packets; ++i) {
    s.now += random() % 5 == 0 ? random() % 3000 : random() % 40;
    before(s, random());
    switch (random() % 8) {
    case 0: s.write(controlAt, random() % 4); break;
    case 1:
    case 2: s.read(statusAt, random() % 8); break;
    case 3: s.read(errorAt, random() % 3); break;
    case 4: s.submit({uint32_t(random() % 2 ? 0x30 : 0x10), 0, uint32_t(random() % 4 * 0x100)}); break;
    case 5: s.add(ended(PacketKind::MemoryWait, random() % 4 * 0x100, Completion::Done)); break;
    case 6: s.marker(random() % 2 ? "a" : "b"); break;
    default: s.kind(PacketKind::CounterSnapshot, 1, random() % 1000); break;
    }
  }
  s.evaluator.finish(s.outputs);
}

const char *const busy = R"(
  trigger deadlines { table fences[8]; timer since;
    always { when submit FENCE { fences[FENCE.host] = packet; } when memory-wait { remove fences[address]; }
             when marker "a" { start since; } after 400 ns of fences { fire "old", expired, size(fences); }
             after 700 ns of since { fire "since", elapsed(since); } }
    when read ERR_CODE && value == 2 count 2 { fire "error"; } }
  trigger machine { state a { when write CONTROL && value == 1 -> b; after 900 ns { fire "a"; } -> b; }
    state b { entry { fire "b"; } when rose(STATUS.HALTED) -> c; after 300 ns -> a; }
    state c { after 3 packets { fire "c"; } -> a; after 200 ns { fire "cc"; } -> b; } }
  trigger together { sequence read STATUS then not within 100 ns marker then within 500 ns submit { fire "seq"; } }
  trigger rates { when read STATUS rate 3 in 200 ns holdoff 1 us { fire "rate"; } when raised x { fire "x"; }
    when regressed(MACS) { raise x; } })";

std::vector<std::array<uint64_t, 5>> trace(const Stream &s) {
  std::vector<std::array<uint64_t, 5>> all;
  for (const Output &output : s.outputs)
    all.push_back({output.trigger, output.action, output.packet, output.time, output.values[0].value});
  return all;
}

} // namespace

TEST_CASE("ticks make deadlines known earlier and change nothing else") {
  Program program = compiled(busy);
  uint64_t fired = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Stream plain(program), ticked(program);
    feed(plain, seed, 200, [](Stream &, uint64_t) {});
    feed(ticked, seed, 200, [](Stream &s, uint64_t r) {
      for (uint64_t n = r % 4; n-- > 0;)
        s.evaluator.tick(s.now - std::min<uint64_t>(s.now, n * 7), s.outputs);
    });
    CAPTURE(seed);
    // Two deadlines between the same packets are met in the order of their times either way.
    CHECK(trace(plain) == trace(ticked));
    CHECK_FALSE(plain.evaluator.shortfalls().any());
    fired += plain.outputs.size();
  }
  CHECK(fired > 1000);
}

TEST_CASE("packets that concern nobody may be passed by") {
  Program program = compiled(busy);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Stream all(program), some(program);
    std::mt19937_64 random(seed);
    unsigned passed = 0;
    for (int i = 0; i < 300; ++i) {
      Packet packet;
      packet.kind = random() % 2 ? PacketKind::RegisterRead : PacketKind::RegisterWrite;
      packet.space = 1;
      packet.width = 4;
      packet.address = random() % 4 ? 0x100 + random() % 16 * 4 : random() % 2 ? statusAt : controlAt;
      packet.value = random() % 4;
      uint64_t step = random() % 200;
      for (Stream *s : {&all, &some}) {
        s->now += step;
        if (s == &some && !s->evaluator.concerns(packet)) {
          s->evaluator.packetPassed(s->ordinal++, s->now, s->now, s->outputs);
          s->now += 10;
          ++passed;
        } else {
          s->add(packet);
        }
      }
    }
    CAPTURE(seed);
    CHECK(trace(all) == trace(some));
    CHECK(passed > 100);
  }
}

TEST_CASE("a key's filter lets pass what can concern a trigger, and no other value") {
  Program program = compiled(R"(
    trigger a { when read STATUS && value == 3 { fire "a"; } when write CONTROL && value == 1 && width == 4 { fire "c"; } }
    trigger b { when read STATUS && (value == 5 || value == 7) { fire "b"; } }
    trigger c { when read ERR_CODE { fire "c"; } when write Q0_SIZE && value != 3 { fire "d"; } }
  )");
  Stream s(program);
  auto passes = [&](PacketKind kind, uint64_t address, uint64_t value) {
    Packet packet;
    packet.kind = kind;
    packet.space = 1;
    packet.address = address;
    packet.value = value;
    return s.evaluator.filterOf(packet).passes(value);
  };
  for (uint64_t value = 0; value < 200; ++value) {
    CHECK(passes(PacketKind::RegisterRead, statusAt, value) == (value == 3 || value == 5 || value == 7));
    CHECK(passes(PacketKind::RegisterWrite, controlAt, value) == (value == 1));
    CHECK(passes(PacketKind::RegisterRead, errorAt, value));
    CHECK(passes(PacketKind::RegisterWrite, 0x108, value));
    CHECK_FALSE(passes(PacketKind::RegisterWrite, statusAt, value));
    CHECK_FALSE(passes(PacketKind::RegisterRead, 0x108, value));
  }
  for (uint64_t value : {3, 4, 5, 7})
    s.read(statusAt, value);
  CHECK(s.points() == Points{0, 2, 3});
}

TEST_CASE("a storm of deadlines costs a bounded number of steps, and says so") {
  Program program = compiled("trigger t { state a { after 1 ns -> b; } state b { after 1 ns -> a; } }");
  Stream s(program);
  s.at(0).read(statusAt, 0);
  s.at(1'000'000'000).read(statusAt, 0);
  CHECK(s.evaluator.shortfalls().deadlines == 1);
}

TEST_CASE("tables, statistics and ranges agree with simple ones") {
  std::mt19937_64 random(1);
  ValueTable table(50);
  std::vector<std::array<uint64_t, 3>> plain; // key, value, time: oldest first
  auto at = [&](uint64_t key) {
    return std::find_if(plain.begin(), plain.end(), [&](const auto &e) { return e[0] == key; });
  };
  for (uint64_t now = 0; now < 20000; ++now) {
    uint64_t key = random() % 120;
    if (random() % 3) {
      if (at(key) != plain.end())
        plain.erase(at(key));
      else if (plain.size() == 50)
        plain.erase(plain.begin());
      plain.push_back({key, now * 3, now});
      table.put(key, now * 3, now);
    } else {
      bool there = at(key) != plain.end();
      CHECK(table.remove(key) == there);
      if (there)
        plain.erase(at(key));
    }
    if (now % 5000 == 4999) {
      table.clear();
      plain.clear();
    }
    uint64_t asked = random() % 120;
    REQUIRE(table.size() == plain.size());
    REQUIRE(table.get(asked).value_or(~0ull) == (at(asked) == plain.end() ? ~0ull : (*at(asked))[1]));
    REQUIRE(table.oldest().has_value() == !plain.empty());
    if (!plain.empty())
      REQUIRE(table.oldest()->key == plain[0][0]);
  }
  for (unsigned shift : {0, 20, 50}) {
    Statistic statistic;
    std::vector<uint64_t> values;
    for (int i = 0; i < 3000; ++i) {
      values.push_back(random() >> (random() % 14) >> shift);
      statistic.add(values.back());
    }
    std::sort(values.begin(), values.end());
    for (uint64_t q : {1, 5000, 9000, 9900, 9990, 10000}) {
      uint64_t exact = values[(values.size() * q + 9999) / 10000 - 1], is = *statistic.quantile(q);
      CAPTURE(q);
      CHECK(is >= exact);
      CHECK(is - exact <= exact / 16);
    }
  }
  MappedRanges ranges;
  std::vector<bool> bytes(300);
  for (int i = 0; i < 3000; ++i) {
    uint64_t address = random() % 280, length = random() % 20;
    bool map = random() % 2;
    map ? ranges.map(address, length) : ranges.unmap(address, length);
    for (uint64_t b = address; b < address + length; ++b)
      bytes[b] = map;
    address = random() % 280;
    length = random() % 20;
    bool all = true;
    for (uint64_t b = address; b < address + length; ++b)
      all &= bytes[b];
    REQUIRE(ranges.covers(address, length) == all);
  }
  ranges.map(~0ull - 3, 100);
  CHECK(ranges.covers(~0ull - 3, 4) == true);
  CHECK(ranges.covers(~0ull - 3, 5) == false);
}
