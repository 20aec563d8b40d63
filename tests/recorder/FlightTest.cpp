// Flight histories and live triggers, without a program: a stream of packets is given to them as the
// collector would, and what they make of it is compared with `tapeback trigger run` on the whole tape.
#include "recorder/Collector.h"
#include "recorder/flight/LiveTriggers.h"
#include "replayer/CaptureTape.h"
#include "tests/support/RunProgram.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include <doctest/doctest.h>
#include <functional>
#include <random>

using namespace tapeback;
using namespace tapeback::test;
using triggers::CaptureAmount;
using triggers::CaptureUnit;

namespace {

constexpr const char *deviceYaml = R"(
tapeback-description: 1
name: flight-device
version: "1"
spaces: [bar0]
registers:
  - {name: PLAIN, space: bar0, offset: 0x0, width: 4, reset: 0}
  - {name: OTHER, space: bar0, offset: 0x4, width: 4, reset: 0}
  - {name: CMD, space: bar0, offset: 0x8, width: 4, class: poll, reset: 0, fields: [{name: RUN, bits: 0}]}
  - {name: SRC, space: bar0, offset: 0x10, width: 8, class: address-low, policy: relocate, reset: 0}
restore:
  - {register: PLAIN}
  - {register: OTHER}
)";

/// A random stream: mostly register accesses, now and then contents, markers and windows.
class RandomStream {
public:
  RandomStream(uint64_t seed, TapeWriter &writer, PacketObserver *observer, bool inRuns)
      : random(seed), writer(writer), observer(observer), inRuns(inRuns) {
    DeviceRecord device;
    device.alias = "dut";
    device.description = deviceYaml;
    device.descriptionName = "flight-device";
    take(writer.addDevice(device));
    take(writer.addSpace("bar0"));
    if (observer) {
      observer->deviceOpened(0, 0);
      observer->spaceAdded(1, "bar0");
    }
  }

  void run(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      step();
    flushRun();
    if (observer)
      observer->ended();
    Outcome outcome;
    outcome.kind = Outcome::Kind::Passed;
    take(writer.finish(outcome));
  }
  std::string failure;

private:
  void step() {
    now += random() % 50 ? random() % 200 : random() % 20'000;
    uint64_t choice = random() % 100;
    Packet packet;
    packet.issueTime = now;
    packet.completeTime = now + random() % 50;
    if (choice < 85) {
      packet.kind = random() % 3 ? PacketKind::RegisterRead : PacketKind::RegisterWrite;
      packet.space = 1;
      packet.address = (random() % 3) * 4;
      packet.width = 4;
      packet.value = random() % 16;
      return plain(packet);
    }
    flushRun();
    if (choice < 90) {
      packet.kind = PacketKind::MemoryWrite;
      packet.address = 0x1000 + random() % 4 * 64;
      content(packet, random() % 64 + 1);
    } else if (choice < 94) {
      check(writer.endWindow(random() % 2));
      packet.kind = PacketKind::Marker;
      std::string name = "m" + std::to_string(random() % 4);
      put(packet, {}, {reinterpret_cast<const uint8_t *>(name.data()), name.size()});
    } else if (choice < 96) {
      packet.kind = PacketKind::Tick;
      packet.origin = Origin::Recorder;
      put(packet, {}, {});
    } else if (choice < 98) {
      packet.kind = PacketKind::SpanBegin;
      spans.push_back(writer.packetCount());
      put(packet, {}, {reinterpret_cast<const uint8_t *>("s"), 1});
    } else if (!spans.empty()) {
      packet.kind = PacketKind::SpanEnd;
      PacketExtra extra;
      extra.link = spans.back();
      spans.pop_back();
      put(packet, extra, {});
      check(writer.endWindow(random() % 3 != 0));
    }
  }
  void content(Packet packet, size_t size) {
    std::vector<uint8_t> bytes(size);
    for (uint8_t &byte : bytes)
      byte = uint8_t(random() % 4);
    PacketExtra extra;
    extra.length = size;
    put(packet, extra, bytes);
  }
  void plain(const Packet &packet) {
    if (!inRuns || !observer) {
      flushRun();
      return put(packet, {}, {});
    }
    const triggers::KeyFilter *filter = observer->filterOf(packet);
    if (filter && filter->passes(packet.value)) {
      flushRun();
      return put(packet, {}, {});
    }
    waiting.push_back(packet);
    if (waiting.size() > 100)
      flushRun();
  }
  void flushRun() {
    if (waiting.empty())
      return;
    uint64_t first = writer.packetCount();
    check(writer.append(llvm::ArrayRef<Packet>(waiting)));
    observer->passed(first, waiting);
    waiting.clear();
  }
  void put(const Packet &packet, PacketExtra extra, llvm::ArrayRef<uint8_t> payload) {
    if (!payload.empty())
      extra.payload = take(writer.blob(payload));
    uint64_t ordinal = writer.packetCount();
    check(writer.append(packet, extra));
    if (observer)
      observer->packet(ordinal, packet, extra, payload);
  }
  void check(llvm::Error error) {
    if (error && failure.empty())
      failure = llvm::toString(std::move(error));
    else
      llvm::consumeError(std::move(error));
  }
  template <typename T>
  T take(llvm::Expected<T> value) {
    if (value)
      return std::move(*value);
    check(value.takeError());
    return T();
  }

