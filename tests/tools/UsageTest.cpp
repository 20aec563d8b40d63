// Help, bad usage, versions and start-up: what holds for every verb.
#include "tests/tools/RunJson.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <map>
#include <set>

using namespace llvm;
using namespace tapeback::test;

namespace {

/// From `tapeback --help`: what is built is what is tested.
std::vector<std::string> verbsInHelp() {
  std::vector<std::string> result;
  RunResult help = runTapeback({"--help"});
  StringRef text = StringRef(help.out).split("verbs:\n").second.split("\n\n").first;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines)
    result.push_back(line.trim().split(' ').first.str());
  return result;
}

/// Each verb with arguments that are good, so that one bad thing can be added.
const std::map<std::string, std::vector<std::string>> &goodArguments() {
  static const std::map<std::string, std::vector<std::string>> table = {
      {"record", {"--target", "null:", "-o", "/tmp/tapeback-never-written.tape", "--", "/bin/true"}},
      {"replay", {"/nonexistent.tape", "--target", "null:"}},
      {"bisect", {"/nonexistent.tape", "--good", "null:", "--bad", "null:"}},
      {"diff", {"/nonexistent.tape", "/nonexistent.tape"}},
      {"info", {"/nonexistent.tape"}},
      {"dump", {"/nonexistent.tape"}},
      {"trigger", {"check", "/nonexistent.trig"}},
      {"trim", {"/nonexistent.tape", "-o", "/tmp/tapeback-never-written.tape", "--range", "w0"}},
      {"verify", {"/nonexistent.tape"}},
      {"recover", {"/nonexistent.tape", "-o", "/tmp/tapeback-never-written.tape"}},
      {"import", {"/nonexistent.log", "-o", "/tmp/tapeback-never-written.tape"}},
      {"targets", {}},
      {"device", {"check", "/nonexistent.yaml"}},
  };
  return table;
}

size_t countOf(StringRef text, StringRef what) {
  return text.count(what);
}

} // namespace

TEST_CASE("the command lists every verb of the design that exists, and nothing of LLVM's") {
  RunResult help = runTapeback({"--help"});
  CHECK_MESSAGE(help.exited(0), help);
  CHECK(help.err.empty());
  CHECK_FALSE(StringRef(help.out).contains("LLVM"));
  std::vector<std::string> verbs = verbsInHelp();
  CHECK(verbs == std::vector<std::string>{"record", "replay", "bisect", "diff", "info", "dump", "trim", "trigger",
                                          "verify", "recover", "import", "targets", "device"});
  for (const std::string &verb : verbs)
    CHECK_MESSAGE(goodArguments().count(verb), verb);
  CHECK(runTapeback({"-h"}).out == help.out);
  CHECK(runTapeback({"help"}).out == help.out);
}

TEST_CASE("--version says which version") {
  RunResult version = runTapeback({"--version"});
  CHECK(version.exited(0));
  CHECK(StringRef(version.out).starts_with("tapeback 0."));
  CHECK(version.err.empty());
}

TEST_CASE("without a verb the help goes to standard error") {
  RunResult none = runTapeback({});
  CHECK(none.exited(2));
  CHECK(none.out.empty());
  CHECK(StringRef(none.err).contains("usage: tapeback VERB"));
}

TEST_CASE("an unknown verb is answered with the one that was meant") {
  for (auto [typed, meant] :
       {std::pair("reply", "replay"), std::pair("infos", "info"), std::pair("bisct", "bisect"),
        std::pair("recrd", "record"), std::pair("ver", "verify")}) {
    RunResult result = runTapeback({typed, "x.tape"});
    CHECK_MESSAGE(result.exited(2), result);
    CHECK(result.out.empty());
    CHECK_MESSAGE(StringRef(result.err).contains("did you mean '" + std::string(meant) + "'?"), result);
    CHECK(countOf(result.err, "error: ") == 1);
  }
  RunResult nothing = runTapeback({"entirely-different"});
  CHECK(nothing.exited(2));
  CHECK_FALSE(StringRef(nothing.err).contains("did you mean"));
  CHECK(runTapeback({"--josn"}).exited(2));
  CHECK(runTapeback({""}).exited(2));
  CHECK(runTapeback({"help", "entirely-different"}).exited(2));
}

TEST_CASE("every verb's help exits 0 and has usage, options, examples and exit codes") {
  for (const std::string &verb : verbsInHelp()) {
    CAPTURE(verb);
    RunResult help = runTapeback({verb, "--help"});
    CHECK_MESSAGE(help.exited(0), help);
    CHECK(help.err.empty());
    StringRef text = help.out;
    CHECK(text.starts_with("tapeback " + verb + ": "));
    CHECK_MESSAGE(text.contains("usage: tapeback " + verb), help);
    for (const char *part :
         {"\noptions:\n", "--json", "--help", "\nexamples:\n  tapeback ", "\nexit codes:\n"})
      CHECK_MESSAGE(text.contains(part), part);
    // An option without a word about it is no help.
    SmallVector<StringRef> lines;
    text.split("\noptions:\n").second.split("\nexamples:").first.split(lines, '\n');
    for (StringRef line : lines)
      if (line.trim().starts_with("-"))
        CHECK_MESSAGE(line.contains(" - "), line.str());
    CHECK_FALSE(text.contains("help-hidden"));
    CHECK_FALSE(text.contains("--color"));
    CHECK(runTapeback({"help", verb}).out == help.out);
    CHECK(runTapeback({verb, "-h"}).out == help.out);
    // Help is asked for, whatever else is there.
    CHECK(runTapeback({verb, "--nonsense", "--help"}).exited(0));
  }
}

