// What can be known of one device from the packets alone: register shadow, mappings, contents of memory and
// of internal windows, running activities. Used by the recorder (windows, keyframes) and by the replayer
// (trim, who wrote it last, deep probes). Pure: packets in, state out.
//
// Read-to-clear and FIFO registers are never in the shadow. A register's shadow is the last value written or,
// for registers that the program has not written, the last value read.
#pragma once

#include "format/Records.h"
#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include <functional>
#include <memory>
#include <optional>

namespace tapeback {

/// How much is remembered. What finds no room is unknown (and makes keyframes unrestorable where it matters),
/// never wrong. The defaults are a bound of roughly 400 MiB, reached only by a workload with that much
/// memory.
struct ShadowLimits {
  size_t pages = 65536; ///< 4 KiB pages of content, of memory and windows together.
  size_t writers =
      size_t(1) << 19; ///< Intervals of "who wrote it last" of memory; as many again of all windows.
  size_t mappings = 65536;
  size_t undescribedRegisters = 65536;
  size_t outstanding = 65536; ///< Transfers and operations that did not come back; as many queue entries.
  size_t markers = 65536;     ///< Distinct marker names whose occurrences are counted.
};

/// One device's state. Not copyable; one thread. Nothing here fails: what a packet does not say is unknown.
class ShadowState {
public:
  /// `spaces` maps tape space ids to names (copied). `description` may be null; it must outlive this.
  ShadowState(const Description *description, std::vector<std::string> spaces, uint16_t device,
              ShadowLimits limits = {});
  ~ShadowState();
  ShadowState(ShadowState &&) noexcept;

  /// Names a space that came into the tape's table later. Ids that have no name have undescribed registers.
  void addSpace(uint16_t id, llvm::StringRef name);

  /// Fetches a blob's content for packets whose payload matters; returns empty if unknown. May be called by
  /// apply().
  using BlobLookup = std::function<llvm::ArrayRef<uint8_t>(BlobId)>;

  /// Applies one packet of this device (others are ignored, except Loss, which concerns all). `ordinal` is
  /// its tape-wide number. A collector that has seen the packets which it did not record does not apply the
  /// Loss packet (NotRecording) that it writes for them.
  void apply(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, const BlobLookup &blobs);

  /// Register traffic in bulk. A key is a number for accesses of one shape, given out in order from 0;
  /// nothing if accesses like that have to be applied one by one, or after `maxAccessKeys` keys. Valid until
  /// forgetAccessKeys(), which whoever calls addSpace() calls behind it.
  static constexpr size_t maxAccessKeys = 65536;
  std::optional<uint32_t> accessKey(uint16_t space, uint64_t address, uint8_t width);
  void forgetAccessKeys();
  /// As apply() of each in turn, up to the first that may tell or do more than what is in its register;
  /// returns how many. They are reads and writes of this device that are Done, each with the key of its
  /// shape; the first packet's ordinal is given, the others follow it.
  size_t applyPlain(uint64_t firstOrdinal, llvm::ArrayRef<Packet> packets, llvm::ArrayRef<uint32_t> keys);

  /// Begins from a keyframe instead of from nothing; forgets all else, except marker counts. A Loss packet
  /// (NotRecording) that is the keyframe's own packet is then ignored: the keyframe is the state after it.
  void seed(const Keyframe &keyframe, const BlobLookup &blobs);

  /// Nothing submitted that has not been observed complete. A transfer is complete with its DmaCompletion, an
  /// activity when its end was observed and its transfers are complete, an entry of a queue when a fence
  /// behind it, the queue's progress or the description's `idle` was observed (of a queue that the
  /// description does not have: at the next memory wait that succeeded, or acquire). After a loss every
  /// activity may be running until its end is observed or the device is reset.
  bool quiescent() const;
  /// Names of running activities (and words for what has no name), for messages.
  std::vector<std::string> running() const;
  /// True if the packet just applied is a synchronisation point that ends a window: an activity was observed
  /// complete (after the last DmaCompletion, if there are any), a queue was drained, a fence was seen, an
  /// interrupt came, a memory wait ended, an
  /// acquire was made (if a DmaCompletion is to follow: that instead), the device was reset. (Markers *start*
  /// one: the caller's job.)
  bool atSynchronisation() const;

  /// A keyframe of the present state. `store` keeps contents and returns their ids. Restorable if quiescent,
  /// the description has a recipe, and everything the recipe restores is known; the reason says which of
  /// these failed. Extents of `internal` have as their space the window's index in Description::windows, and
  /// only those bytes that transfers have shown: what is still as the reset left it need not be restored.
  /// `memory` is what is known of mapped memory, in runs of at most a page. `packet` and `window` are the
  /// caller's.
  llvm::Expected<Keyframe>
  keyframe(const std::function<llvm::Expected<BlobId>(llvm::ArrayRef<uint8_t>)> &store) const;

  /// Who last wrote, by packet ordinal: a register, a byte of device-visible memory, a byte of an internal
  /// window. What the device itself wrote is the DmaDescriptor that told it to (or, if none was recorded, the
  /// register write that started the activity). After a reset, registers and windows were last written by it.
  /// Nothing: never written, forgotten, or found changed by a writer that left no packet.
  std::optional<uint64_t> lastWriterOfRegister(uint16_t space, uint64_t address) const;
  std::optional<uint64_t> lastWriterOfMemory(uint64_t iova) const;
  std::optional<uint64_t> lastWriterOfWindow(llvm::StringRef window, uint64_t deviceAddress) const;

  /// The whole register's shadow, if every byte of it is known. Of a W1C register: what was last read,
  /// without the bits cleared since.
  std::optional<uint64_t> registerValue(uint16_t space, uint64_t address) const;
  /// What is known of memory or of a window: known bytes are copied to `out`, and `known` (of the same size)
  /// says which they are. Returns how many.
  size_t memoryContent(uint64_t iova, llvm::MutableArrayRef<uint8_t> out,
                       llvm::MutableArrayRef<bool> known) const;
  size_t windowContent(llvm::StringRef window, uint64_t deviceAddress, llvm::MutableArrayRef<uint8_t> out,
                       llvm::MutableArrayRef<bool> known) const;

  /// Commands (activity starts, submits) so far, and since the last marker; that marker's name and
  /// occurrence.
  uint64_t commands() const;
  uint64_t commandsSinceMarker() const;
  const std::string &marker() const;
  uint64_t markerOccurrence() const; ///< 1 for the first of that name; 0 without marker.

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace tapeback
