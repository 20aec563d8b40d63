// Accidents: cut files, flipped bits, files that shrink while they are open. Nothing crashes, nothing
// verifies that should not, and no packet comes back that was not written.
#include "tests/format/TapeSupport.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

/// Small enough to try every byte, and with everything in it.
struct Specimen {
  explicit Specimen(uint64_t seed = 7) {
    SessionOptions options;
    options.seed = seed;
    options.packets = 400;
    options.maxBlob = 60;
    options.foreignBlocks = true;
    session = writeSession(directory.file("a.tape"), options);
    bytes = readFile(directory.file("a.tape"));
    REQUIRE(bytes.size() < 64 * 1024);
    REQUIRE(bytes.size() > 8 * 1024);
  }
  TemporaryDirectory directory;
  Session session;
  Bytes bytes;
};

/// Reads all that can be read; returns how many packets came, and counts those that are not the session's.
size_t readAll(TapeReader &reader, const Session &session, size_t &wrong) {
  size_t read = 0;
  PacketBatch batch;
  for (uint64_t n = 0; n < reader.summary().windows && n < 10'000; ++n) {
    llvm::Expected<WindowInfo> info = reader.window(n);
    if (!info) {
      llvm::consumeError(info.takeError());
      continue;
    }
    if (codeOf(reader.readWindow(n, batch)) != "") {
      wrong += !batch.packets.empty();
      continue;
    }
    for (size_t i = 0; i < batch.packets.size(); ++i)
      wrong += !samePacket(session, info->firstPacket + i, batch, i);
    read += batch.packets.size();
  }
  for (uint64_t next = 0; next < reader.summary().packets;) {
    if (codeOf(reader.readBlockFrom(next, batch)) != "" || batch.packets.empty())
      break;
    for (size_t i = 0; i < batch.packets.size(); ++i)
      wrong += !samePacket(session, next + i, batch, i);
    next += batch.packets.size();
    read += batch.packets.size();
  }
  for (const auto &[id, bytes] : session.blobs) {
    llvm::Expected<llvm::ArrayRef<uint8_t>> content = reader.blob({id.first, id.second});
    if (content)
      wrong += *content != llvm::ArrayRef<uint8_t>(bytes);
    else
      llvm::consumeError(content.takeError());
  }
  for (uint64_t n = 0; n < reader.keyframeCount() && n < 1000; ++n)
    codeOf(reader.keyframe(n));
  codeOf(reader.triggers());
  return read;
}

} // namespace

TEST_CASE("a tape cut at any byte neither opens nor verifies") {
  const Specimen specimen;
  MemoryFile file(specimen.bytes);
  expectValue(verifyTape(file.path()));
  std::map<std::string, size_t> codes;
  for (size_t size = specimen.bytes.size(); size-- > 0;) {
    file.truncate(size);
    const std::string verified = codeOf(verifyTape(file.path())),
                      opened = codeOf(TapeReader::open(file.path()));
    REQUIRE(verified != "");
    REQUIRE(opened == verified);
    ++codes[verified];
  }
  CHECK(codes["unfinished"] > specimen.bytes.size() - 100);
  CHECK(codes["damaged-header"] == sizeof(FileHeader) - 1);
  CHECK(codes["not-a-tape"] == 1); // Nothing at all.
}

TEST_CASE("a flipped bit anywhere is found, and what is still read is what was written") {
  const Specimen specimen;
  MemoryFile file(specimen.bytes);
  std::mt19937_64 random(31);
  size_t verified = 0, opened = 0, wrong = 0, read = 0;
#ifdef TAPEBACK_SANITIZED
  const int flips = 2'500;
#else
  const int flips = 10'000;
#endif
  for (int i = 0; i < flips; ++i) {
    const size_t place = random() % specimen.bytes.size();
    const auto bit = static_cast<uint8_t>(1u << (random() % 8));
    file.put(place, specimen.bytes[place] ^ bit);
    const bool holds = codeOf(verifyTape(file.path())) == "";
    verified += holds;
    CHECK_MESSAGE(!holds, "byte ", place, " is not covered by any check");
    if (llvm::Expected<std::unique_ptr<TapeReader>> reader = TapeReader::open(file.path())) {
      ++opened;
      read += readAll(**reader, specimen.session, wrong);
    } else {
      llvm::consumeError(reader.takeError());
    }
    file.put(place, specimen.bytes[place]);
  }
  CHECK(verified == 0);
  CHECK(wrong == 0);
  CHECK(opened > static_cast<size_t>(flips) / 4); // The reader was really tried.
  CHECK(read > 0);
  expectValue(verifyTape(file.path()));
}

TEST_CASE("without hashes a flipped bit may be read, but nothing crashes") {
  const Specimen specimen;
  MemoryFile file(specimen.bytes);
  std::mt19937_64 random(32);
  ReaderOptions options;
  options.verifyHashes = false;
  size_t wrong = 0;
  for (int i = 0; i < 1'500; ++i) {
    const size_t place = random() % specimen.bytes.size();
    file.put(place, static_cast<uint8_t>(random()));
    if (llvm::Expected<std::unique_ptr<TapeReader>> reader = TapeReader::open(file.path(), options))
      readAll(**reader, specimen.session, wrong);
    else
      llvm::consumeError(reader.takeError());
    file.put(place, specimen.bytes[place]);
  }
  CHECK(wrong > 0); // That is what the hashes are for.
}

TEST_CASE("a file that shrinks while it is open is an error") {
  const Specimen specimen;
  size_t wrong = 0, shrank = 0;
  for (size_t size = 0; size < specimen.bytes.size(); size += 211) {
    MemoryFile file(specimen.bytes);
    auto reader = expectValue(TapeReader::open(file.path()));
    file.truncate(size);
    readAll(*reader, specimen.session, wrong);
    PacketBatch batch;
    const std::string code = codeOf(reader->readPackets(0, specimen.session.packets.size(), batch));
    shrank += code == "file-shrank";
    CHECK((code == "" || code == "file-shrank"));
  }
  CHECK(wrong == 0);
  CHECK(shrank > 10);
}

TEST_CASE("a file that changes while it is open gives errors or what was written") {
  const Specimen specimen;
  MemoryFile file(specimen.bytes);
  std::mt19937_64 random(33);
  size_t wrong = 0;
  for (int round = 0; round < 200; ++round) {
    auto reader = expectValue(TapeReader::open(file.path()));
    const size_t place = random() % (specimen.bytes.size() - 64);
    for (size_t i = 0; i < 64; ++i)
      file.put(place + i, static_cast<uint8_t>(random()));
    readAll(*reader, specimen.session, wrong);
    for (size_t i = 0; i < 64; ++i)
      file.put(place + i, specimen.bytes[place + i]);
  }
  CHECK(wrong == 0);
}
