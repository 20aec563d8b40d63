#include "tests/hal/minnow/compare/Lockstep.h"
#include "format/Failure.h"
#include "hal/minnow/driver/StressRandom.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tapeback::test {

using stress::StressStep;
using Kind = StressStep::Kind;

namespace {

constexpr uint64_t arenaIova = 0x20000000;
/// How many looks, and the device time between two of them: short at first, then longer. Two seconds in all.
constexpr unsigned mostPolls = 12000, shortPolls = 2000;
constexpr uint64_t deadlineNs = 2'000'000'000;
uint64_t pollNs(unsigned look) {
  return look < shortPolls ? 5000 : deadlineNs / (mostPolls - shortPolls);
}

/// By how much the timestamp may seem to gain or lose in a whole program: it was read some accesses before
/// the target's time.
constexpr int64_t mostTimeOff = 1000;

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

struct Side {
  std::string uri;
  std::unique_ptr<Target> target;
  MemoryRegion memory;
  std::string failed;    ///< The target's own failure.
  uint64_t messages = 0; ///< Interrupts taken.
  std::optional<int64_t> firstOff;

  bool open() {
    llvm::Expected<std::unique_ptr<Target>> opened = openTarget(uri);
    if (!opened)
      return fail(opened.takeError());
    target = std::move(*opened);
    MapRequest request;
    request.size = stress::arenaBytes;
    request.iova = arenaIova;
    llvm::Expected<MemoryRegion> mapped = target->map(request);
    if (!mapped)
      return fail(mapped.takeError());
    memory = *mapped;
    return true;
  }
  bool fail(llvm::Error error) {
    Failure failure = toFailure(std::move(error));
    failed = failure.code + ": " + failure.message + " (" + failure.where + ")";
    return false;
  }
  uint32_t read(uint32_t offset) {
    llvm::Expected<uint64_t> value = target->read(0, offset, 4);
    if (!value)
      return fail(value.takeError()), 0;
    return uint32_t(*value);
  }
  void check(llvm::Error error) {
    if (error)
      fail(std::move(error));
  }
  uint64_t word(uint32_t at) const {
    uint64_t value;
    std::memcpy(&value, memory.host + at, 8);
    return value;
  }

  /// Takes what interrupts there are.
  void drain() {
    llvm::Expected<InterruptResult> result = target->waitInterrupt(0, 0);
    if (!result)
      fail(result.takeError());
    else if (result->fired)
      messages += result->count;
  }

  /// How far the device's timestamp (40 ns a tick) has moved against the time that the target tells, since
  /// this was first asked.
  int64_t timeOff() {
    uint64_t ticks = read(MINNOW_TIME_LO);
    ticks |= uint64_t(read(MINNOW_TIME_HI)) << 32;
    llvm::Expected<uint64_t> now = target->deviceTime();
    if (!now)
      return fail(now.takeError()), 0;
    int64_t off = int64_t(*now - ticks * 40);
    if (!firstOff)
      firstOff = off;
    return std::abs(off - *firstOff);
  }

  /// The answer of a step that has one: a value, or whether it came before the deadline.
  uint64_t act(const StressStep &step) {
    switch (step.kind) {
    case Kind::Mark:
    case Kind::CheckMemory:
    case Kind::Quiet: return 0;
    case Kind::Write: check(target->write(0, step.offset, 4, step.value)); return 0;
    case Kind::Reset: check(target->reset(ResetKind::Default)); return 0;
    case Kind::Read: return read(step.offset);
    case Kind::Fill:
    case Kind::FillApi:
      std::memcpy(memory.host + step.memory, step.bytes.data(), step.bytes.size());
      return 0;
    case Kind::Poll:
      for (unsigned i = 0; i < mostPolls && failed.empty(); ++i) {
        if ((read(step.offset) & step.mask) == step.value)
          return 1;
        check(target->advance(pollNs(i)));
      }
      return 0;
    case Kind::AwaitMemory:
      for (unsigned i = 0; i < mostPolls && failed.empty(); ++i) {
        if (word(step.memory) == step.value)
          return 1;
        // Often at first: what a fence has overtaken comes soon.
        check(target->advance(i < 100 ? 500 : pollNs(i)));
      }
      return 0;
    case Kind::AwaitInterrupt: {
      llvm::Expected<InterruptResult> result = target->waitInterrupt(0, deadlineNs);
      if (!result)
        return fail(result.takeError()), 0;
      messages += result->count;
      return result->fired;
    }
    }
    return 0;
  }
};

class Lockstep {
public:
  explicit Lockstep(const LockstepOptions &options) : options(options) {
    sides[0].uri = options.first;
    sides[1].uri = options.second;
    this->options.plan.arena = arenaIova;
  }

