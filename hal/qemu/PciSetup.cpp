#include "hal/qemu/PciSetup.h"
#include "format/MessageText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

namespace tapeback {
namespace {

constexpr uint16_t addressPort = 0xcf8, dataPort = 0xcfc;
constexpr unsigned devicesOnBus = 32;

// Between the RAM (at most 2 GiB) and the chipset's own registers (I/O APIC at 0xfec00000).
constexpr uint64_t windowStart = 0xe0000000, windowEnd = 0xfe000000;

// Offsets in configuration space.
constexpr uint8_t idOffset = 0x00, commandOffset = 0x04, classOffset = 0x08, headerOffset = 0x0c,
                  barOffset = 0x10, capabilitiesOffset = 0x34;
constexpr uint32_t commandMemory = 1u << 1, commandMaster = 1u << 2, commandNoIntx = 1u << 10;
constexpr uint32_t statusCapabilities = 1u << 20; // Status is the upper half of the command's word.

constexpr uint8_t msiCapability = 0x05;
constexpr uint32_t msiEnable = 1u << 16, msiMultiple = 7u << 20, msi64 = 1u << 23, msiMaskable = 1u << 24;

/// Of a device's configuration space, for the address port.
uint32_t addressOf(unsigned device) {
  return 0x80000000u | device << 11;
}

/// One device's configuration space.
class ConfigSpace {
public:
  ConfigSpace(QtestClient &client, unsigned device) : client(client), base(addressOf(device)) {}

  llvm::Error queueRead(uint8_t offset, uint64_t *value) {
    if (llvm::Error error = client.queue(QtestCommand::portOut(addressPort, base | offset)))
      return error;
    return client.queue(QtestCommand::portIn(dataPort), value);
  }

  llvm::Error queueWrite(uint8_t offset, uint32_t value) {
    if (llvm::Error error = client.queue(QtestCommand::portOut(addressPort, base | offset)))
      return error;
    return client.queue(QtestCommand::portOut(dataPort, value));
  }

  llvm::Expected<uint32_t> read(uint8_t offset) {
    uint64_t value = 0;
    if (llvm::Error error = queueRead(offset, &value))
      return error;
    if (llvm::Error error = client.collect())
      return error;
    return uint32_t(value);
  }

