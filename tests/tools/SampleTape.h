// A small tape with one of everything, written through the public writer, for tests of the command.
#pragma once

#include "format/Records.h"
#include <string>

namespace tapeback::test {

struct SampleOptions {
  unsigned operations = 3;  ///< Windows "op" with a handful of packets each.
  bool description = true;  ///< The device carries edu's description.
  bool failing = true;      ///< The last operation's check fails.
  bool loss = false;        ///< A Loss packet of 12 in the middle.
  bool unknownKind = false; ///< A packet of a kind that this version does not know.
};

/// Packet ordinals of operation i (from 0): marker, write, read, poll, memory write, descriptor, completion,
/// interrupt, oracle. Before them: open and memory map; after them: a pending read on thread 1, close.
constexpr uint64_t sampleHead = 2, samplePerOperation = 9;
constexpr uint64_t samplePacket(uint64_t operation, uint64_t step) {
  return sampleHead + operation * samplePerOperation + step;
}

/// Writes it; throws std::runtime_error if the writer refuses. Returns what finish() said.
TapeSummary writeSampleTape(const std::string &path, const SampleOptions &options = {});

} // namespace tapeback::test
