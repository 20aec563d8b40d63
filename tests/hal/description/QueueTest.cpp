// Layouts, queues, ports and conditions that are in order come out as they were written; entries are decoded
// whatever their bytes are.
#include "hal/description/Description.h"
#include <array>
#include <doctest/doctest.h>

using namespace tapeback;

namespace {

const char *queuesAndAll = R"(
tapeback-description: 1
name: d
spaces: [bar0]
registers:
  - {name: LO, offset: 0}
  - {name: HI, offset: 4}
  - {name: SIZE, offset: 8}
  - {name: HEAD, offset: 12, access: ro}
  - {name: TAIL, offset: 16, access: ro}
  - {name: BELL, offset: 20, access: wo}
  - {name: DONE, offset: 24, access: ro}
  - {name: PORT, offset: 28}
  - {name: DATA, offset: 32, class: fifo}
windows:
  - {name: pad, base: 0x100, size: 64, port: {address: PORT, data: DATA, usable: [{register: LO, mask: 1, value: 1}, {register: HEAD, any: true}]}}
  - {name: always, size: 64, port: {address: PORT, data: DATA}}
layouts:
  - name: list # Refers to a layout that comes later, and to itself.
    size: 24
    doc: elements
    fields:
      - {name: next, offset: 0, width: 8, address: true, doc: where it goes on}
      - {name: at, offset: 8, width: 4, address: true}
      - {name: delta, offset: 12, width: 2, bits: "11:4", signed: true}
      - {name: control, offset: 14, width: 1, hex: true}
      - {name: end, offset: 15, width: 1, bits: 7}
      - {name: n, offset: 16}
      - {name: flags, offset: 20}
    transfers:
      - {when: {field: end, value: 0}, direction: from-device, host-address: at, row-bytes: n}
      - when: {field: delta, mask: 0xff, value: 0xfe}
        direction: to-device
        host-address: next
        row-bytes: n
        rows: control
        host-stride: delta
        device-address: n
        device-stride: delta
        window: pad
    fence: {address: at, value: n}
    chain: {address: next, layout: other, last: {field: end, mask: 1, value: 1}, limit: 7}
  - name: other
    size: 1
    opcode: {offset: 0, width: 1, bits: "5:2"}
    forms:
      - {name: A, opcode: 0, doc: first}
      - {name: B, opcode: 15, fields: [{name: low, offset: 0, width: 1, bits: "1:0"}]}
queues:
  - name: q
    doc: the only one
    base: LO
    base-high: HI
    size: SIZE
    head: HEAD
    tail: TAIL
    doorbell: BELL
    done: DONE
    rewind: [SIZE, LO]
    layout: other
  - {name: small, base: LO, size: SIZE, doorbell: SIZE, layout: list}
idle: [{register: HEAD, value: 0}, {register: DONE, mask: 0xf0, value: 0x10}]
resets: [{register: BELL, any: true}]
counters: [{name: c, register: HEAD, register-high: TAIL}, {name: e, register: HEAD, register-high: TAIL, width-bits: 33}]
restore: [{window: pad}]
)";

Description parseGood(llvm::StringRef yaml) {
  llvm::Expected<Description> description = parseDescription(yaml, "d.yaml");
  REQUIRE_MESSAGE(bool(description), llvm::toString(description.takeError()));
  return std::move(*description);
}

} // namespace

