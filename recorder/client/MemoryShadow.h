// What a replay of the tape so far has in each byte of device-visible memory, and who owns it.
#pragma once

#include "recorder/client/Array.h"
#include "recorder/client/Rows.h"

namespace tapeback::client {

/// Of one device, used with its lock held. A byte is *known* if the tape says what is there: it was captured
/// there, or it is what the device was seen to have written. It is *owned* while a transfer of the device
/// that writes it has not been seen to end. Costs twice the memory that transfers touch (untouched pages cost
/// nothing) and time in proportion to the bytes concerned.
class MemoryShadow {
public:
  /// Memory that the tape says is zero, but for what lies behind `known` bytes. False: no memory; the range
  /// is then foreign to us.
  [[nodiscard]] bool add(uint64_t iova, uint64_t size, uint64_t known);
  void remove(uint64_t iova);
  void clear();
  bool empty() const { return areas.size() == 0; }

  /// True if all of it is memory that was added.
  bool covers(const Rows &rows) const;
  /// As much of it, from its start, as is there: whole rows, or the beginning of the first. False: nothing.
  bool leading(const Rows &rows, Rows &part) const;
  uint64_t size() const;
  /// True if any byte is owned.
  bool owned(const Rows &rows) const;

  /// The device may write it from now on.
  void take(const Rows &rows);
  /// One transfer less may write it. `owned` then says whether others still may.
  void release(const Rows &rows);
  /// The device may have written it, and nobody knows what; nobody owns it any more.
  void abandon(const Rows &rows);
  /// After abandoning all that was taken: nothing is owned.
  void disown();

  /// `content` is what lies at [address, address + bytes) of the device's memory now. True if the tape has it
  /// there; owned bytes are never known.
  bool knows(uint64_t address, const uint8_t *content, uint64_t bytes) const;
  /// True if the tape has something else at one of its bytes: somebody stored there unseen. Of bytes that are
  /// owned or not known nothing can be said.
  bool contradicts(uint64_t address, const uint8_t *content, uint64_t bytes) const;
  /// The tape has it from now on. Owned bytes stay unknown.
  void learn(uint64_t address, const uint8_t *content, uint64_t bytes);
  void forget(const Rows &rows);
  void forgetAll();

  /// The next run at or behind `first`, before `end`, whose bytes are all mapped and unowned. False: none.
  bool nextFree(uint64_t first, uint64_t end, uint64_t &from, uint64_t &to) const;

private:
  struct Area {
    uint64_t iova, size;
    uint8_t *content;
    uint8_t *state; ///< Per byte: number of owners, and whether it is unknown.
  };
  static constexpr uint8_t unknown = 0x80, owners = 0x7f;

  const Area *areaOf(uint64_t address) const;
  template <typename Visit>
  void visit(uint64_t address, uint64_t bytes, Visit visit) const;
  template <typename Visit>
  void visit(const Rows &rows, Visit visit) const;

  Array<Area> areas;
  bool overflowed = false; ///< A byte had more owners than can be counted.
};

} // namespace tapeback::client
