// Names, signatures, sums of losses, and the records that are not packets.
#include "format/Records.h"

#include "format/BlobBlock.h"
#include "format/ContentId.h"
#include "tests/format/TapeSupport.h"
#include "llvm/Support/xxhash.h"
#include <set>

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("every kind of packet has a name of its own") {
  std::set<std::string> names;
  for (unsigned kind = 0; kind < packetKindCount; ++kind) {
    const char *name = packetKindName(static_cast<PacketKind>(kind));
    REQUIRE(name != nullptr);
    names.insert(name);
  }
  CHECK(names.size() == packetKindCount);
  CHECK(packetKindName(static_cast<PacketKind>(packetKindCount)) == nullptr);
  CHECK(packetKindName(static_cast<PacketKind>(255)) == nullptr);
  CHECK(std::string(packetKindName(PacketKind::LateCompletion)) == "late-completion");
  CHECK(std::string(packetKindName(PacketKind::Loss)) == "loss");
  CHECK(std::string(packetKindName(PacketKind::CounterSnapshot)) == "counter-snapshot");
}

TEST_CASE("a batch keeps extras only for packets that have one") {
  PacketBatch batch;
  PacketExtra extra;
  extra.length = 4;
  batch.append(Packet(), PacketExtra());
  batch.append(Packet(), extra);
  CHECK(batch.extras.size() == 1);
  CHECK(batch.extra(batch.packets[0]) == PacketExtra());
  CHECK(batch.extra(batch.packets[1]) == extra);
  Packet outOfRange;
  outOfRange.extra = 9;
  CHECK(batch.extra(outOfRange) == PacketExtra());
}

TEST_CASE("signatures match at levels, and do not when they must not") {
  Signature a;
  a.oracle = "check";
  a.name = "sum";
  a.offset = 4095;
  a.xorClass = 0x80;
  a.marker = "dma";
  a.markerOccurrence = 3;
  a.command = 7;
  Signature b = a;
  CHECK(matchSignatures(a, b) == SignatureMatch::Exact);
  b.xorClass = 0x81;
  CHECK(matchSignatures(a, b) == SignatureMatch::SamePlace);
  b = a;
  b.xorClass.reset();
  CHECK(matchSignatures(a, b) == SignatureMatch::SamePlace);
  b = a;
  b.command = 8;
  CHECK(matchSignatures(a, b) == SignatureMatch::SameKind);
  b = a;
  b.markerOccurrence = 4;
  CHECK(matchSignatures(a, b) == SignatureMatch::SameKind);
  b = a;
  b.offset.reset();
  CHECK(matchSignatures(a, b) == SignatureMatch::SameKind);
  b = a;
  b.name = "product";
  CHECK(matchSignatures(a, b) == SignatureMatch::None);
  b = a;
  b.oracle = "hang";
  CHECK(matchSignatures(a, b) == SignatureMatch::None);
  CHECK(std::string(signatureMatchName(SignatureMatch::SamePlace)) == "same-place");
}

TEST_CASE("losses add up by cause, and stay unknown once unknown") {
  LossSummary summary;
  CHECK_FALSE(summary.any());
  Packet loss;
  loss.kind = PacketKind::Loss;
  loss.value = 5;
  loss.address = static_cast<uint64_t>(LossCause::RingFull);
  summary.add(loss);
  summary.add(loss);
  CHECK(summary.packets[LossCause::RingFull] == 10);
  loss.value = unknownCount;
  summary.add(loss);
  loss.value = 1;
  summary.add(loss);
  CHECK(summary.packets[LossCause::RingFull] == unknownCount);
  loss.address = 0x10000;
  summary.add(loss);
  CHECK(summary.packets[LossCause::Unknown] == 1);
  CHECK(std::string(lossCauseName(static_cast<LossCause>(200))) == "unknown");
}

TEST_CASE("a digest is spelled in lower-case hexadecimal") {
  Digest digest{};
  digest[0] = 0xab;
  digest[31] = 0x01;
  CHECK(toHex(digest) == "ab" + std::string(60, '0') + "01");
}

