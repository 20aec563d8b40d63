#include "hal/pci-sysfs/SysfsTarget.h"
#include "hal/FileDescriptor.h"
#include "hal/TargetFailure.h"
#include "hal/vfio/Mmio.h"
#include "hal/vfio/PciConfig.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

namespace tapeback {
namespace {

constexpr TargetOptionHelp sysfsOptions[] = {
    {"sysfs", "FOLDER", "where sysfs is (default /sys); for trying things on copies"},
    {"timeout", "MS", "accepted as for every target; an access that hangs here hangs the processor itself"},
};

struct Bar {
  FileDescriptor file;
  volatile uint8_t *host = nullptr; ///< Null for the configuration space, which goes through the file.
  uint64_t size = 0;
};

class SysfsTarget final : public Target {
public:
  SysfsTarget(TargetIdentity identity, PciDevice pci) : self(std::move(identity)), pci(std::move(pci)) {}
  ~SysfsTarget() override {
    for (const Bar &bar : bars)
      if (bar.host)
        ::munmap(const_cast<uint8_t *>(bar.host), bar.size);
  }

  llvm::Error start() {
    for (unsigned index = 0; index < 6; ++index)
      if (llvm::Error error = openBar(index))
        return error;
    std::string path = pci.folder + "/config";
    Bar config;
    config.file.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    struct stat info{};
    if (!config.file || ::fstat(config.file.get(), &info) != 0)
      return failUsage("no-permission", path + ": " + std::strerror(errno), self.uri, "run as root");
    config.size = uint64_t(info.st_size);
    configSpace = spaceTable.size();
    spaceTable.push_back({"config", config.size});
    bars.push_back(std::move(config));
    llvm::Expected<uint64_t> command = read(TargetSpaceId(configSpace), pciCommandOffset, 2);
    if (!command)
      return command.takeError();
    if (*command == 0xffff)
      return linkDown();
    // Without the memory bit every access would be answered with all ones.
    return write(TargetSpaceId(configSpace), pciCommandOffset, 2, *command | pciCommandMemory);
  }

  const TargetIdentity &identity() const override { return self; }
  llvm::ArrayRef<TargetSpace> spaces() const override { return spaceTable; }
  TargetCapabilities capabilities() const override {
    TargetCapabilities can;
    can.reset = canReset();
    return can;
  }

  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override {
    if (llvm::Error error = check(space, address, width))
      return error;
    if (bars[space].host) {
      uint64_t value = mmio::load(bars[space].host + address, width);
      if (value == (width == 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * width)) - 1)) {
        llvm::Expected<uint64_t> vendor = read(TargetSpaceId(configSpace), 0, 2);
        if (!vendor)
          return vendor.takeError();
        if (*vendor == 0xffff)
          return linkDown();
      }
      return value;
    }
    uint64_t value = 0;
    ssize_t n = ::pread(bars[space].file.get(), &value, width, off_t(address));
    if (n != ssize_t(width))
      return failTarget("access-failed",
                        std::string("the read failed: ") + (n < 0 ? std::strerror(errno) : "short"),
                        "config + 0x" + llvm::utohexstr(address, true));
    return value;
  }

  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override {
    if (llvm::Error error = check(space, address, width))
      return error;
    if (bars[space].host) {
      mmio::store(bars[space].host + address, width, value);
      return llvm::Error::success();
    }
    ssize_t n = ::pwrite(bars[space].file.get(), &value, width, off_t(address));
    if (n != ssize_t(width))
      return failTarget("access-failed",
                        std::string("the write failed: ") + (n < 0 ? std::strerror(errno) : "short"),
                        "config + 0x" + llvm::utohexstr(address, true));
    return llvm::Error::success();
  }

  llvm::Expected<MemoryRegion> map(const MapRequest &) override { return noMemory(); }
  llvm::Error unmap(uint64_t) override { return noMemory(); }
  llvm::Error readMemory(uint64_t, llvm::MutableArrayRef<uint8_t>) override { return noMemory(); }
  llvm::Error writeMemory(uint64_t, llvm::ArrayRef<uint8_t>) override { return noMemory(); }
  llvm::Expected<InterruptResult> waitInterrupt(uint32_t, uint64_t) override {
    return unsupportedByTarget(self, "has no interrupts: sysfs does not pass them on");
  }

