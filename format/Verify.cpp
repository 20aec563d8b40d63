// The verifier: one pass over the file that makes again everything the tape says about itself, and compares.
#include "format/BlobCache.h"
#include "format/BlockOrder.h"
#include "format/ContentId.h"
#include "format/Failure.h"
#include "format/PacketCodec.h"
#include "format/TapeFile.h"
#include "format/TapeReader.h"

namespace tapeback {

namespace {

constexpr size_t indexPartsKept = 64;
constexpr const char *hint = "Run: tapeback recover TAPE -o OUT";

class Verifier {
public:
  explicit Verifier(TapeFile opened) : tape(std::move(opened)), index(tape.source, indexPartsKept) {}
  llvm::Expected<VerifyReport> run(const TapeProgress &progress);

private:
  llvm::Error checkBlock();
  llvm::Error checkFrame();
  llvm::Error checkContent();
  llvm::Error checkManifest();
  llvm::Error checkTables();
  llvm::Error checkPackets();
  llvm::Error checkPacket(const Packet &packet, const PacketExtra &extra);
  llvm::Error checkWindowEnds();
  llvm::Error closeWindow(bool quiescent);
  llvm::Error checkBlobs();
  llvm::Error finishBlob(const BlobRow &row, llvm::ArrayRef<uint8_t> content);
  llvm::Error checkStoredBefore(BlobId id);
  llvm::Error checkKeyframe();
  llvm::Error checkTrigger();
  llvm::Error checkOutcome();
  llvm::Error checkIndexBlock();
  llvm::Error checkFooter();
  llvm::Error checkSummary();
  llvm::Error fault(const char *code, llvm::StringRef what) const {
    return failTape(code, what.str(), tape.source.where(block), hint);
  }

  TapeFile tape;
  IndexReader index;
  std::vector<PartPlace> allParts; ///< With those of kinds that we do not know.

  ReadBlock block;
  BlockOrder order;
  Digest chain{};
  uint64_t sequence = 0;

  TapeTables tables;
  PacketDecoder decoder;
  PacketBatch batch;
  std::vector<WindowEnd> ends;
  WindowInfo window; ///< The open one.
  TapeSummary found; ///< What the footer should say.
  uint64_t packetBlocks = 0, triggerBytes = 0;
  size_t tablesSeen = 0, triggersSeen = 0, partsSeen = 0, knownPartsSeen = 0;

  BlobRow large; ///< A content in several pieces that is not complete yet, if largeOpen.
  bool largeOpen = false;
  std::vector<uint8_t> largeBytes;
  std::vector<BlobPiece> pieces;

