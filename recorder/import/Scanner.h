// Takes a line apart from left to right. Hand-made because importing must keep up with a disk: no allocation,
// and the column of whatever does not fit.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tapeback {

class Scanner {
public:
  explicit Scanner(llvm::StringRef text)
      : begin(text.data()), at(text.data()), end(text.data() + text.size()) {}
  /// From its character number `from`, counted from 0, on.
  Scanner(llvm::StringRef text, size_t from) : Scanner(text) { at += from; }

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
  /// A text of a size that is known here is compared without a call.
  template <size_t size>
  bool eat(const char (&text)[size]) {
    if (size_t(end - at) < size - 1 || std::memcmp(at, text, size - 1) != 0)
      return false;
    at += size - 1;
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
    const char *found =
        at == end ? nullptr : static_cast<const char *>(std::memchr(at, stop, size_t(end - at)));
    text = {at, size_t((found ? found : end) - at)};
    if (found)
      at = found;
    return found;
  }
  /// Digits without a prefix. False (and nothing is taken) if there is none or the number has more than 64
  /// bits.
  bool decimal(uint64_t &value) {
    const char *was = at;
    uint64_t v = 0;
    // As many digits cannot have more than 64 bits.
    for (const char *most = least(19); at != most && unsigned(*at - '0') < 10; ++at)
      v = v * 10 + unsigned(*at - '0');
    for (; LLVM_UNLIKELY(at - was >= 19) && at != end && unsigned(*at - '0') < 10; ++at) {
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
    unsigned digit = 0;
    for (const char *most = least(16); at != most && (digit = hexDigit[uint8_t(*at)]) < 16; ++at)
      v = v << 4 | digit;
    for (; LLVM_UNLIKELY(at - was >= 16) && at != end && (digit = hexDigit[uint8_t(*at)]) < 16; ++at) {
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
      static constexpr uint32_t units[] = {1'000'000'000, 100'000'000, 10'000'000, 1'000'000, 100'000,
                                           10'000,        1'000,       100,        10,        1};
      const char *first = at;
      for (const char *most = least(9); at != most && unsigned(*at - '0') < 10; ++at)
        part = part * 10 + unsigned(*at - '0');
      if (at == first)
        return back(was);
      part *= units[at - first];
      while (at != end && unsigned(*at - '0') < 10)
        ++at;
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

  /// Where at most `count` more characters end.
  const char *least(ptrdiff_t count) const { return end - at > count ? at + count : end; }
  bool back(const char *to) {
    at = to;
    return false;
  }
  const char *begin, *at, *end;
};

inline bool isBlank(char c) {
  return c == ' ' || unsigned(c - '\t') < 5;
}
/// As StringRef::rtrim and trim, which build a table of their characters each time.
inline llvm::StringRef trimmedRight(llvm::StringRef text) {
  while (!text.empty() && isBlank(text.back()))
    text = text.drop_back();
  return text;
}
inline llvm::StringRef trimmed(llvm::StringRef text) {
  while (!text.empty() && isBlank(text.front()))
    text = text.drop_front();
  return trimmedRight(text);
}

/// Whether there is nothing in it but blanks.
inline bool isBlank(llvm::StringRef text) {
  return trimmed(text).empty();
}

/// Nanoseconds since 1970 of "YYYY-MM-DDTHH:MM:SS[.FRACTION]Z", taken from `scanner`; false if it is none.
bool scanIsoTime(Scanner &scanner, uint64_t &nanoseconds);

} // namespace tapeback
