// Minnow's DMA: rows, strides, bursts, chains, and where a bus error leaves things.
#include "tests/hal/minnow/model/Minnow.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t data = Minnow::data, end = Minnow::iova + Minnow::bytes;

struct Descriptor {
  uint64_t host;
  uint32_t scratchpad, rowBytes, rows, hostStride, scratchpadStride, flags;
  uint64_t next = 0;
  uint8_t ignored[24] = {0xee, 0xee, 0xee};
};
constexpr uint32_t store = 1, last = 2;

void place(Minnow &minnow, uint64_t address, const Descriptor &descriptor) {
  static_assert(sizeof descriptor == 64);
  std::memcpy(minnow.host(address), &descriptor, 64);
}

std::vector<uint8_t> pattern(size_t size, uint32_t seed) {
  std::vector<uint8_t> out(size);
  for (size_t i = 0; i < size; ++i)
    out[i] = uint8_t((i + seed) * 2654435761u >> 13);
  return out;
}

void putHost(Minnow &minnow, uint64_t address, const std::vector<uint8_t> &content) {
  std::memcpy(minnow.host(address), content.data(), content.size());
}

} // namespace

TEST_CASE("DMA moves its rows and nothing else, both ways, at every kind of stride") {
  struct {
    uint32_t rowBytes, rows, hostStride, padStride;
  } cases[] = {{8, 1, 0, 0},   {64, 4, 64, 64},  {72, 5, 4096, 80}, {8, 100, 8, 16},     {65536, 1, 0, 0},
               {64, 3, 0, 64}, {128, 3, 128, 0}, {16, 4096, 8, 8},  {4096, 16, 8, 4096}, {200, 7, 64, 208}};
  for (auto &[rowBytes, rows, hostStride, padStride] : cases) {
    CAPTURE(rowBytes);
    CAPTURE(rows);
    Minnow minnow = Minnow::ready();
    uint32_t at = rowBytes == 65536 ? 0 : 24;
    if (at + (rows - 1) * padStride + rowBytes > 65536)
      at = 0;
    size_t hostBytes = size_t(rows - 1) * hostStride + rowBytes;
    putHost(minnow, data, pattern(hostBytes, 1));
    std::vector<uint8_t> expected(65536, 0), host = minnow.hostBytes(Minnow::iova, Minnow::bytes);
    for (uint32_t r = 0; r < rows; ++r)
      std::memcpy(&expected[at + r * padStride], minnow.host(data + uint64_t(r) * hostStride), rowBytes);
    minnow.run(dma(false, data, at, rowBytes, rows, hostStride, padStride));
    CHECK(minnow.scratchpad() == expected);
    CHECK(minnow.counter(3) == uint64_t(rows) * rowBytes);
    CHECK(minnow.counter(5) == uint64_t(rows) * ((rowBytes + 63) / 64) % 65536);
    CHECK(minnow.counter(4) == 0);

    uint64_t to = data + 8;
    host = minnow.hostBytes(Minnow::iova, Minnow::bytes);
    // The ring gets one more command.
    Words command = dma(true, to, at, rowBytes, rows, hostStride, padStride);
    std::memcpy(&host[64], command.data(), 64);
    for (uint32_t r = 0; r < rows; ++r)
      std::memcpy(&host[to - Minnow::iova + r * size_t(hostStride)], &expected[at + r * padStride], rowBytes);
    minnow.run(command);
    CHECK(minnow.hostBytes(Minnow::iova, Minnow::bytes) == host);
    CHECK(minnow.scratchpad() == expected);
    CHECK(minnow.counter(4) == uint64_t(rows) * rowBytes);
    CHECK(minnow.counter(6) == uint64_t(rows) * ((rowBytes + 63) / 64));
  }
}

TEST_CASE("a load that runs into unmapped memory in the middle of a row keeps what was moved") {
  Minnow minnow = Minnow::ready();
  uint64_t from = end - 8192 - 256; // Row 1 begins 256 bytes before the end.
  putHost(minnow, from, pattern(8192 + 256, 3));
  minnow.submit(0, {dma(false, from, 0, 512, 3, 8192, 512)});
  minnow.settle();
  CHECK(errorOf(minnow) == "code 5 queue 0 index 0 opcode 0x1 address 0x1100000");
  std::vector<uint8_t> expected(65536, 0);
  std::memcpy(&expected[0], minnow.host(from), 512);
  std::memcpy(&expected[512], minnow.host(from + 8192), 256);
  CHECK(minnow.scratchpad() == expected);
  CHECK(minnow.counter(3) == 768);
  CHECK(minnow.counter(5) == 12);
  CHECK(minnow.counter(11) == 0);
}

