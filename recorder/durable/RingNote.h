// What a recording leaves beside its ring, so that the ring can be recovered: the file "session" in the
// ring's private folder.
#pragma once

#include "recorder/Collector.h"
#include <string>
#include <vector>

namespace tapeback {

struct RingNote {
  struct Device {
    std::string alias, uri, descriptionName, descriptionText;
    bool opened = false;
    std::vector<std::string> spaces; ///< As the program numbers them.
  };
  std::vector<Device> devices; ///< In the order of the capture table.

  static RingNote of(const std::vector<CollectorDevice> &devices);
  /// The payload of a DeviceOpen record. One that makes no sense is ignored, as the collector does.
  void opened(uint16_t device, llvm::ArrayRef<uint8_t> payload);
  /// Replaces the file at once. One that cannot be written only costs the recovery, not the recording.
  void write(const std::string &ringPath) const;
  static llvm::Expected<RingNote> read(const std::string &ringPath);

  /// The same payload again, without the facts about the device (they are on the tape).
  static std::vector<uint8_t> openPayload(const Device &device);
};

} // namespace tapeback
