// The fixed bytes of a tape: file header, block header and trailer, tail. SPEC.md is the specification; this
// file and BlockOrder.h are its code. Internal to format/.
//
//   +-------------+---------------------------------------+-----+------+
//   | FileHeader  | block 0 | block 1 | …                 | ... | Tail |
//   +-------------+---------------------------------------+-----+------+
//                 /          \ .
//      +-------------+--------------+--------------+
//      | BlockHeader | stored bytes | BlockTrailer |
//      +-------------+--------------+--------------+
#pragma once

#include "format/Records.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <bit>

namespace tapeback {

// The structures below are read and written as they lie in memory; everything on tape is little-endian.
static_assert(std::endian::native == std::endian::little, "a big-endian host needs byte swapping here");

constexpr uint16_t tapeFormatVersion = 2; ///< What the writer writes.
constexpr uint16_t tapeReaderVersion = 2; ///< Tapes whose minimum reader version is higher are refused.

/// Like PNG's: not text, and damaged visibly by a transfer that changes line ends or strips the eighth bit.
constexpr std::array<uint8_t, 8> fileMagic = {0x89, 'T', 'A', 'P', 'E', '\r', '\n', 0x1a};
constexpr std::array<uint8_t, 8> syncMarker = {0xf1, 0x5b, 0x0c, 0xb1, 0x0c, 0xe5, 0x9d, 0x00};
constexpr std::array<uint8_t, 8> tailMagic = {'T', 'A', 'P', 'E', '-', 'E', 'N', 'D'};

/// Bounds that a reader checks before it allocates. Part of the format: a writer never exceeds them.
constexpr uint32_t maxRawBytes = 64u << 20;
constexpr uint32_t maxPacketsPerBlock = 1u << 19;
constexpr uint64_t maxBlobBytes = 1ull << 30;
/// Raw bytes of all Device blocks of a tape together, and of all Trigger blocks: readers keep them in memory.
constexpr uint64_t maxTableBytes = 256ull << 20;
constexpr uint64_t maxTriggerBytes = 256ull << 20;

enum class BlockType : uint16_t {
  Manifest = 1,
  Device = 2,
  Packets = 3,
  Keyframe = 4,
  Blob = 5,
  Trigger = 6,
  Oracle = 7,
  Index = 8,
  Footer = 9,
};
constexpr unsigned blockTypeCount = 10; ///< Known numbers are below this; 0 is never used.
std::string blockTypeName(uint16_t type);

enum class Codec : uint8_t { None = 0, Lz4 = 1 };

struct FileHeader {
  std::array<uint8_t, 8> magic = fileMagic;
  uint16_t formatVersion = tapeFormatVersion;
  uint16_t minimumReader = tapeReaderVersion;
  uint32_t flags = 0;
  std::array<uint8_t, 16> tapeId{};
  uint64_t createdNs = 0; ///< Since the Unix epoch.
  std::array<uint8_t, 16> reserved{};
  uint64_t check = 0; ///< XXH3-64 of the bytes before it.
};
static_assert(sizeof(FileHeader) == 64);

struct BlockHeader {
  std::array<uint8_t, 8> sync = syncMarker;
  uint16_t type = 0;
  uint8_t codec = 0;
  uint8_t flags = 0;
  uint32_t tapeTag =
      0; ///< First four bytes of the tape id: a tape inside a payload is not mistaken for this one.
  uint64_t sequence = 0; ///< Counts blocks from 0.
  uint32_t rawSize = 0;
  uint32_t storedSize = 0;
  uint64_t firstTime = 0, lastTime = 0; ///< Of the packets in it; 0 in other blocks.
  uint64_t firstPacket = 0;             ///< Packets on the tape before this block. In every type of block.
  uint64_t firstWindow = 0;             ///< Windows ended before this block. In every type of block.
  uint32_t itemCount = 0;               ///< Packets, blob pieces or rows in it.
  uint32_t windowCount = 0;             ///< Windows that end in it.
  uint64_t check = 0;                   ///< XXH3-64 of the bytes before it.
};
static_assert(sizeof(BlockHeader) == 80);

struct BlockTrailer {
  Digest hash{};  ///< BLAKE3(header ‖ stored bytes): the block checked alone.
  Digest chain{}; ///< BLAKE3(previous chain ‖ hash): the block checked in its place.
};
static_assert(sizeof(BlockTrailer) == 64);

struct Tail {
  uint64_t footerOffset = 0;
  uint64_t fileBytes = 0;
  uint64_t check = 0; ///< XXH3-64 of tape id ‖ the bytes before it.
  std::array<uint8_t, 8> magic = tailMagic;
};
static_assert(sizeof(Tail) == 32);

/// Bytes of a whole block on file.
constexpr uint64_t blockBytes(const BlockHeader &header) {
  return sizeof(BlockHeader) + uint64_t(header.storedSize) + sizeof(BlockTrailer);
}

uint32_t tapeTagOf(const std::array<uint8_t, 16> &tapeId);
uint64_t checkOf(const FileHeader &header);
uint64_t checkOf(const BlockHeader &header);
uint64_t checkOf(const Tail &tail, const std::array<uint8_t, 16> &tapeId);
Digest chainStart(const FileHeader &header);
Digest hashBlock(const BlockHeader &header, llvm::ArrayRef<uint8_t> stored);
Digest chainStep(const Digest &previous, const Digest &hash);

/// What is wrong with a block header, looked at alone, in a few words; nullptr if nothing is. Bounds only: a
/// header that passes may be allocated for.
const char *headerFault(const BlockHeader &header, uint32_t tapeTag);

/// Checks the first bytes of a file. Codes: not-a-tape, damaged-header, newer-version.
llvm::Expected<FileHeader> parseFileHeader(llvm::ArrayRef<uint8_t> bytes, llvm::StringRef path);

/// Failures that many readers of blocks have in common: codes damaged-block (its bytes were changed) and
/// bad-message (they were not, but say what cannot be).
llvm::Error damagedBlock(llvm::StringRef what, const std::string &where);
llvm::Error badMessage(llvm::StringRef what, const std::string &where);

template <typename T>
llvm::ArrayRef<uint8_t> bytesOf(const T &value) {
  return {reinterpret_cast<const uint8_t *>(&value), sizeof(T)};
}

} // namespace tapeback
