// One block at a time: compressing, sealing and writing it; reading, checking and decompressing it. Internal
// to format/.
#pragma once

#include "format/File.h"
#include "format/Layout.h"
#include "format/WordBuffer.h"
#include "format/WriteBehind.h"

namespace tapeback {

/// Seals blocks one after another and keeps the chain. Owned and used by one thread; does not move.
class BlockWriter {
public:
  /// Takes over an empty output file; start() writes the file header.
  explicit BlockWriter(OutputFile file, bool compress) : out(std::move(file)), compress(compress) {}

  llvm::Error start(const FileHeader &header);
  /// Fills in everything of `header` but type, times, firstPacket, firstWindow and the counts. When it
  /// returns, the block is the kernel's, and so is everything before it.
  llvm::Error write(BlockHeader header, llvm::ArrayRef<uint8_t> raw);
  /// The same of the first `bytes` of `raw`, but it may wait for others like it, or still be on its way, and
  /// its error come with a later call. `raw` may have other memory then. For what means nothing without a
  /// later block.
  llvm::Error writeBehind(BlockHeader header, WordBuffer &raw, size_t bytes);
  /// How large a block of contents had better be. lz4 is fastest up to 64 KiB: its table is half the size
  /// then, and matches lie in the nearest cache. What it makes nothing of is written in larger pieces.
  size_t likedContentBytes() const { return lastWasNoise ? 256u << 10 : 64u << 10; }
  /// Waits until all blocks are the kernel's.
  llvm::Error settle();
  /// The tail, and out under the final name.
  llvm::Error finish(uint64_t footerOffset, bool sync);
  void discard();

  uint64_t offset() const { return end; }             ///< Where the next block will begin.
  const Digest &chain() const { return out.chain(); } ///< After start() or write().

private:
  bool worthCompressing(llvm::ArrayRef<uint8_t> raw);
  /// Completes the header of a block of which `stored` bytes are packed; 0: it is stored as it is.
  void complete(BlockHeader &header, size_t rawBytes, size_t stored);

  WriteBehind out;
  bool compress;
  bool lastWasNoise = false; ///< The last block of contents did not become smaller.
  std::array<uint8_t, 16> tapeId{};
  uint64_t sequence = 0, end = 0;
  UnsealedBlocks waiting; ///< Contents that were not sent on their way yet.
  WordBuffer packed, sample;
};

/// A block in memory. Reused from block to block.
struct ReadBlock {
  uint64_t offset = 0;
  BlockHeader header;
  BlockTrailer trailer;
  Digest hash{};               ///< Computed; valid if hashes are verified.
  llvm::ArrayRef<uint8_t> raw; ///< 8-byte aligned; empty if it was read without decoding.
  uint64_t end() const { return offset + blockBytes(header); }

  WordBuffer storedBuffer, rawBuffer;
};

/// Reads untrusted blocks of one tape. Stateless but for the file; every size is checked before memory is
/// taken for it.
class BlockSource {
public:
  BlockSource(InputFile file, uint32_t tapeTag, uint64_t maxRaw, bool verify)
      : file(std::move(file)), tapeTag(tapeTag), maxRaw(std::min<uint64_t>(maxRaw, maxRawBytes)),
        verify(verify) {}

  /// Codes: damaged-block (header, hash or compression do not hold; it ends beyond the file), unknown-codec,
  /// block-too-large (more than the caller's limit).
  llvm::Error readHeader(uint64_t offset, BlockHeader &header) const;
  llvm::Error read(uint64_t offset, ReadBlock &block, bool decode = true) const;
  /// The same, and it must be of this type.
  llvm::Error read(uint64_t offset, ReadBlock &block, BlockType type) const;

  std::string where(uint64_t offset) const;
  std::string where(const ReadBlock &block) const;
  const InputFile &input() const { return file; }
  void replaceTag(uint32_t tag) { tapeTag = tag; }

private:
  llvm::Error decompress(ReadBlock &block, llvm::ArrayRef<uint8_t> stored) const;
  InputFile file;
  uint32_t tapeTag;
  uint64_t maxRaw;
  bool verify;
};

} // namespace tapeback
