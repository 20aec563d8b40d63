// The messages between target and host process, byte by byte.
#include "hal/model/ModelChannel.h"
#include "hal/model/ModelReadings.h"
#include "hal/model/ModelTable.h"
#include "hal/model/host/HostMemory.h"
#include "tests/hal/Targets.h"
#include <random>
#include <sys/mman.h>

using namespace tapeback;
using namespace tapeback::modelhost;
using namespace tapeback::test;

namespace {

/// A good reply to command Execute, sequence 5: body of 4 bytes, one interrupt, text "oops", two readings.
std::vector<uint8_t> goodReply() {
  std::vector<uint8_t> bytes(256);
  WireWriter writer{bytes.data(), bytes.size()};
  writer.put(
      ReplyHeader{{protocolMagic, protocolVersion, uint16_t(Command::Execute), 80, 5}, -2, 4, 1, 4, 2, 0});
  writer.put(uint32_t(77));
  writer.put(InterruptEntry{3, 0, 9});
  writer.bytes("oops", 4);
  writer.put(uint64_t(1) << 40);
  writer.put(uint64_t(6));
  bytes.resize(writer.size);
  return bytes;
}

auto parse(const std::vector<uint8_t> &bytes) {
  return ModelChannel::parseReply(bytes, Command::Execute, 5);
}

std::vector<uint8_t> goodTable() {
  std::vector<uint8_t> bytes(1024);
  WireWriter writer{bytes.data(), bytes.size()};
  writer.put(uint16_t(1));
  writer.put(uint16_t(0));
  writer.put(uint32_t(0x7f));
  writer.put(uint32_t(4));
  writer.put(uint32_t(2));
  writer.string("name", 4);
  writer.put(uint32_t(1));
  writer.string("vendor", 6);
  writer.string("v\033", 2);
  writer.put(uint32_t(1));
  writer.string("bar0", 4);
  writer.put(uint64_t(0x1000));
  writer.put(uint32_t(1));
  writer.string("inside", 6);
  writer.put(uint64_t(0x20));
  bytes.resize(writer.size);
  return bytes;
}

std::optional<ModelTable> table(const std::vector<uint8_t> &bytes) {
  WireReader reader{bytes.data(), bytes.size()};
  return parseModelTable(reader);
}

} // namespace

TEST_CASE("a reply is taken apart") {
  std::vector<uint8_t> bytes = goodReply();
  auto reply = parse(bytes);
  REQUIRE(reply);
  CHECK(reply->status == -2);
  CHECK(reply->body.get<uint32_t>() == 77);
  CHECK(reply->body.left() == 0);
  REQUIRE(reply->interrupts.size() == 1);
  CHECK(reply->interrupts[0].vector == 3);
  CHECK(reply->interrupts[0].count == 9);
  CHECK(reply->text == "oops");
  CHECK(reply->readings == std::vector<uint64_t>{uint64_t(1) << 40, 6});
}

TEST_CASE("readings hold until something happens, and are no others than those asked for") {
  ModelReadings readings;
  const uint32_t ids[] = {4, 2};
  const uint64_t three[] = {100, 7, 8}, two[] = {9, 10}, one[] = {200};
  CHECK(readings.take({}, Command::Execute));
  CHECK(!readings.take(one, Command::Execute)); // Nobody asked.
  readings = {};
  readings.followTime();
  CHECK(!readings.time());
  CHECK(readings.take(one, Command::Advance));
  CHECK(readings.time() == 200);
  CHECK(!readings.counters(ids));
  readings.follow(ids);
  CHECK(!readings.time());
  CHECK(readings.take(three, Command::Execute));
  CHECK(readings.time() == 100);
  REQUIRE(readings.counters(ids));
  CHECK((*readings.counters(ids))[1] == 8);
  CHECK(!readings.counters({4})); // Others than those that ride along.
  CHECK(!readings.counters({}));
  CHECK(readings.take({}, Command::Peek));
  CHECK(readings.time() == 100);
  CHECK(!readings.take(two, Command::Peek)); // Of a call that lets nothing happen.
  CHECK(readings.take({}, Command::Reset));
  CHECK(!readings.time());
  CHECK(!readings.counters(ids));
  CHECK(readings.take({}, Command::Execute)); // One could not be had.
  CHECK(!readings.time());
  CHECK(!readings.take(two, Command::Execute));
  readings = {};
  readings.follow(std::vector<uint32_t>(maxReadings + 1)); // Too many to ride along.
  CHECK(readings.take({}, Command::Execute));
}

TEST_CASE("a reply to something else is none") {
  std::vector<uint8_t> bytes = goodReply();
  CHECK(!ModelChannel::parseReply(bytes, Command::Execute, 6));
  CHECK(!ModelChannel::parseReply(bytes, Command::Peek, 5));
  bytes[20] = 0, bytes[19] = 0x7f; // A positive status.
  CHECK(!parse(bytes));
}

TEST_CASE("a reply cut short or with something behind it is none") {
  std::vector<uint8_t> bytes = goodReply();
  for (size_t size = 0; size < bytes.size(); ++size)
    CHECK(!parse(std::vector<uint8_t>(bytes.begin(), bytes.begin() + long(size))));
  bytes.push_back(0);
  CHECK(!parse(bytes));
}

