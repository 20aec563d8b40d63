// The collector on streams made by hand: pairing, order, windows, keyframes, conditions, losses, outcomes.
#include "tests/recorder/Feeder.h"
#include "llvm/Support/JSON.h"
#include <doctest/doctest.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

StartStopCondition condition(llvm::StringRef text) {
  static const CollectorDevice engine = copyEngine("a");
  llvm::Expected<StartStopCondition> parsed =
      StartStopCondition::parse(text, "--start", {&*engine.description});
  REQUIRE(bool(parsed));
  return *parsed;
}

bool finished(Feeder &feeder, ProgramFate fate = {0, std::nullopt}) {
  llvm::Expected<TapeSummary> summary = feeder.finish(fate);
  if (!summary) {
    llvm::consumeError(summary.takeError());
    return false;
  }
  return feeder.tape.violation.empty();
}

} // namespace

TEST_CASE("an operation is one packet with both stamps, at the place where it completed") {
  Feeder f;
  f.open();
  f.issue(PacketKind::RegisterRead, 0, Feeder::at(0));
  uint64_t issued = f.now;
  f.mark("between");
  f.complete(0, 0x55);
  REQUIRE(finished(f));
  REQUIRE(f.tape.packets.size() == 3);
  CHECK(f.tape.packets[0].kind == PacketKind::Open);
  CHECK(f.tape.packets[1].kind == PacketKind::Marker);
  const Packet &read = f.tape.packets[2];
  CHECK(read.kind == PacketKind::RegisterRead);
  CHECK(read.value == 0x55);
  CHECK(read.issueTime == issued);
  CHECK(read.completeTime == issued + 2);
  CHECK(read.completion == Completion::Done);
  CHECK(read.width == 4);
  CHECK(f.tape.spaces[read.space] == "bar0");
  CHECK(!(read.flags & Concurrent));
  CHECK(f.collector->report().whole());
}

TEST_CASE("operations of different threads that overlap are concurrent, others are not") {
  Feeder f;
  f.open();
  f.issue(PacketKind::Poll, 1, Feeder::at(0));
  f.write(0, 1, 2);
  f.complete(1, 1);
  f.read(0, 1, 1);
  REQUIRE(finished(f));
  CHECK((f.tape.packets[1].flags & Concurrent)); // The write.
  CHECK((f.tape.packets[2].flags & Concurrent)); // The poll, after what ended it.
  CHECK(f.tape.packets[2].kind == PacketKind::Poll);
  CHECK(f.tape.packets[2].thread == 1);
  CHECK(!(f.tape.packets[3].flags & Concurrent));
}

TEST_CASE("what never came back is pending, in the order of issue, and last") {
  Feeder f;
  f.open();
  f.issue(PacketKind::RegisterRead, 3, Feeder::at(0));
  f.issue(PacketKind::RegisterWrite, 1, [](ring::Record &r) {
    Feeder::at(0)(r);
    r.value = 9;
  });
  f.mark("later");
  REQUIRE(finished(f, {std::nullopt, 9}));
  REQUIRE(f.tape.packets.size() == 4);
  CHECK(f.tape.packets[2].completion == Completion::Pending);
  CHECK(f.tape.packets[2].thread == 3);
  CHECK(f.tape.packets[2].completeTime == 0);
  CHECK(f.tape.packets[3].completion == Completion::Pending);
  CHECK(f.tape.packets[3].value == 9);
  CHECK(f.collector->report().pending == 2);
  CHECK(f.collector->outcome().kind == Outcome::Kind::Failed);
  CHECK(f.collector->outcome().signature->oracle == "died");
  CHECK(f.collector->outcome().signature->name == "SIGKILL");
}

