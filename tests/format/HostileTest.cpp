// Malice: tapes whose checks all hold and whose contents lie. Behind the checks, everything is looked at.
#include "tests/format/TapeSupport.h"

#include "format/Message.h"
#include "format/PacketCodec.h"
#include <chrono>
#include <cstring>

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Specimen {
  explicit Specimen(size_t packets = 600) {
    SessionOptions options;
    options.seed = 17;
    options.packets = packets;
    options.maxBlob = 60;
    session = writeSession(directory.file("a.tape"), options);
    bytes = readFile(directory.file("a.tape"));
  }
  ForgedTape forge() const { return ForgedTape(bytes); }
  TemporaryDirectory directory;
  Session session;
  Bytes bytes;
};

/// Opens, reads everything, verifies and recovers. Returns the verifier's code. Whatever the tape says,
/// nothing crashes, and what recovery makes of it verifies.
std::string tryAll(const Specimen &specimen, const Bytes &bytes) {
  MemoryFile file(bytes);
  const std::string verified = codeOf(verifyTape(file.path()));
  if (llvm::Expected<std::unique_ptr<TapeReader>> reader = TapeReader::open(file.path())) {
    PacketBatch batch;
    for (uint64_t next = 0; codeOf((*reader)->readBlockFrom(next, batch)) == "" && !batch.packets.empty();) {
      for (const Packet &packet : batch.packets) {
        CHECK(packet.device < std::max<size_t>((*reader)->devices().size(), 1));
        CHECK(packet.space < (*reader)->spaces().size());
        CHECK(packet.clock < (*reader)->clocks().size());
        if (batch.extra(packet).payload)
          codeOf((*reader)->blob(batch.extra(packet).payload));
      }
      next += batch.packets.size();
    }
    for (uint64_t n = 0; n < std::min<uint64_t>((*reader)->summary().windows, 1000); ++n)
      codeOf((*reader)->readWindow(n, batch));
    for (uint64_t n = 0; n < std::min<uint64_t>((*reader)->keyframeCount(), 100); ++n)
      codeOf((*reader)->keyframe(n));
    codeOf((*reader)->triggers());
  } else {
    llvm::consumeError(reader.takeError());
  }
  const std::string out = specimen.directory.file("out.tape");
  llvm::Expected<RecoverReport> report = recoverTape(file.path(), out, {.syncOnFinish = false});
  if (report)
    CHECK_MESSAGE(codeOf(verifyTape(out)) == "", "what was recovered does not verify");
  else
    CHECK(codeOf(report.takeError()) != "");
  return verified;
}

template <typename Change>
std::string withHeader(const Specimen &specimen, BlockType type, Change change) {
  ForgedTape tape = specimen.forge();
  change(tape.first(type).header);
  return tryAll(specimen, tape.assemble());
}

/// Changes the message of a block through Cap'n Proto itself.
template <typename Root>
Bytes rebuild(const Bytes &raw, const std::function<void(typename Root::Builder)> &change) {
  WordBuffer in, out;
  const llvm::MutableArrayRef<uint8_t> aligned = in.bytes(raw.size());
  std::copy(raw.begin(), raw.end(), aligned.begin());
  Bytes result;
  expectSuccess(readMessage<Root>(aligned, "x", [&](typename Root::Reader root) {
    return buildMessage(
        out, raw.size() + 1000,
        [&](capnp::MessageBuilder &message) {
          message.setRoot(root);
          change(message.getRoot<Root>());
        },
        [&](llvm::ArrayRef<uint8_t> bytes) {
          result = bytes.vec();
          return llvm::Error::success();
        });
  }));
  return result;
}

template <typename Root>
std::string withMessage(const Specimen &specimen, BlockType type,
                        const std::function<void(typename Root::Builder)> &change) {
  ForgedTape tape = specimen.forge();
  ForgedBlock &block = tape.first(type);
  ForgedTape::setRaw(block, rebuild<Root>(ForgedTape::rawOf(block), change));
  return tryAll(specimen, tape.assemble());
}

