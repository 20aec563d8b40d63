// What bisect found out, as text and as the contract's JSON.
#include "tools/verbs/BisectReport.h"
#include "tools/verbs/DivergenceReport.h"
#include "tools/verbs/RateReport.h"
#include "llvm/Support/Format.h"

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
  for (auto [key, value] : {std::pair("good", &writer.good), std::pair("bad", &writer.bad)})
    os.attribute(key, *value ? json::Value(hex(**value)) : json::Value(nullptr));
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

void writePlan(json::OStream &os, const BisectPlan &plan) {
  os.attributeObject("plan", [&] {
    os.attribute("method", bisectMethodName(plan.method));
    os.attribute("packets", plan.packets);
    os.attribute("windows", plan.windows);
    os.attribute("places", plan.places);
    os.attribute("keyframes_tried", plan.keyframesTried);
    os.attribute("keyframes", plan.keyframes);
    os.attributeArray("ways", [&] {
      for (const BisectPlan::Way &way : plan.ways)
        os.object([&] {
          os.attribute("method", bisectMethodName(way.method));
          os.attribute("packets", way.packets);
          os.attribute("why_not", orNull(way.whyNot));
        });
    });
  });
}

void writeRate(json::OStream &os, const BisectReport &result) {
  if (!result.rate) {
    os.attribute("rate", nullptr);
  } else {
    const BisectRate &rate = *result.rate;
    os.attributeObject("rate", [&] {
      writeRateOf(os, "diverged", rate.hits, rate.counted, rate.interval);
      writeHalf(os, rate.firstHalfHits, rate.firstHalfCounted);
      os.attribute("drift_p_value", rate.driftProbability);
      os.attribute("drifts", rate.drifts());
    });
  }
  if (!result.drainEffect) {
    os.attribute("drain_effect", nullptr);
  } else {
    const BisectDrains &drains = *result.drainEffect;
    os.attributeObject("drain_effect", [&] {
      writeRateOf(os, "diverged", drains.hits, drains.counted, drains.interval);
      os.attribute("drains", drains.drains);
      os.attribute("p_value", drains.pValue);
      os.attribute("changes", drains.changes());
    });
  }
  os.attributeArray("distribution", [&] {
    if (result.rate)
      for (const BisectPlace &place : result.places)
        os.object([&] {
          os.attribute("window", place.window);
          os.attribute("packet", place.packet);
          os.attribute("count", place.count);
          os.attribute("text", json::fixUTF8(place.text));
        });
  });
  os.attribute("other_places", result.otherPlaces);
}

const char *stateName(NoisySearch::State state) {
  switch (state) {
  case NoisySearch::State::Found: return "found";
  case NoisySearch::State::NothingSeen: return "nothing-seen";
  case NoisySearch::State::OutOfProbes:
  case NoisySearch::State::Searching: break;
  }
  return "out-of-probes";
}

void writeSearch(json::OStream &os, const std::optional<BisectSearch> &search) {
  if (!search) {
    os.attribute("search", nullptr);
    return;
  }
  os.attributeObject("search", [&] {
    os.attribute("state", stateName(search->state));
    os.attribute("places", search->places);
    os.attribute("probes", search->probes);
    os.attribute("hits", search->hits);
    os.attribute("window", search->hits ? json::Value(search->window) : json::Value(nullptr));
    os.attribute("probability", search->probability);
    os.attribute("low_window", search->lowWindow);
    os.attribute("high_window", search->highWindow);
    os.attribute("within", search->within);
    os.attribute("rate", search->rate);
    os.attribute("one_cause", search->oneCause());
    os.attribute("one_cause_p_value", search->rateTest.pValue);
    os.attribute("inside_places", search->insidePlaces);
    os.attribute("inside_probes", search->insideProbes);
    os.attribute("inside_probability", search->insideProbability);
  });
}

void writeStateAt(json::OStream &os, const BisectReport &result, std::optional<uint64_t> at) {
  if (!at) {
    os.attribute("probe", nullptr);
    return;
  }
  os.attributeObject("probe", [&] {
    const std::optional<StateDifference> &seen = result.stateAt;
    os.attribute("packet", *at ? *at - 1 : 0);
    os.attribute("differs", seen.has_value());
    os.attribute("device", seen ? json::Value(int64_t(seen->device)) : json::Value(nullptr));
    os.attribute("name", seen ? orNull(seen->name) : json::Value(nullptr));
    os.attribute("address", seen ? json::Value(hex(seen->address)) : json::Value(nullptr));
    os.attribute("offset", seen ? json::Value(seen->offset) : json::Value(nullptr));
    os.attribute("good", seen ? json::Value(hex(seen->good)) : json::Value(nullptr));
    os.attribute("bad", seen ? json::Value(hex(seen->bad)) : json::Value(nullptr));
  });
}

} // namespace

