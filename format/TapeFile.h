// A tape that has been opened: everything that reader and verifier need before the first packet. Internal to
// format/.
#pragma once

#include "format/Block.h"
#include "format/RecordCodec.h"

namespace tapeback {

/// The three tables, filled block by block.
struct TapeTables {
  std::vector<DeviceRecord> devices;
  std::vector<std::string> spaces{"memory"};
  std::vector<TapeClock> clocks{{"host-monotonic"}};

  uint64_t rawBytes = 0; ///< Of the blocks that the rows came from.

  /// nullptr, or why the rows of a block of `blockRawBytes` cannot be appended.
  const char *append(TableRows rows, uint64_t blockRawBytes);
};

/// Opens the file, checks its header and its end, and reads the footer. No other block is touched.
struct TapeFile {
  FileHeader header;
  BlockSource source;
  uint64_t footerOffset = 0;
  FooterRecord footer;

  /// `verify`: check each block's hash. Failures as for TapeReader::open.
  static llvm::Expected<TapeFile> open(llvm::StringRef path, uint64_t maxRaw, bool verify);
};

} // namespace tapeback
