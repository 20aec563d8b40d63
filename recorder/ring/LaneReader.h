// One lane of the ring, read by the collector. Everything in it is untrusted.
#pragma once

#include "recorder/ring/SlotCopy.h"
#include "recorder/ring/StampClock.h"
#include "llvm/ADT/ArrayRef.h"
#include <algorithm>
#include <utility>
#include <vector>

namespace tapeback::ring {

/// Bytes of payloads that come in parts, of all lanes together.
struct PartsBudget {
  uint64_t used = 0;
  static constexpr uint64_t most = 256 << 20;
};

/// Never fails, never loops: what it cannot understand is skipped up to the producer's position, and told as
/// Corrupt. The lane's memory must outlive it. Memory: 16 KiB of copied slots, and parts of payloads.
class LaneReader {
public:
  LaneReader(Lane &lane, const Slot *slots, uint64_t slotCount, unsigned number, uint64_t maxPayload,
             PartsBudget &budget);

  /// What the lane has next, and when that was by its stamp.
  enum class Next : uint8_t { Nothing, Access, Record, Corrupt };
  struct Head {
    Next what = Next::Nothing;
    bool begins = false; ///< An operation that was not given out yet, as issued or otherwise.
    bool joined = false; ///< Nothing of another lane may come in front of it.
    uint64_t time = 0, issue = 0;
  };
  /// `published`: the producer's position, loaded with acquire. What is behind it is not looked at.
  void publish(uint64_t position);
  const Head &look() {
    if (head.what == Next::Nothing)
      findNext();
    return head;
  }

  /// Takes accesses as long as they are plain, not later than `limit`, and all concurrent or none: one at
  /// least. Valid until the next call. Only if an Access is next.
  llvm::ArrayRef<SlotCopy> takeAccesses(uint64_t limit, const Others &others, const StampClock &clock,
                                        bool &concurrent);
  /// Takes the record; `payload` is the caller's. Only if a Record is next. False if it made no sense: then
  /// the lane is behind all that was published.
  bool takeRecord(Record &record, std::vector<uint8_t> &payload, const StampClock &clock);
  /// Only if Corrupt is next.
  void takeCorrupt() { head = Head(); }

  /// From now on space is given back only when what was in it is written (markWritten()).
  void holdUntilWritten() { holds = true; }
  /// Everything that was taken is in the tape's file.
  void markWritten();
  /// So much was taken and is not known to be written.
  bool wantsWritten() const { return holds && position - writtenTo >= slotCount / 4; }
  /// Begins there, in a ring that was left behind.
  void startAt(uint64_t from) { position = published = released = writtenTo = from; }

  /// Gives the space of what was taken back to the producer.
  void release() { releaseTo(holds ? std::max(released, writtenTo) : position); }
  bool wantsRelease() const { return !holds && position - released >= slotCount / 16; }
  uint64_t at() const { return position; }
  /// An operation was given out as issued, and its slot still is all that there is.
  bool waitsInPlace() const { return given; }
  bool completedInPlace() const;
  uint64_t slotsOfLane() const { return slotCount; }
  unsigned number() const { return laneNumber; }
  /// The latest completion of an operation that was given out; 0: none.
  uint64_t lastComplete() const { return latestComplete; }
  Lane &shared() { return lane; }

private:
  static constexpr size_t maxCopied = 256;

  void releaseTo(uint64_t to);
  void issued(uint16_t thread);
  void cameBack(uint16_t thread);
  void findNext();
  bool findFrame();
  void damaged();
  void found(Next what, uint64_t time, const SlotCopy &slot);
  void copyFrom(uint64_t from);
  const SlotCopy &slotAt(uint64_t from);
  const uint8_t *bytesAt(uint64_t slot) const {
    return reinterpret_cast<const uint8_t *>(slots + (slot & (slotCount - 1)));
  }
  bool takeChunk(const SlotCopy &slot);
  void dropParts();

  Lane &lane;
  const Slot *slots;
  uint64_t slotCount;
  unsigned laneNumber;
  uint64_t maxPayload;
  PartsBudget &budget;

  uint64_t position = 0, published = 0, released = 0, writtenTo = 0;
  bool holds = false;
  /// Operations with a Complete frame to come, and where their Issue is: one a thread. A lane has one thread,
  /// the shared one some.
  std::vector<std::pair<uint16_t, uint64_t>> open;
  Head head;
  bool given = false; ///< The slot at `position` was given out as issued, and completes in place.
  uint16_t givenSlots = 0;
  uint64_t latest = 0, latestComplete = 0;
  std::vector<SlotCopy> copies;
  uint64_t copiedFrom = 0, copiedTo = 0;
  SlotCopy completed = {};    ///< The slot that completed after it was given out.
  std::vector<uint8_t> parts; ///< Of the payload so far.
  uint64_t partsBytes = 0;    ///< As many; without those that found no room.
};

} // namespace tapeback::ring
