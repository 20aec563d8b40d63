// Recovery: whatever happened to the tape, what comes out verifies, has only packets that were written, says
// what is missing, and keeps what refers to what.
#include "tests/format/TapeSupport.h"

#include <fcntl.h>
#include <optional>
#include <sys/file.h>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr uint64_t lostOrdinal = ~uint64_t(0) - 1;

struct Checked {
  uint64_t kept = 0, lost = 0, unknownLosses = 0;
  std::vector<uint64_t>
      original; ///< Of each packet on the recovered tape; lostOrdinal for a Loss of the recovery.
};

bool isRecoveryLoss(const Packet &packet) {
  // Packets of a (not wild) session have a width.
  return packet.kind == PacketKind::Loss && packet.width == 0 && packet.origin == Origin::Recorder;
}

/// Compares a recovered tape with what was written. Fails the test for every packet that was not.
Checked expectRecovered(const std::string &path, const Session &session) {
  Checked checked;
  expectValue(verifyTape(path));
  auto reader = expectValue(TapeReader::open(path));
  PacketBatch batch;
  uint64_t next = 0;
  size_t wrong = 0, wrongLinks = 0, wrongPayloads = 0;
  for (uint64_t read = 0;; read += batch.packets.size()) {
    expectSuccess(reader->readBlockFrom(read, batch));
    if (batch.packets.empty())
      break;
    for (const Packet &packet : batch.packets) {
      if (isRecoveryLoss(packet)) {
        checked.original.push_back(lostOrdinal);
        if (packet.value == unknownCount)
          ++checked.unknownLosses;
        else
          checked.lost += packet.value, next += packet.value;
        continue;
      }
      checked.original.push_back(next);
      if (next >= session.packets.size()) {
        ++wrong;
        continue;
      }
      Packet was = session.packets[next], is = packet;
      PacketExtra wasExtra = session.extraOf(next), isExtra = batch.extra(packet);
      ++next;
      was.extra = is.extra = 0;
      if (isExtra.payload != wasExtra.payload) { // Lost, and then it says so.
        wrongPayloads += isExtra.payload || !(is.flags & NotCaptured);
        was.flags |= NotCaptured;
      } else if (isExtra.payload) {
        const auto content = expectValue(reader->blob(isExtra.payload));
        wrongPayloads +=
            content != llvm::ArrayRef<uint8_t>(session.blobs.at({isExtra.payload.hi, isExtra.payload.lo}));
      }
      if (linksToPacket(is.kind) && isExtra.link != noLink)
        wrongLinks +=
            isExtra.link >= checked.original.size() || checked.original[isExtra.link] != wasExtra.link;
      else if (!linksToPacket(is.kind))
        wrongLinks += isExtra.link != wasExtra.link;
      isExtra.payload = wasExtra.payload;
      isExtra.link = wasExtra.link;
      wrong += !(was == is && wasExtra == isExtra);
      ++checked.kept;
    }
  }
  CHECK(wrong == 0);
  CHECK(wrongLinks == 0);
  CHECK(wrongPayloads == 0);
  if (checked.unknownLosses == 0)
    CHECK(next == session.packets.size());
  for (const TapeReader::TriggerRecord &trigger : expectValue(reader->triggers())) {
    const uint64_t packet = checked.original[trigger.packet];
    bool found = packet == lostOrdinal;
    for (const auto &[at, text] : session.triggers)
      found = found || (at == packet && text == trigger.text);
    CHECK(found);
  }
  if (reader->outcome().packet)
    CHECK(checked.original[*reader->outcome().packet] == *session.outcome.packet);
  for (uint64_t n = 0; n < reader->keyframeCount(); ++n) {
    const Keyframe keyframe = expectValue(reader->keyframe(n));
    if (keyframe.packet < checked.original.size() && checked.original[keyframe.packet] != lostOrdinal) {
      const uint64_t packet = checked.original[keyframe.packet];
      bool found = false;
      for (const Keyframe &wanted : session.keyframes)
        found = found || wanted.packet == packet;
      CHECK(found);
    }
  }
  CHECK(reader->manifest().parentRoot);
  CHECK(reader->manifest().derivation == "recover");
  return checked;
}

