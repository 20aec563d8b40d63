#include "tests/hal/Targets.h"

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("a target's name is taken apart") {
  TargetUri uri = must(parseTargetUri("model:./my%20model.so?fault=dma-last-byte&a=&b=x%26y=z"));
  CHECK(uri.scheme == "model");
  CHECK(uri.rest == "./my model.so");
  REQUIRE(uri.options.size() == 3);
  CHECK(*uri.find("fault") == "dma-last-byte");
  CHECK(*uri.find("a") == "");
  CHECK(*uri.find("b") == "x&y=z"); // Only the first '=' separates.
  CHECK(uri.find("c") == nullptr);
  CHECK(uri.text == "model:./my%20model.so?fault=dma-last-byte&a=&b=x%26y=z");
}

TEST_CASE("names without options, and with everything in the rest") {
  CHECK(must(parseTargetUri("null:")).rest == "");
  CHECK(must(parseTargetUri("vfio:0000:01:00.0")).rest == "0000:01:00.0");
  CHECK(must(parseTargetUri("tcp://host:1234")).rest == "//host:1234");
  CHECK(must(parseTargetUri("pci-sysfs:0")).scheme == "pci-sysfs");
  CHECK(must(parseTargetUri("model:a+b")).rest == "a+b"); // '+' is not a space.
}

TEST_CASE("what is not a target's name is refused with a message that says why") {
  const char *bad[] = {
      "",
      "edu",
      ":edu",
      "Model:edu",
      "mo del:edu",
      "1a:x",
      "model:a%",
      "model:a%2",
      "model:%zz",
      "model:a%00b",
      "model:a\nb",
      "model:edu?",
      "model:e?a",
      "model:e?a=1&",
      "model:e?=1",
      "model:e?a=1&a=2",
      "model:e?a=%0a",
      "model:e?a b=1",
      "model:e?&a=1",
  };
  for (const char *text : bad) {
    CAPTURE(text);
    Failure f = failure(parseTargetUri(text));
    CHECK(f.cls == FailureClass::Usage);
    CHECK(f.code == "bad-target-uri");
    CHECK(!f.message.empty());
    CHECK(!f.hint.empty());
  }
  CHECK(failure(parseTargetUri(std::string("model:") + '\0')).code == "bad-target-uri");
}

TEST_CASE("size is bounded") {
  CHECK(failure(parseTargetUri("model:" + std::string(maxTargetUriBytes, 'x'))).code == "bad-target-uri");
  CHECK(must(parseTargetUri("model:" + std::string(maxTargetUriBytes - 6, 'x'))).rest.size() ==
        maxTargetUriBytes - 6);
  std::string many = "model:edu?";
  for (size_t i = 0; i < maxTargetUriOptions; ++i)
    many += (i ? "&o" : "o") + std::to_string(i) + "=1";
  CHECK(must(parseTargetUri(many)).options.size() == maxTargetUriOptions);
  CHECK(failure(parseTargetUri(many + "&more=1")).code == "bad-target-uri");
}

TEST_CASE("terminal escapes in a bad name do not reach the terminal") {
  for (const char *text :
       {"x\033[2J", "x:\033[2J", "x:?\033[2J", "x:?a\033[2J=1", "x:?a=\033[2J", "x:?a=1&a\0332"}) {
    Failure f = failure(parseTargetUri(text));
    CHECK(!contains(f.where, "\033"));
    CHECK(!contains(f.message, "\033"));
  }
}

TEST_CASE("an unknown option is refused with a list of those there are") {
  TargetUri uri = must(parseTargetUri("null:?spces=bar0"));
  const TargetOptionHelp known[] = {{"spaces", "LIST", "the spaces"}, {"size", "BYTES", "their size"}};
  Failure f = failure(checkTargetOptions(uri, known));
  CHECK(f.code == "unknown-target-option");
  CHECK(contains(f.message, "spces"));
  CHECK(contains(f.hint, "spaces=LIST"));
  CHECK(contains(f.hint, "size=BYTES"));
  must(checkTargetOptions(must(parseTargetUri("null:?size=1&spaces=b")), known));
}

TEST_CASE("numbers and choices") {
  TargetUri uri = must(parseTargetUri("x:?n=0x10&big=99999999999999999999&word=seven&octal=010&c=beta"));
  CHECK(must(numberOption(uri, "n", 1, 0, 100)) == 16);
  CHECK(must(numberOption(uri, "absent", 7, 0, 100)) == 7);
  for (const char *key : {"big", "word", "octal"}) {
    CAPTURE(key);
    Failure f = failure(numberOption(uri, key, 1, 0, 100));
    CHECK(f.code == "bad-target-option");
    CHECK(contains(f.message, key));
  }
  CHECK(contains(failure(numberOption(uri, "n", 1, 17, 100)).hint, "from 17 to 100"));
  CHECK(failure(numberOption(uri, "n", 1, 0, 15)).code == "bad-target-option");
  const llvm::StringRef choices[] = {"alpha", "beta"};
  CHECK(must(choiceOption(uri, "c", choices, 0)) == 1);
  CHECK(must(choiceOption(uri, "absent", choices, 0)) == 0);
  CHECK(contains(failure(choiceOption(uri, "word", choices, 0)).hint, "alpha, beta"));
}
