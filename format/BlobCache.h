// Contents of a tape: found through the index, read a block at a time, the blocks used last kept. Internal to
// format/.
#pragma once

#include "format/Index.h"
#include <list>

namespace tapeback {

/// Memory: the decoded blocks kept (at most `maxBytes`, and always the last one), and one content that spans
/// blocks.
class BlobCache {
public:
  BlobCache(const BlockSource &source, IndexReader &index, uint64_t maxBytes, bool verify)
      : source(source), index(index), maxBytes(maxBytes), verify(verify) {}

  /// Valid until the next call. Codes: unknown-blob, bad-index, damaged-block, bad-message.
  llvm::Expected<llvm::ArrayRef<uint8_t>> get(BlobId id);
  /// The content whose first piece is at `row`, whatever the index says of it.
  llvm::Expected<llvm::ArrayRef<uint8_t>> get(const BlobRow &row);

private:
  struct Entry {
    uint64_t offset = 0;
    ReadBlock block;
    std::vector<BlobPiece> pieces;
    std::vector<uint64_t> starts; ///< Of each piece in `bytes`.
    llvm::ArrayRef<uint8_t> bytes;
    uint64_t memory() const { return block.rawBuffer.capacityBytes() + block.storedBuffer.capacityBytes(); }
  };
  llvm::Expected<Entry *> load(uint64_t offset);
  llvm::Error assemble(const Entry &first, const BlobPiece &piece);
  llvm::Error checkContent(BlobId id, llvm::ArrayRef<uint8_t> content, uint64_t offset) const;

  const BlockSource &source;
  IndexReader &index;
  uint64_t maxBytes;
  bool verify;
  uint64_t bytesKept = 0;
  std::list<Entry> entries; ///< Most recently used first.
  BlobId largeId;
  std::vector<uint8_t> large;
};

} // namespace tapeback
