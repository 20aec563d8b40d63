// minnow-compare: rtl:minnow against model:minnow over many seeds. tools/minnow-compare runs the whole.
#include "tests/hal/minnow/compare/Lockstep.h"
#include <charconv>
#include <cstdio>
#include <cstring>

using namespace tapeback::test;

namespace {

constexpr const char *usage =
    "usage: minnow-compare [--first N] [--seeds N] [--commands N] [--a URI] [--b URI] [--simple]\n"
    "                      [--verbose]\n"
    "\n"
    "Carries out stress plans on two Minnows in lockstep and compares all that the manual decides.\n"
    "  --first N     the first seed (default 1)\n"
    "  --seeds N     how many (default 1)\n"
    "  --commands N  commands in each plan (default 120)\n"
    "  --a URI       one side (default: rtl:minnow with latency, jitter and seed from the plan's seed)\n"
    "  --b URI       the other (default: model:minnow likewise)\n"
    "  --simple      without the plans' errors, resets and self-modifying chains\n"
    "  --verbose     print every step\n"
    "Exits 0 if all agree, 1 if not, 2 on bad usage.\n";

bool parseNumber(const char *text, uint64_t &value) {
  const char *end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end;
}

} // namespace

int main(int argc, char **argv) {
  uint64_t first = 1, seeds = 1, commands = 120;
  std::string a, b;
  LockstepOptions options;
  options.plan.exotic = true;
  for (int i = 1; i < argc; ++i) {
    const char *value = i + 1 < argc ? argv[i + 1] : nullptr;
    std::string_view name = argv[i];
    bool good = true;
    if (name == "--verbose") {
      options.verbose = true;
      continue;
    }
    if (name == "--simple") {
      options.plan.errors = options.plan.resets = options.plan.exotic = false;
      continue;
    }
    if (name == "--help") {
      std::fputs(usage, stdout);
      return 0;
    }
    if (name == "--first")
      good = value && parseNumber(value, first);
    else if (name == "--seeds")
      good = value && parseNumber(value, seeds);
    else if (name == "--commands")
      good = value && parseNumber(value, commands);
    else if (name == "--a" && value)
      a = value;
    else if (name == "--b" && value)
      b = value;
    else
      good = false;
    if (!good) {
      std::fprintf(stderr, "minnow-compare: bad argument '%s'\n%s", argv[i], usage);
      return 2;
    }
    ++i;
  }

  uint64_t differing = 0, submitted = 0, comparisons = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    options.plan.seed = seed;
    options.plan.commands = commands;
    options.first = a.empty() ? rtlFor(seed) : a;
    options.second = b.empty() ? modelFor(seed) : b;
    LockstepOutcome outcome = runLockstep(options);
    submitted += outcome.commands;
    comparisons += outcome.comparisons;
    if (outcome.difference.empty())
      continue;
    ++differing;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), outcome.difference.c_str());
    std::fflush(stdout);
  }
  std::printf("minnow-compare: seeds %llu to %llu: %llu commands, %llu values compared, %llu seeds differ\n",
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + seeds - 1),
              static_cast<unsigned long long>(submitted), static_cast<unsigned long long>(comparisons),
              static_cast<unsigned long long>(differing));
  return differing ? 1 : 0;
}
