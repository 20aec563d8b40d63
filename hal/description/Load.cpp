// Finding the text of a description on disk. The only file of this folder that touches the file system.
#include "hal/description/Description.h"

#include "format/Failure.h"
#include "format/Text.h"
#include "hal/description/Words.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cstdlib>
#include <dlfcn.h>

namespace tapeback {
namespace {

constexpr TextLimits fileLimits = {16u << 20, 16, size_t(1) << 21};
constexpr size_t maxNamesListed = 64;
constexpr unsigned maxFolders = 64;

/// The folders share/tapeback/descriptions that belong to a program or library at `file`: beside bin/ and,
/// for what lies a level deeper (bin/tests, lib/tapeback), beside the folder above.
void addShareFolders(llvm::StringRef file, std::vector<std::string> &folders) {
  llvm::SmallString<256> place(file);
  for (unsigned up = 0; up < 2; ++up) {
    llvm::sys::path::remove_filename(place);
    llvm::SmallString<256> share = llvm::sys::path::parent_path(place);
    llvm::sys::path::append(share, "share", "tapeback", "descriptions");
    if (llvm::sys::path::is_absolute(share) && !llvm::is_contained(folders, share.str()))
      folders.push_back(share.str().str());
  }
}

/// Where descriptions are looked for, in order.
std::vector<std::string> searchFolders() {
  std::vector<std::string> folders;
  if (const char *extra = std::getenv("TAPEBACK_DESCRIPTIONS")) {
    llvm::SmallVector<llvm::StringRef, 4> parts;
    llvm::StringRef(extra).split(parts, ':', maxFolders, false);
    for (llvm::StringRef part : parts)
      folders.push_back(part.str());
  }
  // This code may also run in a plugin, inside a program that is not ours: then the plugin's place counts.
  Dl_info module{};
  if (::dladdr(reinterpret_cast<void *>(&searchFolders), &module) && module.dli_fname)
    addShareFolders(module.dli_fname, folders);
  addShareFolders(llvm::sys::fs::getMainExecutable("", reinterpret_cast<void *>(&searchFolders)), folders);
  return folders;
}

/// Names of what a folder holds. A folder that cannot be listed has none: it is an optional place to look.
void listNames(const std::string &folder, std::vector<std::string> &names) {
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end;
       !error && it != end && names.size() < maxNamesListed; it.increment(error))
    if (llvm::sys::path::extension(it->path()) == ".yaml")
      names.push_back(llvm::sys::path::stem(it->path()).str());
}

llvm::Error unknownName(llvm::StringRef name, const std::vector<std::string> &folders) {
  std::vector<std::string> names;
  for (const std::string &folder : folders)
    listNames(folder, names);
  llvm::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string message = "no device description is named '" + llvm::json::fixUTF8(name.take_front(80)) + "'" +
                        words::suggestion(name, std::vector<llvm::StringRef>(names.begin(), names.end()));
  return failUsage("unknown-description", std::move(message), "in " + llvm::join(folders, ":"),
                   names.empty() ? "give the path of a description file"
                                 : "there is: " + llvm::join(names, ", ") +
                                       "; or give the path of a file: with a '/', or ending in .yaml");
}

} // namespace

llvm::Expected<DescriptionText> loadDescriptionText(llvm::StringRef nameOrPath) {
  DescriptionText found;
  if (nameOrPath.contains('/') || nameOrPath.ends_with(".yaml")) {
    found.name = nameOrPath.str();
  } else {
    std::vector<std::string> folders = searchFolders();
    for (const std::string &folder : folders) {
      llvm::SmallString<256> candidate(folder);
      llvm::sys::path::append(candidate, nameOrPath + ".yaml");
      if (!nameOrPath.empty() && !nameOrPath.contains('\0') && llvm::sys::fs::exists(candidate)) {
        found.name = candidate.str().str();
        break;
      }
    }
    if (found.name.empty())
      return unknownName(nameOrPath, folders);
  }
  found.title = llvm::sys::path::stem(found.name).str();
  llvm::Expected<std::string> text = readTextFile(found.name, fileLimits);
  if (!text)
    return text.takeError();
  found.text = std::move(*text);
  return found;
}

} // namespace tapeback
