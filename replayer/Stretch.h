// A run of packets and all their contents, in memory before the first of them is issued.
#pragma once

#include "format/TapeReader.h"
#include <unordered_map>

namespace tapeback {

/// How much of a tape is decoded at once. A replay pauses between stretches.
struct StretchLimits {
  uint64_t packets = 1 << 18; ///< Of 48 bytes, and 64 more where they have extras.
  uint64_t contentBytes = 64u << 20;
  bool pin = false; ///< Lock it into memory, if the system allows as much.
};

/// Owns the packets and contents. Reused: the next stretch replaces the one before. One thread.
class Stretch {
public:
  Stretch() = default;
  Stretch(const Stretch &) = delete;
  Stretch &operator=(const Stretch &) = delete;
  ~Stretch();

  /// Reads packets from `first` on: at most to `end`, less if the limits are met, but one at least. A content
  /// that cannot be read, or is larger than all of the limit, is left to be found out when it is needed.
  llvm::Error read(TapeReader &reader, uint64_t first, uint64_t end, const StretchLimits &limits);
  const PacketBatch &batch() const { return packets; }

  /// Valid until the next read().
  std::optional<llvm::ArrayRef<uint8_t>> find(BlobId id) const;
  /// All of it is locked into memory.
  bool pinned() const { return isPinned; }

private:
  void pin();
  void unpin();

  struct Hash {
    size_t operator()(const BlobId &id) const { return size_t(id.hi ^ id.lo); }
  };
  struct Place {
    size_t offset, size;
  };
  PacketBatch packets;
  std::vector<uint8_t> arena;
  std::unordered_map<BlobId, Place, Hash> places;
  std::vector<std::pair<const void *, size_t>> locked;
  bool isPinned = false;
};

} // namespace tapeback
