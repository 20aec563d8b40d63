// The shared-memory ring between a recorded program (producer) and the collector (consumer): its bytes.
//
//   file "ring" (0600) in a private directory (0700)
//   +-----------------+ 0
//   | Header          |   what it is, the clock of the stamps, who is there
//   +-----------------+ tableOffset
//   | capture table   |   recorder/ring/CaptureTable.h: what to capture when; written before the program
//   |                 |   starts
//   +-----------------+ lanesOffset
//   | Lane[laneCount] |   positions: one lane a thread, the last one for all threads beyond
//   +-----------------+ dataOffset
//   | slots of lane 0 |   firstLaneSlots slots, used in a circle
//   | slots of lane 1 |   laneSlots slots, as of every lane behind it
//   | ...             |
//   +-----------------+
//
// A frame is 1 or more slots of 64 bytes that never wrap (a Pad frame fills the rest): a Slot, then an
// Extension if hints say HasExtension, then its payload, padded. A payload longer than `chunkBytes` is split:
// Chunk frames carry its first parts and directly precede their record in the lane.
//
// A register access is one slot. It is published when it is issued, before the access is made, and the same
// slot is completed in place when the access came back (`hints` CompletesInPlace): what hangs or kills is in
// the ring. Operations that bring more back (contents, addresses) have an Issue and a Complete frame, and so
// has every operation in the shared last lane.
//
// The collector trusts nothing in here (the recorded program can write anywhere in its own memory), and the
// client derives no address from it but through checked values. Ordering: see "Memory order" below.
//
// No LLVM and nothing that needs libstdc++ at run time: the client library includes this.
#pragma once

