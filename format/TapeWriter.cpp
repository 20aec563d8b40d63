// The writer: buffers a block of packets and a block of contents, closes them in an order that a reader can
// rely on (tables, then contents, then the packets that refer to them), and collects the index.
#include "format/TapeWriter.h"

#include "format/BlobBlock.h"
#include "format/Block.h"
#include "format/ContentId.h"
#include "format/Failure.h"
#include "format/Index.h"
#include "format/PacketCodec.h"
#include "format/RecordCodec.h"
#include "llvm/Support/RandomNumberGenerator.h"
#include <chrono>
#include <optional>

namespace tapeback {

namespace {

// Contents up to the first share blocks, which are closed when they are as large as the block writer likes
// them; larger ones are cut into pieces of the second.
constexpr size_t blobBlockBytes = 256u << 10;
constexpr size_t blobPieceBytes = 512u << 10;

/// Which contents are on the tape already: a hash table of row numbers, 12 to 24 bytes a content. A slot has
/// a part of its content's id beside the number, which is also where it belongs: to look up, and to grow,
/// takes no look at the rows, which are in no cache once there are many.
class KnownBlobs {
public:
  explicit KnownBlobs(const std::vector<BlobRow> &rows) : rows(rows), slots(1024) {}
  bool contains(BlobId id) const { return slots[find(id)].row != 0; }
  /// After `rows` got a new last row.
  void addLast() {
    const BlobId id = rows.back().id;
    slots[find(id)] = {printOf(id), static_cast<uint32_t>(rows.size())};
    if (rows.size() * 3 > slots.size() * 2)
      grow();
  }

private:
  struct Slot {
    uint32_t print = 0;
    uint32_t row = 0; ///< From 1; 0: free.
  };
  static uint32_t printOf(BlobId id) { return static_cast<uint32_t>(id.lo); }
  size_t find(BlobId id) const {
    const uint32_t print = printOf(id);
    size_t slot = print & (slots.size() - 1);
    while (slots[slot].row != 0 && !(slots[slot].print == print && rows[slots[slot].row - 1].id == id))
      slot = (slot + 1) & (slots.size() - 1);
    return slot;
  }
  void grow() {
    std::vector<Slot> larger(slots.size() * 2);
    const size_t mask = larger.size() - 1;
    for (const Slot &slot : slots)
      if (slot.row) {
        size_t to = slot.print & mask;
        while (larger[to].row)
          to = (to + 1) & mask;
        larger[to] = slot;
      }
    slots = std::move(larger);
  }

  const std::vector<BlobRow> &rows;
  std::vector<Slot> slots;
};

/// Earliest issue and latest issue or completion of some packets.
struct TimeRange {
  uint64_t first = ~uint64_t(0), last = 0;
  void add(const Packet &packet) {
    first = std::min(first, packet.issueTime);
    last = std::max(last, std::max(packet.issueTime, packet.completeTime));
  }
  void add(const TimeRange &other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
  uint64_t firstOrZero() const { return std::min(first, last); } ///< 0 if there are no packets.
};

/// Packets that are copied and then checked while they are in the nearest cache.
constexpr size_t runPackets = 256;

/// What the check of a run of packets needs to know of them, and their times.
struct RunFacts {
  TimeRange times;
  uint32_t device = 0, space = 0, clock = 0; ///< The OR of all: below a power of two with all of them.
  bool loss = false;
};

class Writer final : public TapeWriter {
public:
  Writer(OutputFile file, const WriterOptions &options)
      : options(options), blocks(std::move(file), options.compress), known(index.blobs) {}

