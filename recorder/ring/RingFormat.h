// The shared-memory ring between a recorded program (producer) and the collector (consumer): its bytes.
//
//   file "ring" (0600) in a private directory (0700)
//   +-----------------+ 0
//   | Header          |   what it is, and the two positions, each on a cache line of its own
//   +-----------------+ tableOffset
//   | capture table   |   recorder/ring/CaptureTable.h: what to capture when; written before the program
//   starts
//   +-----------------+ dataOffset
//   | frames          |   dataBytes (a power of two), used in a circle
//   +-----------------+
//
// A frame is a Record followed by its payload, padded to 8 bytes; it never wraps (a Pad frame fills the
// rest). A payload longer than `chunkBytes` is split: Chunk frames carry its first parts and directly precede
// their record.
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
constexpr uint32_t version = 1;
constexpr uint32_t headerBytes = 4096;
constexpr uint64_t minDataBytes = 64 << 10, maxDataBytes = uint64_t(1) << 30;
constexpr uint64_t maxTableBytes = 16 << 20;
constexpr uint64_t maxCaptureLimit = uint64_t(1) << 30; ///< What one blob of a tape may hold.
/// The environment variable that names the ring file. Set by `tapeback record` for the program.
constexpr const char *environmentName = "TAPEBACK_RING";

enum HeaderFlags : uint32_t {
  DropWhenFull = 1 << 0, ///< Do not wait for space: drop operations and count them (LossCause::RingFull).
};

enum class CollectorState : uint32_t { Running = 1, Closed = 2 };

/// What wakes a sleeping collector.
enum DataWanted : uint32_t {
  WantsAny = 1,  ///< Any record.
  WantsMuch = 2, ///< A quarter of the ring; it also wakes by itself, soon.
};

struct Header {
  char magic[8];
  uint32_t version, headerBytes;
  uint64_t tableOffset, tableBytes;
  uint64_t dataOffset, dataBytes;
  uint64_t
      captureLimit; ///< Bytes of one memory content that are recorded; more is cut and flagged Truncated.
  uint32_t chunkBytes;
  uint32_t flags; ///< HeaderFlags.
  uint32_t collectorPid;

  /// Written by the producer. Positions count bytes since the beginning and never wrap; index = position %
  /// dataBytes.
  alignas(64) std::atomic<uint64_t> head;
  std::atomic<uint32_t> producerPid; ///< The one process that is attached; 0: none.
  std::atomic<uint32_t> producersSeen;
  std::atomic<uint64_t>
      unrecorded; ///< Operations done after the collector was found dead. For whoever looks.

  /// Written by the collector.
  alignas(64) std::atomic<uint64_t> tail;
  std::atomic<uint32_t> collectorState;

  /// DataWanted while the collector sleeps; the producer sets it to 0 and wakes it.
  alignas(64) std::atomic<uint32_t> dataWanted;
  /// 1 while producers sleep until there is space; the collector sets it to 0 and wakes them.
  alignas(64) std::atomic<uint32_t> spaceWanted;
};
static_assert(sizeof(Header) <= headerBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// Memory order.
//
// Data: the producer writes a frame's bytes, then stores `head` with (at least) release; the collector loads
// `head` with acquire before it reads them: it sees whole frames only, and a producer killed between the two
// has published nothing. The collector copies a frame out, then stores `tail` with release; the producer
// loads `tail` with acquire before it overwrites those bytes. Producers of one process exclude each other by
// a process-private mutex.
//
// Sleep: each side announces that it sleeps and then looks again; the other moves its position and then looks
// at the announcement. Both pairs are a store followed by a load of another location, which release and
// acquire do not keep in order, so these four accesses (head/dataWanted, tail/spaceWanted) are sequentially
// consistent: in their total order either the sleeper sees the new position or the other sees the
// announcement, and no wake-up is lost. Futex waits have time-outs all the same, because the other side may
// be dead.

enum class RecordType : uint8_t {
  Pad = 1,   ///< Only `size` and `type` are meaningful (8 bytes).
  Chunk = 2, ///< A part of the payload of the record that follows; address = its offset in the payload.
  Issue = 3, ///< An operation begins. `sequence` is its name until it completes.
  Complete =
      4,     ///< It came back: completion, value, count; address and length for those that learn them then.
  Event = 5, ///< A packet that has no duration.
  DeviceOpen = 6, ///< A device was opened: payload as in DeviceOpenPayload below. Precedes all its packets.
  Note = 7,       ///< payload: text for the person who recorded (why an operation failed).
  Dropped = 8,    ///< value = operations that were dropped because the ring was full.
};
constexpr unsigned maxRecordType = 8;

enum RecordHints : uint32_t {
  SamePayload = 1 << 0, ///< The payload is that of the record directly before: not sent twice.
};

/// 112 bytes. Fields as in Packet and PacketExtra, except that `link` is the sequence number of an Issue or
/// Event (0: none; DmaDescriptor: the activity's index) and `space` is 0 for memory, else 1 + index into the
/// spaces of the device's DeviceOpen record.
struct Record {
  uint32_t size; ///< Of the frame: record, payload and padding. A multiple of 8.
  RecordType type;
  uint8_t kind, width, flags;
  uint64_t sequence;
  uint64_t time;
  uint64_t address, value;
  uint64_t mask, expected, deadline, length, link, count;
  uint16_t device, thread, space;
  uint8_t completion, origin;
  uint32_t payloadBytes; ///< In this frame.
  uint32_t hints;        ///< RecordHints.
  uint64_t payloadTotal; ///< With the chunks before it.
};
static_assert(sizeof(Record) == 112);

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

constexpr uint64_t alignFrame(uint64_t bytes) {
  return (bytes + 7) & ~uint64_t(7);
}

} // namespace tapeback::ring
