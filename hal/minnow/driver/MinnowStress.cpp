// minnow-stress: random but legal command streams on Minnow, through Tapeback's C API, by a plan that a seed
// decides.
//
// A program under test like any other: it links libtapeback.so, chooses neither target nor output, and runs
// under `tapeback record` or alone with TAPEBACK_TARGET. Exit codes: 0 all checks held, 1 a check failed or
// the device did not answer in time, 2 bad usage, 3 the target failed.
#include "hal/minnow/driver/Stress.h"
#include "recorder/tapeback.h"
#include <charconv>
#include <cstdio>
#include <cstring>

using namespace tapeback::stress;

namespace {

constexpr const char *usage =
    "usage: minnow-stress [--seed N] [--commands N] [--no-errors] [--no-resets] [--exotic] [--keep-going]\n"
    "                     [--device NAME]\n"
    "\n"
    "Random but legal programs for a Minnow accelerator: both queues, chains, errors and resets. Checks what "
    "is stored,\n"
    "every error, registers and exact counters against the plan's own evaluation.\n"
    "  --seed N       what decides the program (default 1)\n"
    "  --commands N   how many are submitted, at least (default 200)\n"
    "  --no-errors    no commands that fail\n"
    "  --no-resets    no soft resets\n"
    "  --exotic       also what is legal but cannot be followed from outside, such as chains that modify "
    "themselves\n"
    "  --keep-going   go on after a check that did not hold (it still exits 1)\n"
    "  --device NAME  the alias to open (default: the only one)\n"
    "\n"
    "The target comes from `tapeback record --target URI`, or from the environment: TAPEBACK_TARGET=URI.\n"
    "Exits 0 if all checks held, 1 if one did not, 2 on bad usage, 3 if the target failed.\n";

constexpr uint64_t deadlineNs = 10'000'000'000;

struct Options {
  StressOptions plan;
  bool keepGoing = false;
  const char *device = nullptr;
};

bool parseNumber(const char *text, uint64_t &value) {
  const char *end = text + strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end;
}

bool parseFlag(const char *name, Options &options) {
  if (!strcmp(name, "--no-errors"))
    options.plan.errors = false;
  else if (!strcmp(name, "--no-resets"))
    options.plan.resets = false;
  else if (!strcmp(name, "--exotic"))
    options.plan.exotic = true;
  else if (!strcmp(name, "--keep-going"))
    options.keepGoing = true;
  else
    return false;
  return true;
}

/// 0: go on; otherwise 1 + the exit code.
int parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    const char *value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (!strcmp(argv[i], "--help")) {
      fputs(usage, stdout);
      return 1;
    }
    if (parseFlag(argv[i], options))
      continue;
    bool good = value;
    if (!strcmp(argv[i], "--seed"))
      good = good && parseNumber(value, options.plan.seed);
    else if (!strcmp(argv[i], "--commands"))
      good = good && parseNumber(value, options.plan.commands) && options.plan.commands <= 10'000'000;
    else if (!strcmp(argv[i], "--device"))
      options.device = value;
    else
      good = false;
    if (!good) {
      fprintf(stderr, "minnow-stress: bad argument '%s%s%s'\n%s", argv[i], value ? " " : "",
              value ? value : "", usage);
      return 1 + 2;
    }
    ++i;
  }
  return 0;
}

/// Carries out steps. Says what went wrong.
class Driver {
public:
  Driver(tb_device *device, bool keepGoing) : device(device), keepGoing(keepGoing) {}

  bool start() { return good("tb_alloc", tb_alloc(device, arenaBytes, 4096, &iova, &pointer)); }
  uint64_t arena() const { return iova; }
  bool targetFailed() const { return failed; }
  unsigned long long wrong() const { return wrongAnswers; }
  const char *round() const { return roundName; }

