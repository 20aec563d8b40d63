// Where the memory of a recorded run lay, so that addresses of two runs can be compared by what they mean.
#pragma once

#include "replayer/TapeSource.h"
#include <map>
#include <optional>

namespace tapeback {

/// One mapping, from its MemoryMap packet on.
struct MappedRange {
  uint64_t iova = 0, length = 0;
  uint64_t from = 0;  ///< The MemoryMap.
  uint64_t until = 0; ///< The first packet after it was unmapped.
};

/// All mappings of one device of a tape. Values; filled in the tape's order.
class Regions {
public:
  static constexpr size_t most = 65536; ///< Later ones are not known; their addresses compare as numbers.
  static constexpr uint64_t none = ~uint64_t(0);

  void apply(uint64_t ordinal, const Packet &packet, const PacketExtra &extra);

  struct Place {
    uint64_t region = none; ///< Index of the mapping; none: nothing is mapped there.
    uint64_t offset = 0;    ///< In it; without a mapping the address.
  };
  /// What lay at `address` when packet `at` was issued.
  Place locate(uint64_t address, uint64_t at) const;
  const MappedRange &operator[](uint64_t region) const { return ranges[region]; }
  size_t size() const { return ranges.size(); }

private:
  std::vector<MappedRange> ranges;
  std::multimap<uint64_t, uint64_t> byAddress; ///< First address to index.
  std::map<uint64_t, uint64_t> live;           ///< What is mapped now.
  uint64_t longest = 0;
};

/// Which mapping of one tape stands for which of the other: learnt from the MemoryMap packets that go
/// together.
class RegionPairs {
public:
  RegionPairs(const Regions &a, const Regions &b) : a(a), b(b) {}

  void pair(uint64_t inA, uint64_t inB);
  /// Both mean the same byte of the same mapping (or the same number where nothing is mapped).
  /// Two mappings of one length that no packets have paired yet are paired by their first use.
  bool same(uint64_t addressA, uint64_t atA, uint64_t addressB, uint64_t atB);
  /// The numbers, of `width` bytes, are the same part of an address of the same byte in a mapping that lies
  /// elsewhere in the other tape: whole addresses, or their lower or upper halves.
  bool relocated(uint64_t valueA, uint64_t valueB, unsigned width) const;
  bool anyMoved() const { return moved; }

private:
  const Regions &a;
  const Regions &b;
  std::vector<uint64_t> toB;  ///< By region of A.
  std::vector<bool> takenInB; ///< By region of B: stands for one of A.
  bool moved = false;         ///< Some pair lies at different addresses.
};

} // namespace tapeback
