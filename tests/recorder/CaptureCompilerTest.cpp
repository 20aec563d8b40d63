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