TEST_CASE("the options in the usage line and the examples exist") {
  for (const std::string &verb : verbsInHelp()) {
    CAPTURE(verb);
    std::string help = runTapeback({verb, "--help"}).out;
    std::set<std::string> known{"help"};
    SmallVector<StringRef> lines, words;
    auto [before, options] = StringRef(help).split("\noptions:\n");
    options.split("\nexamples:").first.split(lines, '\n');
    for (StringRef line : lines) {
      line = line.ltrim();
      if (line.consume_front("--") || line.consume_front("-"))
        known.insert(line.take_until([](char c) { return c == ' ' || c == '='; }).str());
    }
    std::string mentions =
        before.str() + options.split("\nexamples:").second.split("\nexit codes:").first.str();
    StringRef(mentions).split(words, ' ');
    for (StringRef word : words) {
      word = word.trim("[]()'`,.;\n");
      if (word == "--" || word.contains("->"))
        continue;
      size_t dashes = word.starts_with("--") ? 2 : word.starts_with("-") ? 1 : 0;
      StringRef name = word.drop_front(dashes).take_while([](char c) { return isalnum(c) || c == '-'; });
      // Options of the recorded program come after its own name.
      if (dashes && !name.empty() && isalpha(name[0]) && name != "seed" && name != "ops")
        CHECK_MESSAGE(known.count(name.str()), word.str());
    }
  }
}

TEST_CASE("bad usage exits 2 with one message, and says nothing on standard output") {
  for (const std::string &verb : verbsInHelp()) {
    auto good = goodArguments().find(verb);
    if (good == goodArguments().end())
      continue;
    struct Bad {
      std::vector<std::string> args;
      const char *says;
    };
    std::vector<Bad> cases = {{{"--nonsense"}, "unknown option '--nonsense'"},
                              {{"--nonsense=5"}, "unknown option '--nonsense=5'"},
                              {{"-json"}, "unknown option '-json'"},
                              {{"--jso"}, "did you mean '--json'?"},
                              {{"--"}, nullptr}, // Only here to see that it does not crash.
                              {{"---"}, "unknown option '---'"},
                              {{"--help-hidden"}, "unknown option"},
                              {{"--color"}, "unknown option"},
                              {{"--version"}, "unknown option"},
                              {{"--print-options"}, "unknown option"},
                              {{"--json=maybe"}, "--json"},
                              {{"--json", "--json"}, "given twice"}};
    for (const Bad &bad : cases) {
      if (!bad.says)
        continue;
      std::vector<std::string> args{verb};
      args.insert(args.end(), bad.args.begin(), bad.args.end());
      args.insert(args.end(), good->second.begin(), good->second.end());
      RunResult result = runTapeback(args);
      CHECK_MESSAGE(result.exited(2), result);
      CHECK_MESSAGE(countOf(result.err, "error: ") == 1, result);
      CHECK_MESSAGE(StringRef(result.err).starts_with("tapeback " + verb + ": error: "), result);
      CHECK_MESSAGE(StringRef(result.err).contains(bad.says), result);
      CHECK_MESSAGE(StringRef(result.err).contains("--help"), result);
      if (bad.args[0] != "--json" && bad.args[0] != "--json=true")
        CHECK_MESSAGE(result.out.empty(), result);
    }
  }
}

TEST_CASE("what is asked of no verb is answered as strictly") {
  RunResult version = runTapeback({"--version", "--json"});
  CHECK_MESSAGE(version.exited(0), version);
  Expected<json::Value> object = json::parse(version.out);
  REQUIRE(bool(object));
  CHECK(object->getAsObject()->getString("schema") == "tapeback.version/1");
  CHECK(object->getAsObject()->getString("version")->starts_with("0."));
  RunResult many = runTapeback({"help", "dump", "trim"});
  CHECK_MESSAGE(many.exited(2), many);
  CHECK_MESSAGE(StringRef(many.err).contains("'trim'"), many);
  RunResult check = runTapeback({"device", "check", "edu", "--register", "STATUS"});
  CHECK_MESSAGE(check.exited(2), check);
}

TEST_CASE("bad usage with --json is one JSON object, for every verb") {
  for (const std::string &verb : verbsInHelp()) {
    CAPTURE(verb);
    JsonResult result = runJson({verb, "--nonsense"});
    CHECK_MESSAGE(result.run.exited(2), result.run);
    CHECK(result.errorCode() == "unknown-option");
    CHECK(result.text("verdict") == "error");
    CHECK(result.object.get("reproduced")->kind() == json::Value::Null);
    CHECK(result.object.get("signature")->kind() == json::Value::Null);
  }
}

