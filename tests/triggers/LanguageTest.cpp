// The trigger language: what is accepted, and what a wrong file is told.
#include "tests/triggers/Stream.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace llvm;
using namespace tapeback;
using namespace tapeback::test;
using namespace tapeback::triggers;

namespace {

/// The first diagnostic of a file with a single mistake.
Diagnostic complaint(StringRef source, const Description *device = &minnow()) {
  Compilation compilation = compileFor(source, device);
  INFO(source.take_front(300).str());
  REQUIRE_FALSE(compilation.diagnostics.empty());
  for (const Diagnostic &diagnostic : compilation.diagnostics)
    if (diagnostic.severity == Diagnostic::Severity::Error)
      return diagnostic;
  return compilation.diagnostics[0];
}

struct Mistake {
  const char *source, *message, *hint;
  unsigned line, column;
};

} // namespace

TEST_CASE("mistakes are named with line, column and what may have been meant") {
  const Mistake mistakes[] = {
      {"trigger t { when read STATSU { fire \"x\"; } }", "has no register 'STATSU'", "STATUS", 1, 23},
      {"trigger t {\n  when read STATUS && STATUS.HALTD == 1 { fire \"x\"; }\n}", "has no field 'HALTD'",
       "HALTED", 2, 30},
      {"trigger t { when submit GEMM && GEMM.kk > 512 { fire \"x\"; } }", "has no field 'kk'", "k", 1, 38},
      {"trigger t { when submit GEM { fire \"x\"; } }", "no command is named 'GEM'", "GEMM", 1, 25},
      {"trigger t { wen read STATUS { fire \"x\"; } }", "expected a declaration", "when", 1, 13},
      {"trigger t { when read STATUS { fyre \"x\"; } }", "expected a statement", "fire", 1, 32},
      {"trigger t { when value = 3 { fire \"x\"; } }", "does not compare", "==", 1, 24},
      {"trigger t { when value { fire \"x\"; } }", "yes or no is needed", "!= 0", 1, 18},
      {"trigger t { when read { fire \"x\" } }", "expected ';'", "", 1, 34},
      {"trigger t { state a { when read -> b; } }", "no state 'b'", "a", 1, 36},
      {"trigger t { state a { when read -> a; } state b { } }", "'b' is never reached", "", 1, 47},
      {"trigger t { when read { arm u; } }", "no trigger 'u'", "", 1, 29},
      {"trigger t { when read { exec \"ls\"; } }", "not allowed", "--allow-exec", 1, 25},
      {"trigger t { when elapsed(x) > 3 { fire \"x\"; } }", "no timer 'x'", "", 1, 26},
      {"trigger t { when value == 010 { fire \"x\"; } }", "is no number", "", 1, 27},
      {"trigger t { when read && value == \"x\" { fire \"x\"; } }", "compared with `name`", "", 1, 26},
      {"trigger t { when read { fire \"x; } }", "has no end", "", 1, 30},
      {"trigger t { when read [clas] { fire \"x\"; } }", "no register class", "", 1, 24},
      {"trigger t { counter value; when read { fire \"x\"; } }", "is taken", "", 1, 21},
      {"trigger t { }", "does nothing", "", 1, 9},
      {"trigger t { when 1 / 0 == 2 { fire \"x\"; } }", "divides by zero", "", 1, 18},
      {"trigger t { when read rate 5 in 3 windows { fire \"x\"; } }", "time is counted", "", 1, 33},
  };
  for (const Mistake &mistake : mistakes) {
    Diagnostic diagnostic = complaint(mistake.source);
    CAPTURE(formatDiagnostic(diagnostic, "f"));
    CHECK(StringRef(diagnostic.message).contains(mistake.message));
    CHECK(StringRef(diagnostic.hint).contains(mistake.hint));
    CHECK(diagnostic.line == mistake.line);
    CHECK(diagnostic.column == mistake.column);
  }
}

TEST_CASE("a failure has every mistake and each hint once") {
  auto failure = [](llvm::ArrayRef<Diagnostic> diagnostics) {
    return toFailure(diagnosticsFailure(diagnostics, "a.trig"));
  };
  Diagnostic one = complaint("trigger t {\n  when read STATSU { fire \"x\"; }\n}");
  Failure alone = failure(one);
  CHECK(alone.where == "a.trig:2:13");
  CHECK(alone.hint == "did you mean STATUS?");
  CHECK(alone.message.find("did you mean") == std::string::npos);
  Diagnostic other = one, warning = one;
  other.line = 7;
  warning.severity = Diagnostic::Severity::Warning;
  Failure three = failure({one, other, warning, one});
  CHECK(three.hint.empty());
  llvm::StringRef message = three.message;
  CHECK(message.count("did you mean STATUS?") == 1);
  CHECK(message.count("error: ") == 3);
  CHECK(message.count("a.trig:7:13") == 1);
}

TEST_CASE("a diagnostic shows the line and a caret") {
  Diagnostic diagnostic = complaint("trigger t {\n  when read STATSU { fire \"x\"; }\n}");
  CHECK(formatDiagnostic(diagnostic, "a.trig") == "a.trig:2:13: error: the device has no register 'STATSU'\n"
                                                  "    when read STATSU { fire \"x\"; }\n"
                                                  "              ^~~~~~\n"
                                                  "  did you mean STATUS?");
}

