// Device-visible memory at chosen addresses, as a replay needs it.
#include "tests/hal/qemu/EduDriver.h"
#include <cstring>

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("the device sees memory where it was asked to be") {
  TB_NEED_QEMU();
  Edu edu;
  uint64_t chosen[] = {0x0, 0x1000, 0x9e000, 0x100000, 0xfff000, 0x1000000, 0x7654000, 0xffff000};
  uint8_t pattern = 1;
  for (uint64_t iova : chosen) {
    CAPTURE(iova);
    MapRequest request;
    request.size = 4096;
    request.iova = iova;
    MemoryRegion region = must(edu.target->map(request));
    CHECK(region.iova == iova);
    std::memset(region.host, ++pattern, region.size);
    edu.dma(Edu::ToDevice, iova, 0, 4095);
    std::memset(region.host, 0, region.size);
    edu.dma(Edu::FromDevice, iova, 0, 4095);
    CHECK(region.host[0] == pattern);
    CHECK(region.host[4094] == pattern);
    CHECK(region.host[4095] == 0);
  }
  MapRequest taken;
  taken.size = 4096;
  taken.iova = 0x9f000;
  CHECK(failureOf(edu.target->map(taken)).code == "iova-unavailable");
  taken.iova = 0x10000000; // Beyond edu's 28 bits.
  CHECK(failureOf(edu.target->map(taken)).code == "iova-unavailable");
}

TEST_CASE("memory is read and written through the target as through the mapping") {
  TB_NEED_QEMU();
  Edu edu("qemu:edu?ram=16M");
  MapRequest request;
  request.size = 8192;
  request.iova = 0x200000;
  MemoryRegion region = must(edu.target->map(request));
  std::vector<uint8_t> data(5000, 0x3c), back(5000);
  must(edu.target->writeMemory(0x200010, data));
  CHECK(std::memcmp(region.host + 16, data.data(), data.size()) == 0);
  region.host[17] = 0x99;
  must(edu.target->readMemory(0x200010, back));
  CHECK(back[0] == 0x3c);
  CHECK(back[1] == 0x99);
  CHECK(failureOf(edu.target->writeMemory(0x200010 + 8192 - 5000, data)).code == "unmapped-memory");
  must(edu.target->unmap(0x200000));
  CHECK(failureOf(edu.target->readMemory(0x200010, back)).code == "unmapped-memory");
  CHECK(failureOf(edu.target->unmap(0x200000)).code == "unmapped-memory");
}

TEST_CASE("memory without a wish is had from 16 MiB up, and there is as much as was asked for") {
  TB_NEED_QEMU();
  Edu edu("qemu:edu?ram=32M");
  MapRequest request;
  request.size = 16u << 20;
  CHECK(must(edu.target->map(request)).iova == 0x1000000);
  Failure failure = failureOf(edu.target->map(request));
  CHECK(failure.code == "no-device-memory");
  CHECK(failure.hint.find("ram=") != std::string::npos);
}
