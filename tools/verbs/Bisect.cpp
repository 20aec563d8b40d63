// tapeback bisect: names the first window, packet and byte in which two targets differ.
#include "replayer/bisect/Bisect.h"
#include "format/Text.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/Progress.h"
#include "tools/Verb.h"
#include "tools/verbs/DivergenceReport.h"

using namespace llvm;

namespace tapeback {
namespace {

json::Value orNull(const std::string &text) {
  return text.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(text));
}

void writeWriter(json::OStream &os, const WriterRecord &writer) {
  writePlace(os, placeOf(writer.place));
  os.attribute("kind", json::fixUTF8(writer.kind));
  os.attribute("space", json::fixUTF8(writer.space));
  os.attribute("address", hex(writer.address));
  os.attribute("register", orNull(writer.reg));
  os.attribute("value", hex(writer.value));
  os.attribute("wrote", json::fixUTF8(writer.wrote));
  os.attribute("descriptor", writer.descriptor ? json::Value(*writer.descriptor) : json::Value(nullptr));
  os.attribute("direction", !writer.descriptor ? json::Value(nullptr)
                                               : json::Value(writer.toDevice ? "to-device" : "from-device"));
}

void writeCoverage(json::OStream &os, const BisectCoverage &coverage) {
  os.attributeObject("coverage", [&] {
    os.attribute("windows", coverage.windows);
    os.attribute("windows_observed", coverage.windowsObserved);
    os.attribute("windows_probed", coverage.windowsProbed);
    os.attributeObject("windows_not_probed", [&] {
      for (const auto &[reason, count] : coverage.windowsNotProbed)
        os.attribute(reason, count);
    });
    os.attribute("packets_not_compared", coverage.packetsNotCompared);
    os.attribute("doorbells_not_settled", coverage.doorbellsNotSettled);
    auto names = [&](StringRef key, const std::set<std::string> &set) {
      os.attributeArray(key, [&] {
        for (const std::string &name : set)
          os.value(json::fixUTF8(name));
      });
    };
    names("internal_windows", coverage.probes.windows);
    names("registers", coverage.probes.registers);
    names("counters", coverage.probes.counters);
    os.attribute("memory", coverage.probes.memory);
    os.attributeObject("not_visible", [&] {
      for (const auto &[name, reason] : coverage.probes.notVisible)
        os.attribute(json::fixUTF8(name), json::fixUTF8(reason));
    });
  });
}

void writeJson(Report &report, const BisectReport &result, TapeSource &source, StringRef tape) {
  json::OStream &os = report.object();
  auto number = [](const std::optional<uint64_t> &value) {
    return value ? json::Value(*value) : json::Value(nullptr);
  };
  os.attribute("verdict", verdictName(result.verdict));
  os.attribute("reproduced", nullptr);
  writeSignature(os, "signature", source.reader().outcome().signature);
  os.attribute("tape", json::fixUTF8(tape));
  os.attribute("root", toHex(source.reader().summary().root));
  os.attribute("method", result.method);
  writeDivergence(os, "first_divergence", result.first, "good", "bad");
  writeDivergence(os, "first_observed", result.observed, "good", "bad");
  os.attribute("probes", result.probes);
  os.attribute("same_at", number(result.sameAt));
  os.attribute("visible_at", number(result.visibleAt));
  os.attribute("healed", result.healed);
  if (result.writers.empty())
    os.attribute("last_writer", nullptr);
  else
    os.attributeObject("last_writer", [&] { writeWriter(os, result.writers.front()); });
  os.attributeArray("writers", [&] {
    for (const WriterRecord &writer : result.writers)
      os.object([&] { writeWriter(os, writer); });
  });
  os.attributeArray("before", [&] {
    for (const PacketLine &line : result.before)
      os.object([&] {
        os.attribute("packet", line.packet);
        os.attribute("text", json::fixUTF8(line.text));
      });
  });
  writeCoverage(os, result.coverage);
  if (!result.wave)
    os.attribute("wave", nullptr);
  else
    os.attributeObject("wave", [&] {
      const WaveReport &wave = *result.wave;
      os.attribute("file", wave.written ? json::Value(json::fixUTF8(wave.file)) : json::Value(nullptr));
      os.attribute("endpoint", wave.written ? json::Value(wave.side) : json::Value(nullptr));
      os.attribute("window", wave.window);
      os.attribute("reason", orNull(wave.reason));
    });
  os.attributeArray("runs", [&] {
    for (const BisectRun &run : result.runs)
      os.object([&] {
        os.attribute("diverged", run.diverged);
        os.attribute("window", run.diverged ? json::Value(run.window) : json::Value(nullptr));
        os.attribute("packet", run.diverged ? json::Value(run.packet) : json::Value(nullptr));
      });
  });
  os.attributeObject("intermittent", [&] {
    os.attribute("good", result.goodIntermittent);
    os.attribute("bad", result.badIntermittent);
  });
  os.attribute("good_matches_tape", !result.goodAgainstTape);
  writeDivergence(os, "good_against_tape", result.goodAgainstTape, "recorded", "good");
  os.attributeArray("notes", [&] {
    for (const std::string &note : result.notes)
      os.value(json::fixUTF8(note));
  });
}

void printDivergence(raw_ostream &os, const BisectReport &result) {
  const Divergence &first = *result.first;
  os << "good and bad part in window " << first.place.window << "\n";
  os << "  " << divergenceText(first, "good", "bad") << "\n";
  if (first.place.marker)
    os << "  after marker \"" << *first.place.marker << "\" (occurrence " << first.place.markerOccurrence
       << "), command " << first.place.command.value_or(0) << "\n";
  if (result.visibleAt && *result.visibleAt != first.place.packet)
    os << "  the states differed from packet " << *result.visibleAt << " on"
       << (result.sameAt ? ", and were the same after packet " + std::to_string(*result.sameAt) : "") << "\n";
  if (result.observed && result.observed->place.packet != first.place.packet)
    os << "  the host saw it first at " << divergenceText(*result.observed, "good", "bad") << "\n";
  else if (!result.observed)
    os << "  the host never saw it\n";
  if (result.healed)
    os << "  it healed: the states agreed again later\n";
  for (const WriterRecord &writer : result.writers) {
    os << "  " << (&writer == &result.writers.front() ? "last written" : "which it had from what was written")
       << " by packet " << writer.place.packet << " in window " << writer.place.window << " (" << writer.kind;
    if (!writer.reg.empty())
      os << " " << writer.reg;
    os << "): " << writer.wrote << "\n";
  }
  os << "packets before:\n";
  for (const PacketLine &line : result.before)
    os << (line.packet == first.place.packet ? " > " : "   ") << line.packet << "  " << line.text << "\n";
}

void printText(const BisectReport &result, StringRef tape) {
  raw_ostream &os = outs();
  os << tape << ": " << verdictName(result.verdict) << " (" << result.method << ", " << result.probes
     << " probes)\n";
  if (result.first)
    printDivergence(os, result);
  else if (result.verdict == Verdict::Incomplete)
    os << result.coverage.packetsNotCompared << " packets could not be compared: a target does not answer\n";
  else
    os << "good and bad do not differ\n";
  if (result.goodAgainstTape)
    os << "the good endpoint is not what was recorded: "
       << divergenceText(*result.goodAgainstTape, "recorded", "good") << "\n";
  for (auto [name, flag] :
       {std::pair("good", result.goodIntermittent), std::pair("bad", result.badIntermittent)})
    if (flag) {
      size_t diverged = llvm::count_if(result.runs, [](const BisectRun &run) { return run.diverged; });
      os << "the " << name << " endpoint is intermittent: " << diverged << " of " << result.runs.size()
         << " runs differed, not all of them alike\n";
    }
  if (result.wave && result.wave->written)
    os << "waveform of window " << result.wave->window << " on the " << result.wave->side
       << " endpoint: " << result.wave->file << "\n";
  else if (result.wave)
    os << "no waveform: " << result.wave->reason << "\n";
  const BisectCoverage &coverage = result.coverage;
  os << "coverage: " << coverage.windowsObserved << " of " << coverage.windows << " windows observed";
  if (coverage.windowsProbed)
    os << ", " << coverage.windowsProbed << " probed; " << coverage.probes.registers.size() << " registers, "
       << coverage.probes.counters.size() << " counters, " << coverage.probes.windows.size()
       << " internal windows" << (coverage.probes.memory ? ", memory" : "");
  os << "\n";
  for (const auto &[reason, count] : coverage.windowsNotProbed)
    os << "  " << count << " windows not probed: " << reason << "\n";
  if (coverage.doorbellsNotSettled)
    os << "  " << coverage.doorbellsNotSettled
       << " doorbells not probed: the devices did not become idle behind them\n";
  for (const auto &[name, reason] : coverage.probes.notVisible)
    os << "  " << name << " not compared: " << reason << "\n";
  for (const std::string &note : result.notes)
    os << "note: " << note << "\n";
}

Error checkArguments(StringRef probe, unsigned runs) {
  if (probe != "observed" && probe != "deep")
    return failUsage("bad-option", ("'" + probe + "' is no kind of probe").str(), "--probe",
                     "one of: observed, deep");
  if (!runs || runs > 1000)
    return failUsage("bad-option", std::to_string(runs) + " runs", "--runs", "1 to 1000");
  return Error::success();
}

struct BisectArguments {
  std::string tape;
  std::vector<std::string> good, bad, descriptions;
};

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
  Endpoints endpoints{[&] { return openTargets(*good); }, [&] { return openTargets(*bad); }};
  Expected<BisectReport> result = bisectTape(**source, endpoints, options);
  progress.reset();
  if (!result)
    return report.fail(result.takeError());
  int exit = exitCodeFor(*result);
  if (report.json())
    writeJson(report, *result, **source, arguments.tape);
  else
    printText(*result, arguments.tape);
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
      "runs", cl::desc("Passes that must come out alike, or an endpoint is intermittent (default: 2)"),
      cl::value_desc("N"), cl::init(2));
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
       "or other activity the register write that started it. Targets that can be peeked are looked at in "
       "one\n"
       "pass; others by a search over prefixes and a verification, because divergences heal.\n",
       "  tapeback bisect run.tape --good model:edu --bad 'model:edu?fault=dma-last-byte' --probe deep\n"
       "  tapeback bisect run.tape --good qemu:edu --bad vfio:0000:01:00.0 --json\n"
       "  tapeback bisect run.tape --good model:minnow --bad rtl:minnow --probe deep --wave bad.fst\n",
       "  0  the two do not differ\n"
       "  1  they do, and the place is named\n"
       "  2  bad usage or a bad description\n"
       "  3  damaged or foreign tape\n"
       "  4  a target cannot be used, or the good one failed\n"
       "  5  they could not be compared (null: target)\n"});
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("bisect", line.json());
  if (Error error = checkArguments(probe, runs))
    return report.fail(std::move(error));
  if (!wave.empty())
    if (Error error = checkOutputFile(wave, tape, /*force=*/true)) // Before the work, not after it.
      return report.fail(std::move(error));
  BisectArguments arguments;
  arguments.tape = tape;
  arguments.good = good;
  arguments.bad = bad;
  arguments.descriptions = descriptions;
  BisectOptions options;
  options.deep = probe == "deep";
  options.runs = runs;
  options.maxProbes = maxProbes;
  options.fromReset = fromReset;
  options.waveFile = wave;
  options.player.binding.allowRegisters = allow;
  options.player.waits.maxDeadline = options.player.waits.maxHostTime = uint64_t(maxWait) * 1'000'000'000;
  return bisect(report, arguments, options);
}

} // namespace tapeback
