// The statistics of `record --ab`: they must find a difference that is there, and none that is not.
#include "recorder/Perturbation.h"
#include "recorder/ring/GapTable.h"
#include <doctest/doctest.h>
#include <random>

using namespace tapeback;

namespace {

PerturbationRun perturbedRun(double seconds, double gap, bool failed = false) {
  PerturbationRun run;
  run.failed = failed;
  run.seconds = seconds;
  run.gaps = 100;
  run.p50 = gap;
  run.p99 = gap * 10;
  return run;
}

} // namespace

TEST_CASE("a run twice as long with recording on is found, and its interval does not reach 1") {
  std::mt19937 random(3);
  Perturbation result;
  for (int i = 0; i < 10; ++i) {
    double noise = 1 + double(random() % 100) / 1000;
    result.pairs.push_back({perturbedRun(1, 100), perturbedRun(2 * noise, 150 * noise, i < 4)});
  }
  estimate(result);
  CHECK(result.timeRatio.value > 1.9);
  CHECK(result.timeRatio.low > 1.5);
  CHECK(result.timeRatio.high < 2.5);
  REQUIRE(result.p50Shift);
  CHECK(result.p50Shift->low > 40);
  CHECK(result.p50Ratio->low > 1.4);
  CHECK(result.p99Shift->value > 400);
  CHECK(result.offFailures.value == 0);
  CHECK(result.offFailures.high == doctest::Approx(0.2775).epsilon(0.01)); // Wilson, 0 of 10.
  CHECK(result.onFailures.value == doctest::Approx(0.4));
  CHECK(result.onFailures.low > result.offFailures.value);
}

TEST_CASE("where recording changes nothing the interval holds 1, however uneven the runs are") {
  std::mt19937 random(4);
  Perturbation result;
  for (int i = 0; i < 20; ++i) {
    auto noisy = [&] { return 1 + double(random() % 1000) / 1000; };
    result.pairs.push_back({perturbedRun(noisy(), 100), perturbedRun(noisy(), 100)});
  }
  estimate(result);
  CHECK(result.timeRatio.low < 1);
  CHECK(result.timeRatio.high > 1);
  CHECK(result.p50Shift->low == 0);
  CHECK(result.p50Shift->high == 0);
}

TEST_CASE("without gaps in every run nothing is said about gaps") {
  Perturbation result;
  for (int i = 0; i < 3; ++i)
    result.pairs.push_back({perturbedRun(1, 100), perturbedRun(1, 100)});
  result.pairs[1].on.p50.reset();
  result.pairs[1].on.p99.reset();
  estimate(result);
  CHECK(!result.p50Ratio);
  CHECK(!result.p99Shift);
  CHECK(result.timeRatio.value == 1);
}

TEST_CASE("percentiles of gaps are right to a bucket, and every duration has one") {
  using ring::GapTable;
  uint64_t before = 0;
  for (unsigned bucket = 1; bucket < GapTable::buckets; ++bucket) {
    CHECK(GapTable::leastOf(bucket) > before);
    before = GapTable::leastOf(bucket);
    CHECK(GapTable::bucketOf(before) == bucket);
    CHECK(GapTable::bucketOf(before - 1) == bucket - 1);
  }
  std::vector<uint64_t> counts(GapTable::buckets);
  CHECK(!gapPercentile(counts, 0.5));
  for (uint64_t ns = 1; ns <= 10000; ++ns)
    ++counts[GapTable::bucketOf(ns)];
  CHECK(*gapPercentile(counts, 0.5) == doctest::Approx(5000).epsilon(0.03));
  CHECK(*gapPercentile(counts, 0.99) == doctest::Approx(9900).epsilon(0.05));
  ++counts[GapTable::buckets - 1];
  CHECK(*gapPercentile(counts, 1) >= double(GapTable::leastOf(GapTable::buckets - 1)));
}
