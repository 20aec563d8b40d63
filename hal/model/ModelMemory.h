// Device-visible memory of a model: one sealed memfd that the target and its host process both map.
#pragma once

#include "hal/IovaSpace.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <vector>

namespace tapeback {

/// The memory is sparse: pages exist once touched. It is sealed against shrinking, growing and further seals,
/// so that a plugin that has the descriptor can neither make our accesses fault nor fill the machine beyond
/// its size. Host pointers stay valid until the region is unmapped. Not thread-safe.
class ModelMemory {
public:
  explicit ModelMemory(uint64_t size);
  ModelMemory(const ModelMemory &) = delete;
  ModelMemory &operator=(const ModelMemory &) = delete;
  ~ModelMemory();

  llvm::Error open();
  int descriptor() const { return fd; }
  uint64_t size() const { return total; }

  /// Content is zero.
  llvm::Expected<IovaSpace::Region> map(const MapRequest &request);
  llvm::Expected<IovaSpace::Region> unmap(uint64_t iova);
  uint8_t *host(const IovaSpace::Region &region) const { return base + region.offset; }

  /// May span regions that touch. Usage failure "unmapped-memory".
  llvm::Error read(uint64_t iova, llvm::MutableArrayRef<uint8_t> out) const;
  llvm::Error write(uint64_t iova, llvm::ArrayRef<uint8_t> in);
  bool covers(uint64_t iova, uint64_t size) const;

  /// Contents of all regions; pages never touched are not kept.
  struct Contents {
    struct Extent {
      uint64_t offset;
      std::vector<uint8_t> bytes;
    };
    std::vector<IovaSpace::Region> regions;
    std::vector<Extent> extents;
    uint64_t bytes = 0; ///< Kept.
  };
  /// Usage failure "snapshot-limit" if more than `budget` bytes would be kept.
  llvm::Expected<Contents> save(uint64_t budget) const;
  /// The regions that differ must have been made alike before: see regions(), unmap(), place().
  llvm::Error load(const Contents &contents);

  std::vector<IovaSpace::Region> regions() const { return iovas.regions(); }
  /// Maps exactly this region; false if that is not free.
  bool place(const IovaSpace::Region &region) { return iovas.place(region); }

private:
  llvm::Error zero(const IovaSpace::Region &region);
  /// Calls `move(pointer, piece size)` for each piece of a range that is wholly mapped.
  template <typename Move>
  llvm::Error forPieces(uint64_t iova, uint64_t size, Move move) const;

  uint64_t total;
  int fd = -1;
  uint8_t *base = nullptr;
  IovaSpace iovas;
};

} // namespace tapeback
