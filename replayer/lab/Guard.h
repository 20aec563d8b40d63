// Addresses that this lab does not let a replay touch, whatever the tape says: before any target is touched.
#pragma once

#include "replayer/TapeSource.h"
#include "replayer/lab/LabFile.h"
#include <optional>

namespace tapeback {

/// The first packet of [0, endPacket) that writes into one of the ranges (register writes; for the space
/// "memory" mappings and stores), or a keyframe that restores a register there: Usage failure
/// "forbidden-write" that names it. Ranges whose name is in `allowed` forbid nothing.
llvm::Error refuseForbiddenRanges(TapeSource &source, llvm::ArrayRef<ForbiddenRange> ranges,
                                  llvm::ArrayRef<std::string> allowed, std::optional<uint64_t> endPacket);

} // namespace tapeback
