// From description to capture table.
#include "recorder/CaptureCompiler.h"
#include "format/Failure.h"
#include "recorder/ring/CaptureTable.h"
#include "tests/recorder/Feeder.h"
#include <cstring>
#include <doctest/doctest.h>
#include <random>

using namespace tapeback;
using namespace tapeback::test;

static const capture::Table *tableOf(const std::vector<uint8_t> &bytes) {
  // vector's storage is aligned for any fundamental type.
  return reinterpret_cast<const capture::Table *>(bytes.data());
}

TEST_CASE("a description becomes a valid table that says what to follow") {
  CollectorDevice engine = copyEngine("a");
  REQUIRE(engine.description);
  llvm::Expected<std::vector<uint8_t>> bytes =
      compileCaptureTable({{"a", "null:", &*engine.description}, {"b", "model:x", nullptr}});
  REQUIRE(bool(bytes));
  const capture::Table *table = tableOf(*bytes);
  REQUIRE(capture::validTable(table, bytes->size()));
  REQUIRE(table->devices.count == 2);
  const auto *devices = capture::elements<capture::Device>(table, table->devices);
  CHECK(std::string(devices[0].alias) == "a");
  CHECK(std::string(devices[1].uri) == "model:x");
  CHECK(devices[0].registers.count == 4); // PLAIN is not part of an activity.
  CHECK(devices[1].registers.count == 0);
  const auto *registers = capture::elements<capture::Register>(table, table->registers);
  for (uint32_t i = 1; i < devices[0].registers.count; ++i)
    CHECK(registers[i - 1].offset < registers[i].offset);
  const auto *transfers = capture::elements<capture::Transfer>(table, table->transfers);
  REQUIRE(table->transfers.count == 2);
  CHECK(registers[transfers[0].host].offset == 0x80);
  CHECK(registers[transfers[1].host].offset == 0x88);
  CHECK(transfers[0].toDevice);
  CHECK(!transfers[1].toDevice);
  CHECK(transfers[0].hostHigh == capture::none); // DST is behind SRC, and no half of it.
}

