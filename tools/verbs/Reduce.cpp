// tapeback reduce: the least of a tape on which two targets still part in the same way.
#include "replayer/reduce/Reduce.h"
#include "format/File.h"
#include "format/Text.h"
#include "replayer/Replay.h"
#include "replayer/reduce/KeptTargets.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/Progress.h"
#include "tools/Verb.h"
#include "tools/verbs/DivergenceReport.h"
#include "tools/verbs/ReplaySession.h"
#include <csignal>
#include <unistd.h>

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp reduceHelp = {
    "reduce",
    "Shrink a failing tape to the least that still fails in the same way",
    "TAPE --target URI [--against URI] -o OUT [--match kind|place|exact] [options]",
    "Feeds ever smaller parts of TAPE to both targets, and keeps those on which the one (--target) still "
    "parts\n"
    "from the other (--against) first in the same way: by the same kind of packet at the same object "
    "(kind),\n"
    "in the same field or at the same byte (place), by the same bits (exact). A failure of another kind "
    "does\n"
    "not count. Without --against the failure is that --target dies or hangs, with the same last words.\n"
    "Spans go first, then windows, then commands with all that is only there because of them, then single\n"
    "packets, until none can go. Entries of queues move up, doorbells say how many are left. Then transfers\n"
    "become shorter and contents that do not matter zero, and packets are tried once more.\n"
    "\n"
    "A failure that comes and goes (--intermittent): its rate is measured on the whole tape; then each part "
    "is\n"
    "run until a sequential test tells whether it still fails at least half as often, or at most a\n"
    "tenth as often. {run} in a URI is the run's number. At the end the rates of what is left and of TAPE "
    "are\n"
    "measured: a drift of TAPE's is said, and if what is left fails less than half as often as TAPE does "
    "now, "
    "it is\nnot the answer.\n"
    "\n"
    "OUT has what --target answered, and behind the packet where they part a check that wants the other's\n"
    "answer: a replay of OUT on --target that expects the signature reproduces the failure. It carries "
    "TAPE's\n"
    "root as its parent, and the marks of triggers whose packets are left. The best so far lies in OUT "
    "(every\n"
    "5 s) and in OUT.state (always), also after an interrupt (Ctrl-C); --resume goes on from there.\n",
    "  tapeback reduce run.tape --target 'rtl:minnow?errata=requant-wrap' --against model:minnow -o "
    "small.tape\n"
    "  tapeback reduce run.tape --target qemu:edu --against model:edu -o small.tape --max-seconds 600\n"
    "  tapeback reduce run.tape --target 'rtl:minnow?errata=fence-overtake&jitter=256&seed={run}' \\\n"
    "    --against model:minnow --intermittent -o small.tape\n",
    "  0  OUT was written\n"
    "  1  the two do not differ on TAPE (or the one survives it): there is nothing to reduce\n"
    "  2  bad usage or a bad description\n"
    "  3  TAPE is damaged, unfinished, or no tape\n"
    "  4  a target cannot be used, or the one that should be right failed\n"
    "  5  OUT is not minimal: stopped early (interrupt, --max-runs, --max-seconds), its failure far rarer "
    "than\n"
    "     TAPE's (--intermittent), or could not be written\n"};

volatile std::sig_atomic_t interrupted = 0;
void interrupt(int) {
  interrupted = 1;
}

/// Ctrl-C ends the search, not the program; a second one does.
class Interruptible {
public:
  Interruptible() {
    struct sigaction action = {};
    action.sa_handler = interrupt;
    action.sa_flags = int(SA_RESETHAND);
    sigaction(SIGINT, &action, &before);
  }
  ~Interruptible() { sigaction(SIGINT, &before, nullptr); }
  Interruptible(const Interruptible &) = delete;
  Interruptible &operator=(const Interruptible &) = delete;

private:
  struct sigaction before = {};
};

struct Arguments {
  std::string tape, out;
  std::vector<std::string> target, against;
  bool resume = false, newTargets = false;
  std::string statePath() const { return out + ".state"; }
  std::string lockPath() const { return statePath() + ".lock"; }
};

