// How long the steps take, in nanoseconds. Plausible, deterministic, never 0; results do not depend on them.
#pragma once

#include "hal/minnow/model/Device.h"

namespace minnow {

/// A burst of 64 bytes: a command, a descriptor.
uint64_t burstTime(Device &device);
/// A row of a DMA job.
uint64_t rowTime(Device &device, unsigned q, uint32_t rowBytes);
/// A command that is no DMA command, from its fetch to its end (or until it blocks).
uint64_t commandTime(Device &device, unsigned q, const Command &command);

} // namespace minnow
