// What a recovery asks for the end of a tape that lost it.
#pragma once

#include "format/TapeWriter.h"
#include <string>
#include <vector>

namespace tapeback {

/// Somebody who knows of a tape that lost its end what the file does not: asked when everything that the file
/// has is on the new tape. Packets are told with the new tape's numbers, as it has them.
class RecoverTail {
public:
  virtual ~RecoverTail() = default;
  virtual void tookManifest(const Manifest &manifest) = 0;
  virtual void tookDevice(const DeviceRecord &device) = 0;
  virtual void tookSpace(llvm::StringRef name) = 0;   ///< Not of space 0, which all have.
  virtual void tookClock(const TapeClock &clock) = 0; ///< Not of clock 0.
  virtual void took(const Packet &packet, const PacketExtra &extra) = 0;
  struct Result {
    bool whole = false;   ///< Nothing is missing: not before what was appended, nor behind it.
    uint64_t packets = 0; ///< Appended.
    uint64_t lost = 0;    ///< Known to be missing, and on the tape as such; unknownCount: some.
    std::vector<std::string> notes;
  };
  /// Appends what comes next.
  virtual llvm::Expected<Result> append(TapeWriter &writer) = 0;
  /// Behind the loss, if there is one: appends what was issued and never came back. An error is the writer's.
  virtual llvm::Expected<Result> appendPending(TapeWriter &writer) = 0;
};

} // namespace tapeback