TEST_CASE("everything of layouts and queues comes out as it was written") {
  Description d = parseGood(queuesAndAll);
  auto name = [&](std::optional<unsigned> reg) { return d.registers.at(reg.value()).name; };
  REQUIRE(d.windows[0].port);
  CHECK(name(d.windows[0].port->address) == "PORT");
  CHECK(name(d.windows[0].port->data) == "DATA");
  REQUIRE(d.windows[0].port->usable.size() == 2);
  CHECK(name(d.windows[0].port->usable[0].reg) == "LO");
  CHECK(!d.windows[0].port->usable[0].holds(2));
  CHECK(d.windows[0].port->usable[1].holds(2));
  REQUIRE(d.windows[1].port);
  CHECK(d.windows[1].port->usable.empty());
  CHECK(d.restore.at(0).window == "pad");

  REQUIRE(d.layouts.size() == 2);
  const LayoutDescription &list = d.layouts[0];
  CHECK(list.name == "list");
  CHECK(list.doc == "elements");
  CHECK(list.size == 24);
  CHECK(!list.opcode);
  REQUIRE(list.forms.size() == 1);
  const EntryForm &form = list.forms[0];
  CHECK(form.name == "list");
  REQUIRE(form.fields.size() == 7);
  CHECK(form.fields[0].doc == "where it goes on");
  CHECK(form.find("delta") == &form.fields[2]);
  CHECK(!form.find("beta"));
  CHECK(form.fields[2].low == 4);
  CHECK(form.fields[2].high == 11);
  CHECK(form.fields[2].mask() == 0xff);
  CHECK(form.fields[0].mask() == ~uint64_t(0));
  CHECK(form.fields[5].width == 4);
  REQUIRE(form.transfers.size() == 2);
  CHECK(!form.transfers[0].toDevice);
  CHECK(form.transfers[0].when->field == 4);
  CHECK(form.transfers[0].when->holds(0));
  CHECK(!form.transfers[0].when->holds(1));
  CHECK(!form.transfers[0].rows);
  CHECK(!form.transfers[0].deviceAddress);
  CHECK(form.transfers[1].toDevice);
  CHECK(form.transfers[1].hostAddress == 0);
  CHECK(form.transfers[1].rowBytes == 5);
  CHECK(form.transfers[1].rows == 3);
  CHECK(form.transfers[1].hostStride == 2);
  CHECK(form.transfers[1].deviceAddress == 5);
  CHECK(form.transfers[1].deviceStride == 2);
  CHECK(form.transfers[1].window == "pad");
  CHECK(form.transfers[1].when->holds(uint64_t(int64_t(-2))));
  CHECK(form.fence->address == 1);
  CHECK(form.fence->value == 5);
  CHECK(form.chain->address == 0);
  CHECK(form.chain->layout == 1);
  CHECK(form.chain->last->field == 4);
  CHECK(form.chain->limit == 7);
  const LayoutDescription &other = d.layouts[1];
  CHECK(other.opcode->mask() == 0xf);
  REQUIRE(other.forms.size() == 2);
  CHECK(other.forms[0].doc == "first");
  CHECK(other.forms[1].opcode == 15);

  REQUIRE(d.queues.size() == 2);
  const QueueDescription &q = d.queues[0];
  CHECK(q.name == "q");
  CHECK(q.doc == "the only one");
  CHECK(name(q.base) == "LO");
  CHECK(name(q.baseHigh) == "HI");
  CHECK(name(q.size) == "SIZE");
  CHECK(name(q.head) == "HEAD");
  CHECK(name(q.tail) == "TAIL");
  CHECK(name(q.doorbell) == "BELL");
  CHECK(name(q.done) == "DONE");
  CHECK(q.rewind == std::vector<unsigned>{2, 0});
  CHECK(q.layout == 1);
  CHECK(!d.queues[1].baseHigh);
  CHECK(!d.queues[1].head);
  CHECK(!d.queues[1].tail);
  CHECK(!d.queues[1].done);
  CHECK(d.queues[1].rewind.empty());
  REQUIRE(d.idle.size() == 2);
  CHECK(d.idle[1].holds(0x1f));
  REQUIRE(d.resets.size() == 1);
  CHECK(d.resets[0].any);
  CHECK(d.counters[0].widthBits == 64);
  CHECK(d.counters[1].widthBits == 33);
  CHECK(name(d.counters[1].high) == "TAIL");
}

TEST_CASE("a description that says nothing of queues has none") {
  Description d = parseGood("tapeback-description: 1\nname: d\n");
  CHECK(d.layouts.empty());
  CHECK(d.queues.empty());
  CHECK(d.idle.empty());
  CHECK(d.resets.empty());
}

TEST_CASE("the default of a chain's limit, and the sizes at the bounds") {
  Description d = parseGood(
      "tapeback-description: 1\nname: d\nlayouts: [{name: l, size: 4096, fields: [{name: a, offset: 4088, "
      "width: 8, address: true}], chain: {address: a, layout: l}}]\n");
  CHECK(d.layouts[0].forms[0].chain->limit == 1024);
  CHECK(!d.layouts[0].forms[0].chain->last);
  std::vector<uint8_t> entry(4096);
  entry[4095] = 0x80;
  CHECK(formatEntry(d.layouts[0], entry) == "l a=0x8000000000000000");
}

