// From description to capture table.
#include "recorder/CaptureCompiler.h"
#include "format/Failure.h"
#include "recorder/ring/CaptureTable.h"
#include "tests/recorder/Feeder.h"
#include <cstring>
#include <doctest/doctest.h>

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