void writeBisect(Report &report, const BisectReport &result, TapeSource &source, const BisectWords &words) {
  json::OStream &os = report.object();
  auto number = [](const std::optional<uint64_t> &value) {
    return value ? json::Value(*value) : json::Value(nullptr);
  };
  os.attribute("verdict", verdictName(result.verdict));
  os.attribute("reproduced", nullptr);
  writeSignature(os, "signature", source.reader().outcome().signature);
  os.attribute("tape", json::fixUTF8(words.tape));
  os.attribute("root", toHex(source.reader().summary().root));
  os.attribute("method", result.method);
  writeDivergence(os, "first_divergence", result.first, "good", "bad");
  writeDivergence(os, "first_observed", result.observed, "good", "bad");
  writePlan(os, result.plan);
  os.attribute("probes", result.probes);
  os.attribute("search_probes", result.searchProbes);
  os.attribute("verification_probes", result.verifyProbes);
  os.attribute("inside_probes", result.insideProbes);
  os.attribute("packets_to_bad", result.packetsToBad);
  os.attribute("drains", result.drains);
  os.attribute("resumed", result.resumed);
  os.attribute("same_at", number(result.sameAt));
  os.attribute("visible_at", number(result.visibleAt));
  os.attribute("inside_start", number(result.insideStart));
  os.attribute("healed", result.healed);
  if (!result.moment)
    os.attribute("device_time", nullptr);
  else
    os.attributeObject("device_time", [&] {
      os.attribute("endpoint", "bad");
      os.attribute("from", result.moment->from);
      os.attribute("to", result.moment->to);
      os.attribute("changed", number(result.moment->changed));
    });
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
  writeRate(os, result);
  writeSearch(os, result.search);
  writeStateAt(os, result, words.at);
  os.attributeArray("steps", [&] {
    for (const BisectStep &step : result.steps)
      os.object([&] {
        os.attribute("packet", step.packet ? step.packet - 1 : 0);
        os.attribute("probes", step.probes);
        os.attribute("differed", step.differed);
        os.attribute("command", json::fixUTF8(words.commandAt(step.packet)));
      });
  });
  os.attribute("good_matches_tape", !result.goodAgainstTape);
  writeDivergence(os, "good_against_tape", result.goodAgainstTape, "recorded", "good");
  os.attributeArray("notes", [&] {
    for (const std::string &note : result.notes)
      os.value(json::fixUTF8(note));
  });
}

namespace {

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
  if (result.moment) {
    os << "  on the bad device between " << result.moment->from << " and " << result.moment->to << " ns";
    if (result.moment->changed)
      os << ", at " << *result.moment->changed << " ns";
    os << " of its clock\n";
  }
  if (result.healed)
    os << "  it healed: the states agreed again later\n";
  for (const WriterRecord &writer : result.writers) {
    os << "  " << (&writer == &result.writers.front() ? "last written" : "which it had from what was written")
       << " by packet " << writer.place.packet << " in window " << writer.place.window << " (" << writer.kind;
    if (!writer.reg.empty())
      os << " " << writer.reg;
    os << "): " << writer.wrote;
    if (writer.good && writer.bad)
      os << ", good " << hex(*writer.good) << ", bad " << hex(*writer.bad);
    os << "\n";
  }
  os << "packets before:\n";
  for (const PacketLine &line : result.before)
    os << (line.packet == first.place.packet ? " > " : "   ") << line.packet << "  " << line.text << "\n";
}

std::string percent(double p) {
  std::string text;
  raw_string_ostream(text) << format("%.1f %%", 100 * p);
  return text;
}

void printRate(raw_ostream &os, const BisectReport &result) {
  constexpr size_t shown = 10;
  const BisectRate &rate = *result.rate;
  os << "the passes parted in " << rate.hits << " of " << rate.counted << ": " << percent(rate.interval.rate)
     << " (95 % interval " << percent(rate.interval.low) << " to " << percent(rate.interval.high) << ")";
  os << "; first half " << rate.firstHalfHits << " of " << rate.firstHalfCounted << ", second half "
     << rate.hits - rate.firstHalfHits << " of " << rate.counted - rate.firstHalfCounted
     << (rate.drifts() ? ": it drifts" : "") << "\n";
  for (size_t i = 0; i < result.places.size() && i < shown; ++i)
    os << "  " << result.places[i].count << " times in window " << result.places[i].window << ", packet "
       << result.places[i].packet << " (" << result.places[i].text << ")\n";
  if (result.places.size() > shown)
    os << "  … and at " << result.places.size() - shown << " other places\n";
}

