// tapeback targets: which kinds of target there are, and what can be driven from here; or what one target is.
#include "format/Failure.h"
#include "hal/Target.h"
#include "hal/TargetUri.h"
#include "hal/model/ModelTarget.h"
#include "hal/model/PluginSearch.h"
#include "hal/qemu/QemuDevices.h"
#include "hal/qemu/QemuOptions.h"
#include "hal/vfio/PciDevice.h"
#include "tools/CommandLine.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <cerrno>
#include <cstring>
#include <unistd.h>

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp targetsHelp = {
    "targets",
    "Say which kinds of target there are and what can be driven from here",
    "[URI] [--json]",
    "Without URI: every kind of target with its syntax, what of it is installed here, and why something\n"
    "cannot be driven. Nothing is started. With URI: opens that target, says what it is and can do, and\n"
    "closes it again.\n",
    "  tapeback targets\n"
    "  tapeback targets qemu:edu\n"
    "  tapeback targets 'model:edu?fault=factorial' --json\n",
    "  0  done\n"
    "  2  bad usage: there is no such target\n"
    "  4  the target could not be opened\n"};

/// Something of a kind that is, or could be, driven from here.
struct Instance {
  std::string uri, summary;
  std::optional<Failure> problem; ///< Why it cannot.
};

std::optional<Failure> problemOf(Error error) {
  return error ? std::optional(toFailure(std::move(error))) : std::nullopt;
}

std::vector<Instance> nullInstances() {
  return {{"null:", "always there", std::nullopt}};
}

std::vector<Instance> pluginInstances(StringRef kind) {
  std::vector<Instance> result;
  Expected<std::string> host = findModelHost();
  std::optional<Failure> noHost = problemOf(host.takeError());
  for (const std::string &name : modelNames(kind))
    result.push_back({(kind + ":" + name).str(), "", noHost});
  return result;
}
std::vector<Instance> modelInstances() {
  return pluginInstances("model");
}
std::vector<Instance> rtlInstances() {
  return pluginInstances("rtl");
}

std::vector<Instance> qemuInstances() {
  std::vector<Instance> result;
  for (const QemuDevice &device : qemuDevices()) {
    std::string uri = std::string("qemu:") + device.name;
    Error error = [&]() -> Error {
      Expected<TargetUri> parsed = parseTargetUri(uri);
      return parsed ? parseQemuOptions(*parsed).takeError() : parsed.takeError();
    }();
    result.push_back({uri, device.summary, problemOf(std::move(error))});
  }
  return result;
}

/// Bridges carry others' traffic; nobody drives one as a device under test.
bool isBridge(const PciDevice &device) {
  return device.classCode >> 16 == 0x06;
}

std::string pciSummary(const PciDevice &device) {
  std::string text;
  raw_string_ostream os(text);
  os << format_hex_no_prefix(device.vendor, 4) << ":" << format_hex_no_prefix(device.device, 4);
  if (!device.driver.empty())
    os << ", driver " << device.driver;
  return text;
}

std::vector<Instance> vfioInstances() {
  std::vector<Instance> result;
  for (const PciDevice &device : listPciDevices())
    if (!isBridge(device))
      result.push_back(
          {"vfio:" + device.address.str(), pciSummary(device), problemOf(checkVfioReady(device))});
  return result;
}

std::vector<Instance> sysfsInstances() {
  std::vector<Instance> result;
  for (const PciDevice &device : listPciDevices()) {
    if (isBridge(device))
      continue;
    std::optional<Failure> problem;
    const std::string bar = device.folder + "/resource0";
    if (!device.driver.empty())
      problem = Failure(FailureClass::Usage, "device-busy",
                        "the driver '" + device.driver + "' is using the device", device.folder,
                        "if nothing here needs it (as root): echo " + device.address.str() + " > " +
                            device.folder + "/driver/unbind");
    else if (access(bar.c_str(), R_OK | W_OK))
      problem = Failure(FailureClass::Usage, "no-access", bar + ": " + std::strerror(errno), device.folder,
                        "the device needs a memory BAR, and you the right to open its file");
    result.push_back({"pci-sysfs:" + device.address.str(), pciSummary(device), std::move(problem)});
  }
  return result;
}

