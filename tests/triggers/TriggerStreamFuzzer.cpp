// A program and a stream of packets, both from the input: nothing crashes, grows without bound, or comes out
// differently the second time; and carried out live, over a history of a few packets, captures are where they
// should be. The input is a program, a zero byte, and packets of 12 bytes each.
#include "recorder/flight/LiveTriggers.h"
#include "triggers/Capture.h"
#include "triggers/Observe.h"
#include <cstdlib>
#include <cstring>

using namespace tapeback;
using namespace tapeback::triggers;

static void require(bool holds) {
  if (!holds)
    std::abort();
}

static const Description &described() {
  static const Description description = [] {
    llvm::Expected<Description> parsed = parseDescription(R"(
tapeback-description: 1
name: fuzz
spaces: [bar0]
registers:
  - {name: STATUS, offset: 0, fields: [{name: BUSY, bits: 0}]}
  - {name: HEAD, offset: 4, access: ro, class: progress}
  - {name: WIDE, offset: 8, width: 8}
  - {name: BASE, offset: 16}
  - {name: SIZE, offset: 20}
  - {name: BELL, offset: 24, access: wo}
counters:
  - {name: MACS, register: HEAD, width-bits: 16, class: compute, unit: macs}
layouts:
  - name: command
    size: 16
    opcode: {offset: 0, width: 1}
    forms:
      - {name: LIST, opcode: 1, fields: [{name: first, offset: 8, width: 8, address: true}], chain: {address: first, layout: element, limit: 4}}
      - {name: FENCE, opcode: 2, fields: [{name: host, offset: 8, width: 4}, {name: small, offset: 4, signed: true}]}
  - name: element
    size: 16
    fields: [{name: next, offset: 0, width: 8, address: true}, {name: last, offset: 8, bits: 0}]
    chain: {address: next, layout: element, last: {field: last, value: 1}, limit: 4}
queues:
  - {name: q0, base: BASE, size: SIZE, head: HEAD, doorbell: BELL, layout: command}
)",
                                                          "fuzz");
    if (!parsed)
      std::abort();
    return std::move(*parsed);
  }();
  return description;
}

