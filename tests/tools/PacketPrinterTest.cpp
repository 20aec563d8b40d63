// Packets as text and JSON: whatever is on the tape, what is printed is valid and harmless.
#include "tools/PacketPrinter.h"
#include "tests/tools/FakeReader.h"
#include "llvm/Support/JSON.h"
#include <doctest/doctest.h>
#include <random>

using namespace llvm;
using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr const char *npu = R"(tapeback-description: 1
name: npu
spaces: [bar0]
registers:
  - name: CONTROL
    space: bar0
    offset: 0x10
    width: 8
    fields:
      - {name: LOW, bits: "3:0"}
      - {name: HIGH, bits: "39:34"}
      - {name: SPLIT, bits: "33:30"}
counters:
  - {name: cycles, register: CONTROL, unit: cycle, class: compute}
)";

FakeReader sample(const char *description = npu) {
  FakeReader tape;
  DeviceRecord device;
  device.alias = "npu";
  device.description = description;
  device.descriptionName = "npu.yaml";
  tape.deviceTable.push_back(device);
  tape.spaceTable.push_back("bar0");
  return tape;
}

std::string text(PacketPrinter &printer, const Packet &packet, const PacketExtra &extra = {}) {
  std::string result;
  raw_string_ostream os(result);
  if (Error error = printer.writeText(os, 7, 3, packet, extra))
    return "error: " + toFailure(std::move(error)).message;
  return result;
}

json::Object object(PacketPrinter &printer, const Packet &packet, const PacketExtra &extra = {}) {
  std::string line;
  raw_string_ostream os(line);
  Error error = printer.writeJsonLine(os, 7, 3, packet, extra);
  REQUIRE(!error);
  CHECK(StringRef(line).count('\n') == 1);
  Expected<json::Value> value = json::parse(line);
  REQUIRE_MESSAGE(bool(value), line);
  return *value->getAsObject();
}

Packet access(uint64_t address, uint8_t width, uint64_t value) {
  Packet packet;
  packet.kind = PacketKind::RegisterRead;
  packet.space = 1;
  packet.address = address;
  packet.width = width;
  packet.value = value;
  return packet;
}

} // namespace

TEST_CASE("text from a tape is made harmless") {
  CHECK(quoteUntrusted("plain ü") == "\"plain ü\"");
  CHECK(quoteUntrusted("a\"b\\c") == "\"a\\\"b\\\\c\"");
  CHECK(quoteUntrusted(StringRef("\x1b[31m\n\0\x7f", 8)) == "\"\\x1b[31m\\x0a\\x00\\x7f\"");
  CHECK(quoteUntrusted("\xff\xfe") == "\"\xef\xbf\xbd\xef\xbf\xbd\"");
  // C1 controls are control characters, too, though they are good UTF-8.
  CHECK(quoteUntrusted("\xc2\x9b") == "\"\\x9b\"");
  CHECK(quoteUntrusted("") == "\"\"");
}

TEST_CASE("fields are shown where the access saw all their bits") {
  FakeReader tape = sample();
  PacketPrinter printer(tape);
  CHECK(StringRef(text(printer, access(0x10, 8, 0x12ffffffff4)))
            .contains("CONTROL (bar0+0x10) -> 0x12ffffffff4 LOW=0x4 HIGH=0xb SPLIT=0xf"));
  // The lower and the upper half: SPLIT lies across.
  CHECK(StringRef(text(printer, access(0x10, 4, 0x5))).contains("CONTROL[0:4] (bar0+0x10) -> 0x5 LOW=0x5\n"));
  CHECK(StringRef(text(printer, access(0x14, 4, 0x77)))
            .contains("CONTROL[4:4] (bar0+0x14) -> 0x77 HIGH=0x1d\n"));
  json::Object upper = object(printer, access(0x14, 4, 0x77));
  CHECK(upper.getString("register") == "CONTROL");
  CHECK(upper.getObject("fields")->size() == 1);
  CHECK(upper.getObject("fields")->getString("HIGH") == "0x1d");
  // Nowhere near a register.
  CHECK(object(printer, access(0x100, 4, 1)).get("register") == nullptr);
  Packet counter;
  counter.kind = PacketKind::CounterSnapshot;
  counter.value = 12;
  CHECK(StringRef(text(printer, counter)).contains("cycles = 12"));
  CHECK(object(printer, counter).getString("counter") == "cycles");
  CHECK(printer.takeWarnings().empty());
}

TEST_CASE("a description that cannot be used is said once, and the packets are shown all the same") {
  FakeReader tape = sample("nonsense: [");
  PacketPrinter printer(tape);
  CHECK(StringRef(text(printer, access(0x10, 4, 1))).contains("bar0+0x10 -> 0x1"));
  text(printer, access(0x10, 4, 1));
  std::vector<std::string> warnings = printer.takeWarnings();
  REQUIRE(warnings.size() == 1);
  CHECK(StringRef(warnings[0]).contains("device 0"));
}