struct Specimen {
  explicit Specimen(size_t packets = 500, uint32_t block = 64 << 10, bool compress = true) {
    SessionOptions options;
    options.seed = 9;
    options.packets = packets;
    options.maxBlob = 60;
    options.foreignBlocks = true;
    options.writer.blockRawBytes = block;
    options.writer.compress = compress;
    session = writeSession(file("a.tape"), options);
    bytes = readFile(file("a.tape"));
  }
  std::string file(const std::string &name) const { return directory.file(name); }
  RecoverReport recover(const Bytes &damaged) {
    writeFile(file("bad.tape"), damaged);
    return expectValue(recoverTape(file("bad.tape"), file("out.tape"), {.syncOnFinish = false}));
  }
  TemporaryDirectory directory;
  Session session;
  Bytes bytes;
};

bool mentions(const RecoverReport &report, const std::string &text) {
  for (const std::string &note : report.notes)
    if (note.find(text) != std::string::npos)
      return true;
  return false;
}

} // namespace

TEST_CASE("a whole tape is copied as it is") {
  Specimen specimen;
  const RecoverReport report = specimen.recover(specimen.bytes);
  CHECK(report.wasComplete);
  CHECK_FALSE(report.lostAnything());
  CHECK(report.packetsKept == specimen.session.packets.size());
  CHECK(report.windowsKept == specimen.session.windows.size());
  CHECK(readFile(specimen.file("out.tape")) == specimen.bytes);
}

TEST_CASE("a tape cut anywhere gives back all whole blocks before the cut") {
  Specimen specimen;
  const ForgedTape tape(specimen.bytes);
  std::vector<size_t> cuts;
  for (const ForgedBlock &block : tape.blocks)
    for (const size_t cut : {block.oldOffset - 1, block.oldOffset, block.oldOffset + 1})
      cuts.push_back(cut);
  for (size_t cut = 64; cut < specimen.bytes.size(); cut += 397)
    cuts.push_back(cut);
  for (const size_t cut : cuts) {
    INFO("cut at byte ", cut);
    const Bytes damaged(specimen.bytes.begin(), specimen.bytes.begin() + static_cast<std::ptrdiff_t>(cut));
    if (cut < tape.blocks[1].oldOffset) {
      writeFile(specimen.file("bad.tape"), damaged);
      const std::string code =
          codeOf(recoverTape(specimen.file("bad.tape"), specimen.file("out.tape"), {.syncOnFinish = false}));
      CHECK((code == "nothing-to-recover" || code == "not-a-tape"));
      continue;
    }
    const RecoverReport report = specimen.recover(damaged);
    const Checked checked = expectRecovered(specimen.file("out.tape"), specimen.session);
    uint64_t whole = 0, outcomeEnd = 0;
    for (const ForgedBlock &block : tape.blocks) {
      if (block.oldOffset + blockBytes(block.header) > cut)
        break;
      if (block.header.type == static_cast<uint16_t>(BlockType::Packets))
        whole += block.header.itemCount;
      if (block.header.type == static_cast<uint16_t>(BlockType::Oracle))
        outcomeEnd = block.oldOffset + blockBytes(block.header);
    }
    CHECK(checked.kept == whole);
    CHECK(report.packetsKept == whole);
    CHECK(report.indexRebuilt);
    // Once the outcome is there, only the index can be missing.
    CHECK(report.unknownLoss == (outcomeEnd == 0));
    CHECK(checked.unknownLosses == (outcomeEnd == 0));
    CHECK(report.lostAnything() == (outcomeEnd == 0));
    CHECK(::access(specimen.file("out.tape.recover.partial").c_str(), F_OK) != 0);
  }
}

