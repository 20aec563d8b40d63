// What a replay of a tape needs of its targets, found out before any of them is touched.
#pragma once

#include "replayer/MemoryLayout.h"
#include "replayer/TapeSource.h"
#include <map>

namespace tapeback {

/// By device. The packet is the first that needs it.
struct DeviceNeeds {
  std::map<uint16_t, uint64_t> spaces; ///< Register spaces that are accessed, tape space to packet.
  std::optional<uint64_t> memory;
  RecordedExtent extent; ///< Of all memory that is mapped at any time.
};

/// Reads packets [0, endPacket). What is never re-issued (evidence, bus configuration) needs nothing.
llvm::Expected<std::vector<DeviceNeeds>> findNeeds(TapeSource &source,
                                                   std::optional<uint64_t> endPacket = std::nullopt);

/// A space named "config" of which the description names no register.
bool isBusConfigurationSpace(const Description *description, llvm::StringRef space);

} // namespace tapeback
