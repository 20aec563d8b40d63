// What edu-exercise does: a list of operations on QEMU's edu device, decided by a seed and nothing else.
//
// The same plan gives the same packets and values on QEMU, on the model and on a target that works, so no
// operation reads a register that the device may be changing. A test that knows the seed knows every
// operation, every byte, and so which operation, packet and byte a given fault hits first. Pure: no device,
// no clock, no files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tapeback::edu {

/// Registers of bar0, from QEMU's docs/specs/edu.
enum Register : uint32_t {
  Ident = 0x00,
  Liveness = 0x04,
  Factorial = 0x08,
  Status = 0x20,
  IrqStatus = 0x24,
  IrqRaise = 0x60,
  IrqAck = 0x64,
  DmaSource = 0x80,
  DmaTarget = 0x88,
  DmaCount = 0x90,
  DmaCommand = 0x98,
};
constexpr uint32_t statusComputing = 0x1, statusIrqOnFactorial = 0x80;
constexpr uint32_t irqFactorialDone = 0x1, irqDmaDone = 0x100;
constexpr uint64_t dmaRun = 0x1, dmaFromDevice = 0x2, dmaIrqOnDone = 0x4;
/// The device's buffer, in its own addresses; its last byte cannot be reached (QEMU's range check).
constexpr uint64_t bufferBase = 0x40000;
constexpr uint32_t bufferBytes = 4095;
/// The driver's allocation: four pages, so that a transfer can cross a 4 KiB boundary of host memory.
constexpr uint32_t hostBytes = 4 * 4096;

enum class PlanKind : uint8_t {
  FactorialPoll,      ///< FACTORIAL by polling STATUS.
  FactorialInterrupt, ///< FACTORIAL by interrupt.
  Liveness,           ///< Write a word, read its complement.
  Ident,              ///< Read the identity.
  RaiseInterrupt,     ///< IRQ_RAISE, wait, read the cause, acknowledge, read again.
  DmaToDevice,        ///< Memory to buffer.
  DmaFromDevice,      ///< Buffer to memory, checked.
};
constexpr unsigned planKindCount = 7;
const char *planKindName(PlanKind kind);

struct PlanOperation {
  uint64_t index = 0; ///< Its marker "op" is occurrence index + 1.
  PlanKind kind = PlanKind::Liveness;
  uint32_t operand = 0;      ///< Factorial's operand, the liveness word, the bits to raise.
  uint32_t result = 0;       ///< What a good device answers (factorial, liveness, identity).
  bool byInterrupt = false;  ///< DMA: wait for the interrupt instead of polling.
  bool throughApi = false;   ///< DMA: fill memory by tb_mem_write instead of by stores.
  uint32_t hostOffset = 0;   ///< In the driver's allocation.
  uint32_t deviceOffset = 0; ///< In the device's buffer.
  /// To device: the bytes sent, each different from what the buffer holds there. From device: the bytes a
  /// good device sends. Its size is the transfer's length.
  std::vector<uint8_t> data;

  /// True if a DMA's host range crosses a 4 KiB boundary.
  bool crossesPage() const {
    return !data.empty() && hostOffset / 4096 != (hostOffset + uint32_t(data.size()) - 1) / 4096;
  }
};

struct PlanOptions {
  uint64_t seed = 1;
  uint64_t count = 100;
  uint32_t kinds = (1u << planKindCount) - 1; ///< Bit per PlanKind.
};

/// One call of the C API. The driver executes these and nothing else, so a test can count packets.
struct PlanStep {
  enum class Kind : uint8_t {
    Mark,      ///< tb_mark(name).
    SpanBegin, ///< tb_span_begin(name).
    SpanEnd,   ///< The innermost open one.
    Write,     ///< tb_write{32,64}(offset, value).
    Read,      ///< tb_read{32,64}(offset), then tb_check_equal(name, value, read).
    Poll,      ///< tb_poll(offset, mask, value).
    WaitInterrupt,
    Fill,        ///< Store `bytes` at hostOffset through the pointer: no packet by itself.
    FillApi,     ///< tb_mem_write of `bytes` at hostOffset.
    CheckMemory, ///< tb_check_memory(name, bytes at hostOffset).
  } kind = Kind::Mark;
  const char *name = nullptr;
  uint32_t offset = 0;
  uint32_t width = 0;
  uint64_t value = 0, mask = 0;
  bool addIova = false; ///< Write: add the allocation's IOVA to value.
  uint32_t hostOffset = 0;
  std::vector<uint8_t> bytes = {};
};

/// The operations in order. Deterministic in `options` alone, on every machine.
std::vector<PlanOperation> makePlan(const PlanOptions &options);
/// The steps of one operation.
std::vector<PlanStep> stepsOf(const PlanOperation &operation);

/// n! modulo 2^32, as the device computes it.
uint32_t factorial(uint32_t n);

/// "factorial-poll,dma-to-device" → bits of PlanOptions::kinds; 0 if a name is unknown or the list empty.
/// Also the groups "factorial", "dma", "interrupt".
uint32_t parseKinds(const std::string &list);

} // namespace tapeback::edu