TEST_CASE("each block lost alone: what it held is counted, the rest is there") {
  // Blocks of 64 KiB raw hold about a thousand packets.
  Specimen specimen(6000);
  const ForgedTape tape(specimen.bytes);
  size_t packetBlocks = 0;
  for (const ForgedBlock &block : tape.blocks) {
    INFO("block ", block.header.sequence, " ", blockTypeName(block.header.type));
    Bytes damaged = specimen.bytes;
    damaged[block.oldOffset + sizeof(BlockHeader) + block.stored.size() / 2] ^= 0x10;
    const RecoverReport report = specimen.recover(damaged);
    const Checked checked = expectRecovered(specimen.file("out.tape"), specimen.session);
    const auto type = static_cast<BlockType>(block.header.type);
    const bool index = type == BlockType::Index || type == BlockType::Footer;
    const uint64_t lost = type == BlockType::Packets ? block.header.itemCount : 0;
    CHECK(checked.lost == lost);
    CHECK(report.packetsLost == lost);
    CHECK(checked.kept == specimen.session.packets.size() - lost);
    CHECK(checked.unknownLosses == 0);
    CHECK(report.blocksLost == (index ? 0 : 1));
    CHECK(report.lostAnything() == !index);
    CHECK(mentions(report, "belong to no whole block"));
    if (type == BlockType::Manifest)
      CHECK(mentions(report, "the manifest was lost"));
    if (type == BlockType::Device)
      CHECK(mentions(report, "a table of devices, spaces or clocks was lost"));
    if (type == BlockType::Oracle)
      CHECK(mentions(report, "how the run ended is not known"));
    if (type == BlockType::Blob)
      CHECK(report.payloadsLost > 0);
    if (type == BlockType::Packets) {
      ++packetBlocks;
      CHECK(mentions(report, "those after it have new numbers"));
      auto reader = expectValue(TapeReader::open(specimen.file("out.tape")));
      uint64_t damage = 0;
      for (const auto &[cause, count] : reader->summary().loss.packets)
        if (cause == LossCause::Damage)
          damage = count;
      CHECK(damage >= lost); // The session has Loss packets of its own.
    }
  }
  CHECK(packetBlocks > 3);
}

TEST_CASE("random damage: what comes out verifies and holds only what was written") {
  Specimen specimen(3000);
  std::mt19937_64 random(41);
  uint64_t kept = 0;
  for (int round = 0; round < 60; ++round) {
    INFO("round ", round);
    Bytes damaged = specimen.bytes;
    const size_t place = random() % damaged.size(), length = 1 + random() % 3000;
    switch (round % 4) {
    case 0: // Overwritten.
      for (size_t i = place; i < std::min(place + length, damaged.size()); ++i)
        damaged[i] = static_cast<uint8_t>(random());
      break;
    case 1: // Cut out.
      damaged.erase(damaged.begin() + static_cast<std::ptrdiff_t>(place),
                    damaged.begin() + static_cast<std::ptrdiff_t>(std::min(place + length, damaged.size())));
      break;
    case 2: // Something in between.
      damaged.insert(damaged.begin() + static_cast<std::ptrdiff_t>(place), length, 0xf1);
      break;
    default: // Two flipped bits far from each other.
      damaged[place] ^= 1;
      damaged[random() % damaged.size()] ^= 1;
    }
    specimen.recover(damaged);
    kept += expectRecovered(specimen.file("out.tape"), specimen.session).kept;
  }
  CHECK(kept > 60 * 1000);
}

TEST_CASE("the file's header lost, the tape is found by its blocks") {
  Specimen specimen;
  Bytes damaged = specimen.bytes;
  std::fill(damaged.begin(), damaged.begin() + 64, 0);
  CHECK(specimen.recover(damaged).packetsKept == 500);
  const Checked checked = expectRecovered(specimen.file("out.tape"), specimen.session);
  CHECK(checked.kept == 500);
  CHECK(checked.lost == 0);
}

TEST_CASE("blocks out of order or doubled are put right") {
  Specimen specimen(6000);
  ForgedTape tape(specimen.bytes);
  std::vector<size_t> packets;
  for (size_t i = 0; i < tape.blocks.size(); ++i)
    if (tape.blocks[i].header.type == static_cast<uint16_t>(BlockType::Packets))
      packets.push_back(i);
  REQUIRE(packets.size() > 2);
  // Bytes moved, nothing sealed again.
  auto slice = [&](const ForgedBlock &block) {
    const auto from = specimen.bytes.begin() + static_cast<std::ptrdiff_t>(block.oldOffset);
    return Bytes(from, from + static_cast<std::ptrdiff_t>(blockBytes(block.header)));
  };
  Bytes damaged(specimen.bytes.begin(), specimen.bytes.begin() + 64);
  std::swap(tape.blocks[packets[0]], tape.blocks[packets[2]]);
  tape.blocks.insert(tape.blocks.begin() + static_cast<std::ptrdiff_t>(packets[1]), tape.blocks[packets[1]]);
  for (const ForgedBlock &block : tape.blocks) {
    const Bytes bytes = slice(block);
    damaged.insert(damaged.end(), bytes.begin(), bytes.end());
  }
  const RecoverReport report = specimen.recover(damaged);
  CHECK(mentions(report, "out of order"));
  CHECK(mentions(report, "twice"));
  CHECK(report.packetsLost == 0);
  CHECK(expectRecovered(specimen.file("out.tape"), specimen.session).kept == 6000);
}

