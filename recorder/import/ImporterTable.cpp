#include "recorder/import/Importers.h"
#include <array>

using namespace llvm;

namespace tapeback {

std::string hexText(uint64_t value, unsigned digits) {
  std::string text;
  for (; value || text.size() < digits; value >>= 4)
    text.insert(text.begin(), "0123456789abcdef"[value & 15]);
  return text;
}

ArrayRef<ImporterKind> importerKinds() {
  static const std::array<ImporterKind, 8> table = {qtestKind,    mmiotraceKind, vfioTraceKind, nvdlaTxnKind,
                                                    nvdlaCfgKind, maliLogKind,   nvmeTraceKind, vcdKind};
  return table;
}

const ImporterKind *findImporter(StringRef name) {
  for (const ImporterKind &kind : importerKinds())
    if (name == kind.name)
      return &kind;
  return nullptr;
}

unsigned shareOfLines(StringRef head, function_ref<bool(StringRef)> matches,
                      function_ref<bool(StringRef)> skip) {
  constexpr unsigned mostLines = 1000;
  unsigned seen = 0, hits = 0;
  while (!head.empty() && seen < mostLines) {
    auto [line, rest] = head.split('\n');
    bool cut = rest.empty() && head.back() != '\n' && head.size() >= 60000; // The head ends in it.
    head = rest;
    line = line.rtrim('\r');
    if (cut || line.trim().empty() || skip(line))
      continue;
    ++seen;
    hits += matches(line);
  }
  return seen ? hits * 100 / seen : 0;
}

static bool digits(Scanner &scanner, unsigned count, uint64_t &value) {
  value = 0;
  for (unsigned i = 0; i < count; ++i) {
    unsigned digit = unsigned(scanner.peek() - '0');
    if (digit > 9)
      return false;
    scanner.eat(scanner.peek());
    value = value * 10 + digit;
  }
  return true;
}

bool scanIsoTime(Scanner &scanner, uint64_t &nanoseconds) {
  Scanner s = scanner;
  uint64_t year, month, day, hour, minute, part;
  if (!digits(s, 4, year) || !s.eat('-') || !digits(s, 2, month) || !s.eat('-') || !digits(s, 2, day) ||
      !s.eat('T') || !digits(s, 2, hour) || !s.eat(':') || !digits(s, 2, minute) || !s.eat(':') ||
      !s.seconds(part) || !s.eat('Z'))
    return false;
  if (year < 1970 || year > 2500 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 ||
      minute > 59 || part >= 61'000'000'000)
    return false;
  // Days since 1970 in the Gregorian calendar, years counted from March so that the leap day is a year's
  // last.
  uint64_t y = year - (month <= 2), era = y / 400, yearOfEra = y % 400;
  uint64_t dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  uint64_t days = era * 146097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719468;
  nanoseconds = ((days * 24 + hour) * 60 + minute) * 60'000'000'000 + part;
  scanner = s;
  return true;
}

} // namespace tapeback
