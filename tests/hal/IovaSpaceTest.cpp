#include "hal/IovaSpace.h"
#include "tests/hal/Targets.h"
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

MapRequest want(uint64_t size, std::optional<uint64_t> iova = std::nullopt, uint64_t alignment = 4096) {
  MapRequest request;
  request.size = size;
  request.iova = iova;
  request.alignment = alignment;
  return request;
}

} // namespace

TEST_CASE("addresses are handed out first fit, in whole pages, and again after unmap") {
  IovaSpace space(0x10000, 0x100000, 0x100000);
  IovaSpace::Region a = must(space.map(want(1))), b = must(space.map(want(4097))),
                    c = must(space.map(want(4096)));
  CHECK(a.iova == 0x10000);
  CHECK(a.size == 0x1000);
  CHECK(b.iova == 0x11000);
  CHECK(b.size == 0x2000);
  CHECK(c.iova == 0x13000);
  CHECK(must(space.unmap(b.iova)) == b);
  CHECK(must(space.map(want(0x3000))).iova == 0x14000);
  CHECK(must(space.map(want(0x1000))).iova == 0x11000);
  CHECK(must(space.map(want(0x1000, std::nullopt, 0x8000))).iova == 0x18000);
}

TEST_CASE("a wish is granted exactly or refused") {
  IovaSpace space(0x10000, 0x100000, 0x100000);
  CHECK(must(space.map(want(0x2000, 0x20000))).iova == 0x20000);
  CHECK(must(space.map(want(0x1000, 0))).iova == 0); // Below the first address handed out unasked: allowed.
  for (uint64_t iova : {0x20000, 0x21000, 0x1f000, 0xff000, 0x100000, 0x20800})
    CHECK(failure(space.map(want(0x2000, iova))).code == "iova-unavailable");
  CHECK(failure(space.map(want(0x1000, ~uint64_t(0) - 0xfff))).code == "iova-unavailable");
  CHECK(must(space.map(want(0x2000, 0x22000))).iova == 0x22000);
  CHECK(must(space.map(want(0x1000, 0x1f000))).iova == 0x1f000);
}

TEST_CASE("what cannot be is refused") {
  IovaSpace space(0x10000, 0x100000, 0x4000);
  CHECK(failure(space.map(want(0))).code == "bad-map-request");
  CHECK(failure(space.map(want(1, std::nullopt, 3))).code == "bad-map-request");
  CHECK(failure(space.map(want(1, std::nullopt, 0))).code == "bad-map-request");
  CHECK(failure(space.map(want(0x5000))).code == "no-device-memory");
  CHECK(failure(space.map(want(~uint64_t(0)))).code == "no-device-memory");
  must(space.map(want(0x3000)));
  CHECK(failure(space.map(want(0x2000))).code == "no-device-memory"); // The store is full, addresses are not.
  CHECK(failure(space.unmap(0x11000)).code == "unmapped-memory");     // Not a region's start.
}

TEST_CASE("a range is found in its region only") {
  IovaSpace space(0x10000, 0x100000, 0x100000);
  IovaSpace::Region a = must(space.map(want(0x1000))), b = must(space.map(want(0x1000)));
  CHECK(space.offsetOf(a.iova + 4, 8) == a.offset + 4);
  CHECK(space.offsetOf(a.iova, 0x1000) == a.offset);
  CHECK(!space.offsetOf(a.iova, 0x1001));
  CHECK(!space.offsetOf(a.iova + 1, ~uint64_t(0)));
  CHECK(!space.offsetOf(b.iova + 0x1000, 1));
  CHECK(failure(space.requireOffset(0, 1)).code == "unmapped-memory");
}

TEST_CASE("against a byte-by-byte model, with random requests") {
  constexpr uint64_t first = 16, pages = 64, storePages = 48;
  IovaSpace space(first * 4096, pages * 4096, storePages * 4096);
  std::mt19937_64 random(7);
  std::map<uint64_t, IovaSpace::Region> regions;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 3 && !regions.empty()) {
      auto victim = std::next(regions.begin(), long(random() % regions.size()));
      CHECK(must(space.unmap(victim->first)) == victim->second);
      regions.erase(victim);
      continue;
    }
    uint64_t size = (1 + random() % 6) * 4096;
    std::optional<uint64_t> iova;
    if (random() % 2)
      iova = random() % (pages + 4) * 4096;
    // What a first fit over pages gives.
    std::vector<bool> used(pages + 16), stored(storePages);
    for (auto &[at, region] : regions)
      for (uint64_t p = 0; p < region.size / 4096; ++p)
        used[at / 4096 + p] = stored[region.offset / 4096 + p] = true;
    auto fits = [&](std::vector<bool> &map, uint64_t at, uint64_t end) {
      for (uint64_t p = 0; p < size / 4096; ++p)
        if (at + p >= end || map[at + p])
          return false;
      return true;
    };
    std::optional<uint64_t> place, offset;
    for (uint64_t p = iova ? *iova / 4096 : first; p < pages && !place; ++p) {
      if (fits(used, p, pages))
        place = p * 4096;
      if (iova)
        break;
    }
    for (uint64_t p = 0; p < storePages && !offset; ++p)
      if (fits(stored, p, storePages))
        offset = p * 4096;
    llvm::Expected<IovaSpace::Region> got = space.map(want(size, iova));
    REQUIRE(bool(got) == (place && offset));
    if (!got) {
      llvm::consumeError(got.takeError()); // The reason is tested elsewhere.
      continue;
    }
    REQUIRE(got->iova == *place);
    REQUIRE(got->offset == *offset);
    regions[got->iova] = *got;
  }
  CHECK(space.regions().size() == regions.size());
}

TEST_CASE("a region is put back exactly where it was, or not at all") {
  IovaSpace space(0x10000, 0x100000, 0x10000);
  IovaSpace::Region a = must(space.map(want(0x2000))), b = must(space.map(want(0x1000)));
  must(space.unmap(a.iova));
  CHECK(!space.place({b.iova, 0x1000, 0x8000}));    // Address taken.
  CHECK(!space.place({0x50000, 0x1000, b.offset})); // Store taken.
  CHECK(!space.place({0x50000, 0x4000, 0x1000}));   // Store taken further on.
  CHECK(!space.place({0x50000, 0x1000, 0x10000}));  // Beyond the store.
  CHECK(!space.place({0x50001, 0x1000, 0x8000}));   // Not a page.
  CHECK(!space.place({0x50000, 0, 0x8000}));
  CHECK(space.place(a));
  CHECK(!space.place(a));
  CHECK(space.regions() == std::vector<IovaSpace::Region>{a, b});
}
