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

/// One device's configuration space.
class ConfigSpace {
public:
  ConfigSpace(QtestClient &client, unsigned device) : client(client), base(0x80000000u | device << 11) {}

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

  llvm::Error write(uint8_t offset, uint32_t value) {
    if (llvm::Error error = queueWrite(offset, value))
      return error;
    return client.collect();
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

llvm::Error placeBars(ConfigSpace &config, QtestClient &client, std::vector<PciBar> &bars) {
  uint64_t before[6], after[6];
  if (llvm::Error error = sizeBars(config, client, before, after))
    return error;
  uint64_t next = windowStart;
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
    const uint64_t address = llvm::alignTo(next, size);
    if (address < next || address >= windowEnd || windowEnd - address < size)
      return config.contradiction("has BARs that do not fit below 4 GiB");
    if (llvm::Error error = config.queueWrite(uint8_t(barOffset + 4 * index), uint32_t(address)))
      return error;
    if (wide)
      if (llvm::Error error = config.queueWrite(uint8_t(barOffset + 4 * index + 4), 0))
        return error;
    llvm::Expected<uint32_t> placed = config.read(uint8_t(barOffset + 4 * index));
    if (!placed)
      return placed.takeError();
    if ((*placed & ~15u) != address)
      return config.contradiction("did not take address " + hexText(address) + " for BAR " +
                                  std::to_string(index));
    bars.push_back({index, address, size});
    next = address + size;
  }
  return llvm::Error::success();
}

llvm::Error aimMsi(ConfigSpace &config, MsiMessage message) {
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
    uint8_t at = uint8_t(offset + 4);
    if (llvm::Error error = config.queueWrite(at, uint32_t(message.address)))
      return error;
    at = uint8_t(at + 4);
    if (*head & msi64) {
      if (llvm::Error error = config.queueWrite(at, uint32_t(message.address >> 32)))
        return error;
      at = uint8_t(at + 4);
    }
    if (llvm::Error error = config.queueWrite(at, message.data))
      return error;
    if (*head & msiMaskable)
      if (llvm::Error error = config.queueWrite(uint8_t(at + 4), 0))
        return error;
    // One message only: with more, the device changes the low bits of the data.
    return config.write(offset, (*head & ~msiMultiple) | msiEnable);
  }
  return config.contradiction("has no MSI capability");
}

} // namespace

llvm::Expected<PciFunction> setUpPciDevice(QtestClient &client, const QemuDevice &device,
                                           MsiMessage message) {
  llvm::Expected<unsigned> number = findDevice(client, device);
  if (!number)
    return number.takeError();
  PciFunction function;
  function.device = uint8_t(*number);
  ConfigSpace config(client, *number);
  uint64_t classWord = 0, header = 0, command = 0;
  for (auto [offset, value] :
       {std::pair{classOffset, &classWord}, {headerOffset, &header}, {commandOffset, &command}})
    if (llvm::Error error = config.queueRead(offset, value))
      return error;
  if (llvm::Error error = client.collect())
    return error;
  if ((header >> 16 & 0x7f) != 0)
    return config.contradiction("is not an ordinary function (header type " + hexText(header >> 16 & 0x7f) +
                                ")");
  function.revision = uint8_t(classWord);
  function.classCode = uint32_t(classWord >> 8);
  if (llvm::Error error = placeBars(config, client, function.bars))
    return error;
  if (device.interrupts == QemuInterrupts::Msi) {
    if (!(command & statusCapabilities))
      return config.contradiction("has no capabilities, MSI among them");
    if (llvm::Error error = aimMsi(config, message))
      return error;
  }
  if (llvm::Error error = config.write(commandOffset, commandMemory | commandMaster | commandNoIntx))
    return error;
  return function;
}

} // namespace tapeback