/// Nobody else reduces into the same output. Held until destroyed; the lock of one that was killed is free.
class OnlyOne {
public:
  static Expected<OnlyOne> lock(const std::string &path) {
    Expected<OutputFile> file = OutputFile::create(path, path);
    if (file)
      return OnlyOne(std::move(*file));
    Failure failure = toFailure(file.takeError());
    if (failure.code == "already-being-written")
      return failUsage("already-being-written", "another process is reducing into this output", path,
                       "wait for it to end, or choose another output");
    return make_error<Failure>(std::move(failure));
  }
  OnlyOne(OnlyOne &&) = default;
  OnlyOne &operator=(OnlyOne &&) = delete;
  ~OnlyOne() { file.discard(); }

private:
  explicit OnlyOne(OutputFile file) : file(std::move(file)) {}
  OutputFile file;
};

/// One side: what it is called, and how its targets are had.
class Side {
public:
  Side(TapeSource &source, std::vector<std::string> uris, const PlayerOptions &options, bool newTargets)
      : uris(std::move(uris)), kept(source, options, [this] { return openFresh(); }) {
    for (const std::string &uri : this->uris)
      if (StringRef(uri).contains("{run}"))
        why = "the target is another one in every run ({run})";
    if (newTargets)
      why = "new targets were asked for";
  }
  Side(const Side &) = delete;
  Side &operator=(const Side &) = delete;

  EndpointFactory factory() {
    return [this] { return why.empty() ? kept.lend() : openFresh(); };
  }
  const std::vector<std::string> &names() const { return uris; }
  uint64_t opened() const { return opens; }
  uint64_t restored() const { return kept.restored(); }
  /// Why no snapshots are used.
  const std::string &whyNot() const { return why.empty() ? kept.whyNot() : why; }

private:
  Expected<TargetSet> openFresh() {
    std::vector<std::string> ofRun;
    for (const std::string &uri : uris)
      ofRun.push_back(targetOfRun(uri, unsigned(opens)));
    ++opens;
    return openTargets(ofRun);
  }

  std::vector<std::string> uris;
  KeptTargets kept;
  std::string why;
  uint64_t opens = 0;
};

void writeRate(json::OStream &os, StringRef name, const std::optional<MeasuredRate> &rate) {
  if (!rate) {
    os.attribute(name, nullptr);
    return;
  }
  RateInterval interval = rate->interval();
  os.attributeObject(name, [&] {
    os.attribute("runs", rate->runs);
    os.attribute("failures", rate->failures);
    os.attribute("rate", interval.rate);
    os.attribute("low", interval.low);
    os.attribute("high", interval.high);
  });
}

void writeSide(json::OStream &os, StringRef name, const Side &side) {
  os.attributeObject(name, [&] {
    os.attribute("opened", side.opened());
    os.attribute("restored", side.restored());
    os.attribute("no_snapshots",
                 side.whyNot().empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(side.whyNot())));
  });
}

void writeJson(json::OStream &os, const Arguments &arguments, const ReduceReport &result,
               const ReducedTape &written, const Side *good, const Side &bad) {
  auto number = [](const std::optional<uint64_t> &value) {
    return value ? json::Value(*value) : json::Value(nullptr);
  };
  os.attribute("input", json::fixUTF8(arguments.tape));
  os.attribute("output", json::fixUTF8(arguments.out));
  os.attribute("root", toHex(written.summary.root));
  os.attribute("packets_before", result.before);
  os.attribute("packets", written.summary.packets);
  os.attribute("windows", written.summary.windows);
  os.attribute("runs", result.runs);
  os.attribute("failed_differently", result.differently);
  os.attribute("minimal", result.minimal && result.certain);
  os.attribute("minimal_as_tested", result.minimal);
  os.attribute("lengths_shortened", result.shortened);
  os.attribute("bytes_zeroed", result.zeroed);
  os.attribute("marks", written.marks);
  os.attribute("marks_left_out", written.marksLeftOut);
  os.attribute("stopped", result.stopped.empty() ? json::Value(nullptr) : json::Value(result.stopped));
  os.attributeObject("failure", [&] {
    os.attribute("kind", json::fixUTF8(result.failure.what));
    os.attribute("object", json::fixUTF8(result.failure.object));
    os.attribute("field", json::fixUTF8(result.failure.field));
    os.attribute("offset", number(result.failure.offset));
    os.attribute("xor",
                 result.failure.xorClass ? json::Value(hex(*result.failure.xorClass)) : json::Value(nullptr));
  });
  writeDivergence(os, "first_divergence", result.first, "good", "bad");
  writeRate(os, "rate_before", result.rateBefore);
  writeRate(os, "rate_after", result.rateAfter);
  writeRate(os, "rate_again", result.rateAgain);
  os.attribute("drift", result.drift.empty() ? json::Value(nullptr) : json::Value(result.drift));
  os.attribute("rate_lost", result.rateLost);
  if (good)
    writeSide(os, "good_targets", *good);
  writeSide(os, "bad_targets", bad);
  os.attributeArray("stages", [&] {
    for (const auto &[name, runs] : result.stages)
      os.object([&] {
        os.attribute("name", name);
        os.attribute("runs", runs);
      });
  });
}

