// Which pages were stored to: every kind must name what was, and (but for comparing) nothing else.
#include "recorder/client/DirtyPages.h"
#include <atomic>
#include <cstring>
#include <doctest/doctest.h>
#include <set>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tapeback::client;

namespace {

constexpr uint64_t page = 4096;

/// Shared memory of a file, mapped twice: the second mapping is the device's.
struct TwoViews {
  explicit TwoViews(uint64_t pages) : bytes(pages * page) {
    int fd = memfd_create("pages", MFD_CLOEXEC);
    REQUIRE(fd >= 0);
    REQUIRE(ftruncate(fd, off_t(bytes)) == 0);
    host = static_cast<uint8_t *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    device = static_cast<uint8_t *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    REQUIRE(host != MAP_FAILED);
    REQUIRE(device != MAP_FAILED);
  }
  ~TwoViews() {
    munmap(host, bytes);
    munmap(device, bytes);
  }
  uint64_t bytes;
  uint8_t *host, *device;
};

std::set<uint64_t> collected(DirtyPages &dirty, uint8_t *base, uint64_t from, uint64_t pages) {
  std::set<uint64_t> found;
  REQUIRE(dirty.collect(base + from * page, pages * page, [&](uint8_t *at, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i += page)
      found.insert(uint64_t(at + i - base) / page);
  }));
  return found;
}

/// Runs `body` with each kind that this machine has.
template <typename Body>
void withEachKind(Body body) {
  unsigned ran = 0;
  for (DirtyPages::Kind kind : {DirtyPages::Kind::Scan, DirtyPages::Kind::SoftDirty}) {
    DirtyPages dirty;
    if (dirty.start(kind) == kind) {
      CAPTURE(DirtyPages::name(kind));
      body(dirty);
      ++ran;
    }
    dirty.stop();
  }
  if (!ran)
    MESSAGE("skipped: this kernel has neither PAGEMAP_SCAN nor soft-dirty bits");
}

TEST_CASE("pages: those stored to are named, once, and no others") {
  withEachKind([](DirtyPages &dirty) {
    TwoViews memory(300);
    REQUIRE(dirty.add(memory.host, memory.bytes));
    collected(dirty, memory.host, 0, 300); // What new mappings look like is the kernel's business.
    CHECK(collected(dirty, memory.host, 0, 300).empty());
    memory.host[7 * page + 13] = 1;
    memory.host[8 * page] = 1;
    memory.host[299 * page + 4095] = 1;
    CHECK(collected(dirty, memory.host, 0, 300) == std::set<uint64_t>{7, 8, 299});
    CHECK(collected(dirty, memory.host, 0, 300).empty());
    memory.host[7 * page] = 1; // Again, the same content.
    CHECK(collected(dirty, memory.host, 0, 300) == std::set<uint64_t>{7});
    dirty.remove(memory.host);
  });
}

TEST_CASE("pages: a part is asked about, the rest is told later") {
  withEachKind([](DirtyPages &dirty) {
    TwoViews memory(64), other(8);
    REQUIRE(dirty.add(memory.host, memory.bytes));
    REQUIRE(dirty.add(other.host, other.bytes));
    collected(dirty, memory.host, 0, 64);
    collected(dirty, other.host, 0, 8);
    memory.host[3 * page] = memory.host[40 * page] = other.host[2 * page] = 1;
    CHECK(collected(dirty, memory.host, 0, 16) == std::set<uint64_t>{3});
    CHECK(collected(dirty, other.host, 0, 8) == std::set<uint64_t>{2});
    CHECK(collected(dirty, memory.host, 0, 64) == std::set<uint64_t>{40});
    dirty.remove(other.host);
    memory.host[5 * page] = 1;
    CHECK(collected(dirty, memory.host, 0, 64) == std::set<uint64_t>{5});
  });
}

TEST_CASE("pages: what a device writes through a mapping of its own is not the host's") {
  withEachKind([](DirtyPages &dirty) {
    TwoViews memory(16);
    REQUIRE(dirty.add(memory.host, memory.bytes));
    collected(dirty, memory.host, 0, 16);
    memory.device[4 * page] = 7; // A page that nobody had touched.
    CHECK(memory.host[4 * page] == 7);
    CHECK(collected(dirty, memory.host, 0, 16).empty());
    memory.host[4 * page + 1] = 8;
    CHECK(collected(dirty, memory.host, 0, 16) == std::set<uint64_t>{4});
  });
}

TEST_CASE("pages: no store of another thread is missed between looking and beginning anew") {
  DirtyPages dirty;
  if (dirty.start() != DirtyPages::Kind::Scan) {
    MESSAGE("skipped: this kernel has no PAGEMAP_SCAN");
    dirty.stop();
    return;
  }
  TwoViews memory(64);
  REQUIRE(dirty.add(memory.host, memory.bytes));
  // The other thread counts up in every page; the shadow follows by what is said to be stored to.
  std::atomic<bool> stop{false};
  std::atomic<unsigned> rounds{0};
  std::thread writer([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      for (uint64_t i = 0; i < 64; ++i)
        reinterpret_cast<std::atomic<uint32_t> *>(memory.host + i * page)->fetch_add(1);
      rounds.fetch_add(1);
    }
  });
  std::vector<uint32_t> shadow(64, 0);
  auto follow = [&] {
    for (uint64_t i : collected(dirty, memory.host, 0, 64))
      shadow[i] = reinterpret_cast<std::atomic<uint32_t> *>(memory.host + i * page)->load();
  };
  for (unsigned looks = 0; looks < 200 || rounds.load() < 20; ++looks)
    follow();
  stop.store(true);
  writer.join();
  follow();
  for (uint64_t i = 0; i < 64; ++i)
    CHECK(shadow[i] == reinterpret_cast<std::atomic<uint32_t> *>(memory.host + i * page)->load());
  dirty.stop();
}

TEST_CASE("pages: where nothing is known, every page may have been stored to") {
  DirtyPages dirty;
  CHECK(dirty.start(DirtyPages::Kind::None) == DirtyPages::Kind::None);
  TwoViews memory(4);
  REQUIRE(dirty.add(memory.host, memory.bytes));
  CHECK(collected(dirty, memory.host, 1, 2) == std::set<uint64_t>{1, 2});
  CHECK_FALSE(dirty.add(memory.host + 1, page));
  CHECK_FALSE(dirty.add(memory.host, page + 1));
  dirty.stop();
}

} // namespace