TEST_CASE("a burst of which any byte is not mapped moves nothing") {
  Minnow minnow = Minnow::ready();
  minnow.fill(0, pattern(512, 9));
  std::memset(minnow.host(end - 512), 0xcc, 512);
  uint64_t to = end - 64 - 40; // The second burst lies over the end, by 24 bytes.
  minnow.submit(0, {dma(true, to, 0, 256)});
  minnow.settle();
  CHECK(errorOf(minnow) == "code 5 queue 0 index 1 opcode 0x2 address 0x10fffd8");
  CHECK(minnow.hostBytes(to, 64) == minnow.scratchpad(0, 64));
  CHECK(minnow.hostBytes(to + 64, 40) == std::vector<uint8_t>(40, 0xcc));
  CHECK(minnow.counter(4) == 64);
  CHECK(minnow.counter(6) == 1);
}

TEST_CASE("a short last burst is as long as it is: a row may end where memory ends") {
  Minnow minnow = Minnow::ready();
  putHost(minnow, end - 72, pattern(72, 5));
  minnow.run(dma(false, end - 72, 0, 72));
  CHECK(minnow.scratchpad(0, 72) == pattern(72, 5));
  CHECK(minnow.counter(5) == 2);
}

TEST_CASE("addresses are 64 bits wide: rows and bursts cross 4 GiB, and none wraps there") {
  Minnow minnow = Minnow::ready();
  MapRequest request;
  request.iova = 0x1fffff000;
  request.size = 8192;
  MemoryRegion region = must(minnow.target->map(request));
  std::vector<uint8_t> content = pattern(8192, 8);
  std::memcpy(region.host, content.data(), 8192);
  minnow.run(dma(false, 0x1fffffff8, 0, 72, 2, 8, 72));
  CHECK(minnow.scratchpad(0, 72) == std::vector<uint8_t>(&content[4088], &content[4160]));
  CHECK(minnow.scratchpad(72, 72) == std::vector<uint8_t>(&content[4096], &content[4168]));
  minnow.run(dma(true, 0x1fffffff8, 72, 72));
  CHECK(std::equal(&region.host[4088], &region.host[4160], &content[4096]));
  minnow.submit(0, {dma(false, 0xfffffffffffffff8, 0, 16)});
  minnow.settle();
  CHECK(errorOf(minnow) == "code 5 queue 0 index 2 opcode 0x1 address 0xfffffffffffffff8");
}

TEST_CASE("a chain does what its descriptors say, in order, both ways") {
  Minnow minnow = Minnow::ready();
  uint64_t list = data, from = data + 0x4000, to = data + 0x8000;
  putHost(minnow, from, pattern(4096, 7));
  place(minnow, list, {from, 0x100, 64, 2, 128, 64, 0xfffffff0 & ~3u, list + 0x200});
  place(minnow, list + 0x200, {to, 0x100, 128, 1, 0, 0, store, list + 0x80});
  place(minnow, list + 0x80, {to + 64, 0x100, 64, 1, 0, 0, last, 0x123}); // `next` means nothing.
  minnow.run(chain(list));
  std::vector<uint8_t> source = pattern(4096, 7), second(source.begin() + 128, source.begin() + 192);
  CHECK(minnow.scratchpad(0x100, 64) == second);
  CHECK(minnow.scratchpad(0x140, 64) == second);
  CHECK(minnow.hostBytes(to, 64) == std::vector<uint8_t>(source.begin(), source.begin() + 64));
  CHECK(minnow.hostBytes(to + 64, 64) == second);
  CHECK(minnow.counter(3) == 192); // Descriptors are not counted.
  CHECK(minnow.counter(4) == 128);
  CHECK(minnow.counter(5) == 3);
  CHECK(minnow.counter(6) == 2);
  CHECK(minnow.counter(11) == 1);
}

TEST_CASE("a descriptor is read when the one before it has been carried out: a chain may write itself") {
  Minnow minnow = Minnow::ready();
  uint64_t list = data, source = data + 0x1000, out = data + 0x2000;
  // The second descriptor in memory would store; the first overwrites it with one that loads.
  Descriptor loads{out, 0x200, 8, 1, 0, 0, last};
  std::vector<uint8_t> bytes(64);
  std::memcpy(bytes.data(), &loads, 64);
  minnow.fill(0, bytes);
  putHost(minnow, out, pattern(8, 4));
  place(minnow, list, {list + 64, 0, 64, 1, 0, 0, store, list + 64});
  place(minnow, list + 64, {source, 0, 8, 1, 0, 0, store | last});
  minnow.run(chain(list));
  CHECK(minnow.scratchpad(0x200, 8) == pattern(8, 4));
  CHECK(minnow.hostBytes(source, 8) == std::vector<uint8_t>(8, 0));
}