schema::Column::Builder columnOf(schema::Packets::Builder root, PacketField field) {
  for (schema::Column::Builder column : root.getColumns())
    if (column.getField() == static_cast<uint16_t>(field))
      return column;
  FAIL("no such column");
  return nullptr;
}

} // namespace

TEST_CASE("forging without a change changes nothing") {
  const Specimen specimen;
  CHECK(tryAll(specimen, specimen.forge().assemble()) == "");
  ForgedTape tape = specimen.forge();
  for (ForgedBlock &block : tape.blocks)
    ForgedTape::setRaw(block, ForgedTape::rawOf(block));
  // Now the blocks have moved under the index.
  CHECK(tryAll(specimen, tape.assemble()) == "bad-index");
}

TEST_CASE("versions, magic and ends") {
  const Specimen specimen;
  ForgedTape tape = specimen.forge();
  tape.header.minimumReader = tapeReaderVersion + 1;
  const Bytes newer = tape.assemble();
  MemoryFile file(newer);
  const Failure failure = toFailure(TapeReader::open(file.path()).takeError());
  CHECK(failure.code == "newer-version");
  CHECK(failure.cls == FailureClass::Tape);
  CHECK(failure.hint.find("newer tapeback") != std::string::npos);
  CHECK(tryAll(specimen, newer) == "newer-version");

  tape = specimen.forge();
  tape.header.formatVersion = 9; // Written by a later version, readable by this one.
  tape.header.flags = 0xff;
  tape.header.reserved.fill(3);
  CHECK(tryAll(specimen, tape.assemble()) == "");

  Bytes bytes = specimen.bytes;
  bytes[1] = 'X';
  CHECK(tryAll(specimen, bytes) == "not-a-tape");
  bytes = specimen.bytes;
  bytes[20] ^= 1;
  CHECK(tryAll(specimen, bytes) == "damaged-header");
  bytes = specimen.bytes;
  bytes.push_back(0);
  CHECK(tryAll(specimen, bytes) == "unfinished");
  bytes = specimen.bytes;
  bytes[bytes.size() - 30] ^= 1;
  CHECK(tryAll(specimen, bytes) == "damaged-footer");

  // Something between footer and tail, with the tail sealed again.
  bytes = specimen.bytes;
  Tail tail;
  std::memcpy(&tail, bytes.data() + bytes.size() - sizeof(tail), sizeof(tail));
  bytes.resize(bytes.size() - sizeof(tail));
  bytes.insert(bytes.end(), 5, 0);
  tail.fileBytes += 5;
  tail.check = checkOf(tail, specimen.forge().header.tapeId);
  bytes.insert(bytes.end(), bytesOf(tail).begin(), bytesOf(tail).end());
  CHECK(tryAll(specimen, bytes) == "trailing-bytes");
  // A tail that points at a block that is no footer, and beyond the file.
  for (const uint64_t offset :
       {uint64_t(64), uint64_t(0), specimen.bytes.size() - 3, ~uint64_t(0), ~uint64_t(0) - 79}) {
    bytes = specimen.bytes;
    tail.footerOffset = offset;
    tail.fileBytes = bytes.size();
    tail.check = checkOf(tail, specimen.forge().header.tapeId);
    std::memcpy(bytes.data() + bytes.size() - sizeof(tail), &tail, sizeof(tail));
    const std::string code = tryAll(specimen, bytes);
    CHECK((code == "bad-index" || code == "damaged-block"));
  }
}

