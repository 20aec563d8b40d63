#include "triggers/Capture.h"

using namespace llvm;

namespace tapeback::triggers {

void PostWalk::next(uint64_t packet, const CaptureHistory::Facts &facts, bool startsWindow) {
  switch (amount.unit) {
  case CaptureUnit::Windows:
    windows += startsWindow;
    done = windows > amount.amount;
    break;
  case CaptureUnit::Nanoseconds: done = facts.time > time && facts.time - time > amount.amount; break;
  case CaptureUnit::Bytes:
    if (!facts.kept)
      break;
    done = facts.bytes > amount.amount - used;
    used += done ? 0 : facts.bytes;
    break;
  case CaptureUnit::Packets: break;
  }
  if (done || !facts.kept)
    return;
  ++taken;
  edge = packet;
}

/// The first packet of the window so many windows before that of the point.
static Expected<uint64_t> firstOfWindows(CaptureHistory &history, uint64_t point, uint64_t amount,
                                         bool &isShort) {
  uint64_t at = point;
  for (uint64_t n = 0;; ++n) {
    Expected<CaptureHistory::Window> window = history.windowOf(at);
    if (!window)
      return window.takeError();
    bool last = window->first <= history.first();
    if (n == amount || last) {
      isShort = n < amount || window->first < history.first();
      return std::max(window->first, history.first());
    }
    at = window->first - 1;
  }
}

Expected<PreExtent> resolvePre(CaptureHistory &history, uint64_t point, uint64_t time, CaptureAmount amount) {
  PreExtent result;
  result.first = point;
  uint64_t limit = 0, used = 0;
  if (amount.unit == CaptureUnit::Windows) {
    Expected<uint64_t> edge = firstOfWindows(history, point, amount.amount, result.isShort);
    if (!edge)
      return edge.takeError();
    limit = *edge;
  }
  for (uint64_t at = point;;) {
    if (amount.unit == CaptureUnit::Windows
            ? at == limit
            : amount.unit == CaptureUnit::Packets && result.count == amount.amount)
      return result;
    if (at <= history.first()) {
      result.isShort = amount.amount > 0;
      return result;
    }
    Expected<CaptureHistory::Facts> facts = history.facts(--at);
    if (!facts)
      return facts.takeError();
    if (amount.unit == CaptureUnit::Nanoseconds && facts->time < time && time - facts->time > amount.amount)
      return result;
    if (!facts->kept)
      continue;
    if (amount.unit == CaptureUnit::Bytes) {
      if (facts->bytes > amount.amount - used)
        return result;
      used += facts->bytes;
    }
    ++result.count;
    result.first = at;
  }
}

Expected<CaptureExtent> resolveCapture(CaptureHistory &history, uint64_t point, uint64_t time,
                                       CaptureAmount pre, CaptureAmount post) {
  Expected<PreExtent> before = resolvePre(history, point, time, pre);
  if (!before)
    return before.takeError();
  CaptureExtent extent;
  extent.first = before->first;
  extent.pre = before->count;
  extent.preShort = before->isShort;
  PostWalk behind(point, time, post);
  for (uint64_t at = point + 1; at < history.end() && !behind.complete(); ++at) {
    Expected<CaptureHistory::Facts> facts = history.facts(at);
    if (!facts)
      return facts.takeError();
    bool starts = false;
    if (post.unit == CaptureUnit::Windows) {
      Expected<CaptureHistory::Window> window = history.windowOf(at);
      if (!window)
        return window.takeError();
      starts = window->first == at;
    }
    behind.next(at, *facts, starts);
  }
  extent.last = behind.last();
  extent.post = behind.count();
  extent.postShort = behind.shortAtEnd();
  return extent;
}

std::string amountText(const CaptureAmount &amount) {
  static constexpr const char *units[] = {" packets", " ns", " windows", " bytes"};
  if (amount.unit != CaptureUnit::Nanoseconds)
    return std::to_string(amount.amount) + units[unsigned(amount.unit)];
  static constexpr std::pair<uint64_t, const char *> times[] = {
      {1'000'000'000, " s"}, {1'000'000, " ms"}, {1000, " us"}};
  for (const auto &[size, name] : times)
    if (amount.amount && amount.amount % size == 0)
      return std::to_string(amount.amount / size) + name;
  return std::to_string(amount.amount) + " ns";
}

std::string shortText(const CaptureExtent &extent, const CaptureAmount &pre, const CaptureAmount &post) {
  if (!extent.preShort && !extent.postShort)
    return {};
  std::string text = " (SHORT: ";
  if (extent.preShort)
    text += std::to_string(extent.pre) + " packets before instead of " + amountText(pre);
  if (extent.postShort)
    text += (extent.preShort ? ", " : "") + std::to_string(extent.post) + " packets behind instead of " +
            amountText(post);
  return text + ")";
}

std::string extentText(const CaptureExtent &extent, const CaptureAmount &pre, const CaptureAmount &post) {
  std::string text = "asked for " + amountText(pre) + " before and " + amountText(post) + " behind, has " +
                     std::to_string(extent.pre) + " and " + std::to_string(extent.post) + " packets";
  if (extent.preShort)
    text += ": SHORT, there was no more history";
  if (extent.postShort)
    text += extent.preShort ? ", and the recording ended before" : ": SHORT, the recording ended before";
  return text;
}

} // namespace tapeback::triggers
