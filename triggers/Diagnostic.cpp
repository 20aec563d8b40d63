#include "triggers/Diagnostic.h"
#include "format/Failure.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>

using namespace llvm;

namespace tapeback::triggers {

void Diagnostics::add(Diagnostic::Severity severity, SourceRange where, std::string message,
                      std::string hint) {
  size_t &count = severity == Diagnostic::Severity::Error ? errors : warnings;
  if (++count > most)
    return;
  Diagnostic diagnostic;
  diagnostic.severity = severity;
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  size_t offset = std::min<size_t>(where.offset, text.size());
  size_t begin = text.rfind('\n', offset);
  begin = offset == 0 || begin == StringRef::npos ? 0 : begin + 1;
  // An offset on the line break itself belongs to the line before it.
  if (begin > offset)
    begin = text.take_front(offset).rfind('\n') + 1;
  size_t end = std::min(text.find('\n', offset), text.size());
  diagnostic.line = unsigned(text.take_front(begin).count('\n')) + 1;
  diagnostic.column = unsigned(offset - begin) + 1;
  diagnostic.length = unsigned(std::clamp<size_t>(where.length, 1, std::max<size_t>(end - offset, 1)));
  for (char c : text.slice(begin, end).take_front(200))
    diagnostic.sourceLine += c == '\t' ? ' ' : uint8_t(c) < 0x20 || uint8_t(c) >= 0x7f ? '?' : c;
  list.push_back(std::move(diagnostic));
}

std::string formatDiagnostic(const Diagnostic &diagnostic, StringRef name) {
  std::string text =
      (name + ":" + Twine(diagnostic.line) + ":" + Twine(diagnostic.column) + ": " +
       (diagnostic.severity == Diagnostic::Severity::Error ? "error: " : "warning: ") + diagnostic.message)
          .str();
  if (diagnostic.column <= diagnostic.sourceLine.size() + 1) {
    size_t room = diagnostic.sourceLine.size() + 1 - (diagnostic.column - 1);
    text += "\n  " + diagnostic.sourceLine + "\n  " + std::string(diagnostic.column - 1, ' ') + "^" +
            std::string(std::min<size_t>(diagnostic.length, room) - 1, '~');
  }
  if (!diagnostic.hint.empty())
    text += "\n  " + diagnostic.hint;
  return text;
}

Error diagnosticsFailure(ArrayRef<Diagnostic> diagnostics, StringRef name) {
  std::string message, where;
  SmallVector<Diagnostic, 4> errors;
  copy_if(diagnostics, std::back_inserter(errors),
          [](const Diagnostic &one) { return one.severity == Diagnostic::Severity::Error; });
  // A hint stands once: alone as the failure's own, otherwise at the first mistake with it. Names to choose
  // from are many, and mistakes with the same choice are, too.
  std::string own = errors.size() == 1 ? errors[0].hint : std::string();
  std::vector<std::string> said = {own};
  for (Diagnostic &diagnostic : errors) {
    if (where.empty())
      where = (name + ":" + Twine(diagnostic.line) + ":" + Twine(diagnostic.column)).str();
    if (is_contained(said, diagnostic.hint))
      diagnostic.hint.clear();
    else
      said.push_back(diagnostic.hint);
    message += (message.empty() ? "" : "\n") + formatDiagnostic(diagnostic, name);
  }
  return failUsage("bad-trigger", std::move(message), std::move(where), std::move(own));
}

std::string suggestion(StringRef word, ArrayRef<std::string> all, StringRef what) {
  constexpr unsigned shown = 12;
  unsigned allowed = word.size() < 4 ? 1 : 2, best = allowed;
  std::vector<StringRef> near;
  // Comparing is quadratic in the words' lengths and linear in the names: both are bounded.
  if (word.size() <= 64)
    for (const std::string &candidate : ArrayRef(all).take_front(4096)) {
      if (candidate.size() > 64)
        continue;
      unsigned distance = word.edit_distance_insensitive(candidate, true, best);
      if (distance > best)
        continue;
      if (distance < best)
        near.clear();
      best = distance;
      if (!is_contained(near, candidate) && near.size() < 4)
        near.push_back(candidate);
    }
  std::string text;
  if (!near.empty()) {
    for (StringRef candidate : near)
      text += (text.empty() ? "did you mean " : " or ") + candidate.str();
    return text + "?";
  }
  for (const std::string &candidate : ArrayRef(all).take_front(shown))
    text += (text.empty() ? "" : ", ") + candidate;
  if (text.empty())
    return {};
  return (what + ": " + text + (all.size() > shown ? " …" : "")).str();
}

} // namespace tapeback::triggers
