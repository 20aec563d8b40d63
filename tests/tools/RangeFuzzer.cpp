// Ranges come from command lines and from campaign files. Any text: no crash, and what is understood means
// the same when it is written down in full and read again.
#include "format/Failure.h"
#include "tools/Range.h"
#include <cstdlib>

using namespace llvm;
using namespace tapeback;

namespace {

std::string inFull(const RangePoint &point) {
  switch (point.kind) {
  case RangePoint::Kind::Start: return "start";
  case RangePoint::Kind::End: return "end";
  case RangePoint::Kind::Packet: return "p" + std::to_string(point.number);
  case RangePoint::Kind::Window: return "w" + std::to_string(point.number);
  case RangePoint::Kind::Marker: break;
  }
  std::string text = "@\"";
  for (char c : point.name)
    text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return text + "\"#" + std::to_string(point.number);
}

void require(bool holds) {
  if (!holds)
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StringRef text(reinterpret_cast<const char *>(data), size);
  Expected<RangeExpression> range = parseRange(text);
  if (!range) {
    Failure failure = toFailure(range.takeError());
    require(failure.cls == FailureClass::Usage && !failure.hint.empty());
    return 0;
  }
  for (const RangePoint *point : {&range->first, &range->last})
    require(point->kind != RangePoint::Kind::Marker || (!point->name.empty() && point->number > 0));
  Expected<RangeExpression> again = parseRange(inFull(range->first) + ".." + inFull(range->last));
  require(bool(again));
  require(*again == *range);
  return 0;
}
