// Whole tapes: what was written is read, in all ways of reading; what may not be written is refused.
#include "tests/format/TapeSupport.h"

#include "llvm/Support/xxhash.h"
#include <csignal>
#include <cstring>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("sessions come back whole, and verify") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SessionOptions options;
    options.seed = seed;
    options.packets = seed == 1 ? 1 : 100 * seed * seed;
    options.wild = seed % 3 == 0;
    options.windowPackets = seed % 4 == 0 ? 3000 : 20; // Windows longer than blocks, and many in one.
    options.writer.maxWindowPackets = 1'000'000;
    options.writer.compress = seed % 5 != 0;
    options.foreignBlocks = seed % 2 == 0;
    const Session session = writeSession(path, options);
    expectSession(path, session);
    const VerifyReport report = expectValue(verifyTape(path));
    CHECK(report.packets == session.packets.size());
    CHECK(report.windows == session.windows.size());
    CHECK(report.blobs == session.blobs.size());
    CHECK(report.root == session.summary.root);
    CHECK((report.unknownBlocks > 0) == options.foreignBlocks);
    CHECK(::access((path + ".partial").c_str(), F_OK) != 0);
  }
}

TEST_CASE("an empty tape is a tape") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  auto writer = expectValue(TapeWriter::create(path, Manifest()));
  const TapeSummary summary = expectValue(writer->finish(Outcome()));
  CHECK(summary.packets == 0);
  CHECK(expectValue(verifyTape(path)).blocks == 3);
  auto reader = expectValue(TapeReader::open(path));
  PacketBatch batch;
  expectSuccess(reader->readBlockFrom(0, batch));
  CHECK(batch.packets.empty());
  expectSuccess(reader->readPackets(0, 0, batch));
  CHECK(codeOf(reader->window(0)) == "out-of-range");
  CHECK(codeOf(reader->readPackets(0, 1, batch)) == "out-of-range");
  CHECK(codeOf(reader->keyframe(0)) == "out-of-range");
  CHECK(codeOf(reader->blob({1, 2})) == "unknown-blob");
}

TEST_CASE("any range of packets can be read, over the borders of blocks") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  SessionOptions options;
  options.packets = 9000;
  options.maxBlob = 30;
  const Session session = writeSession(path, options);
  auto reader = expectValue(TapeReader::open(path));
  std::mt19937_64 random(2);
  PacketBatch batch;
  size_t different = 0;
  for (int round = 0; round < 400; ++round) {
    const uint64_t first = random() % 9001, count = random() % (round % 4 ? 50 : 4000);
    if (first + count > 9000) {
      CHECK(codeOf(reader->readPackets(first, count, batch)) == "out-of-range");
      CHECK(batch.packets.empty());
      continue;
    }
    expectSuccess(reader->readPackets(first, count, batch));
    REQUIRE(batch.packets.size() == count);
    CHECK(batch.firstOrdinal == first);
    for (size_t i = 0; i < count; ++i)
      different += !samePacket(session, first + i, batch, i);
    if (first < 9000) {
      expectSuccess(reader->readBlockFrom(first, batch));
      REQUIRE(!batch.packets.empty());
      different += !samePacket(session, first, batch, 0);
    }
  }
  CHECK(different == 0);
  CHECK(codeOf(reader->readPackets(~uint64_t(0), 2, batch)) == "out-of-range");
  CHECK(codeOf(reader->windowOfPacket(9000)) == "out-of-range");
}