TEST_CASE("transfers: content at the doorbell and at the end, linked, and the window ends behind them") {
  Feeder f;
  f.open();
  f.mark("op");
  uint64_t descriptor = f.transfer(true, 0x1000, 0x40000, "hello");
  f.write(0x98, 1);
  f.issue(PacketKind::Poll, 0, Feeder::at(0x98));
  f.complete(0, 0);
  f.transferDone(descriptor, true, 0x1000, "hello");
  f.transfer(false, 0x2000, 0x40000, "xxxxx");
  uint64_t second = f.sequence;
  f.write(0x98, 3);
  f.read(0x98, 2);
  f.transferDone(second, false, 0x2000, "hello");
  f.mark("op");
  REQUIRE(finished(f));
  std::vector<size_t> descriptors = f.find(PacketKind::DmaDescriptor),
                      completions = f.find(PacketKind::DmaCompletion);
  REQUIRE(descriptors.size() == 2);
  REQUIRE(completions.size() == 2);
  CHECK(f.tape.text(f.tape.extras[descriptors[0]]) == "hello");
  CHECK(f.tape.extras[descriptors[0]].link == 0); // The activity's index.
  CHECK(!f.tape.extras[descriptors[1]].payload);
  CHECK(f.tape.extras[completions[0]].link == descriptors[0]);
  CHECK(f.tape.extras[completions[1]].link == descriptors[1]);
  CHECK(f.tape.text(f.tape.extras[completions[1]]) == "hello");
  for (size_t completion : completions) {
    bool endsWindow = false;
    for (const auto &window : f.tape.windows)
      endsWindow |= window.first + window.count == completion + 1 && window.quiescent;
    CHECK(endsWindow);
  }
  // And no window ends between a read and the completions that it made known.
  for (const auto &window : f.tape.windows)
    for (size_t completion : completions)
      CHECK(window.first != completion);
}

TEST_CASE("a marker begins a window, quiescent or not") {
  Feeder f;
  f.open();
  f.mark("one");
  f.transfer(true, 0x1000, 0x40000, "abc");
  f.write(0x98, 1);
  f.mark("two");
  f.read(0, 0);
  REQUIRE(finished(f));
  std::vector<size_t> markers = f.find(PacketKind::Marker);
  unsigned begins = 0;
  for (const auto &window : f.tape.windows) {
    begins += window.first == markers[0] || window.first == markers[1];
    if (window.first + window.count == markers[1])
      CHECK(!window.quiescent);
  }
  CHECK(begins == 2);
}

TEST_CASE("links of checks, spans and completions are ordinals; unknown ones are no link") {
  Feeder f;
  f.open();
  uint64_t read = f.read(0, 5);
  f.event(
      PacketKind::Oracle,
      [&](ring::Record &r) {
        r.value = r.expected = 5;
        r.mask = ~uint64_t(0);
        r.link = read;
      },
      Feeder::bytes("five"));
  uint64_t span = f.event(PacketKind::SpanBegin, {}, Feeder::bytes("span"));
  for (int i = 0; i < 70000; ++i) // More than the recent ones: spans last.
    f.mark("x");
  f.event(PacketKind::SpanEnd, [&](ring::Record &r) { r.link = span; });
  f.event(PacketKind::SpanEnd, [&](ring::Record &r) { r.link = 99999999; });
  f.event(PacketKind::Oracle, [&](ring::Record &r) { r.link = read; }, Feeder::bytes("long ago"));
  REQUIRE(finished(f));
  std::vector<size_t> oracles = f.find(PacketKind::Oracle), ends = f.find(PacketKind::SpanEnd);
  CHECK(f.tape.extras[oracles[0]].link == 1);
  CHECK(f.tape.extras[oracles[1]].link == noLink);
  CHECK(f.tape.extras[ends[0]].link == f.find(PacketKind::SpanBegin)[0]);
  CHECK(f.tape.extras[ends[1]].link == noLink);
}

