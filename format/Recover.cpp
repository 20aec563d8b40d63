// The second half of recovery: the blocks that were found, in order, written as a new tape. What is missing
// between them is counted from their headers and written as Loss, and what referred to it is cut loose.
#include "format/BlockOrder.h"
#include "format/ContentId.h"
#include "format/Failure.h"
#include "format/Index.h"
#include "format/PacketCodec.h"
#include "format/RecoverScan.h"
#include "format/RecoverTail.h"
#include "format/TapeFile.h"
#include "format/TapeReader.h"
#include "format/TapeWriter.h"
#include "llvm/ADT/STLExtras.h"
#include <optional>
#include <sys/stat.h>

namespace tapeback {

namespace {

/// What is most often recovered is OUT.partial, which a killed writer left: it must not be our own temporary
/// file.
std::string partialOf(llvm::StringRef out) {
  return out.str() + ".recover.partial";
}

/// Where packets of the old tape are on the new one.
class Renumbering {
public:
  void kept(uint64_t oldFirst, uint64_t count, uint64_t newFirst) {
    if (!runs.empty() && runs.back().oldFirst + runs.back().count == oldFirst &&
        runs.back().newFirst + runs.back().count == newFirst)
      runs.back().count += count;
    else if (count != 0)
      runs.push_back({oldFirst, count, newFirst});
  }
  std::optional<uint64_t> find(uint64_t old) const {
    const auto after =
        llvm::upper_bound(runs, old, [](uint64_t wanted, const Run &run) { return wanted < run.oldFirst; });
    if (after == runs.begin() || old - std::prev(after)->oldFirst >= std::prev(after)->count)
      return std::nullopt;
    return std::prev(after)->newFirst + (old - std::prev(after)->oldFirst);
  }

private:
  struct Run {
    uint64_t oldFirst, count, newFirst;
  };
  std::vector<Run> runs;
};

class Recovery {
public:
  Recovery(InputFile file, ScanResult scan, RecoverOptions options)
      : options(std::move(options)), scan(std::move(scan)),
        source(std::move(file), this->scan.tapeTag, maxRawBytes, true) {}
  llvm::Expected<RecoverReport> run(llvm::StringRef out, const TapeProgress &progress);

private:
  void note(std::string text) {
    if (report.notes.size() < maxNotes)
      report.notes.push_back(std::move(text));
    else if (report.notes.size() == maxNotes)
      report.notes.push_back("… and more of the same");
  }
  void noteScan();
  llvm::Error createWriter(llvm::StringRef out);
  llvm::Error readEnd(Manifest &manifest);
  llvm::Error handle(const FoundBlock &found);
  llvm::Error handleGap(const BlockHeader &header);
  llvm::Error lose(uint64_t count, LossCause cause, uint64_t time);
  llvm::Error take();
  llvm::Error takeTables();
  llvm::Error addDevice(const DeviceRecord &device);
  llvm::Error addSpace(const std::string &name);
  llvm::Error addClock(const TapeClock &clock);
  llvm::Error fillTables(size_t devices, size_t spaces, size_t clocks);
  llvm::Error takePackets();
  llvm::Error takePacket(Packet packet, PacketExtra extra);
  llvm::Error takeBlobs();
  llvm::Error takeBlob(BlobId id, llvm::ArrayRef<uint8_t> content);
  llvm::Error takeKeyframe();
  llvm::Error takeTrigger();
  llvm::Error takeOutcome();
  void dropOpenBlob();
  void addTail(const RecoverTail::Result &result);
  llvm::Error mendEnd();
  llvm::Error finish();
  /// The content of a block whose hash holds is not what it should be: lost like any other, but the error of
  /// a writer is ours.
  llvm::Error unreadable(llvm::Error error);

  static constexpr size_t maxNotes = 200;

  RecoverOptions options;
  ScanResult scan;
  BlockSource source;
  std::unique_ptr<TapeWriter> writer;
  RecoverReport report;
  ReadBlock block;
  PacketDecoder decoder;
  PacketBatch batch;
  std::vector<WindowEnd> ends;
  std::vector<BlobPiece> pieces;

