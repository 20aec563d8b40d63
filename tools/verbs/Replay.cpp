// tapeback replay: plays a tape to targets and grades every packet.
#include "replayer/Replay.h"
#include "format/Text.h"
#include "replayer/TargetSet.h"
#include "tools/CommandLine.h"
#include "tools/OutputFile.h"
#include "tools/Progress.h"
#include "tools/Range.h"
#include "tools/Verb.h"
#include "tools/verbs/DivergenceReport.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr uint64_t listedWrites = 10000; ///< In JSON, where the whole must fit in memory.

struct ReplayArguments {
  std::string tape;
  std::vector<std::string> targets, descriptions;
  Expectation expectation = Expectation::Match;
  bool dryRun = false, digests = false;
  std::optional<std::string> until;
  std::string wave;
  std::optional<std::string> waveRange;
};

Error badOption(StringRef option, StringRef value, StringRef choices) {
  return failUsage("bad-option", ("'" + value + "' is no value for " + option).str(), option.str(),
                   "one of: " + choices.str());
}

//===- Dry run
//-----------------------------------------------------------------------------------------------===//

void printWrite(raw_ostream &os, const PlannedWrite &write) {
  const char *kind = packetKindName(write.kind);
  os << "packet " << write.packet << ": " << (kind ? kind : "unknown");
  if (!write.space.empty())
    os << " " << write.space << " " << hex(write.address);
  if (!write.reg.empty())
    os << " " << write.reg;
  if (write.kind == PacketKind::RegisterWrite || write.kind == PacketKind::Reset)
    os << " = " << hex(write.value);
  if (write.space == "memory")
    os << ", " << write.length << " bytes";
  if (write.forbidden)
    os << "  FORBIDDEN";
  os << "\n";
}

void writeWrite(json::OStream &os, const PlannedWrite &write) {
  os.object([&] {
    const char *kind = packetKindName(write.kind);
    os.attribute("packet", write.packet);
    os.attribute("device", int64_t(write.device));
    os.attribute("kind", kind ? kind : "unknown");
    os.attribute("space", json::fixUTF8(write.space));
    os.attribute("address", hex(write.address));
    os.attribute("register",
                 write.reg.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(write.reg)));
    os.attribute("value", hex(write.value));
    os.attribute("length", write.length);
    os.attribute("forbidden", write.forbidden);
  });
}

int dryRun(Report &report, TapeSource &source, const ReplayOptions &options) {
  uint64_t count = 0, forbidden = 0;
  std::string firstForbidden;
  std::vector<PlannedWrite> listed;
  Error error = planWrites(source, options, [&](const PlannedWrite &write) {
    ++count;
    forbidden += write.forbidden;
    if (write.forbidden && firstForbidden.empty())
      firstForbidden = "packet " + std::to_string(write.packet);
    if (!report.json())
      printWrite(outs(), write);
    else if (listed.size() < listedWrites)
      listed.push_back(write);
    return report.json() || !standardOutputGone();
  });
  if (error)
    return report.fail(std::move(error));
  if (report.json()) {
    json::OStream &os = report.object();
    report.verdict(forbidden ? 2 : 0);
    os.attribute("dry_run", true);
    os.attribute("count", count);
    os.attribute("forbidden", forbidden);
    os.attribute("listed", uint64_t(listed.size()));
    os.attributeArray("writes", [&] {
      for (const PlannedWrite &write : listed)
        writeWrite(os, write);
    });
  } else {
    outs() << count << " writes, resets and mappings; " << forbidden
           << " of them forbidden by the description; nothing was touched\n";
  }
  if (!forbidden)
    return report.finish(0);
  Failure failure(FailureClass::Usage, "forbidden-write",
                  std::to_string(forbidden) +
                      " writes are forbidden by the description: a replay would refuse",
                  firstForbidden, "--allow-register NAME if you know that it does no harm");
  report.error(failure);
  return report.finish(exitCodeOf(failure));
}

//===- Reports
//-----------------------------------------------------------------------------------------------===//

