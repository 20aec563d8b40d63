// What an evaluator remembers: tables by value, statistics, rates, mapped ranges. All of fixed size.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace tapeback::triggers {

/// Values by key, in the order in which the keys came. When full, the oldest goes and is counted.
class ValueTable {
public:
  explicit ValueTable(uint32_t capacity) : capacity(capacity) {}

  void put(uint64_t key, uint64_t value, uint64_t now);
  /// True if it was there.
  bool remove(uint64_t key);
  void clear();
  bool has(uint64_t key) const { return find(key) != none; }
  std::optional<uint64_t> get(uint64_t key) const;
  std::optional<uint64_t> cameAt(uint64_t key) const;
  size_t size() const { return used; }
  uint64_t evictions() const { return evicted; }

  struct Oldest {
    uint64_t key, came;
  };
  std::optional<Oldest> oldest() const;

private:
  static constexpr uint32_t none = ~uint32_t(0);
  /// Entries in two lists: those in use, oldest first, and, per bucket, those with the same hash.
  struct Entry {
    uint64_t key = 0, value = 0, came = 0;
    uint32_t before = none, after = none, chain = none;
  };
  static uint64_t hash(uint64_t key) {
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15;
    return key ^ key >> 29;
  }
  uint32_t bucketOf(uint64_t key) const { return uint32_t(hash(key) & (buckets.size() - 1)); }
  uint32_t find(uint64_t key) const;
  void unlink(uint32_t index);
  void grow();

  uint32_t capacity, used = 0;
  std::vector<Entry> entries;
  std::vector<uint32_t> buckets; ///< A power of two of them.
  uint32_t first = none, last = none, free = none;
  uint64_t evicted = 0;
};

/// A distribution of numbers: sixteen steps to a power of two, so that a quantile is at most 6.25 % too high.
class Statistic {
public:
  void add(uint64_t value);
  void clear() { *this = Statistic(); }
  uint64_t samples() const { return count; }
  /// The upper end of the step that the quantile lies in, at most the maximum. Nothing without samples.
  std::optional<uint64_t> quantile(uint64_t perTenThousand) const;
  std::optional<uint64_t> mean() const;
  std::optional<uint64_t> minimum() const { return count ? std::optional(least) : std::nullopt; }
  std::optional<uint64_t> maximum() const { return count ? std::optional(most) : std::nullopt; }

private:
  static constexpr unsigned stepsPerOctave = 16, octaves = 61;
  std::array<std::array<uint64_t, stepsPerOctave>, octaves> steps{};
  std::array<uint64_t, octaves> sums{};
  uint64_t count = 0, least = ~uint64_t(0), most = 0;
  unsigned __int128 total = 0;
};

/// The times of the last `size` occurrences.
class RateWindow {
public:
  explicit RateWindow(uint32_t size) : times(size) {}
  /// True if this is the `size`-th occurrence within `amount`. They are then forgotten.
  bool add(uint64_t now, uint64_t amount);
  void clear() { used = next = 0; }

private:
  std::vector<uint64_t> times;
  size_t used = 0, next = 0;
};

/// Ranges of one device's memory. At most 4096: beyond that nothing is known any more.
class MappedRanges {
public:
  void map(uint64_t address, uint64_t length);
  void unmap(uint64_t address, uint64_t length);
  /// Nothing is known after too many ranges.
  std::optional<bool> covers(uint64_t address, uint64_t length) const;

private:
  struct Piece {
    uint64_t first, last; ///< Both included.
  };
  static constexpr size_t maxPieces = 4096;
  std::vector<Piece> pieces; ///< In order, apart.
  bool overflown = false;
};

} // namespace tapeback::triggers