TEST_CASE("a large content loses a piece: it is lost as a whole, and its packets say so") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  Session session;
  auto writer = expectValue(TapeWriter::create(path, Manifest(), SessionOptions::fixedOptions()));
  for (unsigned n = 0; n < 3; ++n) {
    Bytes content(5u << 18);
    for (size_t i = 0; i < content.size(); ++i)
      content[i] = static_cast<uint8_t>((i >> 10) * (n + 1));
    PacketExtra extra;
    extra.payload = expectValue(writer->blob(content));
    session.blobs[{extra.payload.hi, extra.payload.lo}] = content;
    Packet packet;
    packet.kind = PacketKind::MemoryWrite;
    packet.width = 1;
    expectSuccess(writer->append(packet, extra));
    session.extras.push_back(extra);
    packet.extra = n + 1;
    session.packets.push_back(packet);
  }
  expectValue(writer->finish(Outcome()));
  Bytes damaged = readFile(path);
  const ForgedTape tape(damaged);
  std::vector<const ForgedBlock *> pieces;
  for (const ForgedBlock &block : tape.blocks)
    if (block.header.type == static_cast<uint16_t>(BlockType::Blob))
      pieces.push_back(&block);
  REQUIRE(pieces.size() == 9);
  for (const size_t hit : {0, 4, 8}) { // First, middle and last piece.
    damaged = readFile(path);
    damaged[pieces[hit]->oldOffset + sizeof(BlockHeader)] ^= 1;
    writeFile(directory.file("bad.tape"), damaged);
    const RecoverReport report = expectValue(
        recoverTape(directory.file("bad.tape"), directory.file("out.tape"), {.syncOnFinish = false}));
    CHECK(report.payloadsLost == 1);
    CHECK(report.lostAnything());
    CHECK(expectRecovered(directory.file("out.tape"), session).kept == 3);
    CHECK(expectValue(verifyTape(directory.file("out.tape"))).blobs == 2);
  }
}

TEST_CASE("a tape inside a tape is not mistaken for it") {
  // A program that handles tapes has them in memory, and memory is captured.
  Specimen inner;
  const TemporaryDirectory directory;
  WriterOptions options = SessionOptions::fixedOptions();
  options.tapeId[0] = 1;
  options.compress = false;
  auto writer = expectValue(TapeWriter::create(directory.file("a.tape"), Manifest(), options));
  PacketExtra extra;
  extra.payload = expectValue(writer->blob(inner.bytes));
  expectSuccess(writer->append(Packet(), extra));
  expectValue(writer->finish(Outcome()));
  Bytes damaged = readFile(directory.file("a.tape"));
  const ForgedTape tape(damaged);
  const size_t blob = tape.indexOf(BlockType::Blob);
  damaged[tape.blocks[blob].oldOffset] ^= 1;
  for (const bool header : {true, false}) {
    if (!header)
      damaged[0] ^= 1;
    writeFile(directory.file("bad.tape"), damaged);
    const RecoverReport report = expectValue(
        recoverTape(directory.file("bad.tape"), directory.file("out.tape"), {.syncOnFinish = false}));
    CHECK(report.packetsKept == 1);
    CHECK(report.payloadsLost == 1);
    CHECK(expectValue(verifyTape(directory.file("out.tape"))).packets == 1);
  }
}

TEST_CASE("blocks of later versions are carried along, contents of forged ones are not believed") {
  Specimen specimen;
  const ForgedTape tape(specimen.bytes);
  uint64_t unknown = 0;
  for (const ForgedBlock &block : tape.blocks)
    unknown += block.header.type >= blockTypeCount;
  REQUIRE(unknown > 0);
  Bytes damaged = specimen.bytes;
  damaged.back() ^= 1;
  specimen.recover(damaged);
  CHECK(expectValue(verifyTape(specimen.file("out.tape"))).unknownBlocks == unknown);

  // Sealed, but nonsense inside: lost like any other block.
  for (size_t i = 1; i < tape.blocks.size(); ++i) {
    if (tape.blocks[i].header.type >= blockTypeCount)
      continue;
    INFO("block ", i, " ", blockTypeName(tape.blocks[i].header.type));
    ForgedTape forged = tape;
    ForgedTape::setRaw(forged.blocks[i], Bytes(64, 0xee));
    const RecoverReport report = specimen.recover(forged.assemble(true));
    expectRecovered(specimen.file("out.tape"), specimen.session);
    CHECK_FALSE(report.wasComplete);
  }
}

