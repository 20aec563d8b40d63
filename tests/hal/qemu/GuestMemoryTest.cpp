#include "hal/qemu/GuestMemory.h"
#include "tests/hal/qemu/EduDriver.h"
#include <cstring>
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t ram = 32u << 20, mask = 0x0fffffff, page = GuestMemory::pageSize;

MapRequest at(uint64_t iova, uint64_t size) {
  MapRequest request;
  request.iova = iova;
  request.size = size;
  return request;
}

MapRequest anywhere(uint64_t size, uint64_t alignment = page) {
  MapRequest request;
  request.size = size;
  request.alignment = alignment;
  return request;
}

} // namespace

TEST_CASE("guest memory is handed out from 16 MiB up, in pages, aligned, zero") {
  auto memory = must(GuestMemory::create(ram, mask));
  MemoryRegion first = must(memory->map(anywhere(1)));
  CHECK(first.iova == 0x1000000);
  CHECK(first.size == page);
  MemoryRegion second = must(memory->map(anywhere(page + 1, 65536)));
  CHECK(second.iova == 0x1010000);
  CHECK(second.size == 2 * page);
  MemoryRegion third = must(memory->map(anywhere(page)));
  CHECK(third.iova == 0x1001000);
  std::memset(second.host, 0xab, second.size);
  must(memory->unmap(second.iova));
  MemoryRegion again = must(memory->map(at(second.iova, second.size)));
  CHECK(again.host == second.host);
  for (uint64_t i = 0; i < again.size; ++i)
    REQUIRE(again.host[i] == 0);
}

TEST_CASE("a chosen address is honoured exactly or refused with what is free") {
  auto memory = must(GuestMemory::create(ram, mask));
  CHECK(must(memory->map(at(0, page))).iova == 0);
  CHECK(must(memory->map(at(0x100000, 0x700000))).iova == 0x100000);
  CHECK(must(memory->map(at(0x1234000, 3 * page))).iova == 0x1234000);
  CHECK(must(memory->map(at(0x1237000, page))).iova == 0x1237000);
  CHECK(must(memory->map(at(ram - page, page))).iova == ram - page);
  struct {
    uint64_t iova, size;
  } refused[] = {{0x1235000, page},
                 {0x1233000, 2 * page},
                 {0x1233000, 64 * page},
                 {0x1236000, 2 * page},
                 {0x1234000, 1},
                 {GuestMemory::interruptPage, page},
                 {GuestMemory::interruptPage - page, 2 * page},
                 {0xa0000, page},
                 {0xff000, page},
                 {ram, page},
                 {ram - page, 2 * page},
                 {0x1400001, page},
                 {0x1400800, page},
                 {~uint64_t(0) - page + 1, page},
                 {0x1400000, uint64_t(1) << 63}};
  for (auto [iova, size] : refused) {
    CAPTURE(iova);
    CAPTURE(size);
    Failure failure = failureOf(memory->map(at(iova, size)));
    CHECK(failure.code == "iova-unavailable");
    CHECK(failure.cls == FailureClass::Usage);
  }
  Failure failure = failureOf(memory->map(at(0x1235000, page)));
  CHECK(failure.hint == "free are 0x1000–0x9efff, 0x800000–0x1233fff, 0x1238000–0x1ffefff");
}

TEST_CASE("requests that make no sense are refused") {
  auto memory = must(GuestMemory::create(ram, mask));
  CHECK(failureOf(memory->map(anywhere(0))).code == "bad-map-request");
  CHECK(failureOf(memory->map(anywhere(page, 0))).code == "bad-map-request");
  CHECK(failureOf(memory->map(anywhere(page, 3 * page))).code == "bad-map-request");
  CHECK(failureOf(memory->map(anywhere(page, uint64_t(1) << 63))).code == "bad-map-request");
  CHECK(failureOf(memory->map(anywhere(~uint64_t(0)))).code == "no-device-memory");
  CHECK(failureOf(memory->map(anywhere(17u << 20))).code == "no-device-memory");
  CHECK(failureOf(memory->unmap(0x1000000)).code == "unmapped-memory");
  CHECK(failureOf(memory->unmap(GuestMemory::interruptPage)).code == "unmapped-memory");
}

TEST_CASE("nothing beyond the device's reach is handed out") {
  auto memory = must(GuestMemory::create(64u << 20, (32u << 20) - 1));
  CHECK(failureOf(memory->map(at(32u << 20, page))).code == "iova-unavailable");
  CHECK(must(memory->map(at((32u << 20) - page, page))).iova == (32u << 20) - page);
  CHECK(failureOf(memory->map(anywhere(16u << 20))).code == "no-device-memory");
  CHECK(must(memory->map(anywhere((16u << 20) - page))).iova == 0x1000000);
}

TEST_CASE("only what is mapped can be located") {
  auto memory = must(GuestMemory::create(ram, mask));
  MemoryRegion region = must(memory->map(at(0x2000, 2 * page)));
  CHECK(must(memory->locate(0x2000, 2 * page)) == region.host);
  CHECK(must(memory->locate(0x3fff, 1)) == region.host + 0x1fff);
  CHECK(must(memory->locate(0x2000, 0)) == region.host);
  for (auto [iova, size] : {std::pair<uint64_t, uint64_t>{0x1fff, 1},
                            {0x2000, 2 * page + 1},
                            {0x4000, 1},
                            {0x3000, ~uint64_t(0)},
                            {GuestMemory::interruptPage, 4}})
    CHECK(failureOf(memory->locate(iova, size)).code == "unmapped-memory");
}

TEST_CASE("random maps and unmaps never overlap and never leak") {
  auto memory = must(GuestMemory::create(ram, mask));
  std::mt19937_64 random(7);
  std::map<uint64_t, uint64_t> live;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 3 == 0 && !live.empty()) {
      auto victim = std::next(live.begin(), long(random() % live.size()));
      must(memory->unmap(victim->first));
      live.erase(victim);
      continue;
    }
    uint64_t size = page * (1 + random() % 64);
    MapRequest request = anywhere(size, page << (random() % 6));
    if (random() % 2)
      request.iova = page * (random() % (ram / page));
    llvm::Expected<MemoryRegion> region = memory->map(request);
    if (!region) {
      llvm::consumeError(region.takeError()); // Taken, or full: both are fine here.
      continue;
    }
    REQUIRE(region->size == size);
    REQUIRE(region->iova + size <= ram);
    REQUIRE((request.iova || region->iova % request.alignment == 0));
    auto next = live.lower_bound(region->iova);
    REQUIRE((next == live.end() || next->first >= region->iova + size));
    REQUIRE((next == live.begin() || std::prev(next)->first + std::prev(next)->second <= region->iova));
    REQUIRE((region->iova >= 0x100000 || region->iova + size <= GuestMemory::interruptPage));
    live[region->iova] = size;
  }
  for (auto [iova, size] : live)
    must(memory->unmap(iova));
  CHECK(must(memory->map(anywhere(ram - (16u << 20)))).iova == 0x1000000);
}

TEST_CASE("an interrupt is taken once") {
  auto memory = must(GuestMemory::create(ram, mask));
  CHECK(memory->takeInterruptWord() == 0);
}
