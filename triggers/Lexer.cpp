#include "triggers/Lexer.h"
#include "format/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace tapeback::triggers {
namespace {

bool isWordStart(char c) {
  return isAlpha(c) || c == '_';
}
bool isWordPart(char c) {
  return isAlnum(c) || c == '_';
}

class Lexing {
public:
  Lexing(StringRef text, Diagnostics &diagnostics) : text(text), diagnostics(diagnostics) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    for (;;) {
      skipBlank();
      if (tokens.size() >= maxTokens) {
        diagnostics.error({uint32_t(at), 1}, "the file is too long");
        break;
      }
      if (at >= text.size())
        break;
      tokens.push_back(next());
    }
    Token end;
    end.where = {uint32_t(at), 0};
    tokens.push_back(std::move(end));
    return tokens;
  }

private:
  void skipBlank() {
    while (at < text.size()) {
      if (isSpace(text[at]))
        ++at;
      else if (text[at] == '#')
        at = std::min(text.find('\n', at), text.size());
      else
        return;
    }
  }

  Token next() {
    Token token;
    size_t begin = at;
    char c = text[at];
    if (isWordStart(c))
      word(token);
    else if (isDigit(c))
      number(token);
    else if (c == '"')
      quoted(token);
    else
      symbol(token);
    token.where = {uint32_t(begin), uint32_t(at - begin)};
    return token;
  }

  void word(Token &token) {
    size_t begin = at;
    while (at < text.size() &&
           (isWordPart(text[at]) || (text[at] == '-' && at + 1 < text.size() && isWordPart(text[at + 1]))))
      ++at;
    token.kind = TokenKind::Word;
    token.text = text.slice(begin, at).str();
  }

  void number(Token &token) {
    size_t begin = at;
    while (at < text.size() && isWordPart(text[at]))
      ++at;
    StringRef digits = text.slice(begin, at);
    token.kind = TokenKind::Number;
    SourceRange where = {uint32_t(begin), uint32_t(digits.size())};
    unsigned bits = digits.starts_with("0x") ? 4 : digits.starts_with("0b") ? 1 : 0;
    if (bits && digits.drop_front(2).find_first_of("xX") != StringRef::npos) {
      pattern(token, digits.drop_front(2), bits, where);
      return;
    }
    Expected<uint64_t> value = parseNumber(digits);
    if (!value) {
      diagnostics.error(where, "'" + digits.str() + "' is no number: " + toFailureText(value.takeError()),
                        "numbers: 12, 0x1f, 0b101, 1_000; a unit stands apart (5 ms)");
      token.kind = TokenKind::Bad;
      return;
    }
    token.value = *value;
  }

  static std::string toFailureText(Error error) { return toString(std::move(error)); }

  /// 0x8x, 0b1xx0: digits that do not matter.
  void pattern(Token &token, StringRef digits, unsigned bits, SourceRange where) {
    token.masked = true;
    token.mask = 0;
    unsigned count = 0;
    for (char c : digits) {
      if (c == '_')
        continue;
      unsigned digit = hexDigitValue(c);
      bool any = c == 'x' || c == 'X';
      if (++count * bits > 64 || (!any && digit >= (1u << bits))) {
        diagnostics.error(where, "this pattern has a wrong digit or more than 64 bits");
        token.kind = TokenKind::Bad;
        return;
      }
      token.value = token.value << bits | (any ? 0 : digit);
      token.mask = token.mask << bits | (any ? 0 : (1u << bits) - 1);
    }
    // What stands left of the pattern is zero and matters.
    if (count * bits < 64)
      token.mask |= ~uint64_t(0) << (count * bits);
  }

  void quoted(Token &token) {
    size_t begin = at++;
    token.kind = TokenKind::Text;
    while (at < text.size() && text[at] != '"' && text[at] != '\n') {
      if (text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == '"' || text[at + 1] == '\\'))
        ++at;
      token.text += text[at++];
    }
    bool closed = at < text.size() && text[at] == '"';
    if (closed)
      ++at;
    if (!closed || token.text.size() > 255) {
      diagnostics.error({uint32_t(begin), uint32_t(at - begin)},
                        closed ? "this text is longer than 255 bytes" : "this text has no end",
                        closed ? "" : "close it with \" on the same line");
      token.kind = TokenKind::Bad;
    }
  }

  void symbol(Token &token) {
    static constexpr StringLiteral twos[] = {"->", "==", "!=", "<=", ">=", "&&",
                                             "||", "<<", ">>", "..", "+=", "-="};
    token.kind = TokenKind::Symbol;
    for (StringLiteral two : twos)
      if (text.substr(at).starts_with(two)) {
        token.text = two.str();
        at += 2;
        return;
      }
    char c = text[at];
    if (StringRef("{}()[]<>=!&|^~+-*/%;:,.").contains(c)) {
      token.text = c;
      ++at;
      return;
    }
    size_t begin = at++;
    // The rest of a character of several bytes is part of the same mistake.
    while (at < text.size() && (uint8_t(text[at]) & 0xc0) == 0x80)
      ++at;
    diagnostics.error({uint32_t(begin), uint32_t(at - begin)}, "this character means nothing here",
                      c == '\'' ? "texts stand in double quotes" : "");
    token.kind = TokenKind::Bad;
  }

  StringRef text;
  Diagnostics &diagnostics;
  size_t at = 0;
};

} // namespace

std::vector<Token> tokenise(StringRef text, Diagnostics &diagnostics) {
  return Lexing(text, diagnostics).run();
}

} // namespace tapeback::triggers