void writeRateText(raw_ostream &os, const char *name, const std::optional<MeasuredRate> &rate) {
  if (!rate)
    return;
  RateInterval interval = rate->interval();
  os << "  " << name << "  " << rate->failures << " of " << rate->runs
     << format(": %.3f (%.3f to %.3f)\n", interval.rate, interval.low, interval.high);
}

void writeText(raw_ostream &os, const Arguments &arguments, const ReduceReport &result,
               const ReducedTape &written) {
  os << arguments.tape << " (" << result.before << " packets) -> " << arguments.out << ": "
     << written.summary.packets << " packets\n";
  os << "  failure  " << result.failure.what << " at " << result.failure.object
     << (result.failure.field.empty() ? "" : "." + result.failure.field) << "\n";
  os << "  where    " << divergenceText(result.first, "good", "bad") << "\n";
  writeRateText(os, "rate   ", result.rateBefore);
  writeRateText(os, "rate of", result.rateAfter);
  writeRateText(os, "again  ", result.rateAgain);
  if (!result.drift.empty())
    os << "  drift    the rate of the whole tape " << result.drift << " meanwhile\n";
  if (result.rateLost)
    os << "  lost     what is left fails less than half as often as the whole tape: not the answer\n";
  os << "  runs     " << result.runs << ":";
  for (const auto &[name, runs] : result.stages)
    os << " " << name << " " << runs;
  os << "; " << result.differently << " failed in another way\n";
  if (result.shortened || result.zeroed)
    os << "  simpler  " << result.shortened << " lengths shorter, " << result.zeroed << " bytes zero\n";
  if (written.marks || written.marksLeftOut)
    os << "  marks    " << written.marks << " of triggers, " << written.marksLeftOut
       << " left out with their packets\n";
  os << "  "
     << (!result.minimal  ? "not minimal"
         : result.certain ? "minimal: no single packet can go"
                          : "minimal as far as the tests can tell: the failure comes and goes")
     << "\n";
  if (!result.stopped.empty())
    os << "  stopped " << result.stopped << "; go on with the same command and --resume\n";
  os << "  root     " << toHex(written.summary.root) << "\n";
}

Error storeState(const std::string &path, ReduceState state, const Side *good, const Side &bad) {
  if (good)
    state.good = good->names();
  state.bad = bad.names();
  if (Error error = OutputFile::removeAbandoned(path + ".partial"))
    return error;
  Expected<OutputFile> file = OutputFile::create(path, path + ".partial");
  if (!file)
    return file.takeError();
  std::string text = writeState(state);
  if (Error error = file->write(arrayRefFromStringRef(text))) {
    file->discard();
    return error;
  }
  return file->publish(/*sync=*/false);
}

Error loadState(const Arguments &arguments, TapeSource &source, ArrayRef<std::string> good,
                ArrayRef<std::string> bad, ReduceOptions &options) {
  TextLimits limits;
  limits.maxBytes = 64u << 20;
  Expected<std::string> text = readTextFile(arguments.statePath(), limits);
  if (!text)
    return text.takeError();
  Expected<ReduceState> state = readState(*text, arguments.statePath(), source.reader().summary().packets);
  if (!state)
    return state.takeError();
  auto other = [&](const char *what) {
    return failUsage("bad-state", std::string("the state is of another reduction: ") + what,
                     arguments.statePath(), "give the same tape and targets, or begin anew without --resume");
  };
  if (state->parent != source.reader().summary().root)
    return other("of another tape");
  if (ArrayRef<std::string>(state->good) != good || ArrayRef<std::string>(state->bad) != bad)
    return other("with other targets");
  options.resume = std::move(*state);
  return Error::success();
}

