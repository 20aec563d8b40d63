// The parser's two halves. Internal to triggers/; others call parseTriggers().
#pragma once

#include "triggers/Syntax.h"

namespace tapeback::triggers {

/// True for what begins an event predicate: a packet kind, or one of read, write, poll, access, raised.
bool isEventWord(llvm::StringRef word);
/// Words that never are a register's, a command's or another name behind an event.
bool isReservedWord(llvm::StringRef word);

/// A cursor over the tokens with the grammar of expressions. After the first error `failed` is set, every
/// call returns at once, and the caller skips to a place where it can go on.
class ExpressionParser {
public:
  ExpressionParser(std::vector<Token> tokens, Diagnostics &diagnostics)
      : tokens(std::move(tokens)), diagnostics(diagnostics) {}

protected:
  static constexpr unsigned maxDepth = 100;

  const Token &peek(size_t ahead = 0) const { return tokens[std::min(at + ahead, tokens.size() - 1)]; }
  bool atWord(llvm::StringRef word) const { return peek().kind == TokenKind::Word && peek().text == word; }
  bool atSymbol(llvm::StringRef symbol) const {
    return peek().kind == TokenKind::Symbol && peek().text == symbol;
  }
  bool takeWord(llvm::StringRef word) { return take(atWord(word)); }
  bool takeSymbol(llvm::StringRef symbol) { return take(atSymbol(symbol)); }
  void expectSymbol(llvm::StringRef symbol, llvm::StringRef why);
  Name expectName(llvm::StringRef what);
  uint64_t expectNumber(llvm::StringRef what);
  std::string expectText(llvm::StringRef what);
  Amount expectAmount(llvm::StringRef what);
  void fail(const std::string &message, const std::string &hint = {});
  void failAt(SourceRange where, const std::string &message, const std::string &hint = {});
  std::string here() const; ///< "'foo'", "the end of the file".

  ExpressionPointer expression();

  std::vector<Token> tokens;
  Diagnostics &diagnostics;
  size_t at = 0;
  bool failed = false;
  unsigned nesting = 0;

private:
  bool take(bool really) {
    at += really && !failed;
    return really && !failed;
  }
  ExpressionPointer make(ExpressionKind kind, SourceRange where);
  ExpressionPointer binary(unsigned level);
  ExpressionPointer comparison();
  ExpressionPointer unary();
  ExpressionPointer primary();
  ExpressionPointer number();
  ExpressionPointer event();
  ExpressionPointer named();
  ExpressionPointer set(ExpressionPointer subject);
  ExpressionPointer join(ExpressionPointer left, const std::string &op, ExpressionPointer right);
  bool deepens(Expression &parent);
};

} // namespace tapeback::triggers