TEST_CASE("block headers that lie, sealed: every one is refused") {
  const Specimen specimen;
  const ForgedTape tape = specimen.forge();
  for (size_t i = 0; i < tape.blocks.size(); ++i) {
    INFO("block ", i, " ", blockTypeName(tape.blocks[i].header.type));
    auto with = [&](const std::function<void(BlockHeader &)> &change) {
      ForgedTape forged = tape;
      change(forged.blocks[i].header);
      return tryAll(specimen, forged.assemble(i + 1 == tape.blocks.size()));
    };
    CHECK(with([](BlockHeader &header) { header.firstPacket += 1; }) != "");
    CHECK(with([](BlockHeader &header) { header.firstPacket = ~uint64_t(0); }) != "");
    CHECK(with([](BlockHeader &header) { header.firstWindow += 1; }) != "");
    CHECK(with([](BlockHeader &header) { header.firstWindow = ~uint64_t(0); }) != "");
    CHECK(with([](BlockHeader &header) { header.firstTime ^= 1; }) != "");
    CHECK(with([](BlockHeader &header) { header.lastTime ^= 1; }) != "");
    CHECK(with([](BlockHeader &header) { header.windowCount += 1; }) != "");
    CHECK(with([](BlockHeader &header) { header.rawSize = 0xffffffff; }) != "");
    CHECK(with([](BlockHeader &header) { header.rawSize = maxRawBytes; }) != "");
    CHECK(with([](BlockHeader &header) { header.rawSize += 8; }) != "");
    CHECK(with([](BlockHeader &header) { header.rawSize = 0; }) != "");
    CHECK(with([](BlockHeader &header) { header.codec ^= 1; }) != "");
    CHECK(with([](BlockHeader &header) { header.codec = 7; }) != "");
    CHECK(with([](BlockHeader &header) { header.type = 0; }) != "");
  }
  CHECK(withHeader(specimen, BlockType::Packets, [](BlockHeader &header) { header.itemCount += 1; }) != "");
  CHECK(withHeader(specimen, BlockType::Packets, [](BlockHeader &header) { header.codec = 7; }) ==
        "unknown-codec");
  CHECK(withHeader(specimen, BlockType::Packets, [](BlockHeader &header) { header.rawSize += 8; }) ==
        "damaged-block");
}

TEST_CASE("a stored size beyond the file costs nothing") {
  const Specimen specimen;
  Bytes bytes = specimen.bytes;
  BlockHeader header;
  std::memcpy(&header, bytes.data() + 64, sizeof(header));
  for (const uint32_t size : {0xffffffffu, 0x7fffffffu, 0x4000000u, uint32_t(bytes.size())}) {
    header.storedSize = size;
    header.check = checkOf(header);
    std::memcpy(bytes.data() + 64, &header, sizeof(header));
    CHECK(tryAll(specimen, bytes) == "damaged-block");
  }
  ReaderOptions options;
  options.maxBlockRawBytes = 100;
  MemoryFile file(specimen.bytes);
  CHECK(codeOf(TapeReader::open(file.path(), options)) == "block-too-large");
}

TEST_CASE("blocks exchanged, doubled, left out or from elsewhere") {
  const Specimen specimen(6000);
  const ForgedTape tape = specimen.forge();
  std::vector<size_t> packets;
  for (size_t i = 0; i < tape.blocks.size(); ++i)
    if (tape.blocks[i].header.type == static_cast<uint16_t>(BlockType::Packets))
      packets.push_back(i);
  REQUIRE(packets.size() > 3);
  ForgedTape forged = tape;
  std::swap(forged.blocks[packets[0]], forged.blocks[packets[1]]);
  CHECK(tryAll(specimen, forged.assemble()) != "");
  forged = tape;
  forged.blocks.erase(forged.blocks.begin() + static_cast<std::ptrdiff_t>(packets[1]));
  CHECK(tryAll(specimen, forged.assemble()) != "");
  forged = tape;
  forged.blocks.insert(forged.blocks.begin() + static_cast<std::ptrdiff_t>(packets[1]),
                       forged.blocks[packets[1]]);
  CHECK(tryAll(specimen, forged.assemble()) != "");

  // A block changed and sealed by itself, but not in the chain.
  Bytes bytes = specimen.bytes;
  const ForgedBlock &block = tape.blocks[packets[1]];
  BlockHeader header = block.header;
  header.flags ^= 1;
  header.check = checkOf(header);
  BlockTrailer trailer;
  const size_t end = block.oldOffset + blockBytes(header) - sizeof(trailer);
  std::memcpy(&trailer, bytes.data() + end, sizeof(trailer));
  trailer.hash = hashBlock(header, block.stored);
  std::memcpy(bytes.data() + block.oldOffset, &header, sizeof(header));
  std::memcpy(bytes.data() + end, &trailer, sizeof(trailer));
  CHECK(tryAll(specimen, bytes) == "bad-chain");
  // The same with another tape's tag.
  header = block.header;
  header.tapeTag ^= 1;
  header.check = checkOf(header);
  bytes = specimen.bytes;
  std::memcpy(bytes.data() + block.oldOffset, &header, sizeof(header));
  CHECK(tryAll(specimen, bytes) == "damaged-block");
}

