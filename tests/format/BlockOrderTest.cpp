// The table of legal orders: the writer keeps to it, the verifier reports every violation of it.
#include "format/BlockOrder.h"

#include "tests/format/TapeSupport.h"

using namespace tapeback;
using namespace tapeback::test;

namespace {

constexpr auto footerType = static_cast<uint16_t>(BlockType::Footer);

Bytes tapeWithEverything(const TemporaryDirectory &directory) {
  SessionOptions options;
  options.packets = 300;
  options.foreignBlocks = true;
  writeSession(directory.file("a.tape"), options);
  return readFile(directory.file("a.tape"));
}

} // namespace

TEST_CASE("the writer's blocks are in a legal order") {
  const TemporaryDirectory directory;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    SessionOptions options;
    options.seed = seed;
    options.packets = 1 + seed * 37;
    options.foreignBlocks = seed % 2;
    writeSession(directory.file("a.tape"), options);
    BlockOrder order;
    for (const ForgedBlock &block : ForgedTape(readFile(directory.file("a.tape"))).blocks) {
      CHECK_MESSAGE(order.allows(block.header.type), blockTypeName(order.lastType()), " then ",
                    blockTypeName(block.header.type));
      order.advance(block.header.type);
    }
    CHECK(order.complete());
  }
}

TEST_CASE("the verifier reports every illegal transition, and accepts types it does not know") {
  const TemporaryDirectory directory;
  const Bytes bytes = tapeWithEverything(directory);
  const ForgedTape tape(bytes);
  MemoryFile file(bytes);
  unsigned illegal = 0;
  for (uint16_t last = 0; last < blockTypeCount; ++last)
    for (uint16_t next = 1; next < blockTypeCount; ++next) {
      BlockOrder order;
      order.advance(last);
      if (order.allows(next))
        continue;
      ++illegal;
      // Up to the first block of type `last` the tape is as it was; then comes a block that may not.
      ForgedTape forged = tape;
      const size_t place = last == 0 ? 0 : tape.indexOf(static_cast<BlockType>(last)) + 1;
      ForgedBlock intruder = tape.blocks[tape.indexOf(static_cast<BlockType>(next))];
      intruder.oldOffset = 0;
      forged.blocks.insert(forged.blocks.begin() + static_cast<std::ptrdiff_t>(place), intruder);
      if (last == footerType) // The tape's end has to be a footer, or it would not even be opened.
        forged.blocks.push_back(tape.blocks.back());
      file.set(forged.assemble());
      llvm::Expected<VerifyReport> report = verifyTape(file.path());
      REQUIRE_MESSAGE(!report, blockTypeName(last), " then ", blockTypeName(next));
      const Failure failure = toFailure(report.takeError());
      CHECK_MESSAGE(failure.code == "bad-order", blockTypeName(last), " then ", blockTypeName(next), ": ",
                    failure.code, ": ", failure.message, " ", failure.where);
      if (last != footerType)
        CHECK(failure.message.find("may not come here") != std::string::npos);
    }
  CHECK(illegal > 40);
}

TEST_CASE("unknown types may stand anywhere between manifest and footer") {
  const TemporaryDirectory directory;
  const Bytes bytes = tapeWithEverything(directory);
  const ForgedTape tape(bytes);
  const uint64_t before = [&] {
    MemoryFile file(bytes);
    return expectValue(verifyTape(file.path())).unknownBlocks;
  }();
  REQUIRE(before > 0);
  // Before the index, where it does not move what the index points at.
  ForgedTape forged = tape;
  ForgedBlock unknown;
  unknown.header.type = 4711;
  const auto oracle = static_cast<std::ptrdiff_t>(tape.indexOf(BlockType::Oracle));
  unknown.header.firstPacket = tape.blocks[static_cast<size_t>(oracle)].header.firstPacket;
  unknown.header.firstWindow = tape.blocks[static_cast<size_t>(oracle)].header.firstWindow;
  unknown.header.codec = 9; // Nor does anyone have to decompress it.
  unknown.stored = {1, 2, 3};
  forged.blocks.insert(forged.blocks.begin() + oracle, unknown);
  forged.blocks.insert(forged.blocks.begin() + oracle + 2, unknown);
  forged.blocks.insert(forged.blocks.end() - 1, unknown);
  MemoryFile file(forged.assemble());
  CHECK(expectValue(verifyTape(file.path())).unknownBlocks == before + 3);
  // But not before the manifest, nor after the footer.
  forged = tape;
  forged.blocks.insert(forged.blocks.begin(), unknown);
  file.set(forged.assemble());
  CHECK(codeOf(verifyTape(file.path())) == "bad-order");
  CHECK_FALSE(BlockOrder().allows(4711));
  BlockOrder done;
  done.advance(footerType);
  CHECK_FALSE(done.allows(4711));
  CHECK_FALSE(done.allows(0));
}
