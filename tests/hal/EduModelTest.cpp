// The reference model of edu, against its specification.
#include "tests/hal/Edu.h"

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("edu introduces itself") {
  Edu edu("model:edu");
  CHECK(edu.target->identity().name == "edu");
  CHECK(edu.target->identity().facts.at("vendor") == "0x1234");
  CHECK(edu.target->identity().facts.at("device") == "0x11e8");
  REQUIRE(edu.target->spaces().size() == 1);
  CHECK(edu.target->spaces()[0].name == "bar0");
  CHECK(edu.target->spaces()[0].size == 1 << 20);
  CHECK(edu.read(0x00) == 0x010000ed);
}

TEST_CASE("registers after power-on") {
  Edu edu("model:edu");
  for (uint64_t offset : {0x04, 0x08, 0x20, 0x24})
    CHECK(edu.read(offset) == 0);
  for (uint64_t offset : {0x80, 0x88, 0x90, 0x98})
    CHECK(edu.read64(offset) == 0);
  CHECK(edu.buffer() == std::vector<uint8_t>(4096, 0));
}

TEST_CASE("liveness is the complement") {
  Edu edu("model:edu");
  for (uint32_t value : {0u, 1u, 0xdeadbeefu, 0xffffffffu}) {
    edu.write(0x04, value);
    CHECK(edu.read(0x04) == ~value);
  }
}

TEST_CASE("factorials, modulo 2^32") {
  Edu edu("model:edu");
  uint32_t product = 1;
  for (uint32_t n = 0; n <= 40; ++n) {
    product *= n ? n : 1;
    CHECK(edu.factorial(n) == product);
  }
  CHECK(edu.factorial(33) != 0);
  CHECK(edu.factorial(0xffffffff) == 0);
}

TEST_CASE("a factorial takes time, during which writes to it are lost") {
  Edu edu("model:edu?factorial-time=20000");
  edu.write(0x08, 5);
  CHECK(edu.read(0x20) == 1);
  CHECK(edu.read(0x08) == 5);
  edu.write(0x08, 6);
  CHECK(edu.poll(0x20, 1) > 5);
  CHECK(edu.read(0x08) == 120);
}

TEST_CASE("by default a poll sees the factorial running") {
  Edu edu("model:edu");
  edu.write(0x08, 5);
  CHECK(edu.poll(0x20, 1) >= 3);
}

TEST_CASE("only the interrupt bit of STATUS can be written") {
  Edu edu("model:edu");
  edu.write(0x20, 0xffffffff);
  CHECK(edu.read(0x20) == 0x80);
  edu.write(0x08, 3);
  edu.write(0x20, 0);
  CHECK(edu.read(0x20) == 1); // COMPUTING is not the program's to clear.
}

TEST_CASE("a finished factorial interrupts if it was told to when it finishes") {
  Edu edu("model:edu");
  edu.write(0x08, 4);
  CHECK(!must(edu.target->waitInterrupt(0, 1000000)).fired);
  CHECK(edu.read(0x24) == 0);
  edu.write(0x20, 0x80);
  edu.write(0x08, 4);
  uint64_t start = must(edu.target->deviceTime());
  CHECK(must(edu.target->waitInterrupt(0, 1000000)).fired);
  CHECK(must(edu.target->deviceTime()) == start + 5000);
  CHECK(edu.read(0x24) == 1);
  edu.write(0x64, 1);
  CHECK(edu.read(0x24) == 0);
}

TEST_CASE("raised interrupts accumulate in status, one message each") {
  Edu edu("model:edu");
  edu.write(0x60, 0x10);
  edu.write(0x60, 0x12);
  edu.write(0x60, 0x100);
  CHECK(edu.read(0x24) == 0x112);
  CHECK(must(edu.target->waitInterrupt(0, 0)).count == 3);
  edu.write(0x64, 0x102);
  CHECK(edu.read(0x24) == 0x10);
  CHECK(!must(edu.target->waitInterrupt(0, 1000)).fired); // Acknowledging is silent.
  edu.write(0x60, 0);
  CHECK(must(edu.target->waitInterrupt(0, 0)).count == 1); // Still something in status.
  edu.write(0x64, 0xffffffff);
  edu.write(0x60, 0);
  CHECK(!must(edu.target->waitInterrupt(0, 0)).fired);
}

TEST_CASE("an interrupt whose bit is already set still ends a wait at its time") {
  Edu edu("model:edu");
  edu.write(0x60, 0x100);
  must(edu.target->waitInterrupt(0, 0));
  edu.write(0x80, 0x1000000);
  edu.write(0x88, 0x40000);
  edu.write(0x90, 4);
  edu.write(0x98, 5);
  uint64_t start = must(edu.target->deviceTime());
  CHECK(must(edu.target->waitInterrupt(0, 1000000000)).fired);
  CHECK(must(edu.target->deviceTime()) == start + 100000000);
}

