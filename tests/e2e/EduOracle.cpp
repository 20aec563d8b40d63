#include "tests/e2e/EduOracle.h"
#include "format/Failure.h"
#include <algorithm>

namespace tapeback::test {

using edu::PlanKind;
using edu::PlanOperation;

namespace {

bool isDma(const PlanOperation &op) {
  return op.kind == PlanKind::DmaToDevice || op.kind == PlanKind::DmaFromDevice;
}

} // namespace

/// Two buffers side by side: one of a device that works, one of a device that loses the last byte of a
/// transfer that crosses a page. The host fills the target of every transfer from the device with the
/// complement of what it expects, so a byte that does not arrive is always wrong.
std::optional<ExpectedDivergence> observedLastByte(const std::vector<PlanOperation> &plan) {
  std::vector<uint8_t> good(edu::bufferBytes, 0), bad(edu::bufferBytes, 0);
  for (const PlanOperation &op : plan) {
    if (!isDma(op))
      continue;
    size_t arriving = op.data.size() - (op.crossesPage() ? 1 : 0);
    if (op.kind == PlanKind::DmaToDevice) {
      std::copy(op.data.begin(), op.data.end(), good.begin() + op.deviceOffset);
      std::copy(op.data.begin(), op.data.begin() + ptrdiff_t(arriving), bad.begin() + op.deviceOffset);
      continue;
    }
    for (size_t i = 0; i < op.data.size(); ++i) {
      uint8_t received = i < arriving ? bad[op.deviceOffset + i] : uint8_t(~op.data[i]);
      if (received != good[op.deviceOffset + i])
        return ExpectedDivergence{op.index, PacketKind::DmaCompletion, 0, 0, i};
    }
  }
  return std::nullopt;
}

std::optional<HiddenDivergence> hiddenLastByte(const std::vector<PlanOperation> &plan) {
  for (const PlanOperation &op : plan)
    if (op.kind == PlanKind::DmaToDevice && op.crossesPage())
      return HiddenDivergence{op.index, op.deviceOffset + op.data.size() - 1};
  return std::nullopt;
}

std::optional<ExpectedDivergence> observedFactorial(const std::vector<PlanOperation> &plan,
                                                    uint32_t operand) {
  for (const PlanOperation &op : plan)
    if ((op.kind == PlanKind::FactorialPoll || op.kind == PlanKind::FactorialInterrupt) &&
        op.operand == operand)
      return ExpectedDivergence{op.index, PacketKind::RegisterRead, edu::Factorial, 0, 0};
  return std::nullopt;
}

/// The first acknowledgement leaves the cause set: the read after it shows it. Its first wrong byte is the
/// lowest byte of the cause that is not zero.
std::optional<ExpectedDivergence> observedSticky(const std::vector<PlanOperation> &plan) {
  for (const PlanOperation &op : plan) {
    uint32_t cause = op.kind == PlanKind::FactorialInterrupt ? edu::irqFactorialDone
                     : op.kind == PlanKind::RaiseInterrupt   ? op.operand
                     : isDma(op) && op.byInterrupt           ? edu::irqDmaDone
                                                             : 0;
    if (!cause)
      continue;
    uint64_t offset = 0;
    while (!(cause >> (8 * offset) & 0xff))
      ++offset;
    return ExpectedDivergence{op.index, PacketKind::RegisterRead, edu::IrqStatus, 1, offset};
  }
  return std::nullopt;
}

std::optional<ExpectedDivergence> observedLiveness(const std::vector<PlanOperation> &plan, uint64_t after,
                                                   uint64_t fingerprintReads) {
  uint64_t reads = fingerprintReads;
  for (const PlanOperation &op : plan)
    if (op.kind == PlanKind::Liveness && reads++ == after)
      return ExpectedDivergence{op.index, PacketKind::RegisterRead, edu::Liveness, 0, 0};
  return std::nullopt;
}

/// The second of the two packets that it takes.
std::optional<ExpectedDivergence> observedPair(const std::vector<PlanOperation> &plan) {
  auto first = std::find_if(plan.begin(), plan.end(),
                            [](const PlanOperation &op) { return isDma(op) && op.crossesPage(); });
  return observedFactorial({first, plan.end()}, 7);
}

/// What a transfer is to fill is filled with something else before, so that the first that is late is seen.
std::optional<ExpectedDivergence> observedEarly(const std::vector<PlanOperation> &plan) {
  for (const PlanOperation &op : plan)
    if (op.kind == PlanKind::DmaFromDevice)
      return ExpectedDivergence{op.index, PacketKind::DmaCompletion, 0, 0, 0};
  return std::nullopt;
}

llvm::Expected<OperationPackets> packetsOfOperation(TapeReader &tape, uint64_t operation) {
  OperationPackets result;
  uint64_t markers = 0;
  PacketBatch batch;
  for (uint64_t at = 0; at < tape.summary().packets; at += batch.packets.size()) {
    if (llvm::Error error = tape.readBlockFrom(at, batch))
      return error;
    for (size_t i = 0; i < batch.packets.size(); ++i) {
      if (batch.packets[i].kind != PacketKind::Marker)
        continue;
      if (markers == operation)
        result.first = at + i;
      if (markers++ == operation + 1) {
        result.end = at + i;
        return result;
      }
    }
  }
  if (markers <= operation)
    return failUsage("test", "the tape has no operation " + std::to_string(operation));
  result.end = tape.summary().packets;
  return result;
}

llvm::Expected<uint64_t> packetOf(TapeReader &tape, const ExpectedDivergence &expected) {
  llvm::Expected<OperationPackets> range = packetsOfOperation(tape, expected.operation);
  if (!range)
    return range.takeError();
  PacketBatch batch;
  if (llvm::Error error = tape.readPackets(range->first, range->end - range->first, batch))
    return error;
  unsigned seen = 0;
  for (size_t i = 0; i < batch.packets.size(); ++i) {
    const Packet &packet = batch.packets[i];
    bool same = packet.kind == expected.kind &&
                (packet.kind == PacketKind::DmaCompletion || packet.address == expected.address);
    if (same && seen++ == expected.nth)
      return range->first + i;
  }
  return failUsage("test", "the operation has no such packet");
}

} // namespace tapeback::test
