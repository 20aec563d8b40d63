// A snapshot brings back everything: registers, time, what runs, host memory, mappings, interrupts not yet
// waited for.
#include "tests/hal/Targets.h"
#include <cstring>
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t factorialRegister = 0x08, statusRegister = 0x20, irqStatus = 0x24, irqRaise = 0x60,
                   irqAck = 0x64;

/// Does something random and says what it saw: two targets in the same state, with the same numbers, see the
/// same.
std::string step(Target &target, std::mt19937_64 &random, uint64_t iova) {
  uint64_t pick = random(), value = random();
  switch (pick % 9) {
  case 0: must(target.write(0, 4, 4, uint32_t(value))); break;
  case 1: must(target.write(0, factorialRegister, 4, value % 40)); break;
  case 2: must(target.write(0, statusRegister, 4, value & 0x80)); break;
  case 3: must(target.write(0, irqRaise, 4, uint32_t(value))); break;
  case 4: must(target.write(0, irqAck, 4, uint32_t(value))); break;
  case 5: must(target.advance(value % 60000000)); break;
  case 6: {
    bool from = value & 1;
    must(target.write(0, 0x80, 8, from ? 0x40000 + value % 64 : iova + value % 64));
    must(target.write(0, 0x88, 8, from ? iova + value % 8000 : 0x40000 + value % 64));
    must(target.write(0, 0x90, 8, 1 + value % 100));
    must(target.write(0, 0x98, 8, 1 | (from ? 2 : 0) | (value & 4)));
    break;
  }
  case 7: {
    uint8_t bytes[32];
    for (uint8_t &byte : bytes)
      byte = uint8_t(random());
    must(target.writeMemory(iova + value % 100, bytes));
    break;
  }
  default: {
    InterruptResult result = must(target.waitInterrupt(0, value % 1000000));
    return "irq " + std::to_string(result.count);
  }
  }
  std::string seen;
  for (uint64_t reg : {0x04, 0x08, 0x20, 0x24})
    seen += std::to_string(must(target.read(0, reg, 4))) + " ";
  for (uint64_t reg : {0x80, 0x88, 0x90, 0x98})
    seen += std::to_string(must(target.read(0, reg, 8))) + " ";
  uint8_t buffer[256], memory[8192];
  must(target.peek("buffer", 0, buffer));
  must(target.readMemory(iova, memory));
  seen.append(reinterpret_cast<char *>(buffer), sizeof buffer);
  seen.append(reinterpret_cast<char *>(memory), sizeof memory);
  return seen + std::to_string(must(target.deviceTime()));
}

std::vector<std::string> run(Target &target, uint64_t seed, int steps, uint64_t iova) {
  std::mt19937_64 random(seed);
  std::vector<std::string> seen;
  for (int i = 0; i < steps; ++i)
    seen.push_back(step(target, random, iova));
  return seen;
}

uint64_t mapPages(Target &target, uint64_t size, std::optional<uint64_t> iova = std::nullopt) {
  MapRequest request;
  request.size = size;
  request.iova = iova;
  return must(target.map(request)).iova;
}

} // namespace

TEST_CASE("what follows a restore is what followed the snapshot, exactly") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    auto target = open("model:edu");
    uint64_t iova = mapPages(*target, 8192 + 128);
    run(*target, seed, 40, iova);
    uint64_t snapshot = must(target->snapshot());
    std::vector<std::string> first = run(*target, seed + 1000, 60, iova);
    run(*target, seed + 2000, 30, iova);
    must(target->restore(snapshot));
    CHECK(run(*target, seed + 1000, 60, iova) == first);
    must(target->restore(snapshot)); // As often as one likes.
    CHECK(run(*target, seed + 1000, 60, iova) == first);
    // And the comparison can tell states apart.
    CHECK(run(*target, seed + 1000, 60, iova) != first);
  }
}

TEST_CASE("faults that count go on counting from where the snapshot was") {
  auto target = open("model:edu?fault=liveness&after=10");
  for (int i = 0; i < 5; ++i)
    CHECK(must(target->read(0, 4, 4)) == 0);
  uint64_t snapshot = must(target->snapshot());
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 20; ++i)
      CHECK(must(target->read(0, 4, 4)) == (i == 5 ? 1 : 0));
    must(target->restore(snapshot));
  }
}