namespace {

struct Run {
  std::vector<Output> outputs;
  Evaluator::Shortfalls shortfalls;
};

struct FuzzedPacket {
  Packet packet;
  PacketExtra extra;
  std::vector<uint8_t> payload;
};

/// The next packet of the input, which has 12 bytes at least. `time` goes on.
FuzzedPacket packetOf(llvm::ArrayRef<uint8_t> bytes, uint64_t &time) {
  FuzzedPacket result;
  Packet &packet = result.packet;
  packet.kind = PacketKind(bytes[0]);
  packet.space = bytes[1] & 3;
  packet.width = uint8_t(1 << (bytes[1] >> 2 & 3));
  packet.device = bytes[1] >> 6 == 3;
  packet.completion = Completion(bytes[2] & 3);
  packet.flags = bytes[3];
  packet.clock = packet.kind == PacketKind::ClockSample;
  packet.address = bytes[4] & 0x1f;
  std::memcpy(&packet.value, bytes.data() + 5, 4);
  time += uint64_t(bytes[9]) << (bytes[10] & 31);
  packet.issueTime = time;
  packet.completeTime = packet.completion == Completion::Pending ? 0 : time + bytes[11];
  result.extra.length = bytes[11];
  result.extra.link = bytes[8];
  result.extra.payload = bytes[2] & 4 ? BlobId{1, 1} : BlobId{};
  result.payload.assign(bytes.begin(), bytes.begin() + 12);
  result.payload.resize(16);
  return result;
}

/// As a recording in flight mode does it: a history of fifty packets, markers and stops as they are wished
/// for.
void runLive(const Program &program, llvm::ArrayRef<uint8_t> bytes) {
  FlightOptions keeping;
  keeping.history = {CaptureUnit::Packets, 50};
  keeping.memoryBytes = 1 << 20;
  keeping.prefixBytes = 1 << 14;
  keeping.chunkPackets = 8;
  keeping.slackPackets = 1;
  FlightHistory history(Manifest(), keeping);
  DeviceRecord device;
  device.alias = "fuzz";
  for (int i = 0; i < 2; ++i)
    if (llvm::Expected<uint16_t> added = history.addDevice(device); !added)
      std::abort();
  if (llvm::Expected<uint16_t> added = history.addSpace("bar0"); !added)
    std::abort();
  uint64_t captures = 0;
  LiveTriggerOptions options;
  options.files.push_back({"fuzz", &program});
  options.history = &history;
  options.marks = &history;
  options.snapshot = [] { return uint64_t(0); };
  options.capture = [&](const CaptureJob &job) {
    require(job.first <= job.point && job.point <= job.last);
    require(job.last < job.snapshot->summary().packets);
    require(!job.hasKept || job.kept.size() == job.last - job.first + 1);
    PacketBatch batch;
    if (llvm::errorToBool(job.snapshot->readPackets(job.first, job.last - job.first + 1, batch)))
      std::abort();
    require(batch.packets.size() == job.last - job.first + 1);
    ++captures;
  };
  LiveTriggers live(options);
  live.deviceOpened(0, 0);
  live.deviceOpened(1, 1);
  live.spaceAdded(1, "bar0");
  uint64_t time = 0;
  for (unsigned i = 0; bytes.size() >= 12 && i < 500; bytes = bytes.drop_front(12), ++i) {
    FuzzedPacket next = packetOf(bytes, time);
    if (bytes[3] & 0x80)
      live.tick(time);
    if (next.extra.payload) {
      llvm::Expected<BlobId> id = history.blob(next.payload);
      if (!id)
        std::abort();
      next.extra.payload = *id;
      next.extra.length = next.payload.size();
    }
    if (next.extra.link >= history.packetCount())
      next.extra.link = noLink;
    const uint64_t ordinal = history.packetCount();
    // What cannot be on a tape is refused, as it is for a recorder.
    if (llvm::errorToBool(history.append(next.packet, next.extra)))
      continue;
    live.packet(ordinal, next.packet, next.extra,
                next.extra.payload ? llvm::ArrayRef<uint8_t>(next.payload) : llvm::ArrayRef<uint8_t>());
    if (bytes[3] & 0x40 && llvm::errorToBool(history.endWindow(bytes[3] & 0x20)))
      std::abort();
    live.takeWishes();
    if (bytes[2] & 8)
      live.raised("e", "another", 1);
  }
  live.ended();
  require(!live.failed());
  uint64_t extents = 0;
  for (const TriggerEvent &event : live.events())
    extents += event.extent.has_value();
  require(live.eventsDropped() || extents == captures);
}

Run run(const Program &program, llvm::ArrayRef<uint8_t> bytes, EvaluationObserver *observer, bool ticks) {
  Evaluator evaluator(program, {{"memory", "bar0"}, {1'000'000'000, 1'000'000}});
  evaluator.observe(observer);
  Run result;
  llvm::SmallVector<Output, 8> out;
  uint64_t time = 0, ordinal = 0;
  for (; bytes.size() >= 12 && ordinal < 2000; bytes = bytes.drop_front(12), ++ordinal) {
    FuzzedPacket next = packetOf(bytes, time);
    if (ticks)
      evaluator.tick(time, out);
    evaluator.packet(
        ordinal, next.packet, next.extra, [&](BlobId) { return llvm::ArrayRef<uint8_t>(next.payload); }, out);
    // A step has a bound: some 256 deadlines and eight rounds, each with at most the program's actions.
    require(out.size() <= 300 * (program.actions.size() + 1) * (program.triggers.size() + 1));
    if (result.outputs.size() < 100'000)
      result.outputs.insert(result.outputs.end(), out.begin(), out.end());
    out.clear();
  }
  evaluator.finish(out);
  result.outputs.insert(result.outputs.end(), out.begin(), out.end());
  result.shortfalls = evaluator.shortfalls();
  for (const Output &output : result.outputs)
    require(output.packet == noPacket || output.packet < ordinal);
  return result;
}

bool same(const Run &a, const Run &b) {
  if (a.outputs.size() != b.outputs.size())
    return false;
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (a.outputs[i].action != b.outputs[i].action || a.outputs[i].packet != b.outputs[i].packet ||
        a.outputs[i].time != b.outputs[i].time)
      return false;
  return true;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const void *zero = std::memchr(data, 0, size);
  size_t length = zero ? size_t(static_cast<const uint8_t *>(zero) - data) : size;
  // A step's cost is bounded, but a fuzzer's patience is shorter.
  if (length > 4096)
    return 0;
  CompileOptions options;
  options.devices.push_back({"", &described()});
  options.allowExec = true;
  Compilation compilation =
      compileTriggers(llvm::StringRef(reinterpret_cast<const char *>(data), length), options);
  if (!compilation.program)
    return 0;
  llvm::ArrayRef<uint8_t> packets(data + std::min(size, length + 1), data + size);
  const Program &program = *compilation.program;
  Explanation explanation;
  Coverage coverage;
  coverage.add(program);
  Run plain = run(program, packets, nullptr, false), again = run(program, packets, &explanation, false),
      ticked = run(program, packets, &coverage, true);
  require(same(plain, again));
  // Unless deadlines were so many that a step could not meet them all.
  require(same(plain, ticked) || plain.shortfalls.deadlines || ticked.shortfalls.deadlines ||
          plain.outputs.size() >= 100'000);
  runLive(program, packets);
  return 0;
}
