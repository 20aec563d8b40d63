// Where model plugins and the host program are: lib/tapeback of the installation (or build tree) that this
// code was loaded from, and, for plugins, first the directories of the environment variable TAPEBACK_PLUGINS.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace tapeback {

/// The lib/tapeback directories that may belong to this code's file, most likely first. Not checked for
/// existence.
std::vector<std::string> privateLibraryDirectories();

/// A model by path (anything with a '/') or by name: tapeback-KIND-NAME.so, where the kind is "model" or
/// "rtl", as the target's scheme. Usage failures "plugin-not-found", which lists the models there are, and
/// "bad-model-name".
llvm::Expected<std::string> findModelPlugin(llvm::StringRef kind, llvm::StringRef nameOrPath);

/// Names of the models of that kind in those directories, sorted, at most 256.
std::vector<std::string> modelNames(llvm::StringRef kind = "model");

/// The program tapeback-model-host. System failure "incomplete-installation".
llvm::Expected<std::string> findModelHost();

} // namespace tapeback
