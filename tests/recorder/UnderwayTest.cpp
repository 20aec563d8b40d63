// The tables of what is under way and of recent ordinals, against maps that do the same.
#include "recorder/Underway.h"
#include "recorder/OrdinalTable.h"
#include <doctest/doctest.h>
#include <map>
#include <random>

using namespace tapeback;

TEST_CASE("operations under way are found by thread, whatever came and went in between") {
  UnderwayTable<uint64_t> table;
  std::map<uint16_t, uint64_t> model;
  std::mt19937_64 random(1);
  for (uint64_t step = 1; step <= 200'000; ++step) {
    uint16_t thread = uint16_t(random() % (step % 1000 < 500 ? 3 : 65536));
    if (model.count(thread)) {
      REQUIRE(table.find(thread));
      REQUIRE(*table.find(thread) == model[thread]);
      if (random() % 2) {
        REQUIRE(table.take(thread) == model[thread]);
        model.erase(thread);
      }
    } else {
      REQUIRE(!table.find(thread));
      table.add(thread, step);
      model[thread] = step;
    }
    REQUIRE(table.size() == model.size());
    REQUIRE(table.empty() == model.empty());
  }
  CHECK(model.size() > 1000);
  std::vector<uint64_t> all = table.takeAll();
  CHECK(all.size() == model.size());
  CHECK(table.empty());
  for (auto [thread, value] : model)
    CHECK(!table.find(thread));
}

TEST_CASE(
    "the table of ordinals: what is recent is found, what is long ago is forgotten or right, never wrong") {
  OrdinalTable table;
  std::map<uint64_t, uint64_t> all;
  std::vector<uint64_t> names;
  std::mt19937_64 random(7);
  // Two lanes; a name is a position in one, and payloads lie between.
  uint64_t heads[2] = {0, 0}, wrong = 0, lost = 0;
  for (uint64_t ordinal = 0; ordinal < 200'000; ++ordinal) {
    const unsigned lane = random() % 2;
    heads[lane] += 1 + random() % 5;
    const uint64_t name = (uint64_t(lane) << 48) + heads[lane];
    Packet packet;
    packet.address = ordinal;
    table.add(name, ordinal, packet, /*lasting=*/ordinal == 3);
    all[name] = ordinal;
    names.push_back(name);
    // A thousand back is recent whatever the payloads; any other may be gone.
    const std::optional<uint64_t> near = table.find(names[ordinal < 1000 ? 0 : ordinal - 1000]);
    lost += !near && ordinal >= 1000;
    const uint64_t any = names[random() % names.size()];
    const std::optional<uint64_t> found = table.find(any);
    wrong += found && *found != all[any];
  }
  CHECK(wrong == 0);
  CHECK(lost < 200); // Two lanes may have names for one place: a thousandth of them.
  CHECK(table.find(names.back()) == 199'999);
  CHECK(table.findOrdinal(199'990)->address == 199'990);
  CHECK(!table.findOrdinal(10));
  CHECK(!table.find(names[10]));
  CHECK(table.find(names[3]) == 3); // Lasting.
  table.erase(names[3]);
  CHECK(!table.find(names[3]));
  // The same name again is its new ordinal.
  table.add(names.back(), 200'000, Packet(), false);
  CHECK(table.find(names.back()) == 200'000);
}