TEST_CASE("what is missing or too much is named") {
  RunResult missing = runTapeback({"verify"});
  CHECK_MESSAGE(missing.exited(2), missing);
  CHECK(StringRef(missing.err).contains("TAPE is missing"));
  CHECK(StringRef(missing.err).contains("usage: tapeback verify TAPE"));
  RunResult extra = runTapeback({"verify", "a", "b"});
  CHECK(extra.exited(2));
  CHECK(StringRef(extra.err).contains("unexpected argument 'b'"));
  RunResult option = runTapeback({"recover", "a"});
  CHECK(option.exited(2));
  CHECK_MESSAGE(StringRef(option.err).contains("option --output is required"), option);
  RunResult value = runTapeback({"recover", "a", "-o"});
  CHECK(value.exited(2));
  CHECK(StringRef(value.err).contains("option '-o' needs a value"));
  RunResult number = runTapeback({"dump", "a", "--limit", "many"});
  CHECK(number.exited(2));
  CHECK_MESSAGE(StringRef(number.err).contains("option --limit"), number);
  CHECK(countOf(number.err, "error: ") == 1);
  RunResult twice = runTapeback({"recover", "a", "-o", "b", "--output", "c"});
  CHECK_MESSAGE(twice.exited(2), twice);
  CHECK(countOf(twice.err, "error: ") == 1);
  CHECK_MESSAGE(StringRef(twice.err).contains("twice"), twice);
}

TEST_CASE("an argument that starts with @ is never read as a file of arguments") {
  ScratchDirectory scratch;
  writeWholeFile(scratch.file("marker"), "--help");
  RunOptions options;
  options.directory = scratch.path();
  // As a value, joined and apart, and as the name of a tape.
  for (std::vector<std::string> args :
       {std::vector<std::string>{"dump", "/nonexistent.tape", "--range", "@marker"},
        std::vector<std::string>{"dump", "/nonexistent.tape", "--range=@marker"},
        std::vector<std::string>{"dump", "@marker"}, std::vector<std::string>{"dump", "--", "@marker"}}) {
    RunResult result = runTapeback(args, options);
    CHECK_MESSAGE(result.exit != 0, result);
    CHECK_MESSAGE(result.out.empty(), result);
  }
}

TEST_CASE("what follows -- is the recorded program's, unread and unchanged") {
  ScratchDirectory scratch;
  writeWholeFile(scratch.file("words"), "expanded");
  RunOptions options;
  options.directory = scratch.path();
  RunResult result = runTapeback({"record", "--target", "null:", "-o", "a.tape", "--", "/bin/echo", "@words",
                                  "--json", "--help", "--", "-o"},
                                 options);
  CHECK_MESSAGE(result.exited(0), result);
  CHECK_MESSAGE(StringRef(result.out + result.err).contains("@words --json --help -- -o\n"), result);
}

TEST_CASE("standard descriptors that are closed are not taken for files") {
  ScratchDirectory scratch;
  RunOptions closed;
  closed.outputTo = "closed";
  for (std::vector<std::string> args :
       {std::vector<std::string>{"--help"}, std::vector<std::string>{"--version"},
        std::vector<std::string>{"verify", "--help"}, std::vector<std::string>{"targets"},
        std::vector<std::string>{"targets", "--json"}}) {
    RunResult result = runTapeback(args, closed);
    CHECK_MESSAGE(result.exited(5), result);
    CHECK_MESSAGE(StringRef(result.err).contains("could not be written"), result);
  }
  RunResult bad = runTapeback({"verify", "--nonsense", "--json"}, closed);
  CHECK_MESSAGE(bad.exited(2), bad); // Bad usage outranks what became of its report.
}

TEST_CASE("a full disk under standard output is an error, a reader that went away is not") {
  RunOptions full;
  full.outputTo = "/dev/full";
  for (std::vector<std::string> args :
       {std::vector<std::string>{"--help"}, std::vector<std::string>{"targets", "--json"},
        std::vector<std::string>{"targets"}}) {
    RunResult result = runTapeback(args, full);
    CHECK_MESSAGE(result.exited(5), result);
    CHECK_MESSAGE(StringRef(result.err).contains("No space left"), result);
  }
  RunOptions gone;
  gone.outputTo = "broken-pipe";
  RunResult result = runTapeback({"targets"}, gone);
  CHECK_MESSAGE(result.exited(0), result);
  CHECK(result.err.empty());
}

TEST_CASE("the command starts in a few milliseconds") {
  auto best = std::chrono::milliseconds(1000000);
  for (int i = 0; i < 15; ++i)
    best = std::min(best, runTapeback({"--version"}).elapsed);
  MESSAGE("best of 15 starts: " << best.count() << " ms, process and pipes included");
#ifdef TAPEBACK_SANITIZED
  CHECK(best.count() < 2000);
#else
  CHECK(best.count() < 50); // A shared libLLVM takes 125.
#endif
}