TEST_CASE("values of entries: widths, bits and signs") {
  const uint8_t bytes[] = {0x81, 0xf2, 0x03, 0x84, 0x05, 0x06, 0x07, 0xf8};
  auto value = [&](unsigned offset, unsigned width, unsigned low, unsigned high, bool isSigned = false) {
    EntryField field;
    field.offset = offset;
    field.width = width;
    field.low = low;
    field.high = high;
    field.isSigned = isSigned;
    return entryValue(field, bytes);
  };
  CHECK(value(0, 1, 0, 7) == 0x81);
  CHECK(value(0, 1, 0, 7, true) == uint64_t(-0x7f));
  CHECK(value(0, 2, 0, 15) == 0xf281);
  CHECK(value(0, 4, 0, 31) == 0x8403f281);
  CHECK(value(0, 4, 0, 31, true) == 0xffffffff8403f281);
  CHECK(value(0, 8, 0, 63) == 0xf80706058403f281);
  CHECK(value(0, 8, 0, 63, true) == 0xf80706058403f281);
  CHECK(value(0, 2, 4, 11) == 0x28);
  CHECK(value(0, 2, 12, 15) == 0xf);
  CHECK(value(0, 2, 12, 15, true) == ~uint64_t(0));
  CHECK(value(0, 8, 63, 63) == 1);
  CHECK(value(0, 1, 0, 0, true) == ~uint64_t(0));
  CHECK(value(5, 2, 0, 15) == 0x0706);
  // Where the entry is too short, and what only code can make.
  CHECK(value(7, 2, 0, 15) == 0);
  CHECK(value(8, 1, 0, 7) == 0);
  CHECK(value(~0u, 8, 0, 63) == 0);
  CHECK(value(0, 8, 64, 64) == 0);
  CHECK(value(0, 4, 5, 3) == 0);
}

TEST_CASE("entries as text") {
  Description d = parseGood(queuesAndAll);
  const LayoutDescription &list = d.layouts[0], &other = d.layouts[1];
  std::vector<uint8_t> entry(24);
  CHECK(formatEntry(list, entry) == "list next=0x0 at=0x0 delta=0 control=0x0 n=0");
  entry[0] = 0x10;
  entry[12] = 0xef; // delta is 0xfe.
  entry[13] = 0x0f;
  entry[14] = 0xab;
  entry[15] = 0x80;
  entry[16] = 12;
  entry[20] = 3;
  CHECK(formatEntry(list, entry) == "list next=0x10 at=0x0 delta=-2 control=0xab end n=12 flags=3");
  entry.resize(30, 0xff); // What lies behind it does not matter.
  CHECK(formatEntry(list, entry) == "list next=0x10 at=0x0 delta=-2 control=0xab end n=12 flags=3");
  CHECK(formatEntry(list, {}) == "list, 0 of 24 bytes");
  const uint8_t a = 0xc3, b = 0x3e, unknown = 0x04;
  CHECK(formatEntry(other, a) == "A");
  CHECK(other.formOf(a) == &other.forms[0]);
  CHECK(formatEntry(other, b) == "B low=2");
  CHECK(formatEntry(other, unknown) == "opcode 0x1");
  CHECK(!other.formOf(unknown));
  CHECK(!other.formOf({}));
  CHECK(!LayoutDescription().formOf(b)); // No form at all: made by code.
  CHECK(formatEntry(LayoutDescription(), b) == "");
}

static const std::string completing = R"(
tapeback-description: 1
name: c
spaces: [bar0]
registers:
  - {name: BASE, offset: 0, width: 8}
  - {name: SIZES, offset: 8}
  - {name: TAIL0, offset: 12}
  - {name: TAIL1, offset: 16}
  - {name: HEAD0, offset: 20}
  - {name: HEAD1, offset: 24}
layouts:
  - name: entry
    size: 32
    tag: id
    opcode: {offset: 0, width: 1}
    fields: [{name: id, offset: 2, width: 2}, {name: a, offset: 8, width: 8, address: true}, {name: b, offset: 16, width: 8, address: true}]
    forms:
      - {name: MAKE, opcode: 1, fields: [{name: n, offset: 4, width: 2}, {name: z, offset: 6, width: 2}], creates: {kind: completion-queue, number: n, base: a, size: z, size-plus: 1}}
      - {name: QUEUE, opcode: 2, fields: [{name: n, offset: 4, width: 2}, {name: z, offset: 6, width: 2}], creates: {kind: queue, number: n, base: a, size: z}}
      - {name: GONE, opcode: 3, fields: [{name: n, offset: 4, width: 2}], deletes: {kind: queue, number: n}}
      - name: GET
        opcode: 4
        fields: [{name: blocks, offset: 4, width: 2}]
        transfers: [{direction: from-device, host-address: a, row-bytes: blocks, plus: 1, times: 512, pages: {second: b, size: 4096}, content: log}]
  - {name: log, size: 16, fields: [{name: reads, offset: 0, width: 8, policy: ignore}, {name: kind, offset: 8, policy: compare}]}
  - name: answer
    size: 16
    fields:
      - {name: head, offset: 8, width: 2, policy: ignore}
      - {name: queue, offset: 10, width: 2}
      - {name: id, offset: 12, width: 2}
      - {name: phase, offset: 14, width: 2, bits: 0}
      - {name: status, offset: 14, width: 2, bits: "15:1"}
    completes: {queue: queue, tag: id, phase: phase, success: {field: status, value: 0}}
