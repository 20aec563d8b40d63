#include "hal/edu/driver/Plan.h"
#include <algorithm>

namespace tapeback::edu {

namespace {

/// splitmix64: the standard library's distributions differ between implementations.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In [0, bound); the bias of the remainder is far below anything that matters here.
  uint32_t below(uint32_t bound) { return uint32_t(next() % bound); }
  bool chance(unsigned percent) { return below(100) < percent; }

private:
  uint64_t state;
};

/// The buffer is used in rounds. In the first operations of a round transfers go anywhere; then a few areas
/// at its end are written once and left alone, while the rest goes on being used below them; hundreds of
/// operations later they are read back. What was lost when they were written shows only then.
constexpr uint64_t roundLength = 512, openOperations = 48, archiveWrites = 16, archiveReads = 480;
constexpr uint32_t archiveBase = 3072, archiveBytes = 120, archives = 8;

class Planner {
public:
  explicit Planner(const PlanOptions &options)
      : options(options), random(options.seed), buffer(bufferBytes, 0) {}

  std::vector<PlanOperation> make() {
    std::vector<PlanOperation> plan;
    plan.reserve(options.count);
    for (uint64_t index = 0; index < options.count; ++index) {
      plan.push_back(operation(index));
      plan.back().index = index;
    }
    return plan;
  }

private:
  bool wanted(PlanKind kind) const { return options.kinds & (1u << unsigned(kind)); }

  PlanOperation operation(uint64_t index) {
    uint64_t step = index % roundLength;
    if (step == 0)
      written = 0;
    if (index == 0 && wanted(PlanKind::DmaToDevice))
      return fillBuffer();
    if (step >= openOperations && step < openOperations + archiveWrites && step % 2 == 0 &&
        wanted(PlanKind::DmaToDevice))
      return archive(uint32_t(step - openOperations) / 2, true);
    if (step >= archiveReads && step < archiveReads + archiveWrites && step % 2 == 0 &&
        wanted(PlanKind::DmaFromDevice)) {
      uint32_t slot = uint32_t(step - archiveReads) / 2;
      if (written & (1u << slot))
        return archive(slot, false);
    }
    return ordinary(step >= openOperations && step < archiveReads + archiveWrites);
  }

  /// First of all: silicon's buffer need not be zero, where a reset lies.
  PlanOperation fillBuffer() {
    PlanOperation op;
    op.kind = PlanKind::DmaToDevice;
    finishTransfer(op, bufferBytes);
    return op;
  }

  PlanOperation archive(uint32_t slot, bool toDevice) {
    PlanOperation op;
    op.kind = toDevice ? PlanKind::DmaToDevice : PlanKind::DmaFromDevice;
    op.deviceOffset = archiveBase + slot * archiveBytes;
    uint32_t length = archiveBytes - random.below(8);
    if (toDevice) {
      archiveLength[slot] = length;
      written |= 1u << slot;
    } else {
      length = archiveLength[slot];
    }
    // Written across a page of host memory every other time; read back without.
    uint32_t page = 4096 * (1 + random.below(3));
    op.hostOffset =
        toDevice && slot % 2 == 0 ? page - 1 - random.below(length - 1) : page - 4096 + random.below(2048);
    finishTransfer(op, length);
    return op;
  }

  PlanOperation ordinary(bool keepArchives) {
    PlanOperation op;
    op.kind = pickKind();
    switch (op.kind) {
    case PlanKind::FactorialPoll:
    case PlanKind::FactorialInterrupt:
      // 7 often enough to meet a device that is wrong for it alone.
      op.operand = random.chance(20) ? 7 : random.below(13);
      if (random.chance(10))
        op.operand = 13 + random.below(28);
      op.result = factorial(op.operand);
      break;
    case PlanKind::Liveness:
      op.operand = uint32_t(random.next());
      op.result = ~op.operand;
      break;
    case PlanKind::Ident: op.result = 0x010000ed; break;
    case PlanKind::RaiseInterrupt:
      // Bits other than the device's own causes, which DMA and factorials use.
      op.operand = (uint32_t(random.next()) & 0x7ffffefe) | 0x2;
      break;
    case PlanKind::DmaToDevice:
    case PlanKind::DmaFromDevice: transfer(op, keepArchives); break;
    }
    return op;
  }

  PlanKind pickKind() {
    static constexpr struct {
      PlanKind kind;
      unsigned weight;
    } weights[] = {{PlanKind::FactorialPoll, 12},  {PlanKind::FactorialInterrupt, 10},
                   {PlanKind::Liveness, 22},       {PlanKind::Ident, 4},
                   {PlanKind::RaiseInterrupt, 16}, {PlanKind::DmaToDevice, 20},
                   {PlanKind::DmaFromDevice, 16}};
    unsigned total = 0;
    for (const auto &row : weights)
      total += wanted(row.kind) ? row.weight : 0;
    if (!total)
      return PlanKind::Liveness;
    unsigned pick = random.below(total);
    PlanKind kind = PlanKind::Liveness;
    for (const auto &row : weights) {
      if (!wanted(row.kind))
        continue;
      kind = row.kind;
      if (pick < row.weight)
        break;
      pick -= row.weight;
    }
    return settle(kind);
  }