TEST_CASE("hostile bytes of records are refused or decoded, never more") {
  // Every record of a real tape, damaged many times, through every decoder.
  const TemporaryDirectory directory;
  SessionOptions options;
  options.packets = 60;
  writeSession(directory.file("a.tape"), options);
  const ForgedTape tape(readFile(directory.file("a.tape")));
  std::mt19937_64 random(21);
  size_t refused = 0, accepted = 0;
  for (const ForgedBlock &block : tape.blocks) {
    const Bytes good = ForgedTape::rawOf(block);
    for (int round = 0; round < 300; ++round) {
      Bytes bad = good;
      for (unsigned i = 0; i <= random() % 4; ++i)
        bad[random() % std::min<size_t>(bad.size(), 512)] = static_cast<uint8_t>(random());
      if (random() % 6 == 0)
        bad.resize(random() % bad.size());
      WordBuffer buffer;
      const llvm::MutableArrayRef<uint8_t> raw = buffer.bytes(bad.size());
      std::copy(bad.begin(), bad.end(), raw.begin());
      std::vector<BlobPiece> pieces;
      llvm::ArrayRef<uint8_t> bytes;
      for (const std::string &code :
           {codeOf(decodeManifest(raw, "x")), codeOf(decodeTables(raw, "x")),
            codeOf(decodeKeyframe(raw, "x")), codeOf(decodeBlobs(raw, "x", pieces, bytes)),
            codeOf(decodeTrigger(raw, "x")), codeOf(decodeOutcome(raw, "x")), codeOf(decodePart(raw, "x", 5)),
            codeOf(decodeFooter(raw, "x"))}) {
        CHECK((code == "" || code == "bad-message"));
        ++(code == "" ? accepted : refused);
      }
    }
  }
  CHECK(refused > 1000);
  CHECK(accepted > 1000);
}

TEST_CASE("a content's identity is XXH3-128 whatever computes it") {
  std::mt19937_64 random(9);
  Bytes bytes(300'000);
  for (uint8_t &byte : bytes)
    byte = static_cast<uint8_t>(random());
  auto check = [&](llvm::ArrayRef<uint8_t> content) {
    const llvm::XXH128_hash_t hash = llvm::xxh3_128bits(content);
    CHECK(contentId(content) == BlobId{hash.high64, hash.low64});
  };
  for (size_t size = 0; size < 2200; ++size)
    check(llvm::ArrayRef<uint8_t>(bytes).slice(size % 64, size));
  for (int round = 0; round < 100; ++round) {
    const size_t begin = random() % 1000;
    check(llvm::ArrayRef<uint8_t>(bytes).slice(begin, random() % (bytes.size() - begin)));
  }
}

TEST_CASE("contents laid out by hand are the message that the schema says") {
  std::mt19937_64 random(10);
  BlobBlock block;
  for (int round = 0; round < 60; ++round) {
    Bytes all;
    std::vector<BlobPiece> pieces;
    for (size_t n = 1 + random() % 40; n > 0; --n) {
      Bytes content(random() % 4 ? random() % 50 : random() % 5000);
      for (uint8_t &byte : content)
        byte = static_cast<uint8_t>(random());
      pieces.push_back({{random(), random()}, content.size(), 0, static_cast<uint32_t>(content.size())});
      block.add(pieces.back(), content);
      all.insert(all.end(), content.begin(), content.end());
    }
    CHECK(block.contentBytes() == all.size());
    CHECK(block.pieceCount() == pieces.size());
    block.seal();
    std::vector<BlobPiece> read;
    llvm::ArrayRef<uint8_t> bytes;
    expectSuccess(decodeBlobs(block.raw().bytes(block.rawBytes()), "here", read, bytes));
    CHECK(bytes == llvm::ArrayRef<uint8_t>(all));
    REQUIRE(read.size() == pieces.size());
    for (size_t i = 0; i < read.size(); ++i)
      CHECK((read[i].id == pieces[i].id && read[i].contentBytes == pieces[i].contentBytes &&
             read[i].offset == 0 && read[i].length == pieces[i].length));
    block.clear();
    if (round % 7 == 0) {
      WordBuffer other; // What was handed to another thread.
      std::swap(block.raw(), other);
    }
  }
}
