// What the tests of the tape share: sessions to write, tapes in memory, and tools to damage and to forge
// them.
#pragma once

#include "format/Block.h"
#include "format/Failure.h"
#include "format/RecordCodec.h"
#include "format/TapeReader.h"
#include "format/TapeWriter.h"
#include <doctest/doctest.h>
#include <functional>
#include <map>
#include <random>

namespace tapeback::test {

using Bytes = std::vector<uint8_t>;

/// The code of an error, "" for success.
std::string codeOf(llvm::Error error);
template <typename T>
std::string codeOf(llvm::Expected<T> result) {
  return codeOf(result.takeError());
}
/// The value, or a failed test with the failure's text.
void expectSuccess(llvm::Error error);
template <typename T>
T expectValue(llvm::Expected<T> result) {
  if (!result) {
    expectSuccess(result.takeError());
    throw std::runtime_error("no value"); // expectSuccess ended the test case already.
  }
  return std::move(*result);
}

Bytes readFile(const std::string &path);
void writeFile(const std::string &path, const Bytes &bytes);

/// A directory of its own, removed with all it holds.
class TemporaryDirectory {
public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  std::string file(const std::string &name) const { return path + "/" + name; }

private:
  std::string path;
};

/// A file without a name, for millions of small changes; path() can be opened like any other.
class MemoryFile {
public:
  explicit MemoryFile(const Bytes &bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;
  const std::string &path() const { return name; }
  void set(const Bytes &bytes);
  void truncate(uint64_t size);
  void put(uint64_t offset, uint8_t byte);

private:
  int fd;
  std::string name;
};

/// Everything that was put into a tape, to compare what comes out.
struct Session {
  std::vector<Packet> packets; ///< Packet::extra is 0 or 1-based into extras.
  std::vector<PacketExtra> extras;
  std::vector<WindowInfo> windows;
  std::map<std::pair<uint64_t, uint64_t>, Bytes> blobs;
  std::vector<Keyframe> keyframes;
  std::vector<std::pair<uint64_t, std::string>> triggers;
  Outcome outcome;
  TapeSummary summary;

  PacketExtra extraOf(uint64_t ordinal) const {
    return packets[ordinal].extra == 0 ? PacketExtra() : extras[packets[ordinal].extra - 1];
  }
};

struct SessionOptions {
  uint64_t seed = 1;
  size_t packets = 1000;
  bool wild = false;           ///< Every field random, also numbers that no version knows.
  size_t maxBlob = 300;        ///< Bytes of the largest content.
  unsigned windowPackets = 40; ///< On average.
  bool keyframes = true;
  bool triggers = true;
  bool foreignBlocks = false;
  WriterOptions writer = fixedOptions();
  static WriterOptions fixedOptions();
};

/// Writes a session that uses everything a tape can hold, and finishes it.
Session writeSession(const std::string &path, const SessionOptions &options);

/// Packets as the benchmarks and size tests want them. `kind`: "registers" or "ring".
std::vector<Packet> traffic(const std::string &kind, size_t count, uint64_t seed);

/// Fails the test unless the packet is the session's packet `ordinal`.
bool samePacket(const Session &session, uint64_t ordinal, const PacketBatch &batch, size_t place);
/// Reads the whole tape in all ways and compares.
void expectSession(const std::string &path, const Session &session);

/// A tape taken apart into its blocks, to be changed and put together again with all checks made to hold, so
/// that what lies behind the checks is reached.
struct ForgedBlock {
  BlockHeader header;
  Bytes stored;
  uint64_t oldOffset = 0; ///< Where it was; 0 for new ones.
};
struct ForgedTape {
  FileHeader header;
  std::vector<ForgedBlock> blocks;

  explicit ForgedTape(const Bytes &tape);
  /// First block of a type.
  ForgedBlock &first(BlockType type);
  size_t indexOf(BlockType type) const;
  static Bytes rawOf(const ForgedBlock &block);
  static void setRaw(ForgedBlock &block, const Bytes &raw); ///< Uncompressed.
  /// Lets `change` edit a record and puts it back.
  void editFooter(const std::function<void(FooterRecord &)> &change);
  void editPart(PartKind kind, const std::function<void(PartTable &)> &change);

  /// With sequence numbers, sizes, checksums, hashes, chain, the footer's offsets of blocks that moved, the
  /// root, and the tail.
  Bytes assemble(bool keepFooter = false) const;
};

} // namespace tapeback::test
