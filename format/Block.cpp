// Framing, lz4 and the chain.
#include "format/Block.h"

#include "format/Failure.h"
#include "lz4.h"
#include <cstring>

namespace tapeback {

llvm::Error BlockWriter::start(const FileHeader &header) {
  tapeId = header.tapeId;
  chainValue = chainStart(header);
  return file.write(bytesOf(header));
}

llvm::Error BlockWriter::write(BlockHeader header, llvm::ArrayRef<uint8_t> raw) {
  if (raw.size() > maxRawBytes)
    return failUsage("message-too-large", "a record is larger than a block may be (64 MiB)");
  const int rawSize = static_cast<int>(raw.size());
  const int bound = LZ4_compressBound(rawSize);
  const size_t capacity = sizeof(header) + static_cast<size_t>(bound) + sizeof(BlockTrailer);
  uint8_t *bytes = buffer.bytes(capacity).data();
  uint8_t *stored = bytes + sizeof(header);
  const char *source = reinterpret_cast<const char *>(raw.data());

  // Byte planes have matches everywhere or nowhere: looking less closely costs them a tenth in size, and wins
  // a third of lz4's time, which is the largest part of what a packet costs.
  const int effort = header.type == static_cast<uint16_t>(BlockType::Packets) ? 8 : 1;
  int storedSize = compress && rawSize > 0
                       ? LZ4_compress_fast(source, reinterpret_cast<char *>(stored), rawSize, bound, effort)
                       : 0;
  const bool packed = storedSize > 0 && storedSize < rawSize;
  if (!packed) {
    storedSize = rawSize;
    if (rawSize > 0)
      std::memcpy(stored, raw.data(), raw.size());
  }
  header.codec = static_cast<uint8_t>(packed ? Codec::Lz4 : Codec::None);
  header.tapeTag = tapeTagOf(tapeId);
  header.sequence = sequence;
  header.rawSize = static_cast<uint32_t>(rawSize);
  header.storedSize = static_cast<uint32_t>(storedSize);
  header.check = checkOf(header);
  std::memcpy(bytes, &header, sizeof(header));

  BlockTrailer trailer;
  trailer.hash = hashBlock(header, {stored, static_cast<size_t>(storedSize)});
  trailer.chain = chainStep(chainValue, trailer.hash);
  std::memcpy(stored + storedSize, &trailer, sizeof(trailer));
  if (llvm::Error error = file.write({bytes, static_cast<size_t>(blockBytes(header))}))
    return error;
  chainValue = trailer.chain;
  ++sequence;
  return llvm::Error::success();
}

llvm::Error BlockWriter::finish(uint64_t footerOffset, bool sync) {
  Tail tail;
  tail.footerOffset = footerOffset;
  tail.fileBytes = file.size() + sizeof(tail);
  tail.check = checkOf(tail, tapeId);
  if (llvm::Error error = file.write(bytesOf(tail)))
    return error;
  return file.publish(sync);
}

std::string BlockSource::where(uint64_t offset) const {
  return file.path() + ": offset " + std::to_string(offset);
}

std::string BlockSource::where(const ReadBlock &block) const {
  return where(block.offset) + " (block " + std::to_string(block.header.sequence) + ", " +
         blockTypeName(block.header.type) + ")";
}

llvm::Error BlockSource::readHeader(uint64_t offset, BlockHeader &header) const {
  const uint64_t size = file.size();
  if (offset > size || size - offset < sizeof(BlockHeader) + sizeof(BlockTrailer))
    return damagedBlock("the file ends where a block should begin", where(offset));
  if (llvm::Error error = file.read(offset, {reinterpret_cast<uint8_t *>(&header), sizeof(header)}))
    return error;
  if (const char *fault = headerFault(header, tapeTag))
    return damagedBlock(fault, where(offset));
  if (blockBytes(header) > size - offset)
    return damagedBlock("the file ends within a block", where(offset));
  if (header.rawSize > maxRaw)
    return failTape("block-too-large",
                    "a block of " + std::to_string(header.rawSize) +
                        " bytes exceeds the limit set for reading",
                    where(offset), "Raise the limit.");
  return llvm::Error::success();
}

llvm::Error BlockSource::decompress(ReadBlock &block, llvm::ArrayRef<uint8_t> stored) const {
  const BlockHeader &header = block.header;
  if (header.codec == static_cast<uint8_t>(Codec::None)) {
    block.raw = stored;
    return llvm::Error::success();
  }
  if (header.codec != static_cast<uint8_t>(Codec::Lz4))
    return failTape("unknown-codec", "the block is compressed in a way that this program does not know",
                    where(block), "Use a newer tapeback.");
  llvm::MutableArrayRef<uint8_t> raw = block.rawBuffer.bytes(header.rawSize);
  const int got =
      LZ4_decompress_safe(reinterpret_cast<const char *>(stored.data()), reinterpret_cast<char *>(raw.data()),
                          static_cast<int>(stored.size()), static_cast<int>(raw.size()));
  if (got < 0 || static_cast<uint32_t>(got) != header.rawSize)
    return damagedBlock("the block cannot be decompressed to the size it declares", where(block));
  block.raw = raw;
  return llvm::Error::success();
}

llvm::Error BlockSource::read(uint64_t offset, ReadBlock &block, bool decode) const {
  block.raw = {};
  block.offset = offset;
  if (llvm::Error error = readHeader(offset, block.header))
    return error;
  const size_t stored = block.header.storedSize;
  llvm::MutableArrayRef<uint8_t> bytes = block.storedBuffer.bytes(stored + sizeof(BlockTrailer));
  if (llvm::Error error = file.read(offset + sizeof(BlockHeader), bytes))
    return error;
  std::memcpy(&block.trailer, bytes.data() + stored, sizeof(BlockTrailer));
  if (verify) {
    block.hash = hashBlock(block.header, bytes.take_front(stored));
    if (block.hash != block.trailer.hash)
      return damagedBlock("the block's hash does not hold: its bytes were changed", where(block));
  }
  return decode ? decompress(block, bytes.take_front(stored)) : llvm::Error::success();
}

llvm::Error BlockSource::read(uint64_t offset, ReadBlock &block, BlockType type) const {
  if (llvm::Error error = read(offset, block))
    return error;
  if (block.header.type != static_cast<uint16_t>(type))
    return failTape("bad-index", "a " + blockTypeName(static_cast<uint16_t>(type)) + " block should be here",
                    where(block), "Run: tapeback recover TAPE -o OUT");
  return llvm::Error::success();
}

} // namespace tapeback
