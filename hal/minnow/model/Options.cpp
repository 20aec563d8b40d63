#include "hal/minnow/model/Options.h"
#include <cstdio>
#include <cstring>

namespace minnow {
namespace {

struct NumberOption {
  const char *key;
  uint64_t most;
  uint64_t Options::*to;
};

/// Times have limits so that one access takes bounded work.
constexpr NumberOption numberOptions[] = {
    {"access-time", 1000000, &Options::accessTime},
    {"memory-latency", 100000, &Options::memoryLatency},
    {"jitter", UINT64_MAX, &Options::jitter},
};

/// Decimal, or hexadecimal after 0x. A leading zero is refused: half the world reads 010 as 8.
bool parseNumber(const char *text, uint64_t most, uint64_t &number) {
  unsigned base = 10;
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    base = 16;
    text += 2;
  } else if (text[0] == '0' && text[1]) {
    return false;
  }
  if (!*text)
    return false;
  uint64_t sum = 0;
  for (; *text; ++text) {
    unsigned digit = base;
    if (*text >= '0' && *text <= '9')
      digit = unsigned(*text - '0');
    else if ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'f')
      digit = unsigned((*text | 0x20) - 'a') + 10;
    if (digit >= base || sum > (UINT64_MAX - digit) / base)
      return false;
    sum = sum * base + digit;
  }
  number = sum;
  return sum <= most;
}

} // namespace

bool parseOptions(const tapeback_model_option *given, uint32_t count, Options &options, char *error,
                  size_t size) {
  for (uint32_t i = 0; i < count; ++i) {
    const NumberOption *found = nullptr;
    for (const NumberOption &option : numberOptions)
      if (strcmp(option.key, given[i].key) == 0)
        found = &option;
    if (!found) {
      snprintf(
          error, size,
          "there is no option '%.64s'; there are access-time (nanoseconds), memory-latency (cycles), jitter "
          "(a seed)",
          given[i].key);
      return false;
    }
    if (!parseNumber(given[i].value, found->most, options.*found->to)) {
      snprintf(error, size, "option '%s' wants a number of at most %llu, not '%.64s'", found->key,
               static_cast<unsigned long long>(found->most), given[i].value);
      return false;
    }
  }
  return true;
}

} // namespace minnow