TEST_CASE("what can never hold is refused") {
  for (const char *condition :
       {"STATUS.HALTED == 2", "STATUS.HALTED > 1", "write CONTROL && value == 0x100000000",
        "STATUS & 0xf0 == 0x1", "Q0_SIZE in 0x100000000..0x200000000", "read && write", "completion == 5",
        "n > 300", "STATUS.HALTED == 0b1x0", "width > 8", "submit && read STATUS", "payload(0, 1) >= 256",
        "STATUS < 0"}) {
    CAPTURE(condition);
    Diagnostic diagnostic =
        complaint(std::string("trigger t { counter n: 8; when ") + condition + " { n = 0; fire \"x\"; } }");
    CHECK(diagnostic.severity == Diagnostic::Severity::Error);
    CHECK(StringRef(diagnostic.message).contains("can never hold"));
  }
}

TEST_CASE("what is only strange is warned of") {
  struct Strange {
    const char *source, *message;
  };
  for (const Strange &strange :
       {Strange{"trigger t { counter n: 8; when read { n += 1; } when n > 3 { fire \"x\"; } }",
                "can overflow"},
        {"trigger t { var v; when read { fire \"x\"; } }", "never used"},
        {"trigger t { when write STATUS { fire \"x\"; } }", "read-only"},
        {"trigger t { when STATUS >= 0 { fire \"x\"; } }", "always holds"},
        {"trigger t { when true { fire \"x\"; } when read { fire \"y\"; } }", "never looked at"}}) {
    CAPTURE(strange.source);
    Compilation compilation = compileFor(strange.source, &minnow());
    CHECK(compilation.program);
    REQUIRE(compilation.diagnostics.size() == 1);
    CHECK(compilation.diagnostics[0].severity == Diagnostic::Severity::Warning);
    CHECK(StringRef(compilation.diagnostics[0].message).contains(strange.message));
  }
}

TEST_CASE("cost, nesting, memory and length have bounds that a file is told of") {
  std::string deep(5000, '('), wide = "trigger t { when read", big = "trigger t {";
  CHECK(complaint("trigger t { when " + deep).message.find("too deeply") != std::string::npos);
  CHECK(complaint("trigger t { when !" + std::string(5000, '!')).message.find("too deeply") !=
        std::string::npos);
  std::string set = " && value in {1";
  for (int i = 3; i < 400; i += 2)
    set += ", " + std::to_string(i);
  for (int i = 0; i < 30; ++i)
    wide += set + "}";
  Diagnostic cost = complaint(wide + " { fire \"x\"; } }");
  CHECK(StringRef(cost.message).contains("steps; at most"));
  for (int i = 0; i < 40; ++i)
    big += " table t" + std::to_string(i) + "[65536];";
  CHECK(StringRef(complaint(big + " when read { fire \"x\"; } }").message).contains("MiB"));
  CHECK(StringRef(complaint(std::string(maxSourceBytes + 1, ' ')).message).contains("at most 1 MiB"));
  CHECK(StringRef(complaint("").message).contains("no trigger"));
}

TEST_CASE("the cost that is told bounds what a packet costs") {
  Program one = compiled("trigger t { when read STATUS && value == 1 { fire \"x\"; } }");
  Program two =
      compiled("trigger t { when read STATUS && value == 1 { fire \"x\"; } when write { fire \"y\"; } }");
  CHECK(one.triggers[0].cost > 4);
  CHECK(two.triggers[0].cost > one.triggers[0].cost);
}

namespace {

std::string fileText(const std::string &path) {
  std::ifstream in(std::string(TAPEBACK_SOURCE_DIR) + "/" + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("every example of the manual compiles, or fails as it says") {
  std::string manual = fileText("triggers/LANGUAGE.md");
  unsigned examples = 0, wrong = 0;
  StringRef rest = manual;
  for (;;) {
    size_t begin = rest.find("```trig");
    if (begin == StringRef::npos)
      break;
    rest = rest.substr(begin + 7);
    auto [info, body] = rest.split('\n');
    StringRef source = body.take_front(body.find("```"));
    CAPTURE(source.str());
    bool isEdu = info.contains("edu"), isWrong = info.contains("wrong");
    Compilation compilation = compileFor(source, isEdu ? &edu() : &minnow(), /*allowExec=*/true);
    std::string all;
    for (const Diagnostic &diagnostic : compilation.diagnostics)
      all += formatDiagnostic(diagnostic, "LANGUAGE.md") + "\n";
    CHECK_MESSAGE(compilation.program.has_value() == !isWrong, all);
    CHECK_MESSAGE((isWrong || compilation.diagnostics.empty()), all);
    ++examples;
    wrong += isWrong;
  }
  CHECK(examples >= 10);
  CHECK(wrong >= 1);
}

TEST_CASE("every trigger of the library compiles without a word") {
  unsigned files = 0;
  for (const auto &entry :
       std::filesystem::directory_iterator(std::string(TAPEBACK_SOURCE_DIR) + "/triggers/library")) {
    if (entry.path().extension() != ".trig")
      continue;
    std::string name = entry.path().filename().string();
    CAPTURE(name);
    bool isEdu = StringRef(name).starts_with("edu-");
    Compilation compilation = compileFor(fileText("triggers/library/" + name), isEdu ? &edu() : &minnow());
    std::string all;
    for (const Diagnostic &diagnostic : compilation.diagnostics)
      // A device without such registers is worth a word; Minnow has none that is forbidden.
      if (!StringRef(diagnostic.message).contains("no register that is forbidden"))
        all += formatDiagnostic(diagnostic, name) + "\n";
    CHECK(all == "");
    CHECK(compilation.program.has_value());
    ++files;
  }
  CHECK(files >= 15);
}
