// The device through the target: registers, DMA, interrupts, time, reset.
#include "hal/qemu/PciSetup.h"
#include "hal/qemu/QemuMachine.h"
#include "tests/hal/qemu/EduDriver.h"
#include "tests/hal/qemu/Processes.h"
#include <cstring>
#include <numeric>

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("qemu:edu says who it is and what it can") {
  TB_NEED_QEMU();
  for (const char *uri : {"qemu:edu", "qemu:edu?machine=pc", "qemu:edu?time=real&ram=32M"}) {
    CAPTURE(uri);
    Edu edu(uri);
    const TargetIdentity &identity = edu.target->identity();
    CHECK(identity.uri == uri);
    CHECK(identity.kind == "qemu");
    CHECK(identity.name == "edu");
    CHECK(identity.facts.at("vendor") == "0x1234");
    CHECK(identity.facts.at("device") == "0x11e8");
    CHECK(identity.facts.at("revision") == "0x10");
    CHECK(identity.facts.at("qemu").find('.') != std::string::npos);
    TargetCapabilities can = edu.target->capabilities();
    CHECK(can.memory);
    CHECK(can.chooseIova);
    CHECK(can.interrupts);
    CHECK(can.interruptVectors == 1);
    CHECK(can.reset);
    CHECK(can.deviceTime);
    CHECK(!can.peek);
    CHECK(!can.snapshots);
    REQUIRE(edu.target->findSpace("bar0") == TargetSpaceId(0));
    CHECK(edu.target->spaces()[0].size == 1u << 20);
    CHECK(edu.read(eduIdent) == 0x010000ed);
  }
}

TEST_CASE("liveness is the complement of what was written") {
  TB_NEED_QEMU();
  Edu edu;
  for (uint32_t value : {0u, 1u, 0x12345678u, 0xffffffffu}) {
    edu.write(eduLiveness, value);
    CHECK(edu.read(eduLiveness) == uint32_t(~value));
  }
}

TEST_CASE("bad accesses are the caller's fault and harm nothing") {
  TB_NEED_QEMU();
  Edu edu;
  CHECK(failureOf(edu.target->read(0, 0, 3)).code == "bad-width");
  CHECK(failureOf(edu.target->read(0, 2, 4)).code == "unaligned-access");
  CHECK(failureOf(edu.target->write(0, 0x84, 8, 0)).code == "unaligned-access");
  CHECK(failureOf(edu.target->read(1, 0, 4)).code == "unknown-space");
  CHECK(failureOf(edu.target->read(0, 0x100000, 4)).code == "out-of-space");
  CHECK(failureOf(edu.target->read(0, ~0ull - 3, 4)).code == "out-of-space");
  CHECK(failureOf(edu.target->waitInterrupt(1, 0)).code == "unknown-vector");
  CHECK(failureOf(edu.target->readMemory(0x1000000, {})).code == "unmapped-memory");
  CHECK(failureOf(edu.target->peek("buffer", 0, {})).code == "unsupported");
  CHECK(failureOf(edu.target->snapshot()).code == "unsupported");
  CHECK(edu.read(eduIdent) == 0x010000ed);
}

TEST_CASE("64-bit accesses reach edu whole") {
  TB_NEED_QEMU();
  Edu edu;
  edu.write(eduDmaSource, 0x123456789abcdef0, 8);
  CHECK(edu.read(eduDmaSource, 8) == 0x123456789abcdef0);
  // Below 0x80 edu answers 32 bits only. Two halves would have been IDENT and LIVENESS.
  CHECK(edu.read(eduIdent, 8) == ~0ull);
}

TEST_CASE("factorials by polling") {
  TB_NEED_QEMU();
  for (const char *uri : {"qemu:edu", "qemu:edu?time=real"}) {
    Edu edu(uri);
    uint32_t expected = 1;
    for (uint32_t n = 0; n <= 20; ++n) {
      expected *= n ? n : 1;
      CHECK(edu.factorial(n) == expected);
    }
  }
}

