// The host process's view of device-visible memory: what a model's DMA reaches.
#pragma once

#include "hal/model/HostProtocol.h"

namespace tapeback::modelhost {

/// Regions are told by the target (Map, Unmap) and kept sorted by device address. One mapping of the shared
/// memfd backs them all. Not thread-safe.
class HostMemory {
public:
  constexpr HostMemory() = default;
  HostMemory(const HostMemory &) = delete;
  HostMemory &operator=(const HostMemory &) = delete;
  ~HostMemory();

  /// Maps the first `size` bytes of `fd`. False if that fails (errno says why).
  bool open(int fd, uint64_t size);

  /// False if the region is malformed, overlaps another or there are too many.
  bool map(uint64_t iova, uint64_t size, uint64_t offset);
  bool unmap(uint64_t iova);

  /// A range that is not wholly mapped moves nothing and gives false. It may span regions that touch.
  bool read(uint64_t iova, void *out, uint64_t size);
  bool write(uint64_t iova, const void *in, uint64_t size);

private:
  struct Region {
    uint64_t iova, size, offset;
  };
  /// Index of the first region that ends after `iova`.
  uint32_t firstAfter(uint64_t iova) const;
  bool covered(uint64_t iova, uint64_t size, uint32_t *first) const;

  uint8_t *base = nullptr;
  uint64_t total = 0;
  Region *regions = nullptr;
  uint32_t count = 0, capacity = 0;
};

} // namespace tapeback::modelhost
