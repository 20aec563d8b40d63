// The reader: what TapeFile opened, plus the tables, a decoded block of packets, and contents as they are
// asked for.
#include "format/TapeReader.h"

#include "format/BlobCache.h"
#include "format/Failure.h"
#include "format/PacketCodec.h"
#include "format/TapeFile.h"

namespace tapeback {

namespace {

class Reader final : public TapeReader {
public:
  Reader(TapeFile opened, const ReaderOptions &options)
      : tape(std::move(opened)), index(tape.source, indexPartsKept),
        blobs(tape.source, index, options.blobCacheBytes, options.verifyHashes),
        maxReadPackets(options.maxReadPackets) {}

  llvm::Error start();

  const Manifest &manifest() const override { return theManifest; }
  llvm::ArrayRef<DeviceRecord> devices() const override { return tables.devices; }
  llvm::ArrayRef<std::string> spaces() const override { return tables.spaces; }
  llvm::ArrayRef<TapeClock> clocks() const override { return tables.clocks; }
  const TapeSummary &summary() const override { return tape.footer.summary; }
  const Outcome &outcome() const override { return theOutcome; }
  uint16_t formatVersion() const override { return tape.header.formatVersion; }
  std::array<uint8_t, 16> tapeId() const override { return tape.header.tapeId; }
  uint64_t createdNs() const override { return tape.header.createdNs; }
  uint64_t fileBytes() const override { return tape.source.input().size(); }

  llvm::Expected<WindowInfo> window(uint64_t n) override;
  llvm::Expected<uint64_t> windowOfPacket(uint64_t packet) override;
  llvm::Error readPackets(uint64_t first, uint64_t count, PacketBatch &batch) override;
  llvm::Error readWindow(uint64_t n, PacketBatch &batch) override;
  llvm::Error readBlockFrom(uint64_t first, PacketBatch &batch) override;
  llvm::Expected<uint64_t> blockEnd(uint64_t packet) override;
  llvm::Expected<llvm::ArrayRef<uint8_t>> blob(BlobId id) override { return blobs.get(id); }
  uint64_t keyframeCount() const override { return summary().keyframes; }
  llvm::Expected<Keyframe> keyframe(uint64_t n) override;
  llvm::Expected<std::vector<TriggerRecord>> triggers() override;

private:
  static constexpr size_t indexPartsKept = 16;

  llvm::Error readManifest();
  llvm::Error readTables();
  llvm::Error readOutcome();
  llvm::Error decodeBlock(const PacketBlockRow &row, PacketBatch &batch);
  llvm::Error checkReferences(const PacketBatch &batch, const std::string &where) const;
  llvm::Error cacheBlockOf(uint64_t packet);
  /// The packets are known to be there.
  llvm::Error collect(uint64_t first, uint64_t count, PacketBatch &batch);
  static void appendSlice(const PacketBatch &from, size_t first, size_t count, PacketBatch &to);