queues:
  - {name: q0, number: 0, base: BASE, size: SIZES, size-bits: "11:0", size-plus: 1, doorbell: TAIL0, layout: entry}
  - {name: q1, number: 1, doorbell: TAIL1, layout: entry}
completion-queues:
  - {name: c0, number: 0, base: BASE, size: SIZES, size-bits: "27:16", size-plus: 1, doorbell: HEAD0, layout: answer}
  - {name: c1, number: 1, doorbell: HEAD1, layout: answer}
counters:
  - {name: READS, layout: log, field: reads, exact: false}
)";

TEST_CASE("completions, queues that commands create, pages, and counters in what a transfer brings") {
  Description d = parseGood(completing);
  REQUIRE(d.completionQueues.size() == 2);
  CHECK(d.completionLayout() == &d.layouts[2]);
  CHECK(d.queues[0].entriesOf(0x00ff0007) == 8);
  CHECK(d.completionQueues[0].entriesOf(0x00ff0007) == 256);
  CHECK(!d.queues[1].base);
  CHECK(d.queues[1].number == 1u);
  const LayoutDescription::Completes &completes = *d.completionLayout()->completes;
  CHECK(completes.tag.offset == 12);
  CHECK(completes.phase.low == 0);
  REQUIRE(completes.success);
  CHECK(completes.success->holds(0));
  CHECK(!completes.success->holds(0x80));
  const std::vector<EntryForm> &forms = d.layouts[0].forms;
  CHECK(d.layouts[0].tag->offset == 2);
  CHECK(forms[0].creates->completions);
  CHECK(forms[0].creates->sizePlus == 1);
  CHECK(!forms[1].creates->completions);
  CHECK(!forms[2].deletes->completions);
  const EntryTransfer &get = forms[3].transfers[0];
  CHECK(get.plus == 1);
  CHECK(get.times == 512);
  REQUIRE(get.pages);
  CHECK(get.pages->size == 4096);
  CHECK(get.content == 1u);
  CHECK(d.layouts[1].forms[0].fields[0].ignored);
  CHECK(!d.layouts[1].forms[0].fields[1].ignored);
  REQUIRE(d.counters[0].content);
  CHECK(d.counters[0].content->layout == 1);
}

TEST_CASE("what contradicts itself in completions and pages is refused") {
  // What is replaced by what, and a word of the complaint.
  const std::vector<std::array<std::string, 3>> cases = {
      {"size: 4096}", "size: 4095}", "power of two"},
      {"times: 512", "times: 0", "times is between"},
      {"row-bytes: blocks, plus: 1, times: 512", "times: 2", "how much is moved"},
      {"second: b", "second: blocks", "used as a host address"},
      {"content: log", "content: nothing", "no layout is named"},
      {"tag: id\n    opcode", "opcode", "number and an entry by its layout's tag"},
      {"number: 1, doorbell: TAIL1", "doorbell: TAIL1", "has a number"},
      {"number: 1, doorbell: TAIL1", "number: 0, doorbell: TAIL1", "second queue with this number"},
      {"creates: {kind: queue, number: n, base: a, size: z}", "doc: nothing", "form that `creates` it"},
      {"phase: phase, success", "phase: status, success", "a phase is one bit"},
      {"doorbell: HEAD1, layout: answer", "doorbell: HEAD1, layout: log", "say what an entry `completes`"},
      {"base: BASE, size: SIZES, size-bits: \"11:0\"", "size: SIZES, size-bits: \"11:0\"",
       "both base and size"},
      {"size-bits: \"11:0\"", "size-bits: \"40:0\"", "do not lie in a size register"},
      {"policy: ignore}, {name: kind", "policy: sometimes}, {name: kind", "unknown policy of a field"},
      {"{name: READS, layout: log, field: reads", "{name: READS, layout: log", "counter is in a register"},
      {"kind: completion-queue", "kind: ring", "unknown kind of ring"},
  };
  for (const auto &[from, to, complaint] : cases) {
    std::string text = completing;
    size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, from);
    text.replace(at, from.size(), to);
    llvm::Expected<Description> parsed = parseDescription(text, "test");
    REQUIRE_MESSAGE(!parsed, from);
    std::string message = llvm::toString(parsed.takeError());
    CHECK_MESSAGE(message.find(complaint) != std::string::npos, complaint << ": " << message);
  }
}
