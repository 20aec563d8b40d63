// The producer's end of the ring, inside the recorded program.
#pragma once

#include "recorder/ring/CaptureTable.h"
#include "recorder/ring/RingFormat.h"
#include <ctime>
#include <pthread.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace tapeback::ring {

/// How frames and completions are made visible to the collector (see "Memory order" in RingFormat.h). A test
/// builds one that does it wrong, to see that it is noticed.
#ifdef TAPEBACK_RING_MUTANT
constexpr std::memory_order publishOrder = std::memory_order_relaxed;
#else
constexpr std::memory_order publishOrder = std::memory_order_release;
#endif

/// The process's own end of a lane. What the collector sees of it is in `lane`, `slots`. Its thread's, but
/// for `limit`.
struct alignas(128) LaneWriter {
  Lane *lane = nullptr;
  Slot *slots = nullptr;
  uint64_t mask = 0; ///< Slots of the lane, less one.
  uint64_t head = 0;
  /// Below this position a frame of one slot may begin without a question: there is room, nothing to report,
  /// no group, stamps are the counter's, and no fence is needed. stop() sets it to 0 from any thread.
  std::atomic<uint64_t> limit{0};
  uint64_t names = 0;    ///< Of a frame, less its position.
  uint64_t tailSeen = 0; ///< The collector's position when last looked at: it only grows.
  uint64_t wakeAt = 0;   ///< Below this position there is not much for the collector (WantsMuch).
  uint64_t dropped = 0;
  uint32_t groups = 0; ///< Open ones.
  uint16_t index = 0;
  uint8_t joined = 0; ///< Joined, if the next frame is the group's and not its first.
  bool shared = false;
  bool backed = false; ///< Its memory was seen to be there.
  /// Below this position its pages are mapped; all of them after the first time round.
  uint64_t touched = ~uint64_t(0);
};

