// Register accesses in bulk: the tape must be the one that the same accesses give record by record. Random
// programs, hostile ones among them, through both ways; everything that is on the tapes is compared.
#include "tests/recorder/Feeder.h"
#include <cstring>
#include <doctest/doctest.h>
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

using ring::SlotCopy;

/// One step of a program: accesses, or something else that is done to a feeder.
struct Step {
  std::vector<SlotCopy> accesses;
  bool concurrent = false;
  std::function<void(Feeder &)> other;
};

struct Program {
  CollectorOptions options;
  uint64_t failAfter = ~uint64_t(0);
  std::vector<Step> steps;
  uint64_t now = 1000, name = 1;
};

SlotCopy access(Program &program, PacketKind kind, uint64_t address, uint64_t value, uint8_t width = 8) {
  SlotCopy slot = {};
  slot.issue = program.now += 10;
  slot.complete = program.now += 10;
  slot.kind = uint8_t(kind);
  slot.address = address;
  slot.value = value;
  slot.width = width;
  slot.space = 1;
  return slot;
}

Step accessesOf(std::vector<SlotCopy> accesses, bool concurrent = false) {
  Step step;
  step.accesses = std::move(accesses);
  step.concurrent = concurrent;
  return step;
}

/// Runs the program: in bulk, or every access as two records.
void run(const Program &program, Feeder &feeder, bool bulk) {
  feeder.tape.failAfter = program.failAfter;
  feeder.sequence = (uint64_t(1) << 40) + 20000; // Names of what is not an access, far from those.
  uint64_t name = 1;
  for (const Step &step : program.steps) {
    if (step.other) {
      feeder.now = 0;
      step.other(feeder);
      continue;
    }
    if (bulk) {
      feeder.collector->acceptAccesses(step.accesses, name, step.concurrent);
    } else {
      for (size_t i = 0; i < step.accesses.size(); ++i) {
        const SlotCopy &slot = step.accesses[i];
        ring::Record record = {};
        record.type = ring::RecordType::Issue;
        record.kind = slot.kind;
        record.width = slot.width;
        record.flags = slot.flags;
        record.sequence = name + i;
        record.time = slot.issue;
        record.address = slot.address;
        record.value = slot.value;
        record.device = slot.device;
        record.thread = slot.thread;
        record.space = slot.space;
        record.origin = slot.origin;
        record.completion = slot.completion;
        feeder.collector->accept(record, {});
        record.type = ring::RecordType::Complete;
        record.time = slot.complete;
        ring::Others others;
        if (step.concurrent)
          others.until = ~uint64_t(0);
        feeder.collector->accept(record, {}, others);
      }
    }
    name += step.accesses.size();
  }
}

template <typename List, typename Same>
std::string differs(const char *what, const List &a, const List &b, Same same) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (!same(a[i], b[i]))
      return std::string(what) + " " + std::to_string(i);
  return a.size() == b.size() ? "" : "number of " + std::string(what) + "s";
}

bool sameExtents(const std::vector<KeyframeExtent> &a, const std::vector<KeyframeExtent> &b) {
  return differs("extent", a, b,
                 [](const KeyframeExtent &x, const KeyframeExtent &y) {
                   return x.space == y.space && x.address == y.address && x.length == y.length &&
                          x.content == y.content;
                 })
      .empty();
}

bool sameKeyframe(const Keyframe &a, const Keyframe &b) {
  return a.packet == b.packet && a.window == b.window && a.device == b.device &&
         a.restorable == b.restorable && a.reason == b.reason &&
         differs("register", a.registers, b.registers,
                 [](const KeyframeRegister &x, const KeyframeRegister &y) {
                   return x.space == y.space && x.address == y.address && x.width == y.width &&
                          x.value == y.value;
                 })
             .empty() &&
         sameExtents(a.memory, b.memory) && sameExtents(a.internal, b.internal);
}