TEST_CASE("what a killed writer left is recovered under the name the tape would have had") {
  Specimen specimen;
  writeFile(specimen.file("run.tape.partial"), Bytes(specimen.bytes.begin(), specimen.bytes.end() - 3000));
  expectValue(
      recoverTape(specimen.file("run.tape.partial"), specimen.file("run.tape"), {.syncOnFinish = false}));
  expectRecovered(specimen.file("run.tape"), specimen.session);
  CHECK(readFile(specimen.file("run.tape.partial")).size() == specimen.bytes.size() - 3000);
}

TEST_CASE("what a killed recovery left goes with the next one, but not what a living one writes") {
  Specimen specimen;
  const std::string partial = specimen.file("out.tape.recover.partial");
  writeFile(specimen.file("cut.tape"), Bytes(specimen.bytes.begin(), specimen.bytes.end() - 3000));
  for (const char *from : {"cut.tape", "whole.tape"}) {
    writeFile(specimen.file("whole.tape"), specimen.bytes);
    writeFile(partial, Bytes(5000, 0x7b));
    expectValue(recoverTape(specimen.file(from), specimen.file("out.tape"), {.syncOnFinish = false}));
    CHECK(::access(partial.c_str(), F_OK) != 0);
    CHECK(::access((partial + ".stale").c_str(), F_OK) != 0);
  }
  writeFile(partial, Bytes(5000, 0x7b));
  const int held = ::open(partial.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(held, LOCK_EX | LOCK_NB) == 0);
  CHECK(codeOf(recoverTape(specimen.file("cut.tape"), specimen.file("out.tape"), {.syncOnFinish = false})) ==
        "already-being-written");
  CHECK(readFile(partial).size() == 5000);
  ::close(held);
}

TEST_CASE("what cannot be recovered is refused, and leaves nothing") {
  Specimen specimen;
  const std::string out = specimen.file("out.tape");
  auto refused = [&](const Bytes &bytes) {
    writeFile(specimen.file("bad.tape"), bytes);
    const std::string code = codeOf(recoverTape(specimen.file("bad.tape"), out, {.syncOnFinish = false}));
    CHECK(::access(out.c_str(), F_OK) != 0);
    CHECK(::access((out + ".recover.partial").c_str(), F_OK) != 0);
    return code;
  };
  CHECK(refused({}) == "not-a-tape");
  CHECK(refused(Bytes(100'000, 0xf1)) == "not-a-tape");
  CHECK(refused(Bytes(specimen.bytes.begin(), specimen.bytes.begin() + 64)) == "nothing-to-recover");
  ForgedTape newer(specimen.bytes);
  newer.header.minimumReader = tapeReaderVersion + 1;
  CHECK(refused(newer.assemble()) == "newer-version");
  CHECK(codeOf(recoverTape(specimen.file("missing.tape"), out, {.syncOnFinish = false})) == "no-such-file");
  writeFile(specimen.file("bad.tape"), specimen.bytes);
  CHECK(codeOf(recoverTape(specimen.file("bad.tape"), specimen.file("bad.tape"), {.syncOnFinish = false})) ==
        "same-file");
  CHECK(codeOf(recoverTape(specimen.file("bad.tape"), specimen.file("no/such/out.tape"),
                           {.syncOnFinish = false})) == "cannot-create");
}

TEST_CASE("headers forged to make the scan slow are given up, not hashed for ever") {
  // Each claims the whole rest of the file; hashing all of them would be quadratic.
  Specimen specimen(20);
  Bytes damaged = specimen.bytes;
  damaged.resize(damaged.size() - sizeof(Tail));
  BlockHeader header = ForgedTape(specimen.bytes).blocks[0].header;
  const size_t total = 8u << 20;
  while (damaged.size() < total) {
    header.codec = static_cast<uint8_t>(Codec::None);
    header.rawSize = header.storedSize = static_cast<uint32_t>(total - damaged.size());
    header.check = checkOf(header);
    damaged.insert(damaged.end(), bytesOf(header).begin(), bytesOf(header).end());
  }
  damaged.resize(total + 1024);
  const RecoverReport report = specimen.recover(damaged);
  CHECK(report.packetsKept == 20);
}
