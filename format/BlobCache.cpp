// Reading contents, in one piece or in several.
#include "format/BlobCache.h"

#include "format/ContentId.h"
#include "format/Failure.h"

namespace tapeback {

llvm::Expected<BlobCache::Entry *> BlobCache::load(uint64_t offset) {
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    if (entry->offset != offset)
      continue;
    entries.splice(entries.begin(), entries, entry);
    return &entries.front();
  }
  while (!entries.empty() && bytesKept >= maxBytes) {
    bytesKept -= entries.back().memory();
    entries.pop_back();
  }
  Entry entry;
  entry.offset = offset;
  if (llvm::Error error = source.read(offset, entry.block, BlockType::Blob))
    return error;
  if (llvm::Error error = decodeBlobs(entry.block.raw, source.where(entry.block), entry.pieces, entry.bytes))
    return error;
  uint64_t start = 0;
  for (const BlobPiece &piece : entry.pieces) {
    entry.starts.push_back(start);
    start += piece.length;
  }
  entries.push_front(std::move(entry));
  bytesKept += entries.front().memory();
  return &entries.front();
}

llvm::Error BlobCache::checkContent(BlobId id, llvm::ArrayRef<uint8_t> content, uint64_t offset) const {
  if (contentId(content) == id)
    return llvm::Error::success();
  return badMessage("a content is not the one that its id says", source.where(offset));
}

// The pieces of a large content fill blocks that follow each other. Memory grows with what was really read,
// not with what the first piece promises.
llvm::Error BlobCache::assemble(const Entry &first, const BlobPiece &piece) {
  const uint64_t total = piece.contentBytes;
  largeId = BlobId();
  large.assign(first.bytes.begin(), first.bytes.end());
  ReadBlock block;
  std::vector<BlobPiece> pieces;
  llvm::ArrayRef<uint8_t> bytes;
  uint64_t offset = first.block.end();
  while (large.size() < total) {
    if (llvm::Error error = source.read(offset, block, BlockType::Blob))
      return error;
    if (llvm::Error error = decodeBlobs(block.raw, source.where(block), pieces, bytes))
      return error;
    if (pieces.size() != 1 || !(pieces[0].id == piece.id) || pieces[0].contentBytes != total ||
        pieces[0].offset != large.size() || bytes.empty())
      return badMessage("the next piece of a content should be here", source.where(block));
    large.insert(large.end(), bytes.begin(), bytes.end());
    offset = block.end();
  }
  return llvm::Error::success();
}

llvm::Expected<llvm::ArrayRef<uint8_t>> BlobCache::get(const BlobRow &row) {
  if (largeId && largeId == row.id)
    return llvm::ArrayRef<uint8_t>(large);
  llvm::Expected<Entry *> loaded = load(row.offset);
  if (!loaded)
    return loaded.takeError();
  const Entry &entry = **loaded;
  if (row.piece >= entry.pieces.size() || !(entry.pieces[row.piece].id == row.id) ||
      entry.pieces[row.piece].contentBytes != row.bytes || entry.pieces[row.piece].offset != 0)
    return failTape("bad-index", "the content is not where the index says", source.where(row.offset),
                    "Run: tapeback recover TAPE -o OUT");
  const BlobPiece &piece = entry.pieces[row.piece];
  llvm::ArrayRef<uint8_t> content = entry.bytes.slice(entry.starts[row.piece], piece.length);
  const bool spans = piece.length != piece.contentBytes;
  if (spans) {
    if (llvm::Error error = assemble(entry, piece))
      return error;
    content = large;
  }
  if (verify)
    if (llvm::Error error = checkContent(row.id, content, row.offset))
      return error;
  if (spans)
    largeId = row.id;
  return content;
}

llvm::Expected<llvm::ArrayRef<uint8_t>> BlobCache::get(BlobId id) {
  if (largeId && largeId == id)
    return llvm::ArrayRef<uint8_t>(large);
  llvm::Expected<std::optional<BlobRow>> row = index.blob(id);
  if (!row)
    return row.takeError();
  if (!*row)
    return failTape("unknown-blob", "the tape has no content of this id", source.input().path(),
                    "Run: tapeback verify TAPE");
  return get(**row);
}

} // namespace tapeback
