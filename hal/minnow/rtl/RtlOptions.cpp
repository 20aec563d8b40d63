#include "hal/minnow/rtl/RtlOptions.h"
#include <charconv>
#include <iterator>
#include <string_view>

namespace tapeback::minnow {
namespace {

bool parseNumber(std::string_view text, uint64_t low, uint64_t high, uint64_t &value) {
  int base = 10;
  if (text.substr(0, 2) == "0x") {
    text.remove_prefix(2);
    base = 16;
  }
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return failed == std::errc() && end == text.data() + text.size() && !text.empty() && value >= low &&
         value <= high;
}

std::string errataList() {
  std::string list;
  for (const char *name : erratumNames)
    list += (list.empty() ? "" : ", ") + std::string(name);
  return list;
}

/// "a+b": several at once.
bool parseErrata(std::string_view text, uint8_t &bits, std::string &error) {
  while (true) {
    size_t plus = text.find('+');
    std::string_view name = text.substr(0, plus);
    size_t i = 0;
    while (i < std::size(erratumNames) && name != erratumNames[i])
      ++i;
    if (i == std::size(erratumNames)) {
      error = "there is no erratum '" + std::string(name) + "'; errata are: " + errataList() +
              " (several with '+' between them)";
      return false;
    }
    bits = uint8_t(bits | 1u << i);
    if (plus == std::string_view::npos)
      return true;
    text.remove_prefix(plus + 1);
  }
}

} // namespace

bool parseRtlOptions(const tapeback_model_option *given, uint32_t count, RtlOptions &options,
                     std::string &error) {
  for (uint32_t i = 0; i < count; ++i) {
    std::string_view key = given[i].key, value = given[i].value;
    uint64_t number = 0;
    if (key == "errata") {
      if (!parseErrata(value, options.errata, error))
        return false;
    } else if (key == "latency") {
      if (!parseNumber(value, 1, maxLatency, number)) {
        error = "latency=CYCLES is a number from 1 to " + std::to_string(maxLatency);
        return false;
      }
      options.latency = uint32_t(number);
    } else if (key == "jitter") {
      if (!parseNumber(value, 0, maxJitter, number)) {
        error = "jitter=CYCLES is a number from 0 to " + std::to_string(maxJitter);
        return false;
      }
      options.jitter = uint32_t(number);
    } else if (key == "seed") {
      if (!parseNumber(value, 0, ~uint64_t(0), number)) {
        error = "seed=N is a number";
        return false;
      }
      options.seed = number;
    } else {
      error = "there is no option '" + std::string(key) +
              "'; options are: latency=CYCLES, jitter=CYCLES, seed=N, errata=NAME with NAME one of " +
              errataList();
      return false;
    }
  }
  return true;
}

} // namespace tapeback::minnow
