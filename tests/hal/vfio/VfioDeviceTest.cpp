// vfio: on a real edu device behind a real IOMMU: in the test machine of tests/vm, or wherever
// TAPEBACK_VFIO_DEVICE names an edu that is bound to vfio-pci, and TAPEBACK_VFIO_NVME an NVMe controller that
// may be reset.
#include "format/Failure.h"
#include "hal/Target.h"
#include "tests/support/Skip.h"
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <numeric>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tapeback;

namespace {

constexpr uint64_t second = 1'000'000'000;

std::unique_ptr<Target> open(const std::string &options = "") {
  llvm::Expected<std::unique_ptr<Target>> target =
      openTarget(std::string("vfio:") + std::getenv("TAPEBACK_VFIO_DEVICE") + options);
  REQUIRE_MESSAGE(bool(target), (target ? std::string() : llvm::toString(target.takeError())));
  return std::move(*target);
}

struct Edu {
  Target &target;
  TargetSpaceId bar = *target.findSpace("bar0");

  uint64_t read(uint64_t at, unsigned width = 4) {
    llvm::Expected<uint64_t> value = target.read(bar, at, width);
    REQUIRE_MESSAGE(bool(value), (value ? std::string() : llvm::toString(value.takeError())));
    return *value;
  }
  void write(uint64_t at, uint64_t value, unsigned width = 4) {
    llvm::Error error = target.write(bar, at, width, value);
    REQUIRE_MESSAGE(!error, llvm::toString(std::move(error)));
  }
  /// Starts a transfer and polls for its end.
  void transfer(uint64_t source, uint64_t destination, uint64_t count, uint64_t command) {
    write(0x80, source, 8);
    write(0x88, destination, 8);
    write(0x90, count, 8);
    write(0x98, command | 1, 8);
    if (command & 4)
      return; // The caller waits for the interrupt.
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (read(0x98, 8) & 1) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      REQUIRE_FALSE(bool(target.advance(1'000'000)));
    }
  }
};

/// Takes the bridge above a device out of the way of configuration cycles: to those, the device is gone, as
/// behind a dead link. Its memory still answers. Put back at the end.
class UnreachableConfig {
public:
  explicit UnreachableConfig(const std::string &device)
      : fd(::open(("/sys/bus/pci/devices/" + device + "/../config").c_str(), O_RDWR | O_CLOEXEC)) {
    REQUIRE(fd >= 0);
    REQUIRE(::pread(fd, &number, 1, secondaryBusNumber) == 1);
    REQUIRE(number != 0);
    uint8_t none = 0;
    REQUIRE(::pwrite(fd, &none, 1, secondaryBusNumber) == 1);
  }
  ~UnreachableConfig() {
    CHECK(::pwrite(fd, &number, 1, secondaryBusNumber) == 1);
    ::close(fd);
  }

private:
  static constexpr off_t secondaryBusNumber = 0x19;
  int fd;
  uint8_t number = 0;
};

std::string codeOf(llvm::Error error) {
  return error ? toFailure(std::move(error)).code : "none";
}
template <typename T>
std::string codeOf(llvm::Expected<T> value) {
  return codeOf(value.takeError());
}

} // namespace

#define NEEDS_DEVICE                                                                                         \
  if (!std::getenv("TAPEBACK_VFIO_DEVICE"))                                                                  \
  TB_SKIP("no VFIO device here: TAPEBACK_VFIO_DEVICE is not set (tests/vm sets it in its machine)")

TEST_CASE("who is there, and what it can do") {
  NEEDS_DEVICE;
  std::unique_ptr<Target> target = open();
  CHECK(target->identity().name == "edu");
  CHECK(target->identity().kind == "vfio");
  CHECK(target->identity().facts.at("vendor") == "0x1234");
  CHECK(target->identity().facts.at("interrupts") == "msi");
  CHECK(target->capabilities().chooseIova);
  REQUIRE(target->findSpace("bar0"));
  CHECK(target->spaces()[*target->findSpace("bar0")].size == 1 << 20);
  REQUIRE(target->findSpace("config"));
  Edu edu{*target};
  CHECK(edu.read(0) == 0x010000ed);
  CHECK(*target->read(*target->findSpace("config"), 0, 4) == 0x11e81234);
  edu.write(4, 0x12345678);
  CHECK(edu.read(4) == 0xedcba987);
}

