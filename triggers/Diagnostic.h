// What is wrong with a trigger file, where, and what may have been meant.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace tapeback::triggers {

/// A piece of a source text, in bytes.
struct SourceRange {
  uint32_t offset = 0, length = 0;
};

struct Diagnostic {
  enum class Severity : uint8_t { Error, Warning } severity = Severity::Error;
  std::string message;                       ///< One sentence, without a full stop.
  std::string hint;                          ///< What may have been meant; empty if nobody knows.
  unsigned line = 0, column = 0, length = 0; ///< From 1; columns and length in bytes.
  std::string sourceLine;                    ///< Fit for a terminal; at most 200 bytes of it.
};

/// Collects diagnostics of one text. At most `most` errors and as many warnings are kept: a hostile text must
/// not cost more to complain about than to read.
class Diagnostics {
public:
  static constexpr size_t most = 20;

  explicit Diagnostics(llvm::StringRef text) : text(text) {}
  void error(SourceRange where, std::string message, std::string hint = {}) {
    add(Diagnostic::Severity::Error, where, std::move(message), std::move(hint));
  }
  void warning(SourceRange where, std::string message, std::string hint = {}) {
    add(Diagnostic::Severity::Warning, where, std::move(message), std::move(hint));
  }
  bool anyError() const { return errors != 0; }
  llvm::ArrayRef<Diagnostic> all() const { return list; }
  std::vector<Diagnostic> take() { return std::move(list); }

private:
  void add(Diagnostic::Severity severity, SourceRange where, std::string message, std::string hint);

  llvm::StringRef text;
  std::vector<Diagnostic> list;
  size_t errors = 0, warnings = 0;
};

/// "file:3:12: error: …", the line, a caret, the hint.
std::string formatDiagnostic(const Diagnostic &diagnostic, llvm::StringRef name);
/// The errors among them as one Usage failure "bad-trigger"; `where` is the first one's place.
llvm::Error diagnosticsFailure(llvm::ArrayRef<Diagnostic> diagnostics, llvm::StringRef name);

/// The candidates nearest to `word` as "did you mean A or B?"; without a near one, what there is (a dozen of
/// `all` at most); empty if there is nothing.
std::string suggestion(llvm::StringRef word, llvm::ArrayRef<std::string> all, llvm::StringRef what);

} // namespace tapeback::triggers
