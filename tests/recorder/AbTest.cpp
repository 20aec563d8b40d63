// `record --ab N` from end to end.
#include "tests/recorder/Recording.h"
#include <filesystem>
#include <fstream>

using namespace tapeback;
using namespace tapeback::test;

TEST_CASE("--ab runs pairs with recording off and on, and counts the same gaps in both") {
  ScratchDirectory scratch;
  std::string path = scratch.file("t.tape");
  RunResult run = runProgram(recordCommand(path, {"threads", "2", "40"}, {"--ab", "3"}));
  REQUIRE_MESSAGE(run.exited(0), run);
  WholeTape tape(path);
  CHECK_MESSAGE(tape.error.empty(), tape.error);
  CHECK(!tape.packets.empty());
  llvm::json::Object json = jsonOf(run);
  CHECK(json.getString("schema") == "tapeback.record/1");
  CHECK(json.getInteger("packets") == int64_t(tape.packets.size()));
  const llvm::json::Object *ab = json.getObject("ab");
  REQUIRE(ab);
  CHECK(ab->getInteger("pairs") == 3);
  for (const char *key : {"time_ratio", "failure_rate_off", "failure_rate_on", "gap_p50_ratio",
                          "gap_p50_shift", "gap_p99_ratio", "gap_p99_shift"}) {
    CAPTURE(key);
    const llvm::json::Object *figure = ab->getObject(key);
    REQUIRE(figure);
    double value = figure->getNumber("value").value_or(-1e30);
    CHECK(figure->getNumber("low").value_or(1e30) <= value);
    CHECK(figure->getNumber("high").value_or(-1e30) >= value);
  }
  CHECK(ab->getObject("failure_rate_on")->getNumber("value") == 0);
  const llvm::json::Array *runs = ab->getArray("runs");
  REQUIRE(runs);
  REQUIRE(runs->size() == 3);
  for (const llvm::json::Value &pair : *runs) {
    const llvm::json::Object *off = pair.getAsObject()->getObject("off"),
                             *on = pair.getAsObject()->getObject("on");
    REQUIRE(off);
    REQUIRE(on);
    CHECK(off->getInteger("gaps").value_or(0) >= 2 * 40);
    CHECK(off->getInteger("gaps") == on->getInteger("gaps"));
    CHECK(off->getInteger("time").value_or(0) > 0);
  }
}

TEST_CASE("--ab says that a program fails, and that one without operations has no gaps") {
  ScratchDirectory scratch;
  RunResult run = runProgram({tapebackProgram(), "record", "--ab", "3", "--json", "--target", "null:", "-o",
                              scratch.file("t.tape"), "--", "false"});
  REQUIRE_MESSAGE(run.exited(0), run);
  llvm::json::Object json = jsonOf(run);
  const llvm::json::Object *ab = json.getObject("ab");
  REQUIRE(ab);
  CHECK(ab->getObject("failure_rate_off")->getNumber("value") == 1);
  CHECK(ab->getObject("failure_rate_on")->getNumber("value") == 1);
  const llvm::json::Value *gap = ab->get("gap_p50_ratio");
  REQUIRE(gap);
  CHECK(gap->kind() == llvm::json::Value::Null);
  RunResult text = runProgram({tapebackProgram(), "record", "--ab", "3", "--force", "--target", "null:", "-o",
                               scratch.file("t.tape"), "--", "false"});
  REQUIRE_MESSAGE(text.exited(0), text);
  CHECK(text.out.find("3 pairs of runs") != std::string::npos);
  CHECK(text.out.find("no gaps to compare") != std::string::npos);
}

TEST_CASE("--ab shows what the program prints once, not in every run") {
  ScratchDirectory scratch;
  RunResult run =
      runProgram({tapebackProgram(), "record", "--ab", "3", "--target", "null:", "-o", scratch.file("t.tape"),
                  "--", "sh", "-c", "echo spoken; echo $$ >> \"$0\"", scratch.file("runs")});
  REQUIRE_MESSAGE(run.exited(0), run);
  CHECK(llvm::StringRef(run.out).count("spoken") == 0);
  CHECK(llvm::StringRef(run.err).count("spoken") == 1);
  std::ifstream runs(scratch.file("runs"));
  CHECK(std::count(std::istreambuf_iterator<char>(runs), {}, '\n') == 7);
}

TEST_CASE("--ab with too few pairs launches nothing") {
  ScratchDirectory scratch;
  for (const char *pairs : {"0", "2", "1001"}) {
    RunResult run = runProgram(recordCommand(scratch.file("t.tape"), {"threads", "1", "1"}, {"--ab", pairs}));
    CHECK_MESSAGE(run.exited(2), run);
    CHECK(!std::filesystem::exists(scratch.file("t.tape")));
  }
}
