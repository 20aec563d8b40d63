// tapeback trigger: checks trigger files, and carries them out over tapes.
#include "format/Failure.h"
#include "replayer/CaptureTape.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/PacketPrinter.h"
#include "tools/Range.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include "tools/verbs/TriggerTape.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace tapeback {
namespace triggers {
namespace {

constexpr VerbHelp triggerHelp = {
    "trigger",
    "Check a trigger file, or carry it out over tapes",
    "check|run|explain|coverage FILE [TAPE…] [options]",
    "FILE is in the trigger language (triggers/LANGUAGE.md; examples in triggers/library).\n"
    "  check     compiles FILE for a device (--description) and says where it is wrong; without a device,\n"
    "            register and command names are not known\n"
    "  run       shows every TAPE to FILE: what fires, where and why; with -o, captures become tapes of "
    "exactly\n"
    "            the packets asked for\n"
    "  explain   for the packets of --range, in which state each trigger is, which rules were looked at, "
    "and\n"
    "            which predicate failed with which values\n"
    "  coverage  which states, rules and predicates have ever been exercised by these tapes\n"
    "Commands (exec), markers, stops and snapshots are listed and never carried out on a tape.\n",
    "  tapeback trigger check hang.trig --description minnow\n"
    "  tapeback trigger run hang.trig run.tape -o captures\n"
    "  tapeback trigger explain hang.trig run.tape --range p100..p120\n"
    "  tapeback trigger coverage hang.trig *.tape --json\n",
    "  0  done (run: with --expect fired or silent, it did or was)\n"
    "  1  run: what --expect wants does not hold\n"
    "  2  bad usage, or FILE is wrong: nothing was read\n"
    "  3  a tape is damaged\n"
    "  5  a content that a predicate needs is not on the tape, or a bound was met\n"};

struct TriggerCommand {
  TriggerFile file;
  std::vector<std::string> tapes;
  DescriptionPointer description;
  std::string out, expect, range;
  uint64_t limit = 0, prefix = 0;
  bool allowExec = false, force = false;
};

std::string placeText(const Program &program, SourceRange where) {
  StringRef before = StringRef(program.source).take_front(where.offset);
  size_t line = before.count('\n') + 1, begin = before.rfind('\n');
  size_t column = begin == StringRef::npos ? before.size() + 1 : before.size() - begin;
  return std::to_string(line) + ":" + std::to_string(column);
}

void writeTriggerDiagnostics(json::OStream &os, ArrayRef<Diagnostic> diagnostics) {
  os.attributeArray("diagnostics", [&] {
    for (const Diagnostic &diagnostic : diagnostics)
      os.object([&] {
        os.attribute("severity", diagnostic.severity == Diagnostic::Severity::Error ? "error" : "warning");
        os.attribute("line", diagnostic.line);
        os.attribute("column", diagnostic.column);
        os.attribute("length", diagnostic.length);
        os.attribute("message", json::fixUTF8(diagnostic.message));
        os.attribute("hint", json::fixUTF8(diagnostic.hint));
      });
  });
}

//===- check -----------------------------------------------------------------------------------------===//

int checkTriggers(Report &report, const TriggerCommand &command) {
  CompileOptions options;
  options.devices.push_back({"", command.description.get()});
  options.allowExec = command.allowExec;
  Compilation compilation = compileTriggers(command.file.text, options);
  int code = compilation.program ? 0 : 2;
  if (report.json()) {
    report.verdict(code);
    report.object().attribute("file", json::fixUTF8(command.file.path));
    writeTriggerDiagnostics(report.object(), compilation.diagnostics);
  } else {
    for (const Diagnostic &diagnostic : compilation.diagnostics)
      if (diagnostic.severity == Diagnostic::Severity::Warning)
        errs() << formatDiagnostic(diagnostic, command.file.path) << "\n";
  }
  if (!compilation.program) {
    Failure failure = toFailure(diagnosticsFailure(compilation.diagnostics, command.file.path));
    report.error(failure);
    return report.finish(code);
  }
  const Program &program = *compilation.program;
  if (report.json()) {
    json::OStream &os = report.object();
    os.attributeArray("triggers", [&] {
      for (const Trigger &trigger : program.triggers)
        os.object([&] {
          os.attribute("name", trigger.name);
          os.attribute("text", json::fixUTF8(trigger.text));
          os.attribute("states", trigger.states.count);
          os.attribute("cost", trigger.cost);
        });
    });
    os.attribute("cost", program.cost);
    os.attribute("memory_bytes", program.memoryBytes);
    return report.finish(code);
  }
  for (const Trigger &trigger : program.triggers)
    outs() << trigger.name << ": " << trigger.states.count
           << (trigger.states.count == 1 ? " state" : " states") << ", at most " << trigger.cost
           << " steps a packet" << (trigger.text.empty() ? "" : "; " + quoteUntrusted(trigger.text)) << "\n";
  outs() << "together at most " << program.cost << " steps a packet, " << program.memoryBytes
         << " bytes for tables and statistics\n";
  return report.finish(code);
}

//===- run -------------------------------------------------------------------------------------------===//

struct RunTotals {
  uint64_t fired = 0, captures = 0;
  int exit = 0;
};

std::string captureName(StringRef tape, const Trigger &trigger, uint64_t number) {
  return (sys::path::stem(tape) + "-" + trigger.name + "-" + Twine(number) + ".tape").str();
}

struct FiredOnTape {
  TriggerTape::Fired fired;
  std::optional<CaptureExtent> extent;
  std::string path; ///< Of its capture; empty if none was written.
};

Error resolveCaptures(TriggerTape &tape, StringRef path, const TriggerCommand &command,
                      std::vector<FiredOnTape> &all) {
  std::map<uint32_t, uint64_t> numbers;
  std::map<uint32_t, std::string> said; // A capture is marked with what was said last.
  uint64_t written = 0;
  for (FiredOnTape &one : all) {
    const Output &output = one.fired.output;
    if (output.op == ActionOp::Fire)
      said[output.trigger] = one.fired.text;
    if (output.op != ActionOp::Capture || !tape.source().reader().summary().packets)
      continue;
    const Trigger &trigger = tape.program().triggers[output.trigger];
    const Action &action = tape.program().actions[output.action];
    const std::vector<bool> *kept = trigger.keep == noIndex ? nullptr : &tape.keeping()[output.trigger];
    uint64_t point = output.packet == noPacket ? 0 : output.packet;
    TapeHistory history(tape.source().reader(), kept);
    Expected<CaptureExtent> extent = resolveCapture(history, point, output.time, action.pre, action.post);
    if (!extent)
      return extent.takeError();
    one.extent = *extent;
    if (command.out.empty() || written >= command.limit)
      continue;
    SmallString<256> out(command.out);
    sys::path::append(out, captureName(path, trigger, ++numbers[output.trigger]));
    if (Error error = checkOutputFile(out, path, command.force))
      return error;
    CaptureRequest request;
    request.first = extent->first;
    request.last = extent->last;
    request.point = point;
    request.text = trigger.name + ": " + said[output.trigger];
    request.shortness = shortText(*extent, action.pre, action.post);
    request.derivation = "capture p" + std::to_string(extent->first) + "..p" + std::to_string(extent->last) +
                         " of " + request.text + " (" + extentText(*extent, action.pre, action.post) + ")";
    std::vector<bool> wanted;
    if (kept) {
      for (uint64_t at = extent->first; at <= extent->last; ++at)
        wanted.push_back(at < kept->size() && (*kept)[at]);
      request.kept = &wanted;
    }
    request.maxPrefix = command.prefix;
    Expected<CaptureTape> capture = writeCaptureTape(tape.source(), out, request);
    if (!capture)
      return capture.takeError();
    ++written;
    one.path = std::string(out);
  }
  return Error::success();
}

std::string packetText(const Output &output) {
  return output.packet == noPacket ? "start" : "p" + std::to_string(output.packet);
}

void printFired(raw_ostream &os, const Program &program, const FiredOnTape &one) {
  const Output &output = one.fired.output;
  os << "  " << packetText(output) << "  " << program.triggers[output.trigger].name;
  if (program.triggers[output.trigger].states.count > 1)
    os << " in " << program.states[output.state].name;
  os << ": " << one.fired.text;
  if (one.extent)
    os << " p" << one.extent->first << "..p" << one.extent->last << ", " << one.extent->pre << " before"
       << (one.extent->preShort ? " (short: the tape begins)" : "") << ", " << one.extent->post << " behind"
       << (one.extent->postShort ? " (short: the tape ends)" : "");
  if (!one.path.empty())
    os << " -> " << one.path;
  bool wish = output.op == ActionOp::Exec || output.op == ActionOp::Marker || output.op == ActionOp::Stop ||
              output.op == ActionOp::Snapshot;
  os << (wish ? " (not executed: this is a tape)" : "") << "\n";
}

void writeFired(json::OStream &os, const Program &program, const FiredOnTape &one) {
  static constexpr const char *names[] = {"fire", "capture", "marker", "stop", "snapshot", "exec"};
  const Output &output = one.fired.output;
  os.object([&] {
    os.attribute("trigger", program.triggers[output.trigger].name);
    os.attribute("state", program.states[output.state].name);
    os.attribute("action", names[unsigned(output.op) - unsigned(ActionOp::Fire)]);
    os.attribute("rule", output.rule == noIndex
                             ? json::Value(nullptr)
                             : json::Value(placeText(program, program.rules[output.rule].where)));
    os.attribute("packet", output.packet == noPacket ? json::Value(nullptr) : json::Value(output.packet));
    os.attribute("time", output.time);
    os.attribute("text", json::fixUTF8(one.fired.text));
    if (!one.extent)
      return;
    os.attribute("first", one.extent->first);
    os.attribute("last", one.extent->last);
    os.attribute("pre", one.extent->pre);
    os.attribute("post", one.extent->post);
    os.attribute("pre_short", one.extent->preShort);
    os.attribute("post_short", one.extent->postShort);
    os.attribute("tape", one.path.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(one.path)));
  });
}

Error runOnTape(Report &report, const TriggerCommand &command, const std::string &path, RunTotals &totals) {
  Expected<std::unique_ptr<TriggerTape>> opened = TriggerTape::open(path, command.file, command.description);
  if (!opened)
    return opened.takeError();
  TriggerTape &tape = **opened;
  constexpr size_t mostListed = 100'000;
  std::vector<FiredOnTape> all;
  uint64_t outputs = 0;
  if (Error error = tape.run(
          nullptr, ~uint64_t(0), [](uint64_t, const Packet &, const Evaluator &) {},
          [&](const TriggerTape::Fired &fired) {
            ++outputs;
            totals.fired += fired.output.op == ActionOp::Fire || fired.output.op == ActionOp::Capture;
            if (all.size() < std::min<uint64_t>(mostListed, command.limit))
              all.push_back({fired, std::nullopt, {}});
          }))
    return error;
  if (Error error = resolveCaptures(tape, path, command, all))
    return error;
  for (const FiredOnTape &one : all)
    totals.captures += !one.path.empty();
  const Evaluator::Shortfalls &missed = tape.shortfalls();
  if (missed.any())
    totals.exit = worseExit(totals.exit, missed.contents || missed.deadlines || missed.raises ? 5 : 0);
  if (report.json()) {
    json::OStream &os = report.object();
    os.object([&] {
      os.attribute("tape", json::fixUTF8(path));
      os.attribute("packets", tape.source().reader().summary().packets);
      os.attribute("outputs", outputs);
      os.attributeArray("fired", [&] {
        for (const FiredOnTape &one : all)
          writeFired(os, tape.program(), one);
      });
      os.attribute("truncated", outputs > all.size());
      os.attributeObject("not_done", [&] {
        os.attribute("deadlines_late", missed.deadlines);
        os.attribute("raises", missed.raises);
        os.attribute("evictions", missed.evictions);
        os.attribute("contents", missed.contents);
      });
    });
    return Error::success();
  }
  outs() << path << ": " << tape.source().reader().summary().packets << " packets, "
         << (outputs ? std::to_string(outputs) + " actions" : "nothing fired") << "\n";
  for (const FiredOnTape &one : all)
    printFired(outs(), tape.program(), one);
  if (outputs > all.size())
    outs() << "  … and " << outputs - all.size() << " more (--limit)\n";
  if (missed.any())
    outs() << "  not done: " << missed.contents << " contents missing, " << missed.evictions
           << " entries dropped from full tables, " << missed.deadlines << " deadlines late, "
           << missed.raises << " raises\n";
  return Error::success();
}

int runTriggers(Report &report, const TriggerCommand &command) {
  RunTotals totals;
  std::optional<Failure> failure;
  auto each = [&] {
    for (const std::string &path : command.tapes)
      if (Error error = runOnTape(report, command, path, totals)) {
        failure = toFailure(std::move(error));
        return;
      }
  };
  if (report.json())
    report.object().attributeArray("tapes", each);
  else
    each();
  if (failure)
    return report.fail(*failure);
  if (!command.expect.empty() && (command.expect == "fired") != (totals.fired > 0))
    totals.exit = worseExit(totals.exit, 1);
  if (report.json()) {
    report.verdict(totals.exit);
    report.object().attribute("fired", totals.fired);
    report.object().attribute("captures", totals.captures);
  }
  return report.finish(totals.exit);
}

//===- explain ---------------------------------------------------------------------------------------===//

struct ExplainedPacket {
  uint64_t packet = 0;
  std::vector<RuleExplanation> rules;
  std::vector<Explanation::Entry> entries;
};

void printExplained(raw_ostream &os, const Program &program, const ExplainedPacket &one) {
  os << "p" << one.packet << "\n";
  for (const RuleExplanation &rule : one.rules) {
    const Rule &is = program.rules[rule.rule];
    os << "  " << program.triggers[rule.trigger].name << " in " << program.states[rule.state].name << ", "
       << placeText(program, is.where) << ": ";
    if (rule.fired)
      os << (rule.deadline ? "its time was over, fired before this packet\n" : "fired\n");
    else
      os << (rule.held ? "held, not fired: " : "not: ") << rule.why << "\n";
  }
  for (const Explanation::Entry &entry : one.entries)
    os << "  " << program.triggers[entry.trigger].name << " -> " << program.states[entry.state].name << "\n";
}

void writeExplained(json::OStream &os, const Program &program, const ExplainedPacket &one) {
  os.object([&] {
    os.attribute("packet", one.packet);
    os.attributeArray("rules", [&] {
      for (const RuleExplanation &rule : one.rules)
        os.object([&] {
          os.attribute("trigger", program.triggers[rule.trigger].name);
          os.attribute("state", program.states[rule.state].name);
          os.attribute("rule", placeText(program, program.rules[rule.rule].where));
          os.attribute("deadline", rule.deadline);
          os.attribute("held", rule.held);
          os.attribute("fired", rule.fired);
          os.attribute("why", json::fixUTF8(rule.why));
        });
    });
    os.attributeArray("entered", [&] {
      for (const Explanation::Entry &entry : one.entries)
        os.object([&] {
          os.attribute("trigger", program.triggers[entry.trigger].name);
          os.attribute("state", program.states[entry.state].name);
        });
    });
  });
}

int explainTriggers(Report &report, const TriggerCommand &command) {
  Expected<std::unique_ptr<TriggerTape>> opened =
      TriggerTape::open(command.tapes[0], command.file, command.description);
  if (!opened)
    return report.fail(opened.takeError());
  TriggerTape &tape = **opened;
  Expected<TapeRange> range = resolveRange(command.range, tape.source().reader());
  if (!range)
    return report.fail(range.takeError());
  uint64_t end = range->firstPacket + range->packetCount;
  Explanation explanation;
  uint64_t shown = 0;
  bool truncated = false;
  std::optional<Failure> failure;
  auto each = [&] {
    Error error = tape.run(
        &explanation, end,
        [&](uint64_t ordinal, const Packet &, const Evaluator &) {
          ExplainedPacket one{ordinal, explanation.takeRules(), explanation.takeEntries()};
          if (ordinal < range->firstPacket || (one.rules.empty() && one.entries.empty()))
            return;
          if (shown == command.limit) {
            truncated = true;
            return;
          }
          ++shown;
          if (report.json())
            writeExplained(report.object(), tape.program(), one);
          else
            printExplained(outs(), tape.program(), one);
        },
        [](const TriggerTape::Fired &) {});
    if (error)
      failure = toFailure(std::move(error));
  };
  if (report.json())
    report.object().attributeArray("packets", each);
  else
    each();
  if (failure)
    return report.fail(*failure);
  if (report.json()) {
    report.verdict(0);
    report.object().attribute("truncated", truncated);
  } else if (truncated) {
    outs() << "… and more (--limit)\n";
  } else if (!shown) {
    outs() << "no rule was looked at: none of these packets can concern a trigger\n";
  }
  return report.finish(0);
}

//===- coverage --------------------------------------------------------------------------------------===//

uint64_t exercised(const Coverage::Table &table, bool both) {
  uint64_t count = 0;
  for (const auto &[key, counts] : table)
    count += counts.yes && (!both || counts.no);
  return count;
}

void writeCoverage(json::OStream &os, StringRef key, const Coverage::Table &table, const Program &program,
                   const char *yes, const char *no) {
  os.attributeArray(key, [&] {
    for (const auto &[where, counts] : table)
      os.object([&] {
        os.attribute("trigger", counts.trigger);
        os.attribute("at", placeText(program, {counts.offset, 0}));
        os.attribute("text", json::fixUTF8(counts.text));
        os.attribute(yes, counts.yes);
        if (no)
          os.attribute(no, counts.no);
      });
  });
}

void printCoverage(raw_ostream &os, StringRef title, const Coverage::Table &table, const Program &program,
                   const char *yes, const char *no) {
  os << title << "\n";
  for (const auto &[where, counts] : table) {
    bool missing = !counts.yes || (no && StringRef(title) == "predicates" && !counts.no);
    os << (missing ? "  ! " : "    ") << left_justify(counts.trigger, 24) << " "
       << left_justify(placeText(program, {counts.offset, 0}), 8)
       << right_justify(std::to_string(counts.yes), 9) << " " << yes;
    if (no)
      os << right_justify(std::to_string(counts.no), 9) << " " << no;
    os << "  " << counts.text << "\n";
  }
}

int coverTriggers(Report &report, const TriggerCommand &command) {
  Coverage coverage;
  std::optional<Program> program;
  uint64_t packets = 0;
  int code = 0;
  for (const std::string &path : command.tapes) {
    Expected<std::unique_ptr<TriggerTape>> opened =
        TriggerTape::open(path, command.file, command.description);
    if (!opened)
      return report.fail(opened.takeError());
    coverage.add((*opened)->program());
    if (!program)
      program = (*opened)->program();
    if (Error error = (*opened)->run(
            &coverage, ~uint64_t(0), [&](uint64_t, const Packet &, const Evaluator &) { ++packets; },
            [](const TriggerTape::Fired &) {}))
      return report.fail(std::move(error));
    if ((*opened)->shortfalls().contents)
      code = 5;
  }
  const Coverage::Table &states = coverage.states(), &rules = coverage.rules(),
                        &predicates = coverage.predicates();
  if (report.json()) {
    json::OStream &os = report.object();
    report.verdict(code);
    os.attribute("tapes", command.tapes.size());
    os.attribute("packets", packets);
    os.attributeObject("covered", [&] {
      os.attribute("states", exercised(states, false));
      os.attribute("states_all", states.size());
      os.attribute("rules", exercised(rules, false));
      os.attribute("rules_all", rules.size());
      os.attribute("predicates", exercised(predicates, true));
      os.attribute("predicates_all", predicates.size());
    });
    writeCoverage(os, "states", states, *program, "entered", nullptr);
    writeCoverage(os, "rules", rules, *program, "fired", "in_vain");
    writeCoverage(os, "predicates", predicates, *program, "held", "failed");
    return report.finish(code);
  }
  outs() << packets << " packets of " << command.tapes.size() << " tapes: " << exercised(states, false)
         << " of " << states.size() << " states entered, " << exercised(rules, false) << " of "
         << rules.size() << " rules fired, " << exercised(predicates, true) << " of " << predicates.size()
         << " predicates seen both ways\n";
  printCoverage(outs(), "states", states, *program, "entered", nullptr);
  printCoverage(outs(), "rules", rules, *program, "fired", "in vain");
  printCoverage(outs(), "predicates", predicates, *program, "held", "failed");
  return report.finish(code);
}

} // namespace