/// The calling thread's lane, of the producer that it used last.
struct ThreadLane {
  uint64_t attachment; ///< Which; 0: none.
  LaneWriter *writer;
};
// Initial-exec: one instruction where the general model makes a call.
// NOLINTBEGIN(bugprone-dynamic-static-initializers)
[[gnu::visibility("hidden"),
  gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadLane threadLane;
// NOLINTEND(bugprone-dynamic-static-initializers)

/// What an operation that completes in place says, or an event without fields of an Extension: the slot's
/// words, so that it is filled in without stores that the processor would have to put together again.
struct Access {
  uint64_t address, value;
  uint64_t sizes; ///< payloadBytes, slots, device.
  uint64_t what;  ///< space, thread, type, kind, width, flags.
  uint8_t origin;

  static Access make(PacketKind kind, uint64_t address, uint64_t value, uint16_t device, uint16_t space,
                     uint16_t thread, unsigned width, Origin origin) {
    return {address, value, uint64_t(1) << 32 | uint64_t(device) << 48,
            uint64_t(space) | uint64_t(thread) << 16 | uint64_t(RecordType::Issue) << 32 |
                uint64_t(kind) << 40 | uint64_t(width) << 48,
            uint8_t(origin)};
  }
  static Access makeEvent(PacketKind kind, uint64_t address, uint64_t value, uint16_t device, uint16_t thread,
                          Origin origin) {
    Access event = make(kind, address, value, device, 0, thread, 0, origin);
    event.what ^= uint64_t(uint8_t(RecordType::Issue) ^ uint8_t(RecordType::Event)) << 32;
    return event;
  }
  PacketKind kind() const { return PacketKind(uint8_t(what >> 40)); }
};
static_assert(offsetof(Slot, payloadBytes) == 32 && offsetof(Slot, slots) == 36 &&
              offsetof(Slot, device) == 38 && offsetof(Slot, space) == 40 && offsetof(Slot, thread) == 42 &&
              offsetof(Slot, type) == 44 && offsetof(Slot, kind) == 45 && offsetof(Slot, width) == 46 &&
              offsetof(Slot, flags) == 47 && offsetof(Slot, completion) == 48 &&
              offsetof(Slot, origin) == 49 && offsetof(Slot, hints) == 50 && offsetof(Slot, state) == 52 &&
              __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

/// An operation that was issued, until it completes.
struct IssuedAccess {
  uint64_t name = 0;            ///< 0: not recorded.
  Slot *slot = nullptr;         ///< Null: there will be a Complete frame.
  LaneWriter *writer = nullptr; ///< With `slot`.
};

/// Appends records. Threads: any, each into a lane of its own, the last lane by all that find no other. Never
/// blocks for ever: a producer that waits for space notices within a tenth of a second that the collector
/// died, and from then on records nothing. Ownership: keeps its mapping until the process ends (other threads
/// may be inside a call at exit).
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
  /// The calling thread ends: its lane is free for another.
  void threadEnds();
  /// In a child of fork(): nothing more is recorded here, and nothing of the parent's is touched.
  void forked() { stop(); }

  /// Null unless attached.
  const capture::Table *captureTable() const { return table; }
  uint64_t captureLimit() const { return limit; }
  /// True while attached and the collector lives (as far as is known).
  bool recording() const { return live.load(std::memory_order_acquire); }
  /// Whether the collector has asked for a counter snapshot; the asking is over with that.
  bool takeSnapshotRequest() {
    return header && header->requests.load(std::memory_order_relaxed) != 0 &&
           header->requests.exchange(0, std::memory_order_relaxed) != 0;
  }

  /// Appends `record` with a payload of `bytes` (cut at captureLimit() with the flag Truncated). Fills in
  /// payloadBytes, hints but SamePayload, `sequence` (not for Complete) and `time` if 0. Returns the
  /// sequence, 0 if not recorded.
  uint64_t append(const Record &record, const void *payload = nullptr, uint64_t bytes = 0);

  /// The same for an event of makeEvent(). The payload is a name: a few hundred bytes.
  uint64_t appendEvent(const Access &event, const void *payload = nullptr, uint64_t bytes = 0);

  /// Issues an operation without payload that completes by completion and value only.
  IssuedAccess issueInPlace(const Access &access);
  /// `access` is the one it was issued with. Writes keep the value that was issued.
  void completeInPlace(const IssuedAccess &underway, const Access &access, Completion completion,
                       uint64_t value);

  /// While one exists, no record of other threads comes between those of its thread. Nests.
  class Group {
  public:
    explicit Group(Producer &producer) : producer(producer), writer(producer.enter()) {}
    ~Group() {
      if (writer)
        producer.leave(writer);
    }
    Group(const Group &) = delete;
    Group &operator=(const Group &) = delete;

  private:
    Producer &producer;
    LaneWriter *writer;
  };

  /// Counts an operation that went unrecorded because the collector is gone.
  void countUnrecorded();
  /// CLOCK_MONOTONIC in nanoseconds: the tape's clock 0.
  static uint64_t now();
  /// What records are stamped with.
  uint64_t stamp() const { return counterStamps ? counter() : now(); }

private:
  static uint64_t counter() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0; // Nobody chooses it.
#endif
  }
  LaneWriter *writer() { return threadLane.attachment == attachment ? threadLane.writer : claim(); }
  LaneWriter *claim();
  bool back(LaneWriter &writer);
  static void touchAhead(LaneWriter &writer, uint64_t slots);
  LaneWriter *enter();
  void leave(LaneWriter *writer);
  void lockShared(LaneWriter &writer);
  void unlockShared(LaneWriter &writer);

  /// A stamp will be taken, and what it stands on published.
  void begin(LaneWriter &writer) const {
    if (fences)
      writer.lane->busy.exchange(1, std::memory_order_seq_cst);
    else
      writer.lane->busy.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  static void end(LaneWriter &writer) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    writer.lane->busy.store(writer.groups != 0, publishOrder);
  }
  /// Makes [head, head + slots) the collector's. Between begin() and end().
  void publish(LaneWriter &writer, uint64_t slots) const {
    writer.head += slots;
    writer.joined = writer.groups ? uint8_t(Joined) : uint8_t(0);
    if (fences)
      writer.lane->head.exchange(writer.head, std::memory_order_seq_cst);
    else
      writer.lane->head.store(writer.head, publishOrder);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void wakeIfWanted(LaneWriter &writer) {
    uint32_t wanted = header->dataWanted.load(std::memory_order_relaxed);
    // A collector that keeps up sleeps most of the time: what does not wake it has to cost nothing.
    if (wanted && (wanted != WantsMuch || writer.head >= writer.wakeAt)) [[unlikely]]
      wakeCollector(writer);
  }
  void wakeCollector(LaneWriter &writer);
  bool roomFor(LaneWriter &writer, uint64_t slots) const;
  bool waitForSpace(LaneWriter &writer, uint64_t slots);
  bool collectorAlive() const;
  bool drops(LaneWriter &writer, uint64_t slots);
  /// `addedFlags` beside the record's own.
  uint64_t putFrame(LaneWriter &writer, const Record &record, uint8_t addedFlags, const void *payload,
                    uint64_t bytes, uint64_t total);
  uint64_t appendTo(LaneWriter &writer, const Record &record, const void *payload, uint64_t bytes);
  uint64_t appendElsewhere(const Access &event, const void *payload, uint64_t bytes);
  IssuedAccess issueElsewhere(LaneWriter *writer, const Access &access);
  void completeElsewhere(const IssuedAccess &underway, const Access &access, Completion completion,
                         uint64_t value);
  /// Lets the lane's thread take the short way as far as there is room.
  void openLimit(LaneWriter &writer);
  void stop();

  Header *header = nullptr;
  const capture::Table *table = nullptr;
  std::atomic<bool> live{false};
  bool counterStamps = false, fences = true, dropWhenFull = false;
  uint64_t attachment = 0; ///< Of all attachments of this process.
  uint64_t limit = 0;
  uint32_t chunkBytes = 0, laneCount = 0;
  LaneWriter writers[maxLanes];
  char ringPath[4096] = {};
  pthread_mutex_t sharedLock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  pthread_mutex_t claimLock = PTHREAD_MUTEX_INITIALIZER;
};

/// Asks for the lines that the next records but some will be written to: the collector had them last, and a
/// line takes as long from core to core as ten records. (The compiler's built-in does not emit this one.)
inline void fetchAhead(const Slot *slots, uint64_t head, uint64_t mask) {
  constexpr uint64_t aheadSlots = 48;
  const Slot *at = &slots[(head + aheadSlots) & mask];
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*at));
#else
  __builtin_prefetch(at, 1);
#endif
}