TEST_CASE("a footer that says anything else is refused") {
  const Specimen specimen;
  auto with = [&](const std::function<void(FooterRecord &)> &change) {
    ForgedTape tape = specimen.forge();
    tape.editFooter(change);
    return tryAll(specimen, tape.assemble(true));
  };
  CHECK(with([](FooterRecord &) {}) == "");
  for (const auto &field :
       {&TapeSummary::packets, &TapeSummary::windows, &TapeSummary::blobs, &TapeSummary::blobBytes,
        &TapeSummary::keyframes, &TapeSummary::firstTime, &TapeSummary::lastTime})
    for (const uint64_t change : {uint64_t(1), ~uint64_t(0), uint64_t(1) << 40}) {
      CHECK(with([&](FooterRecord &footer) { footer.summary.*field += change; }) == "bad-index");
    }
  CHECK(with([](FooterRecord &footer) { footer.summary.root[5] ^= 1; }) == "bad-chain");
  CHECK(with([](FooterRecord &footer) { footer.summary.loss.packets[LossCause::Source] += 1; }) ==
        "bad-index");
  CHECK(with([](FooterRecord &footer) { footer.summary.loss.packets.clear(); }) == "bad-index");
  CHECK(with([](FooterRecord &footer) { footer.tables.pop_back(); }) != "");
  CHECK(with([](FooterRecord &footer) { footer.tables.push_back(footer.tables[0]); }) != "");
  CHECK(with([](FooterRecord &footer) { std::swap(footer.tables[0], footer.tables[1]); }) != "");
  CHECK(with([](FooterRecord &footer) { footer.triggers.pop_back(); }) == "bad-index");
  CHECK(with([](FooterRecord &footer) { footer.triggers[0] += 1; }) == "bad-index");
  CHECK(with([](FooterRecord &footer) { footer.triggers.push_back(64); }) == "bad-index");
  CHECK(with([](FooterRecord &footer) { footer.outcome = 64; }) != "");
  CHECK(with([](FooterRecord &footer) { footer.parts.pop_back(); }) == "bad-index");
  CHECK(with([](FooterRecord &footer) { footer.parts.clear(); }) == "bad-index");
  CHECK(with([](FooterRecord &footer) { std::swap(footer.parts[0], footer.parts[1]); }) == "bad-index");
  CHECK(with([](FooterRecord &footer) { footer.parts.push_back(footer.parts.back()); }) == "bad-index");
  const size_t parts = [&] {
    size_t count = 0;
    with([&](FooterRecord &footer) { count = footer.parts.size(); });
    return count;
  }();
  REQUIRE(parts == 4);
  for (size_t part = 0; part < parts; ++part) {
    INFO("part ", part);
    CHECK(with([&](FooterRecord &footer) { footer.parts[part].offset += 1; }) != "");
    CHECK(with([&](FooterRecord &footer) { footer.parts[part].offset = 64; }) != "");
    CHECK(with([&](FooterRecord &footer) { footer.parts[part].first += 1; }) != "");
    CHECK(with([&](FooterRecord &footer) { footer.parts[part].count += 1; }) != "");
    CHECK(with([&](FooterRecord &footer) { footer.parts[part].count = ~0u; }) != "");
    CHECK(with([&](FooterRecord &footer) { footer.parts[part].keyLo += 1; }) != "");
    CHECK(with([&](FooterRecord &footer) { footer.parts[part].keyHi += 1; }) != "");
    CHECK(with([&](FooterRecord &footer) { footer.parts[part].kind = static_cast<PartKind>(9); }) != "");
  }
}

