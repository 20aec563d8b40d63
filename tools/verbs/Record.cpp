// tapeback record: runs a program that uses the C API, and writes what it and its devices say to each other.
#include "recorder/Perturbation.h"
#include "recorder/PreloadTargets.h"
#include "recorder/Program.h"
#include "recorder/RecordSession.h"
#include "tools/CommandLine.h"
#include "tools/Progress.h"
#include "tools/Report.h"
#include "tools/Verb.h"
#include "tools/verbs/RecordLive.h"
#include "llvm/Support/FileSystem.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp recordHelp = {
    "record",
    "Run a program and record what it and its devices say to each other",
    "(--target [ALIAS=]URI … | --preload) -o FILE [options] -- PROGRAM [ARGS]",
    "PROGRAM is any program that drives its device through Tapeback's C API (libtapeback.so); it chooses\n"
    "neither target nor output. The tape is closed properly however the program ends: an operation that "
    "never\n"
    "came back is on it as pending. SIGINT and SIGTERM are passed on to the program. If the recorder itself "
    "is\n"
    "killed, the program goes on, and `tapeback recover FILE.partial` makes a tape of what was written "
    "(with\n"
    "--flight nothing was: what is kept in memory is lost with the recorder).\n"
    "\n"
    "With --json the program's standard output goes to standard error.\n"
    "\n"
    "Conditions: begin | marker:NAME[#N] | write:REGISTER[=VALUE[/MASK]] | "
    "write:SPACE+OFFSET[=VALUE[/MASK]].\n"
    "A recording that starts late begins with a keyframe of the state at that point.\n"
    "\n"
    "With --preload PROGRAM needs no C API: one that drives its device through VFIO by itself is watched at\n"
    "the C library's calls. Targets are then optional: all devices bound to VFIO. Markers, checks and waits "
    "in\n"
    "memory are not on such a tape, because the program never tells of them; a program that insists on "
    "mapping\n"
    "the device's registers is refused the mapping.\n"
    "\n"
    "--durable=may-hang logs each access to a register that may hang the host with its device, on stable\n"
    "storage in FILE.partial.durable, before the access is made; `tapeback recover FILE.partial` then has\n"
    "it. The summary says what an access costs so.\n"
    "\n"
    "--flight AMOUNT keeps only the last packets, bytes, windows or seconds, in memory. A tape is written "
    "when\n"
    "something happens: at a trigger (FILE-TRIGGER-N.tape), at --capture-at CONDITION "
    "(FILE-condition-N.tape),\n"
    "and (as FILE) when the run fails or dies. Each has exactly the packets asked for, or says that it is "
    "short,\n"
    "and in front of them, flagged as prefix, what a replay needs to get there, if memory had it.\n"
    "Without --flight, everything is on FILE, with its trigger points marked, and captures are tapes "
    "besides.\n"
    "\n"
    "--trigger FILE.trig carries out trigger files (triggers/LANGUAGE.md) while recording: the same program\n"
    "gives the same captures with `tapeback trigger run` on the tape. A mistake in one: nothing is "
    "launched.\n"
    "\n"
    "--ab N runs the program N times with recording off and N times with it on, in turns, and says what "
    "recording\n"
    "does to it: wall time, failures, and how the time from one operation to the next shifts, with 95 %\n"
    "intervals. The tape is that of the last recorded run. The program's standard output goes to standard\n"
    "error in a first run, which is not measured, and nowhere in the others.\n"
    "\n"
    "Without recording, the same program runs with TAPEBACK_TARGET=URI in its environment.\n",
    "  tapeback record --target qemu:edu -o edu.tape -- edu-exercise --seed 7 --ops 500\n"
    "  tapeback record --target a=model:edu --target b=qemu:edu -o two.tape -- ./my-test\n"
    "  tapeback record --target qemu:edu --start marker:op#100 --stop write:DMA_CMD=1/1 -o dma.tape -- "
    "edu-exercise\n"
    "  tapeback record --preload -o vfio.tape -- ./my-vfio-program\n"
    "  tapeback record --target qemu:edu --flight 1000000p --trigger hang.trig -o hang.tape -- edu-exercise "
    "--seed 7 --ops 500\n",
    "  0  the capture is whole; how the program itself ended is in the summary (and with --propagate-exit in "
    "the\n"
    "     exit code: the program's, or 128 + signal)\n"
    "  2  bad usage; nothing was launched and nothing written\n"
    "  5  the capture is not whole: something was lost, or the tape could not be finished\n"};