  LockstepOutcome run() {
    for (Side &side : sides)
      if (!side.open())
        return differ(side.uri + ": " + side.failed), outcome;
    stress::StressPlan plan(options.plan);
    for (;;) {
      std::vector<StressStep> steps = plan.next();
      outcome.commands = plan.submitted();
      if (steps.empty())
        return outcome;
      ++outcome.rounds;
      for (unsigned i = 0; outcome.rounds == 2 && options.plant && i < 2; ++i)
        if (*options.plant == i || *options.plant == 2)
          sides[i].memory.host[stress::arenaBytes - 8 * 4096 + 77] ^= 0x10;
      for (const StressStep &step : steps) {
        ++outcome.steps;
        if (!carryOut(step, plan.evaluation()))
          return outcome;
      }
    }
  }

private:
  bool differ(const std::string &what) {
    outcome.difference = "round " + std::to_string(outcome.rounds) + " (" + round + "), step " +
                         std::to_string(outcome.steps) + ": " + what;
    return false;
  }
  bool three(const std::string &what, uint64_t first, uint64_t second, uint64_t manual) {
    ++outcome.comparisons;
    if (first == second && first == manual)
      return true;
    return differ(what + ": first " + hex(first) + ", second " + hex(second) + ", plan " + hex(manual));
  }

  bool carryOut(const StressStep &step, const stress::Evaluation &evaluation) {
    if (step.kind == Kind::Mark)
      round = step.name;
    if (options.verbose)
      print(step);
    uint64_t answers[2];
    for (unsigned i = 0; i < 2; ++i) {
      answers[i] = sides[i].act(step);
      if (!sides[i].failed.empty())
        return differ(sides[i].uri + ": " + sides[i].failed);
    }
    std::string where = std::string(step.name) + " at register " + hex(step.offset);
    switch (step.kind) {
    case Kind::Read: return three(where, answers[0], answers[1], step.value);
    case Kind::Poll:
      return three("within the deadline: " + where + " & " + hex(step.mask) + " = " + hex(step.value),
                   answers[0], answers[1], 1);
    case Kind::AwaitMemory:
      return three("within the deadline: memory " + hex(step.memory), answers[0], answers[1], 1);
    case Kind::AwaitInterrupt: return three("within the deadline: interrupt", answers[0], answers[1], 1);
    case Kind::CheckMemory: return memories(step);
    case Kind::Quiet: return quiet(step, evaluation);
    default: return true;
    }
  }

  bool memories(const StressStep &step) {
    for (uint32_t i = 0; i < step.bytes.size(); ++i)
      if (!three("memory " + hex(step.memory + i), sides[0].memory.host[step.memory + i],
                 sides[1].memory.host[step.memory + i], step.bytes[i]))
        return false;
    return true;
  }

  /// Two contents, and what the plan says, if it still knows more than a digest.
  bool contents(const char *what, const uint8_t *first, const uint8_t *second, const uint8_t *planned,
                size_t size, uint64_t digest) {
    outcome.comparisons += size;
    bool same = std::memcmp(first, second, size) == 0;
    if (same && stress::digestOf(first, size) == digest)
      return true;
    bool known = stress::digestOf(planned, size) == digest;
    for (size_t i = 0; i < size; ++i)
      if (first[i] != second[i] || (known && first[i] != planned[i]))
        return differ(std::string(what) + " at " + hex(i) + ": first " + hex(first[i]) + ", second " +
                      hex(second[i]) + ", plan " + (known ? hex(planned[i]) : "unknown"));
    return differ(std::string(what) + ": both differ from the plan");
  }

  bool quiet(const StressStep &step, const stress::Evaluation &evaluation) {
    std::vector<uint8_t> scratchpads[2];
    for (unsigned i = 0; i < 2; ++i) {
      scratchpads[i].resize(MINNOW_SCRATCHPAD_SIZE);
      sides[i].check(sides[i].target->peek("scratchpad", 0, scratchpads[i]));
      if (!sides[i].failed.empty())
        return differ(sides[i].uri + ": " + sides[i].failed);
    }
    if (!contents("scratchpad", scratchpads[0].data(), scratchpads[1].data(), evaluation.scratchpad.data(),
                  MINNOW_SCRATCHPAD_SIZE, step.scratchpadDigest) ||
        !contents("host memory", sides[0].memory.host, sides[1].memory.host, evaluation.memory.data(),
                  stress::arenaBytes, step.memoryDigest))
      return false;
    for (unsigned id : stress::exactCounters) {
      uint64_t values[2];
      for (unsigned i = 0; i < 2; ++i) {
        llvm::Expected<uint64_t> value = sides[i].target->counter(id);
        if (!value)
          return sides[i].fail(value.takeError()), differ(sides[i].uri + ": " + sides[i].failed);
        values[i] = *value;
      }
      if (!three("counter " + std::to_string(id), values[0], values[1], step.exact.of(id)))
        return false;
    }
    for (Side &side : sides) {
      if (side.timeOff() > mostTimeOff)
        return differ(side.uri + ": the timestamp is not at 25 MHz");
      side.drain();
      if (!side.failed.empty())
        return differ(side.uri + ": " + side.failed);
    }
    return three("interrupt messages", sides[0].messages, sides[1].messages, sides[1].messages);
  }

