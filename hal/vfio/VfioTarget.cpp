#include "hal/vfio/VfioTarget.h"
#include "hal/IovaSpace.h"
#include "hal/TargetFailure.h"
#include "hal/vfio/PciConfig.h"
#include "hal/vfio/VfioContainer.h"
#include "hal/vfio/VfioInterrupts.h"
#include "hal/vfio/VfioRegion.h"
#include "hal/vfio/VfioWatch.h"
#include "llvm/ADT/StringExtras.h"
#include <bit>
#include <cerrno>
#include <cstring>
#include <linux/vfio.h>
#include <map>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

namespace tapeback {
namespace {

static_assert(std::endian::native == std::endian::little,
              "registers go through pread and pwrite as little-endian words");

constexpr TargetOptionHelp vfioOptions[] = {
    {"access", "map|file", "reach BARs by mmap (default) or through the device's file"},
    {"irq", "auto|msix|msi|intx|none", "which interrupts to use (default: the best the device has)"},
    {"dma-bits", "N", "the device reaches N bits of address (default 64; hands out lower addresses)"},
    {"timeout", "MS", "accepted as for every target; an access that hangs here hangs the processor itself"},
};

class VfioTarget final : public Target {
public:
  VfioTarget(TargetIdentity identity, PciDevice pci, std::unique_ptr<VfioContainer> container,
             FileDescriptor device, uint64_t endIova)
      : self(std::move(identity)), pci(std::move(pci)), container(std::move(container)),
        device(std::move(device)), iovas(firstDeviceAddress, endIova, uint64_t(1) << 62) {}

  ~VfioTarget() override {
    // Master off first: a transfer still running must not write into memory that is about to be given back.
    llvm::consumeError(setCommand(0)); // The device may be gone: then there is nothing to switch off.
    for (auto &[iova, region] : memory) {
      llvm::consumeError(container->unmap(iova, region.size)); // Closing the container unmaps what is left.
      ::munmap(region.host, region.size);
    }
  }

  llvm::Error start(bool useMaps, VfioInterruptMode mode) {
    for (uint32_t index = VFIO_PCI_BAR0_REGION_INDEX; index <= VFIO_PCI_CONFIG_REGION_INDEX; ++index) {
      llvm::Expected<VfioRegion> region = VfioRegion::open(device.get(), index, useMaps);
      if (!region)
        return region.takeError();
      if (!region->size())
        continue;
      std::string name = index == VFIO_PCI_CONFIG_REGION_INDEX ? "config"
                         : index == VFIO_PCI_ROM_REGION_INDEX  ? "rom"
                                                               : "bar" + std::to_string(index);
      if (name == "config")
        configSpace = spaceTable.size();
      spaceTable.push_back({name, region->size()});
      regions.push_back(std::move(*region));
    }
    if (configSpace == spaceTable.size())
      return failTarget("no-config-space", "VFIO shows no configuration space", self.uri);
    if (llvm::Error error = checkLink())
      return error;
    if (llvm::Error error = setCommand(pciCommandMemory | pciCommandMaster))
      return error;
    llvm::Expected<VfioInterrupts> opened = VfioInterrupts::open(device.get(), mode);
    if (!opened)
      return opened.takeError();
    interrupts.emplace(std::move(*opened));
    self.facts["interrupts"] = interrupts->modeName();
    llvm::Expected<std::unique_ptr<VfioWatch>> watching = VfioWatch::open(device.get());
    if (!watching)
      return watching.takeError();
    watch = std::move(*watching);
    reserveHoles();
    return llvm::Error::success();
  }

  const TargetIdentity &identity() const override { return self; }
  llvm::ArrayRef<TargetSpace> spaces() const override { return spaceTable; }

  TargetCapabilities capabilities() const override {
    TargetCapabilities can;
    can.memory = can.chooseIova = true;
    can.interrupts = interrupts->vectors() != 0;
    can.interruptVectors = interrupts->vectors();
    can.reset = true;
    return can;
  }

  llvm::Expected<uint64_t> read(TargetSpaceId space, uint64_t address, unsigned width) override {
    if (llvm::Error error = check(space, address, width))
      return error;
    llvm::Expected<uint64_t> value = regions[space].read(address, width);
    // All ones is what a dead link answers to everything; it is also a legal value: ask who is there.
    if (value && *value == (width == 8 ? ~uint64_t(0) : (uint64_t(1) << (8 * width)) - 1) &&
        space != configSpace)
      if (llvm::Error error = checkLink())
        return error;
    return value;
  }

  llvm::Error write(TargetSpaceId space, uint64_t address, unsigned width, uint64_t value) override {
    if (llvm::Error error = check(space, address, width))
      return error;
    return regions[space].write(address, width, value);
  }

  /// A read of the configuration space: PCI orders a completion behind the posted writes before it.
  llvm::Error flush() override {
    if (llvm::Error error = watch->check(self.uri))
      return error;
    return checkLink();
  }

