// What is around a replay, and diff, as a user runs them: many runs, a second target, the prompt by a pipe,
// the lab's commands, a part of a tape, a dry run.
#include "format/TapeReader.h"
#include "tests/tools/RunJson.h"
#include "tests/tools/SampleTape.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;
using namespace tapeback;
using namespace tapeback::test;

namespace {

const std::string eduTape = TAPEBACK_SOURCE_DIR "/tests/golden/v1-edu.tape";
const std::string minnowTape = TAPEBACK_SOURCE_DIR "/tests/golden/v2-minnow.tape";
const std::string goodEdu = "model:edu", badEdu = "model:edu?fault=factorial&operand=3";

RunResult withInput(std::vector<std::string> args, const std::string &input) {
  RunOptions options;
  options.input = input;
  return runTapeback(std::move(args), options);
}

int64_t inside(const JsonResult &result, StringRef object, StringRef key) {
  const json::Object *inner = result.at(object);
  REQUIRE_MESSAGE(inner, result.run);
  return inner->getInteger(key).value_or(-1);
}

} // namespace

TEST_CASE("replay --repeat: outcomes in order, rate, interval and places") {
  JsonResult good = runJson({"replay", eduTape, "--target", goodEdu, "--repeat", "3"});
  CHECK_MESSAGE(good.run.exited(0), good.run);
  const json::Object *repeat = good.at("repeat");
  REQUIRE(repeat);
  CHECK(repeat->getString("order") == "...");
  CHECK(repeat->getObject("rate")->getString("interval") == "wilson");
  CHECK(repeat->getObject("rate")->getInteger("counted") == 3);
  for (const json::Object *half :
       {repeat->getObject("first_half"), repeat->getObject("rate")->getObject("first_half")}) {
    REQUIRE(half);
    CHECK(half->getInteger("counted") == 1);
  }

  // {run} is the number of the run: only the run whose number is the operand shows the fault.
  JsonResult some =
      runJson({"replay", eduTape, "--target", "model:edu?fault=factorial&operand={run}", "--repeat", "5"});
  CHECK_MESSAGE(some.run.exited(1), some.run);
  repeat = some.at("repeat");
  REQUIRE(repeat);
  StringRef order = repeat->getString("order").value_or("");
  CHECK(order.size() == 5);
  CHECK(order[3] == 'o');
  CHECK(inside(some, "repeat", "runs") == 5);
  REQUIRE(repeat->getArray("histogram"));
  CHECK(!repeat->getArray("histogram")->empty());
  CHECK(repeat->getArray("list")->size() == 5);
  RunResult text = runTapeback({"replay", eduTape, "--target", badEdu, "--repeat", "2"});
  CHECK_MESSAGE(text.exited(1), text);
  CHECK_MESSAGE(StringRef(text.out).contains("diverged 2 of 2: 100.0 %"), text);
  CHECK_MESSAGE(StringRef(text.out).contains("order: oo"), text);
}

TEST_CASE("replay --repeat: what makes no sense with it is bad usage") {
  for (std::vector<std::string> args : {std::vector<std::string>{"--repeat", "0"},
                                        {"--repeat", "100001"},
                                        {"--repeat", "2", "--prompt"},
                                        {"--repeat", "2", "--on-divergence", "ask"},
                                        {"--repeat", "2", "--wave", "/tmp/tapeback-never.vcd"},
                                        {"--allow-exec"}}) {
    args.insert(args.begin(), {"replay", eduTape, "--target", goodEdu});
    RunResult result = runTapeback(args);
    CHECK_MESSAGE(result.exited(2), result);
    CHECK(StringRef(result.err).count(": error: ") == 1);
  }
}

TEST_CASE("replay --shadow: two that agree, and two that do not") {
  JsonResult same = runJson({"replay", eduTape, "--target", goodEdu, "--shadow", goodEdu});
  CHECK_MESSAGE(same.run.exited(0), same.run);
  const json::Object *shadow = same.at("shadow");
  REQUIRE(shadow);
  CHECK(shadow->getBoolean("differs") == false);
  CHECK(inside(same, "shadow", "windows") == same.number("windows"));
  CHECK(inside(same, "shadow", "states_compared") > 10);
  REQUIRE(shadow->getObject("coverage"));
  CHECK(shadow->getObject("coverage")->getBoolean("memory") == true);

  JsonResult other = runJson({"replay", eduTape, "--target", goodEdu, "--shadow", badEdu});
  CHECK_MESSAGE(other.run.exited(1), other.run);
  CHECK(other.at("shadow")->getBoolean("differs") == true);
  REQUIRE(other.at("shadow")->getObject("first_answer"));
  CHECK(other.at("shadow")->getObject("first_answer")->getString("register") == "FACTORIAL");
  CHECK(other.object.get("first_divergence")->kind() == json::Value::Null); // The target is as the tape.

  JsonResult silent = runJson({"replay", eduTape, "--target", goodEdu, "--shadow", "null:"});
  CHECK_MESSAGE(silent.run.exited(5), silent.run);
}

