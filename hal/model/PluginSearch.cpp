#include "hal/model/PluginSearch.h"
#include "format/Failure.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <set>

namespace tapeback {
namespace {

constexpr llvm::StringLiteral pluginSuffix = ".so";

std::string pluginPrefix(llvm::StringRef kind) {
  return "tapeback-" + kind.str() + "-";
}

/// The file this code is in: a shared library, or the program itself.
std::string ownFile() {
  Dl_info info;
  link_map *map = nullptr;
  if (::dladdr1(reinterpret_cast<void *>(&privateLibraryDirectories), &info, reinterpret_cast<void **>(&map),
                RTLD_DL_LINKMAP) &&
      map && map->l_name && map->l_name[0])
    return map->l_name;
  // The program's own entry has no name; argv[0] would be the caller's invention.
  return "/proc/self/exe";
}

std::vector<std::string> pluginDirectories() {
  std::vector<std::string> directories;
  if (const char *extra = std::getenv("TAPEBACK_PLUGINS")) {
    llvm::SmallVector<llvm::StringRef> pieces;
    llvm::StringRef(extra).split(pieces, ':', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef piece : pieces)
      directories.push_back(piece.str());
  }
  for (std::string &directory : privateLibraryDirectories())
    directories.push_back(std::move(directory));
  return directories;
}

bool validName(llvm::StringRef name) {
  return !name.empty() && name.size() <= 128 &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

std::string availableModels(llvm::StringRef kind) {
  std::vector<std::string> names = modelNames(kind);
  return names.empty() ? "there is no model at all there" : "models there: " + llvm::join(names, ", ");
}

} // namespace

std::vector<std::string> modelNames(llvm::StringRef kind) {
  std::set<std::string> names;
  std::string prefix = pluginPrefix(kind);
  for (const std::string &directory : pluginDirectories()) {
    std::error_code ec;
    for (llvm::sys::fs::directory_iterator it(directory, ec), end; it != end && !ec; it.increment(ec)) {
      llvm::StringRef file = llvm::sys::path::filename(it->path());
      if (file.consume_front(prefix) && file.consume_back(pluginSuffix) && names.size() < 256)
        names.insert(file.str());
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> privateLibraryDirectories() {
  std::vector<std::string> found;
  auto add = [&](llvm::StringRef prefix, llvm::StringRef lib) {
    llvm::SmallString<256> candidate(prefix);
    llvm::sys::path::append(candidate, lib, "tapeback");
    if (!llvm::is_contained(found, candidate.str().str()))
      found.push_back(candidate.str().str());
  };
  llvm::SmallString<256> file;
  if (!llvm::sys::fs::real_path(ownFile(), file)) {
    llvm::StringRef directory = llvm::sys::path::parent_path(file);
    // We are a library there, a program in bin/, or a test program in bin/tests. Never further up: a
    // directory above the installation may belong to somebody else.
    if (llvm::sys::path::filename(directory) == "tapeback")
      found.push_back(directory.str());
    llvm::StringRef prefix = llvm::sys::path::parent_path(directory);
    if (llvm::sys::path::filename(prefix) == "bin")
      prefix = llvm::sys::path::parent_path(prefix);
    add(prefix, "lib");
    add(prefix, TAPEBACK_LIBDIR);
  }
  // For programs elsewhere that link the installed library.
  add(TAPEBACK_PREFIX, TAPEBACK_LIBDIR);
  return found;
}

llvm::Expected<std::string> findModelPlugin(llvm::StringRef kind, llvm::StringRef nameOrPath) {
  if (nameOrPath.contains('/')) {
    llvm::sys::fs::file_status status;
    if (std::error_code ec = llvm::sys::fs::status(nameOrPath, status))
      return failUsage("plugin-not-found", "the model plugin cannot be opened: " + ec.message(),
                       nameOrPath.str(), "give the path of a shared library, or a model's name without '/'");
    // Opening a FIFO or a device would block or worse.
    if (!llvm::sys::fs::is_regular_file(status))
      return failUsage("plugin-load-failed", "the model plugin is not a regular file", nameOrPath.str(),
                       "give the path of a shared library");
    return nameOrPath.str();
  }
  if (!validName(nameOrPath))
    return failUsage("bad-model-name",
                     nameOrPath.empty() ? "no model was named"
                                        : "a model's name has letters, digits, '-', '_', '.'",
                     "target '" + kind.str() + ":" + nameOrPath.str() + "'",
                     kind.str() + ":NAME, or " + kind.str() + ":./plugin.so");
  std::vector<std::string> directories = pluginDirectories();
  for (const std::string &directory : directories) {
    llvm::SmallString<256> candidate(directory);
    llvm::sys::path::append(candidate, pluginPrefix(kind) + nameOrPath + pluginSuffix);
    if (llvm::sys::fs::exists(candidate))
      return candidate.str().str();
  }
  return failUsage("plugin-not-found", "there is no model '" + nameOrPath.str() + "'",
                   "in " + llvm::join(directories, ":"), availableModels(kind));
}

llvm::Expected<std::string> findModelHost() {
  std::vector<std::string> directories = pluginDirectories();
  for (const std::string &directory : directories) {
    llvm::SmallString<256> candidate(directory);
    llvm::sys::path::append(candidate, "tapeback-model-host");
    if (llvm::sys::fs::can_execute(candidate))
      return candidate.str().str();
  }
  return failSystem("incomplete-installation", "the program tapeback-model-host is missing",
                    "in " + llvm::join(directories, ":"), "install or build Tapeback completely");
}

} // namespace tapeback
