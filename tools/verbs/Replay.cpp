// tapeback replay: plays a tape to targets and grades every packet.
#include "replayer/Replay.h"
#include "format/Text.h"
#include "replayer/TargetSet.h"
#include "replayer/lab/Guard.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/PacketPrinter.h"
#include "tools/Progress.h"
#include "tools/Range.h"
#include "tools/Verb.h"
#include "tools/verbs/DivergenceReport.h"
#include "tools/verbs/ExplainPolicy.h"
#include "tools/verbs/ReplayConduct.h"
#include "tools/verbs/ReplaySession.h"

using namespace llvm;

namespace tapeback {
namespace {

struct ReplayArguments {
  std::string tape;
  std::vector<std::string> targets, descriptions;
  Expectation expectation = Expectation::Match;
  bool dryRun = false, digests = false, explainPolicy = false, ask = false;
  std::optional<std::string> until;
  std::string wave;
  std::optional<std::string> waveRange;
};

Error badOption(StringRef option, StringRef value, StringRef choices) {
  return failUsage("bad-option", ("'" + value + "' is no value for " + option).str(), option.str(),
                   "one of: " + choices.str());
}

//===- Reports
//-----------------------------------------------------------------------------------------------===//

void writePart(json::OStream &os, const TapePart *part) {
  if (!part) {
    os.attribute("range", nullptr);
    return;
  }
  os.attributeObject("range", [&] {
    os.attribute("first_packet", part->firstPacket);
    os.attribute("first_window", part->firstWindow);
    os.attribute("prefix_packets", part->prefixPackets);
    os.attribute("how", json::fixUTF8(part->how));
  });
}

void writeJson(Report &report, const ReplayReport &result, const ReplayArguments &arguments,
               const ReplaySession &session, const TapePart *part) {
  TapeSource &source = session.source;
  json::OStream &os = report.object();
  os.attribute("verdict", verdictName(result.verdict));
  os.attribute("reproduced", result.reproduced ? json::Value(*result.reproduced) : json::Value(nullptr));
  writeSignature(os, "signature", result.signature);
  writeSignature(os, "recorded_signature", source.reader().outcome().signature);
  os.attribute("signature_match", signatureMatchName(result.signatureMatch));
  os.attribute("tape", json::fixUTF8(arguments.tape));
  os.attribute("root", toHex(source.reader().summary().root));
  os.attribute("wave", result.traced ? json::Value(json::fixUTF8(arguments.wave)) : json::Value(nullptr));
  os.attribute("packets", result.packets);
  os.attribute("packets_replayed", result.packetsReplayed);
  os.attribute("windows", result.windows);
  os.attribute("windows_diverged", result.windowsDiverged);
  writeGrades(os, result.grades);
  writeDivergence(os, "first_divergence", result.firstDivergence, "recorded", "replayed");
  os.attributeArray("divergences", [&] {
    for (const Divergence &d : result.divergences)
      os.object([&] {
        os.attribute("window", d.place.window);
        os.attribute("packet", d.place.packet);
        os.attribute("grade", gradeName(d.grade));
        os.attribute("rule", ruleName(d.rule));
        os.attribute("text", json::fixUTF8(divergenceText(d)));
      });
  });
  os.attribute("stopped", result.stopped.empty() ? json::Value(nullptr) : json::Value(result.stopped));
  os.attribute("losses_crossed", result.lossesCrossed);
  os.attribute("state_unknown", result.stateUnknown);
  os.attributeArray("identity", [&] {
    for (size_t device = 0; device < result.identity.size(); ++device)
      for (const IdentityDifference &d : result.identity[device])
        os.object([&] {
          os.attribute("device", uint64_t(device));
          os.attribute("key", json::fixUTF8(d.key));
          os.attribute("recorded", json::fixUTF8(d.recorded));
          os.attribute("replayed", json::fixUTF8(d.replayed));
        });
  });
  writeFingerprint(os, result.fingerprint, result.fingerprintsCompared);
  writeConduct(os, result);
  os.attribute("start", replayStartName(result.start));
  writePart(os, part);
  writeSession(os, session, result);
  os.attributeObject("digest", [&] {
    os.attribute("recorded", toHex(result.recordedDigest));
    os.attribute("replayed", toHex(result.replayedDigest));
  });
  if (arguments.explainPolicy)
    writePolicies(os, result, source);
  if (arguments.digests)
    os.attributeArray("window_digests", [&] {
      for (const auto &[recorded, replayed] : result.windowDigests)
        os.array([&] {
          os.value(toHex(recorded));
          os.value(toHex(replayed));
        });
    });
}

void printText(const ReplayReport &result, const ReplayArguments &arguments, const ReplaySession &session,
               const TapePart *part) {
  raw_ostream &os = outs();
  os << arguments.tape << ": " << verdictName(result.verdict) << "\n";
  os << "  packets " << result.packetsReplayed << " of " << result.packets << ", windows " << result.windows;
  if (result.windowsDiverged)
    os << ", " << result.windowsDiverged << " of them differ";
  os << "\n";
  for (unsigned grade = 0; grade < gradeCount; ++grade)
    if (uint64_t count = result.grades.of(Grade(grade))) {
      os << "  " << gradeName(Grade(grade)) << " " << count;
      if (Grade(grade) != Grade::Exact) {
        const char *separator = "  (";
        for (unsigned rule = 0; rule < ruleCount; ++rule)
          if (gradeOf(Rule(rule)) == Grade(grade) && result.grades.of(Rule(rule))) {
            os << separator << result.grades.of(Rule(rule)) << " " << ruleName(Rule(rule));
            separator = ", ";
          }
        os << ")";
      }
      os << "\n";
    }
  if (result.firstDivergence) {
    const Divergence &first = *result.firstDivergence;
    os << "first divergence: " << divergenceText(first) << "\n";
    if (first.place.marker)
      os << "  after marker \"" << *first.place.marker << "\" (occurrence " << first.place.markerOccurrence
         << "), command " << first.place.command.value_or(0) << "\n";
    if (first.poisoned)
      os << "  the wrong byte is the poison: nothing wrote it in this run\n";
    for (size_t i = 1; i < result.divergences.size(); ++i)
      os << "  then: " << divergenceText(result.divergences[i]) << "\n";
  }
  for (size_t device = 0; device < result.identity.size(); ++device)
    for (const IdentityDifference &d : result.identity[device])
      os << "identity: " << d.key << " was " << (d.recorded.empty() ? "not stated" : d.recorded) << ", is "
         << (d.replayed.empty() ? "not stated" : d.replayed) << "\n";
  for (const FingerprintDifference &d : result.fingerprint)
    os << "after reset: " << d.reg << " should read " << hex(d.expected)
       << (d.fromTape ? " (as in the recording)" : " (says the description)") << ", reads " << hex(d.actual)
       << "\n";
  if (result.lossesCrossed)
    os << "loss: packets are missing from the tape; what comes after cannot be held against the target\n";
  if (result.reproduced)
    os << "recorded failure " << (*result.reproduced ? "reproduced" : "not reproduced")
       << " (match level: " << signatureMatchName(result.signatureMatch) << ")\n";
  printConduct(os, result);
  if (part)
    os << "the part began at packet " << part->firstPacket << " with " << part->how << "\n";
  printSession(os, session, result);
  if (!result.stopped.empty())
    os << "stopped early: " << result.stopped << "\n";
  if (result.traced)
    os << "waveform: " << arguments.wave << "\n";
  else if (!arguments.wave.empty())
    os << "no waveform: the replay stopped before the range\n";
}

/// Where on the tape that is played a place of the tape that was named lies.
Expected<TapeRange> rangeOfPart(StringRef text, TapeReader &whole, const TapePart *part) {
  Expected<TapeRange> range = resolveRange(text, whole);
  if (!range || !part)
    return range;
  if (range->firstPacket < part->firstPacket)
    return failUsage("bad-range", "this place lies before what is played", text.str(),
                     "the part begins at packet " + std::to_string(part->firstPacket));
  range->firstPacket -= part->firstPacket;
  return range;
}

/// The last word: the replay's, unless the second target says otherwise.
int exitCodeWith(const ReplayReport &result, const ReplaySession &session, Expectation expectation) {
  int exit = exitCodeFor(result, expectation);
  if (!session.shadow || expectation != Expectation::Match)
    return exit;
  if (session.shadow->differs())
    return worseExit(exit, 1);
  return session.shadow->notComparable || session.shadow->stopped ? worseExit(exit, 5) : exit;
}

/// A description of another device makes a replay that grades by the wrong rules: legal, but seldom meant.
void warnOfDescriptions(Report &report, const TapeSource &source, ArrayRef<std::string> texts) {
  ArrayRef<DeviceRecord> devices = source.reader().devices();
  if (texts.size() > devices.size())
    report.warn("--description is given " + std::to_string(texts.size()) + " times, but the tape has " +
                std::to_string(devices.size()) + " devices: what is beyond these is not used");
  for (size_t i = 0; i < devices.size() && i < texts.size(); ++i) {
    const Description *used = source.description(uint16_t(i));
    if (devices[i].description.empty() || texts[i].empty() || !used)
      continue;
    Expected<Description> recorded = parseDescription(devices[i].description, devices[i].descriptionName);
    if (!recorded)
      consumeError(recorded.takeError()); // It does not hold, which is why there is another.
    else if (used->name != recorded->name)
      report.warn("device " + std::to_string(i) + " was recorded as " + quoteUntrusted(recorded->name) +
                  ", but --description is of " + quoteUntrusted(used->name) + ": is it the right one?");
  }
}

int replay(Report &report, const ReplayArguments &arguments, ReplayOptions &options,
           const SessionOptions &wanted) {
  std::vector<std::string> texts;
  for (const std::string &path : arguments.descriptions) {
    Expected<DescriptionText> text = loadDescriptionText(path);
    if (!text)
      return report.fail(text.takeError());
    // Here its mistakes have the file's name; among the tape's devices they would have theirs.
    if (Error error = parseDescription(text->text, text->name).takeError())
      return report.fail(std::move(error));
    texts.push_back(text->text);
  }
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(arguments.tape, texts);
  if (!source)
    return report.fail(source.takeError());
  warnOfDescriptions(report, **source, texts);
  if (!(*source)->reader().summary().packets)
    report.warn("nothing is on the tape: that the target did the same says nothing");
  std::unique_ptr<LabFile> lab;
  if (!wanted.lab.empty()) {
    Expected<std::unique_ptr<LabFile>> read = readLabFile(wanted.lab);
    if (!read)
      return report.fail(read.takeError());
    lab = std::move(*read);
    if (!wanted.allowExec && !arguments.dryRun && !(lab->beforeRun.empty() && lab->afterFailure.empty()))
      return report.fail(failUsage("exec-not-allowed", "the lab's file says that commands are to be run",
                                   wanted.lab, "--allow-exec runs them; --dry-run lists them"));
  }
  TapeReader &whole = (*source)->reader();
  std::optional<TapePart> part;
  if (wanted.range.getNumOccurrences()) {
    Expected<TapePart> cut = cutPart(**source, wanted.range, texts);
    if (!cut)
      return report.fail(cut.takeError());
    part = std::move(*cut);
  }
  const TapePart *ofPart = part ? &*part : nullptr;
  TapeSource &played = part ? *part->source : **source;
  TapeReader &reader = played.reader();
  ReplaySession session(played, arguments.tape, lab.get());
  session.json = report.json();
  session.askAtDivergence = arguments.ask;
  session.prompt = wanted.prompt;
  if (wanted.prompt && !arguments.until && !arguments.ask)
    session.promptAt = 0;
  if (arguments.until) {
    Expected<TapeRange> range = rangeOfPart(*arguments.until, whole, ofPart);
    if (!range)
      return report.fail(range.takeError());
    (wanted.prompt ? session.promptAt : options.endPacket) = range->firstPacket + range->packetCount;
  }
  if (!arguments.wave.empty()) {
    if (Error error = checkOutputFile(arguments.wave, arguments.tape, /*force=*/true))
      return report.fail(std::move(error));
    options.trace = TraceRange{arguments.wave};
    if (arguments.waveRange) {
      Expected<TapeRange> range = rangeOfPart(*arguments.waveRange, whole, ofPart);
      if (!range)
        return report.fail(range.takeError());
      options.trace->firstPacket = range->firstPacket;
      options.trace->endPacket = range->firstPacket + range->packetCount;
    }
  }
  std::vector<std::string> named = options.player.binding.allowRegisters;
  if (lab) // What names a range of the lab's is no register's name.
    erase_if(options.player.binding.allowRegisters, [&](const std::string &name) {
      return any_of(lab->forbidden, [&](const ForbiddenRange &range) { return range.name == name; });
    });
  if (arguments.dryRun)
    return replayDryRun(report, played, options, lab.get(), named);
  if (lab) {
    if (Error error = refuseForbiddenRanges(played, lab->forbidden, named, options.endPacket))
      return report.fail(std::move(error));
    for (const ForbiddenRange &range : lab->forbidden)
      if (!is_contained(named, range.name))
        session.forbidden.push_back(range);
  }
  if (arguments.expectation == Expectation::Signature && !reader.outcome().signature)
    return report.fail(failUsage("no-signature", "the tape records no failure that could be reproduced",
                                 arguments.tape, "`tapeback info` shows a tape's outcome"));
  Expected<std::vector<std::string>> uris = resolveTargets(played, arguments.targets, "--target");
  if (!uris)
    return report.fail(uris.takeError());
  session.targets = *uris;
  if (!wanted.shadow.empty()) {
    Expected<std::vector<std::string>> second = resolveTargets(
        played, std::vector<std::string>(wanted.shadow.begin(), wanted.shadow.end()), "--shadow");
    if (!second)
      return report.fail(second.takeError());
    session.shadows = *second;
  }
  if (wanted.repeat > 1)
    return replayRepeatedly(report, session, options, arguments.expectation, wanted.repeat, ofPart);
  Progress progress("replaying", options.endPacket.value_or(reader.summary().packets));
  if (!wanted.prompt && !arguments.ask) // A bar would be drawn over what the prompt says.
    options.progress = [&](uint64_t done) { progress.update(done); };
  Expected<ReplayReport> result = session.run(options, 0);
  if (!result)
    return report.fail(result.takeError());
  if (part)
    renumber(*result, *part);
  int exit = exitCodeWith(*result, session, arguments.expectation);
  if (exit == 1 && result->verdict == Verdict::Match && arguments.expectation == Expectation::Match)
    result->verdict = Verdict::Divergence; // Of the two targets.
  if (exit == 5 && result->verdict == Verdict::Match)
    result->verdict = Verdict::Incomplete;
  if (report.json())
    writeJson(report, *result, arguments, session, ofPart);
  else
    printText(*result, arguments, session, ofPart);
  if (!report.json() && arguments.explainPolicy)
    printPolicies(outs(), *result, played);
  if (exit == 4 && result->targetFailure)
    report.error(*result->targetFailure);
  return report.finish(exit);
}

} // namespace

int runReplay(ArrayRef<const char *> args) {
  cl::opt<std::string> tape(cl::Positional, cl::Required, cl::desc("TAPE"));
  cl::list<std::string> targets("target",
                                cl::desc("What to play to; ALIAS=URI for each device if there are several"),
                                cl::value_desc("URI"));
  cl::list<std::string> descriptions(
      "description",
      cl::desc("Use this description (file or name) instead of the tape's own; once "
               "per device, in the tape's order"),
      cl::value_desc("FILE"));
  cl::opt<std::string> expect("expect",
                              cl::desc("What exit code 0 means: match, signature (the tape's failure "
                                       "reproduces) or divergence (default: match)"),
                              cl::value_desc("WHAT"), cl::init("match"));
  cl::opt<std::string> level(
      "match-level",
      cl::desc("How alike failures must be to be the same: exact, place or kind (default: place)"),
      cl::value_desc("LEVEL"), cl::init("place"));
  cl::opt<std::string> onDivergence(
      "on-divergence",
      cl::desc("stop, continue, or ask (the prompt, behind each packet that differs; "
               "default: continue)"),
      cl::value_desc("WHAT"), cl::init("continue"));
  cl::opt<std::string> until("until", cl::desc("Stop behind this place or range (w120, p5000, @marker)"),
                             cl::value_desc("RANGE"));
  cl::opt<std::string> poison("poison",
                              cl::desc("Byte that memory is filled with before use (default: 0xa5)"),
                              cl::value_desc("BYTE"), cl::init("0xa5"));
  cl::list<std::string> allow("allow-register",
                              cl::desc("Allow writes to this register although the description forbids them"),
                              cl::value_desc("NAME"));
  ConductOptions conduct;
  SessionOptions session;
  cl::opt<std::string> wave("wave", cl::desc("Write a waveform, if the target has traces"),
                            cl::value_desc("FILE"));
  cl::opt<std::string> waveRange("wave-range",
                                 cl::desc("Of this place or range only (w4..w6, p5000, @marker)"),
                                 cl::value_desc("RANGE"));
  cl::opt<bool> dry("dry-run", cl::desc("List what would be written; touch no target"));
  cl::opt<bool> fromReset("from-reset",
                          cl::desc("Play a tape whose start cannot be restored on a reset device"));
  cl::opt<bool> digests("digests", cl::desc("Add a digest of every window to the JSON"));
  cl::opt<bool> explain("explain-policy",
                        cl::desc("Show by which policy each register is replayed, and how many packets each "
                                 "rule decided"));
  cl::opt<unsigned> maxWait(
      "max-wait", cl::desc("Seconds that one wait may take at most, whatever the tape says (default: 60)"),
      cl::value_desc("SECONDS"), cl::init(60));
  cl::opt<std::string> maxMemory(
      "max-memory", cl::desc("Bytes of memory that the tape may map at one time (default: 2 GiB)"),
      cl::value_desc("BYTES"), cl::init("0x80000000"));
  CommandLine line(
      {"replay", "Play a tape to a target and grade every packet", "TAPE --target URI [options]",
       "Memory is mapped where it was recorded and filled with poison, the target is reset and its\n"
       "fingerprint taken; then every packet is issued again in order. Reads are compared as the device\n"
       "description says, polls and waits are replayed as their conditions, checks of the program are "
       "redone.\n"
       "\n"
       "Each packet gets a grade: exact, tolerated, mismatch, order-violation, timeout, target-error,\n"
       "not-captured or consequential. A match means that everything compared was compared.\n",
       "  tapeback replay run.tape --target model:edu\n"
       "  tapeback replay run.tape --target qemu:edu --json\n"
       "  tapeback replay fail.tape --target vfio:0000:01:00.0 --expect signature\n"
       "  tapeback replay run.tape --target rtl:minnow --wave run.fst --wave-range w4..w6\n"
       "  tapeback replay run.tape --dry-run\n"
       "  tapeback replay fail.tape --target 'model:edu?seed={run}' --repeat 100 --expect signature\n"
       "  tapeback replay fail.tape --target rtl:minnow --range w40..w44 --repeat 100\n"
       "  tapeback replay run.tape --target rtl:minnow --shadow model:minnow\n"
       "  tapeback replay run.tape --target model:edu --until @dma --prompt\n"
       "  tapeback replay run.tape --target vfio:0000:01:00.0 --lab lab.yaml --allow-exec\n",
       "  0  as expected (--expect)\n"
       "  1  not as expected: a divergence, or the failure did not reproduce\n"
       "  2  bad usage, a bad description, or a write that the description forbids\n"
       "  3  damaged or foreign tape\n"
       "  4  the target failed in a way that the tape does not expect\n"
       "  5  something could not be compared (not captured, null: target, a loss in between)\n"});
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("replay", line.json());
  ReplayArguments arguments;
  ReplayOptions options;
  arguments.tape = tape;
  arguments.targets = targets;
  arguments.descriptions = descriptions;
  arguments.dryRun = dry;
  arguments.digests = options.keepDigests = digests;
  arguments.explainPolicy = options.countByRegister = explain;
  if (until.getNumOccurrences())
    arguments.until = until;
  arguments.wave = wave;
  if (waveRange.getNumOccurrences()) {
    if (wave.empty())
      return report.fail(failUsage("bad-option", "--wave-range says of what, but nothing says where to",
                                   "--wave-range", "give --wave FILE, too"));
    arguments.waveRange = waveRange;
  }
  if (expect == "match")
    arguments.expectation = Expectation::Match;
  else if (expect == "signature")
    arguments.expectation = Expectation::Signature;
  else if (expect == "divergence")
    arguments.expectation = Expectation::Divergence;
  else
    return report.fail(badOption("--expect", expect, "match, signature, divergence"));
  if (level == "exact")
    options.wantedMatch = SignatureMatch::Exact;
  else if (level == "place")
    options.wantedMatch = SignatureMatch::SamePlace;
  else if (level == "kind")
    options.wantedMatch = SignatureMatch::SameKind;
  else
    return report.fail(badOption("--match-level", level, "exact, place, kind"));
  if (onDivergence == "stop")
    options.stopAtDivergence = true;
  else if (onDivergence == "ask")
    arguments.ask = true;
  else if (onDivergence != "continue")
    return report.fail(badOption("--on-divergence", onDivergence, "stop, continue, ask"));
  Expected<uint64_t> byte = parseNumber(poison);
  if (!byte)
    return report.fail(byte.takeError());
  if (*byte > 0xff)
    return report.fail(badOption("--poison", poison, "a byte, 0 to 0xff"));
  Expected<uint64_t> memory = parseNumber(maxMemory);
  if (!memory)
    return report.fail(memory.takeError());
  options.player.binding.poison = uint8_t(*byte);
  options.player.binding.maxMappedBytes = *memory;
  options.player.binding.allowRegisters = allow;
  if (!maxWait)
    return report.fail(badOption("--max-wait", "0", "1 second or more"));
  options.player.waits.maxDeadline = options.player.waits.maxHostTime = uint64_t(maxWait) * 1'000'000'000;
  options.fromReset = fromReset;
  if (Error error = conduct.apply(options))
    return report.fail(std::move(error));
  if (Error error = session.check(!wave.empty()))
    return report.fail(std::move(error));
  if (arguments.ask && session.repeat > 1)
    return report.fail(failUsage("bad-option",
                                 "--on-divergence ask stops in one replay, and --repeat makes many",
                                 "--on-divergence", "leave out one of them"));
  return replay(report, arguments, options, session);
}

} // namespace tapeback