/// What two tapes do not have in common; empty if they are the same.
std::string difference(const Feeder &a, const Feeder &b) {
  const MemoryTape &x = a.tape, &y = b.tape;
  auto equal = [](const auto &one, const auto &other) { return one == other; };
  std::string found = differs("packet", x.packets, y.packets, equal);
  if (found.empty())
    found = differs("extra", x.extras, y.extras, equal);
  if (found.empty())
    found = differs("window", x.windows, y.windows, [](const auto &one, const auto &other) {
      return one.first == other.first && one.count == other.count && one.quiescent == other.quiescent;
    });
  if (found.empty())
    found = differs("keyframe", x.keyframes, y.keyframes, sameKeyframe);
  if (found.empty())
    found = differs("trigger", x.triggers, y.triggers, equal);
  if (found.empty())
    found = differs("space", x.spaces, y.spaces, equal);
  if (found.empty() && x.blobs != y.blobs)
    found = "contents";
  const CollectorReport &r = a.collector->report(), &s = b.collector->report();
  if (found.empty() &&
      (r.pending != s.pending || r.notRecorded != s.notRecorded || r.notUnderstood != s.notUnderstood ||
       r.diskErrors != s.diskErrors || r.started != s.started || r.stopped != s.stopped))
    found = "report";
  const Outcome &o = a.collector->outcome(), &p = b.collector->outcome();
  if (found.empty() && (o.kind != p.kind || o.packet != p.packet || o.text != p.text ||
                        o.signature.has_value() != p.signature.has_value() ||
                        (o.signature && (o.signature->object != p.signature->object ||
                                         o.signature->command != p.signature->command))))
    found = "outcome";
  return found;
}

/// Both ways; what they do not have in common. `bulk` and `single` can be looked at afterwards.
struct Both {
  Feeder bulk, single;
  std::string found;
  explicit Both(const Program &program) : Both(program, program) {}
  Both(const Program &forBulk, const Program &forSingle)
      : bulk(forBulk.options, 3, /*queues=*/true), single(forSingle.options, 3, /*queues=*/true) {
    run(forBulk, bulk, true);
    run(forSingle, single, false);
    for (Feeder *feeder : {&bulk, &single}) {
      llvm::Expected<TapeSummary> summary = feeder->finish({3, std::nullopt});
      if (!summary)
        llvm::consumeError(summary.takeError()); // The report says it; both must.
    }
    found = difference(bulk, single);
    if (found.empty() && !bulk.tape.violation.empty())
      found = bulk.tape.violation;
  }
};

StartStopCondition conditionOf(const char *text) {
  static const CollectorDevice engine = copyEngine("a");
  llvm::Expected<StartStopCondition> parsed =
      StartStopCondition::parse(text, "--start", {&*engine.description});
  REQUIRE(bool(parsed));
  return *parsed;
}

class Random {
public:
  explicit Random(uint64_t seed) : source(seed) {}
  uint64_t below(uint64_t n) { return source() % n; }
  bool oneIn(uint64_t n) { return below(n) == 0; }
  template <typename T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }

private:
  std::mt19937_64 source;
};

/// Mostly what drivers do; now and then what none does.
SlotCopy randomAccess(Program &program, Random &random) {
  bool write = random.oneIn(3);
  uint64_t address = random.of<uint64_t>({0, 0, 0x80, 0x88, 0x90, 0x98, 0x98, 0x98, 0x200, 0x204, 0x208});
  uint8_t width = address < 0x80 || address >= 0x200 ? 4 : 8;
  SlotCopy slot = access(program, write ? PacketKind::RegisterWrite : PacketKind::RegisterRead, address,
                         address == 0x98 ? random.below(4) : random.below(200), width);
  slot.thread = uint16_t(random.below(3));
  slot.device = uint16_t(random.oneIn(20) ? random.below(4) : 0);
  if (random.oneIn(30))
    slot.width = random.of<uint8_t>({1, 2, 4, 8, 3, 0});
  if (random.oneIn(30))
    slot.address += random.below(8);
  if (random.oneIn(60))
    slot.space = uint16_t(random.below(4));
  if (random.oneIn(60))
    slot.completion = uint8_t(random.below(6));
  if (random.oneIn(60))
    slot.origin = uint8_t(random.below(4));
  if (random.oneIn(90))
    slot.flags = uint8_t(random.below(256));
  if (random.oneIn(90))
    slot.kind = uint8_t(random.below(30));
  if (random.oneIn(90))
    slot.complete = slot.issue - random.below(500);
  return slot;
}