TEST_CASE("what an operation did not do is not shown as if it had") {
  FakeReader tape = sample();
  PacketPrinter printer(tape);
  Packet packet = access(0x10, 8, 0);
  packet.completion = Completion::Pending;
  CHECK(StringRef(text(printer, packet)).contains("CONTROL (bar0+0x10) [pending]"));
  CHECK(object(printer, packet).get("complete")->kind() == json::Value::Null);
  packet.completion = Completion::TimedOut;
  packet.origin = Origin::Recorder;
  packet.flags = Concurrent | NotCaptured;
  CHECK(StringRef(text(printer, packet)).contains("[timed-out] [recorder] [concurrent] [not-captured]"));
  json::Object shown = object(printer, packet);
  CHECK(shown.getString("completion") == "timed-out");
  CHECK(shown.getString("origin") == "recorder");
  CHECK(shown.getArray("flags")->size() == 2);
}

namespace {

constexpr const char *engine = R"(tapeback-description: 1
name: engine
spaces: [bar0]
registers:
  - {name: BASE, offset: 0, width: 8}
  - {name: SIZE, offset: 8}
  - {name: BELL, offset: 12, access: wo}
layouts:
  - name: command
    size: 16
    opcode: {offset: 0, width: 1}
    fields: [{name: tag, offset: 2, width: 2}]
    forms:
      - name: COPY
        opcode: 5
        fields:
          - {name: host, offset: 8, width: 8, address: true}
          - {name: bytes, offset: 4, width: 2}
          - {name: bias, offset: 6, width: 1, signed: true}
          - {name: last, offset: 1, width: 1, bits: 3}
queues:
  - {name: q0, base: BASE, size: SIZE, doorbell: BELL, layout: command}
)";

struct Submitted {
  Packet packet;
  PacketExtra extra;
};
Submitted submit(FakeReader &tape, std::vector<uint8_t> entry, uint64_t queue = 0) {
  Submitted s;
  s.packet.kind = PacketKind::Submit;
  s.packet.address = 0x7000;
  s.packet.value = queue;
  s.extra.length = entry.size();
  s.extra.count = 12;
  s.extra.payload = tape.blobOf(std::move(entry));
  return s;
}

} // namespace

TEST_CASE("commands are shown by name, with their operands") {
  FakeReader tape = sample(engine);
  PacketPrinter printer(tape);
  std::vector<uint8_t> copy = {5, 8, 0, 0, 0x34, 0x12, 0xfe, 0, 0, 0, 0, 0x80, 1, 0, 0, 0};
  Submitted s = submit(tape, copy);
  CHECK(StringRef(text(printer, s.packet, s.extra))
            .contains("submit         q0 #12 COPY host=0x180000000 bytes=4660 bias=-2 last at 0x7000\n"));
  json::Object shown = object(printer, s.packet, s.extra);
  CHECK(shown.getInteger("queue") == 0);
  CHECK(shown.getString("queue_name") == "q0");
  CHECK(shown.getInteger("index") == 12);
  CHECK(shown.getString("command") == "COPY");
  CHECK(shown.getString("text") == "COPY host=0x180000000 bytes=4660 bias=-2 last");
  CHECK(shown.getObject("operands")->getString("host") == "0x180000000");
  CHECK(shown.getObject("operands")->getInteger("bytes") == 4660);
  CHECK(shown.getObject("operands")->getInteger("bias") == -2);
  CHECK(shown.getObject("operands")->getInteger("tag") == 0);
  CHECK(shown.getString("payload"));
  // Without contents a command still has its name, and with all of them it has its bytes, too.
  PacketPrinter none(tape, PacketPrinter::Payload::None), whole(tape, PacketPrinter::Payload::Whole);
  CHECK(StringRef(text(none, s.packet, s.extra)).contains("q0 #12 COPY"));
  CHECK(object(none, s.packet, s.extra).getString("command") == "COPY");
  CHECK(!object(none, s.packet, s.extra).getString("payload"));
  CHECK(StringRef(text(whole, s.packet, s.extra)).contains("at 0x7000\n        000000007000  05 08 00"));

  // An unknown opcode, too few bytes, a queue that is not there, no payload, no description.
  s = submit(tape, std::vector<uint8_t>(16, 7));
  CHECK(StringRef(text(printer, s.packet, s.extra)).contains("q0 #12 opcode 0x7 at 0x7000"));
  CHECK(object(printer, s.packet, s.extra).get("command")->kind() == json::Value::Null);
  s = submit(tape, {5, 0});
  CHECK(StringRef(text(printer, s.packet, s.extra)).contains("q0 #12 command, 2 of 16 bytes at 0x7000"));
  s = submit(tape, copy, ~uint64_t(0));
  CHECK(StringRef(text(printer, s.packet, s.extra))
            .contains("queue 18446744073709551615 #12: 0x7000, 16 bytes |05080000"));
  CHECK(!object(printer, s.packet, s.extra).getString("queue_name"));
  s.packet.value = 0;
  s.extra.payload = {};
  CHECK(StringRef(text(printer, s.packet, s.extra)).contains("q0 #12: 0x7000, 16 bytes\n"));
  CHECK(!object(printer, s.packet, s.extra).get("operands"));
  FakeReader undescribed = sample("");
  PacketPrinter plain(undescribed);
  s = submit(undescribed, copy);
  CHECK(StringRef(text(plain, s.packet, s.extra)).contains("queue 0 #12: 0x7000, 16 bytes |05080000"));
}