TEST_CASE("queues, layouts and roles of registers become a valid table, and no byte of it leads outside") {
  CollectorDevice engine = copyEngine("a"), queued = queueEngine("b"), again = queueEngine("c");
  REQUIRE(queued.description);
  llvm::Expected<std::vector<uint8_t>> bytes = compileCaptureTable({{"a", "null:", &*engine.description},
                                                                    {"b", "null:", &*queued.description},
                                                                    {"c", "null:", &*again.description}},
                                                                   {false, true, 5});
  REQUIRE(bool(bytes));
  const capture::Table *table = tableOf(*bytes);
  REQUIRE(capture::validTable(table, bytes->size()));
  CHECK(table->evidence == capture::AtFences);
  CHECK(table->evidencePeriodNs == 5);
  const auto *devices = capture::elements<capture::Device>(table, table->devices);
  CHECK(devices[0].queues.count == 0);
  CHECK(devices[1].queues.count == 1);
  CHECK(devices[2].queues.first == 1);
  CHECK(devices[2].registers.count == 5);
  const auto *queues = capture::elements<capture::Queue>(table, table->queues);
  const auto *registers = capture::elements<capture::Register>(table, table->registers);
  const auto *layouts = capture::elements<capture::Layout>(table, table->layouts);
  const auto *forms = capture::elements<capture::Form>(table, table->forms);
  CHECK(queues[1].layout == 1); // Each device's own.
  CHECK(registers[queues[1].doorbell].offset == 0x90);
  CHECK(queues[1].place.baseHigh == capture::none);
  CHECK(registers[queues[1].place.size].roles.count == 2); // It is read, and it rewinds.
  CHECK(registers[queues[1].doorbell].resets.count == 1);
  CHECK(layouts[1].forms.count == 4);
  const capture::Form &move = forms[layouts[1].forms.first + 1];
  CHECK(move.transfers.count == 2);
  const auto *transfers = capture::elements<capture::EntryTransfer>(table, table->entryTransfers);
  CHECK(transfers[move.transfers.first].when.field.bits == 8);
  CHECK(!transfers[move.transfers.first].rows.present());
  CHECK(transfers[move.transfers.first].host.width == 8);
  const capture::Form &list = forms[layouts[1].forms.first + 3];
  CHECK(list.chainLayout == 1);
  CHECK(list.chainLimit == 9);
  CHECK(!list.last.field.present());

  std::mt19937 random(2);
  std::vector<uint64_t> words((bytes->size() + 7) / 8);
  auto valid = [&](llvm::ArrayRef<uint8_t> image) {
    std::memcpy(words.data(), image.data(), image.size());
    return capture::validTable(reinterpret_cast<const capture::Table *>(words.data()), image.size());
  };
  // Everything but the long texts: what must not be believed.
  size_t from = table->spaces.offset;
  unsigned accepted = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> broken = *bytes;
    size_t at = i % 2 ? random() % sizeof(capture::Table) : from + random() % (broken.size() - from);
    broken[at] = uint8_t(random());
    (valid(broken) ? accepted : refused) += 1; // ASan watches what it reads.
  }
  CHECK(accepted > 100);
  CHECK(refused > 100);
  // And what it must refuse.
  auto refuses = [&](auto change) {
    std::vector<uint8_t> broken = *bytes;
    change(reinterpret_cast<capture::Table *>(broken.data()), broken.data());
    return !valid(broken);
  };
  CHECK(refuses([](capture::Table *t, uint8_t *b) {
    reinterpret_cast<capture::Queue *>(b + t->queues.offset)->place.base = t->registers.count;
  }));
  CHECK(refuses([](capture::Table *t, uint8_t *b) {
    reinterpret_cast<capture::Queue *>(b + t->queues.offset)->head = t->registers.count;
  }));
  CHECK(refuses([](capture::Table *t, uint8_t *b) {
    reinterpret_cast<capture::Queue *>(b + t->queues.offset)->layout = t->layouts.count;
  }));
  CHECK(refuses([](capture::Table *t, uint8_t *b) {
    reinterpret_cast<capture::Layout *>(b + t->layouts.offset)->size = 4097;
  }));
  CHECK(refuses([](capture::Table *t, uint8_t *b) {
    reinterpret_cast<capture::Layout *>(b + t->layouts.offset)->size = 16; // Its fields do not fit any more.
  }));
  CHECK(refuses([](capture::Table *t, uint8_t *b) {
    reinterpret_cast<capture::Form *>(b + t->forms.offset)[3].chainLayout = t->layouts.count;
  }));
  CHECK(refuses([](capture::Table *t, uint8_t *b) {
    reinterpret_cast<capture::EntryTransfer *>(b + t->entryTransfers.offset)->host.offset = 25;
  }));
  CHECK(refuses([](capture::Table *t, uint8_t *b) {
    reinterpret_cast<capture::EntryTransfer *>(b + t->entryTransfers.offset)->host.bits = 65;
  }));
  CHECK(refuses([](capture::Table *t, uint8_t *b) {
    reinterpret_cast<capture::Role *>(b + t->roles.offset)->queue = t->queues.count;
  }));
}

