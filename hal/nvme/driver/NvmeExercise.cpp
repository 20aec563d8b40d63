// nvme-exercise: drives an NVMe controller through Tapeback's C API, with a mix of commands that a seed
// decides.
//
// A program under test like any other: it links libtapeback.so, chooses neither target nor output, and runs
// under `tapeback record` or alone with TAPEBACK_TARGET. It writes to the medium. Exit codes: 0 all checks
// held, 1 a check failed, 2 bad usage, 3 the target failed.
#include "hal/nvme/driver/Exercise.h"
#include <charconv>
#include <cstdio>

using namespace tapeback::nvme;

namespace {

constexpr const char *usage =
    "usage: nvme-exercise [--seed N] [--ops N] [--queues N] [--depth N] [--device NAME]\n"
    "\n"
    "Exercises an NVMe controller: identify, queues, read, write, write zeroes, flush, deallocate, log "
    "pages,\n"
    "abort, commands that must fail, queues deleted and made anew; checks every answer. The medium is "
    "WRITTEN.\n"
    "  --seed N        what decides the commands (default 1)\n"
    "  --ops N         how many (default 100)\n"
    "  --queues N      I/O queues, 1 to 4 (default 3)\n"
    "  --depth N       most commands under way in each, 1 to 32 (default 4)\n"
    "  --device NAME   the alias to open (default: the only one)\n"
    "\n"
    "The target comes from `tapeback record --target URI`, or from the environment: TAPEBACK_TARGET=URI.\n"
    "Exits 0 if all checks held, 1 if one did not, 2 on bad usage, 3 if the target failed.\n";

bool parseNumber(const char *text, uint64_t low, uint64_t high, uint64_t &value) {
  const char *end = text + strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end && value >= low && value <= high;
}

/// 0: go on; otherwise 1 + the exit code.
int parse(int argc, char **argv, ExerciseOptions &options, const char *&device) {
  for (int i = 1; i < argc; i += 2) {
    const char *value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (!strcmp(argv[i], "--help")) {
      fputs(usage, stdout);
      return 1;
    }
    uint64_t number = 0;
    bool good = value;
    if (!strcmp(argv[i], "--seed")) {
      good = good && parseNumber(value, 0, ~uint64_t(0), options.seed);
    } else if (!strcmp(argv[i], "--ops")) {
      good = good && parseNumber(value, 1, 10'000'000, options.commands);
    } else if (!strcmp(argv[i], "--queues")) {
      good = good && parseNumber(value, 1, Controller::mostQueues, number);
      options.queues = unsigned(number);
    } else if (!strcmp(argv[i], "--depth")) {
      good = good && parseNumber(value, 1, 32, number);
      options.depth = unsigned(number);
    } else if (!strcmp(argv[i], "--device")) {
      device = value;
    } else {
      good = false;
    }
    if (!good) {
      fprintf(stderr, "nvme-exercise: bad argument '%s%s%s'\n%s", argv[i], value ? " " : "",
              value ? value : "", usage);
      return 1 + 2;
    }
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  ExerciseOptions options;
  const char *name = nullptr;
  if (int code = parse(argc, argv, options, name))
    return code - 1;
  tb_device *device = nullptr;
  if (tb_open(name, &device) != TB_OK) {
    fprintf(stderr, "nvme-exercise: tb_open: %s\n", tb_error());
    return 3;
  }
  Exercise exercise(device, options);
  bool went = exercise.run();
  tb_close(device);
  printf("nvme-exercise: seed %llu: %llu commands, %llu wrong\n", (unsigned long long)options.seed,
         exercise.done(), exercise.wrong());
  return !went ? 3 : exercise.wrong() ? 1 : 0;
}
