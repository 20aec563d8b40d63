// Writes a tape: packets in order, contents by hash, keyframes, and an index at the end.
#pragma once

#include "format/Records.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace tapeback {

struct WriterOptions {
  uint32_t blockRawBytes = 1 << 20; ///< Target raw size of a packet block; 64 KiB to 16 MiB.
  uint64_t maxWindowPackets = 4096; ///< A window is closed (not quiescent) at this many packets.
  bool compress = true;             ///< lz4; off is for debugging the format.
  bool syncOnFinish = true;         ///< fdatasync before the rename.
  std::string partialPath;          ///< Where the tape is until it is finished; empty: PATH.partial.
  /// Tape id and creation time; 0 means random and now. Set both for byte-identical tapes in tests.
  std::array<uint8_t, 16> tapeId{};
  uint64_t createdNs = 0;
};

/// One writer, one thread; a thread of its own puts large blocks of contents into the file, which is never
/// more than one, and is waited for before a block of packets is written: what packets on file refer to is
/// there, and a process that is killed loses the open block. Everything goes to PATH.partial, which is locked
/// against a second writer (what a dead one left there is moved to PATH.partial.stale first); finish()
/// publishes it by rename. A writer that is destroyed without finish() leaves the partial file for `tapeback
/// recover`; discard() removes it. Errors are sticky: after one, every call returns it and nothing more is
/// written. What it is given is checked so that a finished tape always verifies: ids must have been added,
/// payloads stored, links must lead to earlier packets. Memory: about eight times blockRawBytes, and for the
/// index 40 bytes a window and some 60 a distinct content.
class TapeWriter {
public:
  static llvm::Expected<std::unique_ptr<TapeWriter>> create(llvm::StringRef path, const Manifest &manifest,
                                                            const WriterOptions &options = {});
  virtual ~TapeWriter() = default;

  /// Tables. Each returns the id that packets use. All must be called before the first packet that uses the
  /// id; they may be called later for devices opened later. Space 0 ("memory") and clock 0 exist from the
  /// start.
  virtual llvm::Expected<uint16_t> addDevice(const DeviceRecord &device) = 0;
  virtual llvm::Expected<uint16_t> addSpace(llvm::StringRef name) = 0;
  virtual llvm::Expected<uint8_t> addClock(const TapeClock &clock) = 0;

  /// Stores a content once and names it. Must precede the packet that refers to it (the writer sees to it
  /// that the blob's block precedes the packet's). At most 1 GiB; contents above one block's limit are split
  /// inside.
  virtual llvm::Expected<BlobId> blob(llvm::ArrayRef<uint8_t> content) = 0;
  /// True if the content was given to blob() before.
  virtual bool hasBlob(BlobId id) const = 0;

  /// Appends; the ordinal is packetCount() before the call. `packet.extra` is ignored.
  virtual llvm::Error append(const Packet &packet, const PacketExtra &extra) = 0;
  virtual llvm::Error append(const Packet &packet) = 0;
  /// Many packets without extras. The tape is the same as if they had been appended one by one: windows and
  /// blocks end where they would, and a packet that is refused leaves those before it on the tape.
  virtual llvm::Error append(llvm::ArrayRef<Packet> packets);

  /// Ends the open window after the last packet appended. A window without packets is not written.
  virtual llvm::Error endWindow(bool quiescent) = 0;
  /// Ends the open window too (as quiescent if the keyframe is restorable). `keyframe.packet` and `.window`
  /// are filled in here.
  virtual llvm::Error keyframe(Keyframe keyframe) = 0;
  /// The trigger that fired, by the packet it fired at; `text` says which and why.
  virtual llvm::Error trigger(uint64_t packet, llvm::StringRef text) = 0;
  /// A block of a type that this version does not know, from another tape: carried along as it is.
  virtual llvm::Error foreignBlock(uint16_t type, llvm::ArrayRef<uint8_t> raw) = 0;
  /// Closes the open block so that a crash from here on loses nothing before it.
  virtual llvm::Error flush() = 0;
  /// Ends the window, writes outcome, index and footer, and publishes. Call once.
  virtual llvm::Expected<TapeSummary> finish(const Outcome &outcome) = 0;
  virtual void discard() = 0;

  virtual uint64_t packetCount() const = 0;
  /// Of these, those in blocks that are in the file. After a failure the others are lost.
  virtual uint64_t packetsInFile() const { return packetCount(); }
  virtual uint64_t windowCount() const = 0; ///< Closed windows; the open one is not counted.
  virtual uint64_t bytesWritten() const = 0;
};

} // namespace tapeback
