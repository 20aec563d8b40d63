// A program and a stream of packets, both from the input: nothing crashes, grows without bound, or comes out
// differently the second time. The input is a program, a zero byte, and packets of 12 bytes each.
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

Run run(const Program &program, llvm::ArrayRef<uint8_t> bytes, EvaluationObserver *observer, bool ticks) {
  Evaluator evaluator(program, {{"memory", "bar0"}, {1'000'000'000, 1'000'000}});
  evaluator.observe(observer);
  Run result;
  llvm::SmallVector<Output, 8> out;
  uint64_t time = 0, ordinal = 0;
  for (; bytes.size() >= 12 && ordinal < 2000; bytes = bytes.drop_front(12), ++ordinal) {
    Packet packet;
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
    PacketExtra extra;
    extra.length = bytes[11];
    extra.link = bytes[8];
    extra.payload = bytes[2] & 4 ? BlobId{1, 1} : BlobId{};
    std::vector<uint8_t> payload(bytes.begin(), bytes.begin() + 12);
    payload.resize(16);
    if (ticks)
      evaluator.tick(time, out);
    evaluator.packet(ordinal, packet, extra, [&](BlobId) { return llvm::ArrayRef<uint8_t>(payload); }, out);
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
  return 0;
}
