// What a plugin says of itself, as it came through the channel and was checked.
#pragma once

#include "hal/TargetTypes.h"
#include "hal/model/HostProtocol.h"
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

struct ModelTable {
  uint16_t abiMajor = 0, abiMinor = 0;
  uint32_t capabilities = 0; ///< TAPEBACK_MODEL_CAP_*.
  uint32_t vectors = 0, counters = 0;
  std::string name;
  std::map<std::string, std::string> facts;
  std::vector<TargetSpace> spaces;
  struct Window {
    std::string name;
    uint64_t size = 0;
  };
  std::vector<Window> windows;

  TargetCapabilities targetCapabilities(unsigned maxSnapshots) const;
};

/// Nothing if the reply's body is not exactly a table within the protocol's bounds.
std::optional<ModelTable> parseModelTable(modelhost::WireReader &body);

} // namespace tapeback
