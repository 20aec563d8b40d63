// tapeback bisect: names the first window, packet and byte in which two targets differ.
#include "replayer/bisect/Bisect.h"
#include "format/Text.h"
#include "replayer/bisect/ProbeLog.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/Progress.h"
#include "tools/Range.h"
#include "tools/Verb.h"
#include "tools/verbs/BisectReport.h"
#include "tools/verbs/ReplaySession.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

namespace tapeback {
namespace {

struct BisectArguments {
  std::string tape, state, at;
  std::vector<std::string> good, bad, descriptions, allow;
  unsigned maxWait = 60;
  bool plan = false;
};

Error checkArguments(StringRef probe, unsigned maxWait, unsigned runs, unsigned rateRuns, double confidence,
                     uint64_t maxReplays) {
  if (probe != "observed" && probe != "deep")
    return failUsage("bad-option", ("'" + probe + "' is no kind of probe").str(), "--probe",
                     "one of: observed, deep");
  if (!maxWait)
    return failUsage("bad-option", "no wait would ever be over", "--max-wait", "1 second or more");
  for (auto [name, value] : {std::pair("--runs", runs), std::pair("--rate-runs", rateRuns)})
    if (!value || value > 100'000)
      return failUsage("bad-option", std::to_string(value) + " runs", name, "1 to 100000");
  if (!(confidence >= 0.5 && confidence <= 0.9999))
    return failUsage("bad-option", "not a probability that a search could reach", "--confidence",
                     "0.5 to 0.9999");
  if (!maxReplays || maxReplays > 1'000'000)
    return failUsage("bad-option", std::to_string(maxReplays) + " replays", "--max-replays", "1 to 1000000");
  return Error::success();
}

/// For a shell.
std::string quoted(StringRef word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                              "_-./:=,@%+") == StringRef::npos)
    return word.str();
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// What makes one probe of these targets.
std::string probeCommand(const BisectArguments &arguments) {
  std::string command = "tapeback bisect " + quoted(arguments.tape);
  auto add = [&](const char *option, const std::vector<std::string> &values) {
    for (const std::string &value : values)
      command += std::string(" ") + option + " " + quoted(value);
  };
  add("--good", arguments.good);
  add("--bad", arguments.bad);
  add("--description", arguments.descriptions);
  add("--allow-register", arguments.allow);
  if (arguments.maxWait != 60)
    command += " --max-wait " + std::to_string(arguments.maxWait);
  return command;
}

/// What the results in a state file depend on.
std::string aboutOf(const BisectArguments &arguments, ArrayRef<std::string> texts,
                    const BisectOptions &options, TapeSource &source) {
  std::string about = toHex(source.reader().summary().root);
  auto add = [&](StringRef text) { about += " " + std::to_string(text.size()) + ":" + text.str(); };
  for (const std::vector<std::string> *list : {&arguments.good, &arguments.bad, &arguments.allow}) {
    add(std::to_string(list->size()));
    for (const std::string &text : *list)
      add(text);
  }
  for (const std::string &text : texts)
    add(std::to_string(xxh3_64bits(text)));
  add(options.deep ? "deep" : "observed");
  add(std::to_string(arguments.maxWait) + (options.fromReset ? " from-reset" : ""));
  return about;
}

int bisect(Report &report, const BisectArguments &arguments, BisectOptions &options) {
  std::vector<std::string> texts;
  for (const std::string &path : arguments.descriptions) {
    Expected<DescriptionText> text = loadDescriptionText(path);
    if (!text)
      return report.fail(text.takeError());
    texts.push_back(text->text);
  }
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(arguments.tape, texts);
  if (!source)
    return report.fail(source.takeError());
  Expected<std::vector<std::string>> good = resolveTargets(**source, arguments.good, "--good");
  if (!good)
    return report.fail(good.takeError());
  Expected<std::vector<std::string>> bad = resolveTargets(**source, arguments.bad, "--bad");
  if (!bad)
    return report.fail(bad.takeError());
  std::unique_ptr<ProbeLog> log;
  if (!arguments.state.empty()) {
    Expected<std::unique_ptr<ProbeLog>> opened =
        ProbeLog::open(arguments.state, aboutOf(arguments, texts, options, **source));
    if (!opened)
      return report.fail(opened.takeError());
    log = std::move(*opened);
    options.log = log.get();
  }
  if (!arguments.at.empty()) {
    Expected<TapeRange> place = resolveRange(arguments.at, (*source)->reader());
    if (!place)
      return report.fail(place.takeError());
    options.at = place->firstPacket + place->packetCount;
  }
  std::optional<Progress> progress;
  std::string stage;
  options.progress = [&](const char *what, uint64_t done, uint64_t total) {
    if (stage != what) {
      stage = what;
      progress.reset();
      progress.emplace(what, total);
    }
    progress->update(done);
  };
  // "{run}" in a URI is the number of that run: a simulator throws other dice with another seed.
  unsigned goodRuns = 0, badRuns = 0;
  auto open = [](const std::vector<std::string> &uris, unsigned &runs) {
    std::vector<std::string> present;
    for (const std::string &uri : uris)
      present.push_back(targetOfRun(uri, runs));
    ++runs;
    return openTargets(present);
  };
  Endpoints endpoints{[&] { return open(*good, goodRuns); }, [&] { return open(*bad, badRuns); }};
  for (const std::vector<std::string> *uris : {&*good, &*bad})
    options.snapshots &= llvm::none_of(*uris, [](StringRef uri) { return uri.contains("{run}"); });
  options.cut = [&](uint64_t first, uint64_t last) -> Expected<BisectPart> {
    Expected<TapePart> part =
        cutPart(**source, "w" + std::to_string(first) + "..w" + std::to_string(last), texts);
    if (!part)
      return part.takeError();
    return BisectPart{std::move(part->source), part->firstPacket};
  };
  if (arguments.plan) {
    Expected<BisectPlan> plan = planBisect(**source, endpoints, options);
    if (!plan)
      return report.fail(plan.takeError());
    reportPlan(report, *plan, **source, arguments.tape);
    return report.finish(0);
  }
  Expected<BisectReport> result = bisectTape(**source, endpoints, options);
  progress.reset();
  if (!result)
    return report.fail(result.takeError());
  int exit = exitCodeFor(*result);
  BisectWords words{arguments.tape, probeCommand(arguments), options.at};
  if (report.json())
    writeBisect(report, *result, **source, words);
  else
    printBisect(*result, words);
  if (exit == 4 && result->goodFailure)
    report.error(*result->goodFailure);
  return report.finish(exit);
}

} // namespace

int runBisect(ArrayRef<const char *> args) {
  cl::opt<std::string> tape(cl::Positional, cl::Required, cl::desc("TAPE"));
  cl::list<std::string> good("good",
                             cl::desc("The target that is right; ALIAS=URI for each device of several"),
                             cl::value_desc("URI"));
  cl::list<std::string> bad("bad", cl::desc("The target that is wrong"), cl::value_desc("URI"));
  cl::opt<std::string> probe("probe",
                             cl::desc("observed: what the host saw; deep: also the device's state where it "
                                      "is quiescent (default: observed)"),
                             cl::value_desc("KIND"), cl::init("observed"));
  cl::list<std::string> descriptions(
      "description", cl::desc("Use this description (file or name) instead of the tape's own"),
      cl::value_desc("FILE"));
  cl::opt<unsigned> runs(
      "runs",
      cl::desc("Passes that must come out alike, or an endpoint is intermittent (default: 2; 1 where what "
               "parts parts again from a snapshot)"),
      cl::value_desc("N"), cl::init(2));
  cl::opt<unsigned> rateRuns(
      "rate-runs",
      cl::desc("Passes in all if an endpoint is intermittent, to see how often it fails "
               "and whether that drifts (default: 30)"),
      cl::value_desc("N"), cl::init(30));
  cl::opt<bool> intermittent(
      "intermittent", cl::desc("Search as for a failure that comes and goes, though passes come out alike"));
  cl::opt<bool> measureDrains(
      "measure-drains",
      cl::desc("Also measure how often it fails when the devices are given time to come to "
               "rest at each window's end, as in probes (done by itself if one needed that)"));
  cl::opt<double> confidence("confidence",
                             cl::desc("Of such a search: how probable the window has to be (default: 0.95)"),
                             cl::value_desc("P"), cl::init(0.95));
  cl::opt<uint64_t> maxReplays("max-replays", cl::desc("Probes that such a search may make (default: 2000)"),
                               cl::value_desc("N"), cl::init(2000));
  cl::opt<bool> noSnapshots("no-snapshots", cl::desc("Do without the targets' snapshots"));
  cl::opt<bool> plan("plan",
                     cl::desc("Show how the states would be looked at and what that costs, and stop"));
  cl::opt<std::string> at("at", cl::desc("One probe: compare the states behind the last packet of a place"),
                          cl::value_desc("PLACE"));
  cl::opt<std::string> state(
      "state",
      cl::desc("Keep the results of passes and probes in this file; what it has is not "
               "made again"),
      cl::value_desc("FILE"));
  cl::opt<uint64_t> maxProbes("max-probes",
                              cl::desc("State comparisons that the verification may make (default: 4096)"),
                              cl::value_desc("N"), cl::init(4096));
  cl::list<std::string> allow("allow-register",
                              cl::desc("Allow writes to this register although the description forbids them"),
                              cl::value_desc("NAME"));
  cl::opt<std::string> wave("wave",
                            cl::desc("Write a waveform of just the window that is named, if the target has "
                                     "traces (bad, or else good)"),
                            cl::value_desc("FILE"));
  cl::opt<bool> fromReset("from-reset",
                          cl::desc("Play a tape whose start cannot be restored on a reset device"));
  cl::opt<unsigned> maxWait(
      "max-wait", cl::desc("Seconds that one wait may take at most, whatever the tape says (default: 60)"),
      cl::value_desc("SECONDS"), cl::init(60));
  CommandLine line(
      {"bisect", "Name the first window, packet and byte in which two targets differ",
       "TAPE --good URI --bad URI [--probe observed|deep] [options]",
       "Both targets are fed the tape's inputs and compared with each other, not with the tape.\n"
       "\n"
       "observed names the first packet whose answer differs. deep looks at internal windows, registers and\n"
       "memory where the device is quiescent, and names the packet that made the states differ: for a "
       "transfer\n"
       "or other activity the register write that started it. Targets with snapshots, or such as can be "
       "peeked,\n"
       "are looked at in one pass; others by a search over prefixes and a verification, because divergences\n"
       "heal. --plan says which, and why.\n"
       "\n"
       "If the bad target does not fail every time, the rate is measured, and deep searches on by repeated\n"
       "replays until one window is as probable as --confidence asks for. --state FILE: an interrupted "
       "bisect\n"
       "goes on where it was.\n",
       "  tapeback bisect run.tape --good model:edu --bad 'model:edu?fault=dma-last-byte' --probe deep\n"
       "  tapeback bisect run.tape --good model:edu --bad vfio:0000:01:00.0 --probe deep --state s.json\n"
       "  tapeback bisect run.tape --good qemu:edu --bad vfio:0000:01:00.0 --json\n"
       "  tapeback bisect run.tape --good model:minnow --bad rtl:minnow --probe deep --wave bad.fst\n",
       "  0  the two do not differ\n"
       "  1  they do: the place is named, or where and how often they part\n"
       "  2  bad usage or a bad description\n"
       "  3  damaged or foreign tape\n"
       "  4  a target cannot be used, or the good one failed\n"
       "  5  they could not be compared (null: target)\n"});
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("bisect", line.json());
  if (Error error = checkArguments(probe, maxWait, runs, rateRuns, confidence, maxReplays))
    return report.fail(std::move(error));
  if (!wave.empty())
    if (Error error = checkOutputFile(wave, tape, /*force=*/true)) // Before the work, not after it.
      return report.fail(std::move(error));
  BisectArguments arguments;
  arguments.tape = tape;
  arguments.good = good;
  arguments.bad = bad;
  arguments.descriptions = descriptions;
  arguments.allow = allow;
  arguments.state = state;
  arguments.at = at;
  arguments.plan = plan;
  arguments.maxWait = maxWait;
  BisectOptions options;
  options.deep = probe == "deep" || !at.empty();
  if (runs.getNumOccurrences())
    options.runs = runs;
  options.rateRuns = rateRuns;
  options.intermittent = intermittent;
  options.measureDrains = measureDrains;
  options.noisy.confidence = confidence;
  options.noisy.maxProbes = maxReplays;
  options.snapshots = !noSnapshots;
  options.maxProbes = maxProbes;
  options.fromReset = fromReset;
  options.waveFile = wave;
  options.player.binding.allowRegisters = allow;
  options.player.waits.maxDeadline = options.player.waits.maxHostTime = uint64_t(maxWait) * 1'000'000'000;
  return bisect(report, arguments, options);
}

} // namespace tapeback
