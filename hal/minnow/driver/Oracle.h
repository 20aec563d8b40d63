// What each layer must give, computed plainly on the host: loops over the definition, no tiles, no device.
// Written from hal/minnow/SPEC.md's words on REQUANT and VADD8; shares no code with the lowering or the
// model.
#pragma once

#include "hal/minnow/driver/Network.h"

namespace tapeback::minnow {

struct LayerParameters;

/// Height × width × channels, without border.
using Activation = std::vector<int8_t>;

/// The 32-bit sums of a layer, before they are requantised (not for Add).
std::vector<int32_t> sumsOf(const Network &network, const Layer &layer, const LayerParameters &parameters,
                            const Activation &input);
/// REQUANT of all sums.
Activation requantised(const std::vector<int32_t> &sums, const LayerParameters &parameters, bool relu);
/// The layer's output; `second` is used by Add only.
Activation outputOf(const Network &network, const Layer &layer, const LayerParameters &parameters,
                    const Activation &input, const Activation &second);

} // namespace tapeback::minnow
