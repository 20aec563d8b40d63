// replay --repeat and replay --dry-run: their reports.
#include "replayer/lab/Guard.h"
#include "replayer/lab/SideEffects.h"
#include "tools/Progress.h"
#include "tools/verbs/DivergenceReport.h"
#include "tools/verbs/RateReport.h"
#include "tools/verbs/ReplaySession.h"
#include "llvm/Support/Format.h"

using namespace llvm;

namespace tapeback {

//===- Repeat
//-------------------------------------------------------------------------------------------------===//

static const char *whatCounts(const RepeatReport &result) {
  return result.tapeFails ? "reproduced" : "diverged";
}

namespace {

/// How the runs began, and what became of the snapshot.
struct Starts {
  std::array<uint64_t, replayStartCount> counts{};
  const KeptStart *kept = nullptr; ///< Null: there is nothing that a snapshot could stand for, or `whyNot`.
  uint64_t firstPacket = 0;        ///< Of the part that is played.
  std::string whyNot;
};

Starts startsOf(const RepeatReport &result, const ReplaySession &session, const TapePart *part,
                std::string whyNot) {
  Starts starts;
  for (const RepeatedRun &run : result.runs)
    if (run.start)
      ++starts.counts[unsigned(*run.start)];
  if (session.keptStart) {
    starts.kept = &*session.keptStart;
    whyNot = session.keptStart->whyNot();
  }
  if (part)
    starts.firstPacket = part->firstPacket;
  starts.whyNot = std::move(whyNot);
  return starts;
}

void writeStarts(json::OStream &os, const Starts &starts) {
  os.attributeObject("starts", [&] {
    for (unsigned start = 0; start < replayStartCount; ++start)
      os.attribute(replayStartName(ReplayStart(start)), starts.counts[start]);
  });
  if (!starts.kept && starts.whyNot.empty()) {
    os.attribute("snapshot", nullptr);
    return;
  }
  os.attributeObject("snapshot", [&] {
    os.attribute("packet", starts.kept ? json::Value(starts.firstPacket + starts.kept->packet())
                                       : json::Value(nullptr));
    os.attribute("verified", starts.kept && starts.kept->verified());
    os.attribute("why_not",
                 starts.whyNot.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(starts.whyNot)));
  });
}

void printStarts(raw_ostream &os, const Starts &starts) {
  const char *separator = "started from: ";
  for (unsigned start = 0; start < replayStartCount; ++start)
    if (starts.counts[start]) {
      os << separator << replayStartName(ReplayStart(start)) << " " << starts.counts[start];
      separator = ", ";
    }
  if (*separator == ',')
    os << "\n";
  if (starts.kept && starts.kept->verified())
    os << "snapshot at packet " << starts.firstPacket + starts.kept->packet()
       << ": the target showed the same state when it was put back\n";
  if (!starts.whyNot.empty())
    os << "no snapshot: " << starts.whyNot << "\n";
}

} // namespace

static void writeRepeat(json::OStream &os, const RepeatReport &result, unsigned asked, const Starts &starts) {
  os.attributeObject("repeat", [&] {
    os.attribute("asked", asked);
    os.attribute("runs", uint64_t(result.runs.size()));
    os.attribute("order", result.order());
    os.attributeObject("outcomes", [&] {
      for (unsigned outcome = 0; outcome < runOutcomeCount; ++outcome)
        os.attribute(runOutcomeName(RunOutcome(outcome)), result.counts[outcome]);
    });
    os.attributeObject("excluded", [&] {
      for (const auto &[reason, count] : result.excluded)
        os.attribute(json::fixUTF8(reason), count);
    });
    os.attributeObject("rate", [&] {
      writeRateOf(os, whatCounts(result), result.hits, result.counted, result.interval);
      writeHalf(os, result.firstHalfHits, result.firstHalfCounted);
    });
    writeHalf(os, result.firstHalfHits, result.firstHalfCounted); // Where it was before rates had one.
    os.attributeArray("histogram", [&] {
      for (const RepeatReport::Place &place : result.histogram)
        os.object([&] {
          os.attribute("packet", place.packet);
          os.attribute("count", place.count);
          os.attribute("text", json::fixUTF8(place.text));
        });
    });
    os.attribute("other_places", result.otherPlaces);
    os.attribute("stopped",
                 result.stopped.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(result.stopped)));
    os.attributeArray("list", [&] {
      for (const RepeatedRun &run : result.runs)
        os.object([&] {
          os.attribute("outcome", runOutcomeName(run.outcome));
          os.attribute("verdict", verdictName(run.verdict));
          os.attribute("reason",
                       run.reason.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(run.reason)));
          os.attribute("packet", run.first ? json::Value(run.first->place.packet) : json::Value(nullptr));
          os.attribute("duration", run.hostTime);
          os.attribute("start", run.start ? json::Value(replayStartName(*run.start)) : json::Value(nullptr));
        });
    });
    writeStarts(os, starts);
  });
}

