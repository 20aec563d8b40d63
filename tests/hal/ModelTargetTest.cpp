// A model as a target: what a plugin offers arrives, unchanged, on the other side of the process boundary.
#include "hal/model/ModelTarget.h"
#include "hal/TargetLook.h"
#include "tests/hal/Targets.h"
#include <csignal>
#include <cstring>
#include <random>

using namespace tapeback;
using namespace tapeback::test;

namespace {

std::unique_ptr<Target> openV1(const std::string &options = "") {
  return open("model:" + plugin("abi-v1") + options);
}

} // namespace

TEST_CASE("a plugin built against version 1.0 of the ABI works whole") {
  auto target = openV1("?scratch=77");
  CHECK(target->identity().name == "abi-v1");
  CHECK(target->identity().kind == "model");
  CHECK(target->identity().facts.at("vendor") == "nobody");
  TargetCapabilities can = target->capabilities();
  CHECK(can.memory);
  CHECK(can.chooseIova);
  CHECK(can.interrupts);
  CHECK(can.interruptVectors == 2);
  CHECK(can.counters);
  CHECK(can.deviceTime);
  CHECK(can.peek);
  CHECK(can.snapshots);
  CHECK(can.maxSnapshots > 0);
  CHECK(can.answers);
  REQUIRE(target->spaces().size() == 1);
  CHECK(target->spaces()[0].name == "regs");
  CHECK(target->spaces()[0].size == 64);

  SUBCASE("registers") {
    CHECK(must(target->read(0, 0, 8)) == 77);
    must(target->write(0, 0, 8, 0x1122334455667788));
    CHECK(must(target->read(0, 0, 8)) == 0x1122334455667788);
    CHECK(must(target->deviceTime()) == 30);
  }
  SUBCASE("failures keep the plugin's words, and it lives on") {
    Failure f = failure(target->read(0, 0, 4));
    CHECK(f.cls == FailureClass::Usage);
    CHECK(f.code == "refused-by-model");
    CHECK(contains(f.message, "64-bit accesses only"));
    f = failure(target->read(0, 0x28, 8));
    CHECK(f.cls == FailureClass::Target);
    CHECK(f.code == "bus-error");
    CHECK(contains(f.message, "nothing there"));
    CHECK(must(target->read(0, 0, 8)) == 77);
  }
  SUBCASE("illegal accesses do not reach it") {
    CHECK(failure(target->read(0, 60, 8)).code == "out-of-space");
    CHECK(failure(target->read(1, 0, 8)).code == "unknown-space");
    CHECK(failure(target->write(0, 0, 5, 0)).code == "bad-width");
    CHECK(must(target->deviceTime()) == 0);
  }
  SUBCASE("counters") {
    must(target->write(0, 0x18, 8, 0));
    CHECK(must(target->counter(2)) == 12);
    CHECK(failure(target->counter(3)).code == "unknown-counter");
    // More than go into one message.
    std::vector<uint32_t> ids(5000);
    std::vector<uint64_t> values(ids.size()), alone(ids.size());
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = uint32_t(i % 3);
    must(target->counters(ids, values));
    for (uint32_t id : {0u, 1u, 2u})
      alone[id] = must(target->counter(id));
    for (size_t i = 0; i < ids.size(); ++i)
      CHECK(values[i] == alone[i % 3]);
    ids.back() = 3;
    CHECK(failure(target->counters(ids, values)).code == "unknown-counter");
  }
  SUBCASE("time and counters that came with an answer are those that asking gives") {
    auto step = [](Target &target, unsigned number) {
      switch (number) {
      case 0: must(target.write(0, 0x18, 8, 0)); break;
      case 1: CHECK(must(target.read(0, 0, 8)) == 77); break;
      case 2: must(target.advance(1000)); break;
      case 3: CHECK(failure(target.read(0, 0, 4)).code == "refused-by-model"); break;
      case 4: must(target.write(0, 0, 8, 5)); break;
      case 5: must(target.reset(ResetKind::Bus)); break;
      default: must(target.write(0, 0x18, 8, 0)); break;
      }
    };
    const uint32_t ids[] = {2, 0, 1};
    bool changed = false;
    uint64_t earlier = 0;
    for (unsigned last = 0; last < 8; ++last) {
      step(*target, last);
      std::unique_ptr<Target> other = openV1("?scratch=77");
      for (unsigned number = 0; number <= last; ++number)
        step(*other, number);
      uint64_t followed[3] = {}, asked[3] = {};
      const uint64_t time = must(target->deviceTime());
      CHECK(time == must(other->deviceTime()));
      must(target->counters(ids, followed));
      must(other->counters(ids, asked));
      for (unsigned i = 0; i < 3; ++i)
        CHECK(followed[i] == asked[i]);
      changed |= time != earlier;
      earlier = time;
    }
    CHECK(changed);
    // And there is nobody asked: the host process is gone.
    must(target->write(0, 0x18, 8, 0));
    const uint64_t time = must(target->deviceTime());
    must(target->write(0, 0x18, 8, 0));
    std::vector<pid_t> hosts = children();
    REQUIRE(hosts.size() == 1);
    REQUIRE(kill(hosts[0], SIGKILL) == 0);
    uint64_t values[3] = {};
    CHECK(must(target->deviceTime()) > time);
    must(target->counters(ids, values));
    CHECK(failure(target->write(0, 0x18, 8, 0)).code == "target-died");
    CHECK(failure(target->deviceTime()).code == "target-died");
  }
  SUBCASE("reset says which kind") {
    must(target->reset(ResetKind::Bus));
    CHECK(must(target->read(0, 0, 8)) == 0xee02);
  }
  SUBCASE("DMA both ways, and peek") {
    MapRequest request;
    request.size = 4096;
    MemoryRegion region = must(target->map(request));
    std::memcpy(region.host + 100, "hello", 5);
    must(target->write(0, 0x08, 8, region.iova + 100));
    must(target->write(0, 0x10, 8, 5));
    must(target->write(0, 0x18, 8, 1));
    uint8_t cell[8] = {};
    must(target->peek("cell", 0, cell));
    CHECK(std::memcmp(cell, "hello\0\0\0", 8) == 0);
    must(target->write(0, 0x08, 8, region.iova + 4091));
    must(target->write(0, 0x18, 8, 2));
    CHECK(std::memcmp(region.host + 4091, "hello", 5) == 0);
    // One byte too far: nothing moves.
    std::memset(region.host + 4091, 0, 5);
    must(target->write(0, 0x08, 8, region.iova + 4092));
    CHECK(failure(target->write(0, 0x18, 8, 2)).code == "bus-error");
    CHECK(region.host[4092] == 0);
    CHECK(failure(target->peek("cell", 60, cell)).code == "out-of-window");
    CHECK(failure(target->peek("call", 0, cell)).code == "unknown-window");
  }
  SUBCASE("interrupts are seen once") {
    CHECK(!must(target->waitInterrupt(1, 100)).fired);
    must(target->write(0, 0x18, 8, 3));
    must(target->write(0, 0x18, 8, 3));
    InterruptResult result = must(target->waitInterrupt(1, 100));
    CHECK(result.fired);
    CHECK(result.count == 2);
    CHECK(!must(target->waitInterrupt(1, 100)).fired);
    CHECK(failure(target->waitInterrupt(2, 100)).code == "unknown-vector");
  }
  SUBCASE("time passes until the interrupt, no further") {
    must(target->write(0, 0x18, 8, 4));
    uint64_t start = must(target->deviceTime());
    CHECK(!must(target->waitInterrupt(0, 400000)).fired);
    CHECK(must(target->deviceTime()) == start + 400000);
    CHECK(must(target->waitInterrupt(0, 10000000)).fired);
    CHECK(must(target->deviceTime()) == start + 1000000);
  }
  SUBCASE("an interrupt of another vector does not end a wait") {
    must(target->write(0, 0x18, 8, 3));
    must(target->write(0, 0x18, 8, 4));
    CHECK(must(target->waitInterrupt(0, 10000000)).fired);
    CHECK(must(target->waitInterrupt(1, 0)).fired);
  }
  SUBCASE("reset forgets interrupts that nobody waited for") {
    must(target->write(0, 0x18, 8, 3));
    must(target->reset(ResetKind::Default));
    CHECK(!must(target->waitInterrupt(1, 0)).fired);
  }
}