  std::mt19937_64 random;
  TapeWriter &writer;
  PacketObserver *observer;
  bool inRuns;
  uint64_t now = 1'000'000;
  std::vector<uint64_t> spans;
  std::vector<Packet> waiting;
};

std::string randomAmount(std::mt19937_64 &random) {
  switch (random() % 5) {
  case 0: return std::to_string(random() % 5) + " windows";
  case 1: return std::to_string(random() % 5000) + " ns";
  case 2: return std::to_string(random() % 4000) + " bytes";
  default: return std::to_string(random() % 60) + " packets";
  }
}

std::string randomProgram(uint64_t seed, unsigned devices = 1) {
  std::mt19937_64 random(seed);
  auto number = [&](uint64_t most) { return std::to_string(random() % most); };
  auto capture = [&] {
    return "capture pre " + randomAmount(random) + " post " + randomAmount(random) + "; ";
  };
  std::string text;
  uint64_t count = 1 + random() % 4;
  for (uint64_t i = 0; i < count; ++i) {
    std::string head = "trigger t" + std::to_string(i) + " {\n";
    if (devices > 1 && random() % 2)
      head += random() % 2 ? "  device 1;\n" : "  device \"other\";\n";
    if (random() % 5 == 0)
      head += "  keep access PLAIN || marker;\n";
    switch (random() % 9) {
    case 0:
      text += head + "when read PLAIN && value == " + number(16) + " count " +
              std::to_string(5 + random() % 40) + " { fire \"plain\", value; " + capture() + "} }\n";
      break;
    case 1:
      text += head + "when write CMD && CMD.RUN == 1 holdoff " + std::to_string(1000 + random() % 9000) +
              " ns { fire \"run\", packet; " + capture() + "} }\n";
      break;
    case 2:
      text += head + "when marker \"m" + number(4) + "\" count " + std::to_string(1 + random() % 3) +
              " { fire \"marker\"; " + capture() + capture() + "} }\n";
      break;
    case 3:
      text += head + "sequence write CMD && value == " + number(16) + " then not within " +
              std::to_string(100 + random() % 2000) + " ns read CMD { fire \"late\", issue; " + capture() +
              "} }\n";
      break;
    case 4:
      text += head + "when changed(OTHER) && OTHER > " + number(15) + " && previous(OTHER) < " +
              std::to_string(1 + random() % 15) + " count 7 { fire \"other\", OTHER, previous(OTHER); " +
              capture() + "} }\n";
      break;
    case 5:
      text += head + "counter n; timer t; state a { when write OTHER && value == " + number(16) +
              " { n += 1; start t; } -> b; } state b { after " + std::to_string(3 + random() % 30) +
              " packets { fire \"waited\", n, elapsed(t); " + capture() + "} -> a; when marker -> a; } }\n";
      break;
    case 6:
      text += head + "table seen[8]; always { when memory-write { seen[address] = issue; } after " +
              std::to_string(1000 + random() % 20000) + " ns of seen { fire \"old\", expired; " + capture() +
              "} } when read OTHER && value == 3 count 30 { clear seen; } }\n";
      break;
    case 7:
      text += head + "when memory-write && payload(0, 1) == " + number(4) + " rate 2 in " +
              std::to_string(20 + random() % 100) + " packets { fire \"content\", payload(0, 1), length; " +
              capture() + "} }\n";
      break;
    default:
      text += head + "when span-begin \"s\" count 2 { raise e" + std::to_string(i) + "; } when raised e" +
              std::to_string(i) + " count 2 { fire \"raised\"; " + capture() + "} }\n";
      break;
    }
  }
  return text;
}

struct Packets {
  std::vector<Packet> packets;
  std::vector<PacketExtra> extras;
  std::vector<std::string> contents;
  std::string error;
};

