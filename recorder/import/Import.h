// Makes a tape of what another tool recorded.
#pragma once

#include "recorder/import/Importer.h"
#include <map>
#include <string>
#include <vector>

namespace tapeback {

struct ImportOptions {
  std::string kind; ///< Empty: found out from the first file.
  const ImporterKind *own =
      nullptr;                    ///< An importer that is not in the table, and then is the one. Not owned.
  std::vector<std::string> files; ///< One capture, in this order.
  std::string output;
  std::map<std::string, DeviceRecord> descriptions; ///< By alias; "" for all. Only the description's fields.
  std::map<std::string, std::string> facts;         ///< More for the manifest.
  bool registersOnly = false; ///< The user says that the device uses no memory: nothing is missing for that.
  ImporterSettings settings;  ///< `openCompanion` is filled in.
  WriterOptions writer;
  std::function<void(uint64_t bytes)> progress; ///< Now and then; may be null.
};

/// Every line of the capture is counted once: lines = imported + ignored + lost + notUnderstood.
struct ImportReport {
  std::string kind, lacks;
  bool lossForMemory = false; ///< The tape has a loss before its first write, since the format has no memory.
  uint64_t lines = 0, bytes = 0;
  uint64_t imported = 0, lost = 0, notUnderstood = 0;
  std::map<std::string, uint64_t> ignored; ///< By rule.
  std::vector<ImportRemark> shown;         ///< The first lines that were not understood, and why.
  uint64_t joined = 0;                     ///< Lines that made sense only together with the one before.
  uint64_t carriage = 0;                   ///< Lines that ended in CR LF.
  uint64_t timesBackward = 0;
  uint64_t sourceLosses = 0; ///< Loss packets for what the source says that it lost.
  std::vector<ImportRemark> warnings;
  std::map<std::string, uint64_t> warningCounts;
  TapeSummary summary;

  uint64_t ignoredLines() const;
  /// Exit 5: something of the capture is not on the tape that should be.
  bool lostAnything() const {
    return notUnderstood || sourceLosses || warningCounts.count("missing-file") ||
           warningCounts.count("bad-data");
  }
};

/// The best fit among the importers; an error says which come near, or that none does (class Usage).
llvm::Expected<const ImporterKind *> recogniseCapture(llvm::StringRef head, llvm::StringRef name);

/// Feeds one file (or text) through an importer. `report` grows. For importCapture, tests and fuzzers.
llvm::Error importLines(LineReader &lines, llvm::StringRef name, Importer &importer, ImportOutput &out,
                        ImportReport &report, const std::function<void(uint64_t)> &progress = nullptr);

/// The whole. `report` is filled in as far as it goes, also when it fails; a tape is published only on
/// success. No packets at all is a failure ("no-events", class Usage).
llvm::Error importCapture(const ImportOptions &options, ImportReport &report);

} // namespace tapeback