int reduce(Report &report, const Arguments &arguments, ReduceOptions &options) {
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(arguments.tape);
  if (!source)
    return report.fail(source.takeError());
  Expected<std::vector<std::string>> badNames = resolveTargets(**source, arguments.target, "--target");
  if (!badNames)
    return report.fail(badNames.takeError());
  std::vector<std::string> goodNames;
  if (!arguments.against.empty()) {
    Expected<std::vector<std::string>> names = resolveTargets(**source, arguments.against, "--against");
    if (!names)
      return report.fail(names.takeError());
    goodNames = std::move(*names);
  }
  ReplayOptions checks;
  checks.player = options.trial.player;
  if (Error error = refuseForbiddenWrites(**source, checks))
    return report.fail(std::move(error));
  Expected<TapeImage> image = TapeImage::load(**source);
  if (!image)
    return report.fail(image.takeError());
  Expected<OnlyOne> onlyOne = OnlyOne::lock(arguments.lockPath());
  if (!onlyOne)
    return report.fail(onlyOne.takeError());
  if (arguments.resume)
    if (Error error = loadState(arguments, **source, goodNames, *badNames, options))
      return report.fail(std::move(error));
  Side bad(**source, std::move(*badNames), options.trial.player, arguments.newTargets);
  std::optional<Side> good;
  Endpoints endpoints;
  endpoints.bad = bad.factory();
  if (!goodNames.empty())
    endpoints.good =
        good.emplace(**source, std::move(goodNames), options.trial.player, arguments.newTargets).factory();
  const Side *goodSide = good ? &*good : nullptr;
  std::optional<Progress> progress(std::in_place, "reducing", 0);
  options.progress = [&](const char *stage, uint64_t runs, uint64_t packets) {
    progress->say(std::string(stage) + ": " + std::to_string(packets) + " packets after " +
                  std::to_string(runs) + " runs");
  };
  // A failure that comes and goes is waited for.
  constexpr unsigned patientTries = 2000;
  const unsigned tries = options.intermittent.on ? patientTries : 4 * options.tries;
  HostTimer timer;
  uint64_t kept = 0;
  constexpr uint64_t betweenNs = 5'000'000'000;
  options.keep = [&](const ReduceState &best) -> Error {
    if (Error error = storeState(arguments.statePath(), best, goodSide, bad))
      return error;
    if (kept && timer.elapsed() - kept < betweenNs)
      return Error::success();
    kept = timer.elapsed();
    Expected<ReducedTape> written =
        writeReduced(*image, best.selection, endpoints, options.trial, best.failure, tries, arguments.out);
    return written ? Error::success() : written.takeError();
  };
  Interruptible interruptible;
  options.stop = [] { return interrupted != 0; };
  Expected<ReduceReport> result = reduceTape(*image, endpoints, options);
  progress.reset();
  if (!result) {
    Failure failure = toFailure(result.takeError());
    if (failure.code != "does-not-fail")
      return report.fail(failure);
    // What was expected of the tape does not hold.
    report.verdict(1);
    report.error(failure);
    return report.finish(1);
  }
  Expected<ReducedTape> written = writeReduced(*image, result->selection, endpoints, options.trial,
                                               result->failure, tries, arguments.out);
  if (!written)
    return report.fail(written.takeError());
  // Nothing is left to go on with.
  if (result->stopped.empty() && ::unlink(arguments.statePath().c_str()) && errno != ENOENT)
    return report.fail(failSystem("cannot-remove",
                                  "the state could not be removed: " + std::string(std::strerror(errno)),
                                  arguments.statePath()));
  int exit = result->stopped.empty() && !result->rateLost ? 0 : 5;
  if (report.json()) {
    report.verdict(exit, written->signature);
    writeJson(report.object(), arguments, *result, *written, goodSide, bad);
  } else {
    writeText(outs(), arguments, *result, *written);
  }
  return report.finish(exit);
}

} // namespace

