// Exit codes and the contract's JSON objects.
#include "tools/Report.h"
#include "llvm/Support/JSON.h"
#include <doctest/doctest.h>

using namespace llvm;
using namespace tapeback;

namespace {

/// What `write` puts into an object, as text.
std::string object(function_ref<void(json::OStream &)> write) {
  std::string text;
  raw_string_ostream os(text);
  json::OStream stream(os);
  stream.object([&] { write(stream); });
  stream.flush();
  return text;
}

} // namespace

TEST_CASE("of two exit codes the contract's order decides") {
  const int order[] = {2, 3, 4, 1, 5, 0};
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j) {
      CAPTURE(order[i]);
      CAPTURE(order[j]);
      CHECK(worseExit(order[i], order[j]) == order[std::min(i, j)]);
    }
}

TEST_CASE("each class of failure has its exit code") {
  auto code = [](FailureClass cls) { return exitCodeOf(Failure(cls, "x", "y")); };
  CHECK(code(FailureClass::Usage) == 2);
  CHECK(code(FailureClass::Tape) == 3);
  CHECK(code(FailureClass::Target) == 4);
  CHECK(code(FailureClass::Loss) == 5);
  CHECK(code(FailureClass::System) == 5);
}

TEST_CASE("64-bit values are hexadecimal strings, all of their digits") {
  CHECK(hex(0) == "0x0");
  CHECK(hex(0xfebf0000) == "0xfebf0000");
  CHECK(hex(~uint64_t(0)) == "0xffffffffffffffff");
}

TEST_CASE("a place has every key, with null for what is not known") {
  Place place;
  place.device = 1;
  place.thread = 2;
  place.window = 3;
  place.packet = ~uint64_t(0) >> 1;
  CHECK(object([&](json::OStream &os) { writePlace(os, place); }) ==
        R"({"device":1,"thread":2,"window":3,"packet":9223372036854775807,"marker":null,"command":null})");
  place.marker = "m\xff\"";
  place.command = 7;
  CHECK(object([&](json::OStream &os) { writePlace(os, place); }) ==
        "{\"device\":1,\"thread\":2,\"window\":3,\"packet\":9223372036854775807,"
        "\"marker\":\"m\xef\xbf\xbd\\\"\",\"command\":7}");
}

TEST_CASE("a divergence is a place and what differs, under the names of the verb") {
  CHECK(object([](json::OStream &os) { writeDivergence(os, "first_divergence", std::nullopt); }) ==
        R"({"first_divergence":null})");
  DivergenceReport divergence;
  divergence.kind = "register-read";
  divergence.space = "bar0";
  divergence.address = 0x20;
  divergence.reg = "STATUS";
  divergence.first = 0x80;
  divergence.second = ~uint64_t(0);
  std::string text =
      object([&](json::OStream &os) { writeDivergence(os, "first_divergence", divergence, "good", "bad"); });
  CHECK(text ==
        R"({"first_divergence":{"device":0,"thread":0,"window":0,"packet":0,"marker":null,"command":null,)"
        R"("kind":"register-read","space":"bar0","address":"0x20","register":"STATUS","field":null,)"
        R"("offset":null,"good":"0x80","bad":"0xffffffffffffffff"}})");
}

TEST_CASE("a signature is written whole, or as null") {
  CHECK(object([](json::OStream &os) { writeSignature(os, "signature", std::nullopt); }) ==
        R"({"signature":null})");
  Signature signature;
  signature.oracle = "check";
  signature.name = "dma";
  signature.offset = 5;
  signature.xorClass = 0x40;
  signature.marker = "op";
  signature.markerOccurrence = 2;
  signature.command = 1;
  CHECK(object([&](json::OStream &os) { writeSignature(os, "signature", signature); }) ==
        R"({"signature":{"oracle":"check","name":"dma","object":"","field":"","offset":5,"xor":"0x40",)"
        R"("marker":"op","occurrence":2,"command":1}})");
}
