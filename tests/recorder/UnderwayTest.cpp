// The table of operations under way against a map that does the same.
#include "recorder/Underway.h"
#include <doctest/doctest.h>
#include <map>
#include <random>

using tapeback::UnderwayTable;

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
