// The producer's end of the ring, inside the recorded program.
#pragma once

#include "recorder/ring/CaptureTable.h"
#include "recorder/ring/RingFormat.h"
#include <pthread.h>

namespace tapeback::ring {

/// Appends records. Threads: append and the Group may be used from any thread. Never blocks for ever: a
/// producer that waits for space notices within a tenth of a second that the collector died, and from then on
/// records nothing. Ownership: keeps its mapping until the process ends (other threads may be inside a call
/// at exit).
class Producer {
public:
  enum class Attach { Attached, Foreign, Busy, Failed };
  /// Maps and checks the ring at `path` and claims it for this process. Foreign: not a ring of this version;
  /// Busy: another living process is attached; Failed: the system's errno says why.
  Attach attach(const char *path);
  /// For tests and tools that made the mapping themselves; `mapping` stays the caller's. `path` may be null,
  /// then the collector's life is not checked by its lock but only by its state.
  Attach attachMapping(void *mapping, uint64_t bytes, const char *path);
  void detach();
  /// Frees what attaching allocated. Only for owners that know that no thread is inside a call: not at a
  /// program's exit.
  void release();

  /// Null unless attached.
  const capture::Table *captureTable() const { return table; }
  uint64_t captureLimit() const { return limit; }
  /// True while attached and the collector lives (as far as is known).
  bool recording() const { return live.load(std::memory_order_acquire); }

  /// Appends `record` with a payload of `bytes` (cut at captureLimit() with the flag Truncated). Fills in
  /// size, payload sizes, `sequence` if 0 (not for Complete) and `time` if 0. Returns the sequence, 0 if not
  /// recorded.
  uint64_t append(const Record &record, const void *payload = nullptr, uint64_t bytes = 0);

  /// While one exists, the records of its thread follow each other in the ring without others between. Nests.
  class Group {
  public:
    explicit Group(Producer &producer) : producer(producer) { producer.enter(); }
    ~Group() { producer.leave(); }
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;

  private:
    Producer &producer;
  };

  /// Counts an operation that went unrecorded because the collector is gone.
  void countUnrecorded();
  /// CLOCK_MONOTONIC in nanoseconds: the tape's clock 0.
  static uint64_t now();

private:
  void enter();
  void leave();
  void publishHead();
  void wakeCollector();
  bool waitForSpace(uint64_t bytes);
  bool collectorAlive() const;
  bool putFrame(const Record &record, const void *payload);
  bool roomFor(uint64_t bytes);
  void reportDropped();
  void stop() { live.store(false, std::memory_order_release); }

  Header *header = nullptr;
  uint8_t *data = nullptr;
  const capture::Table *table = nullptr;
  uint64_t dataBytes = 0, limit = 0, head = 0, sequence = 0, dropped = 0;
  uint64_t tailSeen = 0; ///< The collector's position when last looked at: it only grows.
  uint32_t chunkBytes = 0, flags = 0;
  std::atomic<bool> live{false};
  char ringPath[4096] = {};
  pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
};

} // namespace tapeback::ring