TEST_CASE("a plugin built against version 1.1 of the ABI can be looked at, one of 1.0 cannot") {
  CHECK(lookableTarget(*openV1()) == nullptr);
  auto target = open("model:" + plugin("abi-v1.1"));
  LookableTarget *lookable = lookableTarget(*target);
  REQUIRE(lookable);
  TargetLook look;
  look.registers = {TargetOperation::read(0, 0, 4)};
  look.windows = {"cell"};
  for (uint64_t word : {0u, 0x1234u, 0x1234u, 0x99u}) {
    must(target->write(0, 0, 4, word));
    must(lookable->look(look));
    CHECK(look.registers[0].value == word);
    REQUIRE(look.contents.size() == 1);
    CHECK(look.contents[0] == llvm::ArrayRef<uint8_t>(std::vector<uint8_t>(3000, uint8_t(word))));
  }
  CHECK(must(target->read(0, 4, 4)) == 0); // Nothing of that was a read.
  TargetLook wrong = look;
  wrong.windows = {"cell", "no such"};
  CHECK(failure(lookable->look(wrong)).code == "unknown-window");
  wrong = look;
  wrong.registers[0].address = 8;
  CHECK(failure(lookable->look(wrong)).code == "out-of-space");
  wrong = look;
  wrong.counters = {0};
  CHECK(failure(lookable->look(wrong)).code == "unknown-counter");
  CHECK(lookableTarget(*target) == lookable); // So far it has refused nothing.
  // What fails may have been shown in part: that target is not looked at again, and works otherwise.
  must(target->write(0, 0, 4, 13));
  CHECK(failure(lookable->look(look)).code == "model-error");
  CHECK(lookableTarget(*target) == nullptr);
  CHECK(failure(lookable->look(look)).code == "unsupported");
  CHECK(must(target->read(0, 0, 4)) == 13);
  auto other = open("model:" + plugin("abi-v1.1"));
  wrong = look;
  wrong.registers[0].address = 4; // It says itself that this is none to look at.
  CHECK(failure(lookableTarget(*other)->look(wrong)).cls == FailureClass::Usage);
}

