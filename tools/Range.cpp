#include "tools/Range.h"
#include "format/Failure.h"
#include "format/Text.h"
#include "tools/CommandLine.h"
#include <algorithm>
#include <map>
#include <vector>

using namespace llvm;

namespace tapeback {
namespace {

constexpr const char *grammarHint = "ranges are w120, w100..w140, p5000..end, start..p99, @marker, "
                                    "@marker#3, @\"odd..name\"#2; see `tapeback dump --help`";

/// Walks over the text of a range once.
class RangeParser {
public:
  explicit RangeParser(StringRef text) : text(text) {}

  Expected<RangeExpression> parse() {
    RangeExpression range;
    if (Error error = point(range.first))
      return error;
    range.last = range.first;
    if (rest().consume_front("..")) {
      at += 2;
      range.last = {};
      if (Error error = point(range.last))
        return error;
    }
    if (at != text.size())
      return fail("'" + rest().str() + "' is left over");
    return range;
  }

private:
  StringRef rest() const { return text.substr(at); }

  Error fail(const std::string &what) const {
    return failUsage("bad-range", "the range '" + text.str() + "' is not understood: " + what,
                     "range, column " + std::to_string(at + 1), grammarHint);
  }

  Error point(RangePoint &point) {
    if (rest().empty())
      return fail("a place is missing");
    if (rest().starts_with("@")) {
      ++at;
      return marker(point);
    }
    StringRef word = rest().substr(0, rest().find(".."));
    if (word == "start" || word == "end") {
      point.kind = word == "start" ? RangePoint::Kind::Start : RangePoint::Kind::End;
      at += word.size();
      return Error::success();
    }
    if (!word.starts_with("w") && !word.starts_with("p"))
      return fail("a place starts with w, p or @, or is start or end");
    point.kind = word[0] == 'w' ? RangePoint::Kind::Window : RangePoint::Kind::Packet;
    ++at;
    return number(word.drop_front(), point.number);
  }

  Error number(StringRef word, uint64_t &value) {
    Expected<uint64_t> parsed = parseNumber(word);
    if (!parsed) {
      Failure failure = toFailure(parsed.takeError());
      return fail(failure.message);
    }
    value = *parsed;
    at += word.size();
    return Error::success();
  }

  Error marker(RangePoint &point) {
    point.kind = RangePoint::Kind::Marker;
    point.number = 1;
    if (rest().starts_with("\"")) {
      ++at;
      while (true) {
        if (rest().empty())
          return fail("the closing quote is missing");
        char c = text[at++];
        if (c == '"')
          break;
        if (c == '\\') {
          if (rest().empty() || (text[at] != '"' && text[at] != '\\'))
            return fail("\\ is followed by neither \" nor \\");
          c = text[at++];
        }
        point.name += c;
      }
    } else {
      StringRef word = rest().substr(0, rest().find(".."));
      point.name = word.substr(0, word.find('#')).str();
      at += point.name.size();
    }
    if (point.name.empty())
      return fail("the marker has no name");
    if (!rest().starts_with("#"))
      return Error::success();
    ++at;
    if (Error error = number(rest().substr(0, rest().find("..")), point.number))
      return error;
    return point.number ? Error::success() : fail("occurrences count from 1");
  }

  StringRef text;
  size_t at = 0;
};

/// First and last packet of a point.
struct Extent {
  uint64_t first = 0, last = 0;
};

/// Looks for the markers that a range names, in one pass over the tape.
class MarkerSearch {
public:
  explicit MarkerSearch(TapeReader &reader) : reader(reader) {}

  void want(const RangePoint &point) { wanted.push_back(&point); }

  Error run() {
    if (wanted.empty())
      return Error::success();
    PacketBatch batch;
    for (uint64_t next = 0;; next += batch.packets.size()) {
      if (Error error = reader.readBlockFrom(next, batch))
        return error;
      if (batch.packets.empty())
        break;
      for (size_t i = 0; i < batch.packets.size(); ++i)
        if (batch.packets[i].kind == PacketKind::Marker)
          if (Error error = marker(batch.firstOrdinal + i, batch.extra(batch.packets[i])))
            return error;
    }
    return Error::success();
  }

  Expected<Extent> extent(const RangePoint &point) const {
    auto it = std::find_if(found.begin(), found.end(), [&](const Found &f) { return *f.point == point; });
    if (it != found.end())
      return it->extent;
    std::string name = "'" + point.name + "'";
    auto seen = names.find(point.name);
    if (seen != names.end())
      return failUsage("no-such-marker",
                       "there is no marker " + name + " number " + std::to_string(point.number) +
                           " on this tape",
                       "range", "it has " + std::to_string(seen->second) + " of that name");
    std::vector<std::string> others;
    for (auto &[other, count] : names)
      others.push_back(other);
    std::string near = closest(point.name, others), hint;
    if (!near.empty())
      hint = "did you mean '@" + near + "'?";
    else if (others.empty())
      hint = "the tape has no markers: use windows (w0) or packets (p0)";
    else {
      hint = "the tape has";
      for (size_t i = 0; i < std::min<size_t>(others.size(), 10); ++i)
        hint += (i ? ", " : " ") + others[i];
      if (others.size() > 10)
        hint += " and " + (manyNames ? "many" : std::to_string(others.size() - 10)) + " more";
    }
    return failUsage("no-such-marker", "there is no marker " + name + " on this tape", "range", hint);
  }

private:
  struct Found {
    const RangePoint *point;
    Extent extent;
    bool open; ///< No marker has ended it yet.
  };

