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

/// A model by path (anything with a '/') or by name: tapeback-model-NAME.so. Usage failures
/// "plugin-not-found", which lists the models there are, and "bad-model-name".
llvm::Expected<std::string> findModelPlugin(llvm::StringRef nameOrPath);

/// Names of the models in those directories, sorted, at most 256.
std::vector<std::string> modelNames();

/// The program tapeback-model-host. System failure "incomplete-installation".
llvm::Expected<std::string> findModelHost();

} // namespace tapeback