static int runVerb(ArrayRef<const char *> args) {
  cl::opt<std::string> what(cl::Positional, cl::Required, cl::desc("check|run|explain|coverage"));
  cl::opt<std::string> file(cl::Positional, cl::Required, cl::desc("FILE"));
  cl::list<std::string> tapes(cl::Positional, cl::desc("TAPE…"));
  cl::opt<std::string> description("description",
                                   cl::desc("What registers and commands are called, instead of what the "
                                            "tape carries: a YAML file or an installed name"),
                                   cl::value_desc("D"));
  cl::opt<std::string> out("output", cl::desc("run: write captures as tapes into this directory"),
                           cl::value_desc("DIR"));
  cl::alias outShort("o", cl::desc("Short for --output"), cl::aliasopt(out), cl::NotHidden);
  NumberOption prefix("prefix",
                      cl::desc("run: put at most N packets in front of a capture (flagged as prefix) if it "
                               "needs them to be replayed (default: 0)"),
                      cl::value_desc("N"), cl::init(0));
  cl::opt<std::string> expect("expect", cl::desc("run: exit 1 unless something fired, or nothing did"),
                              cl::value_desc("fired|silent"));
  cl::opt<std::string> range("range",
                             cl::desc("explain: which packets (`tapeback dump --help`; default: all)"),
                             cl::value_desc("RANGE"), cl::init("start..end"));
  NumberOption limit("limit", cl::desc("List at most N actions a tape, or explain N packets (default: 1000)"),
                     cl::value_desc("N"), cl::init(1000));
  cl::opt<bool> force("force", cl::desc("run: write over captures that are in DIR already"));
  cl::opt<bool> allowExec("allow-exec", cl::desc("check: FILE may say `exec`"));
  CommandLine line(triggerHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("trigger", line.json());
  auto usage = [&](const char *code, const std::string &message, const char *where, const char *hint) {
    return report.fail(Failure(FailureClass::Usage, code, message, where, hint));
  };
  bool check = what == "check", run = what == "run", explain = what == "explain", cover = what == "coverage";
  if (!check && !run && !explain && !cover)
    return usage("bad-usage", "there is no 'trigger " + what + "'", "command line",
                 "use check, run, explain or coverage");
  if (check ? !tapes.empty() : explain ? tapes.size() != 1 : tapes.empty())
    return usage("bad-usage",
                 check     ? "check takes no tape"
                 : explain ? "explain takes one tape"
                           : "no tape",
                 "command line", "tapeback trigger --help");
  if (expect.getNumOccurrences() && (!run || (expect != "fired" && expect != "silent")))
    return usage("bad-option-value", "--expect belongs to run and is fired or silent", "--expect", "");
  if (out.getNumOccurrences() && !run)
    return usage("bad-usage", "-o belongs to run", "--output", "");
  if (force && !out.getNumOccurrences())
    return usage("bad-usage", "--force is about the captures of -o", "--force",
                 "give -o DIR, or leave it out");
  if (out.getNumOccurrences() && !sys::fs::is_directory(out.getValue()))
    return usage("bad-output", "'" + out + "' is no directory", "--output", "make it first");
  TriggerCommand command;
  Expected<TriggerFile> text = readTriggerFile(file);
  if (!text)
    return report.fail(text.takeError());
  command.file = std::move(*text);
  command.tapes.assign(tapes.begin(), tapes.end());
  command.out = out;
  command.expect = expect;
  command.range = range;
  command.limit = limit;
  command.prefix = prefix;
  command.allowExec = allowExec;
  command.force = force;
  if (description.getNumOccurrences()) {
    Expected<DescriptionPointer> loaded = loadDescription(description);
    if (!loaded)
      return report.fail(loaded.takeError());
    command.description = std::move(*loaded);
  }
  return check     ? checkTriggers(report, command)
         : run     ? runTriggers(report, command)
         : explain ? explainTriggers(report, command)
                   : coverTriggers(report, command);
}

} // namespace triggers

int runTrigger(ArrayRef<const char *> args) {
  return triggers::runVerb(args);
}

} // namespace tapeback
