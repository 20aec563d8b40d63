// The capture table: what the client must capture when, compiled from the device descriptions into a flat,
// bounded, pointer-free form. It lies in the ring file behind the header; the collector writes it, the client
// checks it once (validTable) and then follows it.
//
// No LLVM and nothing that needs libstdc++ at run time: the client library includes this.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tapeback::capture {

constexpr uint32_t version = 5;
constexpr size_t nameBytes = 64;  ///< With the terminating NUL.
constexpr size_t uriBytes = 4104; ///< TargetUri allows 4,096.
constexpr uint32_t maxDevices = 16;
constexpr uint32_t none = ~uint32_t(0);  ///< No register, no layout.
constexpr uint32_t maxEntryBytes = 4096; ///< Of an entry in host memory.
constexpr uint32_t maxPageBytes = 1 << 20;

/// Elements [first, first + count) of a section.
struct Range {
  uint32_t first, count;
};
/// `count` elements at `offset` bytes from the start of the table, 8-byte aligned.
struct Section {
  uint32_t offset, count;
};

struct Name {
  char text[nameBytes];
};
/// What starts or ends an activity, or selects a transfer: any value, or (value & mask) == value.
struct Condition {
  uint32_t activity; ///< Index into Table::activities; none where it is not about one.
  uint32_t any;
  uint64_t mask, value;
  bool holds(uint64_t v) const { return any || (v & mask) == value; }
};
/// What a register is to a queue.
struct Role {
  enum Kind : uint32_t { Config, Doorbell, Head, Done, Rewind, CompletionDoorbell };
  uint32_t kind;
  uint32_t queue; ///< Index into Table::queues, or of CompletionDoorbell into Table::rings; Config: unused.
};
/// A register that an activity or a queue refers to. A device's registers are sorted by (space, offset).
struct Register {
  uint64_t offset;
  uint64_t reset;
  uint32_t space; ///< Index into Table::spaces.
  uint32_t width;
  Range starts; ///< Conditions on a write.
  Range done;   ///< Conditions on a read or poll.
  Range idle;   ///< Conditions on a read: all queues are drained.
  Range resets; ///< Conditions on a write: the device forgets all.
  Range roles;
  Range handsOver; ///< Conditions on a write: what the host stored to memory is the device's from here on.
};
struct Transfer {
  Condition when; ///< On the starting register's value.
  uint32_t toDevice;
  uint32_t host, deviceSide, count; ///< Indices into Table::registers.
  uint32_t hostHigh;                ///< The same: the upper half of the host's address; or none.
  uint32_t reserved;
};
struct Activity {
  uint32_t index; ///< In the description.
  uint32_t reserved;
  Range transfers;
};

/// A number in an entry: bits [low, low + bits) of the little-endian word of `width` bytes at `offset`.
/// width 0: there is no such field.
struct Field {
  uint32_t offset, width, low, bits;
  bool present() const { return width != 0; }
};
struct FieldCondition {
  Field field; ///< Absent: holds always.
  uint64_t mask, value;
};
/// As tapeback::EntryTransfer.
struct EntryTransfer {
  FieldCondition when;
  Field host, rowBytes, rows, hostStride, deviceAddress, deviceStride;
  Field second;         ///< Of memory in pages; absent: it is in one piece, or in rows.
  uint64_t plus, times; ///< (rowBytes + plus) * times bytes.
  uint32_t toDevice, pageBytes;
  uint32_t content, reserved; ///< Layout of what is moved, or none.
};
/// As tapeback::EntryForm. A list's elements: at the address in `chain`, of `chainLayout`.
struct Form {
  uint64_t opcode;
  Range transfers; ///< Of Table::entryTransfers.
  Field fenceAddress, fenceValue;
  Field chain;
  FieldCondition last;
  uint32_t chainLayout, chainLimit;
  Field createsNumber, createsBase, createsSize, deletesNumber; ///< As tapeback::EntryForm.
  uint64_t createsPlus;
  uint32_t createsCompletions, deletesCompletions; ///< 1: a ring of completions, 0: a queue.
};
struct Layout {
  uint32_t size; ///< Bytes, 1 to maxEntryBytes.
  uint32_t reserved;
  Field opcode; ///< Absent: the layout has one form.
  Range forms;
  Field tag; ///< By which completions name an entry; absent: they do not.
};
/// Where a ring is and how long: registers, or a command that creates it.
struct Place {
  uint64_t number; ///< By which commands and completions name it; noNumber: they do not.
  uint64_t sizePlus;
  uint32_t base, baseHigh, size; ///< Indices into Table::registers, or none.
  uint32_t sizeLow, sizeBits, reserved;
};
constexpr uint64_t noNumber = ~uint64_t(0);
struct Queue {
  Place place;
  uint32_t index; ///< In the description.
  uint32_t head, doorbell, done;
  uint32_t layout, reserved;
};
/// A ring of completions, as tapeback::RingDescription and LayoutDescription::Completes.
struct Completions {
  Place place;
  uint32_t doorbell, bytes; ///< Bytes of an entry.
  Field queue, tag, phase;
  FieldCondition success;
};

/// A counter in what transfers bring.
struct ContentCounter {
  uint32_t id;     ///< In the description.
  uint32_t layout; ///< Of the content.
  Field field;
};
struct Counter {
  char name[nameBytes];
  uint32_t id; ///< In the description.
  uint32_t space;
  uint64_t offset;
  uint32_t width, widthBits;
};
struct Fingerprint {
  uint64_t offset;
  uint32_t space, width;
};
/// When memory that the program stored to through its pointers is captured.
enum class HandOver : uint32_t {
  AsDescribed, ///< By activities and queues only.
  Conditions,  ///< And all of it where Register::handsOver holds.
  AnyWrite,    ///< Nobody can tell: all of it before every register write.
};
struct Device {
  char alias[nameBytes];
  char uri[uriBytes];
  Range registers, activities, counters, fingerprints, queues, rings, contentCounters;
  HandOver handOver;
  uint32_t reserved;
};

/// Bits of Table::evidence.
enum Evidence : uint32_t { AtMarkers = 1 << 0, AtFences = 1 << 1 };

struct Table {
  uint32_t version, bytes;
  Section devices, spaces, registers, conditions, activities, transfers, counters, fingerprints;
  Section roles, queues, layouts, forms, entryTransfers, rings, contentCounters;
  uint32_t evidence, reserved; ///< Evidence: when the client reads counters and clocks by itself.
  uint64_t evidencePeriodNs;   ///< And at least so often while the device is used; 0: not.
};

template <typename T>
const T *elements(const Table *table, Section section) {
  return reinterpret_cast<const T *>(reinterpret_cast<const char *>(table) + section.offset);
}

/// True if every section lies in `bytes`, every range and index in its section, and every text ends.
bool validTable(const Table *table, uint64_t bytes);

} // namespace tapeback::capture