TEST_CASE("the first failed check is the signature, by register and field, anchored to the marker") {
  Feeder f;
  f.open();
  f.mark("op");
  f.mark("op");
  f.transfer(true, 0x1000, 0x40000, "abc");
  f.write(0x98, 1);
  uint64_t read = f.read(0x98, 2);
  auto check = [&](uint64_t link, const char *name) {
    f.event(
        PacketKind::Oracle,
        [&](ring::Record &r) {
          r.value = 2;
          r.expected = 0;
          r.mask = ~uint64_t(0);
          r.link = link;
          r.flags = Failed;
        },
        Feeder::bytes(name));
  };
  check(read, "first");
  check(0, "second");
  REQUIRE(finished(f, {1, std::nullopt}));
  const Outcome &outcome = f.collector->outcome();
  REQUIRE(outcome.signature);
  CHECK(outcome.kind == Outcome::Kind::Failed);
  CHECK(outcome.signature->oracle == "check");
  CHECK(outcome.signature->name == "first");
  CHECK(outcome.signature->object == "CMD");
  CHECK(outcome.signature->field == "FROM");
  CHECK(outcome.signature->xorClass == 2);
  CHECK(outcome.signature->offset == 0);
  CHECK(outcome.signature->marker == "op");
  CHECK(outcome.signature->markerOccurrence == 2);
  CHECK(outcome.signature->command == 1);
  CHECK(outcome.packet == f.find(PacketKind::Oracle)[0]);
  CHECK(outcome.programExit == 1);
}

TEST_CASE("a target's failure is the signature only if the run failed") {
  for (int exit : {0, 3}) {
    Feeder f;
    f.open();
    f.issue(PacketKind::RegisterRead, 0, Feeder::at(0));
    f.complete(0, 0, Completion::Failed);
    REQUIRE(finished(f, {exit, std::nullopt}));
    const Outcome &outcome = f.collector->outcome();
    if (exit == 0) {
      CHECK(outcome.kind == Outcome::Kind::Passed);
    } else {
      REQUIRE(outcome.signature);
      CHECK(outcome.signature->oracle == "target-error");
      CHECK(outcome.signature->object == "PLAIN");
      CHECK(outcome.packet == 1);
    }
  }
}

TEST_CASE("an exit code that is not 0 is a failure of its own; a passed run has none") {
  Feeder died, passed;
  died.open();
  REQUIRE(finished(died, {7, std::nullopt}));
  REQUIRE(died.collector->outcome().signature);
  CHECK(died.collector->outcome().signature->name == "exit-7");
  passed.open();
  REQUIRE(finished(passed));
  CHECK(passed.collector->outcome().kind == Outcome::Kind::Passed);
  CHECK(!passed.collector->outcome().signature);
}

TEST_CASE("a late start: a keyframe of the state, the number left out, then everything") {
  CollectorOptions options;
  options.start = condition("marker:go#2");
  Feeder f(options);
  f.open();
  f.map(0x1000, 0x2000);
  f.issue(PacketKind::Reset, 0);
  f.complete(0);
  uint64_t descriptor = f.transfer(true, 0x1000, 0x40010, "kept");
  f.write(0x98, 1);
  f.read(0x98, 0);
  f.transferDone(descriptor, true, 0x1000, "kept");
  f.write(0, 0x77);
  f.mark("go");
  uint64_t before = f.read(0, 0x77);
  f.mark("go");
  f.event(PacketKind::Oracle, [&](ring::Record &r) { r.link = before; }, Feeder::bytes("old"));
  f.read(0, 0x77);
  REQUIRE(finished(f));
  REQUIRE(f.tape.keyframes.size() == 1);
  const Keyframe &keyframe = f.tape.keyframes[0];
  CHECK(keyframe.packet == 0);
  CHECK_MESSAGE(keyframe.restorable, keyframe.reason);
  REQUIRE(keyframe.internal.size() == 1);
  CHECK(keyframe.internal[0].length == 4);
  REQUIRE(f.tape.packets.size() == 4);
  CHECK(f.tape.packets[0].kind == PacketKind::Loss);
  CHECK(f.tape.packets[0].address == uint64_t(LossCause::NotRecording));
  CHECK(f.tape.packets[0].value == 11);
  CHECK(f.tape.packets[1].kind == PacketKind::Marker);
  CHECK(f.tape.extras[2].link == noLink); // Its read is not on the tape.
  REQUIRE(f.tape.triggers.size() == 1);
  CHECK(f.tape.triggers[0].first == 1);
  CHECK(f.collector->report().notRecorded == 11);
  CHECK(f.collector->report().started);
  CHECK(f.collector->report().whole());
}