Step randomOther(Program &program, Random &random) {
  uint64_t now = program.now += 10, choice = random.below(11), value = random.below(8);
  uint16_t thread = uint16_t(random.below(3)), device = uint16_t(random.below(3));
  Step step;
  step.other = [=](Feeder &f) {
    f.now = now;
    auto mine = [=](ring::Record &r) { r.device = device; };
    switch (choice) {
    case 0: return f.open(device, value == 0 ? llvm::StringRef("serial\0", 7) : llvm::StringRef());
    case 1: return f.mark("m" + std::to_string(value));
    case 2:
      f.issue(PacketKind::Poll, thread, [=](ring::Record &r) {
        Feeder::at(0x98)(r);
        r.mask = 1;
      });
      return;
    case 3: return f.complete(thread, value % 2);
    case 4: f.transfer(value % 2, 0x1000, 0x40000 + value * 16, "content"); return;
    case 5: return f.transferDone(f.sequence, value % 2, 0x1000, "content");
    case 6: return f.collector->damaged();
    case 7: f.issue(PacketKind::Reset, 0, mine); return f.complete(0);
    case 8:
      f.event(
          PacketKind::Oracle,
          [=](ring::Record &r) {
            r.value = value;
            r.link = value * 40;
            r.flags = value == 7 ? uint8_t(Failed) : uint8_t(0);
          },
          Feeder::bytes("check"));
      return;
    case 9: {
      std::vector<uint8_t> entry(32, uint8_t(value % 4));
      f.event(
          PacketKind::Submit,
          [](ring::Record &r) {
            r.device = 2;
            r.address = 0x1000;
            r.length = 32;
          },
          entry);
      return;
    }
    default:
      ring::Record dropped = Feeder::record(ring::RecordType::Dropped, PacketKind::Tick);
      dropped.value = value;
      return f.give(dropped);
    }
  };
  return step;
}

Program randomProgram(uint64_t seed) {
  Random random(seed);
  Program program;
  program.options.keyframeInterval = random.of<uint64_t>({0, 16, 100});
  switch (random.below(6)) {
  case 0: program.options.start = conditionOf("write:CMD=1/1"); break;
  case 1: program.options.start = conditionOf("marker:m1"); break;
  case 2: program.options.stop = conditionOf("write:PLAIN=5"); break;
  case 3: program.options.stop = conditionOf("marker:m2#3"); break;
  case 4: program.failAfter = 100 + random.below(400); break;
  default: break;
  }
  for (uint16_t device = 0; device < 3; ++device) {
    if (random.oneIn(5))
      continue;
    Step step;
    step.other = [device](Feeder &f) { f.open(device); };
    program.steps.push_back(std::move(step));
  }
  for (unsigned i = 0; i < 60; ++i) {
    if (random.oneIn(2)) {
      program.steps.push_back(randomOther(program, random));
      continue;
    }
    std::vector<SlotCopy> accesses;
    for (uint64_t left = random.oneIn(6) ? 600 : 1 + random.below(40); left; --left)
      accesses.push_back(randomAccess(program, random));
    program.steps.push_back(accessesOf(std::move(accesses), random.oneIn(5)));
  }
  return program;
}

Program opened() {
  Program program;
  Step step;
  step.other = [](Feeder &f) { f.open(); };
  program.steps.push_back(std::move(step));
  return program;
}

} // namespace

