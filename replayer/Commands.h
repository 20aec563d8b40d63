// From packets back to the commands of the queues: which entry a transfer, a doorbell or a fence belongs to.
#pragma once

#include "replayer/TapeSource.h"
#include <optional>

namespace tapeback {

/// The register that a write begins at; null if it is no write, or of none that the description knows.
const RegisterDescription *registerWritten(const TapeSource &source, const Packet &packet);

/// The write, of the whole register, that hands entries of a queue over. Its queue, or nothing.
std::optional<unsigned> doorbellQueue(const TapeSource &source, const Packet &packet);

/// Hands the device something to do: an entry of a queue, a doorbell, or the write that starts an activity.
bool isCommand(const TapeSource &source, const Packet &packet);

/// Resets its device: a Reset, or the write of a register that the description says does.
bool isReset(const TapeSource &source, const Packet &packet);

/// The Submit that a DmaDescriptor without activity belongs to; nothing if the tape does not have it near.
llvm::Expected<std::optional<uint64_t>> submitOfDescriptor(TapeSource &source, uint64_t descriptor);

/// The Submits that this doorbell handed over, in order: those of its queue since the doorbell before it.
llvm::Expected<std::vector<uint64_t>> submitsOfDoorbell(TapeSource &source, uint64_t doorbell);

/// What the packet means in the device's commands: "q0 #12 DMA_STORE host=0x1000 …" of a transfer, its
/// completion, a Submit or the wait for a fence; the commands of a doorbell, the last few of them. Empty if
/// it has nothing to do with a queue.
llvm::Expected<std::string> commandText(TapeSource &source, uint64_t packet);

} // namespace tapeback
