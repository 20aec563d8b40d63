#include "hal/vfio/PciDevice.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace tapeback {
namespace {

/// A sysfs attribute is one short line. Absent or unreadable attributes are an empty string: facts, not
/// errors.
std::string attribute(const std::string &folder, const char *name) {
  llvm::Expected<std::string> text = readTextFile(folder + "/" + name, TextLimits{4096, 1});
  if (!text) {
    llvm::consumeError(text.takeError()); // Not every device has every attribute.
    return {};
  }
  return llvm::StringRef(*text).trim().str();
}

uint64_t hexAttribute(const std::string &folder, const char *name) {
  uint64_t value = 0;
  // A sysfs attribute that is no number stays 0, which no vendor has: the caller sees a device nobody made.
  if (llvm::StringRef(attribute(folder, name)).getAsInteger(0, value))
    return 0;
  return value;
}

/// The last part of where a symbolic link points to; empty if there is none.
std::string linkName(const std::string &path) {
  char target[PATH_MAX];
  ssize_t n = ::readlink(path.c_str(), target, sizeof target);
  return n <= 0 ? std::string() : llvm::sys::path::filename(llvm::StringRef(target, size_t(n))).str();
}

bool isVfioDriver(llvm::StringRef driver) {
  return driver.contains("vfio");
}

} // namespace

std::string PciAddress::str() const {
  return llvm::formatv("{0:x-4}:{1:x-2}:{2:x-2}.{3}", domain, unsigned(bus), unsigned(device),
                       unsigned(function))
      .str();
}

llvm::Expected<PciAddress> parsePciAddress(llvm::StringRef text) {
  auto bad = [&] {
    return failUsage(
        "bad-pci-address", "'" + text.str() + "' is no PCI address", "",
        "write DOMAIN:BUS:DEVICE.FUNCTION in hexadecimal, as `lspci -D` prints it: 0000:01:00.0");
  };
  llvm::SmallVector<llvm::StringRef, 4> parts;
  text.split(parts, ':');
  if (parts.size() == 2)
    parts.insert(parts.begin(), "0");
  if (parts.size() != 3)
    return bad();
  auto [slot, function] = parts[2].split('.');
  auto number = [](llvm::StringRef digits, unsigned maxDigits, unsigned limit, unsigned &out) {
    return !digits.empty() && digits.size() <= maxDigits && llvm::all_of(digits, llvm::isHexDigit) &&
           !digits.getAsInteger(16, out) && out <= limit;
  };
  unsigned domain = 0, bus = 0, device = 0, fn = 0;
  if (!number(parts[0], 8, 0x7fffffff, domain) || !number(parts[1], 2, 0xff, bus) ||
      !number(slot, 2, 0x1f, device) || !number(function, 1, 7, fn))
    return bad();
  return PciAddress{domain, uint8_t(bus), uint8_t(device), uint8_t(fn)};
}

llvm::Expected<PciDevice> readPciDevice(const PciAddress &address, llvm::StringRef sysfs) {
  PciDevice result;
  result.address = address;
  result.folder = sysfs.str() + "/bus/pci/devices/" + address.str();
  if (!llvm::sys::fs::is_directory(result.folder))
    return failUsage("no-such-device", "there is no PCI device " + address.str(), result.folder,
                     "`tapeback targets` lists the devices of this machine");
  result.vendor = uint16_t(hexAttribute(result.folder, "vendor"));
  result.device = uint16_t(hexAttribute(result.folder, "device"));
  result.classCode = uint32_t(hexAttribute(result.folder, "class"));
  result.revision = uint8_t(hexAttribute(result.folder, "revision"));
  result.driver = linkName(result.folder + "/driver");
  unsigned group = 0;
  if (std::string name = linkName(result.folder + "/iommu_group");
      !name.empty() && !llvm::StringRef(name).getAsInteger(10, group))
    result.iommuGroup = group;

  auto fact = [&](const char *key, std::string value) {
    if (!value.empty())
      result.facts[key] = std::move(value);
  };
  fact("address", address.str());
  fact("vendor", llvm::formatv("{0:x4}", result.vendor).str());
  fact("device", llvm::formatv("{0:x4}", result.device).str());
  fact("revision", llvm::formatv("{0:x2}", result.revision).str());
  fact("class", llvm::formatv("{0:x6}", result.classCode).str());
  fact("driver", result.driver);
  fact("link-speed", attribute(result.folder, "current_link_speed"));
  fact("link-width", attribute(result.folder, "current_link_width"));
  fact("subsystem-vendor", attribute(result.folder, "subsystem_vendor"));
  fact("subsystem-device", attribute(result.folder, "subsystem_device"));
  fact("reset-methods", attribute(result.folder, "reset_method"));
  if (result.iommuGroup)
    fact("iommu-group", std::to_string(*result.iommuGroup));
  return result;
}