  /// QEMU's factorial thread clears COMPUTING and then looks whether to raise an interrupt. A driver that
  /// polled and at once switches interrupts on could be overtaken and get one for the old factorial. So
  /// between a polled factorial and one by interrupt lies a DMA (or, without DMA in the plan, there is only
  /// one of the two ways).
  PlanKind settle(PlanKind kind) {
    if (kind == PlanKind::FactorialInterrupt && polled) {
      if (wanted(PlanKind::DmaToDevice))
        kind = PlanKind::DmaToDevice;
      else if (wanted(PlanKind::DmaFromDevice))
        kind = PlanKind::DmaFromDevice;
      else
        kind = PlanKind::FactorialPoll;
    }
    if (kind == PlanKind::FactorialPoll)
      polled = true;
    if (kind == PlanKind::DmaToDevice || kind == PlanKind::DmaFromDevice)
      polled = false;
    return kind;
  }

  void transfer(PlanOperation &op, bool keepArchives) {
    uint32_t area = keepArchives ? archiveBase : bufferBytes;
    uint32_t length = pickLength(area);
    op.deviceOffset = random.chance(25) ? 0 : random.below(area - length + 1);
    uint32_t alignment = 1u << random.below(8);
    op.hostOffset = random.below(hostBytes - length + 1) / alignment * alignment;
    if (length > 1 && random.chance(25)) {
      // Across a 4 KiB boundary, by as little as one byte on either side.
      uint32_t page = 4096 * (1 + random.below(3));
      uint32_t before =
          random.chance(30) ? (random.chance(50) ? 1 : length - 1) : 1 + random.below(length - 1);
      op.hostOffset = std::min(page - before, hostBytes - length);
    }
    finishTransfer(op, length);
  }

  uint32_t pickLength(uint32_t area) {
    switch (random.below(6)) {
    case 0: return 1 + random.below(16);
    case 1: return std::min(area, 1u << random.below(12));
    case 2:
      return area - random.below(3); // All of it, or nearly: 4,095 where the archives are not in the way.
    default: return 1 + random.below(std::min(area, 1024u));
    }
  }

  void finishTransfer(PlanOperation &op, uint32_t length) {
    op.byInterrupt = random.chance(40);
    op.throughApi = random.chance(30);
    op.data.resize(length);
    uint8_t *held = buffer.data() + op.deviceOffset;
    if (op.kind == PlanKind::DmaFromDevice) {
      std::copy(held, held + length, op.data.begin());
      return;
    }
    uint64_t bits = 0;
    for (uint32_t i = 0; i < length; ++i) {
      if (i % 8 == 0)
        bits = random.next();
      uint8_t byte = uint8_t(bits >> (i % 8 * 8));
      // Each byte changes: one that is dropped leaves a difference.
      op.data[i] = byte == held[i] ? uint8_t(byte ^ 0x5a) : byte;
    }
    std::copy(op.data.begin(), op.data.end(), held);
  }