TEST_CASE("a plugin's own options are refused in its own words") {
  Failure f = failure(openTarget("model:" + plugin("abi-v1") + "?scrtch=1"));
  CHECK(f.cls == FailureClass::Usage);
  CHECK(f.code == "bad-model-option");
  CHECK(contains(f.message, "the only option is scratch"));
}

TEST_CASE("a batch goes in one message, and large ones in several") {
  auto target = openV1();
  std::vector<TargetOperation> batch(10000);
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].kind = i % 2 ? TargetOperation::Kind::Read : TargetOperation::Kind::Write;
    batch[i].width = 8;
    batch[i].value = i;
    batch[i].packet = i;
  }
  size_t completed = 0;
  must(target->submit(batch, &completed));
  CHECK(completed == batch.size());
  for (size_t i = 1; i < batch.size(); i += 2)
    REQUIRE(batch[i].value == i - 1);
}

TEST_CASE("a batch's failure names its packet, and what came before has happened") {
  auto target = openV1();
  std::vector<TargetOperation> batch(5000);
  for (size_t i = 0; i < batch.size(); ++i) {
    batch[i].kind = TargetOperation::Kind::Write;
    batch[i].width = 8;
    batch[i].value = i;
    batch[i].packet = 100000 + i;
  }
  size_t completed = 0;
  SUBCASE("refused by the device") {
    batch[3333].address = 0x28;
    Failure f = failure(target->submit(batch, &completed));
    CHECK(f.code == "bus-error");
    CHECK(contains(f.where, "packet 103333"));
  }
  SUBCASE("refused by us") {
    batch[3333].address = 0x40;
    Failure f = failure(target->submit(batch, &completed));
    CHECK(f.code == "out-of-space");
    CHECK(contains(f.where, "packet 103333"));
  }
  CHECK(completed == 3333);
  CHECK(must(target->read(0, 0, 8)) == 3332);
}

