#include "replayer/diff/Regions.h"

namespace tapeback {

void Regions::apply(uint64_t ordinal, const Packet &packet, const PacketExtra &extra) {
  auto end = [&](uint64_t region) { ranges[region].until = ordinal + 1; };
  if (packet.completion == Completion::Failed)
    return;
  switch (packet.kind) {
  case PacketKind::MemoryMap:
    if (ranges.size() >= most || !extra.length || extra.length > ~uint64_t(0) - packet.address)
      return;
    if (auto old = live.find(packet.address); old != live.end())
      end(old->second);
    live[packet.address] = ranges.size();
    byAddress.emplace(packet.address, ranges.size());
    ranges.push_back({packet.address, extra.length, ordinal, none});
    longest = std::max(longest, extra.length);
    return;
  case PacketKind::MemoryUnmap:
    if (auto old = live.find(packet.address); old != live.end()) {
      end(old->second);
      live.erase(old);
    }
    return;
  case PacketKind::Close:
  case PacketKind::Open: // The next process begins without the memory of the one before.
    for (const auto &[address, region] : live)
      end(region);
    live.clear();
    return;
  default: return;
  }
}

Regions::Place Regions::locate(uint64_t address, uint64_t at) const {
  constexpr unsigned looks = 4096; // Many mappings at one place, one after another.
  auto next = byAddress.upper_bound(address);
  for (unsigned look = 0; look < looks && next != byAddress.begin(); ++look) {
    --next;
    const MappedRange &range = ranges[next->second];
    if (address - range.iova >= longest)
      break;
    if (address - range.iova < range.length && at >= range.from && at < range.until)
      return {next->second, address - range.iova};
  }
  return {none, address};
}

void RegionPairs::pair(uint64_t inA, uint64_t inB) {
  if (inA >= a.size() || inB >= b.size())
    return;
  if (toB.size() <= inA)
    toB.resize(inA + 1, Regions::none);
  if (takenInB.size() <= inB)
    takenInB.resize(inB + 1);
  toB[inA] = inB;
  takenInB[inB] = true;
  moved |= a[inA].iova != b[inB].iova;
}

bool RegionPairs::same(uint64_t addressA, uint64_t atA, uint64_t addressB, uint64_t atB) {
  Regions::Place left = a.locate(addressA, atA), right = b.locate(addressB, atB);
  if (left.offset != right.offset)
    return false;
  if (left.region == Regions::none || right.region == Regions::none)
    return left.region == right.region;
  bool known = left.region < toB.size() && toB[left.region] != Regions::none;
  bool taken = right.region < takenInB.size() && takenInB[right.region];
  if (!known && !taken && a[left.region].length == b[right.region].length)
    pair(left.region, right.region);
  return left.region < toB.size() && toB[left.region] == right.region;
}

bool RegionPairs::relocated(uint64_t valueA, uint64_t valueB, unsigned width) const {
  if (!moved || (width != 8 && width != 4))
    return false;
  constexpr size_t looked =
      4096; // Of the latest: a workload with more mappings than that is compared by number.
  uint64_t mask = width == 8 ? ~uint64_t(0) : 0xffffffff;
  size_t first = toB.size() > looked ? toB.size() - looked : 0;
  for (size_t i = first; i < toB.size(); ++i) {
    if (toB[i] == Regions::none)
      continue;
    const MappedRange &left = a[i], &right = b[toB[i]];
    uint64_t length = std::min(left.length, right.length);
    // The end of a buffer is one of its addresses, too.
    uint64_t offset = (valueA - left.iova) & mask;
    if (offset <= length && offset == ((valueB - right.iova) & mask))
      return true;
    if (width != 4)
      continue;
    // Upper halves: no buffer that is compared is so long that it has more than two.
    bool upperA = valueA == left.iova >> 32 || valueA == (left.iova + length) >> 32;
    bool upperB = valueB == right.iova >> 32 || valueB == (right.iova + length) >> 32;
    if (upperA && upperB)
      return true;
  }
  return false;
}

} // namespace tapeback