#include "format/Packet.h"
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tapeback::ring {

constexpr char magic[8] = {'T', 'B', 'R', 'I', 'N', 'G', '\r', '\n'};
constexpr uint32_t version = 2;
constexpr uint32_t headerBytes = 4096;
constexpr uint32_t slotBytes = 64;
constexpr unsigned maxLanes = 64;
constexpr uint64_t minLaneBytes = 64 << 10, maxLaneBytes = uint64_t(1) << 30;
constexpr uint64_t maxTableBytes = 16 << 20;
constexpr uint32_t minChunkBytes = 64, maxChunkBytes = 1 << 20;
constexpr uint64_t maxCaptureLimit = uint64_t(1) << 30; ///< What one blob of a tape may hold.
/// The environment variable that names the ring file. Set by `tapeback record` for the program.
constexpr const char *environmentName = "TAPEBACK_RING";

enum HeaderFlags : uint32_t {
  DropWhenFull = 1 << 0, ///< Do not wait for space: drop operations and count them (LossCause::RingFull).
  FullFences = 1 << 1,   ///< The collector cannot fence for the producer (membarrier): it fences itself.
};

enum class CollectorState : uint32_t { Running = 1, Closed = 2 };

/// What wakes a sleeping collector.
enum DataWanted : uint32_t {
  WantsAny = 1,  ///< Any frame.
  WantsMuch = 2, ///< A quarter of a lane; it also wakes by itself, soon.
};

enum class StampSource : uint32_t {
  Monotonic = 1, ///< CLOCK_MONOTONIC in nanoseconds.
  Counter = 2,   ///< The processor's invariant time-stamp counter.
};

/// How stamps become nanoseconds of CLOCK_MONOTONIC (recorder/ring/StampClock.h).
struct ClockFacts {
  StampSource source;
  uint32_t reserved;
  uint64_t originStamp, originNs; ///< Read at the same time.
  uint64_t multiplier;            ///< Nanoseconds of a tick, times 2^32.
};

/// Part of the clock: from `stamp` on.
struct ClockSegment {
  uint64_t stamp, ns, multiplier;
};
/// The clock as the collector last corrected it: the times that are on the tape since then, and those before.
struct ClockSegments {
  ClockSegment current, before;
};

/// The unfinished tape that the ring is drained into, so that `recover` finds the one by the other.
struct TapeName {
  uint64_t device, inode; ///< Of the file; 0: there is none.
  char path[2048];        ///< Empty if it is longer.
};

/// What becomes of what is in the ring (start and stop conditions).
enum class RingPhase : uint32_t { Before = 0, Recording = 1, After = 2 };

struct Header {
  char magic[8];
  uint32_t version, headerBytes;
  uint64_t tableOffset, tableBytes;
  uint64_t lanesOffset, dataOffset;
  uint64_t firstLaneSlots, laneSlots; ///< Powers of two.
  uint64_t
      captureLimit;    ///< Bytes of one memory content that are recorded; more is cut and flagged Truncated.
  uint32_t laneCount;  ///< At least 2.
  uint32_t chunkBytes; ///< A multiple of slotBytes, at most a quarter of a lane.
  uint32_t flags;      ///< HeaderFlags.
  uint32_t collectorPid;
  ClockFacts clock;

  /// Written by the producer.
  alignas(64) std::atomic<uint32_t> producerPid; ///< The one process that is attached; 0: none.
  std::atomic<uint32_t> producersSeen;
  std::atomic<uint64_t>
      unrecorded; ///< Operations done after the collector was found dead. For whoever looks.

  /// Written by the collector.
  alignas(64) std::atomic<uint32_t> collectorState;
  std::atomic<RingPhase> phase;
  std::atomic<uint32_t> clockNow; ///< Which of `segments` holds; the other one may be half written.
  ClockSegments segments[2];
  TapeName tape; ///< Before the program starts.
  /// DataWanted while the collector sleeps; the producer sets it to 0 and wakes it. One word for all lanes.
  alignas(64) std::atomic<uint32_t> dataWanted;
  /// What the collector asks of the program's next call, and when it did (CLOCK_MONOTONIC, ns).
  std::atomic<uint32_t> requests;
  std::atomic<uint64_t> requestTime;
};
static_assert(sizeof(Header) <= headerBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

/// What a lane's producer has begun and not published.
enum LaneBusy : uint32_t {
  BusyNot = 0,
  BusyStamping = 1, ///< A stamp was or will be taken whose frame, group or completion is not published.
  BusyWaiting =
      2, ///< In the middle of a group, it waits for space: take what there is, and stay with the lane.
};

/// Positions count slots since the beginning and never wrap; index = position % slots of the lane. Who writes
/// what is 128 bytes apart: processors fetch lines in pairs.
struct Lane {
  /// Written by the producer.
  alignas(128) std::atomic<uint64_t> head;
  std::atomic<uint32_t>
      busy; ///< 1 while a stamp was taken whose frame, group or completion is not published.
  std::atomic<uint32_t>
      owner; ///< The thread (kernel id) that has it; 0: free. The shared lane's is never set.

  /// Written by the collector.
  alignas(128) std::atomic<uint64_t> tail;
  /// Slots before it are in the tape's file, or of no use any more: what a recovery begins at. Never behind
  /// `tail`, except while the parts of a large payload come in.
  std::atomic<uint64_t> written;
  /// 1 while the producer sleeps until there is space; the collector sets it to 0 and wakes it.
  std::atomic<uint32_t> spaceWanted;
};
static_assert(sizeof(Lane) == 256);

enum class RecordType : uint8_t {
  Pad = 1,   ///< Only `slots` and `type` are meaningful.
  Chunk = 2, ///< A part of the payload of the record that follows in the lane; address = its offset in the
             ///< payload, value = the payload's total.
  Issue = 3, ///< An operation begins. Its position is its name until it completes.
  Complete =
      4,     ///< It came back: completion, value, count; address and length for those that learn them then.
  Event = 5, ///< A packet that has no duration.
  DeviceOpen = 6, ///< A device was opened: payload as in DeviceOpenPayload below. Precedes all its packets.
  Note = 7,       ///< payload: text for the person who recorded (why an operation failed).
  Dropped = 8,    ///< value = operations that were dropped because the lane was full.
};
constexpr unsigned maxRecordType = 8;

enum RecordHints : uint8_t {
  SamePayload = 1 << 0,  ///< The payload is that of the record directly before in the lane: not sent twice.
  HasExtension = 1 << 1, ///< The frame's second slot is an Extension.
  CompletesInPlace = 1 << 2, ///< Issue: there will be no Complete frame, but this slot's state changes.
  Joined = 1 << 3, ///< A group: no other thread's record between the frame before in the lane and this.
};

enum class SlotState : uint32_t {
  None = 0,
  Issued = 1,    ///< Only of frames with CompletesInPlace.
  Completed = 2, ///< Nothing of the frame changes any more.
};

/// 64 bytes. Fields as in Packet, except that `space` is 0 for memory, else 1 + index into the spaces of the
/// device's DeviceOpen record. `complete`, `completion` and, unless it is a write, `value` of an operation
/// that completes in place may be read only when its state is Completed.
struct Slot {
  uint64_t issue;    ///< Stamp. Complete frames: 0.
  uint64_t complete; ///< Stamp. Events: = issue. Issue frames: 0 until completed.
  uint64_t address, value;
  uint32_t payloadBytes; ///< In this frame.
  uint16_t slots;        ///< Of this frame, itself included.
  uint16_t device, space, thread;
  RecordType type;
  uint8_t kind, width, flags;
  uint8_t completion, origin, hints, reserved;
  std::atomic<SlotState> state;
  uint64_t spare;
};
static_assert(sizeof(Slot) == slotBytes);

/// The fields that register accesses do not have. `link` is the name of an Issue or Event (0: none;
/// DmaDescriptor: the activity's index; Complete: its Issue).
struct Extension {
  uint64_t mask, expected, deadline, length, link, count;
  uint64_t payloadTotal; ///< With the chunks before it. Without an extension: payloadBytes.
  uint64_t reserved;
};
static_assert(sizeof(Extension) == slotBytes);

/// What records are called in links and completions: by the place of their first slot. Never 0.
constexpr unsigned namePositionBits = 48;
constexpr uint64_t nameOf(unsigned lane, uint64_t position) {
  return (uint64_t(lane) << namePositionBits) | (position + 1);
}

// Memory order.
//
// Frames: the producer writes a frame, then stores its lane's `head` with release; the collector loads `head`
// with acquire before it reads the slots below it: it sees whole frames only, and a producer killed between
// the two has published nothing. The collector copies a frame out, then stores `tail` with release; the
// producer loads `tail` with acquire before it overwrites those slots. A lane has one producer at a time: its
// owner, who gives it up with a release store of 0 that the next owner acquires by its exchange; in the
// shared lane, whoever holds a process-private mutex.
//
// Completion in place: the producer writes complete, completion and value, then stores `state` Completed with
// release; the collector loads `state` with acquire, and reads those fields only if it is Completed. Until
// then the other fields do not change, and it must not pass the slot, unless frames behind it are published:
// the producer completes before it publishes the next, so having loaded `head` (acquire) beyond the slot and
// then `state` still Issued, the collector knows that the completion is missing (a thread left its call by
// longjmp or death, and the lane has another owner; or a signal handler made a call within the call): such an
// operation is pending. A late completion of a slot that was passed and reused cannot happen but by such a
// jump into the past.
//
// Groups: a frame that is Joined follows the frame before it in its lane, whatever other lanes hold. `busy`
// stays 1 for a whole group.
//
// Sleep, space and watermark are a store followed by a load of another location on both sides, which release
// and acquire do not keep in order:
//
//   producer                                  collector
//   (sleep)     store head; load dataWanted     store dataWanted; FENCE; load head; sleep
//   (watermark) store busy = 1; read the stamp  read the stamp T; FENCE; load busy, then head
//   (space)     store spaceWanted; fence;       store tail; fence; load spaceWanted
//               load tail; sleep
//
// Space is rare: both sides are sequentially consistent. The other two are once per frame for the producer
// and rare for the collector, so the collector pays for both: its FENCE is membarrier(GLOBAL_EXPEDITED), for
// which the producer registers, and which interrupts each running thread of the producer. Each such thread's
// store is either before the interrupt in its program order, and then the collector's load sees it; or behind
// it, and then so is the load (it sees the announcement) or the stamp (it is later than T). The producer's
// compiler is kept from reordering by signal fences; `busy` = 0 is stored with release after `head` (or the
// completion), so the collector that loads busy = 0 (acquire) and then head or state sees all frames and
// completions whose stamp is not later than T. Where membarrier is refused, the header says FullFences
// (collector) or the producer knows by itself that it could not register: then it makes each of its stores
// above an exchange, which is a full fence. Futex waits have time-outs all the same, because the other side
// may be dead.

/// A frame unpacked, without its payload: what the client fills in and what the collector looks at. Fields as
/// in Slot and Extension.
struct Record {
  RecordType type;
  uint8_t kind, width, flags;
  uint64_t sequence; ///< Name. Complete: of its Issue.
  uint64_t time;     ///< Of the issue, the event or the completion. Client: a stamp; collector: nanoseconds.
  uint64_t address, value;
  uint64_t mask, expected, deadline, length, link, count;
  uint16_t device, thread, space;
  uint8_t completion, origin;
  uint32_t hints;        ///< RecordHints.
  uint64_t payloadBytes; ///< With the chunks before it.
};

/// Payload of DeviceOpen: NUL-terminated strings: the number of spaces in decimal, that many space names,
/// then keys and values in turn until the end.
constexpr uint32_t maxDeviceOpenBytes = 64 << 10;

/// Names and facts are not memory contents: no capture limit cuts them. They have bounds of their own.
constexpr bool isCaptured(const Record &record) {
  switch (PacketKind(record.kind)) {
  case PacketKind::Marker:
  case PacketKind::SpanBegin:
  case PacketKind::Oracle: return false;
  default: return record.type != RecordType::DeviceOpen && record.type != RecordType::Note;
  }
}
/// Of a payload, under that capture limit.
constexpr uint64_t maxPayloadBytes(uint64_t captureLimit) {
  return captureLimit < maxDeviceOpenBytes ? maxDeviceOpenBytes : captureLimit;
}

constexpr uint64_t slotsFor(uint64_t bytes) {
  return (bytes + slotBytes - 1) / slotBytes;
}

/// Where a lane's slots are, from the start of the file. Sizes are the caller's own, checked ones.
constexpr uint64_t laneOffset(uint64_t dataOffset, uint64_t firstLaneSlots, uint64_t laneSlots,
                              unsigned lane) {
  return dataOffset + (lane == 0 ? 0 : firstLaneSlots + (lane - 1) * laneSlots) * slotBytes;
}

/// Everything of a header that leads to an address, checked against the file's size.
struct Layout {
  uint64_t tableOffset, tableBytes, lanesOffset, dataOffset, firstLaneSlots, laneSlots, captureLimit;
  uint32_t laneCount, chunkBytes;
  uint64_t slotsOf(unsigned lane) const { return lane == 0 ? firstLaneSlots : laneSlots; }
  uint64_t slotsAt(unsigned lane) const { return laneOffset(dataOffset, firstLaneSlots, laneSlots, lane); }
};
/// False: no ring of this version. (In RingAttach.cpp.)
bool readLayout(const Header &header, uint64_t bytes, Layout &layout);

} // namespace tapeback::ring