struct Options {
  cl::list<std::string> targets{"target", cl::desc("What the program drives; repeat for several devices"),
                                cl::value_desc("[ALIAS=]URI")};
  cl::list<std::string> descriptions{
      "description",
      cl::desc("Device description; default: looked up by the target's name; repeat with ALIAS="),
      cl::value_desc("[ALIAS=]FILE|NAME")};
  cl::opt<std::string> output{"output", cl::desc("The tape"), cl::value_desc("FILE")};
  cl::alias outputShort{"o", cl::desc("Short for --output"), cl::aliasopt(output), cl::NotHidden};
  cl::opt<bool> force{"force", cl::desc("Overwrite FILE if it exists")};
  cl::opt<std::string> start{"start", cl::desc("Record from here on (default: begin)"),
                             cl::value_desc("CONDITION"), cl::init("begin")};
  cl::opt<std::string> stop{"stop", cl::desc("Record up to here (the program runs on)"),
                            cl::value_desc("CONDITION")};
  cl::opt<uint64_t> keyframes{"keyframe-interval",
                              cl::desc("Packets between keyframes; 0: none but the first (default: 65536)"),
                              cl::value_desc("N"), cl::init(65536)};
  cl::opt<uint64_t> tick{
      "tick", cl::desc("Milliseconds without packets that the tape tells of; 0: none (default: 1000)"),
      cl::value_desc("N"), cl::init(1000)};
  cl::opt<uint64_t> ring{"ring-bytes",
                         cl::desc("Shared memory between program and recorder (default: 16 MiB; at least 64 "
                                  "KiB, rounded up to a power of two)"),
                         cl::value_desc("N"), cl::init(16 << 20)};
  cl::opt<uint64_t> capture{"capture-limit",
                            cl::desc("Bytes of one memory content that are kept (default: 64 MiB)"),
                            cl::value_desc("N"), cl::init(64 << 20)};
  cl::opt<std::string> counters{"counters",
                                cl::desc("When to read the target's counters and clock, as evidence: off, or "
                                         "some of markers,fences,Nms (default: "
                                         "markers,fences)"),
                                cl::value_desc("WHEN"), cl::init("markers,fences")};
  cl::opt<unsigned> ab{"ab", cl::desc("Compare N runs with recording off with N recorded ones (3 to 1000)"),
                       cl::value_desc("N"), cl::init(0)};
  cl::opt<std::string> durable{
      "durable",
      cl::desc("What is on stable storage before it is done: off, accesses that may-hang (by their policy in "
               "the description), or all accesses (default: off)"),
      cl::value_desc("WHAT"), cl::init("off")};
  cl::opt<bool> drop{"drop-when-full", cl::desc("Lose packets (counted) rather than hold the program up")};
  cl::opt<bool> preload{"preload", cl::desc("Record a program that uses VFIO by itself")};
  LiveCommandOptions live;
  cl::opt<bool> propagate{"propagate-exit", cl::desc("Exit with the program's code")};
};

/// "ALIAS=NAME" for the target of that alias, or "NAME" for all that have none of their own.
Error addDescriptions(const cl::list<std::string> &given, std::vector<RecordTarget> &targets) {
  std::string common;
  for (StringRef text : given) {
    auto [alias, name] = text.split('=');
    auto *target = std::find_if(
        targets.data(), targets.data() + targets.size(),
        [&, wanted = alias](const RecordTarget &t) { return text.contains('=') && t.alias == wanted; });
    if (target != targets.data() + targets.size()) {
      target->description = name.str();
    } else if (common.empty()) {
      common = text.str();
    } else {
      return failUsage("bad-option", "--description is given twice for the same targets", "--description",
                       "with several devices: --description ALIAS=FILE");
    }
  }
  for (RecordTarget &target : targets)
    if (target.description.empty())
      target.description = common;
  return Error::success();
}

