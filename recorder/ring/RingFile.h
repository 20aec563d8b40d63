// The collector's ring file: made, locked, mapped, and taken away again.
#pragma once

#include "recorder/ring/RingFormat.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace tapeback::ring {

struct RingOptions {
  uint64_t dataBytes = 16 << 20; ///< Rounded up to a power of two.
  uint32_t chunkBytes = 64 << 10;
  uint64_t captureLimit = 64 << 20;
  bool dropWhenFull = false;
};

/// Owns the private directory (0700), the file in it (0600), the mapping and the lock whose presence tells
/// the program that the collector lives. All are released by the destructor; a killed collector leaves the
/// directory, which the next one removes. Moves: none. Threads: the mapping may be used from any.
class RingFile {
public:
  /// Makes the file and puts `table` into it. Errors are System failures.
  static llvm::Expected<std::unique_ptr<RingFile>> create(llvm::ArrayRef<uint8_t> table,
                                                          const RingOptions &options);
  /// The same in anonymous memory, for tests with both ends in one process.
  static llvm::Expected<std::unique_ptr<RingFile>> createAnonymous(llvm::ArrayRef<uint8_t> table,
                                                                   const RingOptions &options);
  ~RingFile();
  RingFile(const RingFile &) = delete;
  RingFile &operator=(const RingFile &) = delete;

  Header &header() const { return *static_cast<Header *>(mapping); }
  uint8_t *data() const { return static_cast<uint8_t *>(mapping) + dataOffset; }
  uint64_t dataBytes() const { return dataSize; }
  void *base() const { return mapping; }
  uint64_t bytes() const { return size; }
  const std::string &path() const { return filePath; } ///< Empty for anonymous ones.

private:
  RingFile() = default;
  llvm::Error map(llvm::ArrayRef<uint8_t> table, const RingOptions &options);

  std::string directory, filePath;
  int fd = -1;
  void *mapping = nullptr;
  uint64_t size = 0, dataOffset = 0, dataSize = 0;
};

/// Removes the directories of collectors that were killed. Returns how many. Never touches a living one's.
unsigned removeStaleRings();

} // namespace tapeback::ring