  llvm::Error contradiction(const std::string &what) {
    return client.fail("bad-pci-device", "QEMU's PCI device " + what,
                       "see that the program named by qemu= is QEMU");
  }

private:
  QtestClient &client;
  uint32_t base;
};

llvm::Expected<unsigned> findDevice(QtestClient &client, const QemuDevice &wanted) {
  uint64_t ids[devicesOnBus] = {};
  for (unsigned device = 0; device < devicesOnBus; ++device)
    if (llvm::Error error = ConfigSpace(client, device).queueRead(idOffset, &ids[device]))
      return error;
  if (llvm::Error error = client.collect())
    return error;
  const uint32_t id = uint32_t(wanted.deviceId) << 16 | wanted.vendorId;
  for (unsigned device = 0; device < devicesOnBus; ++device)
    if (ids[device] == id)
      return device;
  return client.fail("no-such-device",
                     "QEMU has no PCI device " + llvm::utohexstr(wanted.vendorId, true, 4) + ":" +
                         llvm::utohexstr(wanted.deviceId, true, 4) + " on its bus",
                     "see whether this QEMU was built with '" + std::string(wanted.argument) +
                         "' (-device help)");
}

/// Sizes all BARs at once: what stays 0 after writing ones is the size.
llvm::Error sizeBars(ConfigSpace &config, QtestClient &client, uint64_t (&before)[6], uint64_t (&after)[6]) {
  for (uint8_t i = 0; i < 6; ++i) {
    uint8_t offset = uint8_t(barOffset + 4 * i);
    if (llvm::Error error = config.queueRead(offset, &before[i]))
      return error;
    if (llvm::Error error = config.queueWrite(offset, 0xffffffff))
      return error;
    if (llvm::Error error = config.queueRead(offset, &after[i]))
      return error;
  }
  return client.collect();
}

llvm::Error readBars(ConfigSpace &config, QtestClient &client, std::vector<PciLayout::Bar> &bars) {
  uint64_t before[6], after[6];
  if (llvm::Error error = sizeBars(config, client, before, after))
    return error;
  for (unsigned i = 0; i < 6; ++i) {
    if (after[i] == 0 || before[i] & 1) // Absent, or I/O.
      continue;
    const unsigned index = i;
    const bool wide = (before[i] & 6) == 4;
    uint64_t mask = after[i] & ~uint64_t(15);
    if (wide) {
      if (++i == 6)
        return config.contradiction("has a 64-bit BAR in its last place");
      mask |= after[i] << 32;
    } else {
      mask |= uint64_t(0xffffffff) << 32;
    }
    const uint64_t size = ~mask + 1;
    if (size < 16 || !llvm::isPowerOf2_64(size))
      return config.contradiction("has a BAR with the impossible size mask " + hexText(mask));
    bars.push_back({index, size, wide});
  }
  return llvm::Error::success();
}

llvm::Error findMsi(ConfigSpace &config, PciLayout &layout) {
  llvm::Expected<uint32_t> first = config.read(capabilitiesOffset);
  if (!first)
    return first.takeError();
  uint8_t offset = *first & 0xfc;
  // 48 capabilities fill the space; more is a loop.
  for (int steps = 0; steps < 48 && offset >= 0x40; ++steps) {
    llvm::Expected<uint32_t> head = config.read(offset);
    if (!head)
      return head.takeError();
    if ((*head & 0xff) != msiCapability) {
      offset = *head >> 8 & 0xfc;
      continue;
    }
    if (offset > 0xe8)
      return config.contradiction("has an MSI capability beyond its configuration space");
    layout.msiAt = offset;
    layout.msiHead = *head;
    return llvm::Error::success();
  }
  return config.contradiction("has no MSI capability");
}

void aimMsi(const PciLayout &layout, MsiMessage message, std::vector<PciWrite> &writes) {
  uint8_t at = uint8_t(layout.msiAt + 4);
  writes.push_back({at, uint32_t(message.address)});
  at = uint8_t(at + 4);
  if (layout.msiHead & msi64) {
    writes.push_back({at, uint32_t(message.address >> 32)});
    at = uint8_t(at + 4);
  }
  writes.push_back({at, message.data});
  if (layout.msiHead & msiMaskable)
    writes.push_back({uint8_t(at + 4), 0});
  // One message only: with more, the device changes the low bits of the data.
  writes.push_back({layout.msiAt, (layout.msiHead & ~msiMultiple) | msiEnable});
}

} // namespace

llvm::Expected<PciSetupPlan> planPciSetup(const PciLayout &layout, MsiMessage message) {
  PciSetupPlan plan;
  uint64_t next = windowStart;
  for (const PciLayout::Bar &bar : layout.bars) {
    const uint64_t address = llvm::alignTo(next, bar.size);
    if (address < next || address >= windowEnd || windowEnd - address < bar.size)
      return failUsage("bad-pci-device", "QEMU's PCI device has BARs that do not fit below 4 GiB");
    const uint8_t offset = uint8_t(barOffset + 4 * bar.index);
    plan.writes.push_back({offset, uint32_t(address)});
    if (bar.wide)
      plan.writes.push_back({uint8_t(offset + 4), 0});
    plan.bars.push_back({bar.index, address, bar.size});
    next = address + bar.size;
  }
  if (layout.msiAt)
    aimMsi(layout, message, plan.writes);
  plan.writes.push_back({commandOffset, commandMemory | commandMaster | commandNoIntx});
  return plan;
}

PciPortWrites portWritesOf(const PciLayout &layout, PciWrite write) {
  return {addressPort, dataPort, addressOf(layout.device) | write.offset, write.value};
}

std::optional<PciLayout> knownPciLayout(const QemuDevice &device) {
  // The first free place of the bus, behind the host bridge.
  constexpr uint8_t place = 1;
  if (llvm::StringRef(device.name) == "edu")
    return PciLayout{place, {{0, 1 << 20, false}}, 0x40, 0x00800005};
  if (llvm::StringRef(device.name) == "nvme")
    return PciLayout{place, {{0, 1 << 14, true}}, 0, 0};
  return std::nullopt;
}

llvm::Expected<PciLayout> readPciLayout(QtestClient &client, const QemuDevice &device) {
  PciLayout layout;
  llvm::Expected<unsigned> number = findDevice(client, device);
  if (!number)
    return number.takeError();
  layout.device = uint8_t(*number);
  ConfigSpace config(client, *number);
  llvm::Expected<uint32_t> header = config.read(headerOffset);
  if (!header)
    return header.takeError();
  if (const uint32_t type = *header >> 16 & 0x7f)
    return config.contradiction("is not an ordinary function (header type " + hexText(type) + ")");
  if (llvm::Error error = readBars(config, client, layout.bars))
    return error;
  if (device.interrupts != QemuInterrupts::Msi)
    return layout;
  llvm::Expected<uint32_t> command = config.read(commandOffset);
  if (!command)
    return command.takeError();
  if (!(*command & statusCapabilities))
    return config.contradiction("has no capabilities, MSI among them");
  if (llvm::Error error = findMsi(config, layout))
    return error;
  return layout;
}

llvm::Expected<PciFunction> setUpPciDevice(QtestClient &client, const QemuDevice &device,
                                           MsiMessage message) {
  llvm::Expected<PciLayout> layout = readPciLayout(client, device);
  if (!layout)
    return layout.takeError();
  PciFunction function;
  function.device = layout->device;
  ConfigSpace config(client, layout->device);
  llvm::Expected<uint32_t> classWord = config.read(classOffset);
  if (!classWord)
    return classWord.takeError();
  function.revision = uint8_t(*classWord);
  function.classCode = *classWord >> 8;
  llvm::Expected<PciSetupPlan> plan = planPciSetup(*layout, message);
  if (!plan) {
    llvm::consumeError(plan.takeError()); // Here it is the device's fault, not a caller's.
    return config.contradiction("has BARs that do not fit below 4 GiB");
  }
  for (PciWrite write : plan->writes)
    if (llvm::Error error = config.queueWrite(write.offset, write.value))
      return error;
  for (const PciBar &bar : plan->bars) {
    llvm::Expected<uint32_t> placed = config.read(uint8_t(barOffset + 4 * bar.index));
    if (!placed)
      return placed.takeError();
    if ((*placed & ~15u) != bar.address)
      return config.contradiction("did not take address " + hexText(bar.address) + " for BAR " +
                                  std::to_string(bar.index));
  }
  function.bars = std::move(plan->bars);
  return function;
}

} // namespace tapeback
