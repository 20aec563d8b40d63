// The range grammar, and what it means on a tape.
#include "tools/Range.h"
#include "tests/tools/FakeReader.h"
#include "llvm/ADT/StringExtras.h"
#include <doctest/doctest.h>

using namespace llvm;
using namespace tapeback;
using namespace tapeback::test;

namespace {

using Kind = RangePoint::Kind;

/// Packets:  0 1 2 | 3=load 4 5 | 6=run 7 8 9 | 10=run 11 | 12=a..b#"\ 13 | 14 15
/// Windows:    0        1            2             3              4          5
FakeReader ranged() {
  FakeReader tape;
  tape.ticks(3);
  tape.marker("load");
  tape.ticks(2);
  tape.marker("run");
  tape.ticks(3);
  tape.marker("run");
  tape.ticks(1);
  tape.marker("a..b#\"\\");
  tape.ticks(1);
  tape.startWindow();
  tape.ticks(2);
  return tape;
}

/// "first+count" in packets, "/first+count" in windows; or "code: message | hint".
std::string resolve(StringRef text, FakeReader &tape) {
  Expected<TapeRange> range = resolveRange(text, tape);
  if (!range) {
    Failure failure = toFailure(range.takeError());
    CHECK(failure.cls == FailureClass::Usage);
    CHECK(!failure.hint.empty());
    return failure.code + ": " + failure.message + " | " + failure.hint;
  }
  return std::to_string(range->firstPacket) + "+" + std::to_string(range->packetCount) + "/" +
         std::to_string(range->firstWindow) + "+" + std::to_string(range->windowCount);
}

std::string resolve(StringRef text) {
  FakeReader tape = ranged();
  return resolve(text, tape);
}

} // namespace

