#include "replayer/diff/Align.h"
#include "llvm/ADT/DenseMap.h"
#include <algorithm>

namespace tapeback {
namespace {

using Pairs = std::vector<std::pair<size_t, size_t>>;

/// Forward Myers with the whole trace kept. False, and nothing added, if more than `maxEdits` are needed.
bool myers(llvm::ArrayRef<uint64_t> a, llvm::ArrayRef<uint64_t> b, size_t maxEdits, size_t aBase,
           size_t bBase, Pairs &pairs) {
  const long n = long(a.size()), m = long(b.size());
  const long most = long(std::min(maxEdits, a.size() + b.size()));
  std::vector<long> reach(size_t(2 * most + 3), 0); // Farthest index in `a`, by diagonal.
  std::vector<std::vector<long>> trace;             // reach[-d..d] before step d.
  auto at = [&](std::vector<long> &v, long k) -> long & { return v[size_t(k + most + 1)]; };
  long found = -1;
  for (long d = 0; d <= most && found < 0; ++d) {
    trace.emplace_back(reach.begin() + (most + 1 - d - 1), reach.begin() + (most + 1 + d + 2));
    for (long k = -d; k <= d; k += 2) {
      bool down = k == -d || (k != d && at(reach, k - 1) < at(reach, k + 1));
      long x = down ? at(reach, k + 1) : at(reach, k - 1) + 1;
      long y = x - k;
      while (x < n && y < m && a[size_t(x)] == b[size_t(y)])
        ++x, ++y;
      at(reach, k) = x;
      if (x >= n && y >= m) {
        found = d;
        break;
      }
    }
  }
  if (found < 0)
    return false;
  Pairs backwards;
  long x = n, y = m;
  for (long d = found; d >= 0; --d) {
    const std::vector<long> &before = trace[size_t(d)];
    auto was = [&](long k) { return before[size_t(k + d + 1)]; };
    long k = x - y;
    bool down = k == -d || (k != d && was(k - 1) < was(k + 1));
    long previousK = down ? k + 1 : k - 1;
    long previousX = d ? was(previousK) : 0, previousY = d ? previousX - previousK : 0;
    while (x > previousX && y > previousY)
      backwards.emplace_back(aBase + size_t(--x), bBase + size_t(--y));
    x = previousX;
    y = previousY;
  }
  pairs.insert(pairs.end(), backwards.rbegin(), backwards.rend());
  return true;
}

/// Splits where a key occurs once on either side, as near the middle as can be.
bool splitPoint(llvm::ArrayRef<uint64_t> a, llvm::ArrayRef<uint64_t> b, size_t &atA, size_t &atB) {
  struct Seen {
    size_t inA = 0, inB = 0, a = 0, b = 0;
  };
  llvm::DenseMap<uint64_t, Seen> seen;
  auto usable = [](uint64_t key) { return key < ~uint64_t(0) - 1; }; // Two values are DenseMap's own.
  for (size_t i = 0; i < a.size(); ++i)
    if (usable(a[i])) {
      Seen &one = seen[a[i]];
      ++one.inA;
      one.a = i;
    }
  for (size_t i = 0; i < b.size(); ++i)
    if (usable(b[i])) {
      Seen &one = seen[b[i]];
      ++one.inB;
      one.b = i;
    }
  bool found = false;
  size_t best = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!usable(a[i]))
      continue;
    const Seen &one = seen[a[i]];
    if (one.inA != 1 || one.inB != 1)
      continue;
    size_t off = i > a.size() / 2 ? i - a.size() / 2 : a.size() / 2 - i;
    if (found && off >= best)
      continue;
    found = true;
    best = off;
    atA = i;
    atB = one.b;
  }
  return found;
}

void align(llvm::ArrayRef<uint64_t> a, llvm::ArrayRef<uint64_t> b, size_t maxEdits, size_t aBase,
           size_t bBase, unsigned depth, Pairs &pairs) {
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    pairs.emplace_back(aBase++, bBase++);
    a = a.drop_front();
    b = b.drop_front();
  }
  size_t tail = 0;
  while (tail < a.size() && tail < b.size() && a[a.size() - 1 - tail] == b[b.size() - 1 - tail])
    ++tail;
  size_t endA = aBase + a.size(), endB = bBase + b.size();
  a = a.drop_back(tail);
  b = b.drop_back(tail);
  if (!a.empty() && !b.empty() && !myers(a, b, maxEdits, aBase, bBase, pairs)) {
    constexpr unsigned deepest = 12;
    size_t atA = 0, atB = 0;
    if (depth < deepest && splitPoint(a, b, atA, atB)) {
      align(a.take_front(atA), b.take_front(atB), maxEdits, aBase, bBase, depth + 1, pairs);
      align(a.drop_front(atA), b.drop_front(atB), maxEdits, aBase + atA, bBase + atB, depth + 1, pairs);
    }
  }
  for (; tail; --tail)
    pairs.emplace_back(endA - tail, endB - tail);
}

} // namespace

std::vector<std::pair<size_t, size_t>> alignKeys(llvm::ArrayRef<uint64_t> a, llvm::ArrayRef<uint64_t> b,
                                                 size_t maxEdits) {
  Pairs pairs;
  align(a, b, std::max<size_t>(1, maxEdits), 0, 0, 0, pairs);
  return pairs;
}

} // namespace tapeback
