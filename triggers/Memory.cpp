#include "triggers/Memory.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace tapeback::triggers {

//===- ValueTable ------------------------------------------------------------------------------------===//

uint32_t ValueTable::find(uint64_t key) const {
  if (buckets.empty())
    return none;
  uint32_t index = buckets[bucketOf(key)];
  while (index != none && entries[index].key != key)
    index = entries[index].chain;
  return index;
}

void ValueTable::grow() {
  if (buckets.size() > entries.size())
    return;
  buckets.assign(std::max<size_t>(16, llvm::NextPowerOf2(entries.size() * 2)), none);
  for (uint32_t i = first; i != none; i = entries[i].after) {
    uint32_t &bucket = buckets[bucketOf(entries[i].key)];
    entries[i].chain = bucket;
    bucket = i;
  }
}

void ValueTable::put(uint64_t key, uint64_t value, uint64_t now) {
  if (uint32_t index = find(key); index != none) {
    // Coming again makes it new.
    remove(key);
  } else if (used == capacity) {
    ++evicted;
    remove(entries[first].key);
  }
  uint32_t index = free;
  if (index != none) {
    free = entries[index].after;
  } else {
    index = uint32_t(entries.size());
    entries.emplace_back();
    grow();
  }
  uint32_t &bucket = buckets[bucketOf(key)];
  entries[index] = {key, value, now, last, none, bucket};
  bucket = index;
  (last == none ? first : entries[last].after) = index;
  last = index;
  ++used;
}

void ValueTable::unlink(uint32_t index) {
  Entry &entry = entries[index];
  (entry.before == none ? first : entries[entry.before].after) = entry.after;
  (entry.after == none ? last : entries[entry.after].before) = entry.before;
  uint32_t *link = &buckets[bucketOf(entry.key)];
  while (*link != index)
    link = &entries[*link].chain;
  *link = entry.chain;
}

bool ValueTable::remove(uint64_t key) {
  uint32_t index = find(key);
  if (index == none)
    return false;
  unlink(index);
  entries[index].after = free;
  free = index;
  --used;
  return true;
}

void ValueTable::clear() {
  entries.clear();
  buckets.clear();
  first = last = free = none;
  used = 0;
}

std::optional<uint64_t> ValueTable::get(uint64_t key) const {
  uint32_t index = find(key);
  return index == none ? std::nullopt : std::optional(entries[index].value);
}

std::optional<uint64_t> ValueTable::cameAt(uint64_t key) const {
  uint32_t index = find(key);
  return index == none ? std::nullopt : std::optional(entries[index].came);
}

std::optional<ValueTable::Oldest> ValueTable::oldest() const {
  return first == none ? std::nullopt : std::optional(Oldest{entries[first].key, entries[first].came});
}

//===- Statistic -------------------------------------------------------------------------------------===//

void Statistic::add(uint64_t value) {
  // Values below 16 are steps of their own; above, the four bits behind the leading one say which.
  unsigned octave = value < stepsPerOctave ? 0 : unsigned(llvm::bit_width(value)) - 4;
  unsigned step = unsigned(octave ? value >> (octave - 1) : value) & (stepsPerOctave - 1);
  ++steps[octave][step];
  ++sums[octave];
  ++count;
  least = std::min(least, value);
  most = std::max(most, value);
  total += value;
}

std::optional<uint64_t> Statistic::quantile(uint64_t perTenThousand) const {
  if (!count)
    return std::nullopt;
  unsigned __int128 rank = ((unsigned __int128)count * perTenThousand + 9999) / 10000;
  uint64_t before = 0;
  for (unsigned octave = 0; octave < octaves; ++octave) {
    if (before + sums[octave] < rank) {
      before += sums[octave];
      continue;
    }
    for (unsigned step = 0; step < stepsPerOctave; ++step) {
      before += steps[octave][step];
      if (before < rank)
        continue;
      if (!octave)
        return std::min<uint64_t>(step, most);
      uint64_t low = uint64_t(stepsPerOctave + step) << (octave - 1);
      return std::min(low + (uint64_t(1) << (octave - 1)) - 1, most);
    }
  }
  return most;
}

std::optional<uint64_t> Statistic::mean() const {
  return count ? std::optional(uint64_t(total / count)) : std::nullopt;
}

//===- RateWindow ------------------------------------------------------------------------------------===//

bool RateWindow::add(uint64_t now, uint64_t amount) {
  times[next] = now;
  next = (next + 1) % times.size();
  used = std::min(used + 1, times.size());
  if (used < times.size())
    return false;
  // The oldest is where the next one will be written.
  if (now - times[next] > amount)
    return false;
  clear();
  return true;
}

//===- MappedRanges ----------------------------------------------------------------------------------===//

void MappedRanges::map(uint64_t address, uint64_t length) {
  if (!length || overflown)
    return;
  Piece piece = {address, address + std::min(length - 1, ~address)};
  auto touches = [&](const Piece &p) {
    return !(p.last != ~uint64_t(0) && p.last + 1 < piece.first) &&
           !(piece.last != ~uint64_t(0) && piece.last + 1 < p.first);
  };
  auto begin = std::lower_bound(pieces.begin(), pieces.end(), piece.first, [](const Piece &p, uint64_t at) {
    return p.last != ~uint64_t(0) && p.last + 1 < at;
  });
  auto end = begin;
  for (; end != pieces.end() && touches(*end); ++end) {
    piece.first = std::min(piece.first, end->first);
    piece.last = std::max(piece.last, end->last);
  }
  pieces.insert(pieces.erase(begin, end), piece);
  if (pieces.size() > maxPieces) {
    pieces.clear();
    overflown = true;
  }
}

void MappedRanges::unmap(uint64_t address, uint64_t length) {
  if (!length || overflown)
    return;
  uint64_t last = address + std::min(length - 1, ~address);
  std::vector<Piece> left;
  left.reserve(pieces.size() + 1);
  for (const Piece &p : pieces) {
    if (p.last < address || p.first > last) {
      left.push_back(p);
      continue;
    }
    if (p.first < address)
      left.push_back({p.first, address - 1});
    if (p.last > last)
      left.push_back({last + 1, p.last});
  }
  pieces = std::move(left);
}

std::optional<bool> MappedRanges::covers(uint64_t address, uint64_t length) const {
  if (overflown)
    return std::nullopt;
  if (!length)
    return true;
  if (length - 1 > ~address)
    return false;
  uint64_t last = address + length - 1;
  auto piece = std::upper_bound(pieces.begin(), pieces.end(), address,
                                [](uint64_t at, const Piece &p) { return at < p.first; });
  return piece != pieces.begin() && std::prev(piece)->last >= last;
}

} // namespace tapeback::triggers