Expected<RecordOptions> toRecordOptions(const Options &given, ArrayRef<const char *> rest) {
  RecordOptions options;
  for (const std::string &text : given.targets) {
    Expected<RecordTarget> target = parseRecordTarget(text);
    if (!target)
      return target.takeError();
    options.targets.push_back(std::move(*target));
  }
  if (given.preload) {
    Expected<std::string> library = findPreloadLibrary();
    if (!library)
      return library.takeError();
    options.preload = std::move(*library);
    if (Error error = checkPreloadTargets(options.targets))
      return error;
    if (options.targets.empty()) {
      Expected<std::vector<RecordTarget>> found = preloadTargets();
      if (!found)
        return found.takeError();
      options.targets = std::move(*found);
    }
  }
  if (Error error = addDescriptions(given.descriptions, options.targets))
    return error;
  options.output = given.output;
  options.force = given.force;
  options.start = given.start;
  options.stop = given.stop;
  if (given.stop.getNumOccurrences() && given.stop.empty())
    return failUsage("bad-condition", "--stop names no condition", "--stop",
                     "leave it out to record to the end");
  options.keyframeInterval = given.keyframes;
  if (given.tick > 3'600'000)
    return failUsage("bad-option", "a tick once an hour is the least", "--tick", "milliseconds; 0: none");
  options.tickNs = given.tick * 1'000'000;
  options.ringBytes = given.ring;
  options.captureLimit = given.capture;
  Expected<EvidenceOptions> evidence = parseEvidence(given.counters);
  if (!evidence)
    return evidence.takeError();
  options.evidence = *evidence;
  Expected<DurableMode> durable = parseDurableMode(given.durable);
  if (!durable)
    return durable.takeError();
  if (*durable != DurableMode::Off && given.preload)
    return failUsage("bad-option", "--durable needs a program that uses the C API", "--preload",
                     "leave out one of the two");
  options.durable = *durable;
  options.dropWhenFull = given.drop;
  Expected<LiveOptions> live = toLiveOptions(given.live, given.output, given.force);
  if (!live)
    return live.takeError();
  options.live = std::move(*live);
  if (options.live.wanted() && given.ab.getNumOccurrences())
    return failUsage("bad-option", "--ab measures plain recordings", "--ab",
                     "leave out --flight, --trigger and --capture-at");
  options.toolVersion = TAPEBACK_VERSION;
  options.command.assign(rest.begin(), rest.end());
  return options;
}

json::Value orNull(const std::optional<int> &value) {
  return value ? json::Value(*value) : json::Value(nullptr);
}

const char *outcomeName(Outcome::Kind kind) {
  return kind == Outcome::Kind::Passed ? "passed" : kind == Outcome::Kind::Failed ? "failed" : "unknown";
}

void writeLoss(json::OStream &os, const RecordResult &result) {
  os.attributeObject("loss", [&] {
    os.attribute("not_understood", result.report.notUnderstood);
    os.attribute("given_up", result.report.givenUp);
    os.attribute("ring_full", result.report.ringFull);
    os.attribute("disk_errors", result.report.diskErrors);
    os.attribute("left_running", result.leftRunning);
  });
  os.attribute("not_recorded", result.report.notRecorded);
}

void writeDurable(json::OStream &os, const RecordResult &result) {
  if (!result.durable)
    return os.attribute("durable", nullptr);
  const durable::Cost &cost = *result.durable;
  os.attributeObject("durable", [&] {
    os.attribute("accesses", cost.accesses);
    os.attribute("mean_ns", cost.accesses ? cost.totalNs / cost.accesses : 0);
    os.attribute("least_ns", cost.leastNs);
    os.attribute("most_ns", cost.mostNs);
    os.attribute("failures", cost.failures);
    os.attribute("unlogged", cost.unlogged);
  });
}

void writeJson(Report &report, const RecordResult &result, const RecordOptions &options) {
  json::OStream &os = report.object();
  os.attribute("verdict", result.whole() ? "match" : "incomplete");
  os.attribute("reproduced", nullptr);
  writeSignature(os, "signature", result.outcome.signature);
  os.attribute("tape", json::fixUTF8(result.partial.empty() ? options.output : result.partial));
  os.attribute("finished", result.partial.empty());
  os.attribute("removed", !result.partial.empty() && !sys::fs::exists(result.partial));
  os.attribute("root", result.partial.empty() && !options.live.flight
                           ? json::Value(toHex(result.summary.root))
                           : json::Value(nullptr));
  os.attributeObject("program", [&] {
    os.attribute("exit", orNull(result.outcome.programExit));
    os.attribute("signal", orNull(result.outcome.programSignal));
  });
  os.attribute("outcome", outcomeName(result.outcome.kind));
  os.attribute("outcome_text", json::fixUTF8(result.outcome.text));
  os.attribute("packets", result.summary.packets);
  os.attribute("windows", result.summary.windows);
  os.attribute("keyframes", result.summary.keyframes);
  os.attribute("blobs", result.summary.blobs);
  os.attribute("bytes", result.bytes);
  os.attribute("pending", result.report.pending);
  os.attribute("started", result.report.started);
  os.attribute("stopped", result.report.stopped);
  writeLoss(os, result);
  writeDurable(os, result);
  os.attributeArray("notes", [&] {
    for (const std::string &note : result.report.notes)
      os.value(json::fixUTF8(note));
  });
  os.attribute("nothing_because", result.nothingBecause.empty()
                                      ? json::Value(nullptr)
                                      : json::Value(json::fixUTF8(result.nothingBecause)));
  os.attributeArray("warnings", [&] {
    for (const std::string &warning : result.warnings)
      os.value(json::fixUTF8(warning));
  });
  if (result.live)
    writeLive(os, *result.live);
}

