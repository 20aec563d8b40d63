#include "replayer/TargetSet.h"
#include "format/Failure.h"
#include "hal/qemu/QtestTarget.h"

namespace tapeback {

llvm::Expected<std::vector<std::string>>
resolveTargets(const TapeSource &source, llvm::ArrayRef<std::string> arguments, llvm::StringRef option) {
  llvm::ArrayRef<DeviceRecord> devices = source.reader().devices();
  std::string aliases;
  for (const DeviceRecord &device : devices)
    aliases +=
        (aliases.empty() ? "" : ", ") + (device.alias.empty() ? std::string("(unnamed)") : device.alias);
  std::vector<std::string> uris(devices.size());
  size_t next = 0;
  for (const std::string &argument : arguments) {
    // A URI has '=' only behind its ':'.
    size_t equals = argument.find('='), colon = argument.find(':');
    size_t device;
    std::string uri = argument;
    if (equals != std::string::npos && equals < colon) {
      std::string alias = argument.substr(0, equals);
      uri = argument.substr(equals + 1);
      for (device = 0; device < devices.size(); ++device)
        if (devices[device].alias == alias)
          break;
      if (device == devices.size())
        return failUsage("unknown-device", "the tape has no device '" + alias + "'",
                         option.str() + " " + argument, "its devices are: " + aliases);
    } else if (devices.empty()) {
      continue; // The program never opened one: any target will do, and none is needed.
    } else {
      device = next++;
      if (device >= devices.size())
        return failUsage("target-count",
                         "more targets than the tape has devices (" + std::to_string(devices.size()) + ")",
                         option.str() + " " + argument, "its devices are: " + aliases);
    }
    if (!uris[device].empty())
      return failUsage("target-count", "two targets for device '" + devices[device].alias + "'",
                       option.str() + " " + argument);
    uris[device] = uri;
  }
  // A machine that came with the capture is known.
  for (size_t i = 0; i < uris.size(); ++i) {
    llvm::StringRef wanted = uris[i];
    bool completes =
        wanted.empty() || wanted == "qtest:" ||
        (wanted.starts_with("qtest:?") && !wanted.contains("?args=") && !wanted.contains("&args="));
    if (!completes)
      continue;
    std::string uri = qtestUriOf(devices[i].identity, wanted.split('?').second);
    if (!uri.empty())
      uris[i] = uri;
  }
  for (size_t i = 0; i < uris.size(); ++i)
    if (uris[i].empty())
      return failUsage("target-count", "no target for device '" + devices[i].alias + "'", option.str(),
                       devices.size() == 1 ? "give " + option.str() + " URI"
                                           : "give " + option.str() + " ALIAS=URI for each of: " + aliases);
  return uris;
}

llvm::Expected<TargetSet> openTargets(llvm::ArrayRef<std::string> uris) {
  TargetSet set;
  for (const std::string &uri : uris) {
    llvm::Expected<std::unique_ptr<Target>> target = openTarget(uri);
    if (!target)
      return target.takeError();
    set.targets.push_back(target->get());
    set.owned.push_back(std::move(*target));
  }
  return set;
}

} // namespace tapeback
