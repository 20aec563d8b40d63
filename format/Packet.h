// A packet: one operation or event between host and device. The unit that is recorded, stored, replayed,
// graded and named in every report.
#pragma once

#include <cstdint>
#include <vector>

namespace tapeback {

/// What a packet says. Numbers are on tape: add at the end, never renumber. A reader that meets a higher
/// number keeps the packet, dumps it as unknown, and grades it "not captured".
///
/// The fields of Packet and PacketExtra that a kind uses are listed beside it; the others are zero.
/// addr = Packet::address, val = Packet::value; the rest are PacketExtra's.
enum class PacketKind : uint8_t {
  RegisterRead = 0,  ///< space, addr, width, val = what was read.
  RegisterWrite = 1, ///< space, addr, width, val = what was written.
  Poll = 2, ///< space, addr, width, val = last value read, mask, expected, deadline, count = reads made.
  MemoryWrite = 3, ///< The host's stores to device-visible memory: addr = IOVA, length, payload; rows as in
                   ///< DmaDescriptor.
  MemoryRead =
      4, ///< A read of device-visible memory through the API: addr = IOVA, length, payload = content.
  MemoryWait = 5, ///< A fence in memory: addr = IOVA, width, mask, expected, deadline, val = last value.
  Acquire = 6,    ///< The program takes ownership of results: addr = IOVA, length, payload = content.
  Submit = 7, ///< A command-stream entry handed over, before the doorbell that does it: addr = the entry's
              ///< IOVA, length, val = queue (index into the description's queues), count = commands submitted
              ///< to that queue before it since the reset, payload = the entry. A replay stores the payload
              ///< there. The DmaDescriptors between it and the next Submit or doorbell are its own.
  DmaDescriptor = 8, ///< A transfer the device was told to do: addr = host IOVA, length = bytes in all, val =
                     ///< device address, flags = TransferToDevice or TransferFromDevice, payload = content if
                     ///< to device. link = activity (index into the description's activities), or noLink: a
                     ///< transfer of the Submit before it. count = rows (0 and 1: one piece), expected =
                     ///< host stride: row r is length / count bytes at addr + r * expected (mask = the same
                     ///< on the device's side, of Submits only); the payload is the rows one after another.
  DmaCompletion = 9, ///< The host learnt that a transfer is done: addr, length, count, expected as in the
                     ///< descriptor, link = packet ordinal of the DmaDescriptor, payload = content if from
                     ///< device. val = 1: the same range once more, at the next synchronisation point
                     ///< (origin Recorder if its content is not what it was: a late or stray write, or a
                     ///< store of the host through its pointer).
  Interrupt = 10, ///< The program waited for an interrupt: addr = vector, deadline, completion says whether
                  ///< it came; count = how many were pending (evidence only, they coalesce).
  CounterSnapshot = 11, ///< addr = counter id in the description, val.
  Marker = 12,          ///< payload = name (UTF-8). Starts a window.
  SpanBegin = 13,       ///< payload = name.
  SpanEnd = 14,         ///< link = packet ordinal of SpanBegin.
  ClockSample = 15,     ///< clock = which clock, val = its reading at issueTime.
  Oracle =
      16, ///< A check in the program: payload = name; val = actual, expected, mask; flags Failed if it
          ///< did not hold. link = packet ordinal that the actual value came from, or NoLink.
          ///< For memory checks addr = IOVA, length > 0, expected/val = first wrong byte, count = its offset.
  Reset = 17, ///< val = ResetKind as an integer.
  Tick = 18,  ///< Time passed without packets. The recorder's own.
  Loss = 19,  ///< val = packets lost (or UnknownCount), addr = LossCause. Replay never crosses it silently.
  MemoryMap = 20,      ///< Memory became visible to the device: addr = IOVA, length.
  MemoryUnmap = 21,    ///< addr = IOVA, length.
  Open = 22,           ///< A device was opened by the program: device, payload = alias.
  Close = 23,          ///< device.
  LateCompletion = 24, ///< Closes an operation written as Pending: link = its ordinal, val = its value.
  Expectation =
      25, ///< What a memory check that failed wanted: addr, length, payload. Directly before its Oracle,
          ///< so that a replay can redo the check. (A check that held wanted what its Acquire has.)
  CommandDone = 26, ///< The host learnt that an entry of a queue is done, from a ring of completions: addr =
                    ///< IOVA of the completion, length, payload = it; val = queue, count = the entry's
                    ///< number, as in its Submit; expected = IOVA of the ring, mask = entries that the ring
                    ///< has. The DmaCompletions of the entry's transfers follow.
};
constexpr unsigned packetKindCount = 27;

/// Lower-case kebab name ("register-read"), or "unknown-N" is the caller's business: returns nullptr if
/// unknown.
const char *packetKindName(PacketKind kind);

/// True if PacketExtra::link of this kind is the ordinal of an earlier packet (or noLink), so that whoever
/// renumbers packets has to renumber it too. False for DmaDescriptor, whose link is an activity.
bool linksToPacket(PacketKind kind);

/// Where the packet comes from. What the recorder itself read is evidence, and is not replayed.
enum class Origin : uint8_t { Program = 0, Recorder = 1, Imported = 2 };

/// How the operation ended.
enum class Completion : uint8_t {
  Done = 0,
  Pending = 1,  ///< Issued and never seen to come back. The call that hung is in the file.
  Failed = 2,   ///< The target refused or failed; the operation returned an error to the program.
  TimedOut = 3, ///< A poll or wait whose deadline passed.
};

enum class LossCause : uint8_t {
  Unknown = 0,
  RingFull = 1,      ///< The ring was full and the user chose not to wait.
  CollectorGone = 2, ///< The collecting process died.
  DiskError = 3,     ///< Could not be written.
  Damage = 4,        ///< Blocks of the parent tape were damaged (`recover`).
  Source = 5,        ///< The imported capture says that it lost events.
  NotRecording = 6,  ///< Before the start condition or after the stop condition.
};
const char *lossCauseName(LossCause cause);

/// Bits of Packet::flags.
enum PacketFlags : uint8_t {
  TransferToDevice = 1 << 0,
  TransferFromDevice = 1 << 1,
  Failed = 1 << 2,      ///< Oracle: the check did not hold.
  Concurrent = 1 << 3,  ///< Overlaps in time with an operation of another thread: not ordered with it.
  Truncated = 1 << 4,   ///< The payload is shorter than `length`: a capture limit was met.
  NotCaptured = 1 << 5, ///< The payload could not be captured at all (unmapped range, capture limit).
  DeviceOwned = 1 << 7, ///< DmaDescriptor to the device, DmaCompletion from it: another transfer of the
                        ///< device that is not done yet writes (some of) it too, so that there is no payload,
                        ///< and nothing is missing.
  Prefix = 1 << 6, ///< Part of a pinned prefix: establishes state; compared, but not of the wanted range.
};

constexpr uint64_t noLink = ~uint64_t(0);
constexpr uint64_t unknownCount = ~uint64_t(0);

/// Identity of a memory content: XXH3-128 of its bytes. {0,0} with length 0 means "no payload".
/// Not a defence against forgery (the block chain is); it is what makes a content stored once.
struct BlobId {
  uint64_t hi = 0, lo = 0;
  bool operator==(const BlobId &) const = default;
  explicit operator bool() const { return hi || lo; }
};

/// The dense part, 48 bytes. Times are in units of the tape's clock `clock` (see TapeClock): nanoseconds of
/// the host's monotonic clock unless the tape says otherwise.
struct Packet {
  uint64_t issueTime = 0;
  uint64_t completeTime = 0; ///< 0 unless completion is Done, Failed or TimedOut. Events: equal to issueTime.
  uint64_t address = 0;
  uint64_t value = 0;
  uint32_t extra = 0; ///< 1-based index into PacketBatch::extras; 0 if the packet has none.
  uint16_t device = 0;
  uint16_t thread = 0;
  uint16_t space = 0; ///< Index into the tape's table of spaces; space 0 is device-visible memory.
  uint8_t width = 0;  ///< Bytes: 1, 2, 4 or 8; 0 where it makes no sense.
  uint8_t clock = 0;
  PacketKind kind = PacketKind::Tick;
  Origin origin = Origin::Program;
  Completion completion = Completion::Done;
  uint8_t flags = 0;
  bool operator==(const Packet &) const = default;
};
static_assert(sizeof(Packet) == 48);

/// What only some kinds need.
struct PacketExtra {
  uint64_t mask = 0;
  uint64_t expected = 0;
  uint64_t deadline = 0; ///< Nanoseconds, relative to issue.
  uint64_t length = 0;   ///< Bytes.
  uint64_t link = noLink;
  uint64_t count = 0;
  BlobId payload;
  bool operator==(const PacketExtra &) const = default;
};

/// Packets that follow each other on a tape, and their extras. Reused between reads to avoid allocation.
struct PacketBatch {
  uint64_t firstOrdinal = 0; ///< Tape-wide number of packets[0]; packets count from 0 over the whole tape.
  std::vector<Packet> packets;
  std::vector<PacketExtra> extras;

  void clear() {
    packets.clear();
    extras.clear();
  }
  /// The packet's extra, or a shared all-default one.
  const PacketExtra &extra(const Packet &packet) const;
  /// Appends a packet with an extra (or without, if it equals the default), fixing Packet::extra.
  void append(Packet packet, const PacketExtra &extra);
};

} // namespace tapeback