  llvm::Error advance(uint64_t nanoseconds) override {
    timespec left{time_t(nanoseconds / 1'000'000'000u), long(nanoseconds % 1'000'000'000u)};
    while (nanoseconds && ::clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
      ;
    return llvm::Error::success();
  }

  llvm::Error reset(ResetKind kind) override {
    if (kind == ResetKind::Power || kind == ResetKind::Bus)
      return unsupportedByTarget(self, "can only do the kernel's default reset");
    std::string path = pci.folder + "/reset";
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file || ::write(file.get(), "1", 1) != 1)
      return failTarget("reset-failed", path + ": " + std::strerror(errno), self.uri,
                        "what the device can do: cat " + pci.folder + "/reset_method");
    llvm::Expected<uint64_t> command = read(TargetSpaceId(configSpace), pciCommandOffset, 2);
    if (!command)
      return command.takeError();
    if (*command == 0xffff)
      return linkDown();
    return write(TargetSpaceId(configSpace), pciCommandOffset, 2, *command | pciCommandMemory);
  }

private:
  bool canReset() const { return ::access((pci.folder + "/reset").c_str(), W_OK) == 0; }

  llvm::Error noMemory() const {
    return unsupportedByTarget(self,
                               "has no device-visible memory: without an IOMMU nothing would confine the "
                               "device's DMA. Use vfio: where there is one");
  }

  llvm::Error linkDown() const {
    return failTarget(
        "link-down", "the device answers all ones, its identity included: the link is down", self.uri,
        "reset the slot or power-cycle the board, then rescan (as root): echo 1 > /sys/bus/pci/rescan");
  }

  llvm::Error check(TargetSpaceId space, uint64_t address, unsigned width) const {
    if (llvm::Error error = checkAccess(spaceTable, space, address, width))
      return error;
    if (address % width)
      return failUsage("misaligned", "an access of " + std::to_string(width) + " bytes is not aligned",
                       spaceTable[space].name + " + 0x" + llvm::utohexstr(address, true),
                       "the bus would see several accesses; use narrower ones");
    if (!bars[space].host && width == 8)
      return failUsage("width-unsupported", "the configuration space takes at most 4 bytes at a time",
                       spaceTable[space].name + " + 0x" + llvm::utohexstr(address, true), "use two accesses");
    return llvm::Error::success();
  }

  /// A BAR that is not there, or is of I/O ports (which cannot be mapped), is no space.
  llvm::Error openBar(unsigned index) {
    std::string path = pci.folder + "/resource" + std::to_string(index);
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0 || info.st_size == 0)
      return llvm::Error::success();
    Bar bar;
    bar.file.reset(::open(path.c_str(), O_RDWR | O_SYNC | O_CLOEXEC));
    if (!bar.file)
      return failUsage("no-permission", path + ": " + std::strerror(errno), self.uri,
                       errno == EACCES || errno == EPERM
                           ? "run as root; a locked-down kernel (secure boot) refuses even then"
                           : "");
    void *host = ::mmap(nullptr, size_t(info.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, bar.file.get(), 0);
    if (host == MAP_FAILED) {
      if (errno == EINVAL) // I/O ports.
        return llvm::Error::success();
      return failUsage("bar-unavailable", path + ": " + std::strerror(errno), self.uri,
                       "a driver that claims the BAR exclusively must be unbound: " + pci.folder +
                           "/driver/unbind");
    }
    bar.host = static_cast<volatile uint8_t *>(host);
    bar.size = uint64_t(info.st_size);
    spaceTable.push_back({"bar" + std::to_string(index), bar.size});
    bars.push_back(std::move(bar));
    return llvm::Error::success();
  }

  TargetIdentity self;
  PciDevice pci;
  std::vector<TargetSpace> spaceTable;
  std::vector<Bar> bars; ///< Same order as spaceTable.
  size_t configSpace = 0;
};

} // namespace

llvm::Expected<std::unique_ptr<Target>> openSysfsTarget(const TargetUri &uri) {
  if (llvm::Error error = checkTargetOptions(uri, sysfsOptions))
    return error;
  if (llvm::Expected<uint64_t> timeout = timeoutOption(uri); !timeout)
    return timeout.takeError();
  llvm::Expected<PciAddress> address = parsePciAddress(uri.rest);
  if (!address)
    return address.takeError();
  const std::string *root = uri.find("sysfs");
  llvm::Expected<PciDevice> pci = readPciDevice(*address, root ? *root : "/sys");
  if (!pci)
    return pci.takeError();
  // Two masters on one set of registers is how hardware gets hurt.
  if (!pci->driver.empty())
    return failUsage("device-busy", "the driver '" + pci->driver + "' is using the device", pci->folder,
                     "take it away first (as root): echo " + address->str() + " > " + pci->folder +
                         "/driver/unbind");
  TargetIdentity identity;
  identity.uri = uri.text;
  identity.kind = "pci-sysfs";
  identity.facts = pci->facts;
  identity.name = pciDeviceName(*pci);
  auto target = std::make_unique<SysfsTarget>(std::move(identity), std::move(*pci));
  if (llvm::Error error = target->start())
    return error;
  return target;
}

} // namespace tapeback
