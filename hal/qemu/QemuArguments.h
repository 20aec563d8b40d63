// The command line of a QEMU in somebody's bug report: what of it may be run here.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace tapeback {

struct QemuCommand {
  std::string architecture; ///< "i386" of qemu-system-i386; empty if the text has arguments only.
  std::vector<std::string> arguments;
  std::string text() const; ///< Arguments with blanks between them; those that hold blanks are quoted.
};

/// `text` is a piece of shell ("… | qemu-system-i386 -M q35 -device e1000 -qtest stdio < EOF") or arguments
/// alone. Every option, and every key of those that could open a file, a socket or a host's device, must be
/// on the list; what only says how QEMU is talked to (-qtest, -accel, -display …) is left out, serial and
/// parallel ports are kept with nothing behind them. Refusals name
/// the argument (class Usage). Nothing is expanded.
llvm::Expected<QemuCommand> parseQemuCommand(llvm::StringRef text);

} // namespace tapeback
