// What ShadowState is made of. Inside this folder only.
#pragma once

#include "hal/state/ActivityTracker.h"
#include "hal/state/ContentMap.h"
#include "hal/state/OrdinalMap.h"
#include "hal/state/QueueTracker.h"
#include "hal/state/RegisterShadow.h"
#include "hal/state/ShadowState.h"
#include "llvm/ADT/StringMap.h"

namespace tapeback {

/// One internal window. A byte is known if a transfer showed it, or if the last reset defined it and nothing
/// has been written there since: writing assigns a writer, whatever it wrote.
struct WindowState {
  WindowState(const InternalWindow &window, PageBudget &budget, size_t maxWriters)
      : window(&window), content(budget), writers(maxWriters) {}

  const InternalWindow *window;
  ContentMap content;
  OrdinalMap writers;
  std::optional<uint64_t> resetBy;
  bool filled = false; ///< The reset value holds where nobody has written since.

  void forgetAll() {
    content.clear();
    writers.clear();
    resetBy.reset();
    filled = false;
  }
  bool fillHolds(const PageBudget &budget) const { return filled && !writers.evicted() && !budget.refused(); }
  uint64_t last() const { return window->base + (window->size - 1); }
  /// The part of [first, first + length) that lies in the window; false if none.
  bool clip(uint64_t first, uint64_t length, uint64_t &clippedFirst, uint64_t &clippedLast) const;
  /// First byte that is not known, if any.
  std::optional<uint64_t> firstUnknown(const PageBudget &budget) const;
};

/// Last byte of a range that is not empty, cut at the end of the address space.
inline uint64_t lastOf(uint64_t first, uint64_t length) {
  return length - 1 > ~uint64_t(0) - first ? ~uint64_t(0) : first + (length - 1);
}

/// Bytes of a range; of the whole address space one less, which nothing here can be.
inline uint64_t lengthOf(uint64_t first, uint64_t last) {
  return last - first == ~uint64_t(0) ? last - first : last - first + 1;
}

struct ShadowState::State {
  State(const Description *description, std::vector<std::string> spaces, uint16_t device,
        const ShadowLimits &limits);

  // One function a group of packet kinds; all in ShadowState.cpp.
  void registerWrite(uint64_t ordinal, const Packet &packet);
  void registerSeen(const Packet &packet);
  void memoryWritten(uint64_t ordinal, const Packet &packet, const PacketExtra &extra,
                     const BlobLookup &blobs);
  void memorySeen(uint64_t address, llvm::ArrayRef<uint8_t> content);
  bool fencesSeen(uint64_t address, llvm::ArrayRef<uint8_t> content);
  void transferTold(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);
  void transferDone(const Packet &packet, const PacketExtra &extra, const BlobLookup &blobs);
  void acquired(const Packet &packet, const PacketExtra &extra, const BlobLookup &blobs);
  void waitedForMemory(const Packet &packet);
  void deviceReset(uint64_t ordinal, const Packet &packet);
  void lost(uint64_t ordinal, const Packet &packet);
  void marked(const Packet &packet, const PacketExtra &extra, const BlobLookup &blobs);
  void mapped(uint64_t ordinal, uint64_t first, uint64_t length, bool isMapped);
  void submitted(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, const BlobLookup &blobs);
  void forgetDevice(uint64_t ordinal, bool known);
  void portAccess(uint64_t ordinal, unsigned reg, uint64_t mask, uint64_t value, bool write);
  bool portUsable(const InternalWindow::Port &port) const;
  bool isPort(unsigned reg) const;
  void fencePassed(const QueueTracker::Fence &fence);
  std::optional<uint64_t> wordAt(uint64_t address, unsigned width) const;
  void cameBack(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);
  bool didNotComplete(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);
  void dispatch(uint64_t ordinal, const Packet &packet, const PacketExtra &extra, const BlobLookup &blobs);

  void started(uint64_t ordinal, unsigned activity, uint64_t value);
  void overwriteMemory(uint64_t ordinal, const RowRange &rows);
  WindowState *windowOf(const OutstandingTransfer &transfer);
  template <typename Transfers>
  WindowState *windowAmong(const Transfers &transfers, const OutstandingTransfer &transfer);
  void forgetMemory();
  void forgetWindows(std::optional<uint64_t> resetBy, bool filled);

  /// An access of one shape that may be applied without a look at the rest of the state.
  struct Plain {
    RegisterShadow::Place place;
    bool read = true, write = true; ///< Such accesses may be.
    bool watched = false;           ///< A read may, if its value tells nothing now.
    bool disturbs = false;          ///< A write changes what read-only registers show.
  };
  Plain plainOf(const RegisterShadow::Place &place) const;
  bool tellsNothing(unsigned reg, uint64_t value) const;
  size_t applyPlain(uint64_t firstOrdinal, llvm::ArrayRef<Packet> packets, llvm::ArrayRef<uint32_t> keys);
  std::vector<Plain> plain; ///< By key.

  /// Why a keyframe could not be restored; empty if it could.
  std::string whyNotRestorable() const;

  const Description *description;
  uint16_t device;
  ShadowLimits limits;
  RegisterShadow registers;
  ActivityTracker activities;
  QueueTracker queues;
  std::optional<unsigned> lastQueue; ///< Of the last Submit: what descriptors without activity are of.
  uint64_t windowsChanged = 0; ///< 1 + the last Submit that may have changed windows in ways nobody tells.
  uint64_t step = 0, disturbedAt = 0; ///< Packets seen; the last of them that wrote to the device.
  std::vector<uint64_t> seenAt;       ///< By described register: the last that read it.
  bool endsWithCompletions = false;   ///< The packet that the present DmaCompletions follow ends a window.
  PageBudget budget;
  ContentMap memory;
  OrdinalMap memoryWriters, mappings;
  std::vector<WindowState> windows; ///< As in the description.

  bool synchronised = false;
  uint64_t commands = 0, commandsAtMarker = 0;
  std::string marker;
  uint64_t markerOccurrence = 0;
  llvm::StringMap<uint64_t> markerCounts;
  std::optional<uint64_t> seededAt;
};

} // namespace tapeback
