#include "tests/format/TapeSupport.h"

#include "lz4.h"
#include "llvm/Support/xxhash.h"
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>

namespace tapeback::test {

std::string codeOf(llvm::Error error) {
  if (!error)
    return "";
  return toFailure(std::move(error)).code;
}

void expectSuccess(llvm::Error error) {
  if (!error)
    return;
  const Failure failure = toFailure(std::move(error));
  FAIL(failure.code, ": ", failure.message, " [", failure.where, "]");
}

Bytes readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE_MESSAGE(in, path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void writeFile(const std::string &path, const Bytes &bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  REQUIRE_MESSAGE(out.flush(), path);
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "tapeback-test-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  path = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored; // A leftover in the temporary directory fails no test.
  std::filesystem::remove_all(path, ignored);
}

MemoryFile::MemoryFile(const Bytes &bytes) : fd(::memfd_create("tape", MFD_CLOEXEC)) {
  REQUIRE(fd >= 0);
  name = "/proc/self/fd/" + std::to_string(fd);
  set(bytes);
}
MemoryFile::~MemoryFile() {
  ::close(fd);
}
void MemoryFile::set(const Bytes &bytes) {
  truncate(0);
  REQUIRE(::pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
}
void MemoryFile::truncate(uint64_t size) {
  REQUIRE(::ftruncate(fd, static_cast<off_t>(size)) == 0);
}
void MemoryFile::put(uint64_t offset, uint8_t byte) {
  REQUIRE(::pwrite(fd, &byte, 1, static_cast<off_t>(offset)) == 1);
}

WriterOptions SessionOptions::fixedOptions() {
  WriterOptions options;
  options.blockRawBytes = 64 << 10;
  options.syncOnFinish = false;
  options.tapeId = {0x54, 0x61, 0x70, 0x65, 0x62, 0x61, 0x63, 0x6b, 1, 2, 3, 4, 5, 6, 7, 8};
  options.createdNs = 1'700'000'000'000'000'000;
  return options;
}

namespace {

/// Writes a session and keeps what it wrote.
class SessionWriter {
public:
  SessionWriter(const std::string &path, const SessionOptions &options)
      : options(options), random(options.seed) {
    Manifest manifest;
    manifest.facts = {{"workload", "session"}, {"seed", std::to_string(options.seed)}};
    writer = expectValue(TapeWriter::create(path, manifest, options.writer));
  }
  Session run();

private:
  uint64_t below(uint64_t limit) { return random() % limit; }
  uint64_t extreme();
  BlobId content();
  void packet(size_t number);
  void endWindow(bool quiescent);
  void keyframe();

  SessionOptions options;
  std::mt19937_64 random;
  std::unique_ptr<TapeWriter> writer;
  Session session;
  uint64_t time = 1'000'000'000;
  unsigned devices = 0, spaces = 1, clocks = 1;
};

uint64_t SessionWriter::extreme() {
  switch (below(8)) {
  case 0: return 0;
  case 1: return ~uint64_t(0);
  case 2: return uint64_t(1) << below(64);
  case 3: return below(256);
  default: return random();
  }
}

BlobId SessionWriter::content() {
  if (!session.blobs.empty() && below(3) == 0) { // The same content again.
    auto blob = session.blobs.begin();
    std::advance(blob, below(session.blobs.size()));
    return expectValue(writer->blob(blob->second));
  }
  Bytes bytes(below(options.maxBlob + 1));
  const bool compressible = below(2) == 0;
  for (uint8_t &byte : bytes)
    byte = static_cast<uint8_t>(compressible ? below(3) : random());
  const BlobId id = expectValue(writer->blob(bytes));
  session.blobs[{id.hi, id.lo}] = bytes;
  return id;
}

void SessionWriter::packet(size_t number) {
  Packet packet;
  PacketExtra extra;
  time += below(1000);
  packet.issueTime = time;
  packet.completeTime = time + below(500);
  packet.kind = static_cast<PacketKind>(below(packetKindCount));
  packet.device = static_cast<uint16_t>(devices ? below(devices) : 0);
  packet.space = static_cast<uint16_t>(below(spaces));
  packet.clock = static_cast<uint8_t>(below(clocks));
  packet.address = 0x1000 + 4 * below(12);
  packet.value = below(4) ? below(100) : random();
  packet.width = static_cast<uint8_t>(1u << below(4));
  if (below(5) == 0) {
    packet.completion = static_cast<Completion>(below(4));
    if (packet.completion == Completion::Pending)
      packet.completeTime = 0;
  }
  if (options.wild) {
    packet.issueTime = extreme();
    packet.completeTime = extreme();
    packet.address = extreme();
    packet.value = extreme();
    packet.thread = static_cast<uint16_t>(random());
    packet.width = static_cast<uint8_t>(random());
    packet.kind = static_cast<PacketKind>(random());
    packet.origin = static_cast<Origin>(random());
    packet.completion = static_cast<Completion>(random());
    packet.flags = static_cast<uint8_t>(random());
  }
  if (below(3) == 0) {
    extra.mask = extreme();
    extra.expected = extreme();
    extra.deadline = below(1'000'000);
    extra.length = below(5000);
    extra.count = below(10);
    if (below(2) == 0)
      extra.payload = content();
    if (below(2) == 0 && number != 0)
      extra.link = below(number);
    else if (!linksToPacket(packet.kind))
      extra.link = extreme();
  }
  PacketBatch one;
  one.append(packet, extra);
  packet.extra = 0;
  if (one.packets[0].extra != 0) {
    session.extras.push_back(extra);
    packet.extra = static_cast<uint32_t>(session.extras.size());
  }
  session.packets.push_back(packet);
  expectSuccess(writer->append(packet, extra));
}

void SessionWriter::endWindow(bool quiescent) {
  WindowInfo window;
  if (!session.windows.empty())
    window.firstPacket = session.windows.back().firstPacket + session.windows.back().packetCount;
  window.packetCount = session.packets.size() - window.firstPacket;
  if (window.packetCount == 0)
    return;
  window.firstTime = ~uint64_t(0);
  for (size_t i = window.firstPacket; i < session.packets.size(); ++i) {
    window.firstTime = std::min(window.firstTime, session.packets[i].issueTime);
    window.lastTime =
        std::max({window.lastTime, session.packets[i].issueTime, session.packets[i].completeTime});
  }
  window.quiescent = quiescent;
  session.windows.push_back(window);
}

void SessionWriter::keyframe() {
  Keyframe keyframe;
  keyframe.device = static_cast<uint16_t>(devices ? below(devices) : 0);
  keyframe.restorable = below(2) == 0;
  keyframe.reason = keyframe.restorable ? "recipe" : "a transfer was running";
  for (unsigned i = 0; i < 4; ++i)
    keyframe.registers.push_back({static_cast<uint16_t>(below(spaces)), 4 * i, 4, random()});
  keyframe.memory.push_back({0, 0x10000, 4096, content()});
  keyframe.memory.push_back({0, 0x20000, 4096, BlobId()});
  keyframe.mappings.push_back({0, 0x10000, 0x20000, BlobId()});
  keyframe.internal.push_back({1, 0, 128, content()});
  endWindow(keyframe.restorable);
  keyframe.packet = session.packets.size();
  keyframe.window = session.windows.size();
  session.keyframes.push_back(keyframe);
  expectSuccess(writer->keyframe(keyframe));
}

Session SessionWriter::run() {
  for (size_t i = 0; i < options.packets; ++i) {
    // Tables grow while packets are written.
    if (i == 3 || i == options.packets / 2) {
      DeviceRecord device;
      device.alias = "device-" + std::to_string(devices);
      device.targetUri = "null:";
      device.identity = {{"vendor", "0x1234"}, {"serial", std::to_string(devices)}};
      device.description = "name: device\n";
      device.descriptionName = "device";
      REQUIRE(expectValue(writer->addDevice(device)) == devices++);
      REQUIRE(expectValue(writer->addSpace("bar" + std::to_string(spaces))) == spaces);
      ++spaces;
      REQUIRE(expectValue(writer->addClock({"clock" + std::to_string(clocks), 1000})) == clocks);
      ++clocks;
    }
    packet(i);
    if (below(options.windowPackets) == 0) {
      const bool quiescent = below(2) == 0;
      endWindow(quiescent);
      expectSuccess(writer->endWindow(quiescent));
    }
    if (options.keyframes && (i == options.packets / 3 || below(options.packets / 3 + 1) == 0))
      keyframe();
    if (options.triggers && (i == options.packets / 2 || below(options.packets / 2 + 1) == 0)) {
      session.triggers.emplace_back(below(session.packets.size()), "trigger " + std::to_string(i));
      expectSuccess(writer->trigger(session.triggers.back().first, session.triggers.back().second));
    }
    if (options.foreignBlocks && (i == options.packets / 4 || below(options.packets / 3 + 1) == 0))
      expectSuccess(writer->foreignBlock(static_cast<uint16_t>(10 + below(3)), {1, 2, 3, 4, 5}));
    if (below(options.packets / 2 + 1) == 0)
      expectSuccess(writer->flush());
  }
  endWindow(false);
  session.outcome.kind = Outcome::Kind::Failed;
  session.outcome.signature.emplace();
  session.outcome.signature->oracle = "check";
  session.outcome.signature->name = "sum";
  session.outcome.signature->offset = 17;
  session.outcome.programExit = -3;
  if (!session.packets.empty())
    session.outcome.packet = session.packets.size() / 2;
  session.outcome.text = "the sum was wrong";
  session.summary = expectValue(writer->finish(session.outcome));
  return std::move(session);
}

} // namespace

Session writeSession(const std::string &path, const SessionOptions &options) {
  return SessionWriter(path, options).run();
}

std::vector<Packet> traffic(const std::string &kind, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Packet> packets(count);
  uint64_t time = 1'000'000'000'000;
  for (size_t i = 0; i < count; ++i) {
    Packet &packet = packets[i];
    const uint64_t bits = random();
    time += 40 + 10 * (bits % 8);
    packet.issueTime = time;
    packet.completeTime = time + 300 + 10 * (bits >> 8 & 3);
    packet.width = 4;
    if (kind == "ring") {
      // A ring of 1,024 entries of 32 bytes; each is four writes and a doorbell.
      const uint64_t entry = i / 5, word = i % 5;
      packet.kind = word == 4 ? PacketKind::RegisterWrite : PacketKind::MemoryWrite;
      packet.width = word == 4 ? 4 : 8;
      packet.address = word == 4 ? 0x1000 : 0x100000 + entry % 1024 * 32 + word * 8;
      const uint64_t words[5] = {0x40 + (bits >> 16 & 3), 0x10000000 + entry * 4096, (bits >> 18 & 15) * 64,
                                 entry, entry % 1024};
      packet.value = words[word];
    } else {
      // A driver's loop over a dozen registers: commands, status, counters.
      const unsigned step = i % 12;
      packet.kind = step % 3 == 0 ? PacketKind::RegisterWrite : PacketKind::RegisterRead;
      packet.address = 0x1000 + 4 * step;
      packet.value = step == 0   ? i / 12
                     : step == 3 ? bits >> 20 & 15
                     : step == 5 ? bits >> 24 & 1
                                 : 0x80 + step;
    }
  }
  return packets;
}

bool samePacket(const Session &session, uint64_t ordinal, const PacketBatch &batch, size_t place) {
  if (ordinal >= session.packets.size())
    return false;
  Packet a = batch.packets[place], b = session.packets[ordinal];
  a.extra = b.extra = 0;
  return a == b && batch.extra(batch.packets[place]) == session.extraOf(ordinal);
}

static void expectPackets(TapeReader &reader, const Session &session) {
  PacketBatch batch;
  size_t different = 0;
  uint64_t next = 0;
  while (true) {
    expectSuccess(reader.readBlockFrom(next, batch));
    if (batch.packets.empty())
      break;
    CHECK(batch.firstOrdinal == next);
    for (size_t i = 0; i < batch.packets.size(); ++i)
      different += !samePacket(session, next + i, batch, i);
    next += batch.packets.size();
  }
  CHECK(next == session.packets.size());
  REQUIRE(reader.summary().windows == session.windows.size());
  for (uint64_t n = 0; n < session.windows.size(); ++n) {
    const WindowInfo info = expectValue(reader.window(n)), &wanted = session.windows[n];
    CHECK(info.firstPacket == wanted.firstPacket);
    CHECK(info.packetCount == wanted.packetCount);
    CHECK(info.firstTime == wanted.firstTime);
    CHECK(info.lastTime == wanted.lastTime);
    CHECK(info.quiescent == wanted.quiescent);
    CHECK(expectValue(reader.windowOfPacket(info.firstPacket)) == n);
    CHECK(expectValue(reader.windowOfPacket(info.firstPacket + info.packetCount - 1)) == n);
    expectSuccess(reader.readWindow(n, batch));
    REQUIRE(batch.packets.size() == info.packetCount);
    for (size_t i = 0; i < batch.packets.size(); ++i)
      different += !samePacket(session, info.firstPacket + i, batch, i);
  }
  CHECK(different == 0);
}

void expectSession(const std::string &path, const Session &session) {
  auto reader = expectValue(TapeReader::open(path));
  expectPackets(*reader, session);
  for (const auto &[id, bytes] : session.blobs) {
    const llvm::ArrayRef<uint8_t> content = expectValue(reader->blob({id.first, id.second}));
    CHECK(content == llvm::ArrayRef<uint8_t>(bytes));
  }
  CHECK(reader->summary().blobs == session.blobs.size());
  REQUIRE(reader->keyframeCount() == session.keyframes.size());
  for (uint64_t n = 0; n < session.keyframes.size(); ++n) {
    const Keyframe keyframe = expectValue(reader->keyframe(n)), &wanted = session.keyframes[n];
    CHECK(keyframe.packet == wanted.packet);
    CHECK(keyframe.window == wanted.window);
    CHECK(keyframe.device == wanted.device);
    CHECK(keyframe.restorable == wanted.restorable);
    CHECK(keyframe.reason == wanted.reason);
    REQUIRE(keyframe.registers.size() == wanted.registers.size());
    CHECK(keyframe.registers.back().value == wanted.registers.back().value);
    REQUIRE(keyframe.memory.size() == wanted.memory.size());
    CHECK(keyframe.memory.front().content == wanted.memory.front().content);
    CHECK(keyframe.mappings.size() == wanted.mappings.size());
    CHECK(keyframe.internal.size() == wanted.internal.size());
  }
  const std::vector<TapeReader::TriggerRecord> triggers = expectValue(reader->triggers());
  REQUIRE(triggers.size() == session.triggers.size());
  for (size_t i = 0; i < triggers.size(); ++i) {
    CHECK(triggers[i].packet == session.triggers[i].first);
    CHECK(triggers[i].text == session.triggers[i].second);
  }
  CHECK(reader->outcome().kind == session.outcome.kind);
  CHECK(reader->outcome().signature == session.outcome.signature);
  CHECK(reader->outcome().programExit == session.outcome.programExit);
  CHECK(!reader->outcome().programSignal);
  CHECK(reader->outcome().text == session.outcome.text);
  CHECK(reader->summary().root == session.summary.root);
}

ForgedTape::ForgedTape(const Bytes &tape) {
  REQUIRE(tape.size() > sizeof(FileHeader) + sizeof(Tail));
  std::memcpy(&header, tape.data(), sizeof(header));
  for (size_t offset = sizeof(FileHeader); offset < tape.size() - sizeof(Tail);) {
    ForgedBlock block;
    std::memcpy(&block.header, tape.data() + offset, sizeof(block.header));
    REQUIRE(block.header.sync == syncMarker);
    const uint8_t *stored = tape.data() + offset + sizeof(block.header);
    block.stored.assign(stored, stored + block.header.storedSize);
    block.oldOffset = offset;
    offset += blockBytes(block.header);
    blocks.push_back(std::move(block));
  }
}

size_t ForgedTape::indexOf(BlockType type) const {
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].header.type == static_cast<uint16_t>(type))
      return i;
  FAIL("no such block: ", blockTypeName(static_cast<uint16_t>(type)));
  return 0;
}

ForgedBlock &ForgedTape::first(BlockType type) {
  return blocks[indexOf(type)];
}

Bytes ForgedTape::rawOf(const ForgedBlock &block) {
  if (block.header.codec == static_cast<uint8_t>(Codec::None))
    return block.stored;
  Bytes raw(block.header.rawSize);
  REQUIRE(LZ4_decompress_safe(reinterpret_cast<const char *>(block.stored.data()),
                              reinterpret_cast<char *>(raw.data()), static_cast<int>(block.stored.size()),
                              static_cast<int>(raw.size())) == static_cast<int>(raw.size()));
  return raw;
}

void ForgedTape::setRaw(ForgedBlock &block, const Bytes &raw) {
  block.header.codec = static_cast<uint8_t>(Codec::None);
  block.header.rawSize = block.header.storedSize = static_cast<uint32_t>(raw.size());
  block.stored = raw;
}

namespace {
/// Cap'n Proto reads from aligned memory.
struct Aligned {
  explicit Aligned(const Bytes &bytes) {
    ref = buffer.bytes(bytes.size());
    std::copy(bytes.begin(), bytes.end(), ref.begin());
  }
  WordBuffer buffer;
  llvm::MutableArrayRef<uint8_t> ref;
};

void setFooter(ForgedBlock &block, const FooterRecord &footer) {
  WordBuffer buffer;
  expectSuccess(encodeFooter(buffer, footer, [&](llvm::ArrayRef<uint8_t> raw) {
    ForgedTape::setRaw(block, raw.vec());
    return llvm::Error::success();
  }));
}
} // namespace

void ForgedTape::editFooter(const std::function<void(FooterRecord &)> &change) {
  ForgedBlock &block = blocks.back();
  FooterRecord footer = expectValue(decodeFooter(Aligned(rawOf(block)).ref, "footer"));
  change(footer);
  setFooter(block, footer);
}

void ForgedTape::editPart(PartKind kind, const std::function<void(PartTable &)> &change) {
  for (ForgedBlock &block : blocks) {
    if (block.header.type != static_cast<uint16_t>(BlockType::Index))
      continue;
    const Aligned raw(rawOf(block));
    const size_t columns = kind == PartKind::PacketBlocks ? 3 : kind == PartKind::Keyframes ? 2 : 5;
    llvm::Expected<PartTable> table = decodePart(raw.ref, "part", columns);
    if (!table) {
      llvm::consumeError(table.takeError()); // Another kind, with fewer columns.
      continue;
    }
    if (table->kind != kind)
      continue;
    change(*table);
    WordBuffer buffer;
    expectSuccess(encodePart(buffer, *table, [&](llvm::ArrayRef<uint8_t> bytes) {
      setRaw(block, bytes.vec());
      return llvm::Error::success();
    }));
    return;
  }
  FAIL("no such part of the index");
}

Bytes ForgedTape::assemble(bool keepFooter) const {
  std::vector<ForgedBlock> sealed = blocks;
  std::map<uint64_t, uint64_t> moved;
  uint64_t offset = sizeof(FileHeader);
  for (const ForgedBlock &block : sealed) {
    if (block.oldOffset != 0)
      moved.emplace(block.oldOffset, offset);
    offset += sizeof(BlockHeader) + block.stored.size() + sizeof(BlockTrailer);
  }
  FileHeader fileHeader = header;
  fileHeader.check = checkOf(fileHeader);
  Digest chain = chainStart(fileHeader), root = chain;
  Bytes bytes(bytesOf(fileHeader).begin(), bytesOf(fileHeader).end());
  bool pastRoot = false;
  uint64_t lastOffset = 0;
  for (size_t i = 0; i < sealed.size(); ++i) {
    ForgedBlock &block = sealed[i];
    const auto type = static_cast<BlockType>(block.header.type);
    if (!pastRoot && (type == BlockType::Index || type == BlockType::Footer)) {
      pastRoot = true;
      root = chain;
    }
    if (i + 1 == sealed.size() && type == BlockType::Footer && !keepFooter) {
      FooterRecord footer = expectValue(decodeFooter(Aligned(rawOf(block)).ref, "footer"));
      auto move = [&](uint64_t &place) {
        if (const auto to = moved.find(place); to != moved.end())
          place = to->second;
      };
      llvm::for_each(footer.tables, move);
      llvm::for_each(footer.triggers, move);
      move(footer.outcome);
      for (PartPlace &part : footer.parts)
        move(part.offset);
      footer.summary.root = root;
      setFooter(block, footer);
    }
    block.header.tapeTag = tapeTagOf(fileHeader.tapeId);
    block.header.sequence = i;
    block.header.storedSize = static_cast<uint32_t>(block.stored.size());
    block.header.check = checkOf(block.header);
    BlockTrailer trailer;
    trailer.hash = hashBlock(block.header, block.stored);
    trailer.chain = chain = chainStep(chain, trailer.hash);
    lastOffset = bytes.size();
    bytes.insert(bytes.end(), bytesOf(block.header).begin(), bytesOf(block.header).end());
    bytes.insert(bytes.end(), block.stored.begin(), block.stored.end());
    bytes.insert(bytes.end(), bytesOf(trailer).begin(), bytesOf(trailer).end());
  }
  Tail tail;
  tail.footerOffset = lastOffset;
  tail.fileBytes = bytes.size() + sizeof(tail);
  tail.check = checkOf(tail, fileHeader.tapeId);
  bytes.insert(bytes.end(), bytesOf(tail).begin(), bytesOf(tail).end());
  return bytes;
}

} // namespace tapeback::test