  PlanOptions options;
  Random random;
  std::vector<uint8_t> buffer; ///< What a good device's buffer holds.
  uint32_t archiveLength[archives] = {};
  uint32_t written = 0;
  bool polled = false; ///< A factorial was polled, and no DMA since.
};

PlanStep mark(const char *name) {
  PlanStep step{PlanStep::Kind::Mark};
  step.name = name;
  return step;
}
PlanStep write(uint32_t offset, uint32_t width, uint64_t value, bool addIova = false) {
  PlanStep step{PlanStep::Kind::Write};
  step.offset = offset;
  step.width = width;
  step.value = value;
  step.addIova = addIova;
  return step;
}
PlanStep read(const char *name, uint32_t offset, uint32_t width, uint64_t expected) {
  PlanStep step{PlanStep::Kind::Read};
  step.name = name;
  step.offset = offset;
  step.width = width;
  step.value = expected;
  return step;
}
PlanStep poll(uint32_t offset, uint32_t width, uint64_t mask, uint64_t expected) {
  PlanStep step{PlanStep::Kind::Poll};
  step.offset = offset;
  step.width = width;
  step.mask = mask;
  step.value = expected;
  return step;
}
PlanStep memory(PlanStep::Kind kind, const char *name, uint32_t hostOffset, std::vector<uint8_t> bytes) {
  PlanStep step{kind};
  step.name = name;
  step.hostOffset = hostOffset;
  step.bytes = std::move(bytes);
  return step;
}

/// The interrupt came, so its cause has settled: read it, acknowledge it, and see it gone.
void acknowledge(std::vector<PlanStep> &steps, uint32_t cause) {
  steps.push_back({PlanStep::Kind::WaitInterrupt});
  steps.push_back(read("irq-cause", IrqStatus, 4, cause));
  steps.push_back(write(IrqAck, 4, cause));
  steps.push_back(read("irq-acknowledged", IrqStatus, 4, 0));
}

void transferSteps(std::vector<PlanStep> &steps, const PlanOperation &op) {
  bool fromDevice = op.kind == PlanKind::DmaFromDevice;
  std::vector<uint8_t> fill = op.data;
  if (fromDevice) // Whatever byte the device fails to write is wrong.
    for (uint8_t &byte : fill)
      byte = uint8_t(~byte);
  PlanStep begin{PlanStep::Kind::SpanBegin};
  begin.name = fromDevice ? "dma-from-device" : "dma-to-device";
  steps.push_back(begin);
  steps.push_back(
      memory(op.throughApi ? PlanStep::Kind::FillApi : PlanStep::Kind::Fill, nullptr, op.hostOffset, fill));
  uint64_t deviceAddress = bufferBase + op.deviceOffset;
  steps.push_back(fromDevice ? write(DmaSource, 8, deviceAddress) : write(DmaSource, 8, op.hostOffset, true));
  steps.push_back(fromDevice ? write(DmaTarget, 8, op.hostOffset, true) : write(DmaTarget, 8, deviceAddress));
  steps.push_back(write(DmaCount, 8, op.data.size()));
  steps.push_back(
      write(DmaCommand, 8, dmaRun | (fromDevice ? dmaFromDevice : 0) | (op.byInterrupt ? dmaIrqOnDone : 0)));
  if (op.byInterrupt)
    acknowledge(steps, irqDmaDone);
  else
    steps.push_back(poll(DmaCommand, 8, dmaRun, 0));
  if (fromDevice)
    steps.push_back(memory(PlanStep::Kind::CheckMemory, "dma-content", op.hostOffset, op.data));
  steps.push_back({PlanStep::Kind::SpanEnd});
}

} // namespace

uint32_t factorial(uint32_t n) {
  uint32_t result = 1;
  for (; n > 0; --n)
    result *= n;
  return result;
}

const char *planKindName(PlanKind kind) {
  static const char *const names[planKindCount] = {"factorial-poll", "factorial-interrupt", "liveness",
                                                   "ident",          "raise-interrupt",     "dma-to-device",
                                                   "dma-from-device"};
  return unsigned(kind) < planKindCount ? names[unsigned(kind)] : nullptr;
}

uint32_t parseKinds(const std::string &list) {
  auto bit = [](PlanKind kind) { return 1u << unsigned(kind); };
  uint32_t kinds = 0;
  for (size_t at = 0; at <= list.size();) {
    size_t comma = std::min(list.find(',', at), list.size());
    std::string name = list.substr(at, comma - at);
    uint32_t found = 0;
    for (unsigned kind = 0; kind < planKindCount; ++kind)
      if (name == planKindName(PlanKind(kind)))
        found = bit(PlanKind(kind));
    if (name == "factorial")
      found = bit(PlanKind::FactorialPoll) | bit(PlanKind::FactorialInterrupt);
    if (name == "dma")
      found = bit(PlanKind::DmaToDevice) | bit(PlanKind::DmaFromDevice);
    if (name == "interrupt")
      found = bit(PlanKind::RaiseInterrupt) | bit(PlanKind::FactorialInterrupt);
    if (!found)
      return 0;
    kinds |= found;
    at = comma + 1;
  }
  return kinds;
}

std::vector<PlanOperation> makePlan(const PlanOptions &options) {
  return Planner(options).make();
}

std::vector<PlanStep> stepsOf(const PlanOperation &op) {
  std::vector<PlanStep> steps{mark("op")};
  switch (op.kind) {
  case PlanKind::FactorialPoll:
    steps.push_back(write(Status, 4, 0));
    steps.push_back(write(Factorial, 4, op.operand));
    steps.push_back(poll(Status, 4, statusComputing, 0));
    steps.push_back(read("factorial", Factorial, 4, op.result));
    break;
  case PlanKind::FactorialInterrupt:
    steps.push_back(write(Status, 4, statusIrqOnFactorial));
    steps.push_back(write(Factorial, 4, op.operand));
    acknowledge(steps, irqFactorialDone);
    steps.push_back(read("factorial", Factorial, 4, op.result));
    break;
  case PlanKind::Liveness:
    steps.push_back(write(Liveness, 4, op.operand));
    steps.push_back(read("liveness", Liveness, 4, op.result));
    break;
  case PlanKind::Ident: steps.push_back(read("ident", Ident, 4, op.result)); break;
  case PlanKind::RaiseInterrupt:
    steps.push_back(write(IrqRaise, 4, op.operand));
    acknowledge(steps, op.operand);
    break;
  case PlanKind::DmaToDevice:
  case PlanKind::DmaFromDevice: transferSteps(steps, op); break;
  }
  return steps;
}

} // namespace tapeback::edu
