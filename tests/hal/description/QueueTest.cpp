// Layouts, queues, ports and conditions that are in order come out as they were written; entries are decoded
// whatever their bytes are.
#include "hal/description/Description.h"
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
