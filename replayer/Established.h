// Whether a range of packets stands on its own: what it reads before it writes, a restored keyframe must
// provide.
#pragma once

#include "replayer/TapeSource.h"

namespace tapeback {

/// Looks through packets [from, to) of a device, as they would be replayed on a keyframe taken before `from`.
/// Returns a sentence that names the first thing read that neither the range nor the restore recipe
/// establishes; nothing if there is none.
llvm::Expected<std::optional<std::string>> findUnestablished(TapeSource &source, uint16_t device,
                                                             uint64_t from, uint64_t to);

} // namespace tapeback