TEST_CASE("a reply with any field at its extremes is refused or harmless") {
  for (size_t at = 0; at + 4 <= sizeof(ReplyHeader); at += 2)
    for (uint32_t value : {0u, 1u, 0x7fu, 0xffffu, 0x10000u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      std::vector<uint8_t> bytes = goodReply();
      memcpy(bytes.data() + at, &value, 4);
      if (auto reply = parse(bytes)) {
        CHECK(reply->body.size <= bytes.size());
        CHECK(reply->interrupts.size() <= 1);
        CHECK(reply->text.size() <= 4);
      }
    }
}

TEST_CASE("a plugin's table is taken apart, its text made printable") {
  auto parsed = table(goodTable());
  REQUIRE(parsed);
  CHECK(parsed->name == "name");
  CHECK(parsed->vectors == 4);
  CHECK(parsed->counters == 2);
  CHECK(parsed->facts.at("vendor") == "v?");
  REQUIRE(parsed->spaces.size() == 1);
  CHECK(parsed->spaces[0].size == 0x1000);
  REQUIRE(parsed->windows.size() == 1);
  CHECK(parsed->windows[0].name == "inside");
}

TEST_CASE("a table cut short, lengthened or with absurd counts is refused") {
  std::vector<uint8_t> bytes = goodTable();
  for (size_t size = 0; size < bytes.size(); ++size)
    CHECK(!table(std::vector<uint8_t>(bytes.begin(), bytes.begin() + long(size))));
  bytes.push_back(0);
  CHECK(!table(bytes));
  for (size_t at : {8, 12, 16, 24}) { // Vectors, counters, length of name, count of facts.
    bytes = goodTable();
    memset(bytes.data() + at, 0xff, 4);
    CHECK(!table(bytes));
  }
}

TEST_CASE("random damage to replies and tables does no harm") {
  std::mt19937_64 random(11);
  size_t taken = 0;
  for (int i = 0; i < 200000; ++i) {
    std::vector<uint8_t> bytes = i % 2 ? goodReply() : goodTable();
    for (uint64_t flips = 1 + random() % 3; flips; --flips)
      bytes[random() % bytes.size()] ^= uint8_t(1u << random() % 8);
    if (i % 2)
      taken += parse(bytes).has_value();
    else
      taken += table(bytes).has_value();
  }
  CHECK(taken > 0);      // Damage to content is not noticed here,
  CHECK(taken < 200000); // damage to structure is.
}

TEST_CASE("the writer does not write past its end, the reader not read past it") {
  uint8_t bytes[10] = {};
  WireWriter writer{bytes, 10};
  writer.put(uint64_t(1));
  CHECK(!writer.overflow);
  writer.put(uint32_t(2));
  CHECK(writer.overflow);
  writer.put(uint8_t(3));
  CHECK(writer.size == 8);
  WireReader reader{bytes, 10};
  reader.get<uint64_t>();
  CHECK(reader.get<uint32_t>() == 0);
  CHECK(reader.failed);
  CHECK(reader.get<uint8_t>() == 0); // Failed stays failed.
  WireReader longText{bytes, 10};
  size_t length = 9;
  memset(bytes, 0xff, 4);
  CHECK(longText.string(1000, &length) == nullptr);
  CHECK(length == 0);
}

TEST_CASE("the host process's memory against a byte-by-byte model") {
  constexpr uint64_t page = 4096, pages = 32;
  int fd = ::memfd_create("test", MFD_CLOEXEC);
  REQUIRE(::ftruncate(fd, pages * page) == 0);
  HostMemory memory;
  CHECK(!memory.open(fd, pages * page + 1));
  REQUIRE(memory.open(fd, pages * page));
  CHECK(!memory.map(0, 0, 0));
  CHECK(!memory.map(0, page, pages * page));
  CHECK(!memory.map(~uint64_t(0) - 10, page, 0));
  std::mt19937_64 random(5);
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> regions; // iova → size, offset
  std::map<uint64_t, uint64_t> bytes;                        // iova → offset, of mapped pages
  for (int step = 0; step < 20000; ++step) {
    uint64_t iova = random() % 40 * page, size = (1 + random() % 4) * page, offset = random() % pages * page;
    if (random() % 2) {
      bool free = offset + size <= pages * page;
      for (uint64_t p = 0; p < size; p += page)
        free = free && !bytes.count(iova + p);
      REQUIRE(memory.map(iova, size, offset) == free);
      if (free)
        regions[iova] = {size, offset};
      for (uint64_t p = 0; free && p < size; p += page)
        bytes[iova + p] = offset + p;
    } else {
      auto found = regions.find(iova);
      REQUIRE(memory.unmap(iova) == (found != regions.end()));
      if (found != regions.end()) {
        for (uint64_t p = 0; p < found->second.first; p += page)
          bytes.erase(iova + p);
        regions.erase(found);
      }
    }
    uint64_t at = random() % (45 * page), count = random() % (3 * page);
    bool covered = true;
    for (uint64_t p = at / page * page; count && p < at + count; p += page)
      covered = covered && bytes.count(p);
    std::vector<uint8_t> content(count, uint8_t(step)), back(count);
    REQUIRE(memory.write(at, content.data(), count) == covered);
    REQUIRE(memory.read(at, back.data(), count) == covered);
    if (covered && count) {
      uint64_t last = at + count - 1;
      uint8_t byte = 0;
      REQUIRE(::pread(fd, &byte, 1, long(bytes[last / page * page] + last % page)) == 1);
      REQUIRE(byte == uint8_t(step));
    }
  }
  ::close(fd);
}
