// Checksums and the first checks of the fixed structures.
#include "format/Layout.h"

#include "format/Failure.h"
#include "lz4.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/xxhash.h"
#include <cstddef>
#include <cstring>

namespace tapeback {

std::string blockTypeName(uint16_t type) {
  switch (static_cast<BlockType>(type)) {
  case BlockType::Manifest: return "manifest";
  case BlockType::Device: return "device";
  case BlockType::Packets: return "packets";
  case BlockType::Keyframe: return "keyframe";
  case BlockType::Blob: return "blob";
  case BlockType::Trigger: return "trigger";
  case BlockType::Oracle: return "oracle";
  case BlockType::Index: return "index";
  case BlockType::Footer: return "footer";
  }
  return "unknown-" + std::to_string(type);
}

uint32_t tapeTagOf(const std::array<uint8_t, 16> &tapeId) {
  uint32_t tag;
  std::memcpy(&tag, tapeId.data(), sizeof(tag));
  return tag;
}

uint64_t checkOf(const FileHeader &header) {
  return llvm::xxh3_64bits(bytesOf(header).take_front(offsetof(FileHeader, check)));
}

uint64_t checkOf(const BlockHeader &header) {
  return llvm::xxh3_64bits(bytesOf(header).take_front(offsetof(BlockHeader, check)));
}

uint64_t checkOf(const Tail &tail, const std::array<uint8_t, 16> &tapeId) {
  std::array<uint8_t, 16 + offsetof(Tail, check)> bytes;
  std::memcpy(bytes.data(), tapeId.data(), 16);
  std::memcpy(bytes.data() + 16, &tail, offsetof(Tail, check));
  return llvm::xxh3_64bits(llvm::ArrayRef<uint8_t>(bytes));
}

static Digest finish(llvm::BLAKE3 &hasher) {
  return hasher.final<32>();
}

Digest chainStart(const FileHeader &header) {
  llvm::BLAKE3 hasher;
  hasher.update(bytesOf(header));
  return finish(hasher);
}

Digest hashBlock(const BlockHeader &header, llvm::ArrayRef<uint8_t> stored) {
  llvm::BLAKE3 hasher;
  hasher.update(bytesOf(header));
  hasher.update(stored);
  return finish(hasher);
}

Digest chainStep(const Digest &previous, const Digest &hash) {
  llvm::BLAKE3 hasher;
  hasher.update(llvm::ArrayRef<uint8_t>(previous));
  hasher.update(llvm::ArrayRef<uint8_t>(hash));
  return finish(hasher);
}

const char *headerFault(const BlockHeader &header, uint32_t tapeTag) {
  if (header.sync != syncMarker)
    return "no block starts here";
  if (header.check != checkOf(header))
    return "the block header's checksum does not hold";
  if (header.tapeTag != tapeTag)
    return "the block belongs to another tape";
  if (header.rawSize > maxRawBytes)
    return "the block declares more than 64 MiB";
  if (header.codec == static_cast<uint8_t>(Codec::None) && header.storedSize != header.rawSize)
    return "the block is stored as it is, with two different sizes";
  if (header.codec == static_cast<uint8_t>(Codec::Lz4) &&
      header.storedSize > static_cast<uint32_t>(LZ4_compressBound(static_cast<int>(header.rawSize))))
    return "the block's stored size cannot come from its raw size";
  // A codec of a later version: whatever it is, it has no business storing more than the bound and a margin.
  if (header.storedSize > maxRawBytes + (1u << 20))
    return "the block's stored size is out of bounds";
  return nullptr;
}

llvm::Error damagedBlock(llvm::StringRef what, const std::string &where) {
  return failTape("damaged-block", what.str(), where, "Run: tapeback recover TAPE -o OUT");
}

llvm::Error badMessage(llvm::StringRef what, const std::string &where) {
  return failTape("bad-message", "the block's content is not what its type says: " + what.str(), where,
                  "Run: tapeback recover TAPE -o OUT");
}

llvm::Expected<FileHeader> parseFileHeader(llvm::ArrayRef<uint8_t> bytes, llvm::StringRef path) {
  FileHeader header;
  const size_t magicBytes = std::min(bytes.size(), fileMagic.size());
  if (bytes.empty() || std::memcmp(bytes.data(), fileMagic.data(), magicBytes) != 0)
    return failTape("not-a-tape", "this is not a tape: it does not begin with a tape's magic number",
                    path.str(),
                    "Check the file name. If the tape's first bytes were destroyed, run: tapeback recover");
  if (bytes.size() < sizeof(header))
    return failTape("damaged-header", "the file ends within the tape's header", path.str(),
                    "Get the whole file; there is nothing in this one to recover.");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.check != checkOf(header))
    return failTape("damaged-header", "the checksum of the tape's header does not hold", path.str(),
                    "Run: tapeback recover TAPE -o OUT");
  if (header.minimumReader > tapeReaderVersion)
    return failTape("newer-version",
                    "the tape needs a reader of version " + std::to_string(header.minimumReader) +
                        ", and this program's is " + std::to_string(tapeReaderVersion),
                    path.str(), "Use a newer tapeback; the tape is not damaged.");
  return header;
}

} // namespace tapeback
