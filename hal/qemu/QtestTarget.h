// qtest:ARCHITECTURE?args=… — the whole machine of an imported qtest capture, driven by the capture's
// commands.
//
// See README.md: what is on the allow-list, what is added, when the machine counts as at rest.
#pragma once

#include "hal/Target.h"
#include "hal/TargetUri.h"

namespace tapeback {

/// What the register space "qtest" of such tapes and this target means. Numbers are on tape.
enum class QtestControl : uint64_t {
  StepToTimer = 0x00, ///< clock_step: written value unused.
  Step = 0x08,        ///< clock_step NS.
  SetClock = 0x10,    ///< clock_set NS.
  SetIrq = 0x18, ///< set_irq_in, whose names no register has: refused. The marker before it has the text.
};
constexpr uint64_t qtestControlBytes = 0x20;

llvm::Expected<std::unique_ptr<Target>> openQtestTarget(const TargetUri &uri);

/// "qtest:i386?args=…" of a device that was imported with its machine's command line; empty if it was not.
/// `options` ("timeout=5000&cpu=stopped") go with it.
std::string qtestUriOf(const std::map<std::string, std::string> &identity, llvm::StringRef options);

} // namespace tapeback