TEST_CASE("DMA moves its bytes and no others, both ways, at every kind of place") {
  Edu edu("model:edu");
  struct {
    uint64_t host, device, count;
  } cases[] = {{0, 0, 1},       {4095, 4095, 1}, {100, 7, 4000},  {0, 0, 4096},    {4090, 0, 12},
               {4095, 4000, 2}, {1, 1, 4095},    {8191, 0, 4096}, {12288, 0, 4096}};
  for (auto &[host, device, count] : cases) {
    CAPTURE(host);
    CAPTURE(count);
    for (uint64_t i = 0; i < edu.memory.size; ++i)
      edu.memory.host[i] = uint8_t(i * 7 + i / 251 + count);
    std::vector<uint8_t> expected = edu.buffer(), memory = edu.host();
    std::copy_n(memory.begin() + long(host), count, expected.begin() + long(device));
    edu.dma(edu.memory.iova + host, 0x40000 + device, count, 1);
    CHECK(edu.buffer() == expected);
    CHECK(edu.host() == memory);

    std::fill(memory.begin(), memory.end(), 0xee);
    std::copy(memory.begin(), memory.end(), edu.memory.host);
    std::copy_n(expected.begin() + long(device), count, memory.begin() + long(host));
    edu.dma(0x40000 + device, edu.memory.iova + host, count, 3);
    CHECK(edu.host() == memory);
    CHECK(edu.buffer() == expected);
  }
  CHECK(!must(edu.target->waitInterrupt(0, 0)).fired);
}

TEST_CASE("DMA takes 100 ms, ends with an interrupt if asked, and keeps its command") {
  Edu edu("model:edu");
  edu.memory.host[0] = 0x5a;
  edu.write(0x80, edu.memory.iova);
  edu.write(0x88, 0x40000);
  edu.write(0x90, 1);
  edu.write(0x98, 5);
  uint64_t start = must(edu.target->deviceTime());
  must(edu.target->advance(99000000));
  CHECK(edu.read64(0x98) == 5);
  CHECK(edu.buffer()[0] == 0);
  CHECK(must(edu.target->waitInterrupt(0, 1000000000)).fired);
  CHECK(must(edu.target->deviceTime()) == start + 100000000);
  CHECK(edu.read64(0x98) == 4);
  CHECK(edu.read(0x24) == 0x100);
  CHECK(edu.buffer()[0] == 0x5a);
}

TEST_CASE("a running DMA cannot be changed") {
  Edu edu("model:edu");
  edu.memory.host[0] = 1;
  edu.memory.host[64] = 2;
  edu.write(0x80, edu.memory.iova);
  edu.write(0x88, 0x40000);
  edu.write(0x90, 1);
  edu.write(0x98, 1);
  edu.write(0x80, edu.memory.iova + 64);
  edu.write(0x88, 0x40100);
  edu.write(0x90, 99);
  edu.write(0x98, 7);
  CHECK(edu.read64(0x80) == edu.memory.iova);
  CHECK(edu.read64(0x90) == 1);
  CHECK(edu.read64(0x98) == 1);
  must(edu.target->advance(100000000));
  CHECK(edu.buffer()[0] == 1);
  CHECK(edu.buffer()[0x100] == 0);
}

TEST_CASE("without RUN a command starts nothing and is not kept") {
  Edu edu("model:edu");
  edu.write(0x98, 6);
  CHECK(edu.read64(0x98) == 0);
}

TEST_CASE("DMA outside the buffer is a bus error, at the command, and starts nothing") {
  Edu edu("model:edu");
  struct {
    uint64_t device, count;
  } cases[] = {{0x3ffff, 1}, {0x40000, 4097},   {0x40001, 4096},        {0x41000, 1},
               {0, 1},       {~uint64_t(0), 2}, {0x40000, ~uint64_t(0)}};
  for (auto &[device, count] : cases)
    for (bool fromDevice : {false, true}) {
      CAPTURE(device);
      edu.write(0x80, fromDevice ? device : edu.memory.iova);
      edu.write(0x88, fromDevice ? edu.memory.iova : device);
      edu.write(0x90, count);
      Failure f = failure(edu.target->write(0, 0x98, 8, fromDevice ? 3 : 1));
      CHECK(f.cls == FailureClass::Target);
      CHECK(f.code == "bus-error");
      CHECK(edu.read64(0x98) == 0);
    }
}

TEST_CASE("host addresses have 28 bits, or what dma-mask says") {
  Edu edu("model:edu");
  edu.memory.host[0] = 0x42;
  edu.dma(edu.memory.iova | 0xabc0000000, 0x40000, 1, 1);
  CHECK(edu.buffer()[0] == 0x42);
  CHECK(edu.read64(0x80) == (edu.memory.iova | 0xabc0000000)); // The register keeps what was written.
  Edu wide("model:edu?dma-mask=0xffffffffffff", 0xabc0000000);
  wide.memory.host[0] = 0x43;
  wide.dma(0xabc0000000, 0x40000, 1, 1);
  CHECK(wide.buffer()[0] == 0x43);
}

