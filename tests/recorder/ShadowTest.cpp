// The client's parts that know memory: rows, and what a replay of the tape so far has in each byte.
#include "recorder/client/Fifo.h"
#include "recorder/client/MemoryShadow.h"
#include <cstring>
#include <doctest/doctest.h>
#include <random>
#include <set>
#include <vector>

using namespace tapeback::client;

namespace {

/// Gives back what it holds, as the client does when a device is closed.
struct Shadow : MemoryShadow {
  ~Shadow() { clear(); }
};

Rows rowsOf(uint64_t address, uint64_t bytes, uint64_t count = 1, uint64_t stride = 0) {
  Rows rows;
  REQUIRE(Rows::make(address, bytes, count, stride, rows));
  return rows;
}

} // namespace

TEST_CASE("rows that make no sense are refused, those that follow each other are one") {
  Rows rows;
  CHECK(!Rows::make(0, 0, 1, 0, rows));
  CHECK(!Rows::make(0, 1, 0, 0, rows));
  CHECK(!Rows::make(~uint64_t(0), 2, 1, 0, rows));
  CHECK(!Rows::make(8, 8, 2, ~uint64_t(0) - 8, rows));
  CHECK(!Rows::make(0, uint64_t(1) << 40, uint64_t(1) << 40, 0, rows));
  CHECK(Rows::make(~uint64_t(0), 1, 1, 0, rows));
  CHECK(rows.last() == ~uint64_t(0));
  CHECK(rowsOf(100, 8, 4, 8).count == 1);
  CHECK(rowsOf(100, 8, 4, 8).bytes == 32);
  CHECK(rowsOf(100, 8, 4, 16).count == 4);
  CHECK(rowsOf(100, 8, 4, 4).pieces().bytes == 20);
  CHECK(rowsOf(100, 8, 4, 0).pieces().bytes == 8);
  CHECK(rowsOf(100, 8, 4, 0).total() == 32);
}

TEST_CASE("overlap of rows and ranges is what a list of bytes says") {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    Rows rows = rowsOf(random() % 40, 1 + random() % 5, 1 + random() % 5, random() % 9);
    uint64_t first = random() % 80, length = random() % 12;
    std::set<uint64_t> bytes;
    for (uint64_t r = 0; r < rows.count; ++r)
      for (uint64_t b = 0; b < rows.bytes; ++b)
        bytes.insert(rows.address + r * rows.stride + b);
    bool overlaps = false;
    for (uint64_t at = first; at < first + length; ++at)
      overlaps |= bytes.count(at) != 0;
    CHECK_MESSAGE(rows.overlaps(first, length) == overlaps, rows.address, " ", rows.bytes, " ", rows.count,
                  " ", rows.stride, " : ", first, " ", length);
    CHECK(*bytes.rbegin() == rows.last());
    Rows other = rowsOf(random() % 40, 1 + random() % 5, 1 + random() % 5, random() % 9);
    bool meets = false;
    for (uint64_t r = 0; r < other.count; ++r)
      for (uint64_t b = 0; b < other.bytes; ++b)
        meets |= bytes.count(other.address + r * other.stride + b) != 0;
    if (meets)
      CHECK(rows.mayOverlap(other));
  }
}

TEST_CASE("a shadow knows what it learnt, and forgets what the device may write") {
  Shadow shadow;
  REQUIRE(shadow.add(0x1000, 0x1000, 0x800));
  uint8_t zero[64] = {}, text[64];
  std::memset(text, 'x', sizeof text);
  CHECK(shadow.knows(0x1000, zero, 64));
  CHECK(!shadow.knows(0x17f0, zero, 64)); // The tape says nothing of the rest.
  CHECK(!shadow.knows(0xff0, zero, 64));  // Not mapped.
  shadow.learn(0x1010, text, 16);
  CHECK(shadow.knows(0x1010, text, 16));
  CHECK(!shadow.knows(0x1010, zero, 16));
  CHECK(!shadow.knows(0x100f, text, 16));
  Rows rows = rowsOf(0x1100, 8, 4, 32);
  CHECK(shadow.covers(rows));
  CHECK(!shadow.owned(rows));
  shadow.take(rows);
  CHECK(shadow.owned(rows));
  CHECK(shadow.owned(rowsOf(0x1127, 1)));
  CHECK(!shadow.owned(rowsOf(0x1108, 24)));
  CHECK(!shadow.knows(0x1100, zero, 8));
  shadow.learn(0x1100, text, 64); // The host stored into it: still the device's where it is.
  CHECK(shadow.knows(0x1108, text, 24));
  CHECK(!shadow.knows(0x1100, text, 8));
  shadow.take(rows);
  shadow.release(rows);
  CHECK(shadow.owned(rows));
  shadow.release(rows);
  CHECK(!shadow.owned(rows));
  CHECK(!shadow.knows(0x1100, text, 8)); // Nobody saw what it wrote.
  shadow.learn(0x1100, text, 8);
  CHECK(shadow.knows(0x1100, text, 8));
  shadow.remove(0x1000);
  CHECK(shadow.empty());
  CHECK(!shadow.knows(0x1010, text, 1));
}

