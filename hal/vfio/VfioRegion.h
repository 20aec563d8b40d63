// A region of a VFIO device (a BAR, the configuration space): mapped where the kernel allows, read and
// written through the device's file elsewhere.
#pragma once

#include "hal/TargetTypes.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <vector>

namespace tapeback {

class VfioRegion {
public:
  /// Queries region `index` of `device` and maps what may be mapped (unless `useMaps` is off). A region of
  /// size 0 is not there; that is no error.
  static llvm::Expected<VfioRegion> open(int device, uint32_t index, bool useMaps);
  VfioRegion(VfioRegion &&other) noexcept;
  VfioRegion &operator=(VfioRegion &&) = delete;
  ~VfioRegion();

  uint64_t size() const { return bytes; }
  bool readable() const;
  bool writable() const;
  bool mapped() const { return !maps.empty(); }

  /// Exactly one access of `width` bytes at the aligned `offset`, inside the region (the caller has checked).
  /// Through the file an access of 8 bytes would be split by kernels before 6.10: refused
  /// ("width-unsupported"). An access that is not aligned is refused too: the bus would see several.
  llvm::Expected<uint64_t> read(uint64_t offset, unsigned width) const;
  llvm::Error write(uint64_t offset, unsigned width, uint64_t value) const;

private:
  struct Map {
    uint64_t first = 0, size = 0;
    volatile uint8_t *host = nullptr;
  };
  VfioRegion() = default;
  volatile uint8_t *locate(uint64_t offset, unsigned width) const;
  llvm::Error checkShape(uint64_t offset, unsigned width, bool throughFile) const;
  llvm::Error mapAreas(int device, const std::vector<uint8_t> &info);
  void mapArea(uint64_t first, uint64_t size);

  int device = -1; ///< Not owned.
  uint32_t index = 0, flags = 0;
  uint64_t bytes = 0, fileOffset = 0;
  std::vector<Map> maps;
};

} // namespace tapeback
