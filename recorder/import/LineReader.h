// Lines of a text file that may be anything, in bounded memory.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <bit>
#include <cstdint>
#include <cstring>
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

  /// A file or a pipe. Directories, devices (which may have neither lines nor an end), and files that cannot
  /// be read, are refused with the reason (class Usage).
  static llvm::Expected<std::unique_ptr<LineReader>> open(llvm::StringRef path);
  /// A text in memory, which must outlive the reader.
  static std::unique_ptr<LineReader> ofText(llvm::StringRef text, size_t maxLine = maxLineBytes);
  virtual ~LineReader() = default;

  /// The beginning of the file, at most 64 KiB, without consuming it. Call before the first next().
  virtual llvm::Expected<llvm::StringRef> head() = 0;
  /// The next line; false at the end.
  llvm::Expected<bool> next(CaptureLine &line) {
    if (quick(line))
      return true;
    return slow(line);
  }
  /// The next line if all of it is in memory and it is no longer than allowed; otherwise call next().
  bool quick(CaptureLine &line) {
    const char *newline = endOfLine();
    if (!newline || size_t(newline - at) > maxLine)
      return false;
    const bool carriage = newline != at && newline[-1] == '\r';
    line.text = llvm::StringRef(at, size_t(newline - at) - carriage);
    line.number = ++number;
    line.tooLong = line.unended = false;
    line.carriage = carriage;
    at = newline + 1;
    return true;
  }
  /// What is in memory, from the next line on: for formats of lines so short that looking for their ends is
  /// most of the work.
  llvm::StringRef ahead() const { return {at, size_t(stop - at)}; }
  /// So many whole lines of it were taken, which are so many bytes.
  void took(size_t bytes, uint64_t lines) {
    at += bytes;
    number += lines;
  }
  uint64_t lineNumber() const { return number; } ///< Of the last line.
  /// Bytes consumed, for progress.
  virtual uint64_t position() const = 0;

private:
  /// Most lines of some formats have a few characters only: then a call costs more than looking does.
  const char *endOfLine() const {
    const char *from = at;
    for (unsigned word = 0; word < 2 && stop - from >= 8; ++word, from += 8) {
      uint64_t bytes;
      std::memcpy(&bytes, from, 8);
      bytes ^= 0x0a0a0a0a0a0a0a0a; // The newline becomes the only zero, up to its place.
      const uint64_t zeros = (bytes - 0x0101010101010101) & ~bytes & 0x8080808080808080;
      if (zeros)
        return from + (std::countr_zero(zeros) >> 3);
    }
    return from == stop ? nullptr : static_cast<const char *>(std::memchr(from, '\n', size_t(stop - from)));
  }

protected:
  explicit LineReader(size_t maxLine) : maxLine(maxLine) {}
  virtual llvm::Expected<bool> slow(CaptureLine &line) = 0;

  const size_t maxLine;
  const char *at = nullptr, *stop = nullptr; ///< What is read and not consumed.
  uint64_t number = 0;
};

} // namespace tapeback
