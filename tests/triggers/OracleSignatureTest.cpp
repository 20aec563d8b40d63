// Signatures: two failures that are the same must give the same one, others must not.
#include "triggers/OracleSignature.h"
#include <csignal>
#include <doctest/doctest.h>

using namespace tapeback;

namespace {

Description describe() {
  llvm::Expected<Description> parsed = parseDescription("tapeback-description: 1\n"
                                                        "name: d\n"
                                                        "version: \"1\"\n"
                                                        "spaces: [bar0]\n"
                                                        "registers:\n"
                                                        "  - name: STATUS\n"
                                                        "    space: bar0\n"
                                                        "    offset: 0x20\n"
                                                        "    width: 8\n"
                                                        "    fields:\n"
                                                        "      - {name: LOW, bits: 0}\n"
                                                        "      - {name: HIGH, bits: '47:40'}\n",
                                                        "d.yaml");
  REQUIRE(bool(parsed));
  return *parsed;
}

Packet read(uint64_t address, uint8_t width) {
  Packet packet;
  packet.kind = PacketKind::RegisterRead;
  packet.address = address;
  packet.width = width;
  return packet;
}

Signature check(uint64_t expected, uint64_t actual, const Packet *source, const Description *description) {
  Packet oracle;
  oracle.kind = PacketKind::Oracle;
  oracle.value = actual;
  PacketExtra extra;
  extra.expected = expected;
  extra.mask = ~uint64_t(0);
  return checkSignature(oracle, extra, "name", source, "bar0", description, {"op", 3, 7});
}

} // namespace

TEST_CASE("a value's check names register, field, byte and difference") {
  Description description = describe();
  Packet source = read(0x20, 8);
  Signature signature = check(0x0, 0x30000000000, &source, &description);
  CHECK(signature.oracle == "check");
  CHECK(signature.name == "name");
  CHECK(signature.object == "STATUS");
  CHECK(signature.field == "HIGH");
  CHECK(signature.offset == 5);
  CHECK(signature.xorClass == 0x30000000000);
  CHECK(signature.marker == "op");
  CHECK(signature.markerOccurrence == 3);
  CHECK(signature.command == 7);
  // Half of the register, read as 32 bits: the same field.
  Packet half = read(0x24, 4);
  CHECK(check(0, 0x300, &half, &description).field == "HIGH");
  // Without a description, or outside it: by address.
  CHECK(check(0, 1, &source, nullptr).object == "bar0+0x20");
  Packet outside = read(0x40, 4);
  CHECK(check(0, 1, &outside, &description).object == "bar0+0x40");
  CHECK(check(0, 1, nullptr, &description).object.empty());
}

TEST_CASE("signatures differ by place and by kind of difference") {
  Description description = describe();
  Packet source = read(0x20, 8);
  Signature a = check(0, 1, &source, &description);
  CHECK(matchSignatures(a, check(0, 1, &source, &description)) == SignatureMatch::Exact);
  CHECK(matchSignatures(a, check(0, 0x30000000000, &source, &description)) != SignatureMatch::Exact);
  CHECK(matchSignatures(a, diedSignature(SIGSEGV, 0, {})) == SignatureMatch::None);
}

TEST_CASE("a memory check names the offset and the difference of its first wrong byte, never the address") {
  Packet oracle;
  oracle.kind = PacketKind::Oracle;
  oracle.address = 0x12345;
  oracle.value = 0xf0;
  PacketExtra extra;
  extra.length = 100;
  extra.count = 42;
  extra.expected = 0x0f;
  extra.mask = 0xff;
  Signature signature = checkSignature(oracle, extra, "content", nullptr, "", nullptr, {});
  CHECK(signature.object == "memory");
  CHECK(signature.offset == 42);
  CHECK(signature.xorClass == 0xff);
}

TEST_CASE("a bare check has a name only; a target's failure its operation; a death its signal or code") {
  Packet oracle;
  oracle.kind = PacketKind::Oracle;
  Signature bare = checkSignature(oracle, {}, "gave-up", nullptr, "", nullptr, {});
  CHECK(bare.name == "gave-up");
  CHECK(!bare.offset);
  CHECK(!bare.xorClass);
  Signature failed = targetErrorSignature(read(0x20, 4), "bar0", nullptr, {});
  CHECK(failed.oracle == "target-error");
  CHECK(failed.name == "register-read");
  CHECK(failed.object == "bar0+0x20");
  CHECK(diedSignature(SIGSEGV, 0, {}).name == "SIGSEGV");
  CHECK(diedSignature(0, 3, {}).name == "exit-3");
  CHECK(diedSignature(SIGKILL, 0, {}).oracle == "died");
  CHECK(diedSignature(4711, 0, {}).name == "signal-4711");
}