TEST_CASE("contents: none, one byte, above a block, above a piece, twice") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  auto writer = expectValue(TapeWriter::create(path, Manifest(), SessionOptions::fixedOptions()));
  std::mt19937_64 random(3);
  std::vector<Bytes> contents;
  for (const size_t size :
       {0, 1, 4096, 256 << 10, (256 << 10) + 1, 512 << 10, (512 << 10) + 1, (4 << 20) + 12345}) {
    contents.emplace_back(size);
    for (size_t i = 0; i < size; ++i)
      contents.back()[i] = static_cast<uint8_t>(i % 4096 < 100 ? random() : i >> 12);
  }
  std::vector<BlobId> ids;
  for (const Bytes &content : contents)
    ids.push_back(expectValue(writer->blob(content)));
  const uint64_t before = writer->bytesWritten();
  for (size_t i = 0; i < contents.size(); ++i) {
    CHECK(expectValue(writer->blob(contents[i])) == ids[i]);
    CHECK(writer->hasBlob(ids[i]));
    Packet packet;
    packet.kind = PacketKind::MemoryWrite;
    PacketExtra extra;
    extra.payload = ids[i];
    extra.length = contents[i].size();
    expectSuccess(writer->append(packet, extra));
  }
  CHECK(writer->bytesWritten() == before);
  CHECK(expectValue(writer->finish(Outcome())).blobs == contents.size());

  CHECK(expectValue(verifyTape(path)).blobs == contents.size());
  ReaderOptions small;
  small.blobCacheBytes = 0;
  for (const ReaderOptions &options : {ReaderOptions(), small}) {
    auto reader = expectValue(TapeReader::open(path, options));
    for (int round = 0; round < 40; ++round) {
      const size_t i = random() % contents.size();
      CHECK(expectValue(reader->blob(ids[i])) == llvm::ArrayRef<uint8_t>(contents[i]));
    }
  }
}

TEST_CASE("a run of packets is the same tape as its packets one by one") {
  const TemporaryDirectory directory;
  std::mt19937_64 random(21);
  for (const uint64_t windowPackets : {1, 7, 4096, 1'000'000}) {
    WriterOptions options = SessionOptions::fixedOptions();
    options.maxWindowPackets = windowPackets;
    std::vector<Packet> packets = traffic("ring", 6000, 4);
    for (Packet &packet : packets) {
      packet.extra = 3; // Ignored.
      if (random() % 500 == 0)
        packet.kind = PacketKind::Loss;
    }
    auto ones = expectValue(TapeWriter::create(directory.file("ones.tape"), Manifest(), options));
    auto runs = expectValue(TapeWriter::create(directory.file("runs.tape"), Manifest(), options));
    llvm::ArrayRef<Packet> rest = packets;
    while (!rest.empty()) {
      const auto run = rest.take_front(random() % (random() % 4 ? 60 : 4000));
      rest = rest.drop_front(run.size());
      for (const Packet &packet : run)
        expectSuccess(ones->append(packet));
      expectSuccess(runs->append(run));
      PacketExtra extra;
      extra.link = random();
      const bool end = random() % 8 == 0;
      for (TapeWriter *writer : {ones.get(), runs.get()}) {
        expectSuccess(writer->append(Packet(), extra));
        if (end)
          expectSuccess(writer->endWindow(true));
      }
      REQUIRE(runs->packetCount() == ones->packetCount());
      REQUIRE(runs->windowCount() == ones->windowCount());
      REQUIRE(runs->bytesWritten() == ones->bytesWritten());
    }
    CHECK(expectValue(runs->finish(Outcome())).loss.packets ==
          expectValue(ones->finish(Outcome())).loss.packets);
    CHECK(readFile(directory.file("runs.tape")) == readFile(directory.file("ones.tape")));
    expectValue(verifyTape(directory.file("runs.tape")));
  }
  // A packet that is refused: those before it are on the tape, and the error stays.
  auto writer =
      expectValue(TapeWriter::create(directory.file("bad.tape"), Manifest(), SessionOptions::fixedOptions()));
  std::vector<Packet> bad(10);
  bad[6].space = 5;
  CHECK(codeOf(writer->append(llvm::ArrayRef<Packet>(bad))) == "bad-packet");
  CHECK(writer->packetCount() == 6);
  CHECK(codeOf(writer->append(llvm::ArrayRef<Packet>(bad).take_front(1))) == "bad-packet");
}