TEST_CASE("DMA both ways, at addresses of our choice") {
  NEEDS_DEVICE;
  std::unique_ptr<Target> target = open();
  Edu edu{*target};
  for (uint64_t iova : {uint64_t(0x1000000), uint64_t(0x7654000), uint64_t(0x8000)}) {
    CAPTURE(iova);
    llvm::Expected<MemoryRegion> region = target->map({16384, 4096, iova});
    REQUIRE_MESSAGE(bool(region), (region ? std::string() : llvm::toString(region.takeError())));
    CHECK(region->iova == iova);
    REQUIRE(region->host);
    CHECK(region->host[16383] == 0);
    std::vector<uint8_t> data(3000);
    std::iota(data.begin(), data.end(), uint8_t(iova >> 12));
    std::memcpy(region->host + 2000, data.data(), data.size());
    edu.transfer(iova + 2000, 0x40000, data.size(), 0);
    edu.transfer(0x40000, iova + 9000, data.size(), 2);
    CHECK(std::memcmp(region->host + 9000, data.data(), data.size()) == 0);
    std::vector<uint8_t> back(data.size());
    REQUIRE_FALSE(bool(target->readMemory(iova + 9000, back)));
    CHECK(back == data);
    REQUIRE_FALSE(bool(target->unmap(iova)));
  }
}

TEST_CASE("addresses that cannot be had are reported, with what can") {
  NEEDS_DEVICE;
  std::unique_ptr<Target> target = open();
  for (uint64_t iova : {uint64_t(0xfee00000), uint64_t(1) << 50}) {
    CAPTURE(iova);
    llvm::Expected<MemoryRegion> region = target->map({4096, 4096, iova});
    REQUIRE_FALSE(bool(region));
    Failure failure = toFailure(region.takeError());
    CHECK(failure.code == "iova-unavailable");
    CHECK(failure.cls == FailureClass::Usage);
    CHECK(failure.hint.find("..") != std::string::npos);
  }
  REQUIRE(bool(target->map({8192, 4096, 0x2000000})));
  CHECK(codeOf(target->map({4096, 4096, 0x2001000})) == "iova-unavailable");
  CHECK(codeOf(target->unmap(0x2001000)) != "none");
}

TEST_CASE("interrupts: by factorial, by DMA, coalesced, and none") {
  NEEDS_DEVICE;
  for (const char *options : {"", "?irq=intx"}) {
    CAPTURE(options);
    std::unique_ptr<Target> target = open(options);
    Edu edu{*target};
    edu.write(0x64, edu.read(0x24)); // Whatever is still pending.
    llvm::Expected<InterruptResult> none = target->waitInterrupt(0, second / 10);
    REQUIRE(bool(none));
    CHECK_FALSE(none->fired);

    edu.write(0x20, 0x80);
    edu.write(8, 5);
    llvm::Expected<InterruptResult> fired = target->waitInterrupt(0, 20 * second);
    REQUIRE(bool(fired));
    CHECK(fired->fired);
    CHECK(edu.read(0x24) == 1);
    CHECK(edu.read(8) == 120);
    edu.write(0x64, 1);
    edu.write(0x20, 0);

    edu.write(0x60, 0x10);
    fired = target->waitInterrupt(0, 20 * second);
    REQUIRE(bool(fired));
    CHECK(fired->fired);
    CHECK(edu.read(0x24) == 0x10);
    edu.write(0x64, 0x10);
    none = target->waitInterrupt(0, second / 10);
    REQUIRE(bool(none));
    CHECK_FALSE(none->fired);
    CHECK(codeOf(target->waitInterrupt(77, 0)) == "unknown-vector");
  }
}

TEST_CASE("the reset that lies: it succeeds, and the state survives") {
  NEEDS_DEVICE;
  std::unique_ptr<Target> target = open();
  Edu edu{*target};
  edu.write(4, 0xcafe0001);
  REQUIRE_FALSE(bool(target->reset(ResetKind::Default)));
  CHECK(edu.read(4) == ~uint32_t(0xcafe0001)); // QEMU's edu; the fingerprint is what says so to a user.
  CHECK(codeOf(target->reset(ResetKind::Power)) == "unsupported");
}

TEST_CASE("a reset under load leaves the target usable") {
  NEEDS_DEVICE;
  std::unique_ptr<Target> target = open();
  Edu edu{*target};
  llvm::Expected<MemoryRegion> region = target->map({8192, 4096, 0x3000000});
  REQUIRE(bool(region));
  for (int i = 0; i < 5; ++i) {
    edu.write(0x80, 0x3000000, 8);
    edu.write(0x88, 0x40000, 8);
    edu.write(0x90, 2048, 8);
    edu.write(0x98, 1 | 4, 8);
    REQUIRE_FALSE(bool(target->reset(ResetKind::Function)));
    CHECK(edu.read(0) == 0x010000ed);
    // The transfer survives a reset that does nothing: wait for its end before the next.
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while ((edu.read(0x98, 8) & 1) && std::chrono::steady_clock::now() < end)
      REQUIRE_FALSE(bool(target->advance(1'000'000)));
    edu.write(0x64, 0x100);
  }
  CHECK(codeOf(target->reset(ResetKind::Bus)) == "none");
  CHECK(edu.read(0) == 0x010000ed);
}

