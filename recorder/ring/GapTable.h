// How long programs let pass from one operation to the next, as counts in shared memory: measured the same
// way whether a run is recorded or not, so that both can be compared (`tapeback record --ab`).
//
// The file is this table. The parent makes it (0600, in a directory of its own) and reads it after the
// program's end; the client library counts in it. What comes out is untrusted: it is only counts.
//
// No LLVM and nothing that needs libstdc++ at run time: the client library includes this.
#pragma once

#include <atomic>
#include <cstdint>

namespace tapeback::ring {

constexpr char gapMagic[8] = {'T', 'B', 'G', 'A', 'P', 'S', '\r', '\n'};
/// The environment variable that names the file.
constexpr const char *gapEnvironmentName = "TAPEBACK_GAPS";

/// Sixteen buckets an octave of nanoseconds: a percentile is known to some 4 %.
struct GapTable {
  static constexpr unsigned perOctave = 16, buckets = 61 * perOctave;
  char magic[8];
  std::atomic<uint64_t> counts[buckets];

  static constexpr unsigned bucketOf(uint64_t ns) {
    if (ns < perOctave)
      return unsigned(ns);
    unsigned octave = 63 - unsigned(__builtin_clzll(ns)); // At least 4.
    return (octave - 3) * perOctave + unsigned(ns >> (octave - 4) & (perOctave - 1));
  }
  /// The least that falls into it.
  static constexpr uint64_t leastOf(unsigned bucket) {
    if (bucket < perOctave)
      return bucket;
    unsigned octave = bucket / perOctave + 3;
    return (uint64_t(perOctave) + bucket % perOctave) << (octave - 4);
  }
};
static_assert(GapTable::bucketOf(~uint64_t(0)) == GapTable::buckets - 1);
static_assert(GapTable::leastOf(GapTable::bucketOf(1 << 20)) == 1 << 20);

} // namespace tapeback::ring
