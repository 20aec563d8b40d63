// Framing, lz4 and the chain.
#include "format/Block.h"

#include "format/Failure.h"
#include "lz4.h"
#include <cstring>

namespace tapeback {

llvm::Error BlockWriter::start(const FileHeader &header) {
  tapeId = header.tapeId;
  end = sizeof(header);
  return out.start(header);
}

static size_t packBound(size_t bytes) {
  return static_cast<size_t>(LZ4_compressBound(static_cast<int>(bytes)));
}

/// How many bytes it takes there; 0 if that is not less than it has.
static size_t pack(llvm::ArrayRef<uint8_t> raw, llvm::MutableArrayRef<uint8_t> to, int effort) {
  const int stored =
      LZ4_compress_fast(reinterpret_cast<const char *>(raw.data()), reinterpret_cast<char *>(to.data()),
                        static_cast<int>(raw.size()), static_cast<int>(to.size()), effort);
  return stored > 0 && size_t(stored) < raw.size() ? size_t(stored) : 0;
}

// Noise (packed or encrypted contents, weights) comes in runs: after one block of it a few samples decide.
bool BlockWriter::worthCompressing(llvm::ArrayRef<uint8_t> raw) {
  constexpr size_t part = 16u << 10;
  if (!lastWasNoise || raw.size() < 8 * part)
    return true;
  for (const size_t begin : {size_t(0), raw.size() / 2, raw.size() - part}) {
    const size_t stored = pack(raw.slice(begin, part), sample.bytes(packBound(part)), 1);
    if (stored && stored < part - part / 16)
      return true;
  }
  return false;
}

void BlockWriter::complete(BlockHeader &header, size_t rawBytes, size_t stored) {
  header.codec = static_cast<uint8_t>(stored ? Codec::Lz4 : Codec::None);
  header.rawSize = static_cast<uint32_t>(rawBytes);
  header.storedSize = static_cast<uint32_t>(stored ? stored : rawBytes);
  header.tapeTag = tapeTagOf(tapeId);
  header.sequence = sequence++;
  header.check = checkOf(header);
  end += blockBytes(header);
}

static llvm::Error tooLarge() {
  return failUsage("message-too-large", "a record is larger than a block may be (64 MiB)");
}

llvm::Error BlockWriter::write(BlockHeader header, llvm::ArrayRef<uint8_t> raw) {
  if (raw.size() > maxRawBytes)
    return tooLarge();
  // Byte planes have matches everywhere or nowhere: looking less closely costs them a fifth in size, and wins
  // half of lz4's time, which is the largest part of what a packet costs.
  const int effort = header.type == static_cast<uint16_t>(BlockType::Packets) ? 32 : 1;
  size_t stored = 0;
  if (compress && !raw.empty())
    stored = pack(raw, packed.bytes(packBound(raw.size())), effort);
  complete(header, raw.size(), stored);
  if (!waiting.empty())
    if (llvm::Error error = out.put(waiting))
      return error;
  return out.write(header, stored ? llvm::ArrayRef<uint8_t>(packed.bytes(stored)) : raw);
}

llvm::Error BlockWriter::writeBehind(BlockHeader header, WordBuffer &memory, size_t bytes) {
  // Waking a thread costs more than writing few bytes: it gets many at a time.
  constexpr size_t small = 32u << 10, enough = 128u << 10;
  if (bytes > maxRawBytes)
    return tooLarge();
  const llvm::ArrayRef<uint8_t> raw = memory.bytes(bytes);
  size_t stored = 0;
  if (compress && bytes && worthCompressing(raw))
    stored = pack(raw, waiting.packed.room(packBound(bytes)), 2);
  lastWasNoise = !stored;
  complete(header, bytes, stored);
  if (stored || bytes < small) {
    if (!stored)
      std::copy(raw.begin(), raw.end(), waiting.packed.room(bytes).begin());
    waiting.packed.add(header);
    return waiting.packed.bytes() < enough ? llvm::Error::success() : out.send(waiting);
  }
  // The other thread has its hands full with writing what is not packed, this one with packing.
  waiting.withLarge = true;
  waiting.header = header;
  std::swap(waiting.body, memory);
  waiting.hash = hashBlock(header, waiting.stored());
  return out.send(waiting);
}

llvm::Error BlockWriter::settle() {
  return waiting.empty() ? out.wait() : out.put(waiting);
}

llvm::Error BlockWriter::finish(uint64_t footerOffset, bool sync) {
  if (llvm::Error error = settle())
    return error;
  Tail tail;
  tail.footerOffset = footerOffset;
  tail.fileBytes = end + sizeof(tail);
  tail.check = checkOf(tail, tapeId);
  if (llvm::Error error = out.output().write(bytesOf(tail)))
    return error;
  return out.output().publish(sync);
}

void BlockWriter::discard() {
  waiting.clear();
  llvm::consumeError(out.wait()); // What could not be written is thrown away anyhow.
  out.output().discard();
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