void writeJson(Report &report, const ReplayReport &result, const ReplayArguments &arguments,
               TapeSource &source) {
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
  os.attributeObject("digest", [&] {
    os.attribute("recorded", toHex(result.recordedDigest));
    os.attribute("replayed", toHex(result.replayedDigest));
  });
  if (arguments.digests)
    os.attributeArray("window_digests", [&] {
      for (const auto &[recorded, replayed] : result.windowDigests)
        os.array([&] {
          os.value(toHex(recorded));
          os.value(toHex(replayed));
        });
    });
}

void printText(const ReplayReport &result, const ReplayArguments &arguments) {
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
  if (!result.stopped.empty())
    os << "stopped early: " << result.stopped << "\n";
  if (result.traced)
    os << "waveform: " << arguments.wave << "\n";
  else if (!arguments.wave.empty())
    os << "no waveform: the replay stopped before the range\n";
}

int replay(Report &report, const ReplayArguments &arguments, ReplayOptions &options) {
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
  TapeReader &reader = (*source)->reader();
  if (arguments.until) {
    Expected<TapeRange> range = resolveRange(*arguments.until, reader);
    if (!range)
      return report.fail(range.takeError());
    options.endPacket = range->firstPacket + range->packetCount;
  }
  if (!arguments.wave.empty()) {
    if (Error error = checkOutputFile(arguments.wave, arguments.tape, /*force=*/true))
      return report.fail(std::move(error));
    options.trace = TraceRange{arguments.wave};
    if (arguments.waveRange) {
      Expected<TapeRange> range = resolveRange(*arguments.waveRange, reader);
      if (!range)
        return report.fail(range.takeError());
      options.trace->firstPacket = range->firstPacket;
      options.trace->endPacket = range->firstPacket + range->packetCount;
    }
  }
  if (arguments.dryRun)
    return dryRun(report, **source, options);
  if (arguments.expectation == Expectation::Signature && !reader.outcome().signature)
    return report.fail(failUsage("no-signature", "the tape records no failure that could be reproduced",
                                 arguments.tape, "`tapeback info` shows a tape's outcome"));
  Expected<std::vector<std::string>> uris = resolveTargets(**source, arguments.targets, "--target");
  if (!uris)
    return report.fail(uris.takeError());
  Expected<TargetSet> targets = openTargets(*uris);
  if (!targets)
    return report.fail(targets.takeError());
  Progress progress("replaying", options.endPacket.value_or(reader.summary().packets));
  options.progress = [&](uint64_t done) { progress.update(done); };
  Expected<ReplayReport> result = replayTape(**source, targets->targets, options);
  if (!result)
    return report.fail(result.takeError());
  int exit = exitCodeFor(*result, arguments.expectation);
  if (report.json())
    writeJson(report, *result, arguments, **source);
  else
    printText(*result, arguments);
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
  cl::opt<std::string> onDivergence("on-divergence", cl::desc("stop or continue (default: continue)"),
                                    cl::value_desc("WHAT"), cl::init("continue"));
  cl::opt<std::string> until("until", cl::desc("Stop behind this place or range (w120, p5000, @marker)"),
                             cl::value_desc("RANGE"));
  cl::opt<std::string> poison("poison",
                              cl::desc("Byte that memory is filled with before use (default: 0xa5)"),
                              cl::value_desc("BYTE"), cl::init("0xa5"));
  cl::list<std::string> allow("allow-register",
                              cl::desc("Allow writes to this register although the description forbids them"),
                              cl::value_desc("NAME"));
  cl::opt<std::string> wave("wave", cl::desc("Write a waveform, if the target has traces"),
                            cl::value_desc("FILE"));
  cl::opt<std::string> waveRange("wave-range",
                                 cl::desc("Of this place or range only (w4..w6, p5000, @marker)"),
                                 cl::value_desc("RANGE"));
  cl::opt<bool> dry("dry-run", cl::desc("List what would be written; touch no target"));
  cl::opt<bool> fromReset("from-reset",
                          cl::desc("Play a tape whose start cannot be restored on a reset device"));
  cl::opt<bool> digests("digests", cl::desc("Add a digest of every window to the JSON"));
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
       "  tapeback replay run.tape --dry-run\n",
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
  else if (onDivergence != "continue")
    return report.fail(badOption("--on-divergence", onDivergence, "stop, continue"));
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
  return replay(report, arguments, options);
}

} // namespace tapeback
