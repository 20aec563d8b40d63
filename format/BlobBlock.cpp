// Cap'n Proto's encoding of schema::Blobs, word by word.
#include "format/BlobBlock.h"

#include "format/Message.h"
#include <cstring>

namespace tapeback {

namespace {

constexpr size_t bytesAt = 32; ///< Behind the frame and three pointers.
constexpr unsigned pieceWords = 5;
static_assert(schema::Blobs::_capnpPrivate::dataWordSize == 0 &&
              schema::Blobs::_capnpPrivate::pointerCount == 2);
static_assert(schema::BlobPiece::_capnpPrivate::dataWordSize == pieceWords &&
              schema::BlobPiece::_capnpPrivate::pointerCount == 0);

/// A pointer to a list `offset` words behind the pointer's end. Sizes: 2 bytes, 7 structs (count in words).
constexpr uint64_t listPointer(uint64_t offset, uint64_t size, uint64_t count) {
  return 1 | offset << 2 | size << 32 | count << 35;
}

} // namespace

void BlobBlock::add(const BlobPiece &piece, llvm::ArrayRef<uint8_t> content) {
  const size_t end = bytesAt + used + content.size();
  uint8_t *to = memory.keep(end, bytesAt + used).data();
  if (!content.empty())
    std::memcpy(to + bytesAt + used, content.data(), content.size());
  used += content.size();
  pieces.push_back(piece);
}

void BlobBlock::seal() {
  const size_t bytesWords = (used + 7) / 8, listAt = bytesAt / 8 + bytesWords;
  sealedBytes = 8 * (listAt + 1 + pieceWords * pieces.size());
  auto *words = reinterpret_cast<uint64_t *>(memory.keep(sealedBytes, bytesAt + used).data());
  std::memset(reinterpret_cast<uint8_t *>(words) + bytesAt + used, 0, 8 * bytesWords - used);
  words[0] = (sealedBytes / 8 - 1) << 32; // One segment, and its words.
  words[1] = uint64_t(2) << 48;           // The root lies behind this pointer and has two pointers.
  words[2] = listPointer(listAt - 3, 7, pieceWords * pieces.size());
  words[3] = listPointer(0, 2, used);
  uint64_t *to = words + listAt;
  *to++ = pieces.size() << 2 | uint64_t(pieceWords) << 32;
  for (const BlobPiece &piece : pieces) {
    const uint64_t fields[pieceWords] = {piece.id.hi, piece.id.lo, piece.contentBytes, piece.offset,
                                         piece.length};
    to = std::copy(std::begin(fields), std::end(fields), to);
  }
}

void BlobBlock::clear() {
  pieces.clear();
  used = sealedBytes = 0;
}

} // namespace tapeback