  llvm::Expected<MemoryRegion> map(const MapRequest &request) override {
    if (llvm::Error error = watch->check(self.uri))
      return error;
    llvm::Expected<IovaSpace::Region> place = iovas.map(request);
    if (!place)
      return llvm::handleErrors(place.takeError(), [&](const Failure &failure) {
        return failUsage(failure.code, failure.message, failure.where,
                         "usable addresses: " + container->rangesText());
      });
    void *host = ::mmap(nullptr, place->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (host == MAP_FAILED)
      return giveBack(place->iova, failSystem("out-of-memory", std::to_string(place->size) +
                                                                   " bytes: " + std::strerror(errno)));
    if (llvm::Error error = container->map(place->iova, host, place->size)) {
      ::munmap(host, place->size);
      return giveBack(place->iova, std::move(error));
    }
    return memory[place->iova] = MemoryRegion{place->iova, place->size, static_cast<uint8_t *>(host)};
  }

  llvm::Error unmap(uint64_t iova) override {
    llvm::Expected<IovaSpace::Region> place = iovas.unmap(iova);
    if (!place)
      return place.takeError();
    MemoryRegion region = memory[iova];
    memory.erase(iova);
    llvm::Error error = container->unmap(iova, region.size);
    ::munmap(region.host, region.size);
    return error;
  }

  llvm::Error readMemory(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) override {
    llvm::Expected<uint8_t *> host = locate(iova, out.size());
    if (host && !out.empty())
      std::memcpy(out.data(), *host, out.size());
    return host.takeError();
  }

  llvm::Error writeMemory(uint64_t iova, llvm::ArrayRef<uint8_t> in) override {
    llvm::Expected<uint8_t *> host = locate(iova, in.size());
    if (host && !in.empty())
      std::memcpy(*host, in.data(), in.size());
    return host.takeError();
  }

  llvm::Expected<InterruptResult> waitInterrupt(uint32_t vector, uint64_t deadlineNs) override {
    if (llvm::Error error = watch->check(self.uri))
      return error;
    llvm::Expected<InterruptResult> result = interrupts->wait(vector, deadlineNs, watch->descriptor());
    if (result && !result->fired)
      if (llvm::Error error = watch->check(self.uri))
        return error;
    return result;
  }

  /// Real time passes by itself; this only waits, and less if the device goes away.
  llvm::Error advance(uint64_t nanoseconds) override {
    if (nanoseconds) {
      uint64_t bounded = std::min<uint64_t>(nanoseconds, 3'600'000'000'000u);
      timespec timeout{time_t(bounded / 1'000'000'000u), long(bounded % 1'000'000'000u)};
      pollfd fd{watch->descriptor(), POLLIN, 0};
      if (::ppoll(&fd, 1, &timeout, nullptr) < 0 && errno != EINTR)
        return failSystem("poll", std::string("waiting: ") + std::strerror(errno));
    }
    return watch->check(self.uri);
  }

  llvm::Error reset(ResetKind kind) override {
    if (llvm::Error error = watch->check(self.uri))
      return error;
    switch (kind) {
    case ResetKind::Default:
    case ResetKind::Function:
      if (::ioctl(device.get(), VFIO_DEVICE_RESET) != 0)
        return failTarget("reset-failed", std::string("the reset failed: ") + std::strerror(errno), self.uri,
                          "what the device can do: cat " + pci.folder +
                              "/reset_method; behind the root complex itself "
                              "there may be no way to reset it");
      break;
    case ResetKind::Bus:
      if (llvm::Error error = hotReset())
        return error;
      break;
    case ResetKind::Power: return unsupportedByTarget(self, "cannot be switched off and on from here");
    }
    // The kernel saves and restores the configuration space around a reset; the command register may still
    // have been cleared by a device that does not play by it.
    if (llvm::Error error = setCommand(pciCommandMemory | pciCommandMaster))
      return error;
    if (llvm::Error error = interrupts->rearm())
      return error;
    return checkLink();
  }

private:
  llvm::Error check(TargetSpaceId space, uint64_t address, unsigned width) const {
    if (LLVM_UNLIKELY(watch && watch->news() != VfioWatch::News::None))
      return watch->check(self.uri);
    return checkAccess(spaceTable, space, address, width);
  }

  /// Reads what only the device can answer: VFIO itself answers for the vendor and device numbers, whatever
  /// became of the device.
  llvm::Error checkLink() {
    llvm::Expected<uint64_t> identity = regions[configSpace].read(pciClassOffset, 4);
    if (!identity)
      return identity.takeError();
    if (*identity == 0xffffffff)
      return failTarget(
          "link-down", "the device answers all ones, its identity included: the link is down", self.uri,
          "reset the slot or power-cycle the board, then rescan (as root): echo 1 > /sys/bus/pci/rescan");
    return llvm::Error::success();
  }

  /// Sets the low command bits (I/O, memory, master) and leaves the others.
  llvm::Error setCommand(uint16_t bits) {
    if (regions.empty() || configSpace >= regions.size())
      return llvm::Error::success();
    llvm::Expected<uint64_t> command = regions[configSpace].read(pciCommandOffset, 2);
    if (!command)
      return command.takeError();
    uint64_t wanted = (*command & ~uint64_t(pciCommandMaster)) | bits;
    return regions[configSpace].write(pciCommandOffset, 2, wanted);
  }

  /// All devices that share the bus reset must be ours: the kernel checks it against the group descriptors
  /// given.
  llvm::Error hotReset() {
    alignas(vfio_pci_hot_reset) uint8_t buffer[sizeof(vfio_pci_hot_reset) + sizeof(int32_t)] = {};
    auto *request = reinterpret_cast<vfio_pci_hot_reset *>(buffer);
    request->argsz = sizeof buffer;
    request->count = 1;
    int32_t fd = container->groupDescriptor();
    std::memcpy(buffer + sizeof(vfio_pci_hot_reset), &fd, sizeof fd);
    if (::ioctl(device.get(), VFIO_DEVICE_PCI_HOT_RESET, request) != 0)
      return failTarget("reset-failed", std::string("the bus reset failed: ") + std::strerror(errno),
                        self.uri,
                        "devices of other IOMMU groups on the same bus keep the kernel from resetting it");
    return llvm::Error::success();
  }

  /// What the IOMMU cannot translate is taken out of what map() hands out.
  void reserveHoles() {
    uint64_t next = 0;
    uint64_t store =
        uint64_t(1) << 61; // Holes take no memory; only their bookkeeping needs an offset of its own.
    auto reserve = [&](uint64_t first, uint64_t end) {
      first &= ~(IovaSpace::pageSize - 1);
      if (end <= firstDeviceAddress || first >= end)
        return;
      first = std::max(first, firstDeviceAddress);
      uint64_t size = (end - first + IovaSpace::pageSize - 1) & ~(IovaSpace::pageSize - 1);
      if (iovas.place({first, size, store}))
        store += size;
    };
    for (const VfioContainer::IovaRange &range : container->ranges()) {
      if (range.first > next)
        reserve(next, range.first);
      next = range.last + 1;
      if (!next)
        return;
    }
  }

  llvm::Error giveBack(uint64_t iova, llvm::Error error) {
    llvm::consumeError(iovas.unmap(iova).takeError()); // Was mapped by the caller just before: cannot fail.
    return error;
  }

  llvm::Expected<uint8_t *> locate(uint64_t iova, uint64_t size) {
    auto it = memory.upper_bound(iova);
    if (it != memory.begin()) {
      const MemoryRegion &region = std::prev(it)->second;
      uint64_t offset = iova - region.iova;
      if (offset <= region.size && size <= region.size - offset)
        return region.host + offset;
    }
    return failUsage("unmapped-memory", std::to_string(size) + " bytes are not in one mapping",
                     "IOVA 0x" + llvm::utohexstr(iova, true));
  }

  TargetIdentity self;
  PciDevice pci;
  std::unique_ptr<VfioContainer> container;
  FileDescriptor device;
  std::vector<TargetSpace> spaceTable;
  std::vector<VfioRegion> regions; ///< Same order as spaceTable. Closed before `device`.
  size_t configSpace = 0;
  std::optional<VfioInterrupts> interrupts;
  IovaSpace iovas;
  std::map<uint64_t, MemoryRegion> memory;
  std::unique_ptr<VfioWatch> watch;
};

} // namespace

llvm::Expected<std::unique_ptr<Target>> openVfioTarget(const TargetUri &uri) {
  if (llvm::Error error = checkTargetOptions(uri, vfioOptions))
    return error;
  llvm::Expected<size_t> access = choiceOption(uri, "access", {"map", "file"}, 0);
  if (!access)
    return access.takeError();
  llvm::Expected<size_t> irq = choiceOption(uri, "irq", {"auto", "msix", "msi", "intx", "none"}, 0);
  if (!irq)
    return irq.takeError();
  llvm::Expected<uint64_t> bits = numberOption(uri, "dma-bits", 64, 25, 64);
  if (!bits)
    return bits.takeError();
  if (llvm::Expected<uint64_t> timeout = timeoutOption(uri); !timeout)
    return timeout.takeError();
  llvm::Expected<PciAddress> address = parsePciAddress(uri.rest);
  if (!address)
    return address.takeError();
  llvm::Expected<PciDevice> pci = readPciDevice(*address);
  if (!pci)
    return pci.takeError();
  llvm::Expected<std::unique_ptr<VfioContainer>> container = VfioContainer::open(*pci);
  if (!container)
    return container.takeError();
  llvm::Expected<FileDescriptor> device = (*container)->deviceDescriptor(*pci);
  if (!device)
    return device.takeError();

  TargetIdentity identity;
  identity.uri = uri.text;
  identity.kind = "vfio";
  identity.facts = pci->facts;
  identity.name = pciDeviceName(*pci);
  uint64_t end = *bits == 64 ? ~uint64_t(0) & ~(IovaSpace::pageSize - 1) : uint64_t(1) << *bits;
  end = std::min(end, (*container)->ranges().back().last & ~(IovaSpace::pageSize - 1));
  auto target = std::make_unique<VfioTarget>(std::move(identity), std::move(*pci), std::move(*container),
                                             std::move(*device), end);
  if (llvm::Error error = target->start(*access == 0, VfioInterruptMode(*irq)))
    return error;
  return target;
}

} // namespace tapeback