  /// Names kept for hints only; a hostile tape may have any number of them.
  static constexpr size_t maxNames = 4096;
  static constexpr size_t maxNameBytes = 4096;

  Error marker(uint64_t ordinal, const PacketExtra &extra) {
    for (Found &f : found)
      if (f.open) {
        f.extent.last = ordinal - 1;
        f.open = false;
      }
    if (!extra.payload || extra.length > maxNameBytes)
      return Error::success();
    Expected<ArrayRef<uint8_t>> content = reader.blob(extra.payload);
    if (!content)
      return content.takeError();
    std::string name(content->begin(), content->begin() + std::min(content->size(), maxNameBytes));
    bool isWanted =
        std::any_of(wanted.begin(), wanted.end(), [&](const RangePoint *w) { return w->name == name; });
    if (!isWanted && names.size() >= maxNames && !names.count(name)) {
      manyNames = true;
      return Error::success();
    }
    uint64_t occurrence = ++names[name];
    for (const RangePoint *point : wanted)
      if (point->name == name && point->number == occurrence)
        found.push_back({point, {ordinal, reader.summary().packets - 1}, true});
    return Error::success();
  }

  TapeReader &reader;
  std::vector<const RangePoint *> wanted;
  std::vector<Found> found;
  std::map<std::string, uint64_t> names; ///< With how often each came.
  bool manyNames = false;
};

Error pastEnd(const std::string &what, uint64_t number, uint64_t count) {
  return failUsage("no-such-" + what, "there is no " + what + " " + std::to_string(number) + " on this tape",
                   "range", count ? "the last one is " + std::to_string(count - 1) : "the tape is empty");
}

Expected<Extent> extentOf(const RangePoint &point, TapeReader &reader, const MarkerSearch &markers) {
  const TapeSummary &summary = reader.summary();
  switch (point.kind) {
  case RangePoint::Kind::Start: return Extent{0, 0};
  case RangePoint::Kind::End: return Extent{summary.packets - 1, summary.packets - 1};
  case RangePoint::Kind::Packet:
    if (point.number >= summary.packets)
      return pastEnd("packet", point.number, summary.packets);
    return Extent{point.number, point.number};
  case RangePoint::Kind::Window: {
    if (point.number >= summary.windows)
      return pastEnd("window", point.number, summary.windows);
    Expected<WindowInfo> window = reader.window(point.number);
    if (!window)
      return window.takeError();
    return Extent{window->firstPacket, window->firstPacket + std::max<uint64_t>(window->packetCount, 1) - 1};
  }
  case RangePoint::Kind::Marker: return markers.extent(point);
  }
  return failUsage("bad-range", "the range is not understood");
}

} // namespace

Expected<RangeExpression> parseRange(StringRef text) {
  return RangeParser(text).parse();
}

Expected<TapeRange> resolveRange(const RangeExpression &range, TapeReader &reader) {
  if (!reader.summary().packets)
    return failUsage("empty-tape", "the tape has no packets, so a range of it means nothing", "range",
                     "leave the range away");
  MarkerSearch markers(reader);
  for (const RangePoint *point : {&range.first, &range.last})
    if (point->kind == RangePoint::Kind::Marker)
      markers.want(*point);
  if (Error error = markers.run())
    return error;
  Expected<Extent> first = extentOf(range.first, reader, markers);
  if (!first)
    return first.takeError();
  Expected<Extent> last = extentOf(range.last, reader, markers);
  if (!last)
    return last.takeError();
  if (last->last < first->first)
    return failUsage("backward-range",
                     "the range ends (packet " + std::to_string(last->last) + ") before it starts (packet " +
                         std::to_string(first->first) + ")",
                     "range", "exchange its two ends");
  TapeRange result;
  result.firstPacket = first->first;
  result.packetCount = last->last - first->first + 1;
  Expected<uint64_t> firstWindow = reader.windowOfPacket(first->first);
  if (!firstWindow)
    return firstWindow.takeError();
  Expected<uint64_t> lastWindow = reader.windowOfPacket(last->last);
  if (!lastWindow)
    return lastWindow.takeError();
  result.firstWindow = *firstWindow;
  result.windowCount = *lastWindow - *firstWindow + 1;
  return result;
}

Expected<TapeRange> resolveRange(StringRef text, TapeReader &reader) {
  Expected<RangeExpression> range = parseRange(text);
  return range ? resolveRange(*range, reader) : range.takeError();
}

TapeRange wholeTape(TapeReader &reader) {
  return TapeRange{0, reader.summary().packets, 0, reader.summary().windows};
}

} // namespace tapeback