int runReduce(ArrayRef<const char *> args) {
  cl::opt<std::string> tape(cl::Positional, cl::Required, cl::desc("TAPE"));
  cl::list<std::string> target("target", cl::OneOrMore,
                               cl::desc("The target that fails; ALIAS=URI for each device of several"),
                               cl::value_desc("URI"));
  cl::list<std::string> against(
      "against", cl::desc("The target that is right; without one only death and hanging count"),
      cl::value_desc("URI"));
  cl::opt<std::string> out("output", cl::Required, cl::desc("Where to write the small tape"),
                           cl::value_desc("OUT"));
  cl::alias outShort("o", cl::desc("Short for --output"), cl::aliasopt(out), cl::NotHidden);
  cl::opt<std::string> match("match",
                             cl::desc("What counts as the same failure: kind (default), place or exact"),
                             cl::value_desc("LEVEL"), cl::init("kind"));
  cl::opt<unsigned> tries("tries", cl::desc("Runs of a part, for failures that come and go (default: 1)"),
                          cl::value_desc("N"), cl::init(1));
  cl::opt<unsigned> needed("needed", cl::desc("How many of them must fail in the same way (default: 1)"),
                           cl::value_desc("K"), cl::init(1));
  NumberOption maxRuns("max-runs", cl::desc("Stop after so many runs (default: 100000)"), cl::value_desc("N"),
                       cl::init(100'000));
  NumberOption maxSeconds("max-seconds", cl::desc("Stop after so long (default: no limit)"),
                          cl::value_desc("SECONDS"), cl::init(0));
  cl::opt<bool> intermittent("intermittent",
                             cl::desc("The failure comes and goes: measure its rate, and test "
                                      "each part until it is told apart"));
  cl::opt<bool> resume("resume", cl::desc("Go on from OUT.state"));
  cl::opt<bool> newTargets("new-targets", cl::desc("Open the targets anew for each run, although they can be "
                                                   "put back to a snapshot"));
  cl::opt<bool> plain("plain", cl::desc("Delta debugging (ddmin) by packets as they are, for comparison"));
  cl::list<std::string> allow("allow-register",
                              cl::desc("Allow writes to this register although the description forbids them"),
                              cl::value_desc("NAME"));
  cl::opt<bool> fromReset("from-reset",
                          cl::desc("Play a tape whose start cannot be restored on a reset device"));
  cl::opt<bool> force("force", cl::desc("Overwrite OUT if it exists"));
  CommandLine line(reduceHelp);
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("reduce", line.json());
  ReduceOptions options;
  if (match == "place")
    options.wanted = SignatureMatch::SamePlace;
  else if (match == "exact")
    options.wanted = SignatureMatch::Exact;
  else if (match != "kind")
    return report.fail(Failure(FailureClass::Usage, "bad-option-value", "there is no level '" + match + "'",
                               "--match", "use kind, place or exact"));
  if (!needed || needed > tries || tries > 1000)
    return report.fail(Failure(FailureClass::Usage, "bad-option-value",
                               std::to_string(needed) + " of " + std::to_string(tries) + " runs", "--needed",
                               "1 <= needed <= tries <= 1000"));
  if (intermittent && tries != 1)
    return report.fail(Failure(FailureClass::Usage, "bad-option-value",
                               "--intermittent finds out by itself how many runs it takes", "--tries",
                               "leave out one of them"));
  if (plain && resume)
    return report.fail(Failure(FailureClass::Usage, "bad-option-value", "--plain does not go on from a state",
                               "--resume", "leave out one of them"));
  if (Error error = checkOutputFile(out, tape, force || resume))
    return report.fail(std::move(error));
  options.tries = tries;
  options.needed = needed;
  options.maxRuns = maxRuns;
  options.maxSeconds = maxSeconds;
  options.plain = plain;
  options.intermittent.on = intermittent;
  options.trial.fromReset = fromReset;
  options.trial.player.binding.allowRegisters = allow;
  return reduce(report, {tape, out, target, against, resume, newTargets}, options);
}

} // namespace tapeback