/// Of a capture: without the prefix and without what says what is missing in front.
Packets wantedPackets(const std::string &path) {
  Packets all;
  llvm::Expected<std::unique_ptr<TapeReader>> opened = TapeReader::open(path);
  if (!opened) {
    all.error = llvm::toString(opened.takeError());
    return all;
  }
  PacketBatch batch;
  if (llvm::Error error = (*opened)->readPackets(0, (*opened)->summary().packets, batch)) {
    all.error = llvm::toString(std::move(error));
    return all;
  }
  for (const Packet &packet : batch.packets) {
    const PacketExtra &extra = batch.extra(packet);
    bool front = all.packets.empty() && packet.kind == PacketKind::Loss;
    if ((packet.flags & Prefix) || front)
      continue;
    all.packets.push_back(packet);
    all.packets.back().extra = 0;
    all.extras.push_back(extra);
    // Numbers are of the tape they are on.
    if (linksToPacket(packet.kind))
      all.extras.back().link = extra.link == noLink ? noLink : 0;
    std::string bytes;
    if (extra.payload) {
      llvm::Expected<llvm::ArrayRef<uint8_t>> content = (*opened)->blob(extra.payload);
      if (content)
        bytes.assign(content->begin(), content->end());
      else
        all.error = llvm::toString(content.takeError());
    }
    all.contents.push_back(bytes);
  }
  return all;
}

struct LiveRun {
  std::vector<TriggerEvent> events;
  std::vector<std::string> paths; ///< By event; empty: no capture.
  FlightStatus status;
  std::string failure;
};

/// Gives a stream to a history and its triggers, until its end. Returns what went wrong.
using Feed = std::function<std::string(FlightHistory &, LiveTriggers &)>;

/// Live: a stream with a program, its captures written into a directory. The devices, as on a command line.
LiveRun runLive(const std::string &program, const std::vector<std::string> &devices, FlightOptions keeping,
                const std::string &tape, const std::string &directory, const Feed &feed) {
  LiveRun result;
  llvm::Expected<Description> description = parseDescription(deviceYaml, "flight-device");
  REQUIRE(bool(description));
  triggers::CompileOptions compiling;
  for (const std::string &alias : devices)
    compiling.devices.push_back({alias, &*description});
  triggers::Compilation compiled = triggers::compileTriggers(program, compiling);
  REQUIRE_MESSAGE(compiled.program, program);
  Manifest manifest;
  if (devices.size() > 1)
    manifest.facts["devices"] = llvm::join(devices, " ");
  llvm::Expected<std::unique_ptr<TapeWriter>> file = TapeWriter::create(tape, manifest);
  REQUIRE(bool(file));
  FlightHistory history(manifest, keeping, file->get());
  LiveTriggerOptions options;
  options.files.push_back({"test", &*compiled.program});
  options.history = &history;
  options.marks = &history;
  std::map<size_t, std::string> written;
  options.capture = [&](CaptureJob job) {
    llvm::Expected<std::unique_ptr<TapeSource>> source = TapeSource::create(std::move(job.snapshot));
    if (!source) {
      result.failure = llvm::toString(source.takeError());
      return;
    }
    CaptureRequest request;
    request.first = job.first;
    request.last = job.last;
    request.point = job.point;
    request.text = job.text;
    request.shortness = job.shortness;
    request.derivation = job.derivation;
    request.kept = job.hasKept ? &job.kept : nullptr;
    request.writer.syncOnFinish = false;
    std::string path = directory + "/live-" + job.name + ".tape";
    llvm::Expected<CaptureTape> capture = writeCaptureTape(**source, path, request);
    if (!capture)
      result.failure = llvm::toString(capture.takeError());
    written[job.event] = path;
  };
  LiveTriggers live(options);
  const std::string failure = feed(history, live);
  if (result.failure.empty())
    result.failure = failure.empty() ? live.failureText() : failure;
  result.events = live.events();
  result.paths.resize(result.events.size());
  for (const auto &[event, path] : written)
    if (event < result.paths.size())
      result.paths[event] = path;
  result.status = history.status();
  return result;
}

Feed randomStream(uint64_t seed, uint64_t count, bool inRuns) {
  return [=](FlightHistory &history, LiveTriggers &live) {
    RandomStream stream(seed, history, &live, inRuns);
    stream.run(count);
    return stream.failure;
  };
}

/// What a ring would have of two devices and three threads, given to the product's collector: accesses in
/// bulk and one by one, such as are under way while others come and go, contents, markers, silence in which
/// it ticks, and promises that time has passed. The second device of the command line is opened first.
class RandomRing {
public:
  RandomRing(uint64_t seed, FlightHistory &history, LiveTriggers &live)
      : random(seed), collector(history, {deviceOf("dut"), deviceOf("other")}, optionsOf(live)) {}

  std::string run(uint64_t count) {
    open(1);
    for (uint64_t i = 0; i < count; ++i) {
      if (i == count / 4)
        open(0);
      step();
    }
    for (uint16_t thread = 1; thread < 3; ++thread)
      complete(thread);
    llvm::Expected<TapeSummary> done = collector.finish({0, std::nullopt});
    return done ? "" : llvm::toString(done.takeError());
  }

private:
  static constexpr uint64_t tickNs = 4000;