TEST_CASE("completions, created queues, pages and counters in contents become a valid table") {
  constexpr const char *text = R"(
tapeback-description: 1
name: c
spaces: [bar0]
registers:
  - {name: BASE, offset: 0, width: 8}
  - {name: SIZE, offset: 8}
  - {name: TAIL, offset: 12}
  - {name: TAIL1, offset: 16}
  - {name: HEAD, offset: 20}
layouts:
  - name: entry
    size: 32
    tag: id
    opcode: {offset: 0, width: 1}
    fields: [{name: id, offset: 2, width: 2}, {name: a, offset: 8, width: 8, address: true}, {name: b, offset: 16, width: 8, address: true}]
    forms:
      - {name: MAKE, opcode: 1, fields: [{name: n, offset: 4, width: 2}], creates: {kind: queue, number: n, base: a, size: n, size-plus: 1}}
      - {name: GONE, opcode: 2, fields: [{name: n, offset: 4, width: 2}], deletes: {kind: queue, number: n}}
      - {name: GET, opcode: 3, transfers: [{direction: from-device, host-address: a, plus: 64, pages: {second: b, size: 4096}, content: log}]}
  - {name: log, size: 16, fields: [{name: reads, offset: 8, width: 8, policy: ignore}]}
  - name: answer
    size: 16
    fields: [{name: queue, offset: 8, width: 2}, {name: id, offset: 12, width: 2}, {name: phase, offset: 14, width: 2, bits: 0}]
    completes: {queue: queue, tag: id, phase: phase}
queues:
  - {name: q0, number: 0, base: BASE, size: SIZE, size-bits: "11:0", size-plus: 1, doorbell: TAIL, layout: entry}
  - {name: q1, number: 1, doorbell: TAIL1, layout: entry}
completion-queues: [{name: c0, number: 0, base: BASE, size: SIZE, size-bits: "27:16", doorbell: HEAD, layout: answer}]
counters: [{name: READS, layout: log, field: reads}]
)";
  llvm::Expected<Description> description = parseDescription(text, "test");
  REQUIRE(bool(description));
  llvm::Expected<std::vector<uint8_t>> bytes = compileCaptureTable({{"a", "null:", &*description}});
  REQUIRE(bool(bytes));
  const capture::Table *table = tableOf(*bytes);
  REQUIRE(capture::validTable(table, bytes->size()));
  const auto *queues = capture::elements<capture::Queue>(table, table->queues);
  CHECK(queues[0].place.sizeBits == 12);
  CHECK(queues[0].place.sizePlus == 1);
  CHECK(queues[1].place.base == capture::none);
  CHECK(queues[1].place.number == 1);
  REQUIRE(table->rings.count == 1);
  const auto *ring = capture::elements<capture::Completions>(table, table->rings);
  CHECK(ring->place.sizeLow == 16);
  CHECK(ring->phase.bits == 1);
  REQUIRE(table->contentCounters.count == 1);
  CHECK(capture::elements<capture::ContentCounter>(table, table->contentCounters)->field.offset == 8);
  const auto *get = capture::elements<capture::EntryTransfer>(table, table->entryTransfers);
  CHECK(get->pageBytes == 4096);
  CHECK(!get->rowBytes.present());
  auto refuses = [&](auto change) {
    std::vector<uint64_t> broken((bytes->size() + 7) / 8);
    std::memcpy(broken.data(), bytes->data(), bytes->size());
    auto *image = reinterpret_cast<uint8_t *>(broken.data());
    auto *table = reinterpret_cast<capture::Table *>(image);
    change(table, image);
    return !capture::validTable(table, bytes->size());
  };
  using Table = capture::Table;
  auto ringOf = [](Table *t, uint8_t *b) {
    return reinterpret_cast<capture::Completions *>(b + t->rings.offset);
  };
  CHECK(!refuses([](Table *, uint8_t *) {}));
  CHECK(refuses([&](Table *t, uint8_t *b) { ringOf(t, b)->bytes = 4097; }));
  CHECK(refuses([&](Table *t, uint8_t *b) { ringOf(t, b)->bytes = 8; })); // Its fields do not fit any more.
  CHECK(refuses([&](Table *t, uint8_t *b) { ringOf(t, b)->phase.width = 0; }));
  CHECK(refuses([&](Table *t, uint8_t *b) { ringOf(t, b)->place.sizeBits = 65; }));
  CHECK(refuses([&](Table *t, uint8_t *b) { ringOf(t, b)->place.size = capture::none; }));
  CHECK(refuses([&](Table *t, uint8_t *b) { ringOf(t, b)->doorbell = t->registers.count; }));
  CHECK(refuses([](Table *t, uint8_t *b) {
    reinterpret_cast<capture::EntryTransfer *>(b + t->entryTransfers.offset)->pageBytes = 4095;
  }));
  CHECK(refuses([](Table *t, uint8_t *b) {
    reinterpret_cast<capture::EntryTransfer *>(b + t->entryTransfers.offset)->content = t->layouts.count;
  }));
  CHECK(refuses([](Table *t, uint8_t *b) {
    reinterpret_cast<capture::ContentCounter *>(b + t->contentCounters.offset)->field.offset = 9;
  }));
  CHECK(refuses([](Table *t, uint8_t *b) {
    reinterpret_cast<capture::Form *>(b + t->forms.offset)->createsBase.width = 0;
  }));
}

TEST_CASE("what does not fit is refused") {
  auto codeOf = [](llvm::ArrayRef<CaptureSource> sources) -> std::string {
    llvm::Expected<std::vector<uint8_t>> table = compileCaptureTable(sources);
    return table ? "" : toFailure(table.takeError()).code;
  };
  CHECK(codeOf({{"a", "null:", nullptr}}) == "");
  CHECK(codeOf({{"", "null:", nullptr}}) == "bad-alias");
  CHECK(codeOf({{std::string(64, 'a'), "null:", nullptr}}) == "bad-alias");
  CHECK(codeOf({{"a", "null:", nullptr}, {"a", "null:", nullptr}}) == "bad-alias");
  CHECK(codeOf({{"a", std::string(5000, 'u'), nullptr}}) == "bad-target");
  std::vector<CaptureSource> many;
  for (int i = 0; i < 17; ++i)
    many.push_back({"d" + std::to_string(i), "null:", nullptr});
  CHECK(codeOf(many) == "too-many-devices");
}
