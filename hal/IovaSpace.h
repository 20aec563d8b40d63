// Which device addresses are mapped to what. Used by targets that choose addresses themselves.
//
// Pure bookkeeping: maps [iova, iova + size) to an offset in some backing store; both are handed out here,
// first fit. Granularity is 4 KiB. Not thread-safe.
#pragma once

#include "hal/TargetTypes.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <vector>

namespace tapeback {

/// Where addresses without a wish begin: above what a PC has in its first 16 MiB, and inside the reach of
/// small DMA masks (edu: 28 bits). Alike for all targets, so that tapes keep their addresses from target to
/// target.
constexpr uint64_t firstDeviceAddress = 0x1000000;

class IovaSpace {
public:
  static constexpr uint64_t pageSize = 4096;
  static constexpr size_t maxRegions = 65536;

  struct Region {
    uint64_t iova = 0, size = 0;
    uint64_t offset = 0; ///< In the backing store.
    bool operator==(const Region &) const = default;
  };

  /// Addresses without a wish are handed out from `firstIova` up; nothing at or above `endIova` ever is.
  /// The store has `storeSize` bytes.
  IovaSpace(uint64_t firstIova, uint64_t endIova, uint64_t storeSize)
      : firstIova(firstIova), endIova(endIova), storeSize(storeSize) {}

  /// Usage failures: "bad-map-request", "iova-unavailable", "no-device-memory".
  llvm::Expected<Region> map(const MapRequest &request);
  /// The region that was there. `iova` must be a region's start.
  llvm::Expected<Region> unmap(uint64_t iova);
  /// Puts exactly `region` there; false if that is not free.
  bool place(const Region &region);

  /// The store's offset of [iova, iova + size), which must lie in one region; nothing otherwise.
  std::optional<uint64_t> offsetOf(uint64_t iova, uint64_t size) const;
  /// The same as a Usage failure "unmapped-memory".
  llvm::Expected<uint64_t> requireOffset(uint64_t iova, uint64_t size) const;

  std::vector<Region> regions() const;

private:
  bool iovaFree(uint64_t iova, uint64_t size) const;
  std::optional<uint64_t> findIova(uint64_t size, uint64_t alignment) const;
  std::optional<uint64_t> findOffset(uint64_t size) const;

  uint64_t firstIova, endIova, storeSize;
  std::map<uint64_t, Region> byIova;
  std::map<uint64_t, uint64_t> byOffset; ///< offset → size, of what is used.
};

} // namespace tapeback
