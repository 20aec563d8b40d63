// What Linux's sysfs says of a PCI device: its address, who it is, which driver holds it, which IOMMU group
// it is in. Reads files only; opens no device.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

/// Domain, bus, device, function. Text form "0000:01:00.0"; the domain may be left out when read.
struct PciAddress {
  uint32_t domain = 0;
  uint8_t bus = 0, device = 0, function = 0;
  std::string str() const;
  bool operator==(const PciAddress &) const = default;
};
llvm::Expected<PciAddress> parsePciAddress(llvm::StringRef text);

struct PciDevice {
  PciAddress address;
  std::string folder; ///< In sysfs.
  uint16_t vendor = 0, device = 0;
  uint32_t classCode = 0;
  uint8_t revision = 0;
  std::string driver; ///< Empty: bound to none.
  std::optional<unsigned> iommuGroup;
  std::map<std::string, std::string> facts; ///< For TargetIdentity: vendor, device, revision, driver, link …
};

/// `sysfs` is "/sys" except in tests. Missing device → Usage failure "no-such-device".
llvm::Expected<PciDevice> readPciDevice(const PciAddress &address, llvm::StringRef sysfs = "/sys");
/// All of them, in order of address. An empty list where there is no PCI.
std::vector<PciDevice> listPciDevices(llvm::StringRef sysfs = "/sys");
/// The other devices of the group that keep it from being viable: bound to a driver that is not VFIO's
/// (bridges do not count: the kernel's own port driver is allowed).
std::vector<PciDevice> groupBlockers(const PciDevice &device, llvm::StringRef sysfs = "/sys");

/// Why the device cannot be driven through VFIO, with the command that fixes it; success if nothing stands in
/// the way that sysfs and access rights can tell. Class Usage for what the user can set right.
llvm::Error checkVfioReady(const PciDevice &device, llvm::StringRef sysfs = "/sys",
                           llvm::StringRef dev = "/dev");

} // namespace tapeback
