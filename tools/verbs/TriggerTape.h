// A tape as a stream for triggers: what the sub-verbs of `trigger` share.
#pragma once

#include "hal/description/Description.h"
#include "replayer/TapeSource.h"
#include "triggers/Capture.h"
#include "triggers/Observe.h"
#include <functional>

namespace tapeback::triggers {

struct TriggerFile {
  std::string path, text;
};
llvm::Expected<TriggerFile> readTriggerFile(llvm::StringRef path);

/// A description given by --description, parsed. Stays where it is.
using DescriptionPointer = std::shared_ptr<Description>;
llvm::Expected<DescriptionPointer> loadDescription(llvm::StringRef nameOrPath);

/// One tape with the program compiled for its devices. One thread.
class TriggerTape {
public:
  /// `given` stands for every device; null: what the tape carries.
  static llvm::Expected<std::unique_ptr<TriggerTape>> open(llvm::StringRef path, const TriggerFile &file,
                                                           DescriptionPointer given);

  TapeSource &source() { return *tape; }
  const Program &program() const { return compiled; }
  const std::vector<Diagnostic> &warnings() const { return complaints; }
  StreamNames names() const;

  struct Fired {
    Output output;
    std::string text; ///< "no fence (host 0x1000)".
  };
  /// Shows packets [0, end) to a new evaluator. `seen` gets each packet after its step; `fired` each output
  /// (not Raise). `keeping`: by trigger, which packets it keeps, filled for triggers with a `keep`.
  llvm::Error run(EvaluationObserver *observer, uint64_t end,
                  llvm::function_ref<void(uint64_t ordinal, const Packet &, const Evaluator &)> seen,
                  llvm::function_ref<void(const Fired &)> fired);
  const Evaluator::Shortfalls &shortfalls() const { return missed; }
  const std::vector<std::vector<bool>> &keeping() const { return kept; }

private:
  TriggerTape() = default;
  std::unique_ptr<TapeSource> tape;
  DescriptionPointer given;
  std::vector<uint16_t> numbers; ///< By device of the tape: which it is for `device N`.
  Program compiled;
  std::vector<Diagnostic> complaints;
  Evaluator::Shortfalls missed;
  std::vector<std::vector<bool>> kept;
};

/// The offline history of a tape.
class TapeHistory : public CaptureHistory {
public:
  TapeHistory(TapeReader &reader, const std::vector<bool> *kept) : reader(reader), kept(kept) {}
  uint64_t first() const override { return 0; }
  uint64_t end() const override { return reader.summary().packets; }
  llvm::Expected<Facts> facts(uint64_t packet) override;
  llvm::Expected<Window> windowOf(uint64_t packet) override;

private:
  TapeReader &reader;
  const std::vector<bool> *kept;
  PacketBatch batch;
};

} // namespace tapeback::triggers
