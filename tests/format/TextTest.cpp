// The guarded way in for YAML and JSON: what is refused, with which words, and that nothing hostile gets
// further.
#include "format/Text.h"
#include "format/Failure.h"
#include <doctest/doctest.h>

using namespace tapeback;

namespace {

/// A value of every shape, to have something to map to.
struct Probe {
  std::vector<std::string> list;
  std::string word;
  int calls = 0;
};

} // namespace

template <>
struct llvm::yaml::MappingTraits<Probe> {
  static void mapping(IO &io, Probe &probe) {
    io.mapOptional("list", probe.list);
    io.mapOptional("word", probe.word);
  }
};

namespace {

/// Success, or the failure. `probe` has what was mapped.
std::optional<Failure> readYaml(llvm::StringRef text, Probe &probe, TextLimits limits = {}) {
  llvm::Error error = withYaml(
      text, "f.yaml", nullptr,
      [&](llvm::yaml::Input &input) {
        ++probe.calls;
        input >> probe;
      },
      limits);
  if (!error)
    return std::nullopt;
  return toFailure(std::move(error));
}

Failure refusedYaml(llvm::StringRef text, TextLimits limits = {}) {
  Probe probe;
  std::optional<Failure> failure = readYaml(text, probe, limits);
  REQUIRE_MESSAGE(failure, text.take_front(100).str());
  CHECK(failure->cls == FailureClass::Usage);
  CHECK(failure->message.size() < 4096);
  return *failure;
}

Failure refusedJson(llvm::StringRef text, TextLimits limits = {}) {
  llvm::Expected<llvm::json::Value> value = parseJson(text, "f.json", limits);
  REQUIRE_MESSAGE(!value, text.take_front(100).str());
  Failure failure = toFailure(value.takeError());
  CHECK(failure.cls == FailureClass::Usage);
  CHECK(failure.message.size() < 4096);
  return failure;
}

bool startsWith(const std::string &text, llvm::StringRef start) {
  return llvm::StringRef(text).starts_with(start);
}
bool has(const std::string &text, llvm::StringRef part) {
  return llvm::StringRef(text).contains(part);
}

} // namespace

TEST_CASE("YAML that is in order is mapped") {
  Probe probe;
  CHECK(!readYaml("list: [a, 'b c', \"d\\n\"]\nword: |\n  two\n  lines\n", probe));
  CHECK(probe.calls == 1);
  CHECK(probe.list == std::vector<std::string>{"a", "b c", "d\n"});
  CHECK(probe.word == "two\nlines\n");

  Probe marked;
  CHECK(!readYaml("\xef\xbb\xbf---\nword: \xc3\xa9t\xc3\xa9 # with a byte-order mark\n...\n", marked));
  CHECK(marked.word == "\xc3\xa9t\xc3\xa9");
}

TEST_CASE("a YAML error names line and column and points at the place") {
  Failure failure = refusedYaml("list: [a]\nwrod: x\n");
  CHECK(failure.code == "bad-yaml");
  CHECK(failure.where == "f.yaml:2:1");
  CHECK(failure.message == "unknown key 'wrod'\n  wrod: x\n  ^~~~");
}

TEST_CASE("the caret stands under its character after other alphabets and tabs") {
  Failure failure = refusedYaml("{word: \xc3\xa9\xc3\xa9,\twrod: x}\n");
  CHECK(failure.message == "unknown key 'wrod'\n  {word: \xc3\xa9\xc3\xa9, wrod: x}\n             ^~~~");
}

TEST_CASE("a long line is shown around the caret only, a long key is cut") {
  Failure failure = refusedYaml("word: " + std::string(5000, 'a') + " [\nwrod: 1");
  CHECK(failure.message.size() < 600);
  std::string key(3000, 'k');
  failure = refusedYaml("{word: " + std::string(3000, ' ') + "x, " + key + ": y}");
  CHECK(failure.message.size() < 1200);
  CHECK(has(failure.message, "..."));
  CHECK(has(failure.message, "^"));
}

