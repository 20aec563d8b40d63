#include "hal/qemu/QemuOptions.h"
#include "format/Failure.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdlib>
#include <limits>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace tapeback {
namespace {

constexpr llvm::StringLiteral defaultProgram = "qemu-system-x86_64";

constexpr TargetOptionHelp knownOptions[] = {
    {"qemu", "PATH", "the program, absolute or to be found in PATH (default qemu-system-x86_64)"},
    {"machine", "q35|pc", "QEMU's machine (default q35)"},
    {"ram", "SIZE", "guest memory, 16M to 2G (default 256M); only what is touched takes memory"},
    {"time", "virtual|real", "virtual: jumps to the device's next timer (default); real: follows the host's"},
    {"timeout", "MS", "how long one operation may take (default 10000)"},
    {"medium", "SIZE", "of the disk, 64K to 1G in whole KiB (default 4M); for nvme, like all that follow"},
    {"pattern", "zero|index|random", "what is on the disk at first (default zero)"},
    {"pattern-seed", "N", "decides what pattern=random is (default 1)"},
    {"read-iops", "N", "most reads of the disk a second, in real time (default: no limit)"},
    {"write-iops", "N", "most writes of the disk a second, in real time (default: no limit)"},
};

constexpr uint64_t defaultRam = uint64_t(256) << 20, leastRam = uint64_t(16) << 20,
                   mostRam = uint64_t(2) << 30;

/// Options of the medium; refused for a device that has none.
llvm::Error parseMedium(const TargetUri &uri, QemuOptions &options) {
  constexpr uint64_t leastMedium = 64 << 10, mostMedium = uint64_t(1) << 30, mostIops = 1'000'000;
  if (options.device->medium == QemuMedium::None) {
    for (const char *key : {"medium", "pattern", "pattern-seed", "read-iops", "write-iops"})
      if (uri.find(key))
        return failUsage("bad-target-option",
                         std::string("option '") + key + "': " + options.device->name + " has no medium",
                         "target '" + uri.text + "'", "leave it out, or take a device with a disk: nvme");
    return llvm::Error::success();
  }
  MediumOptions &medium = options.medium;
  if (const std::string *size = uri.find("medium")) {
    std::optional<uint64_t> bytes = parseByteSize(*size);
    if (!bytes || *bytes < leastMedium || *bytes > mostMedium || *bytes % 1024)
      return failUsage("bad-target-option",
                       "option 'medium': '" + *size + "' is not a size from 64K to 1G in whole KiB",
                       "target '" + uri.text + "'", "medium=4M");
    medium.bytes = *bytes;
  }
  llvm::Expected<size_t> pattern = choiceOption(uri, "pattern", {"zero", "index", "random"}, 0);
  if (!pattern)
    return pattern.takeError();
  medium.pattern = MediumOptions::Pattern(*pattern);
  for (auto [key, value, low, high] : {std::tuple("pattern-seed", &medium.seed, uint64_t(0), ~uint64_t(0)),
                                       std::tuple("read-iops", &medium.readIops, uint64_t(1), mostIops),
                                       std::tuple("write-iops", &medium.writeIops, uint64_t(1), mostIops)}) {
    llvm::Expected<uint64_t> number = numberOption(uri, key, *value, low, high);
    if (!number)
      return number.takeError();
    *value = *number;
  }
  if (uri.find("pattern-seed") && medium.pattern != MediumOptions::Pattern::Random)
    return failUsage("bad-target-option", "option 'pattern-seed' belongs to pattern=random",
                     "target '" + uri.text + "'", "pattern=random&pattern-seed=2");
  return llvm::Error::success();
}

bool isExecutableFile(const std::string &path) {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

} // namespace

llvm::Expected<std::string> findQemuProgram(const TargetUri &uri, llvm::StringRef fallback) {
  const std::string *option = uri.find("qemu");
  llvm::StringRef wanted = option ? llvm::StringRef(*option) : fallback;
  if (wanted.starts_with("/")) {
    if (isExecutableFile(wanted.str()))
      return wanted.str();
    return failUsage("bad-target-option", "option 'qemu': '" + wanted.str() + "' is not an executable file",
                     "target '" + uri.text + "'", "name the QEMU program, or leave the option out");
  }
  if (wanted.empty() || wanted.contains('/'))
    return failUsage("bad-target-option", "option 'qemu': '" + wanted.str() + "' is a relative path",
                     "target '" + uri.text + "'", "give an absolute path, or a name to be found in PATH");
  const char *path = std::getenv("PATH");
  if (std::optional<std::string> found = findInPath(wanted, path ? path : ""))
    return *found;
  std::string message = "'" + wanted.str() + "' is not in PATH";
  std::string where = "target '" + uri.text + "'";
  if (option)
    return failUsage("bad-target-option", "option 'qemu': " + message, where, "give an absolute path");
  bool x86 = fallback.ends_with("i386") || fallback.ends_with("x86_64");
  bool arm = fallback.ends_with("arm") || fallback.ends_with("aarch64");
  const std::string package(x86 ? "qemu-system-x86" : arm ? "qemu-system-arm" : "qemu-system-misc");
  return failTarget("qemu-not-found", message, where,
                    "install it (Debian: apt install " + package + "), or name it with qemu=PATH");
}

std::optional<std::string> findInPath(llvm::StringRef name, llvm::StringRef path) {
  llvm::SmallVector<llvm::StringRef> folders;
  path.split(folders, ':');
  for (llvm::StringRef folder : folders) {
    if (!folder.starts_with("/"))
      continue; // What "." is depends on where one stands.
    std::string candidate = (folder + "/" + name).str();
    if (isExecutableFile(candidate))
      return candidate;
  }
  return std::nullopt;
}

std::optional<uint64_t> parseByteSize(llvm::StringRef text) {
  unsigned shift = 0;
  if (text.consume_back("K"))
    shift = 10;
  else if (text.consume_back("M"))
    shift = 20;
  else if (text.consume_back("G"))
    shift = 30;
  uint64_t value = 0;
  if (text.getAsInteger(10, value) || value > std::numeric_limits<uint64_t>::max() >> shift)
    return std::nullopt;
  return value << shift;
}

llvm::Expected<QemuOptions> parseQemuOptions(const TargetUri &uri) {
  if (llvm::Error error = checkTargetOptions(uri, knownOptions))
    return error;
  QemuOptions options;
  options.device = findQemuDevice(uri.rest);
  if (!options.device) {
    std::string list = "devices of QEMU are:";
    for (const QemuDevice &device : qemuDevices())
      list += std::string("\n  ") + device.name + "  " + device.summary;
    return failUsage("unknown-qemu-device",
                     "there is no device '" + uri.rest + "' for qemu:", "target '" + uri.text + "'",
                     std::move(list));
  }
  options.ramBytes = defaultRam;
  if (const std::string *ram = uri.find("ram")) {
    std::optional<uint64_t> bytes = parseByteSize(*ram);
    if (!bytes || *bytes < leastRam || *bytes > mostRam || *bytes % (uint64_t(1) << 20))
      return failUsage("bad-target-option",
                       "option 'ram': '" + *ram + "' is not a size from 16M to 2G in whole MiB",
                       "target '" + uri.text + "'", "ram=256M");
    options.ramBytes = *bytes;
  }
  llvm::Expected<size_t> machine = choiceOption(uri, "machine", {"q35", "pc"}, 0);
  if (!machine)
    return machine.takeError();
  options.machine = QemuOptions::Machine(*machine);
  llvm::Expected<size_t> time = choiceOption(uri, "time", {"virtual", "real"}, 0);
  if (!time)
    return time.takeError();
  options.time = QemuOptions::Time(*time);
  llvm::Expected<uint64_t> timeout = timeoutOption(uri);
  if (!timeout)
    return timeout.takeError();
  options.timeoutMs = *timeout;
  if (llvm::Error error = parseMedium(uri, options))
    return error;
  // Last, because it is the only one that looks beyond the text.
  llvm::Expected<std::string> program = findQemuProgram(uri, defaultProgram);
  if (!program)
    return program.takeError();
  options.program = std::move(*program);
  return options;
}

} // namespace tapeback