  static CollectorDevice deviceOf(const std::string &alias) {
    CollectorDevice device;
    device.alias = alias;
    device.uri = "null:";
    device.descriptionText = deviceYaml;
    device.descriptionName = "flight-device";
    device.description = llvm::cantFail(parseDescription(deviceYaml, "flight-device"));
    return device;
  }
  static CollectorOptions optionsOf(LiveTriggers &live) {
    CollectorOptions options;
    options.observer = &live;
    options.tickIntervalNs = tickNs;
    return options;
  }

  void open(uint16_t device) {
    static constexpr char spaces[] = "1\0bar0";
    ring::Record record = {};
    record.type = ring::RecordType::DeviceOpen;
    record.device = device;
    record.sequence = ++name;
    record.time = ++now;
    give(record, llvm::StringRef(spaces, sizeof spaces));
    opened.push_back(device);
  }
  void give(ring::Record record, llvm::StringRef payload = {}) {
    record.payloadBytes = payload.size();
    collector.accept(record, {reinterpret_cast<const uint8_t *>(payload.data()), payload.size()});
  }
  uint16_t anyDevice() { return opened[random() % opened.size()]; }

  void step() {
    now += random() % 30 ? random() % 200 : random() % 20'000;
    const uint64_t choice = random() % 100;
    const uint16_t thread = uint16_t(1 + random() % 2);
    if (choice < 40)
      return accesses();
    if (choice < 75)
      return underway[thread] ? complete(thread) : issue(thread);
    if (choice < 83)
      return event(PacketKind::MemoryWrite, std::string(1 + random() % 64, char(random() % 4)));
    if (choice < 90)
      return event(PacketKind::Marker, "m" + std::to_string(random() % 4));
    if (choice < 94)
      return event(PacketKind::SpanBegin, "s");
    if (choice < 97)
      return collector.seenUntil(now);
    for (unsigned i = 0; i < 12; ++i)
      collector.idle(now += tickNs / 4);
  }
  void accesses() {
    std::vector<ring::SlotCopy> run(1 + random() % 12);
    const uint16_t device = anyDevice();
    for (ring::SlotCopy &slot : run) {
      slot = {};
      slot.issue = now += random() % 100;
      slot.complete = now += random() % 50;
      slot.kind = uint8_t(random() % 3 ? PacketKind::RegisterRead : PacketKind::RegisterWrite);
      slot.address = random() % 3 * 4;
      slot.value = random() % 16;
      slot.width = 4;
      slot.space = 1;
      slot.device = device;
    }
    collector.acceptAccesses(run, name + 1, false);
    name += run.size();
  }
  void issue(uint16_t thread) {
    ring::Record record = {};
    record.type = ring::RecordType::Issue;
    record.kind = uint8_t(random() % 3 ? PacketKind::RegisterRead : PacketKind::RegisterWrite);
    record.sequence = ++name;
    record.time = now;
    record.thread = thread;
    record.device = anyDevice();
    record.space = 1;
    record.width = 4;
    record.address = random() % 3 * 4;
    record.value = random() % 16;
    give(record);
    underway[thread] = record;
  }
  void complete(uint16_t thread) {
    if (!underway[thread])
      return;
    ring::Record record = *underway[thread];
    record.type = ring::RecordType::Complete;
    record.time = now += 1;
    record.value = random() % 16;
    give(record);
    underway[thread].reset();
  }
  void event(PacketKind kind, const std::string &payload) {
    ring::Record record = {};
    record.type = ring::RecordType::Event;
    record.kind = uint8_t(kind);
    record.sequence = ++name;
    record.time = now;
    record.device = anyDevice();
    if (kind == PacketKind::MemoryWrite) {
      record.address = 0x1000 + random() % 4 * 64;
      record.length = payload.size();
    }
    give(record, payload);
  }

  std::mt19937_64 random;
  Collector collector;
  uint64_t name = 0, now = 1'000'000;
  std::vector<uint16_t> opened;
  std::array<std::optional<ring::Record>, 3> underway;
};

