// The log of accesses that may never come back: its bytes. What is in it was on stable storage before the
// access was made, so that it survives a host that hangs with its device.
//
//   file OUT.partial.durable (0600)
//   +------------------+ 0
//   | Header           |   what it is, which tape it belongs to, what is logged, the cost so far
//   +------------------+ devicesOffset
//   | DeviceRow[16]    |   by the program's number: alias, and the names of its spaces once it is open
//   +------------------+ registersOffset
//   | RegisterRow[...] |   what is logged, unless everything is
//   +------------------+ entriesOffset
//   | Entry[...]       |   used in a circle; one whose access has not come back is never used again
//   +------------------+
//
// Whoever reads it trusts nothing in here. No LLVM and nothing that needs libstdc++ at run time: the client
// library includes this.
#pragma once

#include "format/Packet.h"
#include "recorder/ring/CaptureTable.h"
#include <cstddef>
#include <cstdint>

namespace tapeback::durable {

constexpr char magic[8] = {'T', 'B', 'D', 'U', 'R', 'B', '\r', '\n'};
constexpr uint32_t version = 1;
constexpr uint32_t headerBytes = 4096;
constexpr uint32_t maxSpaces = 16; ///< Of a device; those beyond have no name in the log.
constexpr uint32_t maxRegisters = 65536;
constexpr uint32_t entryCount = 4096; ///< A power of two, and more than a process has threads in calls.
/// Names the file. Set by `tapeback record` for the program.
constexpr const char *environmentName = "TAPEBACK_DURABLE";
/// The key of the fact in the tape's manifest that names its log.
constexpr const char *manifestKey = "durable-log";

struct Cost {
  uint64_t accesses;
  uint64_t totalNs, leastNs, mostNs; ///< What it took to have them on stable storage.
  uint64_t failures;                 ///< Accesses that were made although that failed.
  uint64_t unlogged;                 ///< Accesses for which there was no place: too many are underway.
};

struct Header {
  char magic[8];
  uint32_t version, headerBytes;
  char id[32]; ///< Hexadecimal digits, as in the tape's manifest.
  uint64_t devicesOffset, registersOffset, entriesOffset;
  uint32_t registerCount, entryCount;
  uint32_t everything; ///< 1: every register access is logged.
  uint32_t reserved;
  Cost cost; ///< Written by the program; not synchronised.
};
static_assert(sizeof(Header) <= headerBytes);

struct DeviceRow {
  char alias[capture::nameBytes];
  uint32_t spaceCount, reserved;
  char spaces[maxSpaces][capture::nameBytes];
};

struct RegisterRow {
  uint64_t offset;
  uint32_t width;
  uint32_t device;
  char space[capture::nameBytes];
};

/// One access. Times are CLOCK_MONOTONIC in nanoseconds.
struct Entry {
  uint64_t number; ///< Of all entries, from 1; 0: never used.
  uint64_t time;
  uint64_t address, value;           ///< As in the packet. `value`: what is written.
  uint64_t mask, expected, deadline; ///< Of a poll.
  uint32_t ordinal;                  ///< Of the thread's logged accesses, from 1.
  uint16_t thread;
  uint8_t kind, width, device, space; ///< `space`: index in the device's; PacketKind.
  uint8_t completion;                 ///< Of the answer.
  uint8_t reserved;
  uint32_t issueCheck;
  uint64_t answered, answer; ///< When it came back (0: not known to have) and with what. Not synchronised.
  uint32_t answerCheck, spare;
};
static_assert(sizeof(Entry) == 96);
constexpr uint32_t entryBytes = 128; ///< Of one in the file: none crosses a sector.

/// Finds what was torn, not what was forged.
constexpr uint32_t checkOf(const uint64_t *words, unsigned count) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (unsigned i = 0; i < count; ++i) {
    hash = (hash ^ words[i]) * 0xff51afd7ed558ccd;
    hash ^= hash >> 33;
  }
  uint32_t folded = uint32_t(hash) ^ uint32_t(hash >> 32);
  return folded ? folded : 1;
}
inline uint32_t issueCheckOf(const Entry &entry) {
  const uint64_t words[] = {entry.number,
                            entry.time,
                            entry.address,
                            entry.value,
                            uint64_t(entry.ordinal) << 32 | entry.thread,
                            uint64_t(entry.kind) << 24 | uint64_t(entry.width) << 16 |
                                uint64_t(entry.device) << 8 | entry.space,
                            entry.mask,
                            entry.expected,
                            entry.deadline};
  return checkOf(words, 9);
}
inline uint32_t answerCheckOf(const Entry &entry) {
  const uint64_t words[] = {entry.number, entry.answered, entry.answer, entry.completion};
  return checkOf(words, 4);
}

} // namespace tapeback::durable