  void print(const StressStep &step) {
    static const char *const kinds[] = {"mark",   "write",     "read",      "poll",  "fill", "fill-api",
                                        "memory", "interrupt", "check-mem", "reset", "quiet"};
    std::printf("%6llu %-9s %-24s offset %03x value %llx mask %llx memory %05x bytes %zu\n",
                static_cast<unsigned long long>(outcome.steps), kinds[unsigned(step.kind)], step.name,
                step.offset, static_cast<unsigned long long>(step.value),
                static_cast<unsigned long long>(step.mask), step.memory, step.bytes.size());
    bool isRing = (step.kind == Kind::Fill || step.kind == Kind::FillApi) && step.bytes.size() % 64 == 0 &&
                  step.memory < 0x8000;
    for (size_t at = 0; isRing && at < step.bytes.size(); at += 64) {
      minnow_command command;
      std::memcpy(&command, step.bytes.data() + at, sizeof command);
      std::printf("         %s\n", stress::describe(command).c_str());
    }
  }

public:
  /// Registers that tell of time are left out, and ENABLE, so that nothing runs.
  LockstepOutcome registers(uint64_t seed, unsigned accesses) {
    round = "registers";
    for (Side &side : sides)
      if (!side.open())
        return differ(side.uri + ": " + side.failed), outcome;
    stress::Random random(seed);
    for (unsigned i = 0; i < accesses; ++i, ++outcome.steps) {
      StressStep step;
      step.name = "random register";
      step.kind = random.chance(50) ? Kind::Write : Kind::Read;
      step.offset = 4 * (random.chance(80) ? random.below(0x70) : random.below(MINNOW_BAR_SIZE / 4));
      step.value = random.chance(50) ? uint32_t(random.next())
                   : random.below(2) ? random.below(16)
                                     : 1u << random.below(12);
      if (step.offset == MINNOW_TIME_LO || step.offset == MINNOW_TIME_HI)
        continue;
      bool reset = false;
      if (step.kind == Kind::Write && step.offset == MINNOW_CONTROL) {
        step.value &= ~uint64_t(MINNOW_CONTROL_ENABLE);
        reset = step.value & MINNOW_CONTROL_SOFT_RESET;
      }
      uint64_t answers[2] = {sides[0].act(step), sides[1].act(step)};
      if (step.kind == Kind::Read &&
          !three("register " + hex(step.offset), answers[0], answers[1], answers[1]))
        break;
      if (!reset)
        continue;
      step.kind = Kind::Poll;
      step.offset = MINNOW_STATUS;
      step.mask = MINNOW_STATUS_RESETTING;
      step.value = 0;
      if (!three("reset", sides[0].act(step), sides[1].act(step), 1))
        break;
    }
    for (Side &side : sides)
      if (!side.failed.empty())
        differ(side.uri + ": " + side.failed);
    return outcome;
  }

private:
  LockstepOptions options;
  Side sides[2];
  LockstepOutcome outcome;
  std::string round;
};

} // namespace

LockstepOutcome runLockstep(const LockstepOptions &options) {
  return Lockstep(options).run();
}

LockstepOutcome runRegisters(const std::string &first, const std::string &second, uint64_t seed,
                             unsigned accesses) {
  LockstepOptions options;
  options.first = first;
  options.second = second;
  return Lockstep(options).registers(seed, accesses);
}

std::string rtlFor(uint64_t seed) {
  static constexpr unsigned latencies[] = {8, 1, 40, 8, 2, 100, 16, 256}, jitters[] = {0, 16, 64, 3, 256};
  return "rtl:minnow?latency=" + std::to_string(latencies[seed % 8]) +
         "&jitter=" + std::to_string(jitters[seed % 5]) + "&seed=" + std::to_string(seed);
}

std::string modelFor(uint64_t seed) {
  static constexpr unsigned latencies[] = {40, 0, 400, 7, 3000};
  return "model:minnow?memory-latency=" + std::to_string(latencies[seed % 5]) +
         "&jitter=" + std::to_string(seed % 3 ? seed : 0);
}

} // namespace tapeback::test
