// Where a failure begins to act that does not come every time: a search that weighs each answer by how often
// the failure comes, learns that rate while it searches, and says how sure it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace tapeback {

struct NoisySearchOptions {
  double confidence = 0.95;   ///< Of one place: the search ends.
  uint64_t maxProbes = 2'000; ///< All of them, those for the rate included.
  unsigned rateHits = 3;      ///< The last place is probed until it differed that often.
  unsigned maxBlind = 100;    ///< Probes of the last place without one that differs: nothing to search for.
};

/// Places 0 … N-1 in the order of time. The failure begins to act at one of them, w, each as likely before
/// anything is known. A probe is a run to a place: it shows the failure with the rate r if the place is at or
/// behind w, and never before w (a Z-channel). r is not known: before anything is, it is
/// distributed as Beta(0.15, 1/2), independently of w. The posterior of w is exact under this, whenever one
/// stops. Next comes the place whose probe is expected to say most about w.
///
/// A failure that heals, or acts in several places, is not of this kind: rateTest() tells as far as the runs
/// do. Costs O(places probed) per step and in memory, however many places there are. No errors;
/// deterministic.
class NoisySearch {
public:
  explicit NoisySearch(size_t places, const NoisySearchOptions &options = {});

  enum class State : uint8_t {
    Searching,
    Found,       ///< One place is as probable as was asked for.
    NothingSeen, ///< No probe differed at the last place.
    OutOfProbes,
  };
  State state() const;
  /// The place to probe next. Only while searching.
  size_t next() const;
  /// What a probe of a place showed; also of places that were not asked for.
  void note(size_t place, bool differs);

  struct Answer {
    size_t place = 0;       ///< The most probable one, the first of several.
    double probability = 0; ///< That it is this one.
    size_t low = 0, high = 0;
    double within = 0; ///< That it is one of [low, high]: at least as much as the confidence asked for.
    double rate = 0;   ///< Posterior mean of r at that place.
  };
  /// Only once a probe differed.
  Answer answer() const;

  /// Of the probes at or behind the answer: how many differed, in those of the last place and in the others.
  /// The two rates are one if the failure is of the kind searched for. Two-sided (Fisher's exact test).
  struct RateTest {
    uint64_t hitsAtLast = 0, probesAtLast = 0, hitsBefore = 0, probesBefore = 0;
    double pValue = 1;
  };
  RateTest rateTest() const;

  uint64_t probes() const { return total; }
  uint64_t hits() const { return hitCount; }
  size_t places() const { return count; }

private:
  /// Places that the probes so far say the same about.
  struct Piece {
    size_t first, last;
    double each;  ///< Posterior of each of them.
    double shows; ///< That a probe behind w shows it, if w is one of them.
  };
  template <typename Use>
  void forPieces(Use use) const;

  struct Seen {
    uint64_t hits = 0, misses = 0;
  };
  size_t count;
  NoisySearchOptions options;
  std::map<size_t, Seen> seen; ///< By place.
  size_t firstHit;             ///< Nearest to the beginning; `count`: none yet.
  uint64_t hitCount = 0, total = 0;
};

/// Bits that one probe can tell at most about where a failure of that rate acts: the capacity of the
/// Z-channel, log2(1 + r (1-r)^((1-r)/r)). 0 < rate <= 1.
double probeCapacity(double rate);

/// Runs per place of a search by halves that repeats each probe until it differs, or often enough to believe
/// that it would have: 1 - confidence shared among the halvings. The rate has to be known.
uint64_t naiveRepeats(size_t places, double rate, double confidence);

} // namespace tapeback