TEST_CASE("each cell of the index is checked against the blocks") {
  const Specimen specimen(100);
  for (const auto &[kind, columns] : {std::pair(PartKind::Windows, 5),
                                      {PartKind::PacketBlocks, 3},
                                      {PartKind::Blobs, 5},
                                      {PartKind::Keyframes, 2}})
    for (int column = 0; column < columns; ++column)
      for (const uint64_t change : {uint64_t(1), ~uint64_t(0), uint64_t(1) << 33}) {
        INFO("part ", static_cast<int>(kind), " column ", column);
        for (size_t row = 0; row < 2; ++row) {
          ForgedTape tape = specimen.forge();
          bool changed = false;
          tape.editPart(kind, [&](PartTable &table) {
            if (row >= table.rows())
              return;
            uint64_t &cell = table.columns[static_cast<size_t>(column)][row];
            cell = column == 4 && kind == PartKind::Windows ? !cell : cell + change;
            changed = true;
          });
          if (changed)
            CHECK(tryAll(specimen, tape.assemble()) != "");
        }
      }
}

TEST_CASE("packets that refer to what is not there") {
  const Specimen specimen;
  // The second table of devices left out: packets after it name ids that nobody has.
  ForgedTape tape = specimen.forge();
  for (size_t i = tape.blocks.size(); i-- > 0;)
    if (tape.blocks[i].header.type == static_cast<uint16_t>(BlockType::Device)) {
      // Replaced in place by a block of an unknown type, so that nothing moves.
      tape.blocks[i].header.type = 900;
      break;
    }
  tape.editFooter([](FooterRecord &footer) { footer.tables.pop_back(); });
  CHECK(tryAll(specimen, tape.assemble()) == "bad-reference");

  tape = specimen.forge();
  tape.first(BlockType::Blob).header.type = 900;
  CHECK(tryAll(specimen, tape.assemble()) != "");

  // A message may say that a link leads forward; the verifier does not believe it.
  PacketBatch batch;
  Packet packet;
  packet.kind = PacketKind::DmaCompletion;
  PacketExtra extra;
  extra.link = 5;
  batch.append(packet, extra);
  const TemporaryDirectory directory;
  auto writer =
      expectValue(TapeWriter::create(directory.file("a.tape"), Manifest(), SessionOptions::fixedOptions()));
  expectSuccess(writer->append(Packet()));
  expectValue(writer->finish(Outcome()));
  Specimen small(100);
  small.bytes = readFile(directory.file("a.tape"));
  ForgedTape forged = small.forge();
  PacketEncoder encoder;
  expectSuccess(encoder.encode(batch, WindowEnd{1, false}, [&](llvm::ArrayRef<uint8_t> raw) {
    ForgedTape::setRaw(forged.first(BlockType::Packets), raw.vec());
    return llvm::Error::success();
  }));
  // The index block moved with it; make the tape fit again except for the link.
  CHECK(tryAll(small, forged.assemble()) == "bad-reference");
}