TEST_CASE("replay --prompt: driven by a pipe") {
  RunResult result =
      withInput({"replay", eduTape, "--target", goodEdu, "--until", "w5", "--prompt"},
                "read STATUS\nstep command\nwho FACTORIAL\nmodel read STATUS\nnonsense\nquit\n");
  CHECK_MESSAGE(result.exited(0), result);
  StringRef out = result.out;
  CHECK_MESSAGE(out.contains("window 6, before packet "), result);
  CHECK_MESSAGE(out.contains("STATUS = 0x"), result);
  CHECK_MESSAGE(out.contains("register-write FACTORIAL"), result);
  CHECK_MESSAGE(out.contains("error: there is no second target"), result);
  CHECK_MESSAGE(out.contains("error: there is no command 'nonsense'"), result);
  CHECK_MESSAGE(out.contains(": match"), result);
  // Input that ends, that never ends in a line, and that is not text.
  CHECK(withInput({"replay", eduTape, "--target", goodEdu, "--prompt"}, "").exited(0));
  CHECK(withInput({"replay", eduTape, "--target", goodEdu, "--prompt"}, std::string(1 << 20, 'x')).exited(0));
  CHECK(withInput({"replay", eduTape, "--target", goodEdu, "--prompt"}, std::string("\0\xff\n\r\n", 5))
            .exited(0));
  // Behind a difference; what was played differs.
  RunResult asked =
      withInput({"replay", eduTape, "--target", badEdu, "--on-divergence", "ask"}, "differences\n");
  CHECK_MESSAGE(asked.exited(1), asked);
  CHECK_MESSAGE(StringRef(asked.out).contains("stopped: window "), asked);
  CHECK_MESSAGE(StringRef(asked.out).contains("1 packets differ"), asked);
  // With --json standard output is the object's alone.
  RunOptions options;
  options.input = "read STATUS\ncontinue\n";
  JsonResult object = runJson({"replay", eduTape, "--target", goodEdu, "--until", "w5", "--prompt"}, options);
  CHECK_MESSAGE(object.run.exited(0), object.run);
  CHECK(StringRef(object.run.err).contains("STATUS = 0x"));
}

TEST_CASE("replay --range: a part of the tape, and its numbers are the whole tape's") {
  JsonResult part = runJson({"replay", eduTape, "--target", goodEdu, "--range", "w5..w9"});
  CHECK_MESSAGE(part.run.exited(0), part.run);
  REQUIRE(part.at("range"));
  CHECK(inside(part, "range", "first_packet") > 0);
  CHECK(part.number("packets") < 100);

  JsonResult whole = runJson({"replay", eduTape, "--target", badEdu});
  REQUIRE(whole.at("first_divergence"));
  int64_t packet = inside(whole, "first_divergence", "packet"),
          window = inside(whole, "first_divergence", "window");
  JsonResult bad = runJson({"replay", eduTape, "--target", badEdu, "--range",
                            "w" + std::to_string(window - 1) + "..w" + std::to_string(window)});
  CHECK_MESSAGE(bad.run.exited(1), bad.run);
  CHECK(inside(bad, "first_divergence", "packet") == packet);
  CHECK(inside(bad, "first_divergence", "window") == window);
  CHECK(bad.number("packets") < whole.number("packets"));
  RunResult none = runTapeback({"replay", eduTape, "--target", goodEdu, "--range", "w5000"});
  CHECK_MESSAGE(none.exited(2), none);
}

