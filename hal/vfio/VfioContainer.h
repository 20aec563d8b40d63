// A VFIO container with one group and the type-1 IOMMU: the address space that the device sees.
//
// Protocol: Linux Documentation/driver-api/vfio.rst and include/uapi/linux/vfio.h. Not thread-safe.
#pragma once

#include "hal/FileDescriptor.h"
#include "hal/vfio/PciDevice.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <vector>

namespace tapeback {

class VfioContainer {
public:
  struct IovaRange {
    uint64_t first = 0, last = 0; ///< Both inclusive.
  };

  /// Opens the device's group, checks that it is viable, and sets up the IOMMU. Class Usage for what the user
  /// can set right, each with the command that does.
  static llvm::Expected<std::unique_ptr<VfioContainer>> open(const PciDevice &device);

  /// The group's descriptor for the device.
  llvm::Expected<FileDescriptor> deviceDescriptor(const PciDevice &device);
  int groupDescriptor() const { return group.get(); }

  /// Device addresses the IOMMU can translate, in order; reserved ones (message-signalled interrupts,
  /// firmware) are the holes between them.
  llvm::ArrayRef<IovaRange> ranges() const { return usable; }
  bool inRanges(uint64_t iova, uint64_t size) const;
  /// "0x0..0xfedfffff, 0xfef00000..0x7fffffffff", for messages.
  std::string rangesText() const;

  /// Makes [host, host + size) visible at `iova`. Page-aligned. "iova-unavailable", "memlock-limit".
  llvm::Error map(uint64_t iova, void *host, uint64_t size);
  llvm::Error unmap(uint64_t iova, uint64_t size);

private:
  VfioContainer() = default;
  llvm::Error queryRanges();

  FileDescriptor container, group;
  std::vector<IovaRange> usable;
};

} // namespace tapeback