TEST_CASE("counts in a packets block that memory would be taken for") {
  const Specimen specimen;
  using Root = schema::Packets;
  const std::vector<std::pair<const char *, std::function<void(Root::Builder, uint32_t)>>> counts = {
      {"packets", [](Root::Builder root, uint32_t n) { root.setPacketCount(n); }},
      {"keys", [](Root::Builder root, uint32_t n) { root.setKeyCount(n); }},
      {"extras", [](Root::Builder root, uint32_t n) { root.setExtraCount(n); }},
      {"payloads", [](Root::Builder root, uint32_t n) { root.setPayloadCount(n); }},
      {"windows", [](Root::Builder root, uint32_t n) { root.setWindowCount(n); }}};
  for (const auto &[name, set] : counts)
    for (const uint32_t n :
         {0u, 1u, 100u, maxPacketsPerBlock, maxPacketsPerBlock + 1, 0x7fffffffu, 0xffffffffu}) {
      INFO(name, " ", n);
      ForgedTape tape = specimen.forge();
      ForgedBlock &block = tape.first(BlockType::Packets);
      ForgedTape::setRaw(block,
                         rebuild<Root>(ForgedTape::rawOf(block), [&](Root::Builder root) { set(root, n); }));
      block.header.itemCount = std::string(name) == "packets" ? n : block.header.itemCount;
      block.header.windowCount = std::string(name) == "windows" ? n : block.header.windowCount;
      CHECK(tryAll(specimen, tape.assemble()) != "");
    }
  // All columns constant: a few bytes that claim four billion packets.
  ForgedTape tape = specimen.forge();
  ForgedBlock &block = tape.first(BlockType::Packets);
  block.header.itemCount = 0xfffffff0;
  ForgedTape::setRaw(block, rebuild<Root>(ForgedTape::rawOf(block), [&](Root::Builder root) {
                       root.setPacketCount(0xfffffff0);
                       for (schema::Column::Builder column : root.getColumns()) {
                         column.setEncoding(0);
                         column.initData(8);
                       }
                     }));
  CHECK(tryAll(specimen, tape.assemble()) != "");
}

TEST_CASE("columns: unknown fields are skipped, unknown encodings and missing columns are not") {
  const TemporaryDirectory directory;
  SessionOptions options;
  options.packets = 50;
  options.keyframes = options.triggers = false;
  const Session session = writeSession(directory.file("a.tape"), options);
  const ForgedTape tape(readFile(directory.file("a.tape")));
  using Root = schema::Packets;
  // A block in which a window ends: it has every column that is looked at.
  auto windowEnds = [](const ForgedBlock &block) {
    bool ends = false;
    if (block.header.type == static_cast<uint16_t>(BlockType::Packets))
      rebuild<Root>(ForgedTape::rawOf(block), [&](Root::Builder root) {
        for (schema::Column::Reader column : root.asReader().getColumns())
          ends |= column.getField() == static_cast<uint16_t>(PacketField::WindowPackets);
      });
    return ends;
  };
  const auto found = std::find_if(tape.blocks.begin(), tape.blocks.end(), windowEnds);
  REQUIRE(found != tape.blocks.end());
  const Bytes raw = ForgedTape::rawOf(*found);
  BlockHeader header = found->header;
  auto decodeWith = [&](const std::function<void(Root::Builder)> &change, PacketBatch &batch) {
    const Bytes changed = rebuild<Root>(raw, change);
    WordBuffer buffer;
    const llvm::MutableArrayRef<uint8_t> aligned = buffer.bytes(changed.size());
    std::copy(changed.begin(), changed.end(), aligned.begin());
    PacketDecoder decoder;
    std::vector<WindowEnd> ends;
    return codeOf(decoder.decode(aligned, header, "x", batch, ends));
  };
  PacketBatch batch, wanted;
  CHECK(decodeWith([](Root::Builder) {}, wanted) == "");
  // A later version's column.
  CHECK(decodeWith(
            [](Root::Builder root) {
              auto copy = root.disownColumns();
              const auto old = copy.getReader();
              auto columns = root.initColumns(old.size() + 1);
              for (unsigned i = 0; i < old.size(); ++i) {
                columns[i].setField(old[i].getField());
                columns[i].setEncoding(old[i].getEncoding());
                columns[i].setData(old[i].getData());
              }
              columns[old.size()].setField(900);
              columns[old.size()].setEncoding(77);
              columns[old.size()].initData(3);
            },
            batch) == "");
  CHECK(batch.packets == wanted.packets);
  CHECK(batch.extras == wanted.extras);
  for (const PacketField field : {PacketField::IssueTime, PacketField::CompleteTime, PacketField::Key,
                                  PacketField::Value, PacketField::KeyKind, PacketField::Mask,
                                  PacketField::Payload, PacketField::PayloadHi, PacketField::WindowPackets}) {
    INFO("field ", static_cast<int>(field));
    CHECK(decodeWith([&](Root::Builder root) { columnOf(root, field).setEncoding(77); }, batch) ==
          "bad-message");
    CHECK(batch.packets.empty());
    CHECK(decodeWith([&](Root::Builder root) { columnOf(root, field).setField(901); }, batch) ==
          "bad-message");
    CHECK(decodeWith([&](Root::Builder root) { columnOf(root, field).initData(0); }, batch) == "bad-message");
    CHECK(decodeWith([&](Root::Builder root) { columnOf(root, field).initData(7); }, batch) == "bad-message");
    // Twice: the first column under this name too, unless it is this one.
    const auto number = static_cast<uint16_t>(field);
    if (field != PacketField::IssueTime)
      CHECK(decodeWith([&](Root::Builder root) { root.getColumns()[0].setField(number); }, batch) ==
            "bad-message");
  }
}