TEST_CASE("replay --range --repeat: the way is played once, and every run says how it began") {
  JsonResult whole = runJson({"replay", eduTape, "--target", badEdu});
  REQUIRE(whole.at("first_divergence"));
  int64_t packet = inside(whole, "first_divergence", "packet"),
          window = inside(whole, "first_divergence", "window");
  std::string range = "w" + std::to_string(window - 1) + "..w" + std::to_string(window);
  // The fault acts behind the snapshot, in every run; with another target each run there is no snapshot.
  for (const auto &[target, snapshots] :
       {std::pair(badEdu, 2), std::pair(badEdu + "&timeout=6000{run}", 0)}) {
    JsonResult result = runJson({"replay", eduTape, "--target", target, "--range", range, "--repeat", "3"});
    CHECK_MESSAGE(result.run.exited(1), result.run);
    const json::Object *repeat = result.at("repeat");
    REQUIRE(repeat);
    CHECK(repeat->getString("order") == "ooo");
    REQUIRE(repeat->getArray("histogram")->size() == 1);
    const json::Object *place = (*repeat->getArray("histogram"))[0].getAsObject();
    CHECK(place->getInteger("packet") == packet);
    CHECK(place->getInteger("count") == 3);
    CHECK(repeat->getObject("starts")->getInteger("snapshot") == snapshots);
    CHECK(repeat->getObject("snapshot")->getBoolean("verified") == (snapshots > 0));
    CHECK(repeat->getObject("snapshot")->getString("why_not").has_value() == (snapshots == 0));
    const json::Object *last = repeat->getArray("list")->back().getAsObject();
    CHECK((last->getString("start") == "snapshot") == (snapshots > 0));
  }
  RunResult text = runTapeback({"replay", minnowTape, "--target", "model:minnow", "--range", "w10..w12",
                                "--repeat", "3", "--relocate", "reverse"});
  CHECK_MESSAGE(text.exited(0), text);
  CHECK_MESSAGE(StringRef(text.out).contains("snapshot 2\n"), text);
  CHECK_MESSAGE(StringRef(text.out).contains("showed the same state"), text);
}

TEST_CASE("replay --lab: commands run only if allowed, and a replay follows only if they succeed") {
  ScratchDirectory scratch;
  std::string lab = scratch.file("lab.yaml"), log = scratch.file("log");
  auto write = [&](const std::string &script) {
    writeWholeFile(lab, "tapeback-lab: 1\nhooks:\n"
                        "  - {name: power-cycle, run: [/bin/sh, -c, '" +
                            script +
                            "']}\n"
                            "before-run: [power-cycle]\n");
  };
  write("echo $TAPEBACK_HOOK $TAPEBACK_TARGET $TAPEBACK_RUN >> " + log);
  RunResult refused = runTapeback({"replay", eduTape, "--target", goodEdu, "--lab", lab});
  CHECK_MESSAGE(refused.exited(2), refused);
  CHECK_MESSAGE(StringRef(refused.err).contains("--allow-exec"), refused);
  JsonResult dry = runJson({"replay", eduTape, "--target", goodEdu, "--lab", lab, "--dry-run"});
  CHECK_MESSAGE(dry.run.exited(0), dry.run);
  REQUIRE(dry.object.getArray("commands"));
  CHECK(dry.object.getArray("commands")->size() == 1);
  CHECK(scratch.names() == std::vector<std::string>{"lab.yaml"}); // Nothing has run so far.
  JsonResult allowed =
      runJson({"replay", eduTape, "--target", goodEdu, "--lab", lab, "--allow-exec", "--repeat", "2"});
  CHECK_MESSAGE(allowed.run.exited(0), allowed.run);
  CHECK(readWholeFile(log) == "power-cycle model:edu 0\npower-cycle model:edu 1\n");
  REQUIRE(allowed.object.getArray("hooks"));
  CHECK(allowed.object.getArray("hooks")->size() == 2);
  write("echo no power; exit 3");
  JsonResult failed = runJson({"replay", eduTape, "--target", goodEdu, "--lab", lab, "--allow-exec"});
  CHECK_MESSAGE(failed.run.exited(4), failed.run);
  CHECK(failed.errorCode() == "hook-failed");
  CHECK(StringRef(failed.run.err).contains("no power"));
  writeWholeFile(lab,
                 "tapeback-lab: 1\nforbidden:\n  - {name: liveness, space: bar0, first: 0x4, last: 0x7}\n");
  for (bool dryRun : {false, true}) {
    std::vector<std::string> args{"replay", eduTape, "--target", goodEdu, "--lab", lab};
    if (dryRun)
      args.push_back("--dry-run");
    JsonResult guarded = runJson(args);
    CHECK_MESSAGE(guarded.run.exited(2), guarded.run);
    CHECK(guarded.errorCode() == "forbidden-write");
    CHECK_MESSAGE(StringRef(guarded.run.err).contains("at packet "), guarded.run);
    args.insert(args.end(), {"--allow-register", "liveness"});
    CHECK(runTapeback(args).exited(0));
  }
  writeWholeFile(lab, "tapeback-lab: 1\nhoks: []\n");
  RunResult wrong = runTapeback({"replay", eduTape, "--target", goodEdu, "--lab", lab, "--allow-exec"});
  CHECK_MESSAGE(wrong.exited(2), wrong);
  CHECK_MESSAGE(StringRef(wrong.err).contains("lab.yaml"), wrong);
}

