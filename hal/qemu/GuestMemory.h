// The guest's RAM: one memory file that QEMU and we both map, and what of it is handed out to whom.
//
//   0x0000'0000 ┬ handed out on request only (a recorded address, say)
//   0x0009'f000 ├ interrupt page: where the device's messages arrive
//   0x000a'0000 ├ not RAM on a PC (VGA, ROM)
//   0x0010'0000 ├ handed out on request only
//   0x0100'0000 ├ handed out, lowest first
//   RAM size    ┴ or the device's DMA mask, whichever comes first
#pragma once

#include "hal/FileDescriptor.h"
#include "hal/TargetTypes.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>

namespace tapeback {

/// Device addresses are offsets into the RAM. Owns the mapping: pointers are good until destruction, whatever
/// becomes of QEMU, which comes and goes with resets. Threads: one (of ours; the device writes when it
/// likes). Failures are the caller's (Usage), except in create (System).
class GuestMemory {
public:
  static constexpr uint64_t pageSize = 4096;
  static constexpr size_t maxRegions = 65536;
  static constexpr uint64_t interruptPage = 0x9f000;

  static llvm::Expected<std::unique_ptr<GuestMemory>> create(uint64_t bytes, uint64_t dmaMask);
  ~GuestMemory();
  GuestMemory(const GuestMemory &) = delete;
  GuestMemory &operator=(const GuestMemory &) = delete;

  /// For QEMU to map; it can neither shrink nor grow it.
  int descriptor() const { return file.get(); }
  uint64_t size() const { return bytes; }

  /// Memory that reads as zero. "bad-map-request", "iova-unavailable" (with what is free),
  /// "no-device-memory".
  llvm::Expected<MemoryRegion> map(const MapRequest &request);
  /// "unmapped-memory" if no region starts there. Gives its pages back.
  llvm::Error unmap(uint64_t iova);
  /// Our view of a range that lies in one mapped region; "unmapped-memory" otherwise.
  llvm::Expected<uint8_t *> locate(uint64_t iova, uint64_t length) const;

  /// Takes the word that the device's message writes and leaves 0 there.
  uint32_t takeInterruptWord();

private:
  GuestMemory(FileDescriptor file, uint8_t *base, uint64_t bytes, uint64_t end);
  bool isFree(uint64_t iova, uint64_t length) const;
  std::optional<uint64_t> findFree(uint64_t length, uint64_t alignment) const;
  std::string freeRanges() const;
  llvm::Error clear(uint64_t iova, uint64_t length);

  FileDescriptor file;
  uint8_t *base;
  uint64_t bytes;
  uint64_t end; ///< Nothing at or above it is handed out.
  /// Start → length of what is not free; `reserved` is not the caller's to unmap.
  struct Used {
    uint64_t length;
    bool reserved;
  };
  std::map<uint64_t, Used> used;
};

} // namespace tapeback