TEST_CASE("packets, origins and completions that no version knows survive being read") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  auto writer = expectValue(TapeWriter::create(path, Manifest(), SessionOptions::fixedOptions()));
  Packet packet;
  packet.kind = static_cast<PacketKind>(200);
  packet.origin = static_cast<Origin>(9);
  packet.completion = static_cast<Completion>(77);
  packet.flags = 0xff;
  PacketExtra extra;
  extra.link = 123456; // Whatever it means there.
  expectSuccess(writer->append(packet, extra));
  Outcome outcome;
  outcome.kind = static_cast<Outcome::Kind>(5);
  expectValue(writer->finish(outcome));
  expectValue(verifyTape(path));
  auto reader = expectValue(TapeReader::open(path));
  PacketBatch batch;
  expectSuccess(reader->readPackets(0, 1, batch));
  batch.packets[0].extra = 0;
  CHECK(batch.packets[0] == packet);
  CHECK(batch.extras[0] == extra);
  CHECK(static_cast<int>(reader->outcome().kind) == 5);
}

TEST_CASE("records that lie about their place") {
  const Specimen specimen;
  CHECK(withMessage<schema::Keyframe>(specimen, BlockType::Keyframe,
                                      [](auto root) { root.setPacket(root.getPacket() + 1); }) != "");
  CHECK(withMessage<schema::Keyframe>(specimen, BlockType::Keyframe,
                                      [](auto root) { root.setDevice(999); }) != "");
  CHECK(withMessage<schema::Keyframe>(specimen, BlockType::Keyframe,
                                      [](auto root) { root.getMemory()[0].setContentHi(5); }) != "");
  CHECK(withMessage<schema::Keyframe>(specimen, BlockType::Keyframe,
                                      [](auto root) { root.getRegisters()[0].setSpace(999); }) != "");
  CHECK(withMessage<schema::Trigger>(specimen, BlockType::Trigger,
                                     [](auto root) { root.setPacket(1u << 30); }) != "");
  CHECK(withMessage<schema::Outcome>(specimen, BlockType::Oracle,
                                     [](auto root) { root.setPacket(1u << 30); }) != "");
  CHECK(withMessage<schema::Tables>(specimen, BlockType::Device, [](auto root) { root.setFirstDevice(7); }) !=
        "");
  CHECK(withMessage<schema::Tables>(specimen, BlockType::Device,
                                    [](auto root) { root.setFirstSpace(~0u); }) != "");
  CHECK(withMessage<schema::Manifest>(specimen, BlockType::Manifest,
                                      [](auto root) { root.initParentRoot(3); }) != "");
  CHECK(withMessage<schema::Blobs>(specimen, BlockType::Blob, [](auto root) { root.getBytes()[0] ^= 1; }) !=
        "");
  for (const uint64_t n : {uint64_t(0), uint64_t(1), uint64_t(1) << 20, uint64_t(1) << 31, ~uint64_t(0)}) {
    CHECK(withMessage<schema::Blobs>(specimen, BlockType::Blob,
                                     [n](auto root) { root.getPieces()[0].setContentBytes(n); }) != "");
    if (n != 0)
      CHECK(withMessage<schema::Blobs>(specimen, BlockType::Blob,
                                       [n](auto root) { root.getPieces()[0].setOffset(n); }) != "");
    CHECK(withMessage<schema::Blobs>(specimen, BlockType::Blob, [n](auto root) {
            root.getPieces()[0].setLength(static_cast<uint32_t>(n) + 77777);
          }) != "");
  }
}