  VerifyReport report;
};

// What every block has to fulfil, whatever its type.
llvm::Error Verifier::checkFrame() {
  const BlockHeader &header = block.header;
  if (header.sequence != sequence++)
    return fault("bad-order",
                 "the block's number is not the next one: blocks are missing, doubled or exchanged");
  const bool endsRoot = header.type == static_cast<uint16_t>(BlockType::Index) ||
                        header.type == static_cast<uint16_t>(BlockType::Footer);
  if (endsRoot && !order.pastRoot())
    found.root = chain;
  chain = chainStep(chain, block.hash);
  if (chain != block.trailer.chain)
    return fault("bad-chain",
                 "the chain of hashes does not hold: this block does not belong after those before it");
  if (!order.allows(header.type))
    return fault("bad-order", "a " + blockTypeName(header.type) + " block may not come here");
  order.advance(header.type);
  if (header.firstPacket != found.packets || header.firstWindow != found.windows)
    return fault("bad-order", "the block does not continue the count of packets and windows");
  if (largeOpen && header.type != static_cast<uint16_t>(BlockType::Blob))
    return fault("bad-order", "the next piece of a content should be here");
  if (header.type != static_cast<uint16_t>(BlockType::Packets) && header.type < blockTypeCount &&
      (header.windowCount != 0 || header.firstTime != 0 || header.lastTime != 0))
    return fault("bad-message", "the block's header has fields that its type does not have");
  return llvm::Error::success();
}

llvm::Error Verifier::checkContent() {
  switch (static_cast<BlockType>(block.header.type)) {
  case BlockType::Manifest: return checkManifest();
  case BlockType::Device: return checkTables();
  case BlockType::Packets: return checkPackets();
  case BlockType::Keyframe: return checkKeyframe();
  case BlockType::Blob: return checkBlobs();
  case BlockType::Trigger: return checkTrigger();
  case BlockType::Oracle: return checkOutcome();
  case BlockType::Index: return checkIndexBlock();
  case BlockType::Footer: return checkFooter();
  }
  ++report.unknownBlocks; // Of a later version: its hash and its place were checked.
  return llvm::Error::success();
}

llvm::Error Verifier::checkManifest() {
  return decodeManifest(block.raw, tape.source.where(block)).takeError();
}

llvm::Error Verifier::checkTables() {
  if (tablesSeen >= tape.footer.tables.size() || tape.footer.tables[tablesSeen] != block.offset)
    return fault("bad-index", "the footer does not list this block");
  ++tablesSeen;
  llvm::Expected<TableRows> rows = decodeTables(block.raw, tape.source.where(block));
  if (!rows)
    return rows.takeError();
  if (const char *what = tables.append(std::move(*rows), block.raw.size()))
    return fault("bad-message", what);
  return llvm::Error::success();
}

llvm::Error Verifier::checkStoredBefore(BlobId id) {
  llvm::Expected<std::optional<BlobRow>> row = index.blob(id);
  if (!row)
    return row.takeError();
  if (!*row || (*row)->offset >= block.offset)
    return fault("bad-reference", "a content is referred to that was not stored before");
  return llvm::Error::success();
}

llvm::Error Verifier::checkPacket(const Packet &packet, const PacketExtra &extra) {
  if (packet.device >= std::max<size_t>(tables.devices.size(), 1) || packet.space >= tables.spaces.size() ||
      packet.clock >= tables.clocks.size())
    return fault("bad-reference", "a packet names a device, space or clock that the tape does not have yet");
  if (packet.kind == PacketKind::Loss)
    found.loss.add(packet);
  if (packet.extra == 0)
    return llvm::Error::success();
  if (linksToPacket(packet.kind) && extra.link != noLink && extra.link >= found.packets)
    return fault("bad-reference", "a packet's link is not to an earlier packet");
  return extra.payload ? checkStoredBefore(extra.payload) : llvm::Error::success();
}

llvm::Error Verifier::closeWindow(bool quiescent) {
  if (window.packetCount == 0)
    return fault("bad-message", "a window without packets ends here");
  window.quiescent = quiescent;
  llvm::Expected<WindowInfo> listed = index.window(found.windows++);
  if (!listed)
    return listed.takeError();
  if (listed->firstPacket != window.firstPacket || listed->packetCount != window.packetCount ||
      listed->firstTime != window.firstTime || listed->lastTime != window.lastTime ||
      listed->quiescent != window.quiescent)
    return fault("bad-index", "window " + std::to_string(found.windows - 1) + " is not as the index has it");
  window = WindowInfo();
  window.firstPacket = found.packets;
  return llvm::Error::success();
}

llvm::Error Verifier::checkPackets() {
  const BlockHeader &header = block.header;
  if (llvm::Error error = decoder.decode(block.raw, header, tape.source.where(block), batch, ends))
    return error;
  if (!batch.packets.empty()) {
    llvm::Expected<PacketBlockRow> row = index.packetBlock(packetBlocks++);
    if (!row)
      return row.takeError();
    if (*row != PacketBlockRow{found.packets, batch.packets.size(), block.offset})
      return fault("bad-index", "the block is not where the index says");
  }
  uint64_t blockFirst = batch.packets.empty() ? 0 : ~uint64_t(0), blockLast = 0;
  size_t nextEnd = 0;
  for (size_t i = 0;; ++i) {
    while (nextEnd < ends.size() && ends[nextEnd].packets == i)
      if (llvm::Error error = closeWindow(ends[nextEnd++].quiescent))
        return error;
    if (i == batch.packets.size())
      break;
    const Packet &packet = batch.packets[i];
    if (llvm::Error error = checkPacket(packet, batch.extra(packet)))
      return error;
    const uint64_t first = packet.issueTime, last = std::max(packet.issueTime, packet.completeTime);
    blockFirst = std::min(blockFirst, first);
    blockLast = std::max(blockLast, last);
    window.firstTime = window.packetCount == 0 ? first : std::min(window.firstTime, first);
    window.lastTime = std::max(window.lastTime, last);
    ++window.packetCount;
    found.firstTime = found.packets == 0 ? first : std::min(found.firstTime, first);
    found.lastTime = std::max(found.lastTime, last);
    ++found.packets;
  }
  if (header.firstTime != blockFirst || header.lastTime != blockLast)
    return fault("bad-message", "the block's range of times is not that of its packets");
  return llvm::Error::success();
}

llvm::Error Verifier::finishBlob(const BlobRow &row, llvm::ArrayRef<uint8_t> content) {
  if (!(contentId(content) == row.id))
    return fault("bad-message", "a content is not the one that its id says");
  llvm::Expected<std::optional<BlobRow>> listed = index.blob(row.id);
  if (!listed)
    return listed.takeError();
  if (!*listed || **listed != row)
    return fault("bad-index", "a content is not where the index says, or stored twice");
  ++found.blobs;
  found.blobBytes += row.bytes;
  return llvm::Error::success();
}

llvm::Error Verifier::checkBlobs() {
  llvm::ArrayRef<uint8_t> bytes;
  if (llvm::Error error = decodeBlobs(block.raw, tape.source.where(block), pieces, bytes))
    return error;
  if (largeOpen &&
      (pieces.size() != 1 || !(pieces[0].id == large.id) || pieces[0].contentBytes != large.bytes ||
       pieces[0].offset != largeBytes.size() || bytes.empty()))
    return fault("bad-message", "the next piece of a content should be here");
  for (size_t i = 0; i < pieces.size(); ++i) {
    const BlobPiece &piece = pieces[i];
    const llvm::ArrayRef<uint8_t> content = bytes.take_front(piece.length);
    bytes = bytes.drop_front(piece.length);
    if (piece.length == piece.contentBytes) {
      if (llvm::Error error =
              finishBlob({piece.id, block.offset, piece.contentBytes, static_cast<uint32_t>(i)}, content))
        return error;
      continue;
    }
    if (!largeOpen) {
      if (piece.offset != 0 || piece.length == 0)
        return fault("bad-message", "the first piece of a content should be here");
      largeOpen = true;
      large = {piece.id, block.offset, piece.contentBytes, 0};
      largeBytes.clear();
    }
    largeBytes.insert(largeBytes.end(), content.begin(), content.end());
    if (largeBytes.size() < large.bytes)
      continue;
    largeOpen = false;
    if (llvm::Error error = finishBlob(large, largeBytes))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Verifier::checkKeyframe() {
  llvm::Expected<Keyframe> keyframe = decodeKeyframe(block.raw, tape.source.where(block));
  if (!keyframe)
    return keyframe.takeError();
  llvm::Expected<KeyframeRow> row = index.keyframe(found.keyframes++);
  if (!row)
    return row.takeError();
  if (*row != KeyframeRow{found.packets, block.offset})
    return fault("bad-index", "the keyframe is not where the index says");
  if (keyframe->packet != found.packets || keyframe->window != found.windows || window.packetCount != 0)
    return fault("bad-message", "the keyframe is not of this place");
  if (keyframe->device >= std::max<size_t>(tables.devices.size(), 1))
    return fault("bad-reference", "the keyframe is of a device that the tape does not have yet");
  for (const KeyframeRegister &entry : keyframe->registers)
    if (entry.space >= tables.spaces.size())
      return fault("bad-reference", "the keyframe names a space that the tape does not have yet");
  for (const std::vector<KeyframeExtent> *extents : {&keyframe->memory, &keyframe->internal})
    for (const KeyframeExtent &extent : *extents)
      if (extent.content)
        if (llvm::Error error = checkStoredBefore(extent.content))
          return error;
  return llvm::Error::success();
}

llvm::Error Verifier::checkTrigger() {
  if (triggersSeen >= tape.footer.triggers.size() || tape.footer.triggers[triggersSeen] != block.offset)
    return fault("bad-index", "the footer does not list this block");
  ++triggersSeen;
  llvm::Expected<TriggerRow> trigger = decodeTrigger(block.raw, tape.source.where(block));
  if (!trigger)
    return trigger.takeError();
  triggerBytes += block.raw.size();
  if (triggerBytes > maxTriggerBytes)
    return fault("bad-message", "the triggers of this tape are larger than they may be");
  if (trigger->packet >= found.packets)
    return fault("bad-reference", "the trigger names a packet that does not come before it");
  return llvm::Error::success();
}

llvm::Error Verifier::checkOutcome() {
  if (tape.footer.outcome != block.offset)
    return fault("bad-index", "the footer says that the outcome is elsewhere");
  if (window.packetCount != 0)
    return fault("bad-message", "the last window has no end");
  llvm::Expected<Outcome> outcome = decodeOutcome(block.raw, tape.source.where(block));
  if (!outcome)
    return outcome.takeError();
  if (outcome->packet && *outcome->packet >= found.packets)
    return fault("bad-reference", "the outcome names a packet that the tape does not have");
  return llvm::Error::success();
}

llvm::Error Verifier::checkIndexBlock() {
  if (partsSeen >= allParts.size() || allParts[partsSeen].offset != block.offset)
    return fault("bad-index", "the footer does not list this part of the index");
  const PartPlace &place = allParts[partsSeen++];
  if (knownPartsSeen < index.parts().size() && index.parts()[knownPartsSeen] == place)
    return index.checkPart(knownPartsSeen++);
  return llvm::Error::success(); // Of a kind that we do not know.
}

llvm::Error Verifier::checkFooter() {
  if (block.offset != tape.footerOffset)
    return fault("bad-order", "the tape's end points at another footer");
  return checkSummary();
}

llvm::Error Verifier::checkSummary() {
  const TapeSummary &said = tape.footer.summary;
  if (said.root != found.root)
    return fault("bad-chain", "the root hash is not that of the blocks");
  if (said.packets != found.packets || said.windows != found.windows || said.blobs != found.blobs ||
      said.blobBytes != found.blobBytes || said.keyframes != found.keyframes ||
      said.firstTime != found.firstTime || said.lastTime != found.lastTime || said.loss != found.loss)
    return fault("bad-index", "the footer's sums are not those of the blocks");
  if (packetBlocks != index.packetBlockCount() || tablesSeen != tape.footer.tables.size() ||
      triggersSeen != tape.footer.triggers.size() || partsSeen != allParts.size())
    return fault("bad-index", "the footer lists blocks that are not there");
  return llvm::Error::success();
}

llvm::Error Verifier::checkBlock() {
  if (llvm::Error error = tape.source.readHeader(block.offset, block.header))
    return error;
  // Content of a later version's type stays as it is stored.
  const bool known = block.header.type != 0 && block.header.type < blockTypeCount;
  if (llvm::Error error = tape.source.read(block.offset, block, known))
    return error;
  if (llvm::Error error = checkFrame())
    return error;
  return checkContent();
}

llvm::Expected<VerifyReport> Verifier::run(const TapeProgress &progress) {
  allParts = tape.footer.parts;
  if (llvm::Error error = index.setParts(tape.footer.parts, tape.footer.summary))
    return error;
  chain = chainStart(tape.header);
  const uint64_t end = tape.source.input().size() - sizeof(Tail);
  block.offset = sizeof(FileHeader);
  while (block.offset < end) {
    if (llvm::Error error = checkBlock())
      return error;
    ++report.blocks;
    block.offset = block.end();
    if (progress)
      progress(block.offset, end);
  }
  if (!order.complete() || block.offset != end)
    return fault("bad-order", "the tape does not end with a footer");
  report.packets = found.packets;
  report.windows = found.windows;
  report.blobs = found.blobs;
  report.root = found.root;
  return report;
}

} // namespace

llvm::Expected<VerifyReport> verifyTape(llvm::StringRef path, const TapeProgress &progress) {
  llvm::Expected<TapeFile> tape = TapeFile::open(path, maxRawBytes, true);
  if (!tape)
    return tape.takeError();
  return Verifier(std::move(*tape)).run(progress);
}

} // namespace tapeback
