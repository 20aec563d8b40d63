// Whether a command may be carried out at all (SPEC.md, section 6). Pure: no device, no effects.
#pragma once

#include "hal/minnow/model/Command.h"

namespace minnow {

enum class ErrorCode : uint32_t {
  None = 0,
  BadOpcode = 1,
  BadArgument = 2,
  Misaligned = 3,
  OutOfRange = 4,
  BusError = 5,
  ChainTooLong = 6,
  SemaphoreOverflow = 7,
};

/// What is wrong, and the address or value concerned, as ERR_CODE and ERR_ADDR report them.
struct Fault {
  ErrorCode code = ErrorCode::None;
  uint64_t address = 0;

  explicit operator bool() const { return code != ErrorCode::None; }
};

/// The first thing wrong with a command, in the manual's order: opcode; the ranges of its arguments;
/// alignment; operands in the scratchpad. Each in the order in which section 4 lists the words.
Fault check(const Command &command);

/// The same for a chain's descriptor, once it was read.
Fault check(const DmaJob &job);

/// Where a descriptor may lie.
Fault checkDescriptorAddress(uint64_t address);

} // namespace minnow