TEST_CASE("occurrences of markers are counted as the tape shows them") {
  CollectorOptions options;
  options.start = condition("marker:op#3");
  Feeder f(options);
  f.open();
  for (int i = 0; i < 4; ++i)
    f.mark("op");
  f.event(
      PacketKind::Oracle,
      [](ring::Record &r) {
        r.expected = 1;
        r.flags = Failed;
      },
      Feeder::bytes("check"));
  REQUIRE(finished(f));
  REQUIRE(f.collector->outcome().signature);
  CHECK(f.collector->outcome().signature->markerOccurrence == 2);
}

TEST_CASE("a doorbell that starts the recording takes along what it hands over") {
  CollectorOptions options;
  options.start = condition("write:CMD=3/3");
  Feeder f(options);
  f.open();
  uint64_t first = f.transfer(true, 0x1000, 0x40000, "one");
  f.write(0x98, 1);
  f.read(0x98, 0);
  f.transferDone(first, true, 0x1000, "one");
  uint64_t second = f.transfer(false, 0x2000, 0x40000, "two");
  f.write(0x98, 3);
  f.read(0x98, 2);
  f.transferDone(second, false, 0x2000, "one");
  REQUIRE(finished(f));
  REQUIRE(f.tape.packets.size() == 6);
  CHECK(f.tape.packets[0].kind == PacketKind::Loss);
  CHECK(f.tape.packets[1].kind == PacketKind::MemoryWrite);
  CHECK(f.tape.text(f.tape.extras[1]) == "two");
  CHECK(f.tape.packets[2].kind == PacketKind::DmaDescriptor);
  CHECK(f.tape.packets[3].kind == PacketKind::RegisterWrite);
  CHECK(f.tape.extras[5].link == 2);
  REQUIRE(f.tape.triggers.size() == 1);
  CHECK(f.tape.triggers[0].first == 3);
}

TEST_CASE("a stop condition: its packet is the last, the rest is counted") {
  CollectorOptions options;
  options.stop = condition("write:PLAIN=2");
  Feeder f(options);
  f.open();
  f.write(0, 1);
  f.write(0, 2);
  f.write(0, 3);
  f.mark("end");
  REQUIRE(finished(f));
  REQUIRE(f.tape.packets.size() == 4);
  CHECK(f.tape.packets[2].value == 2);
  CHECK(f.tape.packets[3].kind == PacketKind::Loss);
  CHECK(f.tape.packets[3].value == 2);
  CHECK(f.tape.triggers[0].first == 2);
  CHECK(f.collector->report().stopped);
  CHECK(f.collector->report().whole());
}

TEST_CASE("a start condition that is never met leaves an honest, empty tape") {
  CollectorOptions options;
  options.start = condition("marker:never");
  Feeder f(options);
  f.open();
  f.write(0, 1);
  REQUIRE(finished(f));
  CHECK(!f.collector->report().started);
  REQUIRE(f.tape.packets.size() == 1);
  CHECK(f.tape.packets[0].kind == PacketKind::Loss);
  CHECK(f.tape.packets[0].value == 2);
}

TEST_CASE("keyframes: before the program's first packet, then at quiescent window ends after so many") {
  CollectorOptions options;
  options.keyframeInterval = 100;
  Feeder f(options);
  f.open();
  f.issue(PacketKind::Reset, 0, [](ring::Record &r) { r.origin = uint8_t(Origin::Recorder); });
  f.complete(0);
  for (int i = 0; i < 300; ++i)
    f.write(0, uint64_t(i));
  uint64_t descriptor = f.transfer(true, 0x1000, 0x40000, "abc");
  f.write(0x98, 1);
  f.read(0x98, 0);
  f.transferDone(descriptor, true, 0x1000, "abc");
  f.read(0, 299);
  REQUIRE(finished(f));
  REQUIRE(f.tape.keyframes.size() == 2);
  CHECK(f.tape.keyframes[0].packet == 2); // After open and reset.
  CHECK_MESSAGE(f.tape.keyframes[0].restorable, f.tape.keyframes[0].reason);
  CHECK(f.tape.keyframes[1].packet == f.find(PacketKind::DmaCompletion)[0] + 1);
}