void writeEstimate(json::OStream &os, StringRef name, const std::optional<Estimate> &estimate) {
  if (!estimate)
    return os.attribute(name, nullptr);
  os.attributeObject(name, [&] {
    os.attribute("value", estimate->value);
    os.attribute("low", estimate->low);
    os.attribute("high", estimate->high);
  });
}

void writePerturbation(json::OStream &os, const Perturbation &ab) {
  auto writeRun = [&](StringRef name, const PerturbationRun &run) {
    os.attributeObject(name, [&] {
      os.attribute("failed", run.failed);
      os.attribute("time", uint64_t(run.seconds * 1e9));
      os.attribute("gaps", run.gaps);
      os.attribute("gap_p50", run.p50 ? json::Value(*run.p50) : json::Value(nullptr));
      os.attribute("gap_p99", run.p99 ? json::Value(*run.p99) : json::Value(nullptr));
    });
  };
  os.attributeObject("ab", [&] {
    os.attribute("pairs", ab.pairs.size());
    writeEstimate(os, "time_ratio", ab.timeRatio);
    writeEstimate(os, "failure_rate_off", ab.offFailures);
    writeEstimate(os, "failure_rate_on", ab.onFailures);
    writeEstimate(os, "gap_p50_ratio", ab.p50Ratio);
    writeEstimate(os, "gap_p50_shift", ab.p50Shift);
    writeEstimate(os, "gap_p99_ratio", ab.p99Ratio);
    writeEstimate(os, "gap_p99_shift", ab.p99Shift);
    os.attributeArray("runs", [&] {
      for (const PerturbationPair &pair : ab.pairs)
        os.object([&] {
          writeRun("off", pair.off);
          writeRun("on", pair.on);
        });
    });
  });
}

void writePerturbation(raw_ostream &os, const Perturbation &ab) {
  auto line = [&](const char *what, const Estimate &e, const char *unit, double scale) {
    os << formatv("  {0,-34} {1:f3}{4} (95 %: {2:f3} to {3:f3})\n", what, e.value * scale, e.low * scale,
                  e.high * scale, unit);
  };
  os << "recording on against off, " << ab.pairs.size() << " pairs of runs in turns:\n";
  line("wall time", ab.timeRatio, "x", 1);
  line("failures, off", ab.offFailures, " %", 100);
  line("failures, on", ab.onFailures, " %", 100);
  if (!ab.p50Ratio) {
    os << "  the program made no two operations in a thread: there are no gaps to compare\n";
    return;
  }
  line("gap between operations, median", *ab.p50Ratio, "x", 1);
  line("  longer by", *ab.p50Shift, " us", 1e-3);
  line("gap between operations, p99", *ab.p99Ratio, "x", 1);
  line("  longer by", *ab.p99Shift, " us", 1e-3);
}

