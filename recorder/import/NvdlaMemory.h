// What both NVDLA formats share: memory images beside the trace, ranges that must be visible, golden
// contents.
#pragma once

#include "recorder/import/Importer.h"
#include <map>
#include <string>
#include <vector>

namespace tapeback {

/// Bytes of a memory image as they are read. Three forms are known: "{offset:0x0, size:4, payload:0x.. …},",
/// plain "0x.." bytes behind a header of "Key = value" lines, and a dump ("dumped memory,start_address=…").
/// `take` gets pieces of at most 1 MiB in the order of the file and may return false to stop. A line that
/// makes no sense is given to `bad`.
llvm::Error readMemoryImage(LineReader &lines,
                            llvm::function_ref<bool(uint64_t, llvm::ArrayRef<uint8_t>)> take,
                            llvm::function_ref<void(uint64_t line, const char *why)> bad);

/// The memory side of an NVDLA trace being imported.
class NvdlaMemory {
public:
  NvdlaMemory(OpenCompanion open) : openCompanion(std::move(open)) {}

  static constexpr uint64_t maxBytes = 1u << 30;        ///< Of one operation.
  static constexpr uint64_t maxGoldenBytes = 64u << 20; ///< Of one golden content.

  /// From the survey: will be used, so it is mapped at the start.
  void uses(uint64_t address, uint64_t length);
  void mapAll(ImportOutput &out, uint16_t device);

  void fill(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length, uint8_t value);
  /// Content that the trace does not tell.
  void notTold(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length);
  /// `length` 0: as long as the image is.
  void load(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length, llvm::StringRef file);
  /// The results are taken, and checked: against a file's content, or a CRC-32 that only the trace's own
  /// player can compute (a replay grades that not captured). Oracles that a device passes by doing nothing
  /// are warned of.
  void checkFile(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length, llvm::StringRef file,
                 llvm::StringRef name);
  void checkCrc(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length, uint32_t crc,
                llvm::StringRef name);

private:
  struct Image {
    uint64_t length = 0;
    uint32_t crc = 0;
  };
  void put(ImportOutput &out, uint16_t device, uint64_t address, llvm::ArrayRef<uint8_t> bytes);
  std::unique_ptr<LineReader> open(ImportOutput &out, llvm::StringRef file);
  uint64_t acquire(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length,
                   const std::vector<uint8_t> *content);
  void oracle(ImportOutput &out, uint16_t device, uint64_t address, uint64_t length, uint64_t link,
              llvm::StringRef name);

  OpenCompanion openCompanion;
  /// Of a short line that asks for much there may be many.
  uint64_t fillBudget = uint64_t(4) << 30, crcBudget = uint64_t(1) << 30;
  std::vector<std::pair<uint64_t, uint64_t>> used;
  std::map<uint64_t, Image> images; ///< By address: what was put there, while it is one contiguous piece.
};

} // namespace tapeback
