// Takes a line apart from left to right. Hand-made because importing must keep up with a disk: no allocation,
// and the column of whatever does not fit.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>

namespace tapeback {

class Scanner {
public:
  explicit Scanner(llvm::StringRef text)
      : begin(text.data()), at(text.data()), end(text.data() + text.size()) {}

  bool atEnd() const { return at == end; }
  llvm::StringRef rest() const { return {at, size_t(end - at)}; }
  /// Of the next character, from 1.
  unsigned column() const { return unsigned(at - begin) + 1; }
  char peek() const { return at == end ? '\0' : *at; }

  bool eat(char c) {
    if (at == end || *at != c)
      return false;
    ++at;
    return true;
  }
  bool eat(llvm::StringRef text) {
    if (!rest().starts_with(text))
      return false;
    at += text.size();
    return true;
  }
  /// Spaces and tabs; false if there are none.
  bool blanks() {
    const char *was = at;
    while (at != end && (*at == ' ' || *at == '\t'))
      ++at;
    return at != was;
  }
  /// Up to the next blank (or the end); empty if there is one here.
  llvm::StringRef word() {
    const char *was = at;
    while (at != end && *at != ' ' && *at != '\t')
      ++at;
    return {was, size_t(at - was)};
  }
  /// Up to `stop`, which is not taken. False if it does not come.
  bool until(char stop, llvm::StringRef &text) {
    const char *was = at;
    while (at != end && *at != stop)
      ++at;
    text = {was, size_t(at - was)};
    if (at != end)
      return true;
    at = was;
    return false;
  }
  /// Digits without a prefix. False (and nothing is taken) if there is none or the number has more than 64
  /// bits.
  bool decimal(uint64_t &value) {
    const char *was = at;
    uint64_t v = 0;
    for (; at != end && unsigned(*at - '0') < 10; ++at) {
      unsigned digit = unsigned(*at - '0');
      constexpr uint64_t most = ~uint64_t(0) / 10;
      if (v >= most && (v > most || digit > ~uint64_t(0) % 10))
        return back(was);
      v = v * 10 + digit;
    }
    value = v;
    return at != was;
  }
  bool hexDigits(uint64_t &value) {
    const char *was = at;
    uint64_t v = 0;
    for (; at != end; ++at) {
      unsigned digit = hexDigit[uint8_t(*at)];
      if (digit > 15)
        break;
      if (v >> 60)
        return back(was);
      v = v << 4 | digit;
    }
    value = v;
    return at != was;
  }
  /// "0x…".
  bool hex(uint64_t &value) {
    const char *was = at;
    return eat('0') && (eat('x') || eat('X')) && hexDigits(value) ? true : back(was);
  }
  /// As strtoul with base 0: 0x…, octal with a leading 0 (so "010" is eight), else decimal.
  bool cNumber(uint64_t &value) {
    const char *was = at;
    if (hex(value))
      return true;
    if (at != end && *at == '0') {
      uint64_t v = 0;
      for (; at != end && unsigned(*at - '0') < 8; ++at) {
        if (v >> 61)
          return back(was);
        v = v << 3 | unsigned(*at - '0');
      }
      value = v;
      return true;
    }
    return decimal(value);
  }
  /// "SEC.FRACTION" (or "SEC") in nanoseconds; digits beyond the ninth are dropped.
  bool seconds(uint64_t &nanoseconds) {
    const char *was = at;
    uint64_t whole, part = 0;
    if (!decimal(whole) || whole > ~uint64_t(0) / 1'000'000'000 - 1)
      return back(was);
    if (eat('.')) {
      uint64_t unit = 100'000'000;
      const char *first = at;
      for (; at != end && unsigned(*at - '0') < 10; ++at, unit /= 10)
        part += unsigned(*at - '0') * unit;
      if (at == first)
        return back(was);
    }
    nanoseconds = whole * 1'000'000'000 + part;
    return true;
  }

private:
  /// A table, because whether a digit is a letter cannot be predicted.
  static constexpr std::array<uint8_t, 256> hexDigit = [] {
    std::array<uint8_t, 256> table{};
    table.fill(16);
    for (unsigned digit = 0; digit < 16; ++digit) {
      table[uint8_t("0123456789abcdef"[digit])] = uint8_t(digit);
      table[uint8_t("0123456789ABCDEF"[digit])] = uint8_t(digit);
    }
    return table;
  }();

  bool back(const char *to) {
    at = to;
    return false;
  }
  const char *begin, *at, *end;
};

/// As StringRef::trim, which builds a table of its characters each time.
inline llvm::StringRef trimmed(llvm::StringRef text) {
  auto blank = [](char c) { return c == ' ' || unsigned(c - '\t') < 5; };
  while (!text.empty() && blank(text.front()))
    text = text.drop_front();
  while (!text.empty() && blank(text.back()))
    text = text.drop_back();
  return text;
}

/// Nanoseconds since 1970 of "YYYY-MM-DDTHH:MM:SS[.FRACTION]Z", taken from `scanner`; false if it is none.
bool scanIsoTime(Scanner &scanner, uint64_t &nanoseconds);

} // namespace tapeback