std::vector<Instance> noInstances() {
  return {};
}

/// One row per scheme whose instances can be found without opening any. Others have syntax and summary only.
struct InstanceFinder {
  const char *scheme;
  std::vector<Instance> (*find)();
  const char *none; ///< What to say if there are none.
};
constexpr InstanceFinder finders[] = {
    {"null", nullInstances, ""},
    {"model", modelInstances, "no model plugin is installed; a path to one can be given"},
    {"rtl", rtlInstances, "no RTL plugin is installed; a path to one can be given"},
    {"qemu", qemuInstances, "no device of QEMU is known"},
    {"qtest", noInstances, "the machine comes with an imported capture"},
    {"vfio", vfioInstances, "no PCI device can be seen here"},
    {"pci-sysfs", sysfsInstances, "no PCI device can be seen here"},
};

const InstanceFinder *finderOf(StringRef scheme) {
  for (const InstanceFinder &finder : finders)
    if (scheme == finder.scheme)
      return &finder;
  return nullptr;
}

std::vector<Instance> instancesOf(StringRef scheme) {
  const InstanceFinder *finder = finderOf(scheme);
  return finder ? finder->find() : std::vector<Instance>();
}

int listSchemes(Report &report) {
  json::OStream &os = report.object();
  auto writeJson = [&](const TargetScheme &scheme) {
    os.object([&] {
      os.attribute("scheme", scheme.scheme);
      os.attribute("syntax", scheme.syntax);
      os.attribute("summary", scheme.summary);
      os.attributeArray("here", [&] {
        for (const Instance &instance : instancesOf(scheme.scheme))
          os.object([&] {
            os.attribute("uri", json::fixUTF8(instance.uri));
            os.attribute("summary", json::fixUTF8(instance.summary));
            os.attribute("usable", !instance.problem);
            os.attribute("code",
                         instance.problem ? json::Value(instance.problem->code) : json::Value(nullptr));
            os.attribute("why_not", instance.problem ? json::Value(json::fixUTF8(instance.problem->message))
                                                     : json::Value(nullptr));
            os.attribute("hint", instance.problem ? json::Value(json::fixUTF8(instance.problem->hint))
                                                  : json::Value(nullptr));
          });
      });
    });
  };
  if (report.json()) {
    report.verdict(0);
    os.attributeArray("schemes", [&] {
      for (const TargetScheme &scheme : targetSchemes())
        writeJson(scheme);
    });
    return report.finish(0);
  }
  for (const TargetScheme &scheme : targetSchemes()) {
    outs() << scheme.syntax << "\n    " << scheme.summary << "\n";
    std::vector<Instance> instances = instancesOf(scheme.scheme);
    if (const InstanceFinder *finder = finderOf(scheme.scheme); finder && instances.empty())
      outs() << "    " << finder->none << "\n";
    for (const Instance &instance : instances) {
      outs() << "    " << left_justify(instance.uri, 22)
             << (instance.problem ? " cannot be driven: " : " can be driven")
             << (instance.problem ? instance.problem->message + " [" + instance.problem->code + "]" : "");
      if (!instance.summary.empty())
        outs() << "  (" << instance.summary << ")";
      outs() << "\n";
      if (instance.problem && !instance.problem->hint.empty())
        outs() << "        hint: " << instance.problem->hint << "\n";
    }
  }
  return report.finish(0);
}

struct CapabilityName {
  const char *name;
  bool TargetCapabilities::*field;
};
constexpr CapabilityName capabilityNames[] = {
    {"registers", &TargetCapabilities::registers},
    {"memory", &TargetCapabilities::memory},
    {"choose_iova", &TargetCapabilities::chooseIova},
    {"interrupts", &TargetCapabilities::interrupts},
    {"reset", &TargetCapabilities::reset},
    {"counters", &TargetCapabilities::counters},
    {"device_time", &TargetCapabilities::deviceTime},
    {"peek", &TargetCapabilities::peek},
    {"snapshots", &TargetCapabilities::snapshots},
    {"trace", &TargetCapabilities::trace},
    {"answers", &TargetCapabilities::answers},
};

