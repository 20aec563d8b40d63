// Which packet of the tape a record of the ring became: links in the ring name records, links on the tape
// packet ordinals. Bounded: what is too long ago is forgotten, and its links become noLink.
#pragma once

#include "format/Packet.h"
#include "recorder/ZeroedArray.h"
#include "llvm/ADT/ArrayRef.h"
#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tapeback {

class OrdinalTable {
public:
  OrdinalTable() : index(recentCount), recent(recentCount), runs(runCount), places(placeCount) {}

  /// `lasting` entries (descriptors, spans) are kept until erased, others as long as they are among the last.
  void add(uint64_t name, uint64_t ordinal, const Packet &packet, bool lasting) {
    if (!name)
      return;
    // Of the two places that it may take, the one of what is longer ago.
    size_t place = placeOf(name), other = place ^ 1;
    if (entryAt(place).name != name && (entryAt(other).name == name || index[other] < index[place]))
      place = other;
    if (entryAt(place).name != name)
      index[place] = ++added;
    recent[index[place] % recentCount] = {name, ordinal, packet};
    if (lasting && kept.size() < keptCount)
      kept[name] = ordinal;
  }
  /// Register accesses whose names count up, as the ordinals do.
  void addRun(uint64_t firstName, uint64_t firstOrdinal, llvm::ArrayRef<Packet> packets) {
    for (size_t i = 0; i < packets.size(); ++i) {
      const Packet &packet = packets[i];
      places[(firstOrdinal + i) % placeCount] = {packet.address, packet.device, packet.space, packet.width,
                                                 packet.kind};
    }
    Run &last = runs[lastRun % runCount];
    if (last.name + last.count == firstName && last.ordinal + last.count == firstOrdinal && last.count)
      last.count += packets.size();
    else
      runs[++lastRun % runCount] = {firstName, firstOrdinal, packets.size()};
    newest = firstOrdinal + packets.size();
  }

  std::optional<uint64_t> find(uint64_t name) const {
    if (!name)
      return std::nullopt;
    for (size_t place : {placeOf(name), placeOf(name) ^ 1})
      if (entryAt(place).name == name)
        return entryAt(place).ordinal;
    if (auto it = kept.find(name); it != kept.end())
      return it->second;
    for (size_t back = 0; back < runCount; ++back) {
      const Run &run = runs[(lastRun - back) % runCount];
      if (name >= run.name && name - run.name < run.count)
        return recentRun(run.ordinal + (name - run.name));
    }
    return std::nullopt;
  }
  /// The packet with that ordinal, among the recent ones; of a register access without its value and times.
  /// Slow, for the one failure that a report is about.
  std::optional<Packet> findOrdinal(uint64_t ordinal) const {
    for (const Entry &entry : recent)
      if (entry.name && entry.ordinal == ordinal)
        return entry.packet;
    for (const Run &run : runs)
      if (ordinal >= run.ordinal && ordinal - run.ordinal < run.count && recentRun(ordinal)) {
        const Place &place = places[ordinal % placeCount];
        Packet packet;
        packet.address = place.address;
        packet.device = place.device;
        packet.space = place.space;
        packet.width = place.width;
        packet.kind = place.kind;
        return packet;
      }
    return std::nullopt;
  }
  void erase(uint64_t name) { kept.erase(name); }

private:
  static constexpr size_t recentCount = 1 << 15, keptCount = 1 << 16, runCount = 1 << 12,
                          placeCount = 1 << 15;
  struct Entry {
    uint64_t name = 0; ///< 0: empty.
    uint64_t ordinal = 0;
    Packet packet;
  };
  struct Run {
    uint64_t name = 0, ordinal = 0, count = 0;
  };
  struct Place {
    uint64_t address = 0;
    uint16_t device = 0, space = 0;
    uint8_t width = 0;
    PacketKind kind = PacketKind::Tick;
  };
  static size_t placeOf(uint64_t name) { return (name + (name >> 48) * 10007) % recentCount; }
  std::optional<uint64_t> recentRun(uint64_t ordinal) const {
    return newest - ordinal <= placeCount ? std::optional(ordinal) : std::nullopt;
  }

  /// What a place's number leads to: names that are not the place's are from another time.
  const Entry &entryAt(size_t place) const { return recent[index[place] % recentCount]; }

  // Two arrays: names are far apart, and a recording of few packets is to touch few pages.
  ZeroedArray<uint64_t> index; ///< By name: the number of an entry.
  ZeroedArray<Entry> recent;   ///< A circle, by number.
  std::unordered_map<uint64_t, uint64_t> kept;
  ZeroedArray<Run> runs; ///< A circle; the newest is at `lastRun`.
  uint64_t lastRun = 0, newest = 0, added = 0;
  ZeroedArray<Place> places; ///< By ordinal; of accesses in runs.
};

} // namespace tapeback
