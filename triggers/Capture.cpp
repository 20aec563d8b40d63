#include "triggers/Capture.h"

using namespace llvm;

namespace tapeback::triggers {
namespace {

/// One direction: goes packet by packet away from the point while the amount lasts.
struct Walk {
  CaptureHistory &history;
  uint64_t time;
  CaptureAmount amount;
  bool forward;

  struct Result {
    uint64_t edge = 0, count = 0;
    bool isShort = false;
  };

  Expected<Result> run(uint64_t point) {
    Result result;
    result.edge = point;
    uint64_t limit = 0;
    if (amount.unit == CaptureUnit::Windows) {
      Expected<uint64_t> edge = windowEdge(point, result.isShort);
      if (!edge)
        return edge.takeError();
      limit = *edge;
    }
    uint64_t used = 0;
    for (uint64_t at = point;;) {
      bool atEnd = forward ? at + 1 >= history.end() : at <= history.first();
      if (amount.unit == CaptureUnit::Windows && at == limit)
        return result;
      if (amount.unit == CaptureUnit::Packets && result.count == amount.amount)
        return result;
      if (atEnd) {
        result.isShort |= amount.unit != CaptureUnit::Windows && amount.amount > 0;
        return result;
      }
      at = forward ? at + 1 : at - 1;
      Expected<CaptureHistory::Facts> facts = history.facts(at);
      if (!facts)
        return facts.takeError();
      if (amount.unit == CaptureUnit::Nanoseconds &&
          (forward ? facts->time > time && facts->time - time > amount.amount
                   : facts->time < time && time - facts->time > amount.amount))
        return result;
      if (facts->kept && amount.unit == CaptureUnit::Bytes) {
        if (facts->bytes > amount.amount - used)
          return result;
        used += facts->bytes;
      }
      if (facts->kept) {
        ++result.count;
        result.edge = at;
      }
    }
  }

  Expected<uint64_t> windowEdge(uint64_t point, bool &isShort) {
    uint64_t at = point;
    for (uint64_t n = 0;; ++n) {
      Expected<CaptureHistory::Window> window = history.windowOf(at);
      if (!window)
        return window.takeError();
      uint64_t edge = forward ? window->end - 1 : window->first;
      bool last = forward ? edge + 1 >= history.end() : edge <= history.first();
      if (n == amount.amount || last) {
        isShort = n < amount.amount;
        return forward ? std::min(edge, history.end() - 1) : std::max(edge, history.first());
      }
      at = forward ? edge + 1 : edge - 1;
    }
  }
};

} // namespace

Expected<CaptureExtent> resolveCapture(CaptureHistory &history, uint64_t point, uint64_t time,
                                       CaptureAmount pre, CaptureAmount post) {
  CaptureExtent extent;
  Expected<Walk::Result> before = Walk{history, time, pre, false}.run(point);
  if (!before)
    return before.takeError();
  Expected<Walk::Result> behind = Walk{history, time, post, true}.run(point);
  if (!behind)
    return behind.takeError();
  extent.first = before->edge;
  extent.pre = before->count;
  extent.preShort = before->isShort;
  extent.last = behind->edge;
  extent.post = behind->count;
  extent.postShort = behind->isShort;
  return extent;
}

} // namespace tapeback::triggers