TEST_CASE("what readers keep in memory is bounded") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  auto writer = expectValue(TapeWriter::create(path, Manifest(), SessionOptions::fixedOptions()));
  DeviceRecord device;
  device.description = std::string(7'000'000, ' ');
  std::string code;
  for (int i = 0; i < 60 && code.empty(); ++i)
    code = codeOf(writer->addDevice(device));
  CHECK(code == "too-many");
  writer->discard();
  writer = expectValue(TapeWriter::create(path, Manifest(), SessionOptions::fixedOptions()));
  expectSuccess(writer->append(Packet()));
  const std::string text(60'000'000, ' ');
  code.clear();
  for (int i = 0; i < 6 && code.empty(); ++i)
    code = codeOf(writer->trigger(0, text));
  CHECK(code == "too-many");
  writer->discard();

  // Packets that hardly take room on the tape, in one window.
  WriterOptions options = SessionOptions::fixedOptions();
  options.maxWindowPackets = ~uint64_t(0);
  writer = expectValue(TapeWriter::create(path, Manifest(), options));
  for (int i = 0; i < 20'000; ++i)
    expectSuccess(writer->append(Packet()));
  expectValue(writer->finish(Outcome()));
  ReaderOptions few;
  few.maxReadPackets = 19'999;
  auto reader = expectValue(TapeReader::open(path, few));
  PacketBatch batch;
  CHECK(codeOf(reader->readWindow(0, batch)) == "range-too-large");
  expectSuccess(reader->readPackets(1, 19'999, batch));
  CHECK(batch.packets.size() == 19'999);
}

TEST_CASE("a window ends at the limit of packets, and may end after its block was written") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  WriterOptions options = SessionOptions::fixedOptions();
  options.maxWindowPackets = 10;
  auto writer = expectValue(TapeWriter::create(path, Manifest(), options));
  for (int i = 0; i < 25; ++i)
    expectSuccess(writer->append(Packet()));
  CHECK(writer->windowCount() == 2);
  expectSuccess(writer->flush());
  expectSuccess(writer->endWindow(true)); // The block with its packets is on the tape already.
  expectSuccess(writer->endWindow(true)); // No packets: no window.
  CHECK(writer->windowCount() == 3);
  expectSuccess(writer->append(Packet()));
  expectValue(writer->finish(Outcome()));
  expectValue(verifyTape(path));
  auto reader = expectValue(TapeReader::open(path));
  REQUIRE(reader->summary().windows == 4);
  CHECK(expectValue(reader->window(1)).packetCount == 10);
  CHECK_FALSE(expectValue(reader->window(1)).quiescent);
  CHECK(expectValue(reader->window(2)).packetCount == 5);
  CHECK(expectValue(reader->window(2)).quiescent);
  CHECK_FALSE(expectValue(reader->window(3)).quiescent);
}

TEST_CASE("tables, manifest and identity come back") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  Manifest manifest;
  manifest.facts = {{"firmware", "1.2"}, {"workload", std::string("a\0b", 3)}};
  manifest.parentRoot.emplace().fill(7);
  manifest.derivation = "trim w1..w2";
  auto writer = expectValue(TapeWriter::create(path, manifest));
  DeviceRecord device;
  device.alias = "edu";
  device.description = std::string(3'000'000, 'x');
  device.identity["serial"] = "17";
  for (unsigned i = 0; i < 20; ++i)
    CHECK(expectValue(writer->addDevice(device)) == i);
  CHECK(expectValue(writer->addSpace("bar0")) == 1);
  CHECK(expectValue(writer->addClock({"device", 100})) == 1);
  expectValue(writer->finish(Outcome()));
  expectValue(verifyTape(path));
  auto reader = expectValue(TapeReader::open(path));
  CHECK(reader->manifest().facts == manifest.facts);
  CHECK(reader->manifest().parentRoot == manifest.parentRoot);
  CHECK(reader->manifest().derivation == manifest.derivation);
  REQUIRE(reader->devices().size() == 20);
  CHECK(reader->devices()[19].description == device.description);
  CHECK(reader->devices()[19].identity == device.identity);
  REQUIRE(reader->spaces().size() == 2);
  CHECK(reader->spaces()[0] == "memory");
  CHECK(reader->spaces()[1] == "bar0");
  REQUIRE(reader->clocks().size() == 2);
  CHECK(reader->clocks()[0].name == "host-monotonic");
  CHECK(reader->clocks()[1].ticksPerSecond == 100);
  CHECK(reader->formatVersion() == 2);
  CHECK(reader->tapeId() != std::array<uint8_t, 16>{});
  CHECK(reader->createdNs() > 1'700'000'000'000'000'000);
}

TEST_CASE("equal sessions with equal options give equal files, and re-indexing does not rename a tape") {
  const TemporaryDirectory directory;
  SessionOptions options;
  options.packets = 500;
  const Session first = writeSession(directory.file("a.tape"), options);
  const Session second = writeSession(directory.file("b.tape"), options);
  CHECK(readFile(directory.file("a.tape")) == readFile(directory.file("b.tape")));
  CHECK(first.summary.root == second.summary.root);
  // Another packing of the same content is another tape; the same with another index is the same.
  ForgedTape tape(readFile(directory.file("a.tape")));
  for (ForgedBlock &block : tape.blocks)
    if (block.header.type == static_cast<uint16_t>(BlockType::Index))
      ForgedTape::setRaw(block, ForgedTape::rawOf(block));
  writeFile(directory.file("c.tape"), tape.assemble());
  CHECK(expectValue(verifyTape(directory.file("c.tape"))).root == first.summary.root);
}

TEST_CASE("what would not verify is refused, and the refusal sticks") {
  const TemporaryDirectory directory;
  auto fresh = [&] { return expectValue(TapeWriter::create(directory.file("a.tape"), Manifest())); };
  Packet packet;
  PacketExtra extra;
  auto refuses = [&](const Packet &bad, const PacketExtra &with) {
    auto writer = fresh();
    CHECK(codeOf(writer->append(bad, with)) == "bad-packet");
    CHECK(codeOf(writer->append(Packet())) == "bad-packet");
    CHECK(codeOf(writer->endWindow(true)) == "bad-packet");
    CHECK(codeOf(writer->finish(Outcome())) == "bad-packet");
    writer->discard();
  };
  packet.device = 1;
  refuses(packet, extra);
  packet = Packet();
  packet.space = 1;
  refuses(packet, extra);
  packet = Packet();
  packet.clock = 1;
  refuses(packet, extra);
  packet = Packet();
  extra.payload = {1, 2};
  refuses(packet, extra);
  extra = PacketExtra();
  packet.kind = PacketKind::DmaCompletion;
  extra.link = 0; // Itself.
  refuses(packet, extra);

  auto writer = fresh();
  CHECK(codeOf(writer->trigger(0, "too early")) == "bad-trigger");
  writer->discard();
  writer = fresh();
  Outcome outcome;
  outcome.packet = 0;
  CHECK(codeOf(writer->finish(outcome)) == "bad-outcome");
  writer->discard();
  writer = fresh();
  Keyframe keyframe;
  keyframe.memory.push_back({0, 0, 1, {5, 5}});
  CHECK(codeOf(writer->keyframe(keyframe)) == "bad-keyframe");
  writer->discard();
  writer = fresh();
  CHECK(codeOf(writer->foreignBlock(3, {})) == "bad-block");
  writer->discard();
  writer = fresh();
  writer->discard();
  CHECK(codeOf(writer->append(Packet())) == "writer-closed");
  CHECK(::access(directory.file("a.tape.partial").c_str(), F_OK) != 0);
  CHECK(::access(directory.file("a.tape").c_str(), F_OK) != 0);

  WriterOptions options;
  options.blockRawBytes = 1000;
  CHECK(codeOf(TapeWriter::create(directory.file("a.tape"), Manifest(), options)) == "bad-option");
}

TEST_CASE("a tape appears when it is finished, and two writers do not mix") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  auto writer = expectValue(TapeWriter::create(path, Manifest()));
  CHECK(::access(path.c_str(), F_OK) != 0);
  CHECK(codeOf(TapeWriter::create(path, Manifest())) == "already-being-written");
  expectSuccess(writer->append(Packet()));
  expectSuccess(writer->flush());
  const uint64_t written = writer->bytesWritten();
  writer.reset(); // As if killed: what was flushed stays.
  CHECK(readFile(path + ".partial").size() == written);

  writer = expectValue(TapeWriter::create(path, Manifest()));
  CHECK(readFile(path + ".partial.stale").size() == written);
  expectValue(writer->finish(Outcome()));
  CHECK(codeOf(writer->finish(Outcome())) == "writer-closed");
  CHECK(::access(path.c_str(), F_OK) == 0);
  CHECK(::access((path + ".partial").c_str(), F_OK) != 0);
  expectValue(verifyTape(path));
}