void printSearch(raw_ostream &os, const BisectSearch &search) {
  os << "states: " << search.probes << " probes of " << search.places << " places, " << search.hits
     << " of them differed\n";
  if (!search.hits) {
    os << "  no probe of the last place differed: the failure leaves no state behind that is seen there\n";
    return;
  }
  os << "  it begins to act in window " << search.window << " with probability "
     << percent(search.probability);
  if (search.lowWindow != search.window || search.highWindow != search.window)
    os << ", in windows " << search.lowWindow << " to " << search.highWindow << " with "
       << percent(search.within);
  os << "; a run behind it shows it at a rate of " << percent(search.rate) << "\n";
  if (search.state == NoisySearch::State::OutOfProbes)
    os << "  more replays (--max-replays) would make it more certain\n";
  if (search.insidePlaces > 1)
    os << "  the packet named is right in that window with probability " << percent(search.insideProbability)
       << " (" << search.insideProbes << " more probes of " << search.insidePlaces << " places)\n";
}

void printSteps(raw_ostream &os, const BisectReport &result, const BisectWords &words) {
  constexpr size_t shown = 40;
  if (result.steps.empty())
    return;
  os << "probes, and what repeats each:\n";
  for (size_t i = 0; i < result.steps.size() && i < shown; ++i) {
    const BisectStep &step = result.steps[i];
    os << "  behind packet " << (step.packet ? step.packet - 1 : 0) << ": differed " << step.differed
       << " of " << step.probes << "   " << words.commandAt(step.packet) << "\n";
  }
  if (result.steps.size() > shown)
    os << "  … and " << result.steps.size() - shown << " other places (--json has all)\n";
}

void printWays(raw_ostream &os, const BisectPlan &plan) {
  for (const BisectPlan::Way &way : plan.ways) {
    os << "  " << bisectMethodName(way.method) << ": ";
    if (way.whyNot.empty())
      os << "about " << way.packets << " packets to the bad target"
         << (way.method == plan.method ? "; chosen" : "") << "\n";
    else
      os << "not usable: " << way.whyNot << "\n";
  }
}

} // namespace

void printBisect(const BisectReport &result, const BisectWords &words) {
  raw_ostream &os = outs();
  if (words.at) {
    os << words.tape << ": behind packet " << (*words.at ? *words.at - 1 : 0) << " the states ";
    if (!result.stateAt)
      os << (result.verdict == Verdict::Match ? "are the same\n" : "cannot be compared\n");
    else
      os << "differ in " << result.stateAt->name << " at " << hex(result.stateAt->address) << ": good "
         << hex(result.stateAt->good) << ", bad " << hex(result.stateAt->bad) << "\n";
    return;
  }
  os << words.tape << ": " << verdictName(result.verdict) << " (" << result.method << ", " << result.probes
     << " probes)\n";
  if (result.first)
    printDivergence(os, result);
  else if (result.verdict == Verdict::Incomplete)
    os << result.coverage.packetsNotCompared << " packets could not be compared: a target does not answer\n";
  else if (result.verdict == Verdict::Divergence)
    os << "good and bad part, but no single place is named\n";
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
  if (result.rate)
    printRate(os, result);
  if (result.search)
    printSearch(os, *result.search);
  if (result.wave && result.wave->written)
    os << "waveform of window " << result.wave->window << " on the " << result.wave->side
       << " endpoint: " << result.wave->file << "\n";
  else if (result.wave)
    os << "no waveform: " << result.wave->reason << "\n";
  const BisectCoverage &coverage = result.coverage;
  if (result.plan.method != BisectPlan::Method::Observed)
    os << "way: " << bisectMethodName(result.plan.method) << ", " << result.packetsToBad
       << " packets to the bad target for a tape of " << result.plan.packets
       << " (--plan shows the others)\n";
  if (result.insideStart)
    os << "probes inside the window began with a keyframe before packet " << *result.insideStart << "\n";
  if (result.drains)
    os << "in " << result.drains << " probes the devices were given time that the recorded host did not\n";
  if (const std::optional<BisectDrains> &effect = result.drainEffect)
    os << "given such time at the end of each window, passes parted in " << effect->hits << " of "
       << effect->counted << " (95 % interval " << percent(effect->interval.low) << " to "
       << percent(effect->interval.high) << "), without in " << result.rate->hits << " of "
       << result.rate->counted << (effect->changes() ? ": it changes the rate" : ": no difference is seen")
       << "\n";
  if (result.resumed)
    os << result.resumed << " results were taken from the state file\n";
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
  printSteps(os, result, words);
}

void reportPlan(Report &report, const BisectPlan &plan, TapeSource &source, StringRef tape) {
  if (!report.json()) {
    outs() << tape << ": " << plan.packets << " packets, " << plan.windows << " windows, " << plan.places
           << " of them end quiescent; would be bisected by " << bisectMethodName(plan.method) << "\n";
    printWays(outs(), plan);
    if (plan.keyframesTried)
      outs() << "  probes inside a window begin with a keyframe where one can be restored: at "
             << plan.keyframes << " of " << plan.keyframesTried << " places that were tried\n";
    return;
  }
  json::OStream &os = report.object();
  report.verdict(0);
  os.attribute("tape", json::fixUTF8(tape));
  os.attribute("root", toHex(source.reader().summary().root));
  writePlan(os, plan);
}

} // namespace tapeback