/// Compares a live run with `trigger run` on its tape. Returns how many captures were equal; `shorter` counts
/// those that live had less history for, and said so.
uint64_t compareWithOffline(const std::string &program, const LiveRun &live, const std::string &tape,
                            const std::string &directory, uint64_t &shorter) {
  std::string source = directory + "/p.trig", out = directory + "/out";
  writeWholeFile(source, program);
  REQUIRE(runProgram({"/bin/mkdir", out}).exit == 0);
  RunResult run = runProgram(
      {tapebackProgram(), "trigger", "run", source, tape, "-o", out, "--limit", "100000", "--json"});
  REQUIRE_MESSAGE(run.exit == 0, run);
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(run.out);
  REQUIRE(bool(json));
  const llvm::json::Array *fired =
      (*json->getAsObject()->getArray("tapes"))[0].getAsObject()->getArray("fired");
  REQUIRE(fired);
  REQUIRE(fired->size() == live.events.size());
  uint64_t equal = 0;
  for (size_t i = 0; i < fired->size(); ++i) {
    const llvm::json::Object &offline = *(*fired)[i].getAsObject();
    const TriggerEvent &event = live.events[i];
    CAPTURE(i);
    CHECK(offline.getString("trigger") == llvm::StringRef(event.trigger));
    CHECK(offline.getString("text") == llvm::StringRef(event.text));
    CHECK(offline.getInteger("time") == int64_t(event.time));
    CHECK(offline.getInteger("packet").value_or(-1) == (event.packet ? int64_t(*event.packet) : -1));
    if (event.op != triggers::ActionOp::Capture)
      continue;
    REQUIRE_MESSAGE(event.extent, event.notDone);
    REQUIRE(event.notDone.empty());
    CHECK(offline.getInteger("last") == int64_t(event.extent->last));
    CHECK(offline.getInteger("post") == int64_t(event.extent->post));
    CHECK(offline.getBoolean("post_short") == event.extent->postShort);
    if (offline.getInteger("first") != int64_t(event.extent->first)) {
      REQUIRE(event.extent->preShort);
      REQUIRE(*offline.getInteger("first") < int64_t(event.extent->first));
      ++shorter;
      continue;
    }
    CHECK(offline.getInteger("pre") == int64_t(event.extent->pre));
    CHECK((offline.getBoolean("pre_short") == event.extent->preShort || live.status.evicted > 0));
    Packets ours = wantedPackets(live.paths[i]), theirs = wantedPackets(offline.getString("tape")->str());
    REQUIRE(ours.error.empty());
    REQUIRE(theirs.error.empty());
    REQUIRE(ours.packets.size() == theirs.packets.size());
    CHECK(ours.packets == theirs.packets);
    CHECK(ours.contents == theirs.contents);
    equal += ours.packets == theirs.packets && ours.contents == theirs.contents;
  }
  return equal;
}

} // namespace

TEST_CASE("live captures are those of trigger run: random programs, random streams, everything in memory") {
  uint64_t equal = 0, shorter = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    ScratchDirectory scratch;
    std::string program = randomProgram(seed), tape = scratch.file("t.tape");
    CAPTURE(program);
    FlightOptions keeping;
    keeping.history = {CaptureUnit::Packets, 1'000'000};
    keeping.chunkPackets = uint32_t(16 + seed * 7);
    LiveRun live =
        runLive(program, {"dut"}, keeping, tape, scratch.path(), randomStream(seed + 100, 600, seed % 2));
    REQUIRE_MESSAGE(live.failure.empty(), live.failure);
    CHECK(live.status.evicted == 0);
    equal += compareWithOffline(program, live, tape, scratch.path(), shorter);
  }
  CHECK(equal > 100);
  CHECK(shorter == 0);
}

TEST_CASE(
    "through the collector, with ticks, threads and two devices: live captures are those of trigger run") {
  uint64_t equal = 0, shorter = 0, events = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    ScratchDirectory scratch;
    std::string program = randomProgram(seed + 300, 2), tape = scratch.file("t.tape");
    CAPTURE(program);
    FlightOptions keeping;
    keeping.history = {CaptureUnit::Packets, 1'000'000};
    keeping.chunkPackets = uint32_t(16 + seed * 7);
    LiveRun live = runLive(program, {"dut", "other"}, keeping, tape, scratch.path(),
                           [&](FlightHistory &history, LiveTriggers &triggers) {
                             return RandomRing(seed + 100, history, triggers).run(400);
                           });
    REQUIRE_MESSAGE(live.failure.empty(), live.failure);
    Packets whole = wantedPackets(tape);
    CHECK(llvm::count_if(whole.packets, [](const Packet &p) { return p.kind == PacketKind::Tick; }) > 0);
    CHECK(llvm::any_of(whole.packets, [](const Packet &p) { return p.device == 1; }));
    events += live.events.size();
    equal += compareWithOffline(program, live, tape, scratch.path(), shorter);
  }
  CHECK(events > 200);
  CHECK(equal > 80);
  CHECK(shorter == 0);
}

TEST_CASE("with a history a tenth of the stream or less, captures are the same, or shorter and say so") {
  uint64_t equal = 0, shorter = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    ScratchDirectory scratch;
    std::string program = randomProgram(seed), tape = scratch.file("t.tape");
    CAPTURE(program);
    FlightOptions keeping;
    keeping.history = {CaptureUnit::Packets, 40 + seed};
    keeping.chunkPackets = 8;
    keeping.slackPackets = 1;
    keeping.prefixBytes = 4096;
    LiveRun live =
        runLive(program, {"dut"}, keeping, tape, scratch.path(), randomStream(seed + 200, 1200, seed % 2));
    REQUIRE_MESSAGE(live.failure.empty(), live.failure);
    CHECK(live.status.evicted > 700);
    equal += compareWithOffline(program, live, tape, scratch.path(), shorter);
  }
  CHECK(equal > 50);
  CHECK(shorter > 0);
}

