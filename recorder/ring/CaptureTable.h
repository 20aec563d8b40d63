// The capture table: what the client must capture when, compiled from the device descriptions into a flat,
// bounded, pointer-free form. It lies in the ring file behind the header; the collector writes it, the client
// checks it once (validTable) and then follows it.
//
// No LLVM and nothing that needs libstdc++ at run time: the client library includes this.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tapeback::capture {

constexpr uint32_t version = 1;
constexpr size_t nameBytes = 64;  ///< With the terminating NUL.
constexpr size_t uriBytes = 4104; ///< TargetUri allows 4,096.
constexpr uint32_t maxDevices = 16;

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
  uint32_t activity;
  uint32_t any;
  uint64_t mask, value;
  bool holds(uint64_t v) const { return any || (v & mask) == value; }
};
/// A register that an activity refers to. A device's registers are sorted by (space, offset).
struct Register {
  uint64_t offset;
  uint64_t reset;
  uint32_t space; ///< Index into Table::spaces.
  uint32_t width;
  Range starts; ///< Conditions on a write.
  Range done;   ///< Conditions on a read or poll.
};
struct Transfer {
  Condition when; ///< On the starting register's value.
  uint32_t toDevice;
  uint32_t host, deviceSide, count; ///< Indices into Table::registers.
};
struct Activity {
  uint32_t index; ///< In the description.
  uint32_t reserved;
  Range transfers;
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
struct Device {
  char alias[nameBytes];
  char uri[uriBytes];
  Range registers, activities, counters, fingerprints;
};

struct Table {
  uint32_t version, bytes;
  Section devices, spaces, registers, conditions, activities, transfers, counters, fingerprints;
};

template <typename T>
const T *elements(const Table *table, Section section) {
  return reinterpret_cast<const T *>(reinterpret_cast<const char *>(table) + section.offset);
}

/// True if every section lies in `bytes`, every range and index in its section, and every text ends.
bool validTable(const Table *table, uint64_t bytes);

} // namespace tapeback::capture
