// What Minnow's commands do, by the manual (hal/minnow/SPEC.md): the plan's own answer, against which the
// device is checked. One command after another, in any order that the manual allows.
//
// Written from the manual, apart from both implementations. Pure: no device, no clock, no files. Host memory
// is one allocation; every other address is not mapped.
#pragma once

#include "hal/minnow/driver/Commands.h"
#include <array>
#include <cstdint>
#include <vector>

namespace tapeback::stress {

/// An error as ERR_CODE and ERR_ADDR have it. Code 0: none.
struct Verdict {
  uint32_t code = 0;
  uint64_t address = 0;
  explicit operator bool() const { return code != 0; }
};

/// Counters that the manual calls exact, as they run.
struct Exact {
  uint64_t macs = 0, readBytes = 0, writeBytes = 0, readBursts = 0, writeBursts = 0, commands = 0;
  /// As CNTi would read: wrapped at its width. Only for exact ones.
  uint64_t of(unsigned counter) const;
};
constexpr unsigned exactCounters[] = {MINNOW_CNT_MACS,        MINNOW_CNT_READ_BYTES,   MINNOW_CNT_WRITE_BYTES,
                                      MINNOW_CNT_READ_BURSTS, MINNOW_CNT_WRITE_BURSTS, MINNOW_CNT_COMMANDS};

/// Rows of bytes somewhere, read or written by a command.
struct Extent {
  bool host = false; ///< In host memory (offset into the arena), or in the scratchpad.
  bool writes = false;
  uint64_t at = 0;
  uint64_t rows = 0, rowBytes = 0, stride = 0;
};

/// Scratchpad and host memory, and commands at work on them.
class Evaluation {
public:
  Evaluation(uint64_t arena, uint32_t bytes) : arena(arena), memory(bytes, 0) {}

  /// Whether the command passes the checks that precede any effect.
  static Verdict check(const minnow_command &command);
  /// The same for a descriptor.
  static Verdict check(const minnow_descriptor &descriptor);
  /// False: it passes the checks, but the manual does not say what it gives (operands overlap).
  static bool isDefined(const minnow_command &command);

  /// Carries it out (FENCE's store too; SIGNAL, WAIT, BARRIER and NOP do nothing here). A command that fails
  /// stops where the manual says. COMMANDS is counted if it does not.
  Verdict execute(const minnow_command &command);

  /// What a command would touch: rows in ascending order, as carried out now (a chain's descriptors as they
  /// are in memory now). Stops at the first failing descriptor or unmapped row.
  std::vector<Extent> extents(const minnow_command &command) const;

  bool isMapped(uint64_t address, uint64_t bytes) const {
    return address >= arena && address - arena <= memory.size() && bytes <= memory.size() - (address - arena);
  }
  /// As after a soft reset: host memory stays.
  void reset();

  uint64_t arena;
  std::vector<uint8_t> memory;
  std::array<uint8_t, MINNOW_SCRATCHPAD_SIZE> scratchpad{};
  Exact exact;
  bool counting = true; ///< Enabled, and not frozen.

private:
  struct Rows {
    uint64_t host;
    uint32_t scratchpad, rowBytes, rows, hostStride, scratchpadStride;
    bool store;
  };
  static Rows rowsOf(const minnow_command &command);
  static Rows rowsOf(const minnow_descriptor &descriptor);
  static Verdict check(const Rows &rows);
  Verdict move(const Rows &rows);
  Verdict chain(uint64_t first);
  void addExtents(std::vector<Extent> &extents, const Rows &rows) const;
  void compute(const minnow_command &command);

  int8_t &byteAt(uint32_t address) { return reinterpret_cast<int8_t &>(scratchpad[address]); }
  int32_t wordAt(uint32_t address) const;
  void setWord(uint32_t address, int32_t value);
};

} // namespace tapeback::stress
