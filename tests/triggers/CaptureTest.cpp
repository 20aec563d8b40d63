// Captures have exactly what was asked for, or say why not.
#include "triggers/Capture.h"
#include "tests/triggers/Stream.h"
#include "triggers/Observe.h"
#include <random>

using namespace llvm;
using namespace tapeback;
using namespace tapeback::test;
using namespace tapeback::triggers;

namespace {

/// Packets of random times, sizes and windows.
struct RandomHistory : CaptureHistory {
  explicit RandomHistory(uint64_t seed) {
    std::mt19937_64 random(seed);
    uint64_t count = 1 + random() % 300, time = 1000;
    for (uint64_t i = 0; i < count; ++i) {
      time += random() % 20;
      all.push_back({time, packetBytes + random() % 200, random() % 4 != 0});
      if (i == 0 || random() % 10 == 0)
        windows.push_back(i);
    }
    oldest = random() % 3 ? 0 : random() % count;
  }
  uint64_t first() const override { return oldest; }
  uint64_t end() const override { return all.size(); }
  Expected<Facts> facts(uint64_t packet) override { return all[packet]; }
  Expected<Window> windowOf(uint64_t packet) override {
    auto next = std::upper_bound(windows.begin(), windows.end(), packet);
    return Window{*std::prev(next), next == windows.end() ? end() : *next};
  }
  std::vector<Facts> all;
  std::vector<uint64_t> windows;
  uint64_t oldest = 0;
};

} // namespace

TEST_CASE(
    "1000 random points and sizes: exactly the asked packets, or the word that there were not so many") {
  unsigned exact = 0, shorts = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    RandomHistory history(seed);
    std::mt19937_64 random(seed + 5000);
    uint64_t point = history.oldest + random() % (history.end() - history.oldest);
    CaptureAmount pre = {CaptureUnit::Packets, random() % 80}, post = {CaptureUnit::Packets, random() % 80};
    Expected<CaptureExtent> extent = resolveCapture(history, point, history.all[point].time, pre, post);
    REQUIRE(bool(extent));
    CAPTURE(seed);
    uint64_t before = 0, behind = 0, allBefore = 0, allBehind = 0;
    for (uint64_t i = history.oldest; i < history.end(); ++i) {
      (i < point ? allBefore : allBehind) += i != point && history.all[i].kept;
      if (i >= extent->first && i <= extent->last && i != point)
        (i < point ? before : behind) += history.all[i].kept;
    }
    REQUIRE(before == extent->pre);
    REQUIRE(behind == extent->post);
    REQUIRE(before == std::min(pre.amount, allBefore));
    REQUIRE(behind == std::min(post.amount, allBehind));
    REQUIRE(extent->preShort == (allBefore < pre.amount));
    REQUIRE(extent->postShort == (allBehind < post.amount));
    (extent->preShort || extent->postShort ? shorts : exact) += 1;
  }
  CHECK(exact > 250);
  CHECK(shorts > 300);
}

TEST_CASE("time, bytes and windows") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomHistory history(seed);
    history.oldest = 0;
    for (CaptureHistory::Facts &facts : history.all)
      facts.kept = true;
    std::mt19937_64 random(seed + 9000);
    uint64_t point = random() % history.end(), time = history.all[point].time;
    CAPTURE(seed);
    CaptureAmount within = {CaptureUnit::Nanoseconds, random() % 400};
    Expected<CaptureExtent> timed = resolveCapture(history, point, time, within, within);
    REQUIRE(bool(timed));
    for (uint64_t i = 0; i < history.end(); ++i) {
      uint64_t at = history.all[i].time;
      bool wanted = at + within.amount >= time && at <= time + within.amount;
      REQUIRE(wanted == (i >= timed->first && i <= timed->last));
    }
    CaptureAmount room = {CaptureUnit::Bytes, random() % 3000};
    Expected<CaptureExtent> sized = resolveCapture(history, point, time, room, room);
    REQUIRE(bool(sized));
    uint64_t used = 0;
    for (uint64_t i = sized->first; i < point; ++i)
      used += history.all[i].bytes;
    REQUIRE(used <= room.amount);
    REQUIRE((sized->first == 0 || used + history.all[sized->first - 1].bytes > room.amount));
    CaptureAmount windows = {CaptureUnit::Windows, random() % 4};
    Expected<CaptureExtent> whole = resolveCapture(history, point, time, windows, windows);
    REQUIRE(bool(whole));
    auto at =
        std::upper_bound(history.windows.begin(), history.windows.end(), point) - history.windows.begin() - 1;
    uint64_t from = uint64_t(at) > windows.amount ? uint64_t(at) - windows.amount : 0;
    uint64_t to = uint64_t(at) + windows.amount + 1;
    REQUIRE(whole->first == history.windows[from]);
    REQUIRE(whole->last == (to < history.windows.size() ? history.windows[to] : history.end()) - 1);
    REQUIRE(whole->preShort == (uint64_t(at) < windows.amount));
  }
}

TEST_CASE("an explanation names the predicate that failed and its values; coverage counts both ways") {
  Program program = compiled(R"(trigger t {
    state a { when read STATUS && value == 3 && Q0_SIZE > 4 { fire "x"; } -> b; }
    state b { when read ERR_CODE count 2 { fire "y"; } -> a; }
  })");
  Explanation explanation;
  Coverage coverage;
  coverage.add(program);
  CHECK(coverage.states().size() == 2);
  CHECK(coverage.rules().size() == 2);
  CHECK(coverage.predicates().size() == 4);
  Stream s(program), t(program);
  s.evaluator.observe(&explanation);
  t.evaluator.observe(&coverage);
  auto why = [&](uint64_t offset, uint64_t value) {
    s.read(offset, value);
    t.read(offset, value);
    std::vector<RuleExplanation> rules = explanation.takeRules();
    return rules.size() == 1 ? rules[0].fired ? "fired" : rules[0].why
                             : std::to_string(rules.size()) + " rules";
  };
  CHECK(why(0x20, 0) == "read STATUS");
  CHECK(why(0x10, 1) == "value == 3 (value is 0x1)");
  CHECK(why(0x10, 3) == "Q0_SIZE > 4 (Q0_SIZE is unknown)");
  CHECK(why(0x108, 16) == "0 rules"); // No rule waits for it; it is remembered.
  CHECK(why(0x10, 3) == "fired");
  CHECK(why(0x20, 0) == "its count has not been reached");
  CHECK(explanation.takeEntries().size() == 2);
  for (const auto &[where, counts] : coverage.states())
    CHECK(counts.yes == 1);
  std::map<std::string, std::pair<uint64_t, uint64_t>> seen;
  for (const auto &[where, counts] : coverage.predicates())
    seen[counts.text] = {counts.yes, counts.no};
  CHECK(seen["read STATUS"] == std::pair<uint64_t, uint64_t>{3, 1});
  CHECK(seen["value == 3"] == std::pair<uint64_t, uint64_t>{2, 1});
  CHECK(seen["Q0_SIZE > 4"] == std::pair<uint64_t, uint64_t>{1, 1});
}
