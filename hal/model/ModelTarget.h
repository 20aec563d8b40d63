// "model:NAME-or-path?option=value" — a model plugin, in a process of its own.
#pragma once

#include "hal/Target.h"
#include "hal/TargetUri.h"
#include <sys/types.h>

namespace tapeback {

/// Loads the plugin, checks it against the ABI and makes one instance of it. Options other than the target's
/// own (hal/model/README.md) go to the plugin, which refuses what it does not know. Failures: Usage when the
/// plugin is missing, is no plugin, breaks the ABI or refuses an option; Target when it dies, hangs or fails.
llvm::Expected<std::unique_ptr<Target>> openModelTarget(const TargetUri &uri);

/// The target's own options.
llvm::ArrayRef<TargetOptionHelp> modelTargetOptions();
/// What the plugin says of its options, on one line. The ABI has no list of them, but a plugin refuses what
/// it does not know, and most say what they do know. Empty: this one takes anything. Opens it once more; what
/// else goes wrong is the answer.
std::string modelPluginOptions(const TargetUri &uri);

/// The process id of an open model's host process, for tests and for messages; -1 if `target` is no model.
pid_t modelHostProcess(const Target &target);

} // namespace tapeback
