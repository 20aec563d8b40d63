// What can be known of one device from the packets alone: register shadow, mappings, contents of memory and of
// internal windows, running activities. Used by the recorder (windows, keyframes) and by the replayer (trim, who wrote
// it last, deep probes). Pure: packets in, state out.
//
// Read-to-clear and FIFO registers are never in the shadow. A register's shadow is the last value written or, for
// registers that the program has not written, the last value read.
#pragma once

#include "format/Records.h"
#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include <functional>
#include <map>
#include <optional>

namespace tapeback {

class ShadowState {
public:
  /// `spaces` maps tape space ids to names (copied). `description` may be null; it must outlive this.
  ShadowState(const Description *description, std::vector<std::string> spaces, uint16_t device);

  /// Fetches a blob's content for packets whose payload matters; returns empty if unknown. May be called by apply().
  using BlobLookup = std::function<llvm::ArrayRef<uint8_t>(BlobId)>;

  /// Applies one packet of this device (others are ignored). `ordinal` is its tape-wide number.
  void apply(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, const BlobLookup &blobs);

  /// Nothing submitted that has not been observed complete.
  bool quiescent() const;
  /// Names of running activities, for messages.
  std::vector<std::string> running() const;
  /// True if the packet just applied is a synchronisation point that ends a window: an activity was observed complete,
  /// an interrupt came, a memory wait ended, an acquire was made. (Markers *start* one: the caller's job.)
  bool atSynchronisation() const;

  /// A keyframe of the present state. `store` keeps contents and returns their ids. Restorable if quiescent, the
  /// description has a recipe, and everything the recipe restores is known; the reason says which of these failed.
  llvm::Expected<Keyframe> keyframe(const std::function<llvm::Expected<BlobId>(llvm::ArrayRef<uint8_t>)> &store) const;

  /// Who last wrote, by packet ordinal: a register, a byte of device-visible memory, a byte of an internal window.
  std::optional<uint64_t> lastWriterOfRegister(uint16_t space, uint64_t address) const;
  std::optional<uint64_t> lastWriterOfMemory(uint64_t iova) const;
  std::optional<uint64_t> lastWriterOfWindow(llvm::StringRef window, uint64_t deviceAddress) const;

  std::optional<uint64_t> registerValue(uint16_t space, uint64_t address) const;
  /// Commands (activity starts, submits) so far, and since the last marker; that marker's name and occurrence.
  uint64_t commands() const;
  uint64_t commandsSinceMarker() const;
  const std::string &marker() const;
  uint64_t markerOccurrence() const;

private:
  // Implementation may be changed freely by its owner.
};

} // namespace tapeback