TEST_CASE("replay: registers are read after a failure, and only then") {
  JsonResult good = runJson({"replay", eduTape, "--target", goodEdu});
  CHECK(good.object.get("post_mortem")->kind() == json::Value::Null);
  CHECK(good.at("reset")->getBoolean("trusted") == true);
  JsonResult bad = runJson({"replay", eduTape, "--target", badEdu});
  REQUIRE(bad.at("post_mortem"));
  REQUIRE(bad.at("post_mortem")->getArray("registers"));
  CHECK(bad.at("post_mortem")->getArray("registers")->size() == 6);
  RunResult text = runTapeback({"replay", eduTape, "--target", badEdu});
  CHECK_MESSAGE(StringRef(text.out).contains("post-mortem:\n  STATUS = 0x"), text);
}

TEST_CASE("replay --dry-run: every kind of side effect, in groups") {
  JsonResult dry = runJson({"replay", eduTape, "--dry-run"});
  CHECK_MESSAGE(dry.run.exited(0), dry.run);
  const json::Array *effects = dry.object.getArray("effects");
  REQUIRE(effects);
  std::map<std::string, int64_t> kinds;
  for (const json::Value &effect : *effects)
    kinds[effect.getAsObject()->getString("effect").value_or("").str()] +=
        effect.getAsObject()->getInteger("count").value_or(0);
  for (const char *kind : {"reset-at-start", "fingerprint-read", "register-write", "memory-write",
                           "memory-map", "wait", "post-mortem-read"})
    CHECK_MESSAGE(kinds[kind] > 0, kind);
  CHECK(effects->size() < 100);
  RunResult text = runTapeback({"replay", eduTape, "--dry-run"});
  CHECK_MESSAGE(StringRef(text.out).contains("register-write bar0 FACTORIAL = 0x"), text);
  CHECK(StringRef(text.out).contains("nothing was touched"));
}

TEST_CASE(
    "replay --explain-policy: every register's policy, every rule, and counts that add up to the tape") {
  JsonResult explained = runJson({"replay", eduTape, "--target", badEdu, "--explain-policy"});
  CHECK_MESSAGE(explained.run.exited(1), explained.run);
  const json::Object *policy = explained.at("policy");
  REQUIRE(policy);
  int64_t packets = 0, byRule = 0;
  auto count = [&](const json::Object &row) {
    int64_t sum = 0;
    for (const auto &rule : *row.getObject("rules"))
      sum += rule.second.getAsInteger().value_or(0);
    return sum;
  };
  std::map<std::string, const json::Object *> registers;
  for (const json::Value &row : *policy->getArray("registers")) {
    registers[row.getAsObject()->getString("register").value_or("").str()] = row.getAsObject();
    packets += count(*row.getAsObject());
  }
  for (const json::Value &row : *policy->getArray("kinds"))
    packets += count(*row.getAsObject());
  for (const json::Value &row : *policy->getArray("rules"))
    byRule += row.getAsObject()->getInteger("packets").value_or(-1);
  CHECK(packets == explained.number("packets_replayed"));
  CHECK(byRule == explained.number("packets_replayed"));
  REQUIRE(registers.count("FACTORIAL"));
  CHECK(registers["FACTORIAL"]->getString("policy") == "compare");
  CHECK(registers["FACTORIAL"]->getString("class") == "stable");
  CHECK(registers["FACTORIAL"]->getObject("rules")->getInteger("value").value_or(0) == 1);
  REQUIRE(registers.count("STATUS"));
  CHECK(registers["STATUS"]->getString("policy") == "mask");
  CHECK(registers["STATUS"]->getString("compared") == "0xfffffffe");
  JsonResult good = runJson({"replay", eduTape, "--target", goodEdu, "--explain-policy"});
  for (const json::Value &row : *good.at("policy")->getArray("registers"))
    CHECK_FALSE(row.getAsObject()->getObject("rules")->getInteger("value"));
  CHECK_FALSE(runJson({"replay", eduTape, "--target", goodEdu}).at("policy"));

  RunResult text = runTapeback({"replay", eduTape, "--target", badEdu, "--explain-policy"});
  CHECK_MESSAGE(text.exited(1), text);
  StringRef out = text.out;
  CHECK_MESSAGE(out.contains("policies, and how many packets each rule decided:\n"), text);
  CHECK_MESSAGE(out.contains("FACTORIAL (bar0+0x8, stable, compare, compared 0xffffffff, polled 0xffffffff)"),
                text);
  CHECK_MESSAGE(out.contains(", 1 value"), text);
  CHECK_MESSAGE(out.contains("  mismatch value 1: "), text);
  // Registers that the tape leaves alone are listed, too.
  RunResult minnow = runTapeback({"replay", minnowTape, "--target", "model:minnow", "--explain-policy"});
  CHECK_MESSAGE(minnow.exited(0), minnow);
  CHECK_MESSAGE(StringRef(minnow.out)
                    .contains("TIME_HI (bar0+0x54, timestamp, ignore, compared 0x0, polled 0x0)  no packet"),
                minnow);
}