TEST_CASE("1000 random trigger points and sizes: live captures have exactly what was asked, or say why not") {
  uint64_t exact = 0, shorts = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    uint64_t count = 20 + random() % 400, point = random() % count, pre = random() % 100,
             post = random() % 100;
    llvm::Expected<Description> description = parseDescription(deviceYaml, "flight-device");
    REQUIRE(bool(description));
    triggers::CompileOptions compiling;
    compiling.devices.push_back({"dut", &*description});
    triggers::Compilation compiled = triggers::compileTriggers(
        "trigger t { when packet == " + std::to_string(point) + " { capture pre " + std::to_string(pre) +
            " packets post " + std::to_string(post) + " packets; } }",
        compiling);
    REQUIRE(compiled.program);
    FlightOptions keeping;
    keeping.history = {CaptureUnit::Packets, 100};
    keeping.chunkPackets = uint32_t(1 + random() % 50);
    keeping.slackPackets = 1;
    FlightHistory history(Manifest(), keeping);
    LiveTriggerOptions options;
    options.files.push_back({"test", &*compiled.program});
    options.history = &history;
    options.marks = &history;
    unsigned captures = 0;
    options.capture = [&](CaptureJob job) {
      ++captures;
      uint64_t before = job.point - job.first, behind = job.last - job.point;
      PacketBatch batch;
      REQUIRE_FALSE(llvm::errorToBool(job.snapshot->readPackets(job.first, job.last - job.first + 1, batch)));
      uint64_t first = batch.packets.front().value;
      for (size_t i = 0; i < batch.packets.size(); ++i)
        REQUIRE(batch.packets[i].value == first + i);
      REQUIRE(first + before == point);
      // A history of a hundred packets has every pre there can be.
      REQUIRE(before == std::min(pre, point));
      REQUIRE(behind == std::min(post, count - 1 - point));
      bool isShort = before < pre || behind < post;
      REQUIRE((job.derivation.find("SHORT") != std::string::npos) == isShort);
      (isShort ? shorts : exact) += 1;
    };
    LiveTriggers live(options);
    DeviceRecord device;
    device.description = deviceYaml;
    REQUIRE(bool(history.addDevice(device)));
    REQUIRE(bool(history.addSpace("bar0")));
    live.deviceOpened(0, 0);
    live.spaceAdded(1, "bar0");
    for (uint64_t i = 0; i < count; ++i) {
      Packet packet;
      packet.kind = PacketKind::RegisterRead;
      packet.space = 1;
      packet.width = 4;
      packet.value = i;
      packet.issueTime = packet.completeTime = 1000 + i;
      REQUIRE_FALSE(llvm::errorToBool(history.append(packet)));
      live.packet(i, packet, {}, {});
    }
    live.ended();
    REQUIRE(captures == 1);
    REQUIRE(live.events().size() == 1);
    REQUIRE(live.events()[0].extent);
  }
  CHECK(exact > 300);
  CHECK(shorts > 200);
}

namespace {

/// What a stream's packets are to a capture, known without asking the history.
struct PlainStream {
  std::vector<uint64_t> times, bytes, windows; ///< Windows: the number of each packet's.

  /// From `first` to `last` is more than that; `used` are the bytes of it.
  bool exceeds(CaptureAmount amount, uint64_t first, uint64_t last, uint64_t used) const {
    switch (amount.unit) {
    case CaptureUnit::Packets: return last - first > amount.amount;
    case CaptureUnit::Windows: return windows[last] - windows[first] > amount.amount;
    case CaptureUnit::Bytes: return used > amount.amount;
    default: return times[last] - times[first] > amount.amount;
    }
  }
  /// The first packet of `pre`, straight from the manual: one after the other, as long as all of it holds.
  uint64_t firstOf(uint64_t point, CaptureAmount pre) const {
    uint64_t used = 0, first = point;
    for (uint64_t at = point; at-- > 0; first = at) {
      used += bytes[at];
      if (exceeds(pre, at, point, used))
        break;
    }
    return first;
  }
  uint64_t lastOf(uint64_t point, CaptureAmount post) const {
    uint64_t used = 0, last = point;
    for (uint64_t at = point + 1; at < times.size(); last = at++) {
      used += bytes[at];
      if (exceeds(post, point, at, used))
        break;
    }
    return last;
  }
};

CaptureAmount amountOf(std::mt19937_64 &random, std::string &text) {
  static constexpr struct {
    CaptureUnit unit;
    const char *name;
    uint64_t most;
  } units[] = {{CaptureUnit::Packets, " packets", 60},
               {CaptureUnit::Windows, " windows", 6},
               {CaptureUnit::Bytes, " bytes", 4000},
               {CaptureUnit::Nanoseconds, " ns", 2000}};
  const auto &unit = units[random() % 4];
  CaptureAmount amount{unit.unit, random() % unit.most};
  text += std::to_string(amount.amount) + unit.name;
  return amount;
}

} // namespace

