// Which interrupts a replay may do without, because it has had them already.
//
// A program waits for the cause of an interrupt; how many messages tell of it is a matter of speed. On a
// faster target several causes may have come before the first is waited for.
#pragma once

#include <cstdint>
#include <map>

namespace tapeback {

/// One device. Pure. Vectors are the tape's word: at most 4,096 are followed.
class InterruptFollower {
public:
  /// A wait was answered with `count` messages, where the tape has `recorded`.
  void taken(uint64_t vector, uint64_t count, uint64_t recorded) {
    inUse = true;
    if (count > recorded && (early.size() < 4096 || early.count(vector)))
      early[vector] += count - recorded;
  }
  bool isEarly(uint64_t vector) const { return early.count(vector); }
  /// Uses one up.
  void takeEarly(uint64_t vector) {
    auto found = early.find(vector);
    if (found != early.end() && !--found->second)
      early.erase(found);
  }

  /// Interrupts are waited for on this device.
  bool isInUse() const { return inUse; }
  /// When an interrupt was taken, or its cause acknowledged, all that had been handed over was done, and
  /// nothing was handed over since: every cause there could be has been seen.
  bool sawAllDone() const { return allDone; }
  void noteAllDone(bool done) { allDone = done; }
  void handedOver() { allDone = false; }
  void reset() { *this = {}; }

private:
  std::map<uint64_t, uint64_t> early; ///< By vector; no zeroes.
  bool inUse = false, allDone = false;
};

} // namespace tapeback
