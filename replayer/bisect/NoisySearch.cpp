#include "replayer/bisect/NoisySearch.h"
#include "replayer/repeat/Interval.h"
#include <algorithm>
#include <cmath>
#include <vector>

namespace tapeback {

namespace {

// Of the rate's Beta distribution before anything is known: as much as so many hits and misses. It leans to
// low rates; 1/2 and 1/2 gave answers at rates of 0.05 to 0.5 that were one to two points less often right
// than stated (docs/decisions/0035).
constexpr double priorHits = 0.15, priorMisses = 0.5;

double entropy(double p) {
  return p <= 0 || p >= 1 ? 0 : -p * std::log2(p) - (1 - p) * std::log2(1 - p);
}

} // namespace

NoisySearch::NoisySearch(size_t places, const NoisySearchOptions &options)
    : count(places), options(options), firstHit(places) {}

void NoisySearch::note(size_t place, bool differs) {
  Seen &at = seen[place];
  ++(differs ? at.hits : at.misses);
  ++total;
  hitCount += differs;
  if (differs)
    firstHit = std::min(firstHit, place);
}

/// With w and all probes given, only the misses at or behind w count, and the hits all together:
///   P(probes | w) = B(a + hits, b + misses(w)) / B(a, b)   for w <= firstHit.
/// So w's between two places that missed are alike.
template <typename Use>
void NoisySearch::forPieces(Use use) const {
  if (firstHit >= count)
    return;
  struct Alike {
    size_t first, last;
    uint64_t misses;
  };
  std::vector<Alike> alike;
  uint64_t misses = 0;
  for (const auto &[place, at] : seen)
    misses += at.misses;
  uint64_t most = misses;
  size_t first = 0;
  for (const auto &[place, at] : seen) {
    if (place >= firstHit)
      break;
    if (!at.misses)
      continue;
    alike.push_back({first, place, misses});
    first = place + 1;
    misses -= at.misses;
  }
  alike.push_back({first, firstHit, misses});
  // log of B(a + hits, b + n) / B(a + hits, b), for all n.
  std::vector<double> beta(most + 1);
  for (uint64_t n = 0; n < most; ++n)
    beta[n + 1] =
        beta[n] + std::log((priorMisses + double(n)) / (priorHits + priorMisses + double(hitCount + n)));
  double sum = 0, likeliest = beta[alike.back().misses]; // It has the fewest misses.
  auto weight = [&](const Alike &a) { return std::exp(beta[a.misses] - likeliest); };
  for (const Alike &a : alike)
    sum += double(a.last - a.first + 1) * weight(a);
  for (const Alike &a : alike)
    use(Piece{a.first, a.last, weight(a) / sum,
              (priorHits + double(hitCount)) / (priorHits + priorMisses + double(hitCount + a.misses))});
}

NoisySearch::State NoisySearch::state() const {
  if (!count)
    return State::NothingSeen;
  bool out = total >= options.maxProbes;
  if (firstHit >= count)
    return total >= options.maxBlind ? State::NothingSeen : out ? State::OutOfProbes : State::Searching;
  double best = 0;
  forPieces([&](const Piece &piece) { best = std::max(best, piece.each); });
  return best >= options.confidence ? State::Found : out ? State::OutOfProbes : State::Searching;
}

size_t NoisySearch::next() const {
  if (hitCount < options.rateHits)
    return count - 1;
  // Of one place i, with A = P(the probe shows it) and B = the mean entropy of a probe whose w is known:
  // what it says about w is H(A) - B. Within a piece A and B are linear in i, so that the best is known.
  double a = 0, b = 0, best = -1;
  size_t place = firstHit;
  forPieces([&](const Piece &piece) {
    double size = double(piece.last - piece.first + 1);
    double eachA = piece.each * piece.shows, eachB = piece.each * entropy(piece.shows);
    auto consider = [&](double n) {
      n = std::clamp(n, 1.0, size);
      double says = entropy(std::min(1.0, a + n * eachA)) - (b + n * eachB);
      if (says > best) {
        best = says;
        place = piece.first + size_t(n) - 1;
      }
    };
    double wanted = 1 / (1 + std::exp2(entropy(piece.shows) / piece.shows));
    double n = eachA > 0 ? std::floor((wanted - a) / eachA) : size;
    consider(n);
    consider(n + 1);
    a += size * eachA;
    b += size * eachB;
  });
  return place;
}

NoisySearch::Answer NoisySearch::answer() const {
  Answer answer;
  std::vector<Piece> pieces;
  forPieces([&](const Piece &piece) {
    if (piece.each > answer.probability) {
      answer.place = piece.first;
      answer.probability = piece.each;
      answer.rate = piece.shows;
    }
    pieces.push_back(piece);
  });
  if (pieces.empty())
    return answer;
  // Grown from the most probable place, always to the more probable side.
  size_t low = 0;
  while (pieces[low].last < answer.place)
    ++low;
  size_t high = low;
  answer.low = pieces[low].each >= options.confidence ? answer.place : pieces[low].first;
  answer.high = pieces[low].each >= options.confidence ? answer.place : pieces[low].last;
  answer.within = pieces[low].each * double(answer.high - answer.low + 1);
  while (answer.within < options.confidence && (low > 0 || high + 1 < pieces.size())) {
    bool down = low > 0 && (high + 1 == pieces.size() || pieces[low - 1].each > pieces[high + 1].each);
    const Piece &piece = down ? pieces[--low] : pieces[++high];
    answer.within += piece.each * double(piece.last - piece.first + 1);
    (down ? answer.low : answer.high) = down ? piece.first : piece.last;
  }
  answer.within = std::min(1.0, answer.within);
  return answer;
}

NoisySearch::RateTest NoisySearch::rateTest() const {
  RateTest test;
  if (firstHit >= count)
    return test;
  size_t from = answer().place;
  for (const auto &[place, at] : seen) {
    if (place < from)
      continue;
    (place + 1 == count ? test.hitsAtLast : test.hitsBefore) += at.hits;
    (place + 1 == count ? test.probesAtLast : test.probesBefore) += at.hits + at.misses;
  }
  test.pValue = ratesDiffer(test.hitsAtLast, test.probesAtLast, test.hitsBefore, test.probesBefore);
  return test;
}

double probeCapacity(double rate) {
  double miss = 1 - rate;
  return std::log2(1 + (miss > 0 ? rate * std::pow(miss, miss / rate) : 1));
}

uint64_t naiveRepeats(size_t places, double rate, double confidence) {
  if (rate >= 1)
    return 1;
  double halvings = std::max(1.0, std::ceil(std::log2(double(places))));
  return uint64_t(std::ceil(std::log((1 - confidence) / halvings) / std::log(1 - rate)));
}

} // namespace tapeback
