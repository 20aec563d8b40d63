// What a model target and its host process say to each other.
//
//   ModelTarget (in our process)  ── SOCK_SEQPACKET, one message per request and per reply ──
//   tapeback-model-host
//
// Strictly one request, one reply, same sequence number. Both run on one machine and come from one build, so
// numbers are in host order; `protocolVersion` changes with any change here. Neither side trusts the other:
// every size, count and index is checked before use, since a plugin can overwrite its host's memory and write
// to its socket. Device-visible memory is not sent: both sides map the same sealed memfd.
//
// The host process is plain C++ without a C++ run-time library: nothing here may need one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tapeback::modelhost {

constexpr uint32_t protocolMagic = 0x484d4254; // "TBMH"
constexpr uint16_t protocolVersion = 5;
constexpr size_t maxMessageBytes = 128 * 1024;
constexpr size_t maxChunkBytes = 64 * 1024; ///< Of bulk content in one message.
constexpr size_t maxPathBytes = 4096;
constexpr size_t maxTextBytes = 1024; ///< Of an error text.

/// What a plugin's table may hold; more is refused as absurd.
constexpr size_t maxNameBytes = 255;
constexpr uint32_t maxSpaces = 64, maxFacts = 64, maxWindows = 64, maxVectors = 2048, maxCounters = 65536;
constexpr uint64_t maxSnapshotBytes = uint64_t(1) << 30;
constexpr uint32_t maxRegions = 65536;
constexpr uint32_t maxBatch = 2048;  ///< Operations in one Execute.
constexpr uint32_t maxReadings = 64; ///< Counters that ride along; more of them are asked for each time.

/// File descriptors the host process is started with, besides standard ones (0 /dev/null; 1 and 2 a pipe to
/// us).
constexpr int channelFd = 3, memoryFd = 4;

enum class Command : uint16_t {
  Hello = 1, ///< memorySize u64, path, options u32 × (key, value) → the plugin's table (see Table below).
  /// count u32, WireOperation × count, data → completed u32, u64 × reads carried out; and readings.
  Execute = 2,
  Advance = 3, ///< AdvanceRequest → AdvanceReply; and readings.
  Map = 4,     ///< iova, size, offset u64 → nothing.
  Unmap = 5,   ///< iova u64 → nothing.
  Reset = 6,   ///< kind u32 → nothing.
  /// count u32 (up to maxBatch), id u32 × count → u64 × count. Up to maxReadings are readings from then on.
  Counters = 7,
  DeviceTime = 8,     ///< → u64. A reading from then on.
  Peek = 9,           ///< window u32, offset u64, size u32 → bytes.
  SnapshotSave = 10,  ///< → size u64; the content waits in the host.
  SnapshotRead = 11,  ///< offset u64, size u32 → bytes. The last byte read frees it.
  SnapshotWrite = 12, ///< total u64, offset u64, bytes → nothing. In order, from offset 0.
  SnapshotLoad = 13,  ///< → nothing. Everything must have been written.
  TraceBegin = 14,    ///< path → nothing.
  TraceEnd = 15,      ///< → nothing.
  /// registers u32 × LookRegister, counters u32 × id u32, windows u32 × index u32 → u64 × registers,
  /// u64 × counters, more u32, pages u32 × (window u32, page u32, bytes): what differs from what was shown.
  Look = 16,
};
// Table: abiMajor u16, abiMinor u16, capabilities u32, vectors u32, counters u32, name,
//        facts u32 × (key, value), spaces u32 × (name, size u64), windows u32 × (name, size u64).
// A string is u32 bytes, then the bytes without NUL.

struct MessageHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t command;
  uint32_t size; ///< Of the whole message.
  uint32_t sequence;
};
static_assert(sizeof(MessageHeader) == 16);

/// A reply: this, body, InterruptEntry × interruptCount, text, u64 × readingCount.
///
/// Readings are what DeviceTime and the last Counters asked for, in this order, as it is behind the call.
/// They ride along on replies that let something happen, since what asked once asks again (a recording does,
/// at each fence) and the way to the host process takes longer than all the reading. A reply has all of them
/// or, when one cannot be had or the call failed, none.
struct ReplyHeader {
  MessageHeader message;
  int32_t status; ///< 0, a tapeback_model_status, or a HostStatus.
  uint32_t bodyBytes;
  uint32_t interruptCount;
  uint32_t textBytes;
  uint32_t readingCount;
  uint32_t reserved;
};
static_assert(sizeof(ReplyHeader) == 40);