/// Everything of a slot but the stamps.
inline void fillIn(Slot &slot, const Access &access, uint8_t hints, uint64_t moreSizes, Completion completion,
                   SlotState state) {
  slot.address = access.address;
  slot.value = access.value;
  auto put = [&slot](size_t offset, uint64_t word) {
    __builtin_memcpy(reinterpret_cast<char *>(&slot) + offset, &word, sizeof(word));
  };
  put(offsetof(Slot, payloadBytes), access.sizes + moreSizes);
  put(offsetof(Slot, space), access.what);
  put(offsetof(Slot, completion),
      uint64_t(completion) | uint64_t(access.origin) << 8 | uint64_t(hints) << 16 | uint64_t(state) << 32);
}
/// Everything of a slot that an issue tells, but the stamp.
inline void fillIn(Slot &slot, const Access &access, uint8_t hints) {
  slot.complete = 0;
  fillIn(slot, access, hints, 0, Completion::Pending, SlotState::Issued);
}

// What the rare ways get are copies, made there: what the frequent way holds is then in registers alone.
inline IssuedAccess Producer::issueInPlace(const Access &access) {
  LaneWriter *own = writer();
  uint64_t most = own ? own->limit.load(std::memory_order_relaxed) : 0;
  // In this order: a lane without limit may be another thread's too.
  if (!most || own->head >= most) [[unlikely]] {
    const Access copy = access;
    return issueElsewhere(own, copy);
  }
  uint64_t head = own->head;
  Slot &slot = own->slots[head & own->mask];
  Lane &lane = *own->lane;
  fetchAhead(own->slots, head, own->mask);
  lane.busy.store(BusyStamping, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slot.issue = counter();
  fillIn(slot, access, CompletesInPlace);
  own->head = ++head;
  lane.head.store(head, publishOrder);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  lane.busy.store(BusyNot, publishOrder);
  wakeIfWanted(*own);
  return {own->names + head, &slot, own};
}

inline uint64_t Producer::appendEvent(const Access &event, const void *payload, uint64_t bytes) {
  LaneWriter *own = writer();
  const uint64_t most = own ? own->limit.load(std::memory_order_relaxed) : 0, more = slotsFor(bytes);
  // In this order, as below. The frame must not wrap.
  if (!most || own->head + more >= most || (own->head & own->mask) + more > own->mask || bytes > chunkBytes)
      [[unlikely]] {
    const Access copy = event;
    return appendElsewhere(copy, payload, bytes);
  }
  uint64_t head = own->head;
  Slot &slot = own->slots[head & own->mask];
  Lane &lane = *own->lane;
  for (uint64_t line = 0; line <= more; ++line)
    fetchAhead(own->slots, head + line, own->mask);
  lane.busy.store(BusyStamping, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slot.issue = slot.complete = counter();
  fillIn(slot, event, 0, bytes | more << 32, Completion::Done, SlotState::Completed);
  if (bytes)
    __builtin_memcpy(static_cast<void *>(&slot + 1), payload, bytes);
  const uint64_t name = own->names + head + 1;
  own->head = head += 1 + more;
  lane.head.store(head, publishOrder);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  lane.busy.store(BusyNot, publishOrder);
  wakeIfWanted(*own);
  return name;
}

inline void Producer::completeInPlace(const IssuedAccess &underway, const Access &access,
                                      Completion completion, uint64_t value) {
  LaneWriter *own = underway.writer;
  if (!own || own->limit.load(std::memory_order_relaxed) == 0) [[unlikely]] {
    const IssuedAccess issued = underway;
    const Access copy = access;
    completeElsewhere(issued, copy, completion, value);
    return;
  }
  Slot &slot = *underway.slot;
  Lane &lane = *own->lane;
  lane.busy.store(BusyStamping, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  slot.complete = counter();
  if (access.kind() != PacketKind::RegisterWrite)
    slot.value = value;
  slot.completion = uint8_t(completion);
  slot.state.store(SlotState::Completed, publishOrder);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  lane.busy.store(BusyNot, publishOrder);
}

} // namespace tapeback::ring
