#include "recorder/PreloadTargets.h"
#include "format/Failure.h"
#include "hal/model/PluginSearch.h"
#include "hal/vfio/PciDevice.h"
#include "recorder/ring/CaptureTable.h"
#include "llvm/Support/FileSystem.h"
#include <algorithm>

namespace tapeback {

llvm::Expected<std::vector<RecordTarget>> preloadTargets() {
  std::vector<RecordTarget> targets;
  for (const PciDevice &device : listPciDevices()) {
    if (device.driver.find("vfio") == std::string::npos || targets.size() == capture::maxDevices)
      continue;
    RecordTarget target;
    target.uri = "vfio:" + device.address.str();
    target.alias = device.address.str();
    std::replace(target.alias.begin(), target.alias.end(), ':', '-');
    targets.push_back(std::move(target));
  }
  if (targets.empty())
    return failUsage("no-target", "no PCI device here is bound to a VFIO driver", "--preload",
                     "`tapeback targets` says of each device what to do");
  return targets;
}

llvm::Error checkPreloadTargets(const std::vector<RecordTarget> &targets) {
  for (const RecordTarget &target : targets)
    if (!llvm::StringRef(target.uri).starts_with("vfio:"))
      return failUsage("bad-option", "with --preload the program drives its device through VFIO by itself",
                       target.uri,
                       "name vfio: targets, or none for all that are bound to VFIO; or link the program to "
                       "libtapeback.so and leave --preload out");
  return llvm::Error::success();
}

llvm::Expected<std::string> findPreloadLibrary() {
  std::string looked;
  for (const std::string &directory : privateLibraryDirectories()) {
    std::string path = directory + "/tapeback-preload.so";
    if (llvm::sys::fs::exists(path))
      return path;
    looked += (looked.empty() ? "" : ", ") + directory;
  }
  return failSystem("incomplete-installation", "tapeback-preload.so is not there", looked,
                    "install Tapeback again, whole");
}

} // namespace tapeback