TEST_CASE("elements of a list are shown as what the commands before them lead to") {
  FakeReader tape = sample(R"(tapeback-description: 1
name: engine
spaces: [bar0]
registers: [{name: R, offset: 0}, {name: S, offset: 4}]
layouts:
  - name: command
    size: 8
    fields: [{name: first, offset: 0, width: 8, address: true}]
    chain: {address: first, layout: element}
  - name: element
    size: 16
    fields: [{name: next, offset: 0, width: 8, address: true}, {name: last, offset: 8, bits: 0}, {name: n, offset: 12}]
    chain: {address: next, layout: element, last: {field: last, value: 1}}
queues: [{name: q0, base: R, size: R, doorbell: S, layout: command}]
)");
  auto element = [&](uint64_t address, std::vector<uint8_t> content) {
    Submitted s;
    s.packet.kind = PacketKind::MemoryWrite;
    s.packet.address = address;
    s.extra.length = content.size();
    s.extra.payload = tape.blobOf(std::move(content));
    return s;
  };
  Submitted start = submit(tape, {0x40, 0, 0, 0, 0, 0, 0, 0});
  Submitted first = element(0x40, {0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0});
  Submitted last = element(0x80, {0x40, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0});
  Submitted data = element(0x80, {1, 2, 3});
  for (auto mode : {PacketPrinter::Payload::None, PacketPrinter::Payload::Preview}) {
    PacketPrinter printer(tape, mode);
    CHECK(!StringRef(text(printer, first.packet, first.extra)).contains("element")); // Nothing leads there.
    CHECK(StringRef(text(printer, start.packet, start.extra))
              .contains("q0 #12 command first=0x40 at 0x7000\n"));
    CHECK(!StringRef(text(printer, last.packet, last.extra)).contains("element"));
    CHECK(StringRef(text(printer, first.packet, first.extra))
              .contains("0x40, 16 bytes: element next=0x80 n=7\n"));
    CHECK(!StringRef(text(printer, data.packet, data.extra)).contains("element")); // Not an element's size.
    json::Object shown = object(printer, last.packet, last.extra);
    CHECK(shown.getString("command") == "element");
    CHECK(shown.getObject("operands")->getInteger("n") == 9);
    CHECK(!StringRef(text(printer, first.packet, first.extra)).contains("element")); // The list has ended.
  }
}

TEST_CASE("transfers in rows are shown as rows") {
  FakeReader tape = sample(engine);
  PacketPrinter printer(tape), whole(tape, PacketPrinter::Payload::Whole);
  Packet packet;
  packet.kind = PacketKind::DmaDescriptor;
  packet.flags = TransferToDevice | DeviceOwned;
  packet.address = 0x1000;
  packet.value = 0x40;
  PacketExtra extra;
  extra.length = 6;
  extra.count = 2;
  extra.expected = 256;
  CHECK(StringRef(text(printer, packet, extra))
            .contains("to device 0x40 from 0x1000, 6 bytes in 2 rows 256 apart [device-owned]"));
  json::Object shown = object(printer, packet, extra);
  CHECK(shown.getInteger("rows") == 2);
  CHECK(shown.getInteger("row_bytes") == 3);
  CHECK(shown.getInteger("host_stride") == 256);
  CHECK(shown.getInteger("device_stride") == 0);
  CHECK(shown.get("activity")->kind() == json::Value::Null);
  extra.mask = 72;
  CHECK(StringRef(text(printer, packet, extra)).contains("in 2 rows 256 apart (72 in the device) ["));
  CHECK(object(printer, packet, extra).getInteger("device_stride") == 72);
  extra.payload = tape.blobOf({1, 2, 3, 4, 5, 6});
  std::string lines = text(whole, packet, extra);
  CHECK(StringRef(lines).contains("000000001000  01 02 03 "));
  CHECK(StringRef(lines).contains("000000001100  04 05 06 "));
  // Rows that do not divide the length are no rows.
  extra.length = 7;
  CHECK(StringRef(text(printer, packet, extra)).contains("0x1000, 7 bytes [device-owned]")); // And no stride.
  CHECK(object(printer, packet, extra).getInteger("rows") == 1);

  packet.kind = PacketKind::DmaCompletion;
  packet.flags = TransferFromDevice;
  packet.value = 1;
  extra = PacketExtra();
  extra.length = 8;
  extra.link = 5;
  CHECK(StringRef(text(printer, packet, extra)).contains("of p5, once more: 0x1000, 8 bytes\n"));
  CHECK(object(printer, packet, extra).getBoolean("again") == true);
  packet.value = 0;
  CHECK(StringRef(text(printer, packet, extra)).contains("of p5: 0x1000, 8 bytes\n"));
  CHECK(object(printer, packet, extra).getBoolean("again") == false);
}