/// Interrupts raised since the last reply, coalesced by vector.
struct InterruptEntry {
  uint32_t vector;
  uint32_t reserved;
  uint64_t count;
};
static_assert(sizeof(InterruptEntry) == 16);

/// What went wrong before or outside the plugin; far from tapeback_model_status.
enum HostStatus : int32_t {
  HostLoadFailed = -1000,   ///< The file cannot be loaded.
  HostNoEntry = -1001,      ///< It has no tapeback_model_entry.
  HostAbiVersion = -1002,   ///< It is of another major version.
  HostAbiInvalid = -1003,   ///< Its table breaks the ABI.
  HostBadRequest = -1004,   ///< Our own request was malformed: a bug, or a damaged host.
  HostBadBehaviour = -1005, ///< A call broke the ABI's rules.
};

struct WireOperation {
  uint8_t kind; ///< 0 read, 1 write, 2 write memory (data follows in order).
  uint8_t width;
  uint16_t space;
  uint32_t length; ///< Write memory: bytes.
  uint64_t address;
  uint64_t value;
};
static_assert(sizeof(WireOperation) == 24);

struct LookRegister {
  uint32_t space, width;
  uint64_t address;
};
static_assert(sizeof(LookRegister) == 16);

/// A window is shown in pages of this size, the last one shorter; those that are as they were shown before
/// (at first: zero) are left out. `more`: some did not fit, another Look shows them.
constexpr uint64_t lookPageBytes = 1024;
constexpr uint32_t maxLookPages = 60, maxLookRegisters = 1024, maxLookCounters = 256;
constexpr uint64_t maxLookBytes = uint64_t(16) << 20; ///< Of all windows.

constexpr uint32_t noVector = ~uint32_t(0);

struct AdvanceRequest {
  uint64_t budgetNs;    ///< Device time.
  uint64_t hostLimitNs; ///< Host time after which to stop and report.
  uint32_t stopVector;  ///< Stop when this one is raised; noVector: none.
  uint32_t reserved;
};

enum class AdvanceEnd : uint32_t { Budget = 0, Interrupt = 1, Idle = 2, HostLimit = 3 };

struct AdvanceReply {
  uint64_t advancedNs;
  AdvanceEnd end;
  uint32_t reserved;
};

/// Appends to a fixed buffer; an append that does not fit makes it `overflow` and nothing more is appended.
struct WireWriter {
  uint8_t *data;
  size_t capacity;
  size_t size = 0;
  bool overflow = false;

  void bytes(const void *from, size_t count) {
    if (overflow || capacity - size < count) {
      overflow = true;
      return;
    }
    if (count)
      memcpy(data + size, from, count);
    size += count;
  }
  template <typename T>
  void put(const T &value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes(&value, sizeof(T));
  }
  void string(const char *text, size_t length) {
    put(uint32_t(length));
    bytes(text, length);
  }
};

/// Reads from a buffer; a read past its end makes it `failed` and gives zeros.
struct WireReader {
  const uint8_t *data;
  size_t size;
  size_t at = 0;
  bool failed = false;

  size_t left() const { return size - at; }
  const uint8_t *bytes(size_t count) {
    if (failed || left() < count) {
      failed = true;
      return nullptr;
    }
    const uint8_t *from = data + at;
    at += count;
    return from;
  }
  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (const uint8_t *from = bytes(sizeof(T)))
      memcpy(&value, from, sizeof(T));
    return value;
  }
  /// A string of at most `limit` bytes; null when failed. Not NUL-terminated.
  const char *string(size_t limit, size_t *length) {
    *length = get<uint32_t>();
    if (*length > limit)
      failed = true;
    const uint8_t *from = bytes(*length);
    if (!from)
      *length = 0;
    return reinterpret_cast<const char *>(from);
  }
};

} // namespace tapeback::modelhost
