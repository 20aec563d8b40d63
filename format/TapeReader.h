// Reads a tape that may be hostile, in bounded memory.
#pragma once

#include "format/Records.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <memory>

namespace tapeback {

class RecoverTail;

struct ReaderOptions {
  bool verifyHashes = true; ///< Check each block's hash when it is read.
  uint64_t maxBlockRawBytes = 64u << 20;
  uint64_t maxReadPackets = 1u << 22;  ///< More than that in one call (a hostile window) is refused.
  uint64_t blobCacheBytes = 64u << 20; ///< Decoded blob blocks kept; least recently used goes first.
};

/// One reader, one thread; open the file twice to read from two. Nothing is read that was not asked for: open
/// reads the header, the footer and the head of the tape (manifest, devices). Index parts are loaded when
/// needed. A file that shrinks while open gives an error (the file is read with pread, never mapped:
/// docs/decisions). A tape without footer (a writer was killed) is refused with code "unfinished" and the
/// hint to use `recover`.
class TapeReader {
public:
  static llvm::Expected<std::unique_ptr<TapeReader>> open(llvm::StringRef path, ReaderOptions options = {});
  virtual ~TapeReader() = default;

  virtual const Manifest &manifest() const = 0;
  virtual llvm::ArrayRef<DeviceRecord> devices() const = 0;
  virtual llvm::ArrayRef<std::string> spaces() const = 0; ///< spaces()[0] == "memory".
  virtual llvm::ArrayRef<TapeClock> clocks() const = 0;
  virtual const TapeSummary &summary() const = 0;
  virtual const Outcome &outcome() const = 0;
  virtual uint16_t formatVersion() const = 0;
  virtual std::array<uint8_t, 16> tapeId() const = 0;
  virtual uint64_t createdNs() const = 0;
  virtual uint64_t fileBytes() const = 0;

  /// Random access; n is out of range → Usage failure.
  virtual llvm::Expected<WindowInfo> window(uint64_t n) = 0;
  virtual llvm::Expected<uint64_t> windowOfPacket(uint64_t packet) = 0;
  /// Replaces `batch` by exactly the packets [first, first+count), whatever blocks they lie in. More than
  /// ReaderOptions::maxReadPackets: code range-too-large; long ranges are read with readBlockFrom.
  virtual llvm::Error readPackets(uint64_t first, uint64_t count, PacketBatch &batch) = 0;
  virtual llvm::Error readWindow(uint64_t n, PacketBatch &batch) = 0;
  /// Sequential: the block of packets that contains packet `first`, from `first` on. Empty batch at the end.
  /// The quickest way to read a whole tape: for (p = 0; ; p += batch.packets.size()).
  virtual llvm::Error readBlockFrom(uint64_t first, PacketBatch &batch) = 0;
  /// The first packet behind the block that contains packet `packet`, by the index alone: where to go on
  /// after a block that cannot be read. Readers without blocks: behind that packet.
  virtual llvm::Expected<uint64_t> blockEnd(uint64_t packet) { return packet + 1; }

  /// The content is valid until the next call on this reader. Unknown id → Tape failure.
  virtual llvm::Expected<llvm::ArrayRef<uint8_t>> blob(BlobId id) = 0;
  virtual uint64_t keyframeCount() const = 0;
  virtual llvm::Expected<Keyframe> keyframe(uint64_t n) = 0;
  struct TriggerRecord {
    uint64_t packet;
    std::string text;
  };
  virtual llvm::Expected<std::vector<TriggerRecord>> triggers() = 0;
};

/// Called now and then by what reads a whole tape, with what is done of how much.
using TapeProgress = std::function<void(uint64_t done, uint64_t total)>;

/// Every block, hash, index entry and cross-reference. Success only if all hold; the error is the first fault
/// found, in the order of the file. Memory: one block of packets, some of the index (at most 64 parts), one
/// content.
struct VerifyReport {
  uint64_t blocks = 0, packets = 0, windows = 0, blobs = 0, unknownBlocks = 0;
  Digest root{};
};
llvm::Expected<VerifyReport> verifyTape(llvm::StringRef path, const TapeProgress &progress = {});

/// Reads what can be read of IN and writes a tape that verifies to OUT. Continues past bad blocks. Packets
/// missing in the middle become one Loss packet (cause Damage) at that place, with their number where it is
/// known; packets after it are renumbered, and everything that refers to them with them; the notes say so. A
/// tape without end gets a Loss packet at its end. Fails (and leaves no OUT) if there is nothing to recover.
/// Memory: 100 bytes a block of IN, and as the reader.
struct RecoverReport {
  uint64_t blocksGood = 0, blocksLost = 0;
  uint64_t packetsKept = 0, windowsKept = 0;
  uint64_t packetsAdded = 0; ///< Those that RecoverTail knew of.
  uint64_t packetsLost = 0;  ///< Where countable (gaps in block ordinals); see unknownLoss.
  uint64_t windowsLost = 0;
  bool unknownLoss = false;  ///< Something was lost that cannot be counted.
  uint64_t payloadsLost = 0; ///< Packets kept, but their content is gone: they are flagged NotCaptured.
  bool indexRebuilt = false;
  bool wasComplete = false; ///< The input verified as it was: nothing to recover; OUT is an identical tape.
  std::vector<std::string> notes; ///< One per damaged place, with file offset.
  bool lostAnything() const { return blocksLost || packetsLost || payloadsLost || unknownLoss; }
};
struct RecoverOptions {
  bool syncOnFinish = true; ///< As WriterOptions::syncOnFinish.
  TapeProgress progress = {};
  RecoverTail *tail = nullptr; ///< RecoverTail.h; null: nobody knows more.
};
llvm::Expected<RecoverReport> recoverTape(llvm::StringRef in, llvm::StringRef out,
                                          RecoverOptions options = {});

} // namespace tapeback
