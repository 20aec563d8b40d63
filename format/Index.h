// The index: where windows, packets, contents and keyframes are. Written at the end, in parts of bounded
// size; read a part at a time, when something in it is asked for. Internal to format/.
//
// Columns of the parts, by kind (all u64):
//   windows:       first packet, packet count, first time, last time, quiescent
//   packet blocks: first packet, packet count, offset of the block
//   blobs:         id high, id low, offset of the block with its first piece, number of the piece in it,
//   bytes keyframes:     packet, offset of the block
#pragma once

#include "format/Block.h"
#include "format/RecordCodec.h"
#include <list>
#include <optional>

namespace tapeback {

struct PacketBlockRow {
  uint64_t firstPacket = 0, packetCount = 0, offset = 0;
  bool operator==(const PacketBlockRow &) const = default;
};
struct BlobRow {
  BlobId id;
  uint64_t offset = 0, bytes = 0;
  uint32_t piece = 0;
  bool operator==(const BlobRow &) const = default;
};
struct KeyframeRow {
  uint64_t packet = 0, offset = 0;
  bool operator==(const KeyframeRow &) const = default;
};

inline bool operator<(const BlobId &a, const BlobId &b) {
  return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo;
}

/// What a writer collects for the index. 40 bytes a window or blob, 24 a packet block, 16 a keyframe.
struct IndexRows {
  std::vector<WindowInfo> windows;
  std::vector<PacketBlockRow> packetBlocks;
  std::vector<BlobRow> blobs; ///< In any order; sorted when written.
  std::vector<KeyframeRow> keyframes;
};

/// Writes all parts; `emit` writes one block and returns its offset.
llvm::Expected<std::vector<PartPlace>>
writeIndex(IndexRows &rows, llvm::function_ref<llvm::Expected<uint64_t>(const PartTable &)> emit);

/// Looks things up. Keeps `maxParts` decoded parts (each up to 3 MiB), least recently used goes first.
class IndexReader {
public:
  IndexReader(const BlockSource &source, size_t maxParts) : source(source), maxParts(maxParts) {}

  /// Takes the footer's list of parts and checks that it is complete and in order.
  llvm::Error setParts(std::vector<PartPlace> parts, const TapeSummary &summary);

  /// `n` is in range, or code bad-index.
  llvm::Expected<WindowInfo> window(uint64_t n);
  llvm::Expected<uint64_t> windowOfPacket(uint64_t packet);
  llvm::Expected<PacketBlockRow> packetBlock(uint64_t n);
  llvm::Expected<PacketBlockRow> blockOfPacket(uint64_t packet);
  llvm::Expected<KeyframeRow> keyframe(uint64_t n);
  llvm::Expected<std::optional<BlobRow>> blob(BlobId id);
  uint64_t packetBlockCount() const { return counts[static_cast<size_t>(PartKind::PacketBlocks)]; }

  /// For the verifier: every part, checked in itself (order of its rows, first key).
  const std::vector<PartPlace> &parts() const { return places; }
  llvm::Error checkPart(size_t part);

private:
  struct Loaded {
    size_t part;
    PartTable table;
  };
  /// The row `n` of a kind: its table and the row's place in it.
  llvm::Expected<std::pair<const PartTable *, size_t>> row(PartKind kind, uint64_t n);
  /// The last row of a kind whose first column is not above `key`.
  llvm::Expected<std::pair<const PartTable *, size_t>> rowByKey(PartKind kind, uint64_t key);
  llvm::Expected<const PartTable *> load(size_t part);
  llvm::Error badIndex(llvm::StringRef what, size_t part) const;
  llvm::ArrayRef<PartPlace> partsOf(PartKind kind) const;
  size_t numberOf(const PartPlace *place) const { return static_cast<size_t>(place - places.data()); }

  const BlockSource &source;
  size_t maxParts;
  std::vector<PartPlace> places;
  size_t firstPart[6] = {}; ///< By kind; the next kind's is its end.
  uint64_t counts[5] = {};
  std::list<Loaded> cache;                         ///< Most recently used first.
  std::vector<std::list<Loaded>::iterator> cached; ///< By part; cache.end() if it is not loaded.
  ReadBlock block;
};

} // namespace tapeback
