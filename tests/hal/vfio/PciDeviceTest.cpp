// What is read from sysfs, on a made-up tree: addresses, facts, and every reason why a device cannot be
// driven.
#include "hal/vfio/PciDevice.h"
#include "format/Failure.h"
#include "hal/vfio/PciConfig.h"
#include "tests/support/RunProgram.h"
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;
namespace fs = std::filesystem;

namespace {

/// A sysfs and a /dev of our own.
struct Machine {
  ScratchDirectory scratch;
  std::string sys = scratch.file("sys"), dev = scratch.file("dev");

  Machine() {
    fs::create_directories(sys + "/bus/pci/devices");
    fs::create_directories(dev + "/vfio");
  }
  std::string add(const std::string &address, const std::string &driver, int group,
                  const std::string &classCode = "0x00ff00", const std::string &vendor = "0x1234",
                  const std::string &device = "0x11e8") {
    std::string folder = sys + "/bus/pci/devices/" + address;
    fs::create_directories(folder);
    writeWholeFile(folder + "/vendor", vendor + "\n");
    writeWholeFile(folder + "/device", device + "\n");
    writeWholeFile(folder + "/class", classCode + "\n");
    writeWholeFile(folder + "/revision", "0x10\n");
    if (!driver.empty()) {
      fs::create_directories(sys + "/bus/pci/drivers/" + driver);
      fs::create_symlink("../../drivers/" + driver, folder + "/driver");
    }
    if (group >= 0) {
      fs::create_directories(sys + "/kernel/iommu_groups/" + std::to_string(group));
      fs::create_symlink("../../../../kernel/iommu_groups/" + std::to_string(group), folder + "/iommu_group");
    }
    return folder;
  }
  PciDevice read(const std::string &address) {
    llvm::Expected<PciAddress> parsed = parsePciAddress(address);
    REQUIRE(bool(parsed));
    llvm::Expected<PciDevice> device = readPciDevice(*parsed, sys);
    REQUIRE(bool(device));
    return std::move(*device);
  }
  Failure whyNot(const std::string &address) {
    llvm::Error error = checkVfioReady(read(address), sys, dev);
    REQUIRE(bool(error));
    return toFailure(std::move(error));
  }
};

bool holds(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("addresses are read strictly") {
  for (const char *good : {"0000:01:00.0", "01:00.0", "0000:ff:1f.7", "10000:00:02.0"}) {
    CAPTURE(good);
    CHECK(bool(parsePciAddress(good)));
  }
  CHECK(parsePciAddress("1:2.3")->str() == "0000:01:02.3");
  CHECK(parsePciAddress("10000:e1:00.0")->str() == "10000:e1:00.0");
  for (const char *bad : {"", "01", "0000:01:00", "0000:01:00.8", "0000:01:20.0", "0000:100:00.0",
                          "0000:01:00.0 ", "0000:01:00.0.0", "::.", "0x0:01:00.0", "-1:00.0", "0000:01:00.00",
                          "999999999:01:00.0", "a:b:c:d.0"}) {
    CAPTURE(bad);
    llvm::Expected<PciAddress> address = parsePciAddress(bad);
    REQUIRE_FALSE(bool(address));
    Failure failure = toFailure(address.takeError());
    CHECK(failure.cls == FailureClass::Usage);
    CHECK(failure.code == "bad-pci-address");
    CHECK_FALSE(failure.hint.empty());
  }
}

TEST_CASE("facts of a device") {
  Machine machine;
  machine.add("0000:01:00.0", "vfio-pci", 4);
  PciDevice device = machine.read("01:00.0");
  CHECK(device.vendor == 0x1234);
  CHECK(device.device == 0x11e8);
  CHECK(device.classCode == 0x00ff00);
  CHECK(device.driver == "vfio-pci");
  CHECK(device.iommuGroup == 4u);
  CHECK(device.facts["vendor"] == "0x1234");
  CHECK(device.facts["device"] == "0x11e8");
  CHECK(device.facts["revision"] == "0x10");
  CHECK(pciDeviceName(device) == "edu");
  machine.add("0000:02:00.0", "", -1, "0x010802", "0x8086", "0x5845");
  CHECK(pciDeviceName(machine.read("02:00.0")) == "8086:5845");
  std::vector<PciDevice> all = listPciDevices(machine.sys);
  REQUIRE(all.size() == 2);
  CHECK(all[0].address.str() == "0000:01:00.0");
  CHECK(listPciDevices(machine.scratch.file("nothing")).empty());
}

TEST_CASE("a device that is not there") {
  Machine machine;
  llvm::Expected<PciDevice> device = readPciDevice({0, 1, 0, 0}, machine.sys);
  REQUIRE_FALSE(bool(device));
  Failure failure = toFailure(device.takeError());
  CHECK(failure.code == "no-such-device");
  CHECK(failure.cls == FailureClass::Usage);
}

TEST_CASE("every reason that keeps a device from being driven names its cure") {
  Machine machine;
  SUBCASE("no IOMMU") {
    machine.add("0000:01:00.0", "", -1);
    Failure failure = machine.whyNot("01:00.0");
    CHECK(failure.code == "no-iommu");
    CHECK(holds(failure.hint, "intel_iommu=on"));
    CHECK(holds(failure.hint, "pci-sysfs:0000:01:00.0"));
  }
  SUBCASE("bound to another driver") {
    machine.add("0000:01:00.0", "nvme", 4);
    Failure failure = machine.whyNot("01:00.0");
    CHECK(failure.code == "not-bound");
    CHECK(holds(failure.message, "nvme"));
    CHECK(holds(failure.hint, "driver_override"));
    CHECK(holds(failure.hint, "driver/unbind"));
    CHECK(holds(failure.hint, "drivers_probe"));
  }
  SUBCASE("bound to none") {
    machine.add("0000:01:00.0", "", 4);
    Failure failure = machine.whyNot("01:00.0");
    CHECK(failure.code == "not-bound");
    CHECK_FALSE(holds(failure.hint, "driver/unbind"));
  }
  SUBCASE("group shared with a driven device") {
    machine.add("0000:01:00.0", "vfio-pci", 4);
    machine.add("0000:01:00.1", "snd_hda_intel", 4);
    machine.add("0000:00:01.0", "pcieport", 4, "0x060400"); // A bridge does not count.
    machine.add("0000:02:00.0", "nvme", 5);                 // Nor does another group.
    Failure failure = machine.whyNot("01:00.0");
    CHECK(failure.code == "group-not-viable");
    CHECK(holds(failure.message, "0000:01:00.1 (snd_hda_intel)"));
    CHECK_FALSE(holds(failure.message, "pcieport"));
    CHECK_FALSE(holds(failure.message, "nvme"));
    CHECK(holds(failure.hint, "0000:01:00.1"));
  }
  SUBCASE("VFIO not loaded") {
    machine.add("0000:01:00.0", "vfio-pci", 4);
    Failure failure = machine.whyNot("01:00.0");
    CHECK(failure.code == "no-vfio");
    CHECK(holds(failure.hint, "modprobe vfio-pci"));
  }
  SUBCASE("no permission") {
    machine.add("0000:01:00.0", "vfio-pci", 4);
    writeWholeFile(machine.dev + "/vfio/vfio", "");
    // Root may do everything except what is no file at all; a dangling loop answers ELOOP to everybody.
    fs::create_symlink("4", machine.dev + "/vfio/4");
    Failure failure = machine.whyNot("01:00.0");
    CHECK(failure.code == "no-permission");
    CHECK(holds(failure.hint, "chown"));
  }
  SUBCASE("nothing in the way") {
    machine.add("0000:01:00.0", "vfio-pci", 4);
    writeWholeFile(machine.dev + "/vfio/vfio", "");
    writeWholeFile(machine.dev + "/vfio/4", "");
    llvm::Error error = checkVfioReady(machine.read("01:00.0"), machine.sys, machine.dev);
    CHECK_FALSE(bool(error));
    llvm::consumeError(std::move(error));
  }
}

TEST_CASE("attributes that make no sense do no harm") {
  Machine machine;
  std::string folder = machine.add("0000:01:00.0", "", -1);
  writeWholeFile(folder + "/vendor", "what?\n");
  writeWholeFile(folder + "/class", std::string(100000, 'f'));
  fs::remove(folder + "/revision");
  PciDevice device = machine.read("01:00.0");
  CHECK(device.vendor == 0);
  CHECK(device.classCode == 0);
  CHECK(device.revision == 0);
}