TEST_CASE("through the file: the same answers, and no access that the kernel would split") {
  NEEDS_DEVICE;
  std::unique_ptr<Target> target = open("?access=file");
  Edu edu{*target};
  CHECK(edu.read(0) == 0x010000ed);
  edu.write(4, 0x01020304);
  CHECK(edu.read(4) == ~uint32_t(0x01020304));
  CHECK(codeOf(target->read(edu.bar, 0x80, 8)) == "width-unsupported");
  CHECK(codeOf(target->write(edu.bar, 0x80, 8, 0)) == "width-unsupported");
  CHECK(codeOf(target->read(edu.bar, 0x2, 4)) == "misaligned");
}

TEST_CASE("all ones is a value, unless the identity is all ones too: then the link is down") {
  NEEDS_DEVICE;
  std::unique_ptr<Target> target = open();
  Edu edu{*target};
  edu.write(4, 0);
  CHECK(edu.read(4) == 0xffffffff);
  {
    UnreachableConfig gone(std::getenv("TAPEBACK_VFIO_DEVICE"));
    llvm::Expected<uint64_t> value = target->read(edu.bar, 4, 4);
    REQUIRE_FALSE(bool(value));
    Failure failure = toFailure(value.takeError());
    CHECK(failure.code == "link-down");
    CHECK(failure.cls == FailureClass::Target);
    CHECK(codeOf(target->flush()) == "link-down");
  }
  CHECK(edu.read(4) == 0xffffffff);
  CHECK(codeOf(target->flush()) == "none");
}

TEST_CASE("an NVMe controller: a command by DMA and MSI-X, and a function reset that resets") {
  const char *address = std::getenv("TAPEBACK_VFIO_NVME");
  if (!address)
    TB_SKIP("no NVMe controller here: TAPEBACK_VFIO_NVME is not set (tests/vm sets it in its machine)");
  llvm::Expected<std::unique_ptr<Target>> target = openTarget(std::string("vfio:") + address);
  REQUIRE_MESSAGE(bool(target), (target ? std::string() : llvm::toString(target.takeError())));
  CHECK((*target)->identity().facts.at("interrupts") == "msix");
  Edu device{**target}; // Its accessors; registers as in the NVMe specification.
  constexpr uint64_t cc = 0x14, csts = 0x1c, aqa = 0x24, asq = 0x28, acq = 0x30, tail = 0x1000;
  constexpr uint64_t iova = 0x5000000;
  llvm::Expected<MemoryRegion> region = (*target)->map({3 * 4096, 4096, iova});
  REQUIRE(bool(region));
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    std::memset(region->host, 0, region->size);
    device.write(aqa, 0x000f000f);
    device.write(asq, iova);
    device.write(asq + 4, 0);
    device.write(acq, iova + 4096);
    device.write(acq + 4, 0);
    device.write(cc, 0x00460001); // Entries of 64 and 16 bytes, enabled.
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!(device.read(csts) & 1)) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      REQUIRE_FALSE(bool((*target)->advance(1'000'000)));
    }
    uint32_t identify[16] = {0x00070006};
    identify[6] = uint32_t(iova + 8192);
    identify[10] = 1; // The controller.
    std::memcpy(region->host, identify, sizeof identify);
    device.write(tail, 1);
    llvm::Expected<InterruptResult> fired = (*target)->waitInterrupt(0, 20 * second);
    REQUIRE_MESSAGE(bool(fired), (fired ? std::string() : llvm::toString(fired.takeError())));
    CHECK(fired->fired);
    uint32_t status = 0;
    std::memcpy(&status, region->host + 4096 + 12, sizeof status);
    CHECK(status == 0x00010007); // Our command, first pass of the ring, success.
    CHECK(std::memcmp(region->host + 8192 + 4, "tapeback ", 9) == 0); // The serial number.
    REQUIRE_FALSE(bool((*target)->reset(ResetKind::Function)));
    CHECK(device.read(cc) == 0);
    CHECK((device.read(csts) & 1) == 0);
  }
}

TEST_CASE("one user at a time, and the other is told who") {
  NEEDS_DEVICE;
  std::unique_ptr<Target> first = open();
  llvm::Expected<std::unique_ptr<Target>> other =
      openTarget(std::string("vfio:") + std::getenv("TAPEBACK_VFIO_DEVICE"));
  REQUIRE_FALSE(bool(other));
  Failure failure = toFailure(other.takeError());
  CHECK(failure.code == "device-busy");
  CHECK(failure.message.find("process") != std::string::npos);
}

TEST_CASE("many mappings, opened and closed many times") {
  NEEDS_DEVICE;
  for (int round = 0; round < 10; ++round) {
    std::unique_ptr<Target> target = open();
    for (int i = 0; i < 50; ++i) {
      llvm::Expected<MemoryRegion> region = target->map({4096, 4096, std::nullopt});
      REQUIRE(bool(region));
      region->host[0] = 1;
    }
  }
}