TEST_CASE("a range is parsed as written") {
  auto parsed = [](StringRef text) {
    Expected<RangeExpression> range = parseRange(text);
    if (!range)
      FAIL(toFailure(range.takeError()).message);
    return *range;
  };
  CHECK(parsed("w120") == RangeExpression{{Kind::Window, 120, ""}, {Kind::Window, 120, ""}});
  CHECK(parsed("w100..w140") == RangeExpression{{Kind::Window, 100, ""}, {Kind::Window, 140, ""}});
  CHECK(parsed("p5000..end") == RangeExpression{{Kind::Packet, 5000, ""}, {Kind::End, 0, ""}});
  CHECK(parsed("start..p0x10") == RangeExpression{{Kind::Start, 0, ""}, {Kind::Packet, 16, ""}});
  CHECK(parsed("p1_000") == RangeExpression{{Kind::Packet, 1000, ""}, {Kind::Packet, 1000, ""}});
  CHECK(parsed("@m") == RangeExpression{{Kind::Marker, 1, "m"}, {Kind::Marker, 1, "m"}});
  CHECK(parsed("@m#3..@n") == RangeExpression{{Kind::Marker, 3, "m"}, {Kind::Marker, 1, "n"}});
  CHECK(parsed("@w5..p7") == RangeExpression{{Kind::Marker, 1, "w5"}, {Kind::Packet, 7, ""}});
  CHECK(parsed(R"(@"a..b#\"\\"#2)") ==
        RangeExpression{{Kind::Marker, 2, "a..b#\"\\"}, {Kind::Marker, 2, "a..b#\"\\"}});
  CHECK(parsed("@two words") ==
        RangeExpression{{Kind::Marker, 1, "two words"}, {Kind::Marker, 1, "two words"}});
}

TEST_CASE("a range that is none is refused, with the column and the grammar") {
  for (StringRef text : {"",      "x",        "5",       "w",       "p",
                         "w-1",   "w1..",     "..w1",    "w1...w2", "w1..w2..w3",
                         "w010",  "w1 ",      " w1",     "@",       "@#1",
                         "@m#",   "@m#0",     "@m#x",    "@\"open", "@\"a\"b",
                         "@\"\"", "@\"\\n\"", "endless", "end5",    "w99999999999999999999",
                         "w1,w2", "w1..@",    "start..", "W1"}) {
    CAPTURE(text.str());
    Expected<RangeExpression> range = parseRange(text);
    REQUIRE(!range);
    Failure failure = toFailure(range.takeError());
    CHECK(failure.cls == FailureClass::Usage);
    CHECK(failure.code == "bad-range");
    CHECK(StringRef(failure.where).contains("column"));
    CHECK(StringRef(failure.hint).contains("w100..w140"));
  }
  // The column is the one at which it went wrong.
  Expected<RangeExpression> range = parseRange("w1..q2");
  CHECK(toFailure(range.takeError()).where == "range, column 5");
}

TEST_CASE("ends are included, whatever they are") {
  CHECK(resolve("w0") == "0+3/0+1");
  CHECK(resolve("w1") == "3+3/1+1");
  CHECK(resolve("w1..w2") == "3+7/1+2");
  CHECK(resolve("p4") == "4+1/1+1");
  CHECK(resolve("p2..p3") == "2+2/0+2");
  CHECK(resolve("p13..end") == "13+3/4+2");
  CHECK(resolve("start..end") == "0+16/0+6");
  CHECK(resolve("start") == "0+1/0+1");
  CHECK(resolve("end") == "15+1/5+1");
  CHECK(resolve("w1..p4") == "3+2/1+1");
  // Overlapping points of different kinds: the end counts.
  CHECK(resolve("p4..w1") == "4+2/1+1");
}

TEST_CASE("a marker reaches up to the next marker of any name") {
  CHECK(resolve("@load") == "3+3/1+1");
  CHECK(resolve("@run") == "6+4/2+1");
  CHECK(resolve("@run#1") == "6+4/2+1");
  CHECK(resolve("@run#2") == "10+2/3+1");
  CHECK(resolve("@load..@run#2") == "3+9/1+3");
  CHECK(resolve("@\"a..b#\\\"\\\\\"") == "12+4/4+2"); // The last one reaches to the end.
  CHECK(resolve("@run..@run") == "6+4/2+1");
  CHECK(resolve("@run#2..end") == "10+6/3+3");
}

TEST_CASE("places that are not on the tape are refused and the hint says what is") {
  CHECK(resolve("w6") == "no-such-window: there is no window 6 on this tape | the last one is 5");
  CHECK(resolve("p16..end") == "no-such-packet: there is no packet 16 on this tape | the last one is 15");
  CHECK(resolve("w18446744073709551615") ==
        "no-such-window: there is no window 18446744073709551615 on this tape | the last one is 5");
  CHECK(resolve("@run#3") ==
        "no-such-marker: there is no marker 'run' number 3 on this tape | it has 2 of that name");
  CHECK(resolve("@laod") == "no-such-marker: there is no marker 'laod' on this tape | did you mean '@load'?");
  CHECK(StringRef(resolve("@entirely-different")).contains("the tape has a..b"));
  CHECK(StringRef(resolve("w2..w1"))
            .starts_with("backward-range: the range ends (packet 5) before it starts (packet 6)"));
  FakeReader empty;
  CHECK(StringRef(resolve("start..end", empty)).starts_with("empty-tape"));
  CHECK(StringRef(resolve("w0", empty)).starts_with("empty-tape"));
  FakeReader plain;
  plain.ticks(3);
  CHECK(StringRef(resolve("@x", plain)).contains("the tape has no markers"));
}

TEST_CASE("a damaged tape is a damaged tape, not a missing marker") {
  FakeReader tape = ranged();
  tape.failReads = true;
  Expected<TapeRange> range = resolveRange("@run", tape);
  REQUIRE(!range);
  CHECK(toFailure(range.takeError()).cls == FailureClass::Tape);
  // Without markers nothing has to be read.
  CHECK(resolve("w1", tape) == "3+3/1+1");
  FakeReader missing = ranged();
  missing.blobs.clear();
  Expected<TapeRange> other = resolveRange("@run", missing);
  REQUIRE(!other);
  CHECK(toFailure(other.takeError()).cls == FailureClass::Tape);
}

TEST_CASE("any number of marker names is survived") {
  FakeReader tape;
  tape.blockPackets = 1000;
  for (int i = 0; i < 6000; ++i)
    tape.marker("m" + std::to_string(i));
  CHECK(resolve("@m5999", tape) == "5999+1/5999+1");
  CHECK(StringRef(resolve("@qqqqqqqqqq", tape)).contains("and many more"));
}