TEST_CASE("YAML features that a description does not need are refused before mapping") {
  struct Case {
    const char *text, *where, *message;
  };
  const Case cases[] = {
      {"list: *Z", "f.yaml:1:8", "aliases (*name) are not accepted\n  list: *Z\n         ^"},
      {"*Z", "f.yaml:1:2", "aliases (*name) are not accepted\n  *Z\n   ^"},
      {"list:\n  - *Z\n", "f.yaml:2:6", "aliases (*name) are not accepted\n    - *Z\n       ^"},
      {"word: &a x", "f.yaml:1:8", "anchors (&name) are not accepted\n"},
      {"&a {word: x}", "f.yaml:1:2", "anchors (&name) are not accepted\n"},
      {"word: !str x", "f.yaml:1:7", "tags (!name) are not accepted\n  word: !str x\n        ^~~~"},
      {"!x {word: x}", "f.yaml:1:1", "tags (!name) are not accepted\n"},
      {"? [a]\n: b", "f.yaml:1:4", "a key must be a plain word\n"},
      {"word: a\n---\nword: b\n", "f.yaml:3:1", "a second document; exactly one is read\n"},
      {"word: a\n...\n---\nword: b\n", "f.yaml:4:1", "a second document; exactly one is read\n"},
      {"", "f.yaml:1:1", "the document is empty"},
      {"# only a remark\n", "f.yaml:2:1", "the document is empty"},
      {"---\n---\nword: a\n", "f.yaml:2:1", "the document is empty"},
  };
  for (const Case &c : cases) {
    CAPTURE(c.text);
    Probe probe;
    std::optional<Failure> failure = readYaml(c.text, probe);
    REQUIRE(failure);
    CHECK(probe.calls == 0); // No mapping has seen it.
    CHECK(failure->code == "bad-yaml");
    CHECK_MESSAGE(startsWith(failure->message, c.message), failure->message);
    CHECK(failure->where == c.where);
  }
}

TEST_CASE("duplicate keys, missing brackets and wrong shapes are errors") {
  CHECK(startsWith(refusedYaml("word: a\nword: b\n").message, "duplicated mapping key 'word'"));
  refusedYaml("list: [a, b");
  refusedYaml("list: {a: b}");
  refusedYaml("word: [a]");
  refusedYaml("- a\n- b\n");
  refusedYaml("just words");
  refusedYaml("word: \"open");
  refusedYaml("a: b: c");
}

TEST_CASE("nesting is bounded, in brackets and by indentation") {
  std::string brackets(100000, '['), braces, dashes, keys;
  for (int i = 0; i < 20000; ++i)
    braces += "{a: ";
  for (int i = 0; i < 20000; ++i)
    dashes += "- ";
  for (int i = 0; i < 1000; ++i)
    keys += std::string(size_t(i), ' ') + "a:\n";
  std::string questions;
  for (int i = 0; i < 20000; ++i)
    questions += "? ";
  for (const std::string &text : {brackets, braces, dashes, keys}) {
    Failure failure = refusedYaml(text);
    CHECK(failure.code == "bad-yaml");
    CHECK(has(failure.message, "nested more than 32 deep"));
  }
  refusedYaml(questions);
  // A caller's limit counts, and never more than the ceiling.
  CHECK(has(refusedYaml("list: [[a]]", {1000, 2, 100}).message, "nested more than 2 deep"));
  CHECK(has(refusedYaml(brackets, {1u << 20, 1u << 30, 1u << 20}).message, "nested more than 256 deep"));
  Probe probe;
  CHECK(!readYaml("list: [a]", probe, {1000, 2, 100}));
}

