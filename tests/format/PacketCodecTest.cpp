// Columns and packets: what goes in comes out, whatever it is; what cannot have come out of the encoder is
// refused.
#include "format/PacketCodec.h"

#include "format/WordBuffer.h"
#include "tests/format/TapeSupport.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

struct Encoded {
  Bytes raw;
  BlockHeader header;
};

Encoded encode(PacketEncoder &encoder, const PacketBatch &batch, llvm::ArrayRef<WindowEnd> ends = {}) {
  Encoded result;
  expectSuccess(encoder.encode(batch, ends, [&](llvm::ArrayRef<uint8_t> raw) {
    result.raw = raw.vec();
    return llvm::Error::success();
  }));
  result.header.itemCount = static_cast<uint32_t>(batch.packets.size());
  result.header.windowCount = static_cast<uint32_t>(ends.size());
  return result;
}

struct Decoded {
  std::string code;
  PacketBatch batch;
  std::vector<WindowEnd> ends;
};

Decoded decode(PacketDecoder &decoder, const Encoded &encoded) {
  WordBuffer buffer;
  const llvm::MutableArrayRef<uint8_t> raw = buffer.bytes(encoded.raw.size());
  std::copy(encoded.raw.begin(), encoded.raw.end(), raw.begin());
  Decoded result;
  result.code = codeOf(decoder.decode(raw, encoded.header, "here", result.batch, result.ends));
  return result;
}

uint64_t extreme(std::mt19937_64 &random) {
  switch (random() % 6) {
  case 0: return 0;
  case 1: return ~uint64_t(0);
  case 2: return uint64_t(1) << (random() % 64);
  case 3: return random() % 300;
  default: return random();
  }
}

/// Packets with `variety` different shapes and addresses; 0: as many as there can be.
PacketBatch randomBatch(std::mt19937_64 &random, size_t count, uint64_t variety) {
  auto pick = [&] { return variety ? extreme(random) % variety : extreme(random); };
  PacketBatch batch;
  for (size_t i = 0; i < count; ++i) {
    Packet packet;
    packet.issueTime = extreme(random);
    packet.completeTime = extreme(random);
    packet.address = pick();
    packet.value = extreme(random);
    packet.device = static_cast<uint16_t>(pick());
    packet.thread = static_cast<uint16_t>(pick());
    packet.space = static_cast<uint16_t>(pick());
    packet.width = static_cast<uint8_t>(pick());
    packet.clock = static_cast<uint8_t>(pick());
    packet.kind = static_cast<PacketKind>(pick());
    packet.origin = static_cast<Origin>(pick());
    packet.completion = static_cast<Completion>(pick());
    packet.flags = static_cast<uint8_t>(pick());
    PacketExtra extra;
    if (random() % 3 == 0) {
      extra.mask = extreme(random);
      extra.expected = extreme(random);
      extra.deadline = extreme(random);
      extra.length = extreme(random);
      extra.link = extreme(random);
      extra.count = extreme(random);
      if (random() % 2)
        extra.payload = {pick(), extreme(random) % 50};
    }
    batch.append(packet, extra);
  }
  return batch;
}

bool sameBatch(const PacketBatch &a, const PacketBatch &b) {
  if (a.packets.size() != b.packets.size())
    return false;
  for (size_t i = 0; i < a.packets.size(); ++i) {
    Packet x = a.packets[i], y = b.packets[i];
    if (!(a.extra(x) == b.extra(y)))
      return false;
    x.extra = y.extra = 0;
    if (!(x == y))
      return false;
  }
  return true;
}

std::vector<WindowEnd> randomEnds(std::mt19937_64 &random, size_t count) {
  std::vector<WindowEnd> ends;
  for (size_t place = random() % 2; place <= count; place += 1 + random() % 20)
    ends.push_back({static_cast<uint32_t>(place), random() % 2 == 0});
  return ends;
}

} // namespace

TEST_CASE("columns give back every number, at the extremes too") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<uint64_t> values(random() % 50), scratch, back(values.size());
    const uint64_t start = extreme(random), step = extreme(random);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = round % 3 == 0 ? extreme(random) : round % 3 == 1 ? start + i * step : start;
    const EncodedColumn column = encodeColumn(7, values, scratch);
    Bytes data(column.bytes());
    column.write(data.data());
    const auto encoding = static_cast<uint16_t>(column.encoding);
    REQUIRE(decodeColumn({7, encoding, data}, back));
    CHECK(back == values);
    // Not a byte more, not a byte less.
    data.push_back(0);
    CHECK_FALSE(decodeColumn({7, encoding, data}, back));
    data.resize(data.size() - 2);
    CHECK_FALSE(decodeColumn({7, encoding, data}, back));
    CHECK_FALSE(decodeColumn({7, 99, data}, back));
  }
}

TEST_CASE("a column that does not change costs eight bytes, one that walks costs nothing a row") {
  std::vector<uint64_t> same(1000, 77), walking(1000), scratch;
  for (size_t i = 0; i < walking.size(); ++i)
    walking[i] = 0x1234567800 + 64 * i;
  CHECK(encodeColumn(1, same, scratch).bytes() == 8);
  CHECK(encodeColumn(1, walking, scratch).bytes() == 8 + 1 + 1000);
}