TEST_CASE("memory writes of a batch keep their place, whatever their size") {
  auto target = openV1();
  MapRequest request;
  request.size = 1 << 20;
  MemoryRegion region = must(target->map(request));
  std::mt19937 random(3);
  std::vector<std::vector<uint8_t>> contents;
  for (size_t size : {0, 1, 64, 60000, 65536, 65537, 300000, 7}) {
    contents.emplace_back(size);
    for (uint8_t &byte : contents.back())
      byte = uint8_t(random());
  }
  // Each content is followed by a copy of its first bytes into the device: it must see this one, not the
  // next.
  std::vector<TargetOperation> batch;
  auto add = [&](TargetOperation::Kind kind, uint64_t address, uint64_t value) -> TargetOperation & {
    TargetOperation made;
    made.kind = kind;
    made.width = 8;
    made.address = address;
    made.value = value;
    batch.push_back(made);
    return batch.back();
  };
  using Kind = TargetOperation::Kind;
  for (size_t i = 0; i < contents.size(); ++i) {
    TargetOperation &write = add(Kind::WriteMemory, region.iova, 0);
    write.data = contents[i].data();
    write.length = contents[i].size();
    add(Kind::Write, 0x08, region.iova);
    add(Kind::Write, 0x10, 8);
    add(Kind::Write, 0x18, 1);
    add(Kind::Write, 0x08, region.iova + 512 * 1024 + i * 8);
    add(Kind::Write, 0x18, 2);
  }
  size_t completed = 0;
  must(target->submit(batch, &completed));
  CHECK(completed == batch.size());
  std::vector<uint8_t> first(8, 0);
  for (size_t i = 0; i < contents.size(); ++i) {
    std::copy_n(contents[i].begin(), std::min<size_t>(8, contents[i].size()), first.begin());
    CAPTURE(i);
    CHECK(std::memcmp(region.host + 512 * 1024 + i * 8, first.data(), 8) == 0);
  }
  batch.resize(1);
  batch[0].address = region.iova + region.size;
  batch[0].length = 1;
  batch[0].packet = 5;
  Failure f = failure(target->submit(batch, &completed));
  CHECK(f.code == "unmapped-memory");
  CHECK(contains(f.where, "packet 5"));
}

TEST_CASE("memory is at the address wished for, is zero, and is zero again after unmap") {
  auto target = openV1("?memory=1");
  MapRequest request;
  request.size = 8192;
  request.iova = 0xfff000;
  MemoryRegion region = must(target->map(request));
  CHECK(region.iova == 0xfff000);
  CHECK(failure(target->map(request)).code == "iova-unavailable");
  for (uint64_t i = 0; i < region.size; ++i)
    REQUIRE(region.host[i] == 0);
  std::memset(region.host, 0xaa, region.size);
  must(target->unmap(region.iova));
  CHECK(failure(target->unmap(region.iova)).code == "unmapped-memory");
  region = must(target->map(request));
  for (uint64_t i = 0; i < region.size; ++i)
    REQUIRE(region.host[i] == 0);
  request.iova.reset();
  request.size = 2 << 20;
  CHECK(failure(target->map(request)).code == "no-device-memory");
}

TEST_CASE("a range may span regions that touch") {
  auto target = openV1();
  MapRequest request;
  request.size = 4096;
  request.iova = 0x20000;
  MemoryRegion low = must(target->map(request));
  request.iova = 0x30000; // In between, so that the two that touch lie apart in the store.
  must(target->map(request));
  request.iova = 0x21000;
  MemoryRegion high = must(target->map(request));
  uint8_t bytes[16];
  for (int i = 0; i < 16; ++i)
    bytes[i] = uint8_t(i + 1);
  must(target->writeMemory(0x20ff8, bytes));
  CHECK(low.host[4095] == 8);
  CHECK(high.host[0] == 9);
  // The device sees it the same way.
  must(target->write(0, 0x08, 8, 0x20ff8));
  must(target->write(0, 0x10, 8, 16));
  must(target->write(0, 0x18, 8, 1));
  uint8_t cell[16] = {};
  must(target->peek("cell", 0, cell));
  CHECK(std::memcmp(cell, bytes, 16) == 0);
  std::memset(bytes, 0, 16);
  must(target->readMemory(0x20ff8, bytes));
  CHECK(bytes[15] == 16);
  CHECK(failure(target->readMemory(0x21ff8, bytes)).code == "unmapped-memory");
}

TEST_CASE("thousands of regions") {
  auto target = openV1();
  MapRequest request;
  request.size = 4096;
  std::vector<MemoryRegion> regions;
  for (int i = 0; i < 3000; ++i) {
    regions.push_back(must(target->map(request)));
    regions.back().host[0] = uint8_t(i);
  }
  for (int i = 0; i < 3000; i += 2)
    must(target->unmap(regions[size_t(i)].iova));
  must(target->write(0, 0x10, 8, 1));
  for (int i = 1; i < 3000; i += 97 * 2) {
    must(target->write(0, 0x08, 8, regions[size_t(i)].iova));
    must(target->write(0, 0x18, 8, 1));
    uint8_t byte = 0;
    must(target->peek("cell", 0, byte));
    CHECK(byte == uint8_t(i));
    must(target->write(0, 0x08, 8, regions[size_t(i - 1)].iova));
    CHECK(failure(target->write(0, 0x18, 8, 1)).code == "bus-error");
  }
}
