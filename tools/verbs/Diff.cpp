// tapeback diff: two tapes side by side, without any target.
#include "format/Text.h"
#include "replayer/diff/TapeDiff.h"
#include "tools/CommandLine.h"
#include "tools/PacketPrinter.h"
#include "tools/Progress.h"
#include "tools/Verb.h"
#include "tools/verbs/DivergenceReport.h"

using namespace llvm;

namespace tapeback {
namespace {

json::Value textOrNull(StringRef text) {
  return text.empty() ? json::Value(nullptr) : json::Value(json::fixUTF8(text));
}

void writeCounts(json::OStream &os, StringRef key, const std::map<std::string, uint64_t> &counts) {
  os.attributeObject(key, [&] {
    for (const auto &[name, count] : counts)
      os.attribute(json::fixUTF8(name), count);
  });
}

/// Fit for a terminal, without the quotes.
std::string printable(const std::string &text) {
  std::string quoted = quoteUntrusted(text);
  return quoted.substr(1, quoted.size() - 2);
}

struct DiffedTape {
  std::string path;
  Digest root{};
  uint64_t packets = 0, windows = 0;
  Outcome outcome;
};

DiffedTape describe(const std::string &path, TapeReader &reader) {
  const TapeSummary &summary = reader.summary();
  return {path, summary.root, summary.packets, summary.windows, reader.outcome()};
}

const char *outcomeName(const Outcome &outcome) {
  switch (outcome.kind) {
  case Outcome::Kind::Passed: return "passed";
  case Outcome::Kind::Failed: return "failed";
  case Outcome::Kind::Unknown: break;
  }
  return "unknown";
}

void writeTape(json::OStream &os, StringRef key, const DiffedTape &tape, uint64_t evidence) {
  os.attributeObject(key, [&] {
    os.attribute("tape", json::fixUTF8(tape.path));
    os.attribute("root", toHex(tape.root));
    os.attribute("packets", tape.packets);
    os.attribute("windows", tape.windows);
    os.attribute("packets_not_aligned", evidence);
    os.attribute("outcome", outcomeName(tape.outcome));
    writeSignature(os, "signature", tape.outcome.signature);
  });
}

void writeJson(Report &report, const DiffReport &result, const DiffedTape &a, const DiffedTape &b) {
  json::OStream &os = report.object();
  os.attribute("verdict", verdictName(result.verdict));
  os.attribute("reproduced", nullptr);
  os.attribute("signature", nullptr);
  writeTape(os, "a", a, result.evidenceA);
  writeTape(os, "b", b, result.evidenceB);
  os.attribute("signature_match", signatureMatchName(result.signatureMatch));
  std::optional<Divergence> first;
  if (result.first)
    first = result.first->what;
  writeDivergence(os, "first_divergence", first, "good", "bad");
  os.attributeArray("differences", [&] {
    for (const TapeDifference &difference : result.differences)
      os.object([&] {
        os.attribute("difference", diffKindName(difference.kind));
        os.attribute("packets", difference.count);
        os.attribute("packet_a", difference.what.place.packet);
        os.attribute("window_a", difference.what.place.window);
        os.attribute("packet_b", difference.placeB.packet);
        os.attribute("window_b", difference.placeB.window);
        os.attribute("kind", json::fixUTF8(difference.what.kind));
        os.attribute("register", textOrNull(difference.what.reg));
        os.attribute("text", json::fixUTF8(differenceText(difference)));
      });
  });
  os.attributeObject("counts", [&] {
    for (unsigned kind = 0; kind < diffKindCount; ++kind)
      os.attribute(diffKindName(DiffKind(kind)), result.counts[kind]);
  });
  os.attribute("total", result.total());
  os.attribute("aligned", result.aligned);
  os.attribute("exact", result.exact);
  writeCounts(os, "tolerated", result.tolerated);
  writeCounts(os, "not_compared", result.notCompared);
  os.attribute("relocated", result.relocated);
  os.attributeArray("facts", [&] {
    for (const DiffReport::Fact &fact : result.facts)
      os.object([&] {
        os.attribute("key", json::fixUTF8(fact.key));
        os.attribute("a", textOrNull(fact.a));
        os.attribute("b", textOrNull(fact.b));
      });
  });
  os.attributeArray("notes", [&] {
    for (const std::string &note : result.notes)
      os.value(json::fixUTF8(note));
  });
}

void printCounts(raw_ostream &os, StringRef what, const std::map<std::string, uint64_t> &counts) {
  if (counts.empty())
    return;
  os << "  " << what;
  const char *separator = " ";
  for (const auto &[name, count] : counts) {
    os << separator << count << " " << name;
    separator = ", ";
  }
  os << "\n";
}

void printText(const DiffReport &result, const DiffedTape &a, const DiffedTape &b) {
  raw_ostream &os = outs();
  os << "A " << a.path << ": " << a.packets << " packets, " << a.windows << " windows, "
     << outcomeName(a.outcome) << "\n";
  os << "B " << b.path << ": " << b.packets << " packets, " << b.windows << " windows, "
     << outcomeName(b.outcome) << "\n";
  os << verdictName(result.verdict) << ": " << result.aligned << " packets go together, " << result.exact
     << " of them exactly alike\n";
  printCounts(os, "tolerated:", result.tolerated);
  printCounts(os, "not compared:", result.notCompared);
  std::map<std::string, uint64_t> counts;
  for (unsigned kind = 0; kind < diffKindCount; ++kind)
    if (result.counts[kind])
      counts[diffKindName(DiffKind(kind))] = result.counts[kind];
  printCounts(os, "differ:", counts);
  if (result.relocated)
    os << "  memory lies elsewhere in B: addresses are compared by what they point at\n";
  if (result.first) {
    os << "first divergence: " << printable(differenceText(*result.first)) << "\n";
    const PacketPlace &place = result.first->what.place;
    if (place.marker)
      os << "  after marker " << quoteUntrusted(*place.marker) << " (occurrence " << place.markerOccurrence
         << "), command " << place.command.value_or(0) << "\n";
  }
  for (size_t i = 1; i < result.differences.size(); ++i) {
    const TapeDifference &difference = result.differences[i];
    os << (difference.kind == DiffKind::Inserted  ? "+ "
           : difference.kind == DiffKind::Deleted ? "- "
                                                  : "! ")
       << printable(differenceText(difference)) << "\n";
  }
  uint64_t shown = 0;
  for (const TapeDifference &difference : result.differences)
    shown += difference.count;
  if (shown < result.total())
    os << "… and " << result.total() - shown << " more packets that differ\n";
  for (const DiffReport::Fact &fact : result.facts)
    os << "identity: " << printable(fact.key) << " is "
       << (fact.a.empty() ? "not stated" : quoteUntrusted(fact.a)) << " in A, "
       << (fact.b.empty() ? "not stated" : quoteUntrusted(fact.b)) << " in B\n";
  if (a.outcome.signature && b.outcome.signature)
    os << "both runs failed; as failures they match at level: " << signatureMatchName(result.signatureMatch)
       << "\n";
  for (const std::string &note : result.notes)
    os << "note: " << printable(note) << "\n";
}

Expected<std::unique_ptr<TapeSource>> openTape(StringRef path, ArrayRef<std::string> texts) {
  Expected<std::unique_ptr<TapeSource>> source = TapeSource::open(path, texts);
  if (source)
    return source;
  Failure failure = toFailure(source.takeError());
  if (!StringRef(failure.where).contains(path))
    failure.where = path.str() + (failure.where.empty() ? "" : ", " + failure.where);
  return make_error<Failure>(std::move(failure));
}

} // namespace

int runDiff(ArrayRef<const char *> args) {
  cl::opt<std::string> first(cl::Positional, cl::Required, cl::desc("A"));
  cl::opt<std::string> second(cl::Positional, cl::Required, cl::desc("B"));
  cl::list<std::string> descriptions(
      "description",
      cl::desc("Compare by this description (file or name) instead of the one on A; once per device, in the "
               "order of A"),
      cl::value_desc("FILE"));
  NumberOption limit("limit", cl::desc("Show at most N differences (default: 20; with --json 1000)"),
                     cl::value_desc("N"));
  CommandLine line(
      {"diff", "Compare two tapes with each other, without a target", "A B [options]",
       "Packets go together by marker, span and command, then by kind and place: never by number, so that\n"
       "what one run has more or less is shown as such. What goes together is compared as the device\n"
       "description says; polls are compared as their conditions; addresses by the buffer and offset that\n"
       "they point at, so that runs whose memory lay elsewhere can be compared. Threads are compared each "
       "in\n"
       "its own order. Times are not compared.\n"
       "\n"
       "Differences: value (a register answers otherwise), content (memory that the device wrote), input\n"
       "(the host told the device something else), address (another buffer), condition (another thing was\n"
       "waited for), outcome (failed, timed out or hung in one of them), check (a check of the program),\n"
       "deleted (only in A) and inserted (only in B).\n",
       "  tapeback diff good.tape bad.tape\n"
       "  tapeback diff monday.tape tuesday.tape --json\n"
       "  tapeback diff a.tape b.tape --limit 100\n",
       "  0  nothing differs\n"
       "  1  they differ, and the first place is named\n"
       "  2  bad usage or a bad description\n"
       "  3  damaged or foreign tape\n"
       "  5  something could not be compared (not captured, a loss)\n"});
  if (std::optional<int> exit = line.parse(args))
    return *exit;
  Report report("diff", line.json());
  constexpr uint64_t mostShown = 100'000;
  uint64_t shown = limit.getNumOccurrences() ? uint64_t(limit) : line.json() ? 1000 : 20;
  if (!shown || shown > mostShown)
    return report.fail(
        failUsage("bad-option", "--limit " + std::to_string(shown), "--limit", "a number from 1 to 100000"));
  std::vector<std::string> texts;
  for (const std::string &path : descriptions) {
    Expected<DescriptionText> text = loadDescriptionText(path);
    if (!text)
      return report.fail(text.takeError());
    if (Error error = parseDescription(text->text, text->name).takeError())
      return report.fail(std::move(error));
    texts.push_back(text->text);
  }
  Expected<std::unique_ptr<TapeSource>> a = openTape(first, texts);
  if (!a)
    return report.fail(a.takeError());
  Expected<std::unique_ptr<TapeSource>> b = openTape(second, {});
  if (!b)
    return report.fail(b.takeError());
  DiffedTape describedA = describe(first, (*a)->reader()), describedB = describe(second, (*b)->reader());
  Progress progress("comparing", describedA.packets);
  DiffOptions options;
  options.keptDifferences = shown;
  options.progress = [&](uint64_t done, uint64_t) { progress.show(done); };
  Expected<DiffReport> result = diffTapes(std::move(*a), std::move(*b), options);
  if (!result)
    return report.fail(result.takeError());
  if (report.json())
    writeJson(report, *result, describedA, describedB);
  else
    printText(*result, describedA, describedB);
  return report.finish(exitCodeFor(*result));
}

} // namespace tapeback
