// A part of a tape that is tried as a tape of its own, in memory.
#pragma once

#include "replayer/reduce/TapeImage.h"
#include <map>

namespace tapeback {

/// Which packets are kept, and contents that replace the tape's.
struct Selection {
  std::vector<bool> kept;                           ///< By packet of the image.
  std::map<uint32_t, std::vector<uint8_t>> content; ///< By packet: its payload instead of the recorded one.
  uint64_t count() const { return uint64_t(std::count(kept.begin(), kept.end(), true)); }
};

/// The selection as a tape: what needs something that is not kept is left out, links are renumbered, entries
/// of queues move up to where the device looks for them, and doorbells say how many there are now.
/// `original[i]` is the image's packet that packet i was. Recorded values are those of the whole tape and
/// mean nothing any more: two targets are compared with each other.
struct Candidate {
  std::vector<Packet> packets;
  std::vector<PacketExtra> extras;
  std::vector<uint32_t> original;
  std::vector<WindowInfo> windows;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>> contents; ///< That the tape does not have.
};
Candidate makeCandidate(const TapeImage &image, const Selection &selection);

/// The candidate as readers see tapes. The image, its source and the candidate must outlive it.
std::unique_ptr<TapeReader> readCandidate(const TapeImage &image, const Candidate &candidate);

} // namespace tapeback