  TapeFile tape;
  IndexReader index;
  BlobCache blobs;
  uint64_t maxReadPackets;
  Manifest theManifest;
  TapeTables tables;
  Outcome theOutcome;
  PacketDecoder decoder;
  ReadBlock block;
  std::vector<WindowEnd> ends;
  PacketBatch cached; ///< The block of packets used last; empty if none.
};

llvm::Error Reader::readManifest() {
  if (llvm::Error error = tape.source.read(sizeof(FileHeader), block, BlockType::Manifest))
    return error;
  llvm::Expected<Manifest> manifest = decodeManifest(block.raw, tape.source.where(block));
  if (!manifest)
    return manifest.takeError();
  theManifest = std::move(*manifest);
  return llvm::Error::success();
}

llvm::Error Reader::readTables() {
  for (uint64_t offset : tape.footer.tables) {
    if (llvm::Error error = tape.source.read(offset, block, BlockType::Device))
      return error;
    llvm::Expected<TableRows> rows = decodeTables(block.raw, tape.source.where(block));
    if (!rows)
      return rows.takeError();
    if (const char *fault = tables.append(std::move(*rows), block.raw.size()))
      return badMessage(fault, tape.source.where(block));
  }
  return llvm::Error::success();
}

llvm::Error Reader::readOutcome() {
  if (llvm::Error error = tape.source.read(tape.footer.outcome, block, BlockType::Oracle))
    return error;
  llvm::Expected<Outcome> outcome = decodeOutcome(block.raw, tape.source.where(block));
  if (!outcome)
    return outcome.takeError();
  theOutcome = std::move(*outcome);
  return llvm::Error::success();
}

llvm::Error Reader::start() {
  if (llvm::Error error = index.setParts(std::move(tape.footer.parts), summary()))
    return error;
  if (llvm::Error error = readManifest())
    return error;
  if (llvm::Error error = readTables())
    return error;
  return readOutcome();
}

static llvm::Error outOfRange(const char *what, uint64_t n, uint64_t count) {
  return failUsage("out-of-range", std::string("there is no ") + what + " " + std::to_string(n) +
                                       ": the tape has " + std::to_string(count));
}

llvm::Expected<WindowInfo> Reader::window(uint64_t n) {
  if (n >= summary().windows)
    return outOfRange("window", n, summary().windows);
  llvm::Expected<WindowInfo> info = index.window(n);
  if (!info)
    return info.takeError();
  // Callers add the two and expect packets to be there.
  if (info->firstPacket > summary().packets || info->packetCount > summary().packets - info->firstPacket)
    return failTape("bad-index", "window " + std::to_string(n) + " has packets beyond the tape's last",
                    tape.source.input().path(), "Run: tapeback recover TAPE -o OUT");
  return info;
}

llvm::Expected<uint64_t> Reader::windowOfPacket(uint64_t packet) {
  if (packet >= summary().packets)
    return outOfRange("packet", packet, summary().packets);
  return index.windowOfPacket(packet);
}

// Callers index the tables with these.
llvm::Error Reader::checkReferences(const PacketBatch &batch, const std::string &where) const {
  uint16_t device = 0, space = 0;
  uint8_t clock = 0;
  for (const Packet &packet : batch.packets) {
    device = std::max(device, packet.device);
    space = std::max(space, packet.space);
    clock = std::max(clock, packet.clock);
  }
  if (device >= std::max<size_t>(tables.devices.size(), 1) || space >= tables.spaces.size() ||
      clock >= tables.clocks.size())
    return failTape("bad-reference", "a packet names a device, space or clock that the tape does not have",
                    where, "Run: tapeback recover TAPE -o OUT");
  return llvm::Error::success();
}

llvm::Error Reader::decodeBlock(const PacketBlockRow &row, PacketBatch &batch) {
  if (llvm::Error error = tape.source.read(row.offset, block, BlockType::Packets))
    return error;
  if (block.header.firstPacket != row.firstPacket || block.header.itemCount != row.packetCount ||
      row.packetCount == 0)
    return failTape("bad-index", "the block's packets are not those that the index says",
                    tape.source.where(block), "Run: tapeback recover TAPE -o OUT");
  if (llvm::Error error = decoder.decode(block.raw, block.header, tape.source.where(block), batch, ends))
    return error;
  return checkReferences(batch, tape.source.where(block));
}

llvm::Error Reader::cacheBlockOf(uint64_t packet) {
  if (!cached.packets.empty() && packet >= cached.firstOrdinal &&
      packet - cached.firstOrdinal < cached.packets.size())
    return llvm::Error::success();
  llvm::Expected<PacketBlockRow> row = index.blockOfPacket(packet);
  if (!row)
    return row.takeError();
  if (llvm::Error error = decodeBlock(*row, cached)) {
    cached.clear();
    return error;
  }
  return llvm::Error::success();
}

void Reader::appendSlice(const PacketBatch &from, size_t first, size_t count, PacketBatch &to) {
  to.packets.reserve(to.packets.size() + count);
  for (size_t i = first; i < first + count; ++i) {
    Packet packet = from.packets[i];
    if (packet.extra != 0) {
      to.extras.push_back(from.extras[packet.extra - 1]);
      packet.extra = static_cast<uint32_t>(to.extras.size());
    }
    to.packets.push_back(packet);
  }
}

llvm::Error Reader::readPackets(uint64_t first, uint64_t count, PacketBatch &batch) {
  batch.clear();
  batch.firstOrdinal = first;
  if (first > summary().packets || count > summary().packets - first)
    return outOfRange("packet", first > summary().packets ? first : first + count - 1, summary().packets);
  if (count > maxReadPackets)
    return failUsage("range-too-large",
                     "a range of " + std::to_string(count) + " packets is more than is read at once",
                     "packet " + std::to_string(first), "Read it in parts.");
  return collect(first, count, batch);
}

llvm::Error Reader::collect(uint64_t first, uint64_t count, PacketBatch &batch) {
  batch.clear();
  batch.firstOrdinal = first;
  for (uint64_t next = first; next < first + count;) {
    if (llvm::Error error = cacheBlockOf(next)) {
      batch.clear();
      return error;
    }
    const size_t skip = next - cached.firstOrdinal;
    const size_t take = std::min<uint64_t>(cached.packets.size() - skip, first + count - next);
    appendSlice(cached, skip, take, batch);
    next += take;
  }
  return llvm::Error::success();
}

llvm::Error Reader::readWindow(uint64_t n, PacketBatch &batch) {
  batch.clear();
  llvm::Expected<WindowInfo> info = window(n);
  if (!info)
    return info.takeError();
  return readPackets(info->firstPacket, info->packetCount, batch);
}

llvm::Error Reader::readBlockFrom(uint64_t first, PacketBatch &batch) {
  if (first >= summary().packets) {
    batch.clear();
    batch.firstOrdinal = first;
    return llvm::Error::success();
  }
  llvm::Expected<PacketBlockRow> row = index.blockOfPacket(first);
  if (!row)
    return row.takeError();
  if (row->firstPacket ==
      first) { // The common case of a sequential reader: straight into the caller's memory.
    llvm::Error error = decodeBlock(*row, batch);
    if (error)
      batch.clear();
    return error;
  }
  return collect(first, row->packetCount - (first - row->firstPacket), batch);
}

llvm::Expected<uint64_t> Reader::blockEnd(uint64_t packet) {
  if (packet >= summary().packets)
    return outOfRange("packet", packet, summary().packets);
  llvm::Expected<PacketBlockRow> row = index.blockOfPacket(packet);
  if (!row)
    return row.takeError();
  // The index is no more to be trusted than the block: callers go on from there, and must come to an end.
  uint64_t most = summary().packets - packet, ahead = packet - row->firstPacket;
  return packet + std::clamp<uint64_t>(row->packetCount > ahead ? row->packetCount - ahead : 1, 1, most);
}

llvm::Expected<Keyframe> Reader::keyframe(uint64_t n) {
  if (n >= summary().keyframes)
    return outOfRange("keyframe", n, summary().keyframes);
  llvm::Expected<KeyframeRow> row = index.keyframe(n);
  if (!row)
    return row.takeError();
  if (llvm::Error error = tape.source.read(row->offset, block, BlockType::Keyframe))
    return error;
  return decodeKeyframe(block.raw, tape.source.where(block));
}

llvm::Expected<std::vector<TapeReader::TriggerRecord>> Reader::triggers() {
  std::vector<TriggerRecord> result;
  uint64_t bytes = 0;
  for (uint64_t offset : tape.footer.triggers) {
    if (llvm::Error error = tape.source.read(offset, block, BlockType::Trigger))
      return error;
    bytes += block.raw.size();
    if (bytes > maxTriggerBytes)
      return badMessage("the triggers of this tape are larger than they may be", tape.source.where(block));
    llvm::Expected<TriggerRow> row = decodeTrigger(block.raw, tape.source.where(block));
    if (!row)
      return row.takeError();
    if (row->packet >= summary().packets)
      return failTape("bad-reference", "a trigger names a packet that the tape does not have",
                      tape.source.where(block), "Run: tapeback recover TAPE -o OUT");
    result.push_back({row->packet, std::move(row->text)});
  }
  return result;
}

} // namespace

llvm::Expected<std::unique_ptr<TapeReader>> TapeReader::open(llvm::StringRef path, ReaderOptions options) {
  llvm::Expected<TapeFile> tape = TapeFile::open(path, options.maxBlockRawBytes, options.verifyHashes);
  if (!tape)
    return tape.takeError();
  auto reader = std::make_unique<Reader>(std::move(*tape), options);
  if (llvm::Error error = reader->start())
    return error;
  return reader;
}

} // namespace tapeback