TEST_CASE("DMA carries every byte, both ways, and no other") {
  TB_NEED_QEMU();
  Edu edu;
  MapRequest request;
  request.size = 4 * 4096;
  MemoryRegion region = must(edu.target->map(request));
  REQUIRE(region.host);
  struct {
    uint64_t from, offset, count, to;
  } cases[] = {{0, 0, 4095, 8192},
               {1, 3, 1, 8195},
               {4090, 7, 100, 12280},
               {4095, 0, 2, 8191},
               {100, 1000, 3000, 8200}};
  for (auto [from, offset, count, to] : cases) {
    CAPTURE(from);
    CAPTURE(count);
    for (uint64_t i = 0; i < region.size; ++i)
      region.host[i] = uint8_t(i * 7 + i / 256);
    std::vector<uint8_t> expected(region.host, region.host + region.size);
    edu.dma(Edu::ToDevice, region.iova + from, offset, count);
    std::memset(region.host + from, 0, count);
    std::memset(expected.data() + from, 0, count);
    std::vector<uint8_t> moved(count);
    for (uint64_t i = 0; i < count; ++i)
      moved[i] = uint8_t((from + i) * 7 + (from + i) / 256);
    std::memcpy(expected.data() + to, moved.data(), count);
    edu.dma(Edu::FromDevice, region.iova + to, offset, count);
    CHECK(std::memcmp(region.host, expected.data(), region.size) == 0);
  }
}

TEST_CASE("interrupts by message: factorial and DMA, fired once, then not again") {
  TB_NEED_QEMU();
  for (const char *uri : {"qemu:edu", "qemu:edu?machine=pc", "qemu:edu?time=real"}) {
    CAPTURE(uri);
    Edu edu(uri);
    CHECK(!must(edu.target->waitInterrupt(0, 0)).fired);

    edu.write(eduStatus, 0x80);
    edu.write(eduFactorial, 10);
    InterruptResult result = must(edu.target->waitInterrupt(0, 10 * second));
    CHECK(result.fired);
    CHECK(result.count == 1);
    CHECK(edu.read(eduIrqStatus) == 1);
    CHECK(edu.read(eduFactorial) == 3628800);
    edu.write(eduIrqAck, 1);
    CHECK(edu.read(eduIrqStatus) == 0);
    CHECK(!must(edu.target->waitInterrupt(0, 1'000'000)).fired);

    MapRequest request;
    request.size = 4096;
    MemoryRegion region = must(edu.target->map(request));
    std::memset(region.host, 0x5a, 64);
    edu.startDma(Edu::ToDevice, region.iova, 0, 64, true);
    CHECK(must(edu.target->waitInterrupt(0, 10 * second)).fired);
    CHECK(edu.read(eduIrqStatus) == 0x100);
    edu.write(eduIrqAck, 0x100);
    std::memset(region.host, 0, 64);
    edu.startDma(Edu::FromDevice, region.iova, 0, 64, true);
    CHECK(must(edu.target->waitInterrupt(0, 10 * second)).fired);
    CHECK(region.host[0] == 0x5a);
    CHECK(region.host[63] == 0x5a);
  }
}

TEST_CASE("interrupts that come between two looks coalesce and are still seen") {
  TB_NEED_QEMU();
  Edu edu;
  // Seen one by one where each is followed by a read …
  for (uint32_t i = 0; i < 5; ++i) {
    edu.write(eduIrqRaise, 1u << i);
    CHECK(edu.read(eduIrqStatus) == (2u << i) - 1);
  }
  CHECK(must(edu.target->waitInterrupt(0, second)).count == 5);
  // … and at least one where they are not.
  for (uint32_t i = 0; i < 5; ++i)
    edu.write(eduIrqRaise, 1);
  InterruptResult result = must(edu.target->waitInterrupt(0, second));
  CHECK(result.fired);
  CHECK(result.count >= 1);
  CHECK(result.count <= 5);
}

TEST_CASE("an interrupt that does not come is waited for no longer than asked") {
  TB_NEED_QEMU();
  for (auto [uri, least] : {std::pair{"qemu:edu", 50}, {"qemu:edu?time=real", 50}}) {
    Edu edu(uri);
    auto start = std::chrono::steady_clock::now();
    InterruptResult result = must(edu.target->waitInterrupt(0, 50'000'000));
    auto elapsed = std::chrono::steady_clock::now() - start;
    CHECK(!result.fired);
    CHECK(result.count == 0);
    CHECK(elapsed >= std::chrono::milliseconds(least));
    CHECK(elapsed < std::chrono::seconds(5));
  }
  // Virtual deadlines are virtual: an hour passes in about a second.
  Edu edu;
  auto start = std::chrono::steady_clock::now();
  CHECK(!must(edu.target->waitInterrupt(0, 3600 * second)).fired);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(8));
  CHECK(must(edu.target->deviceTime()) >= 3600 * second);
}

