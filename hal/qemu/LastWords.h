// What a process said last: a bounded tail of its output, and the line in it that matters.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <string>

namespace tapeback {

/// Keeps the last `capacity` bytes of an endless text. Not thread-safe.
class LastWords {
public:
  static constexpr size_t capacity = 8192;

  void append(llvm::StringRef text);
  const std::string &tail() const { return text; }

private:
  std::string text;
};

/// The line that says why, out of QEMU's output: the last one that looks like one of QEMU's own messages
/// ("qemu: hardware error: …", "qemu-system-x86_64: …", "ERROR:file:line: …"), else the last that is not
/// empty. QEMU prints its registers *after* the reason, so the very last line is of little use. Printable,
/// bounded; empty if there is nothing.
std::string summariseLastWords(llvm::StringRef tail);

/// Text of a stranger, made fit for a message: control characters and bytes beyond ASCII become '?', and what
/// is longer than `limit` ends in "…".
std::string printable(llvm::StringRef text, size_t limit);

} // namespace tapeback
