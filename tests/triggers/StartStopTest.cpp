// Start and stop conditions: what they match, and above all what they do not.
#include "triggers/StartStop.h"
#include "format/Failure.h"
#include <doctest/doctest.h>

using namespace tapeback;

namespace {

Description describe() {
  llvm::Expected<Description> parsed =
      parseDescription("tapeback-description: 1\n"
                       "name: d\n"
                       "version: \"1\"\n"
                       "spaces: [bar0, bar2]\n"
                       "registers:\n"
                       "  - {name: CMD, space: bar0, offset: 0x98, width: 8}\n"
                       "  - {name: STATUS, space: bar2, offset: 0x98, width: 4}\n",
                       "d.yaml");
  REQUIRE(bool(parsed));
  return *parsed;
}

StartStopCondition parse(llvm::StringRef text) {
  static const Description description = describe();
  llvm::Expected<StartStopCondition> parsed =
      StartStopCondition::parse(text, "--start", {nullptr, &description});
  REQUIRE_MESSAGE(bool(parsed), text.str());
  return *parsed;
}

std::string codeOf(llvm::StringRef text) {
  static const Description description = describe();
  llvm::Expected<StartStopCondition> parsed =
      StartStopCondition::parse(text, "--start", {nullptr, &description});
  if (parsed)
    return "";
  Failure failure = toFailure(parsed.takeError());
  CHECK(!failure.hint.empty());
  return failure.code;
}

Packet write(uint64_t address, unsigned width, uint64_t value, uint16_t device = 1) {
  Packet packet;
  packet.kind = PacketKind::RegisterWrite;
  packet.address = address;
  packet.width = uint8_t(width);
  packet.value = value;
  packet.device = device;
  return packet;
}
Packet marker() {
  Packet packet;
  packet.kind = PacketKind::Marker;
  return packet;
}

} // namespace

TEST_CASE("begin matches at once") {
  StartStopCondition condition = parse("begin");
  CHECK(condition.isBegin());
  CHECK(condition.matches(write(0, 4, 0), "bar0", ""));
}

TEST_CASE("a marker matches by its whole name, at its first or the given occurrence, once") {
  StartStopCondition first = parse("marker:op"), third = parse("marker:op#3"), odd = parse("marker:a#b");
  CHECK(!first.matches(marker(), "", "o"));
  CHECK(!first.matches(marker(), "", "op2"));
  CHECK(!first.matches(write(0, 4, 0), "bar0", "op"));
  CHECK(first.matches(marker(), "", "op"));
  CHECK(!first.matches(marker(), "", "op"));
  CHECK(!third.matches(marker(), "", "op"));
  CHECK(!third.matches(marker(), "", "op"));
  CHECK(third.matches(marker(), "", "op"));
  CHECK(odd.matches(marker(), "", "a#b"));
}

TEST_CASE("a register write matches by place and value") {
  StartStopCondition any = parse("write:CMD"), one = parse("write:CMD=1"),
                     masked = parse("write:CMD=0x1/0x3");
  CHECK(any.matches(write(0x98, 8, 77), "bar0", ""));
  CHECK(any.matches(write(0x9c, 4, 0), "bar0", "")); // Its upper half.
  CHECK(!any.matches(write(0x98, 4, 0), "bar2", ""));
  CHECK(!any.matches(write(0xa0, 4, 0), "bar0", ""));
  CHECK(!any.matches(write(0x94, 4, 0), "bar0", ""));
  CHECK(!any.matches(write(0x98, 8, 0, 0), "bar0", "")); // Another device.
  Packet read = write(0x98, 8, 1);
  read.kind = PacketKind::RegisterRead;
  CHECK(!any.matches(read, "bar0", ""));
  CHECK(one.matches(write(0x98, 8, 1), "bar0", ""));
  CHECK(!one.matches(write(0x98, 8, 3), "bar0", ""));
  CHECK(!one.matches(write(0x98, 4, 1), "bar0", "")); // Half of what it says.
  CHECK(masked.matches(write(0x98, 4, 5), "bar0", ""));
  CHECK(masked.matches(write(0x98, 8, 0xf1), "bar0", ""));
  CHECK(!masked.matches(write(0x98, 8, 3), "bar0", ""));
  CHECK(!masked.matches(write(0x9c, 4, 1), "bar0", ""));                // The mask is not in that half.
  CHECK(masked.matches(write(0x94, 8, uint64_t(1) << 32), "bar0", "")); // An access that begins before it.
}

TEST_CASE("a place without a description") {
  StartStopCondition any = parse("write:bar0+0x10"), value = parse("write:bar0+0x10=0x55/0xff");
  CHECK(any.matches(write(0x10, 4, 0, 0), "bar0", ""));
  CHECK(any.matches(write(0x10, 1, 0, 5), "bar0", ""));
  CHECK(!any.matches(write(0x10, 4, 0), "bar1", ""));
  CHECK(value.matches(write(0x10, 4, 0x1255), "bar0", ""));
  CHECK(!value.matches(write(0x10, 4, 0x1256), "bar0", ""));
}

TEST_CASE("what is no condition is refused, with a hint") {
  for (const char *text : {"", "begins", "marker", "marker:", "marker:a#0", "write", "write:+4",
                           "write:bar0+x", "write:CMD=", "write:CMD=x", "write:CMD=1/", "write:CMD=1/y",
                           "write:CMD=4/3", "write:STATUS=0x100000000", "write:CMD=010", "read:CMD"})
    CHECK_MESSAGE(codeOf(text) == "bad-condition", text);
  CHECK(codeOf("write:CMDD") == "unknown-register");
  CHECK(codeOf("write:") == "unknown-register");
  llvm::Expected<StartStopCondition> unknown = StartStopCondition::parse("write:CND", "--start", {});
  REQUIRE(!unknown);
  CHECK(toFailure(unknown.takeError()).hint.find("no description") != std::string::npos);
}
