#include "tests/hal/Targets.h"
#include <cstring>

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("null says that its answers mean nothing") {
  auto target = open("null:");
  CHECK(!target->capabilities().answers);
  CHECK(target->capabilities().memory);
  CHECK(target->identity().kind == "null");
  REQUIRE(target->spaces().size() == 1);
  CHECK(target->findSpace("bar0") == TargetSpaceId(0));
  CHECK(!target->findSpace("bar1"));
}

TEST_CASE("null has the spaces that it is told to have") {
  auto target = open("null:?spaces=bar0,config&size=0x100&vectors=2");
  CHECK(target->findSpace("config") == TargetSpaceId(1));
  CHECK(target->spaces()[1].size == 0x100);
  CHECK(must(target->read(1, 0xf8, 8)) == 0);
  CHECK(failure(target->read(1, 0xf9, 8)).code == "out-of-space");
  CHECK(failure(target->read(2, 0, 4)).code == "unknown-space");
  CHECK(failure(target->write(0, 0, 3, 0)).code == "bad-width");
  CHECK(failure(target->read(0, ~uint64_t(0), 8)).code == "out-of-space");
  CHECK(must(target->waitInterrupt(1, 0)).fired);
  CHECK(failure(target->waitInterrupt(2, 0)).code == "unknown-vector");
}

TEST_CASE("null refuses options that make no sense") {
  for (const char *uri : {"null:?spaces=", "null:?spaces=a,,b", "null:?spaces=a,a", "null:?size=4",
                          "null:?size=x", "null:x", "null:?vectors=100000", "null:?timeout=0"}) {
    CAPTURE(uri);
    CHECK(failure(openTarget(uri)).cls == FailureClass::Usage);
  }
  CHECK(contains(failure(openTarget("null:?what=1")).hint, "spaces="));
}

TEST_CASE("null's memory is real") {
  auto target = open("null:");
  MapRequest request;
  request.size = 10000;
  MemoryRegion region = must(target->map(request));
  CHECK(region.size == 12288);
  REQUIRE(region.host != nullptr);
  CHECK(region.host[5] == 0);
  std::memset(region.host, 0x11, region.size);
  uint8_t bytes[16] = {};
  must(target->readMemory(region.iova + 100, bytes));
  CHECK(bytes[15] == 0x11);
  bytes[0] = 0x22;
  must(target->writeMemory(region.iova + 12280, llvm::ArrayRef<uint8_t>(bytes, 8)));
  CHECK(region.host[12280] == 0x22);
  CHECK(failure(target->readMemory(region.iova + 12280, bytes)).code == "unmapped-memory");
  request.iova = region.iova;
  CHECK(failure(target->map(request)).code == "iova-unavailable");
  must(target->unmap(region.iova));
  CHECK(must(target->map(request)).iova == region.iova);
}
