// `record --preload`: which devices a program that uses VFIO by itself may open, and the library that watches
// it.
#pragma once

#include "recorder/RecordSession.h"

namespace tapeback {

/// Every PCI device that is bound to a VFIO driver here, as a target "vfio:ADDRESS" whose alias is its
/// address with dashes. At most what a capture table holds; none → Usage failure "no-target" that says how to
/// bind one.
llvm::Expected<std::vector<RecordTarget>> preloadTargets();

/// Usage failure unless every target is a vfio: one: others cannot be reached by a program's own VFIO calls.
llvm::Error checkPreloadTargets(const std::vector<RecordTarget> &targets);

/// The path of tapeback-preload.so of this installation. System failure "incomplete-installation".
llvm::Expected<std::string> findPreloadLibrary();

} // namespace tapeback
