// Goes from block to block; where there is none, from sync marker to sync marker until there is one again.
#include "format/RecoverScan.h"

#include "format/Failure.h"
#include "llvm/ADT/STLExtras.h"
#include <cstring>

namespace tapeback {

namespace {

class Scanner {
public:
  Scanner(const InputFile &file, const TapeProgress &progress)
      : file(file), progress(progress), budget(2 * file.size() + maxRawBytes) {}
  llvm::Expected<ScanResult> run();

private:
  llvm::Error readHeader();
  llvm::Expected<bool> blockAt(uint64_t offset);
  llvm::Expected<bool> hashHolds(const BlockHeader &header, uint64_t offset);
  llvm::Expected<uint64_t> nextMarker(uint64_t offset);
  bool tailAt(uint64_t offset);
  void sortBlocks();
  void damage(uint64_t from, uint64_t to) {
    if (from < to)
      result.damages.push_back({from, to});
  }

  const InputFile &file;
  const TapeProgress &progress;
  ScanResult result;
  bool tagKnown = false;
  /// Bytes that may still be hashed in vain. A forged file could have a million headers, each claiming the
  /// same 64 MiB.
  uint64_t budget;
  uint64_t skipTo = 0; ///< After a failed hash without budget: where its block would end.
  WordBuffer buffer;
  std::vector<uint8_t> window;
};

llvm::Error Scanner::readHeader() {
  uint8_t bytes[sizeof(FileHeader)];
  llvm::Expected<size_t> got = file.readSome(0, bytes);
  if (!got)
    return got.takeError();
  llvm::Expected<FileHeader> header = parseFileHeader({bytes, *got}, file.path());
  if (header) {
    result.header = *header;
    result.headerGood = true;
    result.tapeTag = tapeTagOf(header->tapeId);
    tagKnown = true;
    return llvm::Error::success();
  }
  // A damaged header is what we are here for; a newer version is not damage.
  return llvm::handleErrors(header.takeError(), [](std::unique_ptr<Failure> failure) -> llvm::Error {
    if (failure->code == "newer-version")
      return llvm::Error(std::move(failure));
    return llvm::Error::success();
  });
}

llvm::Expected<bool> Scanner::hashHolds(const BlockHeader &header, uint64_t offset) {
  const size_t stored = header.storedSize;
  llvm::MutableArrayRef<uint8_t> bytes = buffer.bytes(stored + sizeof(BlockTrailer));
  if (llvm::Error error = file.read(offset + sizeof(header), bytes))
    return error;
  BlockTrailer trailer;
  std::memcpy(&trailer, bytes.data() + stored, sizeof(trailer));
  return hashBlock(header, bytes.take_front(stored)) == trailer.hash;
}

/// True, and the block taken, if a whole one starts here.
llvm::Expected<bool> Scanner::blockAt(uint64_t offset) {
  BlockHeader header;
  if (file.size() - offset < sizeof(BlockHeader) + sizeof(BlockTrailer))
    return false;
  if (llvm::Error error = file.read(offset, {reinterpret_cast<uint8_t *>(&header), sizeof(header)}))
    return error;
  if (headerFault(header, tagKnown ? result.tapeTag : header.tapeTag) ||
      blockBytes(header) > file.size() - offset)
    return false;
  if (header.storedSize > budget) {
    skipTo = offset + blockBytes(header);
    return false;
  }
  llvm::Expected<bool> holds = hashHolds(header, offset);
  if (!holds || !*holds) {
    budget -= header.storedSize;
    return holds;
  }
  if (!tagKnown) {
    result.tapeTag = header.tapeTag;
    tagKnown = true;
  }
  result.blocks.push_back({offset, header});
  return true;
}

/// The next place from `offset` on where the sync marker stands, or the end of the file.
llvm::Expected<uint64_t> Scanner::nextMarker(uint64_t offset) {
  constexpr size_t step = 1u << 20;
  while (offset < file.size()) {
    if (progress)
      progress(offset, file.size());
    window.resize(step + syncMarker.size() - 1);
    llvm::Expected<size_t> got = file.readSome(offset, window);
    if (!got)
      return got.takeError();
    const llvm::StringRef text(reinterpret_cast<const char *>(window.data()), *got);
    const size_t at =
        text.find(llvm::StringRef(reinterpret_cast<const char *>(syncMarker.data()), syncMarker.size()));
    if (at != llvm::StringRef::npos)
      return offset + at;
    if (*got < window.size())
      break;
    offset += step;
  }
  return file.size();
}

bool Scanner::tailAt(uint64_t offset) {
  if (file.size() - offset != sizeof(Tail))
    return false;
  Tail tail;
  llvm::Expected<size_t> got = file.readSome(offset, {reinterpret_cast<uint8_t *>(&tail), sizeof(tail)});
  if (!got) {
    llvm::consumeError(
        got.takeError()); // Whoever reads blocks will meet it again; the tail itself is not needed.
    return false;
  }
  return *got == sizeof(tail) && tail.magic == tailMagic && tail.fileBytes == file.size() &&
         (!result.headerGood || tail.check == checkOf(tail, result.header.tapeId));
}

void Scanner::sortBlocks() {
  auto bySequence = [](const FoundBlock &a, const FoundBlock &b) {
    return a.header.sequence < b.header.sequence;
  };
  result.reordered = !llvm::is_sorted(result.blocks, bySequence);
  llvm::stable_sort(result.blocks, bySequence);
  const size_t before = result.blocks.size();
  result.blocks.erase(std::unique(result.blocks.begin(), result.blocks.end(),
                                  [](const FoundBlock &a, const FoundBlock &b) {
                                    return a.header.sequence == b.header.sequence;
                                  }),
                      result.blocks.end());
  result.doubles = before - result.blocks.size();
}

llvm::Expected<ScanResult> Scanner::run() {
  if (llvm::Error error = readHeader())
    return error;
  uint64_t offset = result.headerGood ? sizeof(FileHeader) : 0;
  uint64_t damagedFrom = offset;
  while (offset < file.size()) {
    if (progress)
      progress(offset, file.size());
    llvm::Expected<bool> found = blockAt(offset);
    if (!found)
      return found.takeError();
    if (*found) {
      damage(damagedFrom, offset);
      offset = damagedFrom = offset + blockBytes(result.blocks.back().header);
      continue;
    }
    if (offset == damagedFrom && tailAt(offset)) {
      damagedFrom = file.size();
      break;
    }
    llvm::Expected<uint64_t> next = nextMarker(std::max(offset + 1, skipTo));
    if (!next)
      return next.takeError();
    offset = *next;
  }
  damage(damagedFrom, file.size());
  if (result.blocks.empty())
    return failTape(result.headerGood ? "nothing-to-recover" : "not-a-tape",
                    result.headerGood
                        ? "there is no whole block in this tape"
                        : "this is not a tape: it has neither a tape's header nor any of its blocks",
                    file.path(), "There is nothing to recover here.");
  sortBlocks();
  return std::move(result);
}

} // namespace

llvm::Expected<ScanResult> scanForBlocks(const InputFile &file, const TapeProgress &progress) {
  return Scanner(file, progress).run();
}

} // namespace tapeback
