// Which packets a capture around a trigger point has: exactly the asked amount, or the word that there were
// not so many.
#pragma once

#include "triggers/Evaluator.h"
#include "llvm/Support/Error.h"
#include <string>

namespace tapeback::triggers {

/// What resolveCapture() needs to know of the packets of a stream. Packets count from first() to last().
class CaptureHistory {
public:
  virtual ~CaptureHistory() = default;
  struct Facts {
    uint64_t time = 0;  ///< Nanoseconds of issue, never going backwards.
    uint64_t bytes = 0; ///< packetBytes + its payload's.
    bool kept = true;   ///< By the trigger's `keep`.
  };
  static constexpr uint64_t packetBytes = 48;
  virtual uint64_t first() const = 0; ///< The oldest packet that can still be had.
  virtual uint64_t end() const = 0;   ///< Behind the newest.
  virtual llvm::Expected<Facts> facts(uint64_t packet) = 0;
  struct Window {
    uint64_t first = 0, end = 0;
  };
  virtual llvm::Expected<Window> windowOf(uint64_t packet) = 0;
};

struct CaptureExtent {
  uint64_t first = 0, last = 0; ///< Both included; the trigger point lies in between.
  uint64_t pre = 0, post = 0;   ///< Kept packets before and behind the trigger point.
  bool preShort = false;        ///< The history began before the asked amount was reached.
  bool postShort = false;       ///< The stream ended before.
};

/// How far a capture reaches behind its trigger point, found packet by packet as they come.
class PostWalk {
public:
  /// Behind packet `point`, fired at `time`.
  PostWalk(uint64_t point, uint64_t time, CaptureAmount amount) : time(time), amount(amount), edge(point) {}

  /// True when no further packet can be part of it.
  bool complete() const { return done || (amount.unit == CaptureUnit::Packets && taken == amount.amount); }
  /// The next packet, in order. `startsWindow`: it is the first of its window. Call unless complete().
  void next(uint64_t packet, const CaptureHistory::Facts &facts, bool startsWindow);
  /// The stream has ended: whether it ended before the asked amount was reached.
  bool shortAtEnd() const {
    return !complete() && (amount.unit == CaptureUnit::Windows ? windows < amount.amount : amount.amount > 0);
  }

  uint64_t last() const { return edge; }
  uint64_t count() const { return taken; } ///< Kept packets behind the point.

private:
  uint64_t time;
  CaptureAmount amount;
  uint64_t edge, taken = 0, used = 0, windows = 0;
  bool done = false;
};

/// The part before the point.
struct PreExtent {
  uint64_t first = 0, count = 0;
  bool isShort = false;
};
llvm::Expected<PreExtent> resolvePre(CaptureHistory &history, uint64_t point, uint64_t time,
                                     CaptureAmount pre);

/// "200 packets", "5 ms".
std::string amountText(const CaptureAmount &amount);

/// Around packet `point` (which is always part of it), fired at `time`. Packets that are not kept lie between
/// but do not count. Units: N packets before and behind; all packets issued within the time; the windows of
/// the point and N more; as many packets as fit into N bytes.
llvm::Expected<CaptureExtent> resolveCapture(CaptureHistory &history, uint64_t point, uint64_t time,
                                             CaptureAmount pre, CaptureAmount post);

/// For the mark at a capture's trigger point: " (SHORT: 3 packets before instead of 100 packets)"; empty if
/// it has what was asked for.
std::string shortText(const CaptureExtent &extent, const CaptureAmount &pre, const CaptureAmount &post);
/// "asked for 200 packets before and 50 packets behind, has 180 and 50 packets: the history was shorter".
std::string extentText(const CaptureExtent &extent, const CaptureAmount &pre, const CaptureAmount &post);

} // namespace tapeback::triggers