TEST_CASE(
    "1000 random trigger points in windows, bytes and time as well: both ends are where the manual says") {
  uint64_t shorts = 0, exact = 0;
  llvm::Expected<Description> description = parseDescription(deviceYaml, "flight-device");
  REQUIRE(bool(description));
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const uint64_t count = 20 + random() % 150, point = random() % count;
    std::string text = "trigger t { when packet == " + std::to_string(point) + " { capture pre ";
    CaptureAmount pre = amountOf(random, text);
    text += " post ";
    CaptureAmount post = amountOf(random, text);
    text += "; } }";
    CAPTURE(text);
    triggers::CompileOptions compiling;
    compiling.devices.push_back({"dut", &*description});
    triggers::Compilation compiled = triggers::compileTriggers(text, compiling);
    REQUIRE(compiled.program);
    FlightOptions keeping;
    keeping.history = {CaptureUnit::Packets, 1000};
    keeping.chunkPackets = uint32_t(1 + random() % 50);
    FlightHistory history(Manifest(), keeping);
    LiveTriggerOptions options;
    options.files.push_back({"test", &*compiled.program});
    options.history = &history;
    options.marks = &history;
    std::vector<uint64_t> values;
    unsigned captures = 0;
    options.capture = [&](CaptureJob job) {
      ++captures;
      PacketBatch batch;
      REQUIRE_FALSE(llvm::errorToBool(job.snapshot->readPackets(job.first, job.last - job.first + 1, batch)));
      for (const Packet &packet : batch.packets)
        values.push_back(packet.value);
    };
    LiveTriggers live(options);
    REQUIRE(bool(history.addDevice({})));
    REQUIRE(bool(history.addSpace("bar0")));
    live.deviceOpened(0, 0);
    live.spaceAdded(1, "bar0");
    PlainStream stream;
    uint64_t time = 1000, window = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (i && random() % 12 == 0) {
        REQUIRE_FALSE(llvm::errorToBool(history.endWindow(true)));
        ++window;
      }
      Packet packet;
      PacketExtra extra;
      std::vector<uint8_t> content;
      packet.value = i;
      packet.issueTime = packet.completeTime = time += random() % 60;
      if (random() % 6) {
        packet.kind = PacketKind::RegisterRead;
        packet.space = 1;
        packet.width = 4;
      } else {
        packet.kind = PacketKind::MemoryWrite;
        content.assign(1 + random() % 300, uint8_t(i));
        extra.length = content.size();
        llvm::Expected<BlobId> id = history.blob(content);
        REQUIRE(bool(id));
        extra.payload = *id;
      }
      stream.times.push_back(time);
      stream.bytes.push_back(triggers::CaptureHistory::packetBytes + content.size());
      stream.windows.push_back(window);
      REQUIRE_FALSE(llvm::errorToBool(history.append(packet, extra)));
      live.packet(i, packet, extra, content);
    }
    live.ended();
    REQUIRE(captures == 1);
    const uint64_t first = stream.firstOf(point, pre), last = stream.lastOf(point, post);
    const triggers::CaptureExtent &extent = *live.events().at(0).extent;
    CHECK(extent.first == first);
    CHECK(extent.last == last);
    CHECK(extent.pre == point - first);
    CHECK(extent.post == last - point);
    REQUIRE(values.size() == last - first + 1);
    for (size_t i = 0; i < values.size(); ++i)
      REQUIRE(values[i] == first + i);
    // What ends inside of the stream was all that was asked for.
    if (extent.preShort)
      CHECK(first == 0);
    if (extent.postShort)
      CHECK(last == count - 1);
    (extent.preShort || extent.postShort ? shorts : exact) += 1;
  }
  CHECK(exact > 300);
  CHECK(shorts > 200);
}