TEST_CASE("window ends that cannot be") {
  const Specimen specimen;
  using Root = schema::Packets;
  auto with = [&](const std::vector<uint64_t> &ends) {
    return withMessage<Root>(specimen, BlockType::Packets, [&](Root::Builder root) {
      std::vector<uint64_t> scratch;
      std::vector<uint64_t> all(root.getWindowCount());
      for (size_t i = 0; i < all.size(); ++i)
        all[i] = i < ends.size() ? ends[i] : 100 + i;
      const EncodedColumn column = encodeColumn(0, all, scratch);
      auto to = columnOf(root, PacketField::WindowPackets);
      to.setEncoding(static_cast<uint16_t>(column.encoding));
      column.write(to.initData(static_cast<unsigned>(column.bytes())).begin());
    });
  };
  CHECK(with({0, 5}) != "");                 // A window without packets.
  CHECK(with({5, 5}) != "");                 // Another.
  CHECK(with({5, 4}) != "");                 // Backwards.
  CHECK(with({5, 1u << 30}) != "");          // Beyond the block.
  CHECK(with({5, uint64_t(1) << 40}) != ""); // Beyond its type.
  CHECK(with({3, 6}) != "");                 // Possible, but not as the index has it.
}

TEST_CASE("an lz4 block that expands to the limit is bounded, and quick") {
  // 64 MiB of zeros in 260 KiB, behind a message that claims to be a blob.
  const Specimen specimen;
  ForgedTape tape = specimen.forge();
  ForgedBlock &block = tape.first(BlockType::Blob);
  Bytes raw(maxRawBytes);
  WordBuffer buffer;
  OutputFile file =
      expectValue(OutputFile::create(specimen.directory.file("x"), specimen.directory.file("x.partial")));
  BlockWriter writer(std::move(file), true);
  expectSuccess(writer.start(FileHeader()));
  BlockHeader header = block.header;
  expectSuccess(writer.write(header, raw));
  expectSuccess(writer.finish(0, false));
  const Bytes written = readFile(specimen.directory.file("x"));
  std::memcpy(&header, written.data() + 64, sizeof(header));
  block.stored.assign(written.begin() + 64 + sizeof(header),
                      written.begin() + 64 + sizeof(header) + header.storedSize);
  block.header.codec = header.codec;
  block.header.rawSize = header.rawSize;
  REQUIRE(block.stored.size() < 1u << 20);
  const auto start = std::chrono::steady_clock::now();
  CHECK(tryAll(specimen, tape.assemble()) != "");
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}