TEST_CASE("errors of the system name the file and the reason") {
  const TemporaryDirectory directory;
  Failure failure = toFailure(TapeWriter::create(directory.file("no/such/a.tape"), Manifest()).takeError());
  CHECK(failure.cls == FailureClass::Usage);
  CHECK(failure.message.find("No such file") != std::string::npos);
  CHECK(failure.where.find("no/such/a.tape") != std::string::npos);
  failure = toFailure(TapeReader::open(directory.file("missing.tape")).takeError());
  CHECK(failure.code == "no-such-file");
  CHECK(failure.cls == FailureClass::Usage);
  REQUIRE(::mkfifo(directory.file("fifo").c_str(), 0600) == 0);
  CHECK(codeOf(TapeReader::open(directory.file("fifo"))) == "not-a-file");
  CHECK(codeOf(TapeWriter::create(directory.file("fifo"), Manifest())) == "cannot-create");
  CHECK(codeOf(TapeReader::open(directory.file("."))) == "not-a-file");
  // Nor is the name that is written first anything but a file.
  REQUIRE(::mkfifo(directory.file("new.partial").c_str(), 0600) == 0);
  CHECK(codeOf(TapeWriter::create(directory.file("new"), Manifest())) == "cannot-create");
}

TEST_CASE("a disk that takes no more ends the tape with an error that stays") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  WriterOptions options = SessionOptions::fixedOptions();
  options.compress = false;
  auto writer = expectValue(TapeWriter::create(path, Manifest(), options));
  rlimit small = before;
  small.rlim_cur = 200'000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::mt19937_64 random(1);
  std::string code;
  for (int i = 0; i < 100'000 && code.empty(); ++i) {
    Packet packet;
    packet.value = random();
    packet.issueTime = random();
    code = codeOf(writer->append(packet));
  }
  const std::string again = codeOf(writer->append(Packet())), finish = codeOf(writer->finish(Outcome()));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(code == "cannot-write");
  CHECK(again == "cannot-write");
  CHECK(finish == "cannot-write");
  CHECK(::access(path.c_str(), F_OK) != 0);
  // What did get there can be recovered, though the last block is only there in part.
  writer.reset();
  const RecoverReport report = expectValue(recoverTape(path + ".partial", path));
  CHECK(report.packetsKept > 1000);
  CHECK(report.unknownLoss);
  expectValue(verifyTape(path));
}

