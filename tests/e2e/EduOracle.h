// Where a fault of the edu model must show, worked out from the exerciser's plan alone: independent of
// recorder, tape, replayer and bisect, which are held to it.
#pragma once

#include "format/Packet.h"
#include "format/TapeReader.h"
#include "hal/edu/driver/Plan.h"
#include <optional>

namespace tapeback::test {

/// The first packet at which the host can see the fault.
struct ExpectedDivergence {
  uint64_t operation = 0; ///< Index in the plan; its marker "op" is occurrence operation + 1.
  PacketKind kind = PacketKind::RegisterRead;
  uint64_t address = 0; ///< Of the register; unused for DmaCompletion.
  unsigned nth = 0;     ///< Which packet of that kind and address within the operation, from 0.
  uint64_t offset = 0;  ///< First wrong byte of the value or content.
};

/// fault=dma-last-byte.
std::optional<ExpectedDivergence> observedLastByte(const std::vector<edu::PlanOperation> &plan);
/// fault=factorial&operand=N.
std::optional<ExpectedDivergence> observedFactorial(const std::vector<edu::PlanOperation> &plan,
                                                    uint32_t operand);
/// fault=irq-sticky.
std::optional<ExpectedDivergence> observedSticky(const std::vector<edu::PlanOperation> &plan);
/// fault=liveness&after=N, where the fingerprint after reset reads LIVENESS `fingerprintReads` times.
std::optional<ExpectedDivergence> observedLiveness(const std::vector<edu::PlanOperation> &plan,
                                                   uint64_t after, uint64_t fingerprintReads);

/// fault=pair.
std::optional<ExpectedDivergence> observedPair(const std::vector<edu::PlanOperation> &plan);
/// fault=early-done.
std::optional<ExpectedDivergence> observedEarly(const std::vector<edu::PlanOperation> &plan);

/// Where dma-last-byte and dma-heals first leave a wrong byte inside the device.
struct HiddenDivergence {
  uint64_t operation = 0;
  uint64_t bufferOffset = 0;
};
std::optional<HiddenDivergence> hiddenLastByte(const std::vector<edu::PlanOperation> &plan);

/// Tape-wide ordinals of the packets of one operation: [first, end).
struct OperationPackets {
  uint64_t first = 0, end = 0;
};
llvm::Expected<OperationPackets> packetsOfOperation(TapeReader &tape, uint64_t operation);
llvm::Expected<uint64_t> packetOf(TapeReader &tape, const ExpectedDivergence &expected);

} // namespace tapeback::test