std::vector<PciDevice> listPciDevices(llvm::StringRef sysfs) {
  std::vector<PciDevice> all;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(sysfs + "/bus/pci/devices", error), end; it != end && !error;
       it.increment(error)) {
    llvm::Expected<PciAddress> address = parsePciAddress(llvm::sys::path::filename(it->path()));
    if (!address) {
      llvm::consumeError(address.takeError()); // Not a device's folder.
      continue;
    }
    llvm::Expected<PciDevice> device = readPciDevice(*address, sysfs);
    if (device)
      all.push_back(std::move(*device));
    else
      llvm::consumeError(device.takeError()); // Unplugged between the listing and the look.
  }
  std::sort(all.begin(), all.end(),
            [](const PciDevice &a, const PciDevice &b) { return a.folder < b.folder; });
  return all;
}

std::vector<PciDevice> groupBlockers(const PciDevice &device, llvm::StringRef sysfs) {
  std::vector<PciDevice> blockers;
  if (!device.iommuGroup)
    return blockers;
  for (PciDevice &other : listPciDevices(sysfs)) {
    bool bridge = (other.classCode >> 16) == 0x06;
    if (other.iommuGroup == device.iommuGroup && !(other.address == device.address) &&
        !other.driver.empty() && !isVfioDriver(other.driver) && !(bridge && other.driver == "pcieport"))
      blockers.push_back(std::move(other));
  }
  return blockers;
}

llvm::Error checkVfioReady(const PciDevice &device, llvm::StringRef sysfs, llvm::StringRef dev) {
  const std::string name = device.address.str();
  if (!device.iommuGroup)
    return failUsage("no-iommu", "the device is behind no IOMMU, so its DMA could not be confined",
                     device.folder,
                     "boot with intel_iommu=on (or amd_iommu=on) and enable VT-d/AMD-Vi in the firmware; "
                     "without an IOMMU only registers can be driven: pci-sysfs:" +
                         name);
  if (!isVfioDriver(device.driver))
    return failUsage(
        "not-bound",
        device.driver.empty() ? "the device is bound to no driver"
                              : "the device belongs to the driver '" + device.driver + "'",
        device.folder,
        "if nothing here needs it, give it to VFIO (as root): modprobe vfio-pci; echo vfio-pci > " +
            device.folder + "/driver_override; " +
            (device.driver.empty() ? std::string()
                                   : "echo " + name + " > " + device.folder + "/driver/unbind; ") +
            "echo " + name + " > " + sysfs.str() + "/bus/pci/drivers_probe");
  std::vector<PciDevice> blockers = groupBlockers(device, sysfs);
  if (!blockers.empty()) {
    std::string list, commands;
    for (const PciDevice &other : blockers) {
      list += (list.empty() ? "" : ", ") + other.address.str() + " (" + other.driver + ")";
      commands += (commands.empty() ? "" : "; ") + std::string("echo ") + other.address.str() + " > " +
                  other.folder + "/driver/unbind";
    }
    return failUsage("group-not-viable",
                     "IOMMU group " + std::to_string(*device.iommuGroup) +
                         " is shared with devices that the kernel drives: " + list,
                     device.folder, "unbind them (as root): " + commands);
  }
  std::string group = dev.str() + "/vfio/" + std::to_string(*device.iommuGroup);
  for (const std::string &path : {dev.str() + "/vfio/vfio", group})
    if (::access(path.c_str(), R_OK | W_OK) != 0) {
      if (errno == ENOENT)
        return failUsage("no-vfio", path + " does not exist", device.folder,
                         "load VFIO (as root): modprobe vfio-pci");
      return failUsage("no-permission", path + ": " + std::strerror(errno), device.folder,
                       "let this user use it (as root): chown " + std::to_string(::getuid()) + " " + path);
    }
  return llvm::Error::success();
}

} // namespace tapeback