TEST_CASE("planes made piece by piece are those of the whole column") {
  std::mt19937_64 random(6);
  PlaneSet planes;
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> values(1 + random() % 400);
    const unsigned shift = random() % 64;
    for (uint64_t &value : values)
      value = random() % 20 == 0 ? random() >> shift : random() % 3;
    planes.clear(values.size());
    for (llvm::ArrayRef<uint64_t> rest = values; !rest.empty();) {
      const auto piece = rest.take_front(random() % 100);
      uint64_t orOfAll = 0;
      for (const uint64_t value : piece)
        orOfAll |= value;
      planes.add(piece, orOfAll);
      rest = rest.drop_front(piece.size());
    }
    EncodedColumn whole{1, Encoding::Planes, 0, planes.mask(), values, nullptr}, pieces = whole;
    pieces.residuals = {};
    pieces.planes = &planes;
    REQUIRE(pieces.bytes() == whole.bytes());
    Bytes expected(whole.bytes()), made(whole.bytes());
    whole.write(expected.data());
    pieces.write(made.data());
    CHECK(made == expected);
    std::vector<uint64_t> back(values.size());
    REQUIRE(decodePlanes(made, back));
    CHECK(back == values);
  }
}

TEST_CASE("packets of any kind survive a block, and blocks do not depend on each other") {
  std::mt19937_64 random(11);
  PacketEncoder encoder;
  PacketDecoder decoder;
  for (const uint64_t variety : {1, 2, 5, 40, 300, 5000, 0})
    for (const size_t count : {0, 1, 2, 7, 300, 3000}) {
      const PacketBatch batch = randomBatch(random, count, variety);
      const std::vector<WindowEnd> ends = randomEnds(random, count);
      const Decoded back = decode(decoder, encode(encoder, batch, ends));
      REQUIRE(back.code == "");
      CHECK(sameBatch(batch, back.batch));
      CHECK(back.ends == ends);
    }
}

TEST_CASE("traffic survives, and a reused batch holds nothing of the block before") {
  PacketEncoder encoder;
  PacketDecoder decoder;
  PacketBatch batch, reused;
  std::vector<WindowEnd> ends;
  for (const char *kind : {"registers", "ring", "registers"}) {
    batch.packets = traffic(kind, 20000, 3);
    const Encoded encoded = encode(encoder, batch);
    WordBuffer buffer;
    const llvm::MutableArrayRef<uint8_t> raw = buffer.bytes(encoded.raw.size());
    std::copy(encoded.raw.begin(), encoded.raw.end(), raw.begin());
    expectSuccess(decoder.decode(raw, encoded.header, "here", reused, ends));
    CHECK(sameBatch(batch, reused));
    CHECK(encoded.raw.size() < 20000 * 12);
  }
}

TEST_CASE("the same packets give the same bytes") {
  std::mt19937_64 random(12);
  const PacketBatch batch = randomBatch(random, 500, 30);
  PacketEncoder first, second;
  encode(second, randomBatch(random, 900, 0));
  CHECK(encode(first, batch).raw == encode(second, batch).raw);
}

TEST_CASE("damaged bytes of a block are refused or decoded, never followed out of bounds") {
  std::mt19937_64 random(13);
  PacketEncoder encoder;
  PacketDecoder decoder;
  size_t refused = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t count = 1 + random() % 60;
    const Encoded good = encode(encoder, randomBatch(random, count, 20), randomEnds(random, count));
    for (int hit = 0; hit < 100; ++hit) {
      Encoded bad = good;
      // Mostly the message's structure, where pointers and counts are.
      const size_t limit = random() % 3 ? std::min<size_t>(bad.raw.size(), 400) : bad.raw.size();
      for (unsigned i = 0; i <= random() % 3; ++i)
        bad.raw[random() % limit] = static_cast<uint8_t>(random());
      if (random() % 8 == 0)
        bad.raw.resize(random() % bad.raw.size());
      const Decoded back = decode(decoder, bad);
      if (back.code != "") {
        CHECK(back.code == "bad-message");
        CHECK(back.batch.packets.empty());
        ++refused;
        continue;
      }
      // Then it has the shape of a block: extras and counts as declared.
      CHECK(back.batch.packets.size() == count);
      for (const Packet &packet : back.batch.packets)
        CHECK(packet.extra <= back.batch.extras.size());
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("counts that do not fit the header are refused") {
  std::mt19937_64 random(14);
  PacketEncoder encoder;
  PacketDecoder decoder;
  Encoded encoded = encode(encoder, randomBatch(random, 10, 3));
  encoded.header.itemCount = 11;
  CHECK(decode(decoder, encoded).code == "bad-message");
  encoded.header.itemCount = 10;
  encoded.header.windowCount = 1;
  CHECK(decode(decoder, encoded).code == "bad-message");
  encoded.header.windowCount = 0;
  CHECK(decode(decoder, encoded).code == "");
}
