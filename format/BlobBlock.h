// The open block of contents, as the message it will be. Internal to format/.
//
// The message is laid out by hand and not by Cap'n Proto's builder, so that a content is copied once, to its
// place, and the memory need not be cleared before:
//
//   frame │ root pointer │ pointer to pieces │ pointer to bytes │ bytes … │ pieces
#pragma once

#include "format/RecordCodec.h"
#include "format/WordBuffer.h"
#include <vector>

namespace tapeback {

class BlobBlock {
public:
  size_t pieceCount() const { return pieces.size(); }
  size_t contentBytes() const { return used; }

  void add(const BlobPiece &piece, llvm::ArrayRef<uint8_t> content);
  /// Completes the message. Afterwards only raw(), rawBytes() and clear() may be called.
  void seal();
  /// The message; may be exchanged for other memory before clear().
  WordBuffer &raw() { return memory; }
  size_t rawBytes() const { return sealedBytes; }
  void clear();

private:
  WordBuffer memory;
  std::vector<BlobPiece> pieces;
  size_t used = 0, sealedBytes = 0;
};

} // namespace tapeback