TEST_CASE("DMA to memory that is not mapped reads all ones and writes nothing") {
  Edu edu("model:edu");
  edu.dma(0x5000000, 0x40000, 4, 1);
  CHECK(edu.buffer()[3] == 0xff);
  CHECK(edu.buffer()[4] == 0);
  edu.dma(0x40000, 0x5000000, 4, 3);
  // Half mapped counts as not mapped.
  edu.memory.host[edu.memory.size - 1] = 9;
  edu.dma(0x40000, edu.memory.iova + edu.memory.size - 1, 2, 3);
  CHECK(edu.memory.host[edu.memory.size - 1] == 9);
}

TEST_CASE("a transfer of nothing completes") {
  Edu edu("model:edu");
  edu.write(0x80, edu.memory.iova);
  edu.write(0x88, 0x40000);
  edu.write(0x98, 5);
  CHECK(must(edu.target->waitInterrupt(0, 1000000000)).fired);
}

TEST_CASE("accesses that are not allowed write nothing, and read as zero or as all ones") {
  Edu edu("model:edu");
  Target &target = *edu.target;
  // Refused on the way: 8 and 16 bits, and what is not aligned.
  CHECK(must(target.read(0, 0x00, 1)) == 0);
  CHECK(must(target.read(0, 0x00, 2)) == 0);
  CHECK(must(target.read(0, 0x02, 4)) == 0);
  CHECK(must(target.read(0, 0x80, 2)) == 0);
  CHECK(must(target.read(0, 0x84, 8)) == 0);
  // Refused by the device: 64 bits below 0x80.
  CHECK(must(target.read(0, 0x00, 8)) == ~uint64_t(0));
  must(target.write(0, 0x04, 1, 0x55));
  must(target.write(0, 0x04, 8, 0x55));
  must(target.write(0, 0x05, 4, 0x55));
  CHECK(edu.read(0x04) == 0);
  must(target.write(0, 0x80, 2, 0x55));
  CHECK(edu.read64(0x80) == 0);
  // Allowed: 32 bits of a DMA register; the rest becomes zero.
  edu.write(0x80, 0x1122334455667788);
  CHECK(edu.read(0x80) == 0x55667788);
  must(target.write(0, 0x80, 4, 0x99));
  CHECK(edu.read64(0x80) == 0x99);
}

TEST_CASE("holes and write-only registers read as all ones; read-only ones take no writes") {
  Edu edu("model:edu");
  for (uint64_t offset : {0x0c, 0x28, 0x60, 0x64, 0x84, 0xa0, 0xffffc})
    CHECK(edu.read(offset) == 0xffffffff);
  edu.write(0x00, 0);
  edu.write(0x24, 0xff);
  edu.write(0x0c, 1);
  CHECK(edu.read(0x00) == 0x010000ed);
  CHECK(edu.read(0x24) == 0);
}

TEST_CASE("reset is power-on, in the middle of things too; time goes on") {
  Edu edu("model:edu");
  edu.dma(edu.memory.iova, 0x40000, 100, 1);
  edu.write(0x04, 1);
  edu.write(0x60, 0xff);
  edu.write(0x20, 0x80);
  edu.write(0x08, 5);
  edu.write(0x98, 5);
  uint64_t before = must(edu.target->deviceTime());
  must(edu.target->reset(ResetKind::Power));
  CHECK(must(edu.target->deviceTime()) >= before);
  for (uint64_t offset : {0x04, 0x08, 0x20, 0x24, 0x80, 0x90, 0x98})
    CHECK(edu.read(offset) == 0);
  CHECK(!must(edu.target->waitInterrupt(0, 1000000000)).fired);
  CHECK(edu.buffer() == std::vector<uint8_t>(4096, 0));
}

TEST_CASE("an access takes the time it is told to") {
  Edu edu("model:edu?access-time=250");
  uint64_t start = must(edu.target->deviceTime());
  edu.read(0);
  edu.write(0x04, 1);
  must(edu.target->read(0, 1, 1));
  CHECK(must(edu.target->deviceTime()) == start + 750);
  must(edu.target->advance(1000));
  CHECK(must(edu.target->deviceTime()) == start + 1750);
  edu.buffer(); // A peek takes none.
  CHECK(must(edu.target->deviceTime()) == start + 1750);
}

TEST_CASE("the end of time is no trap") {
  Edu edu("model:edu");
  must(edu.target->advance(~uint64_t(0)));
  must(edu.target->advance(~uint64_t(0)));
  edu.write(0x08, 5);
  edu.poll(0x20, 1);
  CHECK(edu.read(0x08) == 120);
}
