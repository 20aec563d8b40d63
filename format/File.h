// Files as the tape needs them: positioned reads that never fault, and an output that appears only when it is
// whole. Internal to format/.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>

namespace tapeback {

/// A regular file open for reading. Reads with pread: a file that shrinks is an error, not a signal.
/// Movable, not copyable; closes on destruction. One thread at a time.
class InputFile {
public:
  /// Failures: no-such-file, not-a-file, cannot-open (Usage: the user named the wrong thing).
  static llvm::Expected<InputFile> open(llvm::StringRef path);
  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) noexcept;
  InputFile(const InputFile &) = delete;
  ~InputFile();

  const std::string &path() const { return name; }
  uint64_t size() const { return bytes; } ///< When it was opened.

  /// Exactly `out.size()` bytes from `offset`, or an error: file-shrank (Tape), cannot-read (System).
  llvm::Error read(uint64_t offset, llvm::MutableArrayRef<uint8_t> out) const;
  /// As many of them as there are.
  llvm::Expected<size_t> readSome(uint64_t offset, llvm::MutableArrayRef<uint8_t> out) const;

private:
  InputFile(int fd, std::string path, uint64_t size) : fd(fd), name(std::move(path)), bytes(size) {}
  int fd = -1;
  std::string name;
  uint64_t bytes = 0;
};

/// A file written under PATH.partial and renamed to PATH by publish(). While it is being written it is
/// locked, so that a second writer fails instead of mixing in; what a dead writer left behind is moved to
/// PATH.partial.stale, not lost. Destroyed without publish() or discard(), the partial file stays.
class OutputFile {
public:
  /// Failures: already-being-written (Usage), cannot-create (Usage for a bad path, System otherwise).
  static llvm::Expected<OutputFile> create(llvm::StringRef path, std::string partial);
  /// Removes what a dead writer left under the name `partial`, if that can be made again from something else;
  /// what a living one writes there stays. Failure: cannot-create (System).
  static llvm::Error removeAbandoned(const std::string &partial);
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  OutputFile(const OutputFile &) = delete;
  ~OutputFile();

  uint64_t size() const { return bytes; }
  llvm::Error write(llvm::ArrayRef<uint8_t> data);
  /// Renames to the final name, after fdatasync if `sync` (then the directory is synced too).
  llvm::Error publish(bool sync);
  void discard();

private:
  OutputFile(std::string path, std::string partial) : path(std::move(path)), partial(std::move(partial)) {}
  void close();
  int fd = -1;
  std::string path, partial;
  uint64_t bytes = 0;
};

} // namespace tapeback
