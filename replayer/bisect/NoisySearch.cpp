#include "replayer/bisect/NoisySearch.h"
#include "replayer/repeat/Interval.h"
#include <algorithm>
#include <cmath>
#include <vector>

namespace tapeback {

namespace {

constexpr double half = 0.5;   // Of Beta(1/2, 1/2), both.
constexpr double always = 0.1; // That the rate is 1.

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
///   P(probes | w) = 0.1 [no misses] + 0.9 B(1/2 + hits, 1/2 + misses(w)) / B(1/2, 1/2)   for w <= firstHit.
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
  // log of B(1/2 + hits, 1/2 + n) / B(1/2, 1/2), for all n.
  std::vector<double> beta(most + 1);
  for (uint64_t k = 0; k < hitCount; ++k)
    beta[0] += std::log((half + double(k)) / (1 + double(k)));
  for (uint64_t n = 0; n < most; ++n)
    beta[n + 1] = beta[n] + std::log((half + double(n)) / (1 + double(hitCount + n)));
  double least = beta[alike.back().misses]; // The likeliest has the fewest misses.
  double scale = alike.back().misses ? least : 0, sum = 0;
  auto weight = [&](uint64_t n) {
    return (1 - always) * std::exp(beta[n] - scale) + (n ? 0 : always * std::exp(-scale));
  };
  for (const Alike &a : alike)
    sum += double(a.last - a.first + 1) * weight(a.misses);
  for (const Alike &a : alike) {
    double beta1 = (1 - always) * std::exp(beta[a.misses] - scale), all = weight(a.misses);
    double mean = (half + double(hitCount)) / (1 + double(hitCount + a.misses));
    use(Piece{a.first, a.last, all / sum, all > 0 ? (beta1 * mean + (all - beta1)) / all : mean});
  }
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
