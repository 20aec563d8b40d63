// edu-exercise: drives QEMU's edu device through Tapeback's C API, by a plan that a seed decides.
//
// A program under test like any other: it links libtapeback.so, chooses neither target nor output, and runs
// under `tapeback record` or alone with TAPEBACK_TARGET. Exit codes: 0 all checks held, 1 a check failed, 2
// bad usage, 3 the target failed.
#include "hal/edu/driver/Plan.h"
#include "recorder/tapeback.h"
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>

using namespace tapeback::edu;

namespace {

constexpr const char *usage =
    "usage: edu-exercise [--seed N] [--ops N] [--only KIND,…] [--keep-going] [--gaps] [--device NAME]\n"
    "\n"
    "Exercises an edu device: factorials, liveness, interrupts, DMA both ways; checks every answer.\n"
    "  --seed N        what decides the operations (default 1)\n"
    "  --ops N         how many (default 100)\n"
    "  --only KINDS    only these: factorial-poll, factorial-interrupt, liveness, ident, raise-interrupt,\n"
    "                  dma-to-device, dma-from-device; or factorial, dma, interrupt\n"
    "  --keep-going    go on after a check that did not hold (it still exits 1)\n"
    "  --gaps          print the distribution of the time between operations (what recording disturbs)\n"
    "  --device NAME   the alias to open (default: the only one)\n"
    "\n"
    "The target comes from `tapeback record --target URI`, or from the environment: TAPEBACK_TARGET=URI.\n"
    "Exits 0 if all checks held, 1 if one did not, 2 on bad usage, 3 if the target failed.\n";

/// Long: on QEMU virtual time jumps ahead of the thread that computes factorials.
constexpr uint64_t deadlineNs = 100'000'000'000;

struct Options {
  PlanOptions plan;
  bool keepGoing = false, gaps = false;
  const char *device = nullptr;
};

bool parseNumber(const char *text, uint64_t &value) {
  const char *end = text + strlen(text);
  auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end;
}

/// 0: go on; otherwise 1 + the exit code.
int parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    const char *value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (!strcmp(argv[i], "--help")) {
      fputs(usage, stdout);
      return 1;
    }
    if (!strcmp(argv[i], "--keep-going")) {
      options.keepGoing = true;
      continue;
    }
    if (!strcmp(argv[i], "--gaps")) {
      options.gaps = true;
      continue;
    }
    bool good = value;
    if (!strcmp(argv[i], "--seed"))
      good = good && parseNumber(value, options.plan.seed);
    else if (!strcmp(argv[i], "--ops"))
      good = good && parseNumber(value, options.plan.count) && options.plan.count <= 10'000'000;
    else if (!strcmp(argv[i], "--only"))
      good = good && (options.plan.kinds = parseKinds(value)) != 0;
    else if (!strcmp(argv[i], "--device"))
      options.device = value;
    else
      good = false;
    if (!good) {
      fprintf(stderr, "edu-exercise: bad argument '%s%s%s'\n%s", argv[i], value ? " " : "",
              value ? value : "", usage);
      return 1 + 2;
    }
    ++i;
  }
  return 0;
}

class Driver {
public:
  Driver(tb_device *device, bool keepGoing) : device(device), keepGoing(keepGoing) {}

  /// Memory for transfers: a plan without them runs on targets that cannot see memory.
  bool start(bool transfers) {
    return !transfers || good("tb_alloc", tb_alloc(device, hostBytes, 0, &iova, &pointer));
  }

  /// False: stop.
  bool run(const PlanOperation &operation) {
    for (const PlanStep &step : stepsOf(operation))
      if (!run(step)) {
        fprintf(stderr, "edu-exercise: in operation %llu (%s)\n", (unsigned long long)operation.index,
                planKindName(operation.kind));
        return false;
      }
    return true;
  }

  bool targetFailed() const { return failed; }
  unsigned long long wrong() const { return wrongAnswers; }

private:
  bool good(const char *what, int code) {
    if (code >= 0)
      return true;
    fprintf(stderr, "edu-exercise: %s: %s\n", what, tb_error());
    failed = true;
    return false;
  }
  bool held(const char *name, int outcome) {
    if (outcome == 1)
      return true;
    if (!good(name, outcome))
      return false;
    fprintf(stderr, "edu-exercise: check '%s' does not hold\n", name);
    ++wrongAnswers;
    return keepGoing;
  }