TEST_CASE("runs that LLVM's parser would walk by recursion are refused") {
  std::string commas(1000000, ','), spread, remarks, braces = "{", ends, quoted = "[\"#\"";
  for (int i = 0; i < 300000; ++i) {
    spread += ", \r\n\t";
    remarks += ",# , a: b\n";
    braces += ",";
    ends += "...\n";
    quoted += " ,";
  }
  for (const std::string &text :
       {"[" + commas, "[a" + spread, "[" + remarks, braces, quoted, "{a: 'b'" + remarks}) {
    Failure failure = refusedYaml(text);
    CHECK(startsWith(failure.message, "commas with nothing between them"));
  }
  CHECK(startsWith(refusedYaml("word: a\n" + ends).message, "a document ends once"));
  CHECK(startsWith(refusedYaml(ends).message, "a document ends once"));
  Probe probe;
  CHECK(!readYaml("# ,,,,\nlist: ['a,,b', \"c,,,#,\", d] # ,,,,\n...\n", probe));
  CHECK(probe.list == std::vector<std::string>{"a,,b", "c,,,#,", "d"});
}

TEST_CASE("bytes and values are bounded") {
  Failure failure = refusedYaml("word: abcdef", {11, 32, 100});
  CHECK(failure.code == "text-too-large");
  CHECK(failure.message == "the text has 12 bytes; at most 11 are read");
  Probe probe;
  CHECK(!readYaml("word: abcdef", probe, {12, 32, 100}));
  std::string many = "list: [";
  for (int i = 0; i < 1000; ++i)
    many += "a,";
  CHECK(has(refusedYaml(many + "]", {1u << 20, 32, 500}).message, "more than 500 values"));
}

TEST_CASE("bytes that are no text are refused where they stand") {
  Failure failure = refusedYaml("word: ok\nlist: [\xff]");
  CHECK(failure.code == "text-not-utf8");
  CHECK(failure.where == "f.yaml:2:8");
  failure = refusedYaml(llvm::StringRef("word: a\0b", 9));
  CHECK(failure.code == "text-control-character");
  CHECK(failure.where == "f.yaml:1:8");
  CHECK(refusedYaml("word: \x1b[31m").code == "text-control-character");
  CHECK(refusedYaml(llvm::StringRef("\xff\xfew\0o\0", 6)).code == "text-not-utf8"); // UTF-16
  CHECK(refusedYaml("word: \xed\xa0\x80").code == "text-not-utf8");                 // A surrogate.
  CHECK(refusedYaml("word: \xc0\xaf").code == "text-not-utf8");                     // Overlong.
}

TEST_CASE("complaints of a mapping come with their places, the first few of them") {
  auto complain = [](int times) {
    llvm::Error error = withYaml("list: [a, b]\nword: x\n", "f.yaml", nullptr,
                                 [&](llvm::yaml::Input &input, YamlComplaints &complaints) {
                                   Probe probe;
                                   input >> probe;
                                   CHECK(!complaints.any());
                                   for (int i = 0; i < times; ++i)
                                     complaints.add({}, "no good");
                                   CHECK(complaints.any() == (times > 0));
                                 });
    return error ? toFailure(std::move(error)).message : std::string();
  };
  CHECK(complain(0).empty());
  CHECK(complain(1) == "no good\n  list: [a, b]\n  ^");
  CHECK(complain(2) == "no good\n  list: [a, b]\n  ^\nf.yaml:1:1: no good\n  list: [a, b]\n  ^");
  CHECK(has(complain(100), "\nand 95 more"));
}

TEST_CASE("JSON that is in order is parsed") {
  llvm::Expected<llvm::json::Value> value =
      parseJson("\xef\xbb\xbf{\"a\": [1, \"]]]\\\"[[[\", null]}", "f.json");
  REQUIRE(bool(value));
  CHECK(value->getAsObject()->getArray("a")->size() == 3);
  CHECK(bool(parseJson("3", "f.json")));
}