static void printRepeat(raw_ostream &os, const RepeatReport &result, StringRef tape, const Starts &starts) {
  constexpr size_t perLine = 50, shownPlaces = 10;
  os << tape << ": " << result.runs.size() << " runs\n";
  for (unsigned outcome = 0; outcome < runOutcomeCount; ++outcome)
    if (result.counts[outcome])
      os << "  " << runOutcomeLetter(RunOutcome(outcome)) << " " << runOutcomeName(RunOutcome(outcome)) << " "
         << result.counts[outcome] << "\n";
  for (const auto &[reason, count] : result.excluded)
    os << "    excluded " << count << ": " << reason << "\n";
  if (result.counted)
    os << whatCounts(result) << " " << result.hits << " of " << result.counted << ": "
       << format("%.1f", 100 * result.interval.rate) << " % (95 % interval "
       << format("%.1f", 100 * result.interval.low) << " to " << format("%.1f", 100 * result.interval.high)
       << " %, Wilson)\n";
  else
    os << "no run counts\n";
  if (result.firstHalfCounted)
    os << "first half " << result.firstHalfHits << " of " << result.firstHalfCounted << ", second half "
       << result.hits - result.firstHalfHits << " of " << result.counted - result.firstHalfCounted << "\n";
  std::string order = result.order();
  for (size_t at = 0; at < order.size(); at += perLine)
    os << (at ? "       " : "order: ") << order.substr(at, perLine) << "\n";
  if (!result.histogram.empty())
    os << "first divergences:\n";
  for (size_t i = 0; i < result.histogram.size() && i < shownPlaces; ++i)
    os << "  " << result.histogram[i].count << " times " << result.histogram[i].text << "\n";
  if (result.histogram.size() > shownPlaces)
    os << "  … and " << result.histogram.size() - shownPlaces << " other places\n";
  printStarts(os, starts);
  if (!result.stopped.empty())
    os << "stopped early: " << result.stopped << "\n";
}

int replayRepeatedly(Report &report, ReplaySession &session, const ReplayOptions &options,
                     Expectation expectation, unsigned runs, const TapePart *part) {
  std::string whyNoSnapshot;
  bool isThereAWay = part && (part->prefixPackets || part->source->reader().keyframeCount());
  if (isThereAWay) {
    whyNoSnapshot = session.whyNoSnapshot(options);
    if (whyNoSnapshot.empty())
      session.keptStart.emplace(session.source, part->prefixPackets);
  }
  Progress progress("repeating", runs);
  RepeatOptions repeat;
  repeat.runs = runs;
  repeat.wantedMatch = options.wantedMatch;
  repeat.identities = identityRegisters(session.source);
  repeat.progress = [&](unsigned done) { progress.show(done); };
  std::vector<HookResult> hooks;
  constexpr size_t keptHooks = 1000;
  Expected<RepeatReport> result =
      repeatReplay(session.source.reader().outcome(), repeat, [&](unsigned number) {
        Expected<ReplayReport> run = session.run(options, number);
        for (HookResult &hook : session.hooks)
          if (hooks.size() < keptHooks)
            hooks.push_back(std::move(hook));
        if (run && part)
          renumber(*run, *part);
        return run;
      });
  if (!result)
    return report.fail(result.takeError());
  Starts starts = startsOf(*result, session, part, std::move(whyNoSnapshot));
  int exit = exitCodeFor(*result, expectation);
  const RepeatedRun *example = nullptr;
  for (const RepeatedRun &run : result->runs)
    if (!example && run.signature && run.outcome <= RunOutcome::ReproducedSameKind)
      example = &run;
  if (report.json()) {
    json::OStream &os = report.object();
    os.attribute("verdict", exit == 0   ? "match"
                            : exit == 1 ? "divergence"
                            : exit == 5 ? "incomplete"
                                        : "error");
    bool known = result->tapeFails && result->counted;
    os.attribute("reproduced", known ? json::Value(result->hits > 0) : json::Value(nullptr));
    writeSignature(os, "signature", example ? example->signature : std::nullopt);
    writeSignature(os, "recorded_signature", session.source.reader().outcome().signature);
    os.attribute("tape", json::fixUTF8(session.tape));
    os.attribute("root", toHex(session.source.reader().summary().root));
    writeRepeat(os, *result, runs, starts);
    writeHooks(os, hooks);
  } else {
    printRepeat(outs(), *result, session.tape, starts);
  }
  if (exit == 4) {
    std::string why;
    for (const RepeatedRun &run : result->runs)
      if (why.empty() && run.outcome == RunOutcome::TargetError)
        why = run.reason;
    report.error(Failure(FailureClass::Target, "target-failed",
                         std::to_string(result->counts[unsigned(RunOutcome::TargetError)]) +
                             " runs ended with a failure of the target: " + why,
                         session.targets.empty() ? "" : session.targets[0],
                         "play it once without --repeat to see where"));
  }
  return report.finish(exit);
}