  bool run(const PlanStep &step) {
    switch (step.kind) {
    case PlanStep::Kind::Mark: return good("tb_mark", tb_mark(device, step.name));
    case PlanStep::Kind::SpanBegin: return good("tb_span_begin", tb_span_begin(device, step.name, &span));
    case PlanStep::Kind::SpanEnd: return good("tb_span_end", tb_span_end(device, span));
    case PlanStep::Kind::Write: {
      uint64_t value = step.value + (step.addIova ? iova : 0);
      return good("tb_write", step.width == 8 ? tb_write64(device, "bar0", step.offset, value)
                                              : tb_write32(device, "bar0", step.offset, uint32_t(value)));
    }
    case PlanStep::Kind::Read: return readAndCheck(step);
    case PlanStep::Kind::Poll:
      return good("tb_poll", tb_poll(device, "bar0", step.offset, step.width, step.mask, step.value,
                                     deadlineNs, nullptr));
    case PlanStep::Kind::WaitInterrupt:
      return good("tb_wait_irq", tb_wait_irq(device, 0, deadlineNs, nullptr));
    case PlanStep::Kind::Fill:
      if (pointer) {
        memcpy(static_cast<uint8_t *>(pointer) + step.hostOffset, step.bytes.data(), step.bytes.size());
        return true;
      }
      [[fallthrough]]; // A target without a coherent view of its memory.
    case PlanStep::Kind::FillApi:
      return good("tb_mem_write",
                  tb_mem_write(device, iova + step.hostOffset, step.bytes.data(), step.bytes.size()));
    case PlanStep::Kind::CheckMemory:
      return held(step.name, tb_check_memory(device, step.name, iova + step.hostOffset, step.bytes.data(),
                                             step.bytes.size()));
    }
    return false;
  }

  bool readAndCheck(const PlanStep &step) {
    uint64_t actual = 0;
    uint32_t narrow = 0;
    int code = step.width == 8 ? tb_read64(device, "bar0", step.offset, &actual)
                               : tb_read32(device, "bar0", step.offset, &narrow);
    if (!good("tb_read", code))
      return false;
    if (step.width != 8)
      actual = narrow;
    return held(step.name, tb_check_equal(device, step.name, step.value, actual));
  }

  tb_device *device;
  bool keepGoing, failed = false;
  unsigned long long wrongAnswers = 0;
  uint64_t iova = 0, span = 0;
  void *pointer = nullptr;
};

/// The time from one operation's begin to the next one's.
class Gaps {
public:
  void operationBegins() {
    auto now = std::chrono::steady_clock::now();
    if (last != std::chrono::steady_clock::time_point())
      gaps.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(now - last).count());
    last = now;
  }
  void print() {
    if (gaps.empty())
      return;
    std::sort(gaps.begin(), gaps.end());
    auto percentile = [this](size_t percent) { return (long long)gaps[(gaps.size() - 1) * percent / 100]; };
    printf("gaps: p50 %lld ns, p99 %lld ns, max %lld ns\n", percentile(50), percentile(99), percentile(100));
  }

private:
  std::chrono::steady_clock::time_point last;
  std::vector<int64_t> gaps;
};

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (int code = parse(argc, argv, options))
    return code - 1;
  tb_device *device = nullptr;
  if (tb_open(options.device, &device) != TB_OK) {
    fprintf(stderr, "edu-exercise: tb_open: %s\n", tb_error());
    return 3;
  }
  Driver driver(device, options.keepGoing);
  unsigned long long done = 0;
  Gaps gaps;
  if (driver.start(options.plan.kinds & parseKinds("dma")))
    for (const PlanOperation &operation : makePlan(options.plan)) {
      gaps.operationBegins();
      if (!driver.run(operation))
        break;
      ++done;
    }
  tb_close(device);
  printf("edu-exercise: seed %llu: %llu of %llu operations, %llu wrong\n",
         (unsigned long long)options.plan.seed, done, (unsigned long long)options.plan.count, driver.wrong());
  if (options.gaps)
    gaps.print();
  return driver.targetFailed() ? 3 : driver.wrong() ? 1 : 0;
}