TEST_CASE("a sample of another clock has its own time in the host's") {
  FakeReader tape = sample();
  tape.clockTable.push_back({"device", 25000000});
  PacketPrinter printer(tape);
  Packet packet;
  packet.clock = 1;
  packet.issueTime = packet.completeTime = 1500;
  packet.value = 77;
  packet.kind = PacketKind::ClockSample;
  CHECK(StringRef(text(printer, packet)).contains("+0.000001500s t0 clock-sample   \"device\" = 77"));
  CHECK(object(printer, packet).getInteger("issue") == 1500);
  CHECK(object(printer, packet).getString("clock") == "device");
  packet.kind = PacketKind::Tick; // Anything else is stamped by its clock: 25 MHz.
  CHECK(StringRef(text(printer, packet)).contains(" 0.000060000s t0 tick"));
  CHECK(object(printer, packet).getInteger("issue") == 60000);
}

TEST_CASE("a payload that is missing is the tape's fault, and no half line is written") {
  FakeReader tape = sample();
  PacketPrinter printer(tape);
  Packet packet;
  packet.kind = PacketKind::MemoryWrite;
  PacketExtra extra;
  extra.length = 8;
  extra.payload = {5, 5};
  std::string line;
  raw_string_ostream os(line);
  Error error = printer.writeJsonLine(os, 0, 0, packet, extra);
  REQUIRE(bool(error));
  CHECK(toFailure(std::move(error)).cls == FailureClass::Tape);
  CHECK(line.empty());
  PacketPrinter without(tape, PacketPrinter::Payload::None);
  CHECK(StringRef(text(without, packet, extra)).contains("8 bytes"));
}

TEST_CASE("payloads in JSON are bounded") {
  FakeReader tape = sample();
  PacketPrinter printer(tape, PacketPrinter::Payload::Whole);
  Packet packet;
  packet.kind = PacketKind::MemoryWrite;
  PacketExtra extra;
  extra.length = PacketPrinter::maxJsonPayload + 1;
  extra.payload = tape.blobOf(std::vector<uint8_t>(extra.length, 7));
  json::Object shown = object(printer, packet, extra);
  CHECK(shown.getString("payload")->size() == 2 * PacketPrinter::maxJsonPayload);
  CHECK(shown.getBoolean("payload_truncated") == true);
}

TEST_CASE("any packet at all gives one line of text and one valid object") {
  FakeReader tape = sample();
  tape.clockTable.push_back({"\xff device", 0});
  tape.clockTable.push_back({"tsc", 3});
  BlobId name = tape.blobOf({0xff, 0x1b, '"', '\n'});
  std::mt19937_64 random(2026);
  auto sometimes = [&](uint64_t value) { return random() % 2 ? value : random(); };
  for (auto mode : {PacketPrinter::Payload::None, PacketPrinter::Payload::Preview}) {
    PacketPrinter printer(tape, mode);
    for (int i = 0; i < 20000; ++i) {
      Packet packet;
      packet.kind = PacketKind(random() % (i % 2 ? packetKindCount : 256));
      packet.issueTime = random();
      packet.completeTime = random();
      packet.address = sometimes(0x10);
      packet.value = random();
      packet.device = uint16_t(sometimes(0));
      packet.thread = uint16_t(random());
      packet.space = uint16_t(sometimes(1));
      packet.width = uint8_t(sometimes(4));
      packet.clock = uint8_t(random() % 4);
      packet.origin = Origin(random());
      packet.completion = Completion(random());
      packet.flags = uint8_t(random());
      PacketExtra extra;
      if (random() % 2)
        extra = {random(), random(), random(), random(), random(), random(), random() % 2 ? name : BlobId()};
      std::string line = text(printer, packet, extra);
      CHECK(StringRef(line).count('\n') == 1);
      CHECK(json::isUTF8(line));
      for (char c : line)
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n')
          FAIL_CHECK(line);
      json::Object shown = object(printer, packet, extra);
      CHECK(shown.getInteger("packet") == 7);
      CHECK(shown.getString("kind").has_value());
    }
  }
}