TEST_CASE("what is dropped by the program is a loss at its place") {
  Feeder f;
  f.open();
  ring::Record r = Feeder::record(ring::RecordType::Dropped, PacketKind::Tick);
  r.value = 17;
  f.give(r);
  f.mark("after");
  REQUIRE(finished(f));
  CHECK(f.tape.packets[1].kind == PacketKind::Loss);
  CHECK(f.tape.packets[1].address == uint64_t(LossCause::RingFull));
  CHECK(f.tape.packets[1].value == 17);
  CHECK(!f.collector->report().whole());
}

TEST_CASE("damage is one loss of unknown size, however long it goes on") {
  Feeder f;
  f.open();
  for (int i = 0; i < 1000; ++i)
    f.collector->damaged();
  f.mark("after");
  REQUIRE(finished(f));
  REQUIRE(f.find(PacketKind::Loss).size() == 1);
  CHECK(f.tape.packets[1].value == unknownCount);
  CHECK(f.collector->report().notUnderstood == 1000);
  CHECK(!f.collector->report().whole());
}

TEST_CASE("a full disk: the rest is counted and thrown away, and the error is the result") {
  Feeder f;
  f.tape.failAfter = 10;
  f.open();
  for (int i = 0; i < 100; ++i)
    f.write(0, uint64_t(i));
  CHECK(!finished(f));
  CHECK(f.tape.packets.size() == 10);
  CHECK(f.collector->report().diskErrors >= 91);
  REQUIRE(f.collector->report().writeFailure);
  CHECK(f.collector->report().writeFailure->code == "disk-full");
}