TEST_CASE("a JSON error names line and column and points at the place") {
  Failure failure = refusedJson("{\"a\": 1,\n \"b\" 2}");
  CHECK(failure.code == "bad-json");
  CHECK(failure.where == "f.json:2:7");
  CHECK(failure.message == "Expected : after object key\n   \"b\" 2}\n        ^");
}

TEST_CASE("hostile JSON") {
  for (char open : {'[', '{'}) {
    Failure failure = refusedJson(std::string(100000, open));
    CHECK(has(failure.message, "nested more than 32 deep"));
    CHECK(failure.where == "f.json:1:33");
  }
  std::string deep;
  for (int i = 0; i < 50000; ++i)
    deep += "[\"\\\\\",";
  CHECK(has(refusedJson(deep).message, "nested"));
  // An object costs kilobytes in memory whatever it holds.
  std::string objects = "[";
  for (int i = 0; i < 100000; ++i)
    objects += "{\"\":0},";
  CHECK(has(refusedJson(objects + "0]").message, "more than 1048576 values"));
  CHECK(has(refusedJson("[1,2,3,4]", {100, 32, 3}).message, "more than 3 values"));
  CHECK(refusedJson("[1, {\"a\": 1e999}]").message == "a number is too large");
  refusedJson("-1e999");
  CHECK(bool(parseJson("[1e308, 1e-999, 18446744073709551615]", "f.json")));
  refusedJson("");
  refusedJson("{} {}");
  refusedJson("{\"a\": 1,}");
  refusedJson("\"open");
  refusedJson("\"open\\");
  refusedJson("]]]]");
  refusedJson("'a'");
  CHECK(refusedJson("\"\xff\"").code == "text-not-utf8");
  CHECK(refusedJson(llvm::StringRef("[\0]", 3)).code == "text-control-character");
  CHECK(refusedJson("[1, 2]", {5, 32, 100}).code == "text-too-large");
}

TEST_CASE("numbers") {
  struct Good {
    const char *text;
    uint64_t value;
  };
  const Good good[] = {{"0", 0},
                       {"10", 10},
                       {"4_096", 4096},
                       {"0x0", 0},
                       {"0xdead_beef", 0xdeadbeef},
                       {"0Xff", 255},
                       {"0b101", 5},
                       {"0o17", 15},
                       {"0x00ff", 255},
                       {"18446744073709551615", ~uint64_t(0)},
                       {"0xffffffffffffffff", ~uint64_t(0)}};
  for (const Good &g : good) {
    CAPTURE(g.text);
    llvm::Expected<uint64_t> value = parseNumber(g.text);
    REQUIRE(bool(value));
    CHECK(*value == g.value);
  }
  const char *bad[] = {"",
                       "010",
                       "00",
                       "0x",
                       "0b",
                       "0o",
                       "0b2",
                       "0o8",
                       "0xg",
                       "-1",
                       "+1",
                       " 1",
                       "1 ",
                       "1_",
                       "_1",
                       "1__0",
                       "0x_1",
                       "1.0",
                       "1e3",
                       "ten",
                       "0x1 ",
                       "18446744073709551616",
                       "0x10000000000000000",
                       "1k"};
  for (const char *text : bad) {
    CAPTURE(text);
    llvm::Expected<uint64_t> value = parseNumber(text);
    REQUIRE(!value);
    Failure failure = toFailure(value.takeError());
    CHECK(failure.cls == FailureClass::Usage);
    CHECK(failure.code == "bad-number");
  }
  CHECK(toFailure(parseNumber("010").takeError()).message ==
        "'010' starts with a zero, which half the world reads as octal");
  CHECK(toFailure(parseNumber("18446744073709551616").takeError()).message ==
        "'18446744073709551616' does not fit into 64 bits");
  CHECK(toFailure(parseNumber(std::string(1000, '9')).takeError()).message.size() < 100);
  CHECK(toFailure(parseNumber("\xff").takeError()).message == "'\xef\xbf\xbd' is not a number");
}