TEST_CASE("an event of another process is marked with its skew, at the first packet if there was none yet") {
  llvm::Expected<Description> description = parseDescription(deviceYaml, "flight-device");
  REQUIRE(bool(description));
  triggers::CompileOptions compiling;
  compiling.devices.push_back({"dut", &*description});
  triggers::Compilation compiled =
      triggers::compileTriggers("trigger t { when raised trouble { fire \"heard\"; } }", compiling);
  REQUIRE(compiled.program);
  ScratchDirectory scratch;
  const std::string path = scratch.file("t.tape");
  llvm::Expected<std::unique_ptr<TapeWriter>> writer = TapeWriter::create(path, Manifest());
  REQUIRE(bool(writer));
  LiveTriggerOptions options;
  options.files.push_back({"test", &*compiled.program});
  options.marks = writer->get();
  LiveTriggers live(options);
  REQUIRE(bool((*writer)->addDevice({})));
  live.deviceOpened(0, 0);
  live.raised("trouble", "process 1", 1234);
  live.raised("nothing", "process 1", 99);
  Packet packet;
  packet.kind = PacketKind::Tick;
  for (uint64_t i = 0; i < 3; ++i) {
    REQUIRE_FALSE(llvm::errorToBool((*writer)->append(packet)));
    live.packet(i, packet, {}, {});
  }
  live.raised("trouble", "process 2", 77);
  live.ended();
  CHECK_FALSE(live.failed());
  REQUIRE(bool((*writer)->finish(Outcome())));
  llvm::Expected<std::unique_ptr<TapeReader>> reader = TapeReader::open(path);
  REQUIRE(bool(reader));
  llvm::Expected<std::vector<TapeReader::TriggerRecord>> marks = (*reader)->triggers();
  REQUIRE(bool(marks));
  std::vector<std::pair<uint64_t, std::string>> seen;
  for (const TapeReader::TriggerRecord &mark : *marks)
    seen.emplace_back(mark.packet, mark.text);
  const std::vector<std::pair<uint64_t, std::string>> wanted = {
      {0, "event trouble raised by process 1, 1234 ns before it was seen here"},
      {0, "t: heard"},
      {2, "event trouble raised by process 2, 77 ns before it was seen here"},
      {2, "t: heard"}};
  CHECK(seen == wanted);
}

TEST_CASE("memory is bounded, and a capture that memory ends says so") {
  FlightOptions keeping;
  keeping.history = {CaptureUnit::Packets, ~uint64_t(0) >> 1};
  keeping.memoryBytes = 1 << 20;
  keeping.prefixBytes = 1 << 18;
  keeping.chunkPackets = 256;
  FlightHistory history(Manifest(), keeping);
  llvm::Expected<Description> description = parseDescription(deviceYaml, "flight-device");
  REQUIRE(bool(description));
  triggers::CompileOptions compiling;
  compiling.devices.push_back({"dut", &*description});
  triggers::Compilation compiled = triggers::compileTriggers(
      "trigger t { when packet == 100 { capture pre 10 packets post 1000000 packets; } }", compiling);
  REQUIRE(compiled.program);
  LiveTriggerOptions options;
  options.files.push_back({"test", &*compiled.program});
  options.history = &history;
  std::string said;
  options.capture = [&](const CaptureJob &job) { said = job.derivation; };
  LiveTriggers live(options);
  DeviceRecord device;
  device.description = deviceYaml;
  REQUIRE(bool(history.addDevice(device)));
  live.deviceOpened(0, 0);
  std::mt19937_64 random(1);
  uint64_t most = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> bytes(1000);
    for (uint8_t &byte : bytes)
      byte = uint8_t(random());
    Packet packet;
    packet.kind = PacketKind::MemoryWrite;
    packet.address = i * 4096;
    packet.issueTime = packet.completeTime = i;
    PacketExtra extra;
    extra.length = bytes.size();
    llvm::Expected<BlobId> id = history.blob(bytes);
    REQUIRE(bool(id));
    extra.payload = *id;
    REQUIRE_FALSE(llvm::errorToBool(history.append(packet, extra)));
    live.packet(i, packet, extra, bytes);
    most = std::max(most, history.status().bytes);
  }
  // A chunk of contents more, at most.
  CHECK(most < (1 << 20) + 2 * 256 * 1200);
  CHECK(said.find("memory was used up") != std::string::npos);
  CHECK(history.status().evictedEarly > 0);
  CHECK(live.events().at(0).extent->postShort);
}

TEST_CASE("contents that are stored once live as long as something refers to them") {
  FlightOptions keeping;
  keeping.history = {CaptureUnit::Packets, 10};
  keeping.chunkPackets = 4;
  keeping.slackPackets = 1;
  keeping.prefixBytes = 0;
  FlightHistory history(Manifest(), keeping);
  REQUIRE(bool(history.addDevice({})));
  std::vector<uint8_t> bytes(5000, 7);
  llvm::Expected<BlobId> id = history.blob(bytes);
  REQUIRE(bool(id));
  PacketExtra extra;
  extra.length = bytes.size();
  extra.payload = *id;
  Packet packet;
  packet.kind = PacketKind::MemoryWrite;
  REQUIRE_FALSE(llvm::errorToBool(history.append(packet, extra)));
  CHECK(history.hasBlob(*id));
  for (int i = 0; i < 5; ++i)
    REQUIRE_FALSE(llvm::errorToBool(history.append(packet, extra)));
  CHECK(history.status().bytes < 2 * bytes.size());
  Packet other;
  other.kind = PacketKind::Tick;
  for (int i = 0; i < 100; ++i)
    REQUIRE_FALSE(llvm::errorToBool(history.append(other)));
  CHECK(!history.hasBlob(*id));
  CHECK(history.status().bytes < bytes.size());
  CHECK(
      llvm::errorToBool(history.append(packet, extra))); // Not known any more: it is refused, not forgotten.
}
