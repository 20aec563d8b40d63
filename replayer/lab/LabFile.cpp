#include "replayer/lab/LabFile.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tapeback::lab {

constexpr uint64_t mostSeconds = 3600;
constexpr size_t mostHooks = 64, mostWords = 256;

/// As in the file.
struct HookText {
  std::string name;
  std::vector<std::string> run;
  uint64_t timeoutSeconds = 60;
  std::string doc;
};
struct LabText {
  uint64_t version = 0;
  std::vector<HookText> hooks;
  std::vector<std::string> beforeRun, afterFailure;
  std::string doc;
};

} // namespace tapeback::lab

LLVM_YAML_IS_SEQUENCE_VECTOR(tapeback::lab::HookText)

namespace llvm::yaml {

template <>
struct MappingTraits<tapeback::lab::HookText> {
  static void mapping(IO &io, tapeback::lab::HookText &hook) {
    io.mapRequired("name", hook.name);
    io.mapRequired("run", hook.run);
    io.mapOptional("timeout-seconds", hook.timeoutSeconds);
    io.mapOptional("doc", hook.doc);
  }
  static std::string validate(IO &, tapeback::lab::HookText &hook) {
    namespace lab = tapeback::lab;
    ArrayRef<const char *> names = tapeback::hookNames();
    bool known = is_contained(names, StringRef(hook.name));
    bool own = StringRef(hook.name).starts_with("x-") && hook.name.size() > 2 && hook.name.size() <= 64 &&
               all_of(hook.name, [](char c) { return isAlnum(c) || c == '-' || c == '_'; });
    if (!known && !own)
      return "there is no hook of this name; there are power-cycle, pci-rescan, load-firmware, "
             "load-bitstream, "
             "and those of your own that begin with x-";
    if (hook.run.empty() || hook.run.size() > lab::mostWords)
      return "run is a list of words: an absolute path and its arguments";
    if (!StringRef(hook.run[0]).starts_with("/"))
      return "run begins with an absolute path: no shell looks for it";
    for (const std::string &word : hook.run)
      if (word.find('\0') != std::string::npos || word.size() > 4096)
        return "a word of run is too long, or has a zero in it";
    if (!hook.timeoutSeconds || hook.timeoutSeconds > lab::mostSeconds)
      return "timeout-seconds is from 1 to 3600";
    return {};
  }
};

template <>
struct MappingTraits<tapeback::lab::LabText> {
  static void mapping(IO &io, tapeback::lab::LabText &text) {
    io.mapRequired("tapeback-lab", text.version);
    io.mapOptional("doc", text.doc);
    io.mapOptional("hooks", text.hooks);
    io.mapOptional("before-run", text.beforeRun);
    io.mapOptional("after-failure", text.afterFailure);
  }
};

} // namespace llvm::yaml

namespace tapeback {

llvm::ArrayRef<const char *> hookNames() {
  static constexpr const char *names[] = {"power-cycle", "pci-rescan", "load-firmware", "load-bitstream"};
  return names;
}

std::string Hook::text() const {
  std::string result = name + ":";
  for (const std::string &word : run)
    result += " " + word;
  return result;
}

static void resolve(llvm::ArrayRef<std::string> names, const LabFile &file, const char *key,
                    std::vector<const Hook *> &into, YamlComplaints &complaints) {
  for (const std::string &name : names) {
    const Hook *found = nullptr;
    for (const Hook &hook : file.hooks)
      if (hook.name == name)
        found = &hook;
    if (!found)
      complaints.add({}, llvm::Twine(key) + " names '" + name + "', which is none of the hooks");
    else
      into.push_back(found);
  }
}

llvm::Expected<std::unique_ptr<LabFile>> parseLabFile(llvm::StringRef yaml, llvm::StringRef name) {
  auto file = std::make_unique<LabFile>();
  TextLimits limits;
  limits.maxBytes = 1u << 20;
  limits.maxNesting = 8;
  limits.maxNodes = 1 << 16;
  llvm::Error error = withYaml(
      yaml, name, nullptr,
      [&](llvm::yaml::Input &input, YamlComplaints &complaints) {
        lab::LabText text;
        input >> text;
        if (complaints.any())
          return;
        if (text.version != 1)
          complaints.add({}, "tapeback-lab is 1: this version knows no other");
        if (text.hooks.size() > lab::mostHooks || text.beforeRun.size() > lab::mostHooks ||
            text.afterFailure.size() > lab::mostHooks)
          complaints.add({}, "more than 64 hooks");
        for (lab::HookText &hook : text.hooks) {
          for (const Hook &other : file->hooks)
            if (other.name == hook.name)
              complaints.add({}, llvm::Twine("hook '") + hook.name + "' is there twice");
          file->hooks.push_back({hook.name, hook.run, hook.timeoutSeconds});
        }
        resolve(text.beforeRun, *file, "before-run", file->beforeRun, complaints);
        resolve(text.afterFailure, *file, "after-failure", file->afterFailure, complaints);
      },
      limits);
  if (error)
    return error;
  return file;
}

llvm::Expected<std::unique_ptr<LabFile>> readLabFile(llvm::StringRef path) {
  TextLimits limits;
  limits.maxBytes = 1u << 20;
  llvm::Expected<std::string> text = readTextFile(path, limits);
  if (!text)
    return text.takeError();
  return parseLabFile(*text, path);
}

} // namespace tapeback
