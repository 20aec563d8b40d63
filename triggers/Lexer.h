// A trigger file's words. Nothing is refused here that a message with a place could not explain.
#pragma once

#include "triggers/Diagnostic.h"

namespace tapeback::triggers {

enum class TokenKind : uint8_t {
  End,
  Word,   ///< Letters, digits, '_'; '-' between letters or digits belongs to it (`register-write`).
  Number, ///< value; with mask != ~0 some digits were `x`: they do not matter.
  Text,   ///< Between double quotes, escapes \" and \\ resolved, at most 255 bytes.
  Symbol, ///< One of the operators, spelt in `text`.
  Bad     ///< Already complained about.
};

struct Token {
  TokenKind kind = TokenKind::End;
  SourceRange where;
  std::string text; ///< Of words, texts and symbols.
  uint64_t value = 0, mask = ~uint64_t(0);
  bool masked = false; ///< Has digits that do not matter.
};

/// All tokens of `text`, ended by one End. `#` begins a comment that ends with the line. At most `maxTokens`:
/// a longer text is complained about at that place.
constexpr size_t maxTokens = 200'000;
std::vector<Token> tokenise(llvm::StringRef text, Diagnostics &diagnostics);

} // namespace tapeback::triggers