TEST_CASE("interrupts that nobody waited for come back") {
  auto target = open("model:edu");
  must(target->write(0, irqRaise, 4, 1));
  must(target->write(0, irqRaise, 4, 2));
  uint64_t snapshot = must(target->snapshot());
  CHECK(must(target->waitInterrupt(0, 0)).count == 2);
  must(target->restore(snapshot));
  CHECK(must(target->waitInterrupt(0, 0)).count == 2);
  CHECK(must(target->read(0, irqStatus, 4)) == 3);
}

TEST_CASE("mappings come back as they were, at the same host pointers") {
  auto target = open("model:edu?memory=1");
  MapRequest request;
  request.size = 8192;
  MemoryRegion kept = must(target->map(request)), lost = must(target->map(request));
  std::memset(kept.host, 1, kept.size);
  std::memset(lost.host, 2, lost.size);
  uint64_t snapshot = must(target->snapshot());

  must(target->unmap(lost.iova));
  request.size = 4096;
  MemoryRegion later = must(target->map(request)); // Takes the place of what was lost.
  CHECK(later.iova == lost.iova);
  std::memset(later.host, 3, later.size);
  std::memset(kept.host, 4, kept.size);
  must(target->restore(snapshot));

  CHECK(kept.host[0] == 1);
  CHECK(kept.host[8191] == 1);
  CHECK(lost.host[0] == 2);
  CHECK(lost.host[8191] == 2);
  // The device reaches it too.
  must(target->write(0, 0x80, 8, lost.iova + 8000));
  must(target->write(0, 0x88, 8, 0x40000));
  must(target->write(0, 0x90, 8, 100));
  must(target->write(0, 0x98, 8, 1));
  must(target->advance(100000000));
  uint8_t byte = 0;
  must(target->peek("buffer", 99, byte));
  CHECK(byte == 2);
  must(target->unmap(lost.iova));
  must(target->unmap(kept.iova));
}

TEST_CASE("memory that was untouched at the snapshot is zero again") {
  auto target = open("model:edu");
  uint64_t iova = mapPages(*target, 1 << 20);
  uint64_t snapshot = must(target->snapshot());
  std::vector<uint8_t> content(1 << 20, 0x77);
  must(target->writeMemory(iova, content));
  must(target->restore(snapshot));
  must(target->readMemory(iova, content));
  CHECK(content == std::vector<uint8_t>(1 << 20, 0));
}

TEST_CASE("snapshots are numbers with an end, and bounded") {
  auto target = open("model:edu?memory=1");
  CHECK(failure(target->restore(1)).code == "unknown-snapshot");
  CHECK(failure(target->releaseSnapshot(1)).code == "unknown-snapshot");
  std::vector<uint64_t> ids;
  for (unsigned i = 0; i < target->capabilities().maxSnapshots; ++i) {
    must(target->write(0, 4, 4, i));
    ids.push_back(must(target->snapshot()));
  }
  CHECK(failure(target->snapshot()).code == "snapshot-limit");
  must(target->restore(ids[7]));
  CHECK(must(target->read(0, 4, 4)) == uint32_t(~7u));
  must(target->releaseSnapshot(ids[7]));
  CHECK(failure(target->restore(ids[7])).code == "unknown-snapshot");
  must(target->restore(ids[8]));
  CHECK(must(target->read(0, 4, 4)) == uint32_t(~8u));
  must(target->snapshot());
  for (uint64_t id : ids)
    if (id != ids[7])
      must(target->releaseSnapshot(id));

  // By content: 1 MiB of memory allows 4 MiB of snapshots.
  std::vector<uint8_t> content(1 << 20, 0x77);
  must(target->writeMemory(mapPages(*target, 1 << 20), content));
  for (int i = 0; i < 3; ++i)
    must(target->snapshot());
  CHECK(failure(target->snapshot()).code == "snapshot-limit");
  CHECK(must(target->read(0, 4, 4)) == uint32_t(~8u));
}

TEST_CASE("a model without snapshots says so") {
  auto target = open("model:" + plugin("newer-table"));
  CHECK(!target->capabilities().snapshots);
  CHECK(failure(target->snapshot()).code == "unsupported");
}