TEST_CASE("an open block is flushed after a second, if there is anything in it") {
  Feeder f;
  f.open();
  f.collector->idle(2'000'000'000);
  CHECK(f.tape.flushes == 1);
  f.collector->idle(2'500'000'000);
  CHECK(f.tape.flushes == 1);
  f.collector->idle(4'000'000'000);
  CHECK(f.tape.flushes == 1); // Nothing new.
  f.mark("x");
  f.collector->idle(4'100'000'000);
  CHECK(f.tape.flushes == 1);
  f.collector->idle(6'000'000'000);
  CHECK(f.tape.flushes == 2);
}

TEST_CASE("devices have the tape's numbers in the order of opening, and keep them") {
  CollectorOptions options;
  Feeder f(options, 2);
  f.open(1);
  f.open(0);
  ring::Record close = Feeder::record(ring::RecordType::Event, PacketKind::Close, 0, 1);
  close.sequence = 90000;
  f.give(close);
  f.open(1);
  REQUIRE(finished(f));
  REQUIRE(f.tape.devices.size() == 2);
  CHECK(f.tape.devices[0].alias == "b");
  CHECK(f.tape.devices[0].identity.at("name") == "copy-engine");
  CHECK(f.tape.devices[0].descriptionName == "copy-engine");
  CHECK(f.tape.devices[1].alias == "a");
  CHECK(f.tape.packets[0].device == 0);
  CHECK(f.tape.packets[1].device == 1);
  CHECK(f.tape.packets[2].device == 0);
  CHECK(f.tape.text(f.tape.extras[1]) == "a");
  CHECK(f.tape.spaces.size() == 1); // Nothing used bar0.
}

TEST_CASE("spaces are in the tape's table when a packet first uses them, and only then") {
  Feeder f;
  std::string payload("3\0config\0bar0\0bar2\0", 19);
  ring::Record r = Feeder::record(ring::RecordType::DeviceOpen, PacketKind::Open);
  r.sequence = ++f.sequence;
  f.give(r, payload);
  f.issue(PacketKind::RegisterRead, 0, [](ring::Record &record) { record.space = 3, record.width = 4; });
  f.complete(0, 1);
  f.issue(PacketKind::RegisterRead, 0, [](ring::Record &record) { record.space = 2, record.width = 4; });
  f.complete(0, 2);
  REQUIRE(finished(f));
  CHECK(f.tape.spaces == std::vector<std::string>{"memory", "bar2", "bar0"});
  CHECK(f.tape.packets[1].space == 1);
  CHECK(f.tape.packets[2].space == 2);
}

TEST_CASE("the last window is as quiescent as the device") {
  for (bool running : {false, true}) {
    Feeder f;
    f.open();
    f.mark("op");
    if (running) {
      f.transfer(true, 0x1000, 0x40000, "abc");
      f.write(0x98, 1);
    }
    REQUIRE(finished(f));
    CHECK(f.tape.windows.back().quiescent == !running);
  }
}

TEST_CASE("what a failed memory check wanted is on the tape, in front of it") {
  Feeder f;
  f.open();
  f.event(
      PacketKind::Expectation,
      [](ring::Record &r) {
        r.address = 0x1000;
        r.length = 6;
      },
      Feeder::bytes("wanted"));
  f.event(PacketKind::Oracle, [](ring::Record &r) { r.flags = Failed; }, Feeder::bytes("check"));
  REQUIRE(finished(f));
  REQUIRE(f.tape.packets.size() == 3);
  CHECK(f.tape.packets[1].kind == PacketKind::Expectation);
  CHECK(f.tape.packets[1].address == 0x1000);
  CHECK(f.tape.text(f.tape.extras[1]) == "wanted");
}

TEST_CASE("records that make no sense are counted as a loss and put nothing on the tape") {
  struct Row {
    const char *what;
    std::function<void(Feeder &)> bad;
  };
  auto badIssue = [](PacketKind kind, std::function<void(ring::Record &)> change) {
    return [=](Feeder &f) { f.issue(kind, 0, change); };
  };
  const Row rows[] = {
      {"unknown kind", badIssue(PacketKind(200), {})},
      {"event as operation", badIssue(PacketKind::Marker, {})},
      {"operation as event", [](Feeder &f) { f.event(PacketKind::RegisterRead, Feeder::at(0)); }},
      {"width 3", badIssue(PacketKind::RegisterRead, [](ring::Record &r) { r.space = 1, r.width = 3; })},
      {"no width", badIssue(PacketKind::RegisterRead, [](ring::Record &r) { r.space = 1; })},
      {"unknown space", badIssue(PacketKind::RegisterRead, [](ring::Record &r) { r.space = 2, r.width = 4; })},
      {"memory as register space", badIssue(PacketKind::RegisterRead, [](ring::Record &r) { r.width = 4; })},
      {"memory in a space", badIssue(PacketKind::Acquire, [](ring::Record &r) { r.space = 1; })},
      {"unopened device", badIssue(PacketKind::Reset, [](ring::Record &r) { r.device = 1; })},
      {"device out of range", badIssue(PacketKind::Reset, [](ring::Record &r) { r.device = 60000; })},
      {"no sequence", badIssue(PacketKind::Reset, [](ring::Record &r) { r.sequence = 0; })},
      {"origin 7", badIssue(PacketKind::Reset, [](ring::Record &r) { r.origin = 7; })},
      {"completion of nothing", [](Feeder &f) { f.complete(9); }},
      {"completion of another",
       [](Feeder &f) {
         f.issue(PacketKind::Reset, 0);
         f.last[0].sequence = 4711;
         f.complete(0);
       }},
      {"completion 9",
       [](Feeder &f) {
         f.issue(PacketKind::Reset, 0);
         f.complete(0, 0, Completion(9));
       }},
      {"completion of another kind",
       [](Feeder &f) {
         f.issue(PacketKind::Reset, 0);
         f.last[0].kind = uint8_t(PacketKind::RegisterRead);
         f.complete(0);
       }},
      {"descriptor of no activity",
       [](Feeder &f) {
         f.event(PacketKind::DmaDescriptor, [](ring::Record &r) {
           r.flags = TransferToDevice;
           r.link = 5;
         });
       }},
      {"descriptor without direction", [](Feeder &f) { f.event(PacketKind::DmaDescriptor); }},
      {"same payload as nothing",
       [](Feeder &f) {
         f.event(PacketKind::DmaDescriptor, [](ring::Record &r) {
           r.flags = TransferToDevice;
           r.hints = ring::SamePayload;
         });
       }},
      {"payload longer than its range",
       [](Feeder &f) {
         f.event(
             PacketKind::MemoryWrite, [](ring::Record &r) { r.length = 2; }, Feeder::bytes("three"));
       }},
      {"open without a count",
       [](Feeder &f) {
         ring::Record r = Feeder::record(ring::RecordType::DeviceOpen, PacketKind::Open);
         f.give(r, llvm::StringRef("many\0bar0\0", 10));
       }},
      {"open that ends early",
       [](Feeder &f) {
         ring::Record r = Feeder::record(ring::RecordType::DeviceOpen, PacketKind::Open);
         f.give(r, llvm::StringRef("3\0bar0\0", 7));
       }},
  };
  for (const Row &row : rows) {
    CAPTURE(row.what);
    CollectorOptions options;
    Feeder f(options, 2);
    f.open();
    row.bad(f);
    f.mark("after");
    CHECK(finished(f));
    CHECK(f.collector->report().notUnderstood == 1);
    CHECK(f.find(PacketKind::Loss).size() == 1);
    CHECK(f.find(PacketKind::Marker).size() == 1);
    CHECK(!f.collector->report().whole());
  }
}

TEST_CASE("names are UTF-8 on the tape, whatever the program sent") {
  Feeder f;
  f.open();
  f.mark("\xff\xfe bad");
  f.mark(std::string(1000, 'x'));
  REQUIRE(finished(f));
  CHECK(llvm::json::isUTF8(f.tape.text(f.tape.extras[1])));
  CHECK(f.tape.text(f.tape.extras[2]).size() == 255);
}

TEST_CASE("an operation whose completion was lost is pending when its thread goes on") {
  Feeder f;
  f.open();
  f.issue(PacketKind::RegisterRead, 0, Feeder::at(0));
  f.write(0, 1);
  REQUIRE(finished(f));
  CHECK(f.tape.packets[1].kind == PacketKind::RegisterRead);
  CHECK(f.tape.packets[1].completion == Completion::Pending);
  CHECK(f.tape.packets[2].completion == Completion::Done);
}

TEST_CASE("memory that was not captured says so; captured in part as well") {
  Feeder f;
  f.open();
  f.event(PacketKind::MemoryWrite, [](ring::Record &r) { r.length = 100; });
  f.event(PacketKind::MemoryWrite, [](ring::Record &r) { r.length = 100; }, Feeder::bytes("part"));
  f.issue(PacketKind::Acquire, 0, [](ring::Record &r) { r.length = 4; });
  f.complete(0, 0, Completion::Done, Feeder::bytes("full"));
  REQUIRE(finished(f));
  CHECK((f.tape.packets[1].flags & NotCaptured));
  CHECK((f.tape.packets[2].flags & Truncated));
  CHECK(!(f.tape.packets[3].flags & (Truncated | NotCaptured)));
  CHECK(f.tape.text(f.tape.extras[3]) == "full");
}

TEST_CASE("the operations of many threads under way cannot take more than their share of memory") {
  Feeder f;
  f.open();
  std::vector<uint8_t> big(16 << 20, 0x11);
  for (uint16_t thread = 0; thread < 40; ++thread) // 640 MiB, if all were kept.
    f.issue(PacketKind::MemoryWrite, thread, [&](ring::Record &r) { r.length = big.size(); }, big);
  REQUIRE(finished(f));
  unsigned captured = 0, dropped = 0;
  for (size_t i : f.find(PacketKind::MemoryWrite))
    ((f.tape.packets[i].flags & NotCaptured) ? dropped : captured) += 1;
  CHECK(captured == 16);
  CHECK(dropped == 24);
}

TEST_CASE("what a queue's doorbell hands over: entries, and descriptors that are theirs") {
  Feeder f({}, 1, /*queues=*/true);
  f.open();
  std::vector<uint8_t> entry(32);
  entry[0] = 1;
  auto submit = [&](uint64_t queue) {
    f.event(
        PacketKind::Submit,
        [&](ring::Record &r) {
          r.address = 0x1000;
          r.length = 32;
          r.value = queue;
        },
        entry);
  };
  submit(0);
  uint64_t descriptor = f.event(PacketKind::DmaDescriptor, [](ring::Record &r) {
    r.address = 0x2000;
    r.length = 8;
    r.count = 2;
    r.expected = 100;
    r.mask = 4;
    r.link = noLink;
    r.flags = TransferToDevice | DeviceOwned;
  });
  f.write(0x90, 1);
  f.read(0x88, 0);
  f.event(PacketKind::DmaCompletion, [&](ring::Record &r) {
    r.address = 0x2000;
    r.length = 8;
    r.link = descriptor;
    r.flags = TransferToDevice;
  });
  f.event(PacketKind::DmaCompletion, [&](ring::Record &r) {
    r.address = 0x2000;
    r.length = 8;
    r.link = descriptor;
    r.value = 1;
    r.flags = TransferFromDevice;
  });
  REQUIRE(finished(f));
  CHECK(f.collector->report().whole());
  REQUIRE(f.tape.packets.size() == 7);
  CHECK(f.tape.packets[1].kind == PacketKind::Submit);
  CHECK(f.tape.text(f.tape.extras[1]).size() == 32);
  CHECK(f.tape.extras[2].link == noLink);
  CHECK(f.tape.extras[2].count == 2);
  CHECK(f.tape.extras[2].mask == 4);
  CHECK(f.tape.packets[2].flags == (TransferToDevice | DeviceOwned)); // Nothing is missing.
  CHECK(f.tape.extras[5].link == 2);
  CHECK(f.tape.extras[6].link == 2);
  CHECK(f.tape.packets[6].flags == (TransferFromDevice | NotCaptured));
  // The entry was not seen to be done.
  REQUIRE(!f.tape.windows.empty());
  CHECK(!f.tape.windows.back().quiescent);
}

TEST_CASE("queues that the description does not have, and flags where they mean nothing") {
  Feeder f;
  f.open();
  f.event(PacketKind::Submit, [](ring::Record &r) { r.length = 32; });
  f.event(PacketKind::DmaDescriptor, [](ring::Record &r) {
    r.length = 8;
    r.link = noLink;
    r.flags = TransferFromDevice;
  });
  REQUIRE(finished(f));
  CHECK(f.collector->report().notUnderstood == 2);
  Feeder g({}, 1, /*queues=*/true);
  g.open();
  g.event(PacketKind::Submit, [](ring::Record &r) {
    r.length = 32;
    r.value = 1;
  });
  std::vector<uint8_t> byte(1);
  g.event(
      PacketKind::MemoryWrite,
      [](ring::Record &r) {
        r.length = 1;
        r.flags = DeviceOwned;
      },
      byte);
  REQUIRE(finished(g));
  CHECK(g.collector->report().notUnderstood == 1);
  CHECK(g.tape.packets.back().flags == 0);
}

TEST_CASE("the device's clock gets its place on the tape when it is first read") {
  Feeder f;
  f.open();
  for (uint64_t time : {5u, 9u}) {
    f.issue(PacketKind::ClockSample, 0, [](ring::Record &r) { r.origin = uint8_t(Origin::Recorder); });
    f.complete(0, time);
  }
  REQUIRE(finished(f));
  REQUIRE(f.tape.packets.size() == 3);
  CHECK(f.tape.packets[2].clock == 1);
  CHECK(f.tape.packets[2].value == 9);
  CHECK(f.tape.packets[2].origin == Origin::Recorder);
}
