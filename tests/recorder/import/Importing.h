// Imports a text into a tape in memory, for tests and the fuzzer.
#pragma once

#include "recorder/import/Import.h"
#include "tests/recorder/MemoryTape.h"
#include "llvm/ADT/StringExtras.h"
#include <map>
#include <string>
#include <vector>

namespace tapeback::test {

struct Imported {
  MemoryTape tape;
  ImportReport report;
  std::string error;

  /// The text as capture of `kind`. `companions`: files beside it.
  void run(llvm::StringRef kind, const std::vector<std::string> &texts, ImporterSettings settings = {},
           const std::map<std::string, std::string> &companions = {}) {
    const ImporterKind *found = findImporter(kind);
    settings.openCompanion = [&](llvm::StringRef name) -> llvm::Expected<std::unique_ptr<LineReader>> {
      auto file = companions.find(name.str());
      if (file == companions.end())
        return failUsage("unreadable", "cannot open", name.str());
      return LineReader::ofText(file->second);
    };
    llvm::Expected<std::unique_ptr<Importer>> importer = found->create(settings);
    if (!importer) {
      error = toFailure(importer.takeError()).code;
      return;
    }
    if ((*importer)->wantsSurvey())
      for (const std::string &text : texts) {
        std::unique_ptr<LineReader> lines = LineReader::ofText(text);
        CaptureLine line;
        while (llvm::cantFail(lines->next(line)))
          (*importer)->survey(line);
      }
    ImportOutput out(tape, found->lacksMemory && memoryIsMissing);
    for (size_t i = 0; i < texts.size() && error.empty(); ++i) {
      std::unique_ptr<LineReader> lines = LineReader::ofText(texts[i], maxLine);
      std::string name = "f" + std::to_string(i);
      if (llvm::Error failed = importLines(*lines, name, **importer, out, report))
        error = toFailure(std::move(failed)).code;
    }
    (*importer)->end(out);
    out.finish();
    report.sourceLosses = out.sourceLosses();
    report.timesBackward = out.timesBackward();
    report.warnings = out.warnings();
    for (const auto &entry : out.warningCounts())
      report.warningCounts[entry.getKey().str()] = entry.getValue();
    if (llvm::Error failed = out.takeError())
      error = toFailure(std::move(failed)).code;
  }

  bool addsUp() const {
    return report.lines == report.imported + report.ignoredLines() + report.lost + report.notUnderstood;
  }

  /// Every field that is not what it is by default, in a fixed order.
  std::string text(size_t i) const {
    const Packet &p = tape.packets[i];
    const PacketExtra &e = tape.extras[i];
    const char *completions[] = {"", " pending", " failed", " timed-out"};
    std::string s = packetKindName(p.kind);
    auto add = [&](const char *name, uint64_t value, uint64_t otherwise = 0) {
      if (value != otherwise)
        s += std::string(" ") + name + "=0x" + llvm::utohexstr(value, true);
    };
    if (p.width)
      s += " " + tape.spaces[p.space] + "/" + std::to_string(p.width);
    else
      add("space", p.space);
    add("at", p.address);
    add("val", p.value);
    add("mask", e.mask);
    add("expected", e.expected);
    add("deadline", e.deadline);
    add("length", e.length);
    add("link", e.link, noLink);
    add("count", e.count);
    add("dev", p.device);
    add("thread", p.thread);
    if (p.flags & NotCaptured)
      s += " not-captured";
    add("flags", p.flags & ~NotCaptured);
    s += completions[unsigned(p.completion)];
    if (p.origin != Origin::Imported)
      s += " WRONG-ORIGIN";
    add("t", p.issueTime);
    if (p.completeTime != (p.completion == Completion::Pending ? 0 : p.issueTime))
      add("done", p.completeTime);
    if (e.payload) {
      bool plain = true;
      for (char c : tape.text(e))
        plain &= c >= ' ' && c < 127;
      s += plain ? " \"" + tape.text(e) + "\"" : " |" + llvm::toHex(tape.text(e), true);
    }
    return s;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> all;
    for (size_t i = 0; i < tape.packets.size(); ++i)
      all.push_back(text(i));
    return all;
  }

  bool memoryIsMissing = true;
  size_t maxLine = LineReader::maxLineBytes;
};

} // namespace tapeback::test
