// A small tape with one of everything, written through the public writer, for tests of the command.
#pragma once

#include "format/Records.h"
#include <string>

namespace tapeback::test {

struct SampleOptions {
  unsigned operations = 3; ///< Windows "op" with a handful of packets each.
  bool description = true; ///< The device carries edu's description.
  bool failing = true;     ///< The last operation's check fails.
  bool loss = false;       ///< A Loss packet of 12 in the middle.
  bool commands =
      false; ///< Minnow's description instead of edu's, and a window with what a doorbell hands over.
  bool unknownKind = false; ///< A packet of a kind that this version does not know.
};

/// Packet ordinals of operation i (from 0): marker, write, read, poll, memory write, descriptor, completion,
/// interrupt, oracle. Before them: open and memory map; after them: a pending read on thread 1, close.
constexpr uint64_t sampleHead = 2, samplePerOperation = 9;
constexpr uint64_t samplePacket(uint64_t operation, uint64_t step) {
  return sampleHead + operation * samplePerOperation + step;
}

/// With `commands`, after the operations: marker "commands", then for queue 0 a DMA_LOAD with its MemoryWrite
/// and DmaDescriptor in rows, a GEMM, a FENCE, and for queue 1 an entry of opcode 0x7f; the completion of the
/// load, once and again.
constexpr uint64_t sampleCommands(const SampleOptions &options) {
  return samplePacket(options.operations, options.loss ? 1 : 0) + (options.unknownKind ? 1 : 0);
}

/// Writes it; throws std::runtime_error if the writer refuses. Returns what finish() said.
TapeSummary writeSampleTape(const std::string &path, const SampleOptions &options = {});

} // namespace tapeback::test