  uint64_t nextSequence = 0, oldPackets = 0, oldWindows = 0; ///< What the next block should say.
  BlockOrder order;
  size_t devices = 0, spaces = 1, clocks = 1;
  uint64_t tableBytes = 0, triggerBytes = 0;
  Renumbering renumbering;
  uint64_t lastTime = 0;      ///< Of the packet kept last.
  uint64_t lastLoss = noLink; ///< Its ordinal on the new tape.
  Outcome outcome;
  bool outcomeSeen = false, endSeen = false;
  BlobRow large; ///< A content in several pieces, if largeOpen.
  bool largeOpen = false;
  std::vector<uint8_t> largeBytes;
};

void Recovery::noteScan() {
  if (!scan.headerGood)
    note("the tape's header was damaged: its id and time of creation are lost");
  for (const FileDamage &damage : scan.damages)
    note("bytes " + std::to_string(damage.from) + " to " + std::to_string(damage.to) +
         " belong to no whole block");
  if (scan.reordered)
    note("blocks were out of order; their numbers say where they belong");
  if (scan.doubles != 0)
    note(std::to_string(scan.doubles) + " blocks were there twice or had the number of another; dropped");
}

/// Finds what the manifest of the new tape has to say of the old one.
llvm::Error Recovery::readEnd(Manifest &manifest) {
  const FoundBlock &first = scan.blocks.front();
  if (first.header.type == static_cast<uint16_t>(BlockType::Manifest)) {
    if (llvm::Error error = source.read(first.offset, block))
      return error;
    llvm::Expected<Manifest> read = decodeManifest(block.raw, source.where(block));
    if (read)
      manifest = std::move(*read);
    else if (llvm::Error error = unreadable(read.takeError()))
      return error;
  } else {
    note("the manifest was lost: what the tape was recorded on and with is not known any more");
  }
  // Without the end, the chain at the last whole block is the name that the tape would have had if it ended
  // there.
  for (const FoundBlock &found : llvm::reverse(scan.blocks)) {
    if (found.header.type == static_cast<uint16_t>(BlockType::Index) ||
        found.header.type == static_cast<uint16_t>(BlockType::Footer))
      continue;
    if (llvm::Error error = source.read(found.offset, block, false))
      return error;
    manifest.parentRoot = block.trailer.chain;
    break;
  }
  manifest.derivation = manifest.derivation.empty() ? "recover" : "recover of: " + manifest.derivation;
  return llvm::Error::success();
}

llvm::Error Recovery::createWriter(llvm::StringRef out) {
  Manifest manifest;
  if (llvm::Error error = readEnd(manifest))
    return error;
  if (options.tail)
    options.tail->tookManifest(manifest);
  WriterOptions writing;
  writing.maxWindowPackets = ~uint64_t(0); // Windows are as they were.
  writing.partialPath = partialOf(out);
  writing.syncOnFinish = options.syncOnFinish;
  // A recovery that was killed is made again.
  if (llvm::Error error = OutputFile::removeAbandoned(writing.partialPath))
    return error;
  llvm::Expected<std::unique_ptr<TapeWriter>> created = TapeWriter::create(out, manifest, writing);
  if (!created)
    return created.takeError();
  writer = std::move(*created);
  return llvm::Error::success();
}

llvm::Error Recovery::unreadable(llvm::Error error) {
  Failure failure = toFailure(std::move(error));
  if (failure.cls == FailureClass::System || failure.code == "file-shrank")
    return llvm::make_error<Failure>(std::move(failure));
  ++report.blocksLost;
  note(failure.where + ": " + failure.message);
  return llvm::Error::success();
}

llvm::Error Recovery::lose(uint64_t count, LossCause cause, uint64_t time) {
  if (llvm::Error error = writer->endWindow(false))
    return error;
  Packet loss;
  loss.kind = PacketKind::Loss;
  loss.origin = Origin::Recorder;
  loss.value = count;
  loss.address = static_cast<uint64_t>(cause);
  loss.issueTime = loss.completeTime = time;
  lastLoss = writer->packetCount();
  if (llvm::Error error = writer->append(loss))
    return error;
  return writer->endWindow(false);
}

/// Counts and marks what is missing before this block.
llvm::Error Recovery::handleGap(const BlockHeader &header) {
  const bool dataBefore = order.lastType() != static_cast<uint16_t>(BlockType::Oracle) && !order.pastRoot();
  if (header.sequence > nextSequence) {
    if (largeOpen)
      dropOpenBlob();
    if (dataBefore)
      report.blocksLost +=
          header.sequence - nextSequence; // Otherwise parts of the index, which is made again.
  }
  nextSequence = header.sequence + 1;
  const uint64_t lostWindows = header.firstWindow > oldWindows ? header.firstWindow - oldWindows : 0;
  report.windowsLost += lostWindows;
  oldWindows += lostWindows;
  if (header.firstPacket <= oldPackets) // No packets, but perhaps the end of a window.
    return lostWindows != 0 ? writer->endWindow(false) : llvm::Error::success();
  const uint64_t lost = header.firstPacket - oldPackets;
  report.packetsLost += lost;
  note("packets " + std::to_string(oldPackets) + " to " + std::to_string(header.firstPacket - 1) +
       " are lost; one Loss packet, number " + std::to_string(writer->packetCount()) +
       ", stands for them, and those after it have new numbers");
  oldPackets = header.firstPacket;
  // It happened after the last packet that is there; if there is none, before the first.
  return lose(lost, LossCause::Damage, report.packetsKept != 0 ? lastTime : header.firstTime);
}

llvm::Error Recovery::addDevice(const DeviceRecord &device) {
  if (options.tail)
    options.tail->tookDevice(device);
  return writer->addDevice(device).takeError();
}
llvm::Error Recovery::addSpace(const std::string &name) {
  if (options.tail)
    options.tail->tookSpace(name);
  return writer->addSpace(name).takeError();
}
llvm::Error Recovery::addClock(const TapeClock &clock) {
  if (options.tail)
    options.tail->tookClock(clock);
  return writer->addClock(clock).takeError();
}

llvm::Error Recovery::fillTables(size_t wantedDevices, size_t wantedSpaces, size_t wantedClocks) {
  if (wantedDevices > devices || wantedSpaces > spaces || wantedClocks > clocks)
    note(
        "a table of devices, spaces or clocks was lost: their names and descriptions are not known any more");
  while (devices < wantedDevices) {
    DeviceRecord device;
    device.alias = "lost-" + std::to_string(devices++);
    if (llvm::Error error = addDevice(device))
      return error;
  }
  while (spaces < wantedSpaces)
    if (llvm::Error error = addSpace("lost-" + std::to_string(spaces++)))
      return error;
  while (clocks < wantedClocks)
    if (llvm::Error error = addClock({"lost-" + std::to_string(clocks++), 1'000'000'000}))
      return error;
  return llvm::Error::success();
}

llvm::Error Recovery::takeTables() {
  llvm::Expected<TableRows> rows = decodeTables(block.raw, source.where(block));
  if (!rows)
    return unreadable(rows.takeError());
  // Rows made up for lost ones have to fit too.
  tableBytes += block.raw.size();
  if (tableBytes > maxTableBytes / 2)
    return unreadable(badMessage("the tables of this tape are larger than they may be", source.where(block)));
  if (llvm::Error error = fillTables(rows->firstDevice, rows->firstSpace, rows->firstClock))
    return error;
  // Rows below what is there already could only come from a forged block: the names stay.
  for (size_t i = devices - rows->firstDevice; i < rows->devices.size(); ++i, ++devices)
    if (llvm::Error error = addDevice(rows->devices[i]))
      return error;
  for (size_t i = spaces - rows->firstSpace; i < rows->spaces.size(); ++i, ++spaces)
    if (llvm::Error error = addSpace(rows->spaces[i]))
      return error;
  for (size_t i = clocks - rows->firstClock; i < rows->clocks.size(); ++i, ++clocks)
    if (llvm::Error error = addClock(rows->clocks[i]))
      return error;
  return llvm::Error::success();
}

llvm::Error Recovery::takePacket(Packet packet, PacketExtra extra) {
  if (packet.extra == 0) {
    if (options.tail)
      options.tail->took(packet, extra);
    return writer->append(packet);
  }
  if (extra.payload && !writer->hasBlob(extra.payload)) {
    extra.payload = BlobId();
    packet.flags |= NotCaptured;
    ++report.payloadsLost;
  }
  if (linksToPacket(packet.kind) && extra.link != noLink)
    extra.link = renumbering.find(extra.link).value_or(noLink);
  if (options.tail)
    options.tail->took(packet, extra);
  return writer->append(packet, extra);
}

llvm::Error Recovery::takePackets() {
  const BlockHeader &header = block.header;
  if (header.firstPacket != oldPackets || header.firstWindow != oldWindows) {
    ++report.blocksLost;
    note(source.where(block) + ": the packets of this block were there already");
    return llvm::Error::success();
  }
  if (llvm::Error error = decoder.decode(block.raw, header, source.where(block), batch, ends))
    return unreadable(std::move(error));
  size_t wantedDevices = devices, wantedSpaces = spaces, wantedClocks = clocks;
  for (const Packet &packet : batch.packets) {
    if (packet.device != 0 || devices != 0) // Device 0 may be spoken of before any was opened.
      wantedDevices = std::max<size_t>(wantedDevices, packet.device + 1);
    wantedSpaces = std::max<size_t>(wantedSpaces, packet.space + 1);
    wantedClocks = std::max<size_t>(wantedClocks, packet.clock + 1);
  }
  if (llvm::Error error = fillTables(wantedDevices, wantedSpaces, wantedClocks))
    return error;
  size_t nextEnd = 0;
  for (size_t i = 0;; ++i) {
    for (; nextEnd < ends.size() && ends[nextEnd].packets == i; ++nextEnd)
      if (llvm::Error error = writer->endWindow(ends[nextEnd].quiescent))
        return error;
    if (i == batch.packets.size())
      break;
    renumbering.kept(oldPackets++, 1, writer->packetCount());
    if (llvm::Error error = takePacket(batch.packets[i], batch.extra(batch.packets[i])))
      return error;
    ++report.packetsKept;
    lastTime = batch.packets[i].issueTime;
  }
  oldWindows += ends.size();
  return llvm::Error::success();
}

void Recovery::dropOpenBlob() {
  note("a content of " + std::to_string(large.bytes) + " bytes is lost: not all of its pieces are there");
  largeOpen = false;
}

llvm::Error Recovery::takeBlob(BlobId id, llvm::ArrayRef<uint8_t> content) {
  if (contentId(content) == id)
    return writer->blob(content).takeError();
  note(source.where(block) + ": a content is not the one that its id says; dropped");
  return llvm::Error::success();
}

llvm::Error Recovery::takeBlobs() {
  llvm::ArrayRef<uint8_t> bytes;
  if (llvm::Error error = decodeBlobs(block.raw, source.where(block), pieces, bytes))
    return unreadable(std::move(error));
  for (const BlobPiece &piece : pieces) {
    const llvm::ArrayRef<uint8_t> content = bytes.take_front(piece.length);
    bytes = bytes.drop_front(piece.length);
    if (largeOpen && (!(piece.id == large.id) || piece.offset != largeBytes.size() || piece.length == 0))
      dropOpenBlob();
    if (piece.length == piece.contentBytes) {
      if (llvm::Error error = takeBlob(piece.id, content))
        return error;
      continue;
    }
    if (!largeOpen && piece.offset == 0) {
      large = {piece.id, block.offset, piece.contentBytes, 0};
      largeBytes.clear();
      largeOpen = true;
    }
    if (!largeOpen)
      continue; // Its beginning is lost.
    largeBytes.insert(largeBytes.end(), content.begin(), content.end());
    if (largeBytes.size() < large.bytes)
      continue;
    largeOpen = false;
    if (llvm::Error error = takeBlob(large.id, largeBytes))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Recovery::takeKeyframe() {
  llvm::Expected<Keyframe> keyframe = decodeKeyframe(block.raw, source.where(block));
  if (!keyframe)
    return unreadable(keyframe.takeError());
  const size_t before = keyframe->memory.size() + keyframe->internal.size();
  auto lost = [&](const KeyframeExtent &extent) {
    return extent.content && !writer->hasBlob(extent.content);
  };
  llvm::erase_if(keyframe->memory, lost);
  llvm::erase_if(keyframe->internal, lost);
  if (keyframe->memory.size() + keyframe->internal.size() != before) {
    keyframe->restorable = false;
    keyframe->reason = "contents of this keyframe were lost before the tape was recovered";
    note(source.where(block) + ": the keyframe lost some of its contents and is not restorable any more");
  }
  size_t wantedSpaces = spaces;
  for (const KeyframeRegister &entry : keyframe->registers)
    wantedSpaces = std::max<size_t>(wantedSpaces, entry.space + 1);
  const size_t wantedDevices = keyframe->device != 0 || devices != 0 ? keyframe->device + 1u : 0;
  if (llvm::Error error = fillTables(wantedDevices, wantedSpaces, clocks))
    return error;
  return writer->keyframe(std::move(*keyframe));
}

llvm::Error Recovery::takeTrigger() {
  llvm::Expected<TriggerRow> trigger = decodeTrigger(block.raw, source.where(block));
  if (!trigger)
    return unreadable(trigger.takeError());
  triggerBytes += block.raw.size();
  if (triggerBytes > maxTriggerBytes)
    return unreadable(
        badMessage("the triggers of this tape are larger than they may be", source.where(block)));
  const std::optional<uint64_t> packet = renumbering.find(trigger->packet);
  if (!packet && lastLoss == noLink) {
    note(source.where(block) + ": the trigger's packet is lost");
    return llvm::Error::success();
  }
  if (!packet)
    note(source.where(block) + ": the trigger's packet is lost; it points at the Loss packet now");
  return writer->trigger(packet.value_or(lastLoss), trigger->text);
}

llvm::Error Recovery::takeOutcome() {
  llvm::Expected<Outcome> read = decodeOutcome(block.raw, source.where(block));
  if (!read)
    return unreadable(read.takeError());
  outcome = std::move(*read);
  outcomeSeen = true;
  if (!outcome.packet)
    return llvm::Error::success();
  outcome.packet = renumbering.find(*outcome.packet);
  if (!outcome.packet)
    note("the packet at which the run failed is lost");
  return llvm::Error::success();
}

llvm::Error Recovery::take() {
  if (block.header.type >= blockTypeCount)
    return writer->foreignBlock(block.header.type, block.raw);
  switch (static_cast<BlockType>(block.header.type)) {
  case BlockType::Manifest: return llvm::Error::success(); // Was read before the writer could be made.
  case BlockType::Device: return takeTables();
  case BlockType::Packets: return takePackets();
  case BlockType::Keyframe: return takeKeyframe();
  case BlockType::Blob: return takeBlobs();
  case BlockType::Trigger: return takeTrigger();
  case BlockType::Oracle: return takeOutcome();
  case BlockType::Index:
  case BlockType::Footer: endSeen = true; return llvm::Error::success(); // Made again.
  }
  return llvm::Error::success();
}

llvm::Error Recovery::handle(const FoundBlock &found) {
  if (llvm::Error error = handleGap(found.header))
    return error;
  if (llvm::Error error = source.read(found.offset, block))
    return unreadable(std::move(error)); // It does not decompress, or the file changed under us.
  order.advance(block.header.type);
  ++report.blocksGood;
  return take();
}

llvm::Error Recovery::finish() {
  if (largeOpen)
    dropOpenBlob();
  if (!outcomeSeen && !endSeen) {
    if (llvm::Error error = mendEnd())
      return error;
  }
  if (!outcomeSeen) {
    note("how the run ended is not known");
    outcome.text = "unknown: the end of the tape was lost";
  }
  if (report.payloadsLost != 0)
    note(std::to_string(report.payloadsLost) + " packets lost their content and are marked as not captured");
  llvm::Expected<TapeSummary> summary = writer->finish(outcome);
  if (!summary)
    return summary.takeError();
  report.windowsKept = summary->windows;
  report.indexRebuilt = true;
  return llvm::Error::success();
}

void Recovery::addTail(const RecoverTail::Result &result) {
  report.packetsAdded += result.packets;
  if (result.lost == unknownCount)
    report.unknownLoss = true;
  else
    report.packetsLost += result.lost;
  for (const std::string &text : result.notes)
    note(text);
}

/// The end is missing: who knows more of it than the file?
llvm::Error Recovery::mendEnd() {
  // A block that was being written when the end came is not damage: it was not on the tape yet.
  const bool onlyTheEnd = scan.damages.empty() || (scan.damages.size() == 1 && !scan.reordered &&
                                                   scan.damages[0].to == source.input().size());
  bool whole = false;
  if (options.tail) {
    llvm::Expected<RecoverTail::Result> result = options.tail->append(*writer);
    if (!result)
      return result.takeError();
    addTail(*result);
    whole = result->whole && onlyTheEnd;
  }
  if (!whole) {
    // Whatever the writer still held is gone, and nobody counted it.
    report.unknownLoss = true;
    note("the tape had no end: what was not yet written when its writer stopped is lost");
    if (llvm::Error error =
            lose(unknownCount, onlyTheEnd ? LossCause::CollectorGone : LossCause::Damage, lastTime))
      return error;
  }
  if (!options.tail)
    return llvm::Error::success();
  llvm::Expected<RecoverTail::Result> pending = options.tail->appendPending(*writer);
  if (!pending)
    return pending.takeError();
  addTail(*pending);
  return llvm::Error::success();
}

llvm::Expected<RecoverReport> Recovery::run(llvm::StringRef out, const TapeProgress &progress) {
  noteScan();
  if (llvm::Error error = createWriter(out))
    return error;
  llvm::Error error = llvm::Error::success();
  for (const FoundBlock &found : scan.blocks) {
    if (progress)
      progress(found.offset, source.input().size());
    error = handle(found);
    if (error)
      break;
  }
  if (!error)
    error = finish();
  if (!error)
    return std::move(report);
  writer->discard();
  return error;
}

/// The input was whole: a copy of it.
llvm::Expected<RecoverReport> copyTape(const InputFile &in, const VerifyReport &verified, llvm::StringRef out,
                                       bool sync, const TapeProgress &progress) {
  if (llvm::Error error = OutputFile::removeAbandoned(partialOf(out)))
    return error;
  llvm::Expected<OutputFile> file = OutputFile::create(out, partialOf(out));
  if (!file)
    return file.takeError();
  std::vector<uint8_t> buffer(1u << 20);
  llvm::Error error = llvm::Error::success();
  for (uint64_t offset = 0; offset < in.size() && !error;) {
    const llvm::MutableArrayRef<uint8_t> chunk(buffer.data(),
                                               std::min<uint64_t>(buffer.size(), in.size() - offset));
    error = in.read(offset, chunk);
    if (!error)
      error = file->write(chunk);
    offset += chunk.size();
    if (progress)
      progress(offset, in.size());
  }
  if (!error)
    error = file->publish(sync);
  if (error) {
    file->discard();
    return error;
  }
  RecoverReport report;
  report.wasComplete = true;
  report.blocksGood = verified.blocks;
  report.packetsKept = verified.packets;
  report.windowsKept = verified.windows;
  return report;
}

bool isSameFile(llvm::StringRef a, llvm::StringRef b) {
  struct stat first, second;
  return ::stat(a.str().c_str(), &first) == 0 && ::stat(b.str().c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

} // namespace

llvm::Expected<RecoverReport> recoverTape(llvm::StringRef in, llvm::StringRef out, RecoverOptions options) {
  if (isSameFile(in, out))
    return failUsage("same-file", "input and output are the same file", out.str(),
                     "Recover into another file, and keep the damaged one.");
  llvm::Expected<InputFile> file = InputFile::open(in);
  if (!file)
    return file.takeError();
  // Three readings: one that looks whether anything is wrong, one for whole blocks, one of those.
  auto reading = [&](unsigned n) -> TapeProgress {
    if (!options.progress)
      return {};
    return [&options, n](uint64_t done, uint64_t total) { options.progress(n * total + done, 3 * total); };
  };
  llvm::Expected<VerifyReport> verified = verifyTape(in, reading(0));
  if (verified)
    return copyTape(*file, *verified, out, options.syncOnFinish, reading(2));
  // Not whole, then. What is wrong will be said in the report, place by place.
  llvm::consumeError(verified.takeError());
  llvm::Expected<ScanResult> scan = scanForBlocks(*file, reading(1));
  if (!scan)
    return scan.takeError();
  return Recovery(std::move(*file), std::move(*scan), options).run(out, reading(2));
}

} // namespace tapeback
