// The first half of recovery: which whole blocks are in a file, however damaged the rest is. Internal to
// format/.
#pragma once

#include "format/Block.h"
#include "format/TapeReader.h"

namespace tapeback {

/// A block whose header and hash hold.
struct FoundBlock {
  uint64_t offset = 0;
  BlockHeader header;
};

struct FileDamage {
  uint64_t from = 0, to = 0; ///< Bytes [from, to) belong to no whole block.
};

struct ScanResult {
  bool headerGood = false;
  FileHeader header; ///< Only if headerGood.
  uint32_t tapeTag = 0;
  std::vector<FoundBlock> blocks; ///< By sequence number; of doubles, the first.
  uint64_t doubles = 0;
  bool reordered = false;
  std::vector<FileDamage> damages;
};

/// Scans a whole file. Time is bounded by a few readings of the file, whatever is in it.
/// Fails for a file that cannot be read, a tape of a newer version, and a file with no block of a tape in it
/// (code nothing-to-recover, or not-a-tape).
llvm::Expected<ScanResult> scanForBlocks(const InputFile &file, const TapeProgress &progress);

} // namespace tapeback
