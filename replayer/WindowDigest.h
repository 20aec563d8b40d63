// A digest of everything observed, chained from window to window: equal digests, equal observations so far.
#pragma once

#include "format/Records.h"
#include "replayer/Comparison.h"

namespace tapeback {

/// D[w] = BLAKE3(D[w-1] ‖ canonical observations of window w), D[-1] = 32 zero bytes. Value; one thread.
class WindowDigest {
public:
  void add(PacketKind kind, const CanonicalObservation &observation);
  /// Ends the window and returns its digest.
  const Digest &endWindow();
  const Digest &chain() const { return value; }

private:
  void fold();

  Digest value{};
  std::vector<uint8_t>
      pending; ///< At most a few KiB; then folded, so that windows of any size cost the same memory.
};

} // namespace tapeback