  /// False: stop.
  bool run(const StressStep &step) {
    switch (step.kind) {
    case StressStep::Kind::Mark: roundName = step.name; return good("tb_mark", tb_mark(device, step.name));
    case StressStep::Kind::Write:
      return good("tb_write32", tb_write32(device, "bar0", step.offset, uint32_t(step.value)));
    case StressStep::Kind::Read: return readAndCheck(step);
    case StressStep::Kind::Poll:
      return inTime(step.name,
                    tb_poll(device, "bar0", step.offset, 4, step.mask, step.value, deadlineNs, nullptr));
    case StressStep::Kind::Fill:
      if (pointer) {
        memcpy(static_cast<uint8_t *>(pointer) + step.memory, step.bytes.data(), step.bytes.size());
        return true;
      }
      [[fallthrough]]; // A target without a coherent view of its memory.
    case StressStep::Kind::FillApi:
      return good("tb_mem_write",
                  tb_mem_write(device, iova + step.memory, step.bytes.data(), step.bytes.size()));
    case StressStep::Kind::AwaitMemory:
      return inTime(step.name,
                    tb_wait_mem(device, iova + step.memory, 8, UINT64_MAX, step.value, deadlineNs, nullptr));
    case StressStep::Kind::AwaitInterrupt:
      return inTime("interrupt", tb_wait_irq(device, 0, deadlineNs, nullptr));
    case StressStep::Kind::CheckMemory:
      return held(step.name, tb_check_memory(device, step.name, iova + step.memory, step.bytes.data(),
                                             step.bytes.size()));
    case StressStep::Kind::Reset: return good("tb_reset", tb_reset(device));
    case StressStep::Kind::Quiet: return true;
    }
    return false;
  }

private:
  bool good(const char *what, int code) {
    if (code >= 0)
      return true;
    fprintf(stderr, "minnow-stress: %s: %s\n", what, tb_error());
    failed = true;
    return false;
  }
  /// A deadline that passed is a wrong answer, and the end: what comes next depends on it.
  bool inTime(const char *what, int code) {
    if (code != TB_E_TIMEOUT)
      return good(what, code);
    fprintf(stderr, "minnow-stress: '%s' did not come in time\n", what);
    ++wrongAnswers;
    good("tb_fail", tb_fail(device, what));
    return false;
  }
  bool held(const char *name, int outcome) {
    if (outcome == 1)
      return true;
    if (!good(name, outcome))
      return false;
    fprintf(stderr, "minnow-stress: check '%s' does not hold\n", name);
    ++wrongAnswers;
    return keepGoing;
  }
  bool readAndCheck(const StressStep &step) {
    uint32_t actual = 0;
    return good("tb_read32", tb_read32(device, "bar0", step.offset, &actual)) &&
           held(step.name, tb_check_equal(device, step.name, step.value, actual));
  }

  tb_device *device;
  bool keepGoing, failed = false;
  unsigned long long wrongAnswers = 0;
  const char *roundName = "";
  uint64_t iova = 0;
  void *pointer = nullptr;
};

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (int code = parse(argc, argv, options))
    return code - 1;
  tb_device *device = nullptr;
  if (tb_open(options.device, &device) != TB_OK) {
    fprintf(stderr, "minnow-stress: tb_open: %s\n", tb_error());
    return 3;
  }
  Driver driver(device, options.keepGoing);
  unsigned long long rounds = 0, submitted = 0;
  if (driver.start()) {
    options.plan.arena = driver.arena();
    StressPlan plan(options.plan);
    bool going = true;
    for (std::vector<StressStep> steps = plan.next(); going && !steps.empty(); steps = plan.next()) {
      for (size_t i = 0; going && i < steps.size(); ++i)
        going = driver.run(steps[i]);
      ++rounds;
      if (!going)
        fprintf(stderr, "minnow-stress: in round %llu (%s)\n", rounds, driver.round());
      submitted = plan.submitted();
    }
  }
  bool failed = driver.targetFailed();
  if (tb_close(device) != TB_OK) {
    fprintf(stderr, "minnow-stress: tb_close: %s\n", tb_error());
    failed = true;
  }
  printf("minnow-stress: seed %llu: %llu commands in %llu rounds, %llu wrong\n",
         (unsigned long long)options.plan.seed, submitted, rounds, driver.wrong());
  return failed ? 3 : driver.wrong() ? 1 : 0;
}
