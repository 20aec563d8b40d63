// Lines of a text file that may be anything, in bounded memory.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace tapeback {

/// A line and where it is from.
struct CaptureLine {
  llvm::StringRef text;  ///< Without its end ("\n" or "\r\n"). Valid until the next line is read.
  uint64_t number = 0;   ///< From 1, within its file.
  bool tooLong = false;  ///< Longer than the limit: `text` is its beginning, the rest was skipped.
  bool unended = false;  ///< The file ends in it, without a newline: it may have been cut.
  bool carriage = false; ///< It ended in "\r\n".
};

/// Reads forward only, so pipes do. One thread. Memory: the longest line allowed and one read, 1 MiB.
class LineReader {
public:
  static constexpr size_t maxLineBytes = 4u << 20;

  /// A file. Directories, and files that cannot be read, are refused with the reason (class Usage).
  static llvm::Expected<std::unique_ptr<LineReader>> open(llvm::StringRef path);
  /// A text in memory, which must outlive the reader.
  static std::unique_ptr<LineReader> ofText(llvm::StringRef text, size_t maxLine = maxLineBytes);
  virtual ~LineReader() = default;

  /// The beginning of the file, at most 64 KiB, without consuming it. Call before the first next().
  virtual llvm::Expected<llvm::StringRef> head() = 0;
  /// The next line; false at the end.
  virtual llvm::Expected<bool> next(CaptureLine &line) = 0;
  /// Bytes consumed, for progress.
  virtual uint64_t position() const = 0;
};

} // namespace tapeback