  llvm::Error start(const Manifest &manifest);
  llvm::Expected<uint16_t> addDevice(const DeviceRecord &device) override;
  llvm::Expected<uint16_t> addSpace(llvm::StringRef name) override;
  llvm::Expected<uint8_t> addClock(const TapeClock &clock) override;
  llvm::Expected<BlobId> blob(llvm::ArrayRef<uint8_t> content) override;
  bool hasBlob(BlobId id) const override { return known.contains(id); }
  llvm::Error append(const Packet &packet, const PacketExtra &extra) override;
  llvm::Error append(const Packet &packet) override;
  llvm::Error append(llvm::ArrayRef<Packet> packets) override;
  llvm::Error endWindow(bool quiescent) override;
  llvm::Error keyframe(Keyframe keyframe) override;
  llvm::Error trigger(uint64_t packet, llvm::StringRef text) override;
  llvm::Error foreignBlock(uint16_t type, llvm::ArrayRef<uint8_t> raw) override;
  llvm::Error flush() override;
  llvm::Expected<TapeSummary> finish(const Outcome &outcome) override;
  void discard() override {
    closed = stopped = true;
    blocks.discard();
  }
  uint64_t packetCount() const override { return packets; }
  uint64_t packetsInFile() const override { return open.firstOrdinal; }
  uint64_t windowCount() const override { return windows; }
  uint64_t bytesWritten() const override { return blocks.offset(); }

private:
  llvm::Error check() const;
  /// Keeps the error, so that every later call returns it.
  llvm::Error stick(llvm::Error error);
  llvm::Error refuse(const char *code, std::string message);
  bool canAppend(const Packet &packet) const {
    return !stopped && packet.device < deviceLimit && packet.space < spaces && packet.clock < clocks;
  }
  llvm::Error refusePacket(const Packet &packet);
  llvm::Error checkExtra(const Packet &packet, const PacketExtra &extra) const;
  size_t openBytes() const {
    return open.packets.size() * sizeof(Packet) + open.extras.size() * sizeof(PacketExtra);
  }
  bool isFull() const { return openBytes() >= options.blockRawBytes; }
  void count(const Packet &packet);
  RunFacts copyRun(llvm::ArrayRef<Packet> run);
  void closeWindow(bool quiescent);
  BlockHeader headerOf(BlockType type, uint32_t items) const;
  llvm::Error writeBlock(BlockType type, llvm::ArrayRef<uint8_t> raw, uint32_t items = 0);
  llvm::Error writeTables();
  llvm::Error writeContents();
  llvm::Error writeBlobs();
  llvm::Error writeLargeBlob(BlobId id, llvm::ArrayRef<uint8_t> content);
  llvm::Error writePackets();
  llvm::Error writeAll();
  llvm::Error writeEnd(const Outcome &outcome);

  WriterOptions options;
  BlockWriter blocks;
  std::optional<Failure> failure;
  bool closed = false;
  bool stopped = false; ///< failure or closed.
  WordBuffer buffer;

  // Tables: rows not yet written, and how many ids were given out.
  TableRows pending;
  uint32_t devices = 0, spaces = 1, clocks = 1;
  uint64_t tableBytes = 0, triggerBytes = 0; ///< Raw, written so far.
  uint32_t deviceLimit = 1;                  ///< Device 0 may be spoken of before any was opened.

  // The open block of packets.
  PacketEncoder encoder;
  PacketBatch open;
  std::vector<WindowEnd> ends;
  uint64_t openFirstWindow = 0;
  TimeRange openTimes;

  WindowInfo window; ///< The open one; its times are windowTimes.
  TimeRange windowTimes;

  // The open block of contents.
  BlobBlock contents;