TEST_CASE("a chain of 256 descriptors is whole; the 256th without LAST is too long") {
  for (bool tooLong : {false, true}) {
    Minnow minnow = Minnow::ready();
    for (uint32_t i = 0; i < 257; ++i)
      place(minnow, data + 64 * i,
            {data + 0x8000, i * 8, 8, 1, 0, 0,
             !tooLong && i == 255 ? last
             : i == 256           ? last
                                  : 0,
             data + 64 * (i + 1)});
    putHost(minnow, data + 0x8000, std::vector<uint8_t>(8, 0xab));
    minnow.submit(0, {chain(data)});
    minnow.settle();
    size_t moved = tooLong ? 255 : 256;
    if (tooLong)
      CHECK(errorOf(minnow) == "code 6 queue 0 index 0 opcode 0x3 address 0x1023fc0");
    else
      CHECK(errorOf(minnow) == "none");
    CHECK(minnow.counter(3) == moved * 8);
    CHECK(minnow.scratchpad(0, moved * 8) == std::vector<uint8_t>(moved * 8, 0xab));
    CHECK(minnow.scratchpad(moved * 8, 16) == std::vector<uint8_t>(16, 0));
  }
}

TEST_CASE("a chain that goes round ends as too long") {
  Minnow minnow = Minnow::ready();
  place(minnow, data, {data + 0x8000, 0, 8, 1, 0, 0, 0, data});
  minnow.submit(0, {chain(data)});
  minnow.settle();
  CHECK(errorOf(minnow) == "code 6 queue 0 index 0 opcode 0x3 address 0x1020000");
}

TEST_CASE("what is wrong with a descriptor is found at its turn; what was done stays done") {
  struct {
    Descriptor second;
    uint64_t next;
    const char *error;
  } cases[] = {
      {{data, 0, 4, 1, 0, 0, last}, data + 64, "code 2 queue 0 index 0 opcode 0x3 address 0x4"},
      {{data, 0, 8, 0, 0, 0, last}, data + 64, "code 2 queue 0 index 0 opcode 0x3 address 0x0"},
      {{data + 4, 0, 8, 1, 0, 0, last}, data + 64, "code 3 queue 0 index 0 opcode 0x3 address 0x1020004"},
      {{data, 0xfff8, 16, 1, 0, 0, last}, data + 64, "code 4 queue 0 index 0 opcode 0x3 address 0xfff8"},
      {{end, 0, 8, 1, 0, 0, last}, data + 64, "code 5 queue 0 index 0 opcode 0x3 address 0x1100000"},
      {{data, 0, 8, 1, 0, 0, last}, data + 32, "code 3 queue 0 index 0 opcode 0x3 address 0x1020020"},
      {{data, 0, 8, 1, 0, 0, last}, end, "code 5 queue 0 index 0 opcode 0x3 address 0x1100000"},
  };
  for (auto &[second, next, error] : cases) {
    Minnow minnow = Minnow::ready();
    place(minnow, data, {data + 0x8000, 0x100, 8, 1, 0, 0, 0, next});
    place(minnow, data + 64, second);
    putHost(minnow, data + 0x8000, pattern(8, 2));
    minnow.submit(0, {chain(data)});
    minnow.settle();
    CHECK(errorOf(minnow) == error);
    CHECK(minnow.scratchpad(0x100, 8) == pattern(8, 2));
  }
}

TEST_CASE("a row is moved by the time it takes: progress can be watched, and stopped by a reset") {
  Minnow minnow = Minnow::ready();
  putHost(minnow, data, pattern(65536, 6));
  minnow.submit(0, {dma(false, data, 0, 64, 1024, 64, 64)});
  CHECK(minnow.read(Status) == (1u | 1u << 8));
  minnow.pass(1000); // The command has been fetched.
  CHECK(minnow.read(Status) == (1u | 1u << 8 | 1u << 10));
  minnow.pass(50000);
  uint64_t moved = minnow.counter(3);
  CHECK(moved > 64);
  CHECK(moved < 65536);
  CHECK(minnow.scratchpad(0, moved) == pattern(moved, 6));
  CHECK(minnow.scratchpad(moved, 64) == std::vector<uint8_t>(64, 0));
  minnow.write(Control, softReset);
  minnow.pass(1000000);
  CHECK(minnow.read(Status) == 4);
  CHECK(minnow.scratchpad() == std::vector<uint8_t>(65536, 0));
}