TEST_CASE("virtual time stands still, jumps to the device's timer, and moves on when told") {
  TB_NEED_QEMU();
  Edu edu;
  uint64_t start = must(edu.target->deviceTime());
  for (int i = 0; i < 100; ++i)
    edu.read(eduIdent);
  CHECK(must(edu.target->deviceTime()) == start);
  must(edu.target->advance(12'345'678));
  CHECK(must(edu.target->deviceTime()) == start + 12'345'680); // The clock's step is 10 ns.
  must(edu.target->advance(0));
  must(edu.target->advance(3600 * second));
  uint64_t later = must(edu.target->deviceTime());
  CHECK(later == start + 12'345'680 + 3600 * second);

  MapRequest request;
  request.size = 4096;
  MemoryRegion region = must(edu.target->map(request));
  edu.dma(Edu::ToDevice, region.iova, 0, 64);
  uint64_t elapsed = must(edu.target->deviceTime()) - later;
  CHECK(elapsed >= 99'000'000); // The device takes whole milliseconds, 100 of them.
  CHECK(elapsed <= 101'000'000);
  CHECK(failureOf(edu.target->advance(~0ull)).code == "bad-advance");
  CHECK(edu.read(eduIdent) == 0x010000ed);
}

TEST_CASE("real time follows the host's") {
  TB_NEED_QEMU();
  Edu edu("qemu:edu?time=real");
  auto hostStart = std::chrono::steady_clock::now();
  uint64_t start = must(edu.target->deviceTime());
  must(edu.target->advance(20'000'000));
  uint64_t elapsed = must(edu.target->deviceTime()) - start;
  auto host = std::chrono::nanoseconds(std::chrono::steady_clock::now() - hostStart).count();
  CHECK(elapsed >= 20'000'000);
  CHECK(elapsed <= uint64_t(host) + 1'000'000);
}