//===- Dry run
//------------------------------------------------------------------------------------------------===//

namespace {

constexpr uint64_t listedWrites = 10000; ///< In JSON, where the whole must fit in memory.

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

void writeEffect(json::OStream &os, const SideEffect &effect) {
  auto number = [](const std::optional<uint64_t> &value) {
    return value ? json::Value(*value) : json::Value(nullptr);
  };
  os.object([&] {
    os.attribute("effect", effect.kind);
    os.attribute("device", int64_t(effect.device));
    os.attribute("space", json::fixUTF8(effect.space));
    os.attribute("register",
                 effect.reg.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(effect.reg)));
    os.attribute("address", hex(effect.address));
    os.attribute("last_address", hex(effect.lastAddress));
    os.attribute("count", effect.count);
    os.attribute("bytes", effect.bytes);
    os.attribute("first_packet", number(effect.firstPacket));
    os.attribute("last_packet", number(effect.lastPacket));
    os.attributeArray("values", [&] {
      for (uint64_t value : effect.values)
        os.value(hex(value));
    });
    os.attribute("more_values", effect.moreValues);
    os.attribute("longest_wait", effect.longestWait);
    os.attribute("forbidden", effect.forbidden);
    os.attribute("note", json::fixUTF8(effect.note));
  });
}

void printEffects(raw_ostream &os, const SideEffects &effects, const LabFile *lab) {
  constexpr size_t shown = 400;
  auto hooks = [&](const char *when, ArrayRef<const Hook *> all) {
    for (const Hook *hook : all)
      os << "command " << hook->text() << " (" << when << ")\n";
  };
  if (lab)
    hooks("before each run", lab->beforeRun);
  for (size_t i = 0; i < effects.groups.size() && i < shown; ++i)
    os << sideEffectText(effects.groups[i]) << "\n";
  if (effects.groups.size() > shown)
    os << "… and " << effects.groups.size() - shown << " more groups\n";
  if (effects.ungrouped)
    os << "… and " << effects.ungrouped << " more effects\n";
  if (lab)
    hooks("after a run in which the target fails", lab->afterFailure);
}

} // namespace

int replayDryRun(Report &report, TapeSource &source, const ReplayOptions &options, const LabFile *lab,
                 ArrayRef<std::string> allowed) {
  Expected<SideEffects> effects = findSideEffects(source, options);
  if (!effects)
    return report.fail(effects.takeError());
  uint64_t count = 0;
  std::vector<PlannedWrite> listed;
  Error error = planWrites(source, options, [&](const PlannedWrite &write) {
    ++count;
    if (report.json() && listed.size() < listedWrites)
      listed.push_back(write);
    return true;
  });
  if (error)
    return report.fail(std::move(error));
  std::optional<Failure> byLab;
  if (lab)
    if (Error refused = refuseForbiddenRanges(source, lab->forbidden, allowed, options.endPacket))
      byLab = toFailure(std::move(refused));
  if (report.json()) {
    json::OStream &os = report.object();
    report.verdict(effects->forbidden || byLab ? 2 : 0);
    os.attribute("dry_run", true);
    os.attribute("count", count);
    os.attribute("forbidden", effects->forbidden);
    os.attribute("listed", uint64_t(listed.size()));
    os.attributeArray("effects", [&] {
      for (const SideEffect &effect : effects->groups)
        writeEffect(os, effect);
    });
    os.attribute("effects_not_grouped", effects->ungrouped);
    os.attributeArray("commands", [&] {
      if (lab)
        for (const auto &[when, all] :
             {std::pair("before-run", &lab->beforeRun), std::pair("after-failure", &lab->afterFailure)})
          for (const Hook *hook : *all)
            os.object([&] {
              os.attribute("when", when);
              os.attribute("command", json::fixUTF8(hook->text()));
            });
    });
    os.attributeArray("writes", [&] {
      for (const PlannedWrite &write : listed)
        writeWrite(os, write);
    });
  } else {
    printEffects(outs(), *effects, lab);
    outs() << count << " writes, resets and mappings; " << effects->forbidden
           << " of them forbidden by the description; nothing was touched\n";
  }
  if (byLab && !effects->forbidden) {
    report.error(*byLab);
    return report.finish(exitCodeOf(*byLab));
  }
  if (!effects->forbidden)
    return report.finish(0);
  Failure failure(FailureClass::Usage, "forbidden-write",
                  std::to_string(effects->forbidden) +
                      " writes are forbidden by the description: a replay would refuse",
                  "packet " + std::to_string(effects->firstForbidden.value_or(0)),
                  "--allow-register NAME if you know that it does no harm");
  report.error(failure);
  return report.finish(exitCodeOf(failure));
}

} // namespace tapeback