TEST_CASE("diff: exit codes, places on both tapes, text and JSON") {
  JsonResult same = runJson({"diff", eduTape, eduTape});
  CHECK_MESSAGE(same.run.exited(0), same.run);
  CHECK(same.object.get("first_divergence")->kind() == json::Value::Null);
  CHECK(same.number("aligned") == same.number("exact"));
  CHECK(same.number("total") == 0);

  ScratchDirectory scratch;
  SampleOptions options;
  options.failing = false;
  options.operations = 4;
  writeSampleTape(scratch.file("a.tape"), options);
  options.failing = true;
  writeSampleTape(scratch.file("b.tape"), options);
  JsonResult failing = runJson({"diff", scratch.file("a.tape"), scratch.file("b.tape")});
  CHECK_MESSAGE(failing.run.exited(1), failing.run);
  REQUIRE(failing.at("first_divergence"));
  CHECK(failing.at("first_divergence")->getString("kind") == "oracle");
  CHECK(failing.at("first_divergence")->get("good"));
  CHECK(failing.at("first_divergence")->get("bad"));
  CHECK(inside(failing, "counts", "check") == 1);
  options.operations = 5;
  options.failing = false;
  writeSampleTape(scratch.file("c.tape"), options);
  JsonResult longer = runJson({"diff", scratch.file("a.tape"), scratch.file("c.tape")});
  CHECK_MESSAGE(longer.run.exited(1), longer.run);
  // The operations differ in what they write, too, where they are not the same ones.
  CHECK(inside(longer, "counts", "inserted") == int64_t(samplePerOperation));
  options.operations = 4;
  options.loss = true;
  writeSampleTape(scratch.file("d.tape"), options);
  JsonResult lost = runJson({"diff", scratch.file("a.tape"), scratch.file("d.tape")});
  CHECK_MESSAGE(lost.run.exited(5), lost.run);

  RunResult text = runTapeback({"diff", scratch.file("a.tape"), scratch.file("b.tape")});
  CHECK_MESSAGE(StringRef(text.out).contains("first divergence: check: window "), text);
  writeWholeFile(scratch.file("e.tape"), "not a tape");
  for (bool second : {false, true}) {
    RunResult foreign = runTapeback(
        {"diff", second ? eduTape : scratch.file("e.tape"), second ? scratch.file("e.tape") : eduTape});
    CHECK_MESSAGE(foreign.exited(3), foreign);
    CHECK_MESSAGE(StringRef(foreign.err).contains("e.tape"), foreign);
  }
  CHECK(runTapeback({"diff", eduTape}).exited(2));
  CHECK(runTapeback({"diff", eduTape, eduTape, "--limit", "0"}).exited(2));
}

TEST_CASE("diff: two recordings of one device's tapes, with commands") {
  JsonResult same = runJson({"diff", minnowTape, minnowTape});
  CHECK(inside(same, "counts", "deleted") == 0);
  CHECK(same.number("total") == 0);
  CHECK_MESSAGE((same.run.exited(0) || same.run.exited(5)), same.run);
  JsonResult foreign = runJson({"diff", eduTape, minnowTape});
  CHECK_MESSAGE(foreign.run.exited(1), foreign.run);
  CHECK(foreign.number("aligned") == 0);
}
