// A tape as the replayer uses it: the reader, the descriptions that it carries, and look-ups that must not
// trust it.
#pragma once

#include "format/TapeReader.h"
#include "hal/description/Description.h"
#include "replayer/Stretch.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <deque>
#include <memory>
#include <optional>

namespace tapeback {

/// Owns the reader. One thread. Whatever the tape refers to may not exist: every look-up says so.
class TapeSource {
public:
  /// `descriptions` replaces what the tape carries, by device; missing or empty entries leave the tape's own.
  static llvm::Expected<std::unique_ptr<TapeSource>> open(llvm::StringRef path,
                                                          llvm::ArrayRef<std::string> descriptions = {});
  static llvm::Expected<std::unique_ptr<TapeSource>> create(std::unique_ptr<TapeReader> reader,
                                                            llvm::ArrayRef<std::string> descriptions = {});

  TapeReader &reader() { return *tape; }
  const TapeReader &reader() const { return *tape; }
  size_t deviceCount() const { return tape->devices().size(); }
  /// Null if the device does not exist or was recorded without one.
  const Description *description(uint16_t device) const;
  /// "space-7" if the tape's table does not have it.
  std::string spaceName(uint16_t space) const;
  std::vector<std::string> spaceNames() const;

  /// One packet. `ordinal` out of range is a Tape failure: who asks follows a link that verify would have
  /// refused.
  llvm::Error packetAt(uint64_t ordinal, Packet &packet, PacketExtra &extra);
  /// Hands the packets [0, end) over (all of the tape without one) in blocks, of each the first `count`
  /// packets. False: that was enough.
  llvm::Error
  eachBlock(std::optional<uint64_t> end,
            llvm::function_ref<llvm::Expected<bool>(const PacketBatch &batch, size_t count)> each);
  /// Packets from `first` on, with their contents, for a replay that must not read files in between.
  llvm::Error readStretch(uint64_t first, uint64_t end, const StretchLimits &limits) {
    return present.read(*tape, first, end, limits);
  }
  const Stretch &stretch() const { return present; }
  /// From the stretch, if it has it; valid until the next readStretch() and as long as the reader says.
  llvm::Expected<llvm::ArrayRef<uint8_t>> content(BlobId id) {
    if (std::optional<llvm::ArrayRef<uint8_t>> held = present.find(id))
      return *held;
    return tape->blob(id);
  }
  /// A payload as a name: at most 255 bytes of it; empty if there is no payload.
  llvm::Expected<std::string> name(BlobId id);

private:
  TapeSource() = default;

  std::unique_ptr<TapeReader> tape;
  std::deque<std::optional<Description>> descriptions; ///< Stable addresses.
  PacketBatch scratch;
  Stretch present;
};

/// Walks the windows of a tape along with its packets.
class WindowCursor {
public:
  explicit WindowCursor(TapeReader &reader) : reader(reader) {}

  /// Moves to the window of `packet`, which must not be before the present one's first packet.
  llvm::Error moveTo(uint64_t packet);
  uint64_t window() const { return number; }
  const WindowInfo &info() const { return present; }
  uint64_t endPacket() const { return present.firstPacket + present.packetCount; }
  bool contains(uint64_t packet) const {
    return valid && packet >= present.firstPacket && packet < endPacket();
  }

private:
  TapeReader &reader;
  WindowInfo present;
  uint64_t number = 0;
  bool valid = false;
};

} // namespace tapeback