TEST_CASE("random programs: in bulk and one by one give the same tape") {
  uint64_t packets = 0, windows = 0, keyframes = 0, losses = 0, concurrent = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Both both(randomProgram(seed));
    CHECK_MESSAGE(both.found.empty(), both.found);
    packets += both.bulk.tape.packets.size();
    windows += both.bulk.tape.windows.size();
    keyframes += both.bulk.tape.keyframes.size();
    losses += both.bulk.find(PacketKind::Loss).size();
    for (const Packet &packet : both.bulk.tape.packets)
      concurrent += (packet.flags & Concurrent) != 0;
  }
  // They did what they are for.
  CHECK(packets > 100'000);
  CHECK(windows > 2'000);
  CHECK(keyframes > 500);
  CHECK(losses > 500);
  CHECK(concurrent > 5'000);
}

TEST_CASE("the comparison tells tapes apart by one value, one order, one time, one window, one packet") {
  Program program = opened();
  std::vector<SlotCopy> accesses;
  for (uint64_t i = 0; i < 300; ++i)
    accesses.push_back(access(program, i % 3 ? PacketKind::RegisterRead : PacketKind::RegisterWrite,
                              i % 2 ? 0x80 : 0x90, i));
  accesses[200] = access(program, PacketKind::RegisterWrite, 0x98, 1);
  accesses[250] = access(program, PacketKind::RegisterRead, 0x98, 0);
  program.steps.push_back(accessesOf(accesses));
  REQUIRE(Both(program).found.empty());
  auto otherwise = [&](auto change) {
    Program other = program;
    change(other.steps.back());
    return Both(program, other).found;
  };
  CHECK(otherwise([](Step &s) { s.accesses[123].value ^= 1; }) == "packet 124");
  CHECK(otherwise([](Step &s) { std::swap(s.accesses[10], s.accesses[11]); }) == "packet 11");
  CHECK(otherwise([](Step &s) { ++s.accesses[299].complete; }) == "packet 300");
  CHECK(otherwise([](Step &s) { s.accesses.pop_back(); }) == "number of packets");
  CHECK(otherwise([](Step &s) { s.concurrent = true; }) == "packet 1");
  CHECK(otherwise([](Step &s) { s.accesses[250].value = 1; }) == "packet 251");
  // The same packets, but another end of a window: a description that sees no end.
  Program windows = program;
  windows.options.keyframeInterval = 1;
  CHECK(Both(program, windows).found != "");
}

TEST_CASE("links lead to accesses that were taken in bulk, and a failed check names their register") {
  Program program = opened();
  std::vector<SlotCopy> accesses;
  for (uint64_t i = 0; i < 500; ++i)
    accesses.push_back(access(program, PacketKind::RegisterRead, i % 2 ? 0x90 : 0x88, i));
  program.steps.push_back(accessesOf(accesses));
  Step check;
  check.other = [](Feeder &f) {
    f.now = 1'000'000;
    f.event(
        PacketKind::Oracle,
        [](ring::Record &r) {
          r.link = 400; // Names count from 1: the 400th access, packet 400.
          r.value = 399;
          r.expected = 3;
          r.mask = ~uint64_t(0);
          r.flags = Failed;
        },
        Feeder::bytes("check"));
  };
  program.steps.push_back(check);
  Both both(program);
  CHECK_MESSAGE(both.found.empty(), both.found);
  CHECK(both.bulk.tape.extras.back().link == 400);
  REQUIRE(both.bulk.collector->outcome().signature);
  CHECK(both.bulk.collector->outcome().signature->object == "COUNT");
}

TEST_CASE("more shapes of accesses than there are keys: slower, and the same") {
  Program program = opened();
  std::vector<SlotCopy> accesses;
  for (uint64_t i = 0; i < AccessKeys::maxRows + 2000; ++i)
    accesses.push_back(access(program, PacketKind::RegisterWrite, 0x10000 + i * 8, i));
  program.steps.push_back(accessesOf(accesses));
  program.steps.push_back(accessesOf({accesses.front(), accesses.back()}));
  Both both(program);
  CHECK_MESSAGE(both.found.empty(), both.found);
  CHECK(both.bulk.tape.packets.size() == accesses.size() + 3);
}
