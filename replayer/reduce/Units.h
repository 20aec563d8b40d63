// What goes together when a tape is made smaller: candidates that leave out whole units are mostly valid.
#pragma once

#include "replayer/reduce/Candidate.h"

namespace tapeback {

/// Packets that are left out together.
using Unit = std::vector<uint32_t>;

/// One for each span at that depth (0: those in no other of their thread), with all packets that came between
/// its ends. Empty: there are none.
std::vector<Unit> spanUnits(const TapeImage &image, unsigned depth);
std::vector<Unit> windowUnits(const TapeImage &image);
/// A command with all that is only there because of it: its transfers and their completions, the waits for
/// its fence, and the register writes before it whose values no other command can have seen. Everything else
/// stands alone.
std::vector<Unit> commandUnits(const TapeImage &image, const Selection &selection);
/// Packets that only tell or look, and ask nothing of the device: one each. Not the failing one, nor what
/// that is about.
std::vector<Unit> passiveUnits(const TapeImage &image, const Selection &selection, uint32_t failing);
std::vector<Unit> packetUnits(const TapeImage &image, const Selection &selection);

} // namespace tapeback
