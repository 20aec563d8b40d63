// Shapes of register accesses that the collector has met: what it has checked and looked up about each, so
// that the next one like it costs a comparison.
#pragma once

#include "format/Packet.h"
#include "recorder/ring/SlotCopy.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tapeback {

namespace triggers {
class KeyFilter;
}

/// One thread. Bounded: rows beyond `maxRows` are not taken.
class AccessKeys {
public:
  static constexpr size_t maxRows = 65536;
  struct Row {
    uint64_t address = 0;
    uint16_t device = 0, space = 0; ///< As the ring names them.
    uint8_t width = 0;
    bool plain = false; ///< May be taken in a run.
    uint16_t tapeDevice = 0;
    uint64_t tapeShape = 0; ///< Of a packet: space, width and what is the same in all of them.
    uint32_t shadowKey = 0;
    uint32_t next = 0;                                             ///< The row that followed it last.
    const triggers::KeyFilter *reads = nullptr, *writes = nullptr; ///< Values that the observer waits for.
    uint16_t tapeSpace() const { return uint16_t(tapeShape); }
    /// A packet in six words: what is written byte by byte takes the collector twice as long.
    void make(Packet &packet, const ring::SlotCopy &access, uint8_t flags) const {
      const uint64_t who = uint64_t(tapeDevice) << 32 | uint64_t(access.thread) << 48;
      const uint64_t shape = tapeShape | uint64_t(access.kind) << 32 | uint64_t(flags) << 56;
      packet.issueTime = access.issue;
      packet.completeTime = std::max(access.complete, access.issue);
      packet.address = access.address;
      packet.value = access.value;
      std::memcpy(reinterpret_cast<char *>(&packet) + offsetof(Packet, extra), &who, sizeof(who));
      std::memcpy(reinterpret_cast<char *>(&packet) + offsetof(Packet, space), &shape, sizeof(shape));
    }
    static uint64_t shapeOf(uint16_t space, uint8_t width) {
      return uint64_t(space) | uint64_t(width) << 16 | uint64_t(Origin::Program) << 40 |
             uint64_t(Completion::Done) << 48;
    }
    bool fits(const ring::SlotCopy &access) const {
      return address == access.address && device == access.device && space == access.space &&
             width == access.width;
    }
  };

  static_assert(offsetof(Packet, extra) == 32 && offsetof(Packet, device) == 36 &&
                offsetof(Packet, thread) == 38 && offsetof(Packet, space) == 40 &&
                offsetof(Packet, width) == 42 && offsetof(Packet, clock) == 43 &&
                offsetof(Packet, kind) == 44 && offsetof(Packet, origin) == 45 &&
                offsetof(Packet, completion) == 46 && offsetof(Packet, flags) == 47 &&
                __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

  AccessKeys() : slots(1024, 0) {}
  void clear() {
    rows.clear();
    slots.assign(1024, 0);
    previous = 0;
  }
  /// The row of such accesses; null: there is none yet. Likely the one that came after the row before.
  [[gnu::always_inline]] Row *find(const ring::SlotCopy &access) {
    Row *known = rows.data();
    if (previous < rows.size()) [[likely]] {
      const uint32_t next = known[previous].next;
      if (next < rows.size() && known[next].fits(access)) [[likely]] {
        previous = next;
        return &known[next];
      }
    }
    return search(access);
  }
  bool full() const { return rows.size() >= maxRows; }
  /// There must be none like it, and room. Pointers from before are void.
  void add(const Row &row) {
    rows.push_back(row);
    if (rows.size() * 2 > slots.size()) {
      slots.assign(slots.size() * 4, 0);
      for (size_t i = 0; i < rows.size(); ++i)
        slots[placeOf(rows[i])] = uint32_t(i + 1);
    } else {
      slots[placeOf(row)] = uint32_t(rows.size());
    }
  }

private:
  [[gnu::noinline]] Row *search(const ring::SlotCopy &access) {
    uint32_t row = slots[place(access)];
    if (!row)
      return nullptr;
    if (previous < rows.size())
      rows[previous].next = row - 1;
    previous = row - 1;
    return &rows[previous];
  }
  template <typename Shape>
  static size_t hash(const Shape &shape) {
    uint64_t h = shape.address * 0x9e3779b97f4a7c15u;
    h ^= (uint64_t(shape.device) << 32 | uint64_t(shape.space) << 8 | shape.width) * 0xd6e8feb86659fd93u;
    return size_t(h ^ (h >> 32));
  }
  size_t place(const ring::SlotCopy &access) const {
    size_t slot = hash(access) & (slots.size() - 1);
    while (slots[slot] && !rows[slots[slot] - 1].fits(access))
      slot = (slot + 1) & (slots.size() - 1);
    return slot;
  }
  size_t placeOf(const Row &row) const {
    size_t slot = hash(row) & (slots.size() - 1);
    while (slots[slot])
      slot = (slot + 1) & (slots.size() - 1);
    return slot;
  }

  std::vector<Row> rows;
  std::vector<uint32_t> slots; ///< Row + 1; 0 is free.
  uint32_t previous = 0;
};

} // namespace tapeback