TEST_CASE("an error of a block that was still on its way comes with a later call and stays") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  auto writer = expectValue(TapeWriter::create(path, Manifest(), SessionOptions::fixedOptions()));
  rlimit small = before;
  small.rlim_cur = 2'000'000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::mt19937_64 random(1);
  std::string code;
  uint64_t appended = 0;
  for (int i = 0; i < 100 && code.empty(); ++i) {
    Bytes noise(200'000);
    for (size_t at = 0; at < noise.size(); at += 8) {
      const uint64_t word = random();
      std::memcpy(noise.data() + at, &word, 8);
    }
    llvm::Expected<BlobId> id = writer->blob(noise);
    if (!id) {
      code = codeOf(id.takeError());
      break;
    }
    Packet packet;
    packet.kind = PacketKind::MemoryWrite;
    PacketExtra extra;
    extra.payload = *id;
    extra.length = noise.size();
    code = codeOf(writer->append(packet, extra));
    appended += code.empty();
    // What was flushed is in the file, contents and all.
    if (code.empty() && i == 5) {
      code = codeOf(writer->flush());
      CHECK(readFile(path + ".partial").size() == writer->bytesWritten());
    }
  }
  const std::string again = codeOf(writer->append(Packet())), flush = codeOf(writer->flush()),
                    finish = codeOf(writer->finish(Outcome()));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(code == "cannot-write");
  CHECK(again == "cannot-write");
  CHECK(flush == "cannot-write");
  CHECK(finish == "cannot-write");
  CHECK(appended < 12);
  writer.reset();
  const RecoverReport report = expectValue(recoverTape(path + ".partial", path));
  CHECK(report.packetsKept == 6);
  expectValue(verifyTape(path));
}

TEST_CASE("register traffic takes about two bytes a packet, a command ring about four") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.tape");
  auto bytesPerPacket = [&](const char *kind) {
    WriterOptions options;
    options.syncOnFinish = false;
    auto writer = expectValue(TapeWriter::create(path, Manifest(), options));
    for (const Packet &packet : traffic(kind, 200'000, 1))
      expectSuccess(writer->append(packet));
    expectValue(writer->finish(Outcome()));
    return double(readFile(path).size()) / 200'000;
  };
  CHECK(bytesPerPacket("registers") < 2.5);
  CHECK(bytesPerPacket("ring") < 4.5);
}
