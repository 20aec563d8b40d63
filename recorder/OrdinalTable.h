// Which packet of the tape a record of the ring became: links in the ring name sequence numbers, links on the
// tape packet ordinals. Bounded: what is too long ago is forgotten, and its links become noLink.
#pragma once

#include "format/Packet.h"
#include <optional>
#include <unordered_map>
#include <vector>

namespace tapeback {

class OrdinalTable {
public:
  OrdinalTable() : recent(recentCount) {}

  struct Entry {
    uint64_t sequence = 0; ///< 0: empty.
    uint64_t ordinal = 0;
    Packet packet;
  };

  /// `lasting` entries (descriptors, spans) are kept until erased, others as long as they are among the last.
  void add(uint64_t sequence, uint64_t ordinal, const Packet &packet, bool lasting) {
    if (!sequence)
      return;
    recent[sequence % recentCount] = {sequence, ordinal, packet};
    if (lasting && kept.size() < keptCount)
      kept[sequence] = {sequence, ordinal, packet};
  }
  /// Valid until the next add. Null if unknown.
  const Entry *find(uint64_t sequence) const {
    if (!sequence)
      return nullptr;
    if (recent[sequence % recentCount].sequence == sequence)
      return &recent[sequence % recentCount];
    auto it = kept.find(sequence);
    return it == kept.end() ? nullptr : &it->second;
  }
  /// By ordinal, among the recent ones: slow, for the one failure that a report is about.
  const Entry *findOrdinal(uint64_t ordinal) const {
    for (const Entry &entry : recent)
      if (entry.sequence && entry.ordinal == ordinal)
        return &entry;
    return nullptr;
  }
  void erase(uint64_t sequence) { kept.erase(sequence); }

private:
  static constexpr size_t recentCount = 1 << 15, keptCount = 1 << 16;
  std::vector<Entry> recent;
  std::unordered_map<uint64_t, Entry> kept;
};

} // namespace tapeback
