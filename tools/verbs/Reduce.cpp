// tapeback reduce: the least of a tape on which two targets still part in the same way.
#include "replayer/reduce/Reduce.h"
#include "replayer/Replay.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/Progress.h"
#include "tools/Verb.h"
#include "tools/verbs/DivergenceReport.h"
#include <csignal>

using namespace llvm;

namespace tapeback {
namespace {

constexpr VerbHelp reduceHelp = {
    "reduce",
    "Shrink a failing tape to the least that still fails in the same way",
    "TAPE --target URI --against URI -o OUT [--match kind|place|exact] [options]",
    "Feeds ever smaller parts of TAPE to both targets, and keeps those on which the one (--target) still "
    "parts\n"
    "from the other (--against) first in the same way: by the same kind of packet at the same object "
    "(kind),\n"
    "in the same field or at the same byte (place), by the same bits (exact). A failure of another kind "
    "does\n"
    "not count. Windows go first, then commands with their transfers, then single packets, until none can "
    "go;\n"
    "then contents that do not matter become zero. Entries of queues move up, doorbells say how many are "
    "left.\n"
    "\n"
    "OUT has what --target answered, and behind the packet where they part a check that wants the other's\n"
    "answer: a replay of OUT on --target that expects the signature reproduces the failure. It carries "
    "TAPE's root as "
    "its\n"
    "parent. The best so far lies in OUT from the first success on; an interrupt (Ctrl-C) keeps it, and "
    "reduce\n"
    "can go on from it.\n",
    "  tapeback reduce run.tape --target 'rtl:minnow?errata=requant-wrap' --against model:minnow -o "
    "small.tape\n"
    "  tapeback reduce run.tape --target qemu:edu --against model:edu -o small.tape --max-seconds 600\n",
    "  0  OUT was written\n"
    "  1  the two do not differ on TAPE: there is nothing to reduce\n"
    "  2  bad usage or a bad description\n"
    "  3  TAPE is damaged, unfinished, or no tape\n"
    "  4  a target cannot be used, or the one that should be right failed\n"
    "  5  OUT is not minimal: stopped early (interrupt, --max-runs, --max-seconds), or could not be "
    "written\n"};

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
};

void writeJson(json::OStream &os, const Arguments &arguments, const ReduceReport &result,
               const ReducedTape &written) {
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
  os.attribute("minimal", result.minimal);
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
  os.attributeArray("stages", [&] {
    for (const auto &[name, runs] : result.stages)
      os.object([&] {
        os.attribute("name", name);
        os.attribute("runs", runs);
      });
  });
}

void writeText(raw_ostream &os, const Arguments &arguments, const ReduceReport &result,
               const ReducedTape &written) {
  os << arguments.tape << " (" << result.before << " packets) -> " << arguments.out << ": "
     << written.summary.packets << " packets\n";
  os << "  failure  " << result.failure.what << " at " << result.failure.object
     << (result.failure.field.empty() ? "" : "." + result.failure.field) << "\n";
  os << "  where    " << divergenceText(result.first, "good", "bad") << "\n";
  os << "  runs     " << result.runs << ":";
  for (const auto &[name, runs] : result.stages)
    os << " " << name << " " << runs;
  os << "; " << result.differently << " failed in another way\n";
  os << "  " << (result.minimal ? "minimal: no single packet can go" : "not minimal") << "\n";
  if (!result.stopped.empty())
    os << "  stopped " << result.stopped << "; go on with: tapeback reduce " << arguments.out << " …\n";
  os << "  root     " << toHex(written.summary.root) << "\n";
}

int reduce(Report &report, const Arguments &arguments, ReduceOptions &options) {
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(arguments.tape);
  if (!source)
    return report.fail(source.takeError());
  Expected<std::vector<std::string>> bad = resolveTargets(**source, arguments.target, "--target");
  if (!bad)
    return report.fail(bad.takeError());
  Expected<std::vector<std::string>> good = resolveTargets(**source, arguments.against, "--against");
  if (!good)
    return report.fail(good.takeError());
  ReplayOptions checks;
  checks.player = options.trial.player;
  if (Error error = refuseForbiddenWrites(**source, checks))
    return report.fail(std::move(error));
  Expected<TapeImage> image = TapeImage::load(**source);
  if (!image)
    return report.fail(image.takeError());
  Endpoints endpoints{[&] { return openTargets(*good); }, [&] { return openTargets(*bad); }};
  std::optional<Progress> progress(std::in_place, "reducing", 0);
  options.progress = [&](const char *stage, uint64_t runs, uint64_t packets) {
    progress->say(std::string(stage) + ": " + std::to_string(packets) + " packets after " +
                  std::to_string(runs) + " runs");
  };
  HostTimer timer;
  uint64_t kept = 0;
  constexpr uint64_t betweenNs = 5'000'000'000;
  options.keep = [&](const Selection &best) -> Error {
    if (kept && timer.elapsed() - kept < betweenNs)
      return Error::success();
    kept = timer.elapsed();
    Expected<ReducedTape> written = writeReduced(*image, best, endpoints, options.trial, arguments.out);
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
  Expected<ReducedTape> written =
      writeReduced(*image, result->selection, endpoints, options.trial, arguments.out);
  if (!written)
    return report.fail(written.takeError());
  int exit = result->stopped.empty() ? 0 : 5;
  if (report.json()) {
    report.verdict(exit, written->signature);
    writeJson(report.object(), arguments, *result, *written);
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
  cl::list<std::string> against("against", cl::OneOrMore, cl::desc("The target that is right"),
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
  cl::opt<bool> plain("plain", cl::desc("Delta debugging by packets alone, for comparison"));
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
  if (Error error = checkOutputFile(out, tape, force))
    return report.fail(std::move(error));
  options.tries = tries;
  options.needed = needed;
  options.maxRuns = maxRuns;
  options.maxSeconds = maxSeconds;
  options.plain = plain;
  options.trial.fromReset = fromReset;
  options.trial.player.binding.allowRegisters = allow;
  return reduce(report, {tape, out, target, against}, options);
}

} // namespace tapeback
