#include "recorder/import/Import.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace llvm;

namespace tapeback {
namespace {

constexpr size_t shownLines = 5;
constexpr size_t maxRules = 64;

/// A piece of an untrusted line for a message: short, and nothing that a terminal would act on.
std::string quoted(StringRef text) {
  constexpr size_t most = 72;
  std::string out = "'";
  for (char c : text.take_front(most)) {
    if (c >= 0x20 && c < 0x7f)
      out += c;
    else
      out += "\\x" + hexText(uint8_t(c), 2);
  }
  return out + (text.size() > most ? "…'" : "'");
}

/// Counts the fates of lines and remembers what was wrong with the first few.
class Accounting {
public:
  Accounting(ImportOutput &out, ImportReport &report) : out(out), report(report) {}

  void count(const LineVerdict &verdict, StringRef text, unsigned lines = 1) {
    switch (verdict.fate) {
    case LineVerdict::Imported: report.imported += lines; return;
    case LineVerdict::Lost: report.lost += lines; return;
    case LineVerdict::Ignored: {
      if (verdict.why == lastRule) { // Static texts: mostly the one before again.
        *lastCount += lines;
        return;
      }
      auto known = report.ignored.find(verdict.why);
      if (known == report.ignored.end())
        known = report.ignored.emplace(report.ignored.size() < maxRules ? verdict.why : "other", 0).first;
      known->second += lines;
      lastRule = verdict.why;
      lastCount = &known->second;
      return;
    }
    case LineVerdict::NotUnderstood:
    case LineVerdict::Incomplete:
      report.notUnderstood += lines;
      out.lineMissing();
      if (report.shown.size() < shownLines)
        report.shown.push_back({"not-understood", std::string(verdict.why) + ": " + quoted(text),
                                out.where(std::max(verdict.column, 1u))});
      return;
    }
  }

private:
  ImportOutput &out;
  ImportReport &report;
  const char *lastRule = nullptr;
  uint64_t *lastCount = nullptr;
};

/// Beside the capture, and nowhere else: a capture is untrusted.
OpenCompanion companionsOf(StringRef file) {
  std::string folder = sys::path::parent_path(file).str();
  return [folder](StringRef name) -> Expected<std::unique_ptr<LineReader>> {
    if (name.empty() || name.contains('/') || name.contains('\0') || name == "." || name == "..")
      return failUsage("bad-name", "the capture refers to a file outside its own folder", quoted(name),
                       "put the file beside the capture");
    SmallString<256> path(folder);
    sys::path::append(path, name);
    if (sys::fs::exists(path) && !sys::fs::is_regular_file(path))
      return failUsage("bad-name", "the capture refers to something that is no file", quoted(name));
    return LineReader::open(path);
  };
}

Manifest manifestOf(const ImportOptions &options, const ImporterKind &kind) {
  Manifest manifest;
  manifest.facts = options.facts;
  manifest.facts["workload"] = "imported from " + std::string(kind.name);
  manifest.facts["x-import-kind"] = kind.name;
  std::string names;
  for (const std::string &file : options.files)
    names += (names.empty() ? "" : " ") + sys::path::filename(file).str();
  manifest.facts["x-import-files"] = StringRef(names).take_front(4096).str();
  if (*kind.lacks)
    manifest.facts["x-import-lacks"] = kind.lacks;
  if (options.registersOnly)
    manifest.facts["x-import-assumes"] = "registers only: the device uses no memory";
  return manifest;
}

void closeReport(const ImportOutput &out, ImportReport &report) {
  report.timesBackward = out.timesBackward();
  report.sourceLosses = out.sourceLosses();
  report.warnings = out.warnings();
  for (const auto &entry : out.warningCounts())
    report.warningCounts[entry.getKey().str()] = entry.getValue();
}

Outcome outcomeOf(const ImportReport &report, const ImportOutput &out) {
  Outcome outcome; // A capture seldom says whether its run passed.
  if (out.death()) {
    outcome.kind = Outcome::Kind::Failed;
    outcome.signature = out.death();
  }
  outcome.text = "imported from " + report.kind + ": of " + std::to_string(report.lines) + " lines " +
                 std::to_string(report.imported) + " imported, " + std::to_string(report.ignoredLines()) +
                 " ignored by rule, " + std::to_string(report.lost) + " lost at the source, " +
                 std::to_string(report.notUnderstood) + " not understood";
  return outcome;
}

Error surveyAll(const ImportOptions &options, Importer &importer) {
  for (const std::string &file : options.files) {
    if (!sys::fs::is_regular_file(file))
      return failUsage("not-a-file", "captures of this kind are read twice, so that a pipe does not do", file,
                       "store it in a file first");
    Expected<std::unique_ptr<LineReader>> lines = LineReader::open(file);
    if (!lines)
      return lines.takeError();
    CaptureLine line;
    for (;;) {
      Expected<bool> more = (*lines)->next(line);
      if (!more)
        return more.takeError();
      if (!*more)
        break;
      if (!line.tooLong)
        importer.survey(line);
    }
  }
  return Error::success();
}

Error runImport(const ImportOptions &options, std::unique_ptr<LineReader> first, Importer &importer,
                ImportOutput &out, ImportReport &report) {
  for (size_t i = 0; i < options.files.size(); ++i) {
    if (i > 0) {
      Expected<std::unique_ptr<LineReader>> next = LineReader::open(options.files[i]);
      if (!next)
        return next.takeError();
      first = std::move(*next);
    }
    uint64_t before = report.bytes;
    auto progress = [&](uint64_t bytes) {
      if (options.progress)
        options.progress(before + bytes);
    };
    if (Error error = importLines(*first, options.files[i], importer, out, report, progress))
      return error;
  }
  importer.end(out);
  out.finish();
  return out.takeError();
}

} // namespace

uint64_t ImportReport::ignoredLines() const {
  uint64_t sum = 0;
  for (const auto &[rule, count] : ignored)
    sum += count;
  return sum;
}

Error importLines(LineReader &lines, StringRef name, Importer &importer, ImportOutput &out,
                  ImportReport &report, const std::function<void(uint64_t)> &progress) {
  Accounting accounting(out, report);
  out.inFile(name);
  CaptureLine line;
  std::string held; // A line that may go on in the next one.
  LineVerdict heldVerdict;
  uint64_t heldNumber = 0;
  auto dropHeld = [&] {
    if (heldNumber) {
      out.atLine(heldNumber);
      accounting.count(heldVerdict, held);
      heldNumber = 0;
    }
  };
  const bool takesMany = importer.takesMany();
  uint64_t nextLook = 4096;
  for (uint64_t count = 0;; ++count) {
    if (takesMany && !heldNumber) {
      const LinesTaken taken = importer.take(lines, out);
      count += taken.imported + taken.ignored;
      report.lines += taken.imported + taken.ignored;
      report.imported += taken.imported;
      if (taken.ignored)
        accounting.count(LineVerdict::ignored(taken.rule), {}, unsigned(taken.ignored));
    }
    if (!lines.quick(line)) {
      Expected<bool> more = lines.next(line);
      if (!more)
        return more.takeError();
      if (!*more)
        break;
    }
    ++report.lines;
    report.carriage += line.carriage;
    if (line.tooLong) {
      dropHeld();
      out.atLine(line.number);
      accounting.count(LineVerdict::notUnderstood(1, "the line is longer than 4 MiB"), line.text);
      continue;
    }
    if (heldNumber) {
      std::string joined = held + line.text.str();
      CaptureLine both = line;
      both.text = joined;
      out.atLine(heldNumber);
      LineVerdict verdict = importer.line(both, out);
      if (verdict.fate == LineVerdict::Imported) {
        accounting.count(verdict, joined, 2);
        ++report.joined;
        heldNumber = 0;
        continue;
      }
      dropHeld();
    }
    out.atLine(line.number);
    LineVerdict verdict = importer.line(line, out);
    if (verdict.fate == LineVerdict::Imported) {
      ++report.imported;
    } else if (verdict.fate == LineVerdict::Incomplete && line.text.size() < 4096) {
      held = line.text.str();
      heldVerdict = verdict;
      heldNumber = line.number;
    } else {
      accounting.count(verdict, line.text);
    }
    if (count >= nextLook) {
      nextLook = count + 4096;
      if (out.failed())
        return out.takeError();
      if (progress)
        progress(lines.position());
    }
  }
  dropHeld();
  report.bytes += lines.position();
  return out.takeError();
}

Expected<const ImporterKind *> recogniseCapture(StringRef head, StringRef name) {
  constexpr unsigned enough = 20;
  std::string kinds;
  const ImporterKind *best = nullptr, *second = nullptr;
  unsigned bestScore = 0, secondScore = 0;
  for (const ImporterKind &kind : importerKinds()) {
    kinds += (kinds.empty() ? "" : ", ") + std::string(kind.name);
    unsigned score = kind.recognise(head);
    if (score > bestScore) {
      second = best, secondScore = bestScore;
      best = &kind, bestScore = score;
    } else if (score > secondScore) {
      second = &kind, secondScore = score;
    }
  }
  if (bestScore < enough)
    return failUsage("unknown-capture", "this does not look like a capture of any kind that can be imported",
                     name.str(), "if it is one, say which with --from (" + kinds + ")");
  if (bestScore == secondScore)
    return failUsage("ambiguous-capture", "this could be " + std::string(best->name) + " or " + second->name,
                     name.str(), "say which with --from");
  return best;
}

Error importCapture(const ImportOptions &options, ImportReport &report) {
  if (options.files.empty())
    return failUsage("no-input", "no capture is named", "command line");
  Expected<std::unique_ptr<LineReader>> first = LineReader::open(options.files.front());
  if (!first)
    return first.takeError();
  const ImporterKind *kind = options.own ? options.own : findImporter(options.kind);
  if (!options.own && options.kind.empty()) {
    Expected<StringRef> head = (*first)->head();
    if (!head)
      return head.takeError();
    Expected<const ImporterKind *> found = recogniseCapture(*head, options.files.front());
    if (!found)
      return found.takeError();
    kind = *found;
  } else if (!kind) {
    return failUsage("unknown-kind", "there is no importer for '" + options.kind + "'", "--from");
  }
  report.kind = kind->name;
  report.lacks = kind->lacks;
  ImporterSettings settings = options.settings;
  settings.openCompanion = companionsOf(options.files.front());
  Expected<std::unique_ptr<Importer>> importer = kind->create(settings);
  if (!importer)
    return importer.takeError();
  if ((*importer)->wantsSurvey())
    if (Error error = surveyAll(options, **importer))
      return error;
  Expected<std::unique_ptr<TapeWriter>> tape =
      TapeWriter::create(options.output, manifestOf(options, *kind), options.writer);
  if (!tape)
    return tape.takeError();
  report.lossForMemory = kind->lacksMemory && !options.registersOnly;
  ImportOutput out(**tape, report.lossForMemory);
  out.describe(options.descriptions);
  Error error = runImport(options, std::move(*first), **importer, out, report);
  closeReport(out, report);
  if (!error && !out.events())
    error = failUsage("no-events", "there is nothing in it that could go on a tape", options.files.front(),
                      "is it a capture of kind " + report.kind + "? (--from KIND)");
  if (error) {
    (*tape)->discard();
    return error;
  }
  Expected<TapeSummary> summary = (*tape)->finish(outcomeOf(report, out));
  if (!summary) {
    (*tape)->discard();
    return summary.takeError();
  }
  report.summary = *summary;
  return Error::success();
}

} // namespace tapeback
