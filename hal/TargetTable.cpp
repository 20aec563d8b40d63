// The schemes of targets. One place to read, one place to add.
#include "format/Failure.h"
#include "hal/Target.h"
#include "hal/TargetUri.h"
#include "hal/model/ModelTarget.h"
#include "hal/null/NullTarget.h"
#include "hal/pci-sysfs/SysfsTarget.h"
#include "hal/qemu/QemuTarget.h"
#include "hal/qemu/QtestTarget.h"
#include "hal/vfio/PciConfig.h"
#include "hal/vfio/VfioTarget.h"
#include "llvm/Support/Path.h"

namespace tapeback {
namespace {

struct SchemeEntry {
  TargetScheme help;
  llvm::Expected<std::unique_ptr<Target>> (*open)(const TargetUri &uri);
  std::string (*deviceName)(const TargetUri &uri);
};

/// "edu" of "qemu:edu", "model:edu", "rtl:edu" and "model:/path/tapeback-model-edu.so".
std::string nameInUri(const TargetUri &uri) {
  llvm::StringRef name = llvm::sys::path::filename(uri.rest);
  name.consume_back(".so");
  name.consume_front("tapeback-" + uri.scheme + "-");
  return name.str();
}

/// A machine is no device.
std::string noName(const TargetUri &) {
  return {};
}

/// What sysfs says is at the address.
std::string namePci(const TargetUri &uri) {
  llvm::Expected<PciAddress> address = parsePciAddress(uri.rest);
  if (!address) {
    llvm::consumeError(address.takeError()); // Opening the target says so, with its place.
    return {};
  }
  llvm::Expected<PciDevice> device = readPciDevice(*address);
  if (!device) {
    llvm::consumeError(device.takeError()); // Likewise.
    return {};
  }
  return pciDeviceName(*device);
}

const SchemeEntry schemeTable[] = {
    {{"null", "null:?spaces=bar0,config&size=BYTES&vectors=N",
      "accepts everything, answers nothing that means anything"},
     openNullTarget,
     nameInUri},
    {{"model", "model:NAME-or-path?OPTION=VALUE", "a model plugin, in a process of its own"},
     openModelTarget,
     nameInUri},
    {{"rtl", "rtl:NAME-or-path?OPTION=VALUE", "RTL in a simulator, as a plugin, in a process of its own"},
     openModelTarget,
     nameInUri},
    {{"qemu", "qemu:DEVICE?OPTION=VALUE", "a device of QEMU, in a virtual machine of its own"},
     openQemuTarget,
     nameInUri},
    {{"qtest", "qtest:[ARCHITECTURE]?args=ARGS",
      "QEMU's machine of an imported qtest capture; from the tape if it is not said"},
     openQtestTarget,
     noName},
    {{"vfio", "vfio:DOMAIN:BUS:DEVICE.FUNCTION?OPTION=VALUE",
      "a PCI device, through Linux VFIO and the IOMMU"},
     openVfioTarget,
     namePci},
    {{"pci-sysfs", "pci-sysfs:DOMAIN:BUS:DEVICE.FUNCTION", "a PCI device's registers only, without an IOMMU"},
     openSysfsTarget,
     namePci},
};

} // namespace

llvm::Expected<std::unique_ptr<Target>> openTarget(llvm::StringRef text) {
  llvm::Expected<TargetUri> uri = parseTargetUri(text);
  if (!uri)
    return uri.takeError();
  for (const SchemeEntry &entry : schemeTable)
    if (uri->scheme == entry.help.scheme)
      return entry.open(*uri);
  std::string list = "targets are:";
  for (const SchemeEntry &entry : schemeTable)
    list += std::string("\n  ") + entry.help.syntax + "  " + entry.help.summary;
  return failUsage("unknown-target-scheme", "there is no kind of target '" + uri->scheme + "'",
                   "target '" + uri->text + "'", std::move(list));
}

std::string targetDeviceName(const TargetUri &uri) {
  for (const SchemeEntry &entry : schemeTable)
    if (uri.scheme == entry.help.scheme)
      return entry.deviceName(uri);
  return {};
}

llvm::ArrayRef<TargetScheme> targetSchemes() {
  static const std::vector<TargetScheme> rows = [] {
    std::vector<TargetScheme> all;
    for (const SchemeEntry &entry : schemeTable)
      all.push_back(entry.help);
    return all;
  }();
  return rows;
}

} // namespace tapeback
