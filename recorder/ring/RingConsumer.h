// The collector's end of the ring: all lanes in one order. Everything read from it is untrusted.
#pragma once

#include "recorder/ring/LaneReader.h"
#include <atomic>
#include <memory>

namespace tapeback::ring {

class RingFile;

/// Merges the lanes by stamp: an operation stands where it completed, one that is under way where it was
/// issued, an event at its time. What is given out is complete up to a moment (the watermark) behind which
/// every thread was seen to be, so that nothing comes late; see "Memory order" in RingFormat.h.
///
/// One thread; wake() may be called from any. Never fails, never loops: what it cannot understand is skipped
/// and reported as Corrupt. Memory: 16 KiB a lane in use, one payload (at most the capture limit it was
/// given) and the parts of payloads that are not whole yet, 256 MiB (or one payload) of all lanes together.
class RingConsumer {
public:
  /// Of one lane. The memory stays the caller's; sizes are those the caller made the ring with (what the
  /// header says now is the program's word).
  struct LaneView {
    Lane *lane;
    const Slot *slots;
    uint64_t slotCount;
  };
  RingConsumer(Header &header, llvm::ArrayRef<LaneView> lanes, const ClockFacts &clock,
               uint64_t captureLimit);
  explicit RingConsumer(const RingFile &file);
  /// A ring that was left behind: what is not in its tape's file. `torn`: some of that is gone.
  static std::unique_ptr<RingConsumer> ofLeftBehind(const RingFile &file, bool &torn);
  ~RingConsumer();

  /// Accesses: register accesses of one lane that came back, one behind the other. Record: anything else.
  enum class Status : uint8_t { Empty, Accesses, Record, Corrupt };
  struct Batch {
    llvm::ArrayRef<SlotCopy> accesses; ///< Valid until the next call, as is `payload`.
    uint64_t firstName = 0;            ///< Of the accesses; the others count up.
    bool concurrent = false;           ///< All of them overlap an operation of another lane, or none does.
    /// Its type is a RecordType and never Pad or Chunk; its sizes are consistent; every other field is as the
    /// program wrote it.
    Record record = {};
    llvm::ArrayRef<uint8_t> payload;
    Others others; ///< Of a Complete record, in nanoseconds: what its operation may have overlapped.
  };
  Status next(Batch &batch);
  /// From now on next() also says Empty when it has given out all that it looked at and only little has come
  /// since. Who then waits takes many at a time, from lines of memory that the program has done with: taken
  /// one by one as they come, each line goes from core to core while the program writes to it, and both sides
  /// wait. While few records come it looks ever more seldom, down to once in `longest` milliseconds, without
  /// being woken for them: a wake-up costs the program a system call, and takes a core from somebody.
  void lagBehind(unsigned longest = 0) {
    lags = true;
    longestLag = longest;
  }
  /// Gives the space of what was taken out back to the producer. next() does so by itself now and then.
  void release();

  /// From now on space is given back only when what was in it is said to be written; a part of the ring that
  /// is neither taken nor written is small, so ask wantsWritten() after each batch.
  void holdUntilWritten();
  bool wantsWritten() const { return behind; }
  /// Everything that was given out is in the tape's file, and `phase` is what becomes of the rest. Also keeps
  /// the stamps' clock true: call about once a second at least.
  void markWritten(RingPhase phase);

  /// Sleeps until there is something to read, wake() was called, or the time is over.
  void wait(unsigned milliseconds);
  /// Makes a present or the next wait() return. Async-signal-safe.
  void wake();

  /// From now on only what the producer has published until now is returned, so that draining ends even if a
  /// process goes on writing; and all of it: nothing is waited for.
  void freeze();
  uint64_t corruptions() const { return corrupt; }
  /// What was issued by then (in nanoseconds) was given out, except what is under way: as of the last Empty.
  uint64_t watermark() const { return passed; }
  /// How full the fullest lane is, 0 to 1.
  double fill() const;
  /// Call about once a second: keeps the stamps' clock true.
  void resync() { clock.resync(); }

private:
  struct Source;

  bool refresh();
  void lookAtAll();
  bool onlyOneLane();
  bool littleHasCome() const;
  Source *choose();
  Status give(Source &source, Batch &batch);
  uint64_t unread(const Source &source) const;
  bool recordsFlow();

  Header &header;
  StampClock clock;
  PartsBudget budget;
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<Source *> active; ///< Those that have something that was not taken.
  std::vector<Source *> used;   ///< Those that ever had.
  std::vector<Source *> owing;  ///< Those that may publish something older than the limit.
  Source *glued = nullptr;      ///< The lane of the last record: what is joined to it comes first.
  std::vector<uint8_t> content;

  uint64_t limit = 0;  ///< Stamp: what is later has to wait.
  uint64_t looked = 0; ///< Stamp of the last look at the lanes.
  uint64_t passed = 0, corrupt = 0;
  uint64_t taken = 0, takenAtWait = 0;
  uint64_t slotsAtWait = 0;              ///< That had been taken out of all lanes.
  unsigned longestLag = 0, lag = 0;      ///< Milliseconds; the present one.
  unsigned silence = 0, nextSilence = 0; ///< Milliseconds for which nothing came; with the wait before.
  unsigned idleWaits = 0;                ///< Without anything taken although there was something.
  bool frozen = false, lags = false;
  bool alone = false; ///< When they were last looked at, no more than one lane was in use.
  bool lookedSinceEmpty = false;
  bool behind = false; ///< A lane wants to be marked as written.
  std::atomic<bool> woken{false};
};

} // namespace tapeback::ring