/// What options a model or RTL has, the target's own and the plugin's in its words. Nothing of other kinds.
struct PluginOptions {
  ArrayRef<TargetOptionHelp> own;
  std::string plugin; ///< Empty: it does not say.
};

Expected<std::optional<PluginOptions>> optionsOf(StringRef text) {
  Expected<TargetUri> uri = parseTargetUri(text);
  if (!uri)
    return uri.takeError();
  if (uri->scheme != "model" && uri->scheme != "rtl")
    return std::nullopt;
  return PluginOptions{modelTargetOptions(), modelPluginOptions(*uri)};
}

void writeOptions(json::OStream &os, const PluginOptions &options) {
  os.attributeArray("options", [&] {
    for (const TargetOptionHelp &option : options.own)
      os.object([&] {
        os.attribute("name", option.key);
        os.attribute("value", option.value);
        os.attribute("summary", option.help);
      });
  });
  os.attribute("plugin_options",
               options.plugin.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(options.plugin)));
}

void writeOptions(raw_ostream &os, const PluginOptions &options) {
  os << "  options:\n";
  for (const TargetOptionHelp &option : options.own)
    os << "    " << left_justify(std::string(option.key) + "=" + option.value, 14) << option.help << "\n";
  os << "  options of its plugin, in its own words, asked for 'no-such-option': "
     << (options.plugin.empty() ? "(it took that)" : options.plugin) << "\n";
}

int showTarget(Report &report, StringRef uri) {
  Expected<std::unique_ptr<Target>> opened = openTarget(uri);
  if (!opened)
    return report.fail(opened.takeError());
  Expected<std::optional<PluginOptions>> options = optionsOf(uri);
  if (!options)
    return report.fail(options.takeError());
  const TargetIdentity &identity = (*opened)->identity();
  TargetCapabilities can = (*opened)->capabilities();
  if (report.json()) {
    json::OStream &os = report.object();
    report.verdict(0);
    os.attribute("uri", json::fixUTF8(uri));
    os.attribute("kind", json::fixUTF8(identity.kind));
    os.attribute("name", json::fixUTF8(identity.name));
    os.attributeObject("facts", [&] {
      for (auto &[key, value] : identity.facts)
        os.attribute(json::fixUTF8(key), json::fixUTF8(value));
    });
    os.attributeObject("capabilities", [&] {
      for (const CapabilityName &capability : capabilityNames)
        os.attribute(capability.name, can.*capability.field);
      os.attribute("max_snapshots", int64_t(can.maxSnapshots));
      os.attribute("interrupt_vectors", int64_t(can.interruptVectors));
    });
    os.attributeArray("spaces", [&] {
      for (const TargetSpace &space : (*opened)->spaces())
        os.object([&] {
          os.attribute("name", json::fixUTF8(space.name));
          os.attribute("bytes", space.size);
        });
    });
    if (*options)
      writeOptions(os, **options);
    return report.finish(0);
  }
  outs() << uri << ": " << identity.name << "\n";
  for (auto &[key, value] : identity.facts)
    outs() << "  " << key << ": " << value << "\n";
  outs() << "  spaces:";
  for (const TargetSpace &space : (*opened)->spaces())
    outs() << " " << space.name << " (" << space.size << " bytes)";
  outs() << "\n  can:";
  for (const CapabilityName &capability : capabilityNames)
    if (can.*capability.field)
      outs() << " " << capability.name;
  outs() << "\n  cannot:";
  for (const CapabilityName &capability : capabilityNames)
    if (!(can.*capability.field))
      outs() << " " << capability.name;
  outs() << "\n";
  if (*options)
    writeOptions(outs(), **options);
  return report.finish(0);
}

} // namespace

int runTargets(ArrayRef<const char *> args) {
  cl::opt<std::string> uri(cl::Positional, cl::desc("[URI]"));
  CommandLine line(targetsHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("targets", line.json());
  return uri.getNumOccurrences() ? showTarget(report, uri) : listSchemes(report);
}

} // namespace tapeback