  uint64_t packets = 0, windows = 0;
  IndexRows index;
  KnownBlobs known;
  FooterRecord footer;
};

llvm::Error Writer::check() const {
  if (failure)
    return llvm::make_error<Failure>(*failure);
  if (closed)
    return failUsage("writer-closed", "the tape was finished or discarded already");
  return llvm::Error::success();
}

llvm::Error Writer::stick(llvm::Error error) {
  if (!error)
    return llvm::Error::success();
  failure.emplace(toFailure(std::move(error)));
  stopped = true;
  return llvm::make_error<Failure>(*failure);
}

llvm::Error Writer::refuse(const char *code, std::string message) {
  return stick(failUsage(code, std::move(message), "packet " + std::to_string(packets)));
}

llvm::Error Writer::start(const Manifest &manifest) {
  FileHeader header;
  header.tapeId = options.tapeId;
  if (header.tapeId == std::array<uint8_t, 16>{})
    if (std::error_code error = llvm::getRandomBytes(header.tapeId.data(), header.tapeId.size()))
      return failSystem("no-randomness", "cannot get random bytes: " + error.message());
  header.createdNs = options.createdNs;
  if (header.createdNs == 0)
    header.createdNs = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                 std::chrono::system_clock::now().time_since_epoch())
                                                 .count());
  header.check = checkOf(header);
  if (llvm::Error error = blocks.start(header))
    return error;
  return encodeManifest(buffer, manifest,
                        [&](llvm::ArrayRef<uint8_t> raw) { return writeBlock(BlockType::Manifest, raw); });
}

BlockHeader Writer::headerOf(BlockType type, uint32_t items) const {
  BlockHeader header;
  header.type = static_cast<uint16_t>(type);
  header.firstPacket = open.firstOrdinal;
  header.firstWindow = openFirstWindow;
  header.itemCount = items;
  if (type == BlockType::Packets) {
    header.windowCount = static_cast<uint32_t>(ends.size());
    header.firstTime = openTimes.firstOrZero();
    header.lastTime = openTimes.last;
  }
  return header;
}

llvm::Error Writer::writeBlock(BlockType type, llvm::ArrayRef<uint8_t> raw, uint32_t items) {
  return blocks.write(headerOf(type, items), raw);
}

llvm::Expected<uint16_t> Writer::addDevice(const DeviceRecord &device) {
  if (llvm::Error error = check())
    return error;
  if (devices > UINT16_MAX)
    return refuse("too-many", "a tape has at most 65,536 devices");
  // A description may be megabytes: not many of them in one block.
  if (pending.devices.size() >= 8)
    if (llvm::Error error = stick(writeTables()))
      return error;
  pending.devices.push_back(device);
  deviceLimit = devices + 1;
  return static_cast<uint16_t>(devices++);
}

llvm::Expected<uint16_t> Writer::addSpace(llvm::StringRef name) {
  if (llvm::Error error = check())
    return error;
  if (spaces > UINT16_MAX)
    return refuse("too-many", "a tape has at most 65,536 spaces");
  pending.spaces.push_back(name.str());
  return static_cast<uint16_t>(spaces++);
}

llvm::Expected<uint8_t> Writer::addClock(const TapeClock &clock) {
  if (llvm::Error error = check())
    return error;
  if (clocks > UINT8_MAX)
    return refuse("too-many", "a tape has at most 256 clocks");
  pending.clocks.push_back(clock);
  return static_cast<uint8_t>(clocks++);
}

llvm::Error Writer::writeTables() {
  if (pending.devices.empty() && pending.spaces.empty() && pending.clocks.empty())
    return llvm::Error::success();
  pending.firstDevice = devices - static_cast<uint32_t>(pending.devices.size());
  pending.firstSpace = spaces - static_cast<uint32_t>(pending.spaces.size());
  pending.firstClock = clocks - static_cast<uint32_t>(pending.clocks.size());
  footer.tables.push_back(blocks.offset());
  const auto items =
      static_cast<uint32_t>(pending.devices.size() + pending.spaces.size() + pending.clocks.size());
  llvm::Error error = encodeTables(buffer, pending, [&](llvm::ArrayRef<uint8_t> raw) -> llvm::Error {
    tableBytes += raw.size();
    if (tableBytes > maxTableBytes)
      return failUsage("too-many", "the descriptions of the tape's devices are larger than 256 MiB together");
    return writeBlock(BlockType::Device, raw, items);
  });
  pending = TableRows();
  return error;
}

llvm::Expected<BlobId> Writer::blob(llvm::ArrayRef<uint8_t> content) {
  if (llvm::Error error = check())
    return error;
  if (content.size() > maxBlobBytes)
    return refuse("content-too-large",
                  "a content of " + std::to_string(content.size()) + " bytes is above 1 GiB");
  const BlobId id = contentId(content);
  if (known.contains(id))
    return id;
  if (index.blobs.size() >= UINT32_MAX - 1)
    return refuse("too-many", "a tape has at most four billion contents");
  if (content.size() > blobBlockBytes) {
    if (llvm::Error error = stick(writeLargeBlob(id, content)))
      return error;
  } else {
    if (contents.contentBytes() + content.size() > blocks.likedContentBytes())
      if (llvm::Error error = stick(writeBlobs()))
        return error;
    index.blobs.push_back({id, 0, content.size(), static_cast<uint32_t>(contents.pieceCount())});
    contents.add({id, content.size(), 0, static_cast<uint32_t>(content.size())}, content);
  }
  known.addLast();
  ++footer.summary.blobs;
  footer.summary.blobBytes += content.size();
  return id;
}

llvm::Error Writer::writeContents() {
  const auto items = static_cast<uint32_t>(contents.pieceCount());
  contents.seal();
  llvm::Error error =
      blocks.writeBehind(headerOf(BlockType::Blob, items), contents.raw(), contents.rawBytes());
  contents.clear();
  return error;
}

llvm::Error Writer::writeBlobs() {
  const size_t count = contents.pieceCount();
  if (count == 0)
    return llvm::Error::success();
  for (BlobRow &row : llvm::MutableArrayRef<BlobRow>(index.blobs).take_back(count))
    row.offset = blocks.offset();
  return writeContents();
}

llvm::Error Writer::writeLargeBlob(BlobId id, llvm::ArrayRef<uint8_t> content) {
  if (llvm::Error error = writeBlobs())
    return error;
  index.blobs.push_back({id, blocks.offset(), content.size(), 0});
  for (size_t offset = 0; offset < content.size(); offset += blobPieceBytes) {
    const llvm::ArrayRef<uint8_t> part = content.drop_front(offset).take_front(blobPieceBytes);
    contents.add({id, content.size(), offset, static_cast<uint32_t>(part.size())}, part);
    if (llvm::Error error = writeContents())
      return error;
  }
  return llvm::Error::success();
}

llvm::Error Writer::refusePacket(const Packet &packet) {
  if (llvm::Error error = check())
    return error;
  if (packet.device >= deviceLimit)
    return refuse("bad-packet", "the packet's device " + std::to_string(packet.device) + " was not added");
  if (packet.space >= spaces)
    return refuse("bad-packet", "the packet's space " + std::to_string(packet.space) + " was not added");
  return refuse("bad-packet", "the packet's clock " + std::to_string(packet.clock) + " was not added");
}

llvm::Error Writer::checkExtra(const Packet &packet, const PacketExtra &extra) const {
  if (extra.payload && !known.contains(extra.payload))
    return failUsage("bad-packet", "the packet's payload was not stored before it");
  if (linksToPacket(packet.kind) && extra.link != noLink && extra.link >= packets)
    return failUsage("bad-packet", "the packet's link is not to an earlier packet");
  return llvm::Error::success();
}

void Writer::count(const Packet &packet) {
  openTimes.add(packet);
  windowTimes.add(packet);
  ++packets;
  ++window.packetCount;
  if (LLVM_UNLIKELY(packet.kind == PacketKind::Loss))
    footer.summary.loss.add(packet);
  if (LLVM_UNLIKELY(window.packetCount >= options.maxWindowPackets))
    closeWindow(false);
}

llvm::Error Writer::append(const Packet &packet) {
  if (LLVM_UNLIKELY(!canAppend(packet)))
    return refusePacket(packet);
  if (LLVM_UNLIKELY(isFull()))
    if (llvm::Error error = stick(writePackets()))
      return error;
  open.packets.push_back(packet);
  open.packets.back().extra = 0;
  count(packet);
  return llvm::Error::success();
}

llvm::Error Writer::append(const Packet &packet, const PacketExtra &extra) {
  if (LLVM_UNLIKELY(!canAppend(packet)))
    return refusePacket(packet);
  if (llvm::Error error = checkExtra(packet, extra))
    return stick(std::move(error));
  if (LLVM_UNLIKELY(isFull()))
    if (llvm::Error error = stick(writePackets()))
      return error;
  open.append(packet, extra);
  count(packet);
  return llvm::Error::success();
}

RunFacts Writer::copyRun(llvm::ArrayRef<Packet> run) {
  const size_t before = open.packets.size();
  open.packets.insert(open.packets.end(), run.begin(), run.end());
  RunFacts facts;
  for (Packet &packet : llvm::MutableArrayRef<Packet>(open.packets).drop_front(before)) {
    packet.extra = 0;
    facts.times.add(packet);
    facts.device |= packet.device;
    facts.space |= packet.space;
    facts.clock |= packet.clock;
    facts.loss |= packet.kind == PacketKind::Loss;
  }
  return facts;
}

// Runs up to where the block is full or the window has to end, each copied and checked as a whole.
llvm::Error Writer::append(llvm::ArrayRef<Packet> all) {
  while (!all.empty()) {
    if (stopped)
      return check();
    if (isFull())
      if (llvm::Error error = stick(writePackets()))
        return error;
    const size_t room = (options.blockRawBytes - openBytes() + sizeof(Packet) - 1) / sizeof(Packet);
    const llvm::ArrayRef<Packet> run = all.take_front(
        std::min<uint64_t>(std::min(room, runPackets), options.maxWindowPackets - window.packetCount));
    const RunFacts facts = copyRun(run);
    if (LLVM_UNLIKELY(facts.loss || facts.device >= deviceLimit || facts.space >= spaces ||
                      facts.clock >= clocks)) {
      // Something is to be looked at closely.
      open.packets.resize(open.packets.size() - run.size());
      for (const Packet &packet : run)
        if (llvm::Error error = append(packet))
          return error;
    } else {
      openTimes.add(facts.times);
      windowTimes.add(facts.times);
      packets += run.size();
      window.packetCount += run.size();
      if (window.packetCount >= options.maxWindowPackets)
        closeWindow(false);
    }
    all = all.drop_front(run.size());
  }
  return llvm::Error::success();
}

void Writer::closeWindow(bool quiescent) {
  if (window.packetCount == 0)
    return;
  window.firstTime = windowTimes.first;
  window.lastTime = windowTimes.last;
  window.quiescent = quiescent;
  index.windows.push_back(window);
  ends.push_back({static_cast<uint32_t>(packets - open.firstOrdinal), quiescent});
  ++windows;
  window = WindowInfo();
  window.firstPacket = packets;
  windowTimes = TimeRange();
}

llvm::Error Writer::endWindow(bool quiescent) {
  if (llvm::Error error = check())
    return error;
  closeWindow(quiescent);
  return llvm::Error::success();
}

llvm::Error Writer::writePackets() {
  if (llvm::Error error = writeTables())
    return error;
  if (llvm::Error error = writeBlobs())
    return error;
  if (open.packets.empty() && ends.empty())
    return llvm::Error::success();
  if (!open.packets.empty())
    index.packetBlocks.push_back({open.firstOrdinal, open.packets.size(), blocks.offset()});
  const auto items = static_cast<uint32_t>(open.packets.size());
  if (llvm::Error error = encoder.encode(open, ends, [&](llvm::ArrayRef<uint8_t> raw) {
        return writeBlock(BlockType::Packets, raw, items);
      }))
    return error;
  open.clear();
  open.firstOrdinal = packets;
  ends.clear();
  openFirstWindow = windows;
  openTimes = TimeRange();
  return llvm::Error::success();
}

llvm::Error Writer::flush() {
  if (llvm::Error error = check())
    return error;
  if (llvm::Error error = stick(writePackets()))
    return error;
  return stick(blocks.settle()); // There may have been contents, and no packet yet.
}

llvm::Error Writer::keyframe(Keyframe keyframe) {
  if (llvm::Error error = check())
    return error;
  if (keyframe.device >= deviceLimit)
    return refuse("bad-keyframe", "the keyframe's device was not added");
  for (const std::vector<KeyframeExtent> *extents : {&keyframe.memory, &keyframe.internal})
    for (const KeyframeExtent &extent : *extents)
      if (extent.content && !known.contains(extent.content))
        return refuse("bad-keyframe", "a content of the keyframe was not stored before it");
  for (const KeyframeRegister &entry : keyframe.registers)
    if (entry.space >= spaces)
      return refuse("bad-keyframe", "a register's space was not added");
  closeWindow(keyframe.restorable); // Only a quiescent device can be restored.
  if (llvm::Error error = stick(writePackets()))
    return error;
  keyframe.packet = packets;
  keyframe.window = windows;
  index.keyframes.push_back({packets, blocks.offset()});
  ++footer.summary.keyframes;
  return stick(encodeKeyframe(buffer, keyframe, [&](llvm::ArrayRef<uint8_t> raw) {
    return writeBlock(BlockType::Keyframe, raw, 1);
  }));
}

llvm::Error Writer::trigger(uint64_t packet, llvm::StringRef text) {
  if (llvm::Error error = check())
    return error;
  if (packet >= packets)
    return refuse("bad-trigger", "the trigger's packet is not on the tape yet");
  if (llvm::Error error = stick(writePackets()))
    return error;
  footer.triggers.push_back(blocks.offset());
  return stick(encodeTrigger(buffer, {packet, text.str()}, [&](llvm::ArrayRef<uint8_t> raw) -> llvm::Error {
    triggerBytes += raw.size();
    if (triggerBytes > maxTriggerBytes)
      return failUsage("too-many", "the texts of the tape's triggers are larger than 256 MiB together");
    return writeBlock(BlockType::Trigger, raw, 1);
  }));
}

llvm::Error Writer::foreignBlock(uint16_t type, llvm::ArrayRef<uint8_t> raw) {
  if (llvm::Error error = check())
    return error;
  if (type < blockTypeCount)
    return refuse("bad-block", "a block of this type is not foreign");
  if (llvm::Error error = stick(writePackets()))
    return error;
  return stick(writeBlock(static_cast<BlockType>(type), raw));
}

llvm::Error Writer::writeEnd(const Outcome &outcome) {
  if (llvm::Error error = writePackets())
    return error;
  footer.outcome = blocks.offset();
  if (llvm::Error error = encodeOutcome(buffer, outcome, [&](llvm::ArrayRef<uint8_t> raw) {
        return writeBlock(BlockType::Oracle, raw, 1);
      }))
    return error;

  TapeSummary &summary = footer.summary;
  summary.root = blocks.chain();
  summary.packets = packets;
  summary.windows = windows;
  bool first = true;
  for (const WindowInfo &window : index.windows) {
    summary.firstTime = first ? window.firstTime : std::min(summary.firstTime, window.firstTime);
    summary.lastTime = std::max(summary.lastTime, window.lastTime);
    first = false;
  }
  llvm::Expected<std::vector<PartPlace>> parts =
      writeIndex(index, [&](const PartTable &table) -> llvm::Expected<uint64_t> {
        const uint64_t offset = blocks.offset();
        const auto items = static_cast<uint32_t>(table.rows());
        if (llvm::Error error = encodePart(buffer, table, [&](llvm::ArrayRef<uint8_t> raw) {
              return writeBlock(BlockType::Index, raw, items);
            }))
          return error;
        return offset;
      });
  if (!parts)
    return parts.takeError();
  footer.parts = std::move(*parts);
  const uint64_t offset = blocks.offset();
  if (llvm::Error error = encodeFooter(
          buffer, footer, [&](llvm::ArrayRef<uint8_t> raw) { return writeBlock(BlockType::Footer, raw, 1); }))
    return error;
  return blocks.finish(offset, options.syncOnFinish);
}

llvm::Expected<TapeSummary> Writer::finish(const Outcome &outcome) {
  if (llvm::Error error = check())
    return error;
  if (outcome.packet && *outcome.packet >= packets)
    return refuse("bad-outcome", "the outcome's packet is not on the tape");
  closeWindow(false);
  if (llvm::Error error = stick(writeEnd(outcome)))
    return error;
  closed = stopped = true;
  return footer.summary;
}

} // namespace

llvm::Error TapeWriter::append(llvm::ArrayRef<Packet> packets) {
  for (const Packet &packet : packets)
    if (llvm::Error error = append(packet))
      return error;
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<TapeWriter>> TapeWriter::create(llvm::StringRef path, const Manifest &manifest,
                                                               const WriterOptions &options) {
  if (options.blockRawBytes < (64u << 10) || options.blockRawBytes > (16u << 20))
    return failUsage("bad-option", "a block's raw size must be between 64 KiB and 16 MiB");
  if (options.maxWindowPackets == 0)
    return failUsage("bad-option", "a window must be allowed at least one packet");
  llvm::Expected<OutputFile> file =
      OutputFile::create(path, options.partialPath.empty() ? path.str() + ".partial" : options.partialPath);
  if (!file)
    return file.takeError();
  auto writer = std::make_unique<Writer>(std::move(*file), options);
  if (llvm::Error error = writer->start(manifest)) {
    writer->discard();
    return error;
  }
  return writer;
}

} // namespace tapeback
