// qtest:ARCHITECTURE?args=… — the whole machine of an imported qtest capture, driven by the capture's
// commands.
//
// See README.md: what is on the allow-list, what is added, when the machine counts as at rest.
#pragma once

#include "hal/Target.h"
#include "hal/TargetUri.h"

namespace tapeback {

llvm::Expected<std::unique_ptr<Target>> openQtestTarget(const TargetUri &uri);

/// "qtest:i386?args=…" of a device that was imported with its machine's command line; empty if it was not.
/// `options` ("timeout=5000&cpu=stopped") go with it.
std::string qtestUriOf(const std::map<std::string, std::string> &identity, llvm::StringRef options);

} // namespace tapeback
