// What a device had been told up to a packet, from the tape alone: marker, commands, who wrote what last.
#pragma once

#include "hal/state/ShadowState.h"
#include "replayer/TapeSource.h"

namespace tapeback {

/// Walks a tape in order, one device. Refers to the source, which must outlive it.
class History {
public:
  /// Everything before packet `packet`. With `contents` the contents of memory and windows are followed too,
  /// which needs every payload; without, only names.
  static llvm::Expected<std::unique_ptr<History>> before(TapeSource &source, uint16_t device, uint64_t packet,
                                                         bool contents);

  /// Goes on up to, and not including, `packet`.
  llvm::Error advanceTo(uint64_t packet);
  const ShadowState &state() const { return shadow; }
  uint64_t next() const { return position; }

private:
  History(TapeSource &source, uint16_t device, bool contents);
  llvm::Error seed(uint16_t device);

  TapeSource &source;
  bool contents;
  ShadowState shadow;
  uint64_t position = 0;
  PacketBatch batch;
};

} // namespace tapeback
