#include "replayer/WindowDigest.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/Endian.h"

namespace tapeback {

void WindowDigest::add(PacketKind kind, const CanonicalObservation &observation) {
  constexpr size_t entry = 18, limit = entry * 1024;
  if (pending.size() >= limit)
    fold();
  size_t at = pending.size();
  pending.resize(at + entry);
  pending[at] = uint8_t(kind);
  pending[at + 1] = observation.state;
  llvm::support::endian::write64le(&pending[at + 2], observation.value[0]);
  llvm::support::endian::write64le(&pending[at + 10], observation.value[1]);
}

void WindowDigest::fold() {
  llvm::BLAKE3 hasher;
  hasher.update(value);
  hasher.update(pending);
  value = hasher.final<32>();
  pending.clear();
}

const Digest &WindowDigest::endWindow() {
  fold();
  return value;
}

} // namespace tapeback
