// The collector's end of the ring. Everything read from it is untrusted.
#pragma once

#include "recorder/ring/RingFormat.h"
#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace tapeback::ring {

/// Reads frames one by one. One thread; wake() may be called from any. Never fails, never loops: what it
/// cannot understand is skipped and reported as Corrupt, after which reading goes on at the producer's
/// position. Memory: one payload (at most the capture limit it was given).
class RingConsumer {
public:
  /// `header` and `data` stay the caller's; `dataBytes` and `captureLimit` are those the caller made the ring
  /// with (what the header says now is the program's word).
  RingConsumer(Header &header, uint8_t *data, uint64_t dataBytes, uint64_t captureLimit)
      : header(header), data(data), dataBytes(dataBytes), captureLimit(captureLimit) {}

  enum class Status : uint8_t { Empty, Record, Corrupt };
  /// Takes the next record out. `payload` is valid until the next call. Its type is a RecordType and never
  /// Pad or Chunk; its sizes are consistent; every other field is as the program wrote it.
  Status next(Record &record, llvm::ArrayRef<uint8_t> &payload);
  /// Gives the space of what was taken out back to the producer. next() does so by itself now and then.
  void release();

  /// Sleeps until there is something to read, wake() was called, or the time is over.
  void wait(unsigned milliseconds);
  /// Makes a present or the next wait() return. Async-signal-safe.
  void wake();

  /// From now on only what the producer has published until now is returned, so that draining ends even if a
  /// process goes on writing.
  void freeze();
  uint64_t corruptions() const { return corrupt; }

private:
  uint64_t available();
  Status damaged();
  /// Copies out one frame; the result's size may be trusted, and its payload lies in `frame`.
  Status takeFrame(Record &record, llvm::ArrayRef<uint8_t> &payload);

  Header &header;
  uint8_t *data;
  uint64_t dataBytes, captureLimit;
  uint64_t position = 0, released = 0, corrupt = 0;
  uint64_t seen = 0; ///< The producer's position when last looked at: not at each record, its line is busy.
  uint64_t positionAtWait = 0;
  bool frozen = false;
  uint64_t end = 0; ///< Where to stop when frozen.
  std::atomic<bool> woken{false};
  std::vector<uint8_t> assembled; ///< Chunks so far, then the whole payload.
  std::vector<uint8_t> frame;
};

} // namespace tapeback::ring