TEST_CASE("an idle machine costs no processor time") {
  TB_NEED_QEMU();
  Edu edu;
  std::vector<pid_t> running = childrenNamed(::getpid(), "qemu-system");
  REQUIRE(running.size() == 1);
  auto ticks = [&] {
    std::ifstream file("/proc/" + std::to_string(running[0]) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string field;
    long user = 0, system = 0;
    for (int i = 3; i <= 15 && fields >> field; ++i) {
      if (i == 14)
        user = std::atol(field.c_str());
      if (i == 15)
        system = std::atol(field.c_str());
    }
    return user + system;
  };
  long before = ticks();
  CHECK(!must(edu.target->waitInterrupt(0, second)).fired); // A second of nothing.
  CHECK(double(ticks() - before) / double(::sysconf(_SC_CLK_TCK)) < 0.3);
}

TEST_CASE("batches are carried out in order and count what they did") {
  TB_NEED_QEMU();
  Edu edu;
  MapRequest request;
  request.size = 4096;
  MemoryRegion region = must(edu.target->map(request));
  std::vector<uint8_t> payload(256);
  std::iota(payload.begin(), payload.end(), uint8_t(0));

  std::vector<TargetOperation> batch;
  auto add = [&](TargetOperation::Kind kind, uint64_t address, uint8_t width, uint64_t value) {
    TargetOperation operation;
    operation.kind = kind;
    operation.address = address;
    operation.width = width;
    operation.value = value;
    operation.packet = 1000 + batch.size();
    batch.push_back(operation);
  };
  using Kind = TargetOperation::Kind;
  for (uint32_t i = 0; i < 500; ++i) { // Far more than may be unanswered at a time.
    add(Kind::Write, eduLiveness, 4, i);
    add(Kind::Read, eduLiveness, 4, 0);
  }
  add(Kind::WriteMemory, region.iova + 8, 0, 0);
  batch.back().data = payload.data();
  batch.back().length = payload.size();
  add(Kind::Read, eduIdent, 4, 0);
  size_t completed = 0;
  must(edu.target->submit(batch, &completed));
  CHECK(completed == batch.size());
  for (uint32_t i = 0; i < 500; ++i)
    REQUIRE(batch[2 * i + 1].value == uint32_t(~i));
  CHECK(batch.back().value == 0x010000ed);
  CHECK(std::memcmp(region.host + 8, payload.data(), payload.size()) == 0);

  // A wrong request stops the batch there, and only there.
  batch.resize(10);
  batch[6].address = 0x200000;
  batch[5].value = batch[7].value = 0;
  Failure failure = failureOf(edu.target->submit(batch, &completed));
  CHECK(completed == 6);
  CHECK(failure.code == "out-of-space");
  CHECK(failure.where.find("packet 1006") == 0);
  CHECK(batch[5].value == uint32_t(~2u));
  CHECK(batch[7].value == 0);
  must(edu.target->submit({}, &completed));
  CHECK(completed == 0);
}

TEST_CASE("a reset makes the device forget, and keeps memory, addresses and interrupts") {
  TB_NEED_QEMU();
  for (const char *uri : {"qemu:edu", "qemu:edu?machine=pc"}) {
    CAPTURE(uri);
    Edu edu(uri);
    MapRequest request;
    request.size = 2 * 4096;
    request.iova = 0x3456000;
    MemoryRegion region = must(edu.target->map(request));
    REQUIRE(region.iova == 0x3456000);
    std::memset(region.host, 0x77, region.size);
    edu.dma(Edu::ToDevice, region.iova, 0, 1000);
    edu.write(eduLiveness, 0x1234);
    edu.write(eduStatus, 0x80);
    edu.write(eduIrqRaise, 4);
    CHECK(edu.read(eduIrqStatus) == 4);
    CHECK(edu.read(eduDmaCount, 8) == 1000);
    uint64_t before = must(edu.target->deviceTime());

    must(edu.target->reset(ResetKind::Default));
    CHECK(edu.read(eduLiveness) == 0);
    CHECK(edu.read(eduStatus) == 0);
    CHECK(edu.read(eduIrqStatus) == 0);
    CHECK(edu.read(eduDmaCount, 8) == 0);
    CHECK(edu.read(eduIdent) == 0x010000ed);
    CHECK(!must(edu.target->waitInterrupt(0, 0)).fired);
    CHECK(must(edu.target->deviceTime()) >= before);
    CHECK(region.host[0] == 0x77);
    CHECK(region.host[region.size - 1] == 0x77);
    // The buffer inside the device has forgotten, too.
    edu.dma(Edu::FromDevice, region.iova + 100, 0, 1000);
    CHECK(region.host[99] == 0x77);
    CHECK(region.host[100] == 0);
    CHECK(region.host[1099] == 0);
    CHECK(region.host[1100] == 0x77);
    CHECK(failureOf(edu.target->map(request)).code == "iova-unavailable");
    edu.startDma(Edu::ToDevice, region.iova, 0, 8, true);
    CHECK(must(edu.target->waitInterrupt(0, 10 * second)).fired);
  }
}

TEST_CASE("many resets leave one machine, and none when all is over") {
  TB_NEED_QEMU();
  {
    Edu edu;
    for (int i = 0; i < 10; ++i) {
      edu.write(eduLiveness, 1);
      must(edu.target->reset(ResetKind::Power));
      REQUIRE(edu.read(eduLiveness) == 0);
    }
    CHECK(childrenNamed(::getpid(), "qemu-system").size() == 1);
  }
  CHECK(childrenNamed(::getpid(), "qemu-system").empty());
}

TEST_CASE("two targets do not see each other") {
  TB_NEED_QEMU();
  Edu one, two;
  MapRequest request;
  request.size = 4096;
  MemoryRegion first = must(one.target->map(request)), second = must(two.target->map(request));
  CHECK(first.iova == second.iova);
  CHECK(first.host != second.host);
  one.write(eduLiveness, 1);
  two.write(eduLiveness, 2);
  CHECK(one.read(eduLiveness) == 0xfffffffe);
  CHECK(two.read(eduLiveness) == 0xfffffffd);
  one.write(eduIrqRaise, 1);
  CHECK(must(one.target->waitInterrupt(0, tapeback::test::second)).fired);
  CHECK(!must(two.target->waitInterrupt(0, 1'000'000)).fired);
}

TEST_CASE("what scripts take a device's layout to be is what QEMU says") {
  TB_NEED_QEMU();
  for (const QemuDevice &device : qemuDevices()) {
    CAPTURE(device.name);
    std::optional<PciLayout> known = knownPciLayout(device);
    REQUIRE(known);
    llvm::Expected<TargetUri> uri = parseTargetUri(std::string("qemu:") + device.name);
    REQUIRE(bool(uri));
    llvm::Expected<QemuOptions> options = parseQemuOptions(*uri);
    REQUIRE(bool(options));
    llvm::Expected<std::unique_ptr<GuestMemory>> memory =
        GuestMemory::create(options->ramBytes, device.dmaMask);
    REQUIRE(bool(memory));
    llvm::Expected<FileDescriptor> rom = makeParkedRom(), medium = makeMedium(options->medium);
    REQUIRE((bool(rom) && bool(medium)));
    if (device.medium == QemuMedium::None)
      *medium = FileDescriptor();
    llvm::Expected<std::unique_ptr<QemuMachine>> machine =
        QemuMachine::start(*options, **memory, *rom, *medium, "test");
    REQUIRE(bool(machine));
    llvm::Expected<PciLayout> layout = readPciLayout((*machine)->client(), device);
    REQUIRE(bool(layout));
    CHECK(layout->device == known->device);
    CHECK((layout->bars == known->bars));
    CHECK(layout->msiAt == known->msiAt);
    CHECK(layout->msiHead == known->msiHead);
  }
}
