// The register space "qtest" of tapes of a machine: the commands of a script that are no accesses, as writes.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace tapeback {

/// Addresses. Numbers are on tape.
enum class QtestControl : uint64_t {
  StepToTimer = 0x00, ///< clock_step: written value unused.
  Step = 0x08,        ///< clock_step NS.
  SetClock = 0x10,    ///< clock_set NS.
  SetIrq = 0x18,      ///< set_irq_in, of tapes that do not have its text: refused.
  Command = 0x20,     ///< A command that names a device: the first so many bytes of the text.
  Text = 0x400,       ///< Up to the space's end: such a command's text, eight characters a write.
};
constexpr uint64_t qtestTextBytes = 0x400;
constexpr uint64_t qtestControlBytes = uint64_t(QtestControl::Text) + qtestTextBytes;

/// Commands that name a device: irq_intercept_in PATH, irq_intercept_out PATH, set_irq_in PATH NAME NUMBER
/// LEVEL. Null, or why this is none that QEMU may be given.
const char *whyNoTextCommand(llvm::StringRef text);

} // namespace tapeback
