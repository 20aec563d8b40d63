// The interface of an importer: one foreign capture format. To add one: a class that implements Importer in a
// file of its own, and a row in ImporterTable.cpp. recorder/import/README.md has a worked example.
#pragma once

#include "recorder/import/ImportOutput.h"
#include "recorder/import/LineReader.h"
#include "recorder/import/Scanner.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <functional>
#include <memory>

namespace tapeback {

/// What became of a line. Every line has exactly one fate, and the report adds up.
struct LineVerdict {
  enum Fate : uint8_t {
    Imported,      ///< Something of it is on the tape.
    Ignored,       ///< Understood, and not of the kind that goes on a tape: `why` names the rule.
    Lost,          ///< The source says that it lost something here: a Loss packet was written.
    NotUnderstood, ///< `why` and `column` say where it stops to make sense.
    Incomplete,    ///< Could be the beginning of a record: the driver tries it with the next line joined. The
                   ///< importer must not have changed anything.
  };
  Fate fate = Imported;
  const char *why = ""; ///< Static text.
  unsigned column = 0;  ///< From 1.

  static LineVerdict imported() { return {}; }
  static LineVerdict ignored(const char *rule) { return {Ignored, rule, 0}; }
  static LineVerdict lost() { return {Lost, "", 0}; }
  static LineVerdict notUnderstood(unsigned column, const char *why) { return {NotUnderstood, why, column}; }
  static LineVerdict notUnderstood(const Scanner &at, const char *why) {
    return {NotUnderstood, why, at.column()};
  }
  static LineVerdict incomplete(const Scanner &at, const char *why) { return {Incomplete, why, at.column()}; }
};

/// Lines that an importer took by itself.
struct LinesTaken {
  static constexpr uint64_t most = 4096; ///< At once.
  uint64_t imported = 0, ignored = 0;
  const char *rule = ""; ///< Of those ignored.
};

/// Opens a file that a capture refers to, beside the capture. Names with a folder in them are refused.
using OpenCompanion = std::function<llvm::Expected<std::unique_ptr<LineReader>>(llvm::StringRef name)>;

/// What an importer may be told.
struct ImporterSettings {
  std::string space;       ///< Name of the register space, for formats that do not name one; empty: "bar0".
  std::string description; ///< The device description's text; empty: none.
  std::string descriptionName;
  std::string qemuArgs;            ///< qtest: the machine's command line; empty: taken from the report.
  std::string diedName, lastWords; ///< qtest: how QEMU ended ("SIGABRT"), if the report does not say it.
  std::string signals;             ///< vcd: text of the signal map; empty: found by name.
  std::string signalsName;         ///< The map's file, for messages.
  uint64_t waitNs = 1'000'000'000; ///< Bound of waits that the format gives none for.
  OpenCompanion openCompanion;     ///< Null: there are no companions.
};

/// One capture being read. Called by one thread. Everything it sees is untrusted; what it keeps must be
/// bounded. It never fails on input: a line that it does not understand is a verdict. Failures of writing are
/// kept by ImportOutput.
class Importer {
public:
  virtual ~Importer() = default;
  /// Formats that must be known whole before the first packet say true, and are read twice.
  virtual bool wantsSurvey() const { return false; }
  virtual void survey(const CaptureLine &) {}
  virtual LineVerdict line(const CaptureLine &line, ImportOutput &out) = 0;
  /// Formats with very short lines say true, and are offered to take many at once: those that need no closer
  /// look, up to one that does, which is left there.
  virtual bool takesMany() const { return false; }
  virtual LinesTaken take(LineReader &, ImportOutput &) { return {}; }
  /// The capture is over: what is still open goes on the tape as pending.
  virtual void end(ImportOutput &) {}
};

/// A row of the table of importers.
struct ImporterKind {
  const char *name;
  const char *summary; ///< One line, for --help.
  const char *lacks;   ///< What this format never tells, for the manifest.
  bool lacksMemory;    ///< A device may have read memory that the capture does not show.
  /// How sure the importer is that a capture which begins with `head` (at most 64 KiB) is of its kind: 0 to
  /// 100.
  unsigned (*recognise)(llvm::StringRef head);
  llvm::Expected<std::unique_ptr<Importer>> (*create)(const ImporterSettings &settings);
};

/// Exactly `digits` hexadecimal digits (llvm::utohexstr gives one more for zero), or more if they are needed.
std::string hexText(uint64_t value, unsigned digits);

llvm::ArrayRef<ImporterKind> importerKinds();
const ImporterKind *findImporter(llvm::StringRef name);

/// For recognise(): per cent of the head's lines (blank ones and those that `skip` names aside) that match.
unsigned shareOfLines(llvm::StringRef head, llvm::function_ref<bool(llvm::StringRef line)> matches,
                      llvm::function_ref<bool(llvm::StringRef line)> skip);

} // namespace tapeback