TEST_CASE("free runs lie between what is owned and what is not there") {
  Shadow shadow;
  REQUIRE(shadow.add(0x1000, 0x100, 0x100));
  REQUIRE(shadow.add(0x1200, 0x100, 0x100));
  shadow.take(rowsOf(0x1010, 16));
  shadow.take(rowsOf(0x12f0, 16));
  std::vector<std::pair<uint64_t, uint64_t>> runs;
  uint64_t from = 0, to = 0;
  for (uint64_t at = 0xf00; shadow.nextFree(at, 0x1400, from, to); at = to)
    runs.emplace_back(from, to);
  CHECK(runs ==
        std::vector<std::pair<uint64_t, uint64_t>>{{0x1000, 0x1010}, {0x1020, 0x1100}, {0x1200, 0x12f0}});
  Rows part;
  CHECK(shadow.leading(rowsOf(0x1080, 64, 3, 256), part));
  CHECK(part.count == 1);
  CHECK(shadow.leading(rowsOf(0x10f0, 64), part));
  CHECK(part.bytes == 16);
  CHECK(!shadow.leading(rowsOf(0x1100, 64), part));
  CHECK(shadow.size() == 0x200);
}

TEST_CASE("more owners than can be counted stay owners until all is given up") {
  Shadow shadow;
  REQUIRE(shadow.add(0, 4096, 4096));
  Rows rows = rowsOf(0, 8);
  for (int i = 0; i < 300; ++i)
    shadow.take(rows);
  for (int i = 0; i < 300; ++i)
    shadow.release(rows);
  CHECK(shadow.owned(rows));
  shadow.disown();
  CHECK(!shadow.owned(rows));
}

TEST_CASE("against a byte at a time") {
  struct Byte {
    uint8_t content = 0;
    unsigned owners = 0;
    bool known = true;
  };
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    Shadow shadow;
    std::vector<Byte> oracle(512);
    REQUIRE(shadow.add(0x4000, 512, 512));
    std::vector<Rows> taken;
    for (int step = 0; step < 300; ++step) {
      uint64_t at = random() % 500, length = 1 + random() % (512 - at);
      Rows rows = rowsOf(0x4000 + random() % 256, 1 + random() % 16, 1 + random() % 5, random() % 40);
      auto each = [&](const Rows &r, auto change) {
        std::set<uint64_t> bytes;
        for (uint64_t i = 0; i < r.count; ++i)
          for (uint64_t b = 0; b < r.bytes; ++b)
            bytes.insert(r.address + i * r.stride + b - 0x4000);
        for (uint64_t byte : bytes)
          change(oracle[byte]);
      };
      std::vector<uint8_t> content(length);
      for (uint8_t &byte : content)
        byte = random() % 2;
      switch (random() % 6) {
      case 0:
        shadow.take(rows);
        taken.push_back(rows);
        each(rows, [](Byte &b) {
          ++b.owners;
          b.known = false;
        });
        break;
      case 1:
        if (!taken.empty()) {
          shadow.release(taken.back());
          each(taken.back(), [](Byte &b) { --b.owners; });
          taken.pop_back();
        }
        break;
      case 2:
        shadow.learn(0x4000 + at, content.data(), length);
        for (uint64_t i = 0; i < length; ++i) {
          oracle[at + i].content = content[i];
          oracle[at + i].known = oracle[at + i].owners == 0;
        }
        break;
      case 3:
        shadow.forget(rows);
        each(rows, [](Byte &b) { b.known = false; });
        break;
      default: {
        bool owned = false, known = true;
        each(rows, [&](Byte &b) { owned |= b.owners != 0; });
        CHECK(shadow.owned(rows) == owned);
        for (uint64_t i = 0; i < length; ++i) {
          content[i] = oracle[at + i].content;
          known &= oracle[at + i].known && oracle[at + i].owners == 0;
        }
        CHECK(shadow.knows(0x4000 + at, content.data(), length) == known);
        CHECK(!shadow.contradicts(0x4000 + at, content.data(), length));
        content[length / 2] ^= 1;
        const Byte &byte = oracle[at + length / 2];
        CHECK(shadow.contradicts(0x4000 + at, content.data(), length) == (byte.known && !byte.owners));
        CHECK(!shadow.knows(0x4000 + at, content.data(), length));
      }
      }
    }
  }
}

TEST_CASE("a fifo gives back what it got, in order") {
  Fifo<unsigned> fifo;
  std::mt19937 random(1);
  unsigned in = 0, out = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 100 < (i < 10000 ? 60u : 40u)) {
      REQUIRE(fifo.push(in++));
    } else if (fifo.size()) {
      CHECK(fifo.front() == out++);
      fifo.pop();
    }
    CHECK(fifo.size() == in - out);
  }
  for (unsigned item : fifo)
    CHECK(item == out++);
  CHECK(out == in);
  fifo.release();
}
