// Host addresses in two registers.
#pragma once

#include "hal/description/Description.h"
#include <optional>

namespace tapeback {

/// The register with the upper half of the address that begins in this one: of class address-high, directly
/// behind one of fewer than 8 bytes. None: all of the address is in this one.
inline std::optional<unsigned> upperHalfOf(const Description &description, unsigned low) {
  const RegisterDescription &reg = description.registers[low];
  if (reg.width >= 8 || reg.cls == RegisterClass::AddressHigh)
    return std::nullopt;
  const RegisterDescription *high = description.find(reg.space, reg.offset + reg.width);
  if (!high || high->cls != RegisterClass::AddressHigh || high->offset != reg.offset + reg.width)
    return std::nullopt;
  return description.indexOf(*high);
}

} // namespace tapeback