void writeText(raw_ostream &os, const RecordResult &result, const RecordOptions &options) {
  if (result.partial.empty() && options.live.flight)
    os << "flight: " << result.summary.packets << " packets in " << result.summary.windows
       << " windows seen\n";
  else if (result.partial.empty())
    os << options.output << ": " << result.summary.packets << " packets in " << result.summary.windows
       << " windows, " << result.summary.blobs << " memory contents, " << result.summary.keyframes
       << " keyframes, " << result.bytes << " bytes\n";
  if (!result.nothingBecause.empty())
    os << "  NOTHING WAS RECORDED: " << result.nothingBecause << "\n";
  if (result.outcome.kind == Outcome::Kind::Failed)
    os << "  the run failed: " << result.outcome.text << "\n";
  else if (!result.outcome.text.empty())
    os << "  " << result.outcome.text << "\n";
  if (result.report.pending)
    os << "  " << result.report.pending << " operations never came back\n";
  if (result.report.notRecorded)
    os << "  " << result.report.notRecorded << " packets lie outside the start and stop conditions\n";
  if (result.durable) {
    const durable::Cost &cost = *result.durable;
    os << formatv("  {0} accesses were on stable storage before they were made", cost.accesses);
    if (cost.accesses)
      os << formatv(": {0:f1} us each ({1:f1} to {2:f1})", double(cost.totalNs) / double(cost.accesses) / 1e3,
                    double(cost.leastNs) / 1e3, double(cost.mostNs) / 1e3);
    os << "\n";
    if (cost.failures || cost.unlogged)
      os << "  NOT DURABLE: " << cost.failures + cost.unlogged
         << " accesses were made that could not be logged\n";
  }
  if (result.report.ringFull)
    os << "  LOST: " << result.report.ringFull << " operations, because the ring was full\n";
  if (result.report.givenUp)
    os << "  LOST: " << result.report.givenUp
       << " packets that the program did not send: it was about to exit, or held the recorder for dead\n";
  if (result.report.notUnderstood)
    os << "  LOST: " << result.report.notUnderstood
       << " times something came out of the ring that makes no sense (did the program write over it?)\n";
  if (result.report.diskErrors)
    os << "  LOST: " << result.report.diskErrors << " packets that could not be written\n";
  if (result.live)
    writeLive(os, *result.live, options.live, options.output, result.outcome.kind == Outcome::Kind::Failed);
  for (const std::string &note : result.report.notes)
    os << "  note: " << note << "\n";
}

int exitCode(const RecordResult &result, bool propagate) {
  if (propagate) {
    if (result.outcome.programSignal)
      return 128 + *result.outcome.programSignal;
    if (result.outcome.programExit)
      return *result.outcome.programExit;
  }
  return result.whole() ? result.live ? liveExit(*result.live) : 0 : 5;
}

/// Packets a second are those since `before`.
std::string statusLine(const RecordStatus &before, const RecordStatus &now) {
  double seconds = double(now.timeNs - before.timeNs) / 1e9;
  bool known = before.timeNs && seconds > 0 && now.packets >= before.packets;
  std::string rate =
      known ? formatv(", {0:N}/s", uint64_t(double(now.packets - before.packets) / seconds)).str() : "";
  return formatv("{0:N} packets{1}, {2:f1} MB, ring {3} % full, {4}", now.packets, rate,
                 double(now.bytes) / 1e6, unsigned(now.ringFill * 100),
                 now.lost ? formatv("{0:N} LOST", now.lost).str() : "none lost")
             .str() +
         (now.armed || now.fired
              ? formatv(", {0:N} triggers armed, fired {1:N} times", now.armed, now.fired).str()
              : std::string());
}

} // namespace

int runRecord(ArrayRef<const char *> args) {
  Options given;
  CommandLine line(recordHelp);
  line.takesRest();
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("record", line.json());
  Expected<RecordOptions> options = toRecordOptions(given, line.rest());
  if (!options)
    return report.fail(options.takeError());
  std::optional<Progress> progress;
  if (line.json())
    options->programOutput = ProgramOutput::ToErrors;
  RecordStatus before;
  options->progress = [&](const RecordStatus &status) {
    if (!progress)
      progress.emplace("recording:", 0);
    progress->say(statusLine(before, status));
    if (status.timeNs - before.timeNs >= 1'000'000'000 || status.packets < before.packets)
      before = status;
  };
  std::optional<Perturbation> ab;
  Expected<RecordResult> result = RecordResult();
  if (given.ab.getNumOccurrences()) {
    Expected<Perturbation> measured = measurePerturbation(*options, given.ab, *result);
    if (measured)
      ab = std::move(*measured);
    else
      result = measured.takeError();
  } else {
    result = recordProgram(*options);
  }
  progress.reset();
  if (!result)
    return report.fail(result.takeError());
  for (const std::string &warning : result->warnings)
    report.warn(warning);
  if (report.json())
    writeJson(report, *result, *options);
  else
    writeText(outs(), *result, *options);
  if (ab && report.json())
    writePerturbation(report.object(), *ab);
  else if (ab)
    writePerturbation(outs(), *ab);
  if (!result->partial.empty()) {
    Failure failure = *result->report.writeFailure;
    // Whoever can remove the tape under our hands may have.
    failure.hint = sys::fs::exists(result->partial)
                       ? "the program ran; what was written is in " + result->partial +
                             ": `tapeback recover` makes a tape of it"
                       : "the program ran; what was written was in " + result->partial +
                             ", which somebody has removed: nothing is left of it";
    report.error(failure);
  }
  return report.finish(exitCode(*result, given.propagate));
}

} // namespace tapeback
