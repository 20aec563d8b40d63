// A part of a tape that is tried as a tape of its own, in memory.
#pragma once

#include "replayer/reduce/TapeImage.h"
#include <map>

namespace tapeback {

/// What is simpler about a packet than on the tape.
struct Change {
  std::optional<uint64_t> value; ///< RegisterWrite: what is written instead.
  /// Of the content the first `rows` rows, of each the first `rowBytes` bytes.
  std::optional<uint64_t> rows, rowBytes;
  std::map<unsigned, uint64_t> fields; ///< Submit: fields of the entry's form, by index.
  /// Bytes of the recorded content that become zero: first, behind the last; in order, apart.
  std::vector<std::pair<uint64_t, uint64_t>> zero;

  /// Any ranges, from < to.
  void addZeroes(llvm::ArrayRef<std::pair<uint64_t, uint64_t>> ranges);
  bool operator==(const Change &) const = default;
};

/// Which packets are kept, and how they are changed.
struct Selection {
  std::vector<bool> kept;             ///< By packet of the image.
  std::map<uint32_t, Change> changes; ///< By packet.
  uint64_t end = ~uint64_t(0);        ///< Nothing from here on.
  bool asTheyAre = false;             ///< Nothing is known of packets: none is moved, changed or left out.
  uint64_t count() const { return uint64_t(std::count(kept.begin(), kept.end(), true)); }
};

/// The selection as a tape: what needs something that is not kept is left out, links are renumbered, entries
/// of queues move up to where the device looks for them, and doorbells say how many there are now.
/// `original[i]` is the image's packet that packet i was. Recorded values are those of the whole tape and
/// mean nothing any more: two targets are compared with each other. What looked at something at rest, and
/// would now look while the device may be at work on it, is left out (Outstanding).
struct Candidate {
  std::vector<Packet> packets;
  std::vector<PacketExtra> extras;
  std::vector<uint32_t> original;
  std::vector<WindowInfo> windows;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>> contents; ///< That the tape does not have.
  /// The host is ahead of the device where it was not on the tape (Outstanding): what happens then says
  /// nothing.
  bool ahead = false;
};
/// Errors: the tape's, where a content that is changed cannot be read. A change that does not fit its packet
/// is not made.
llvm::Expected<Candidate> makeCandidate(const TapeImage &image, const Selection &selection);

/// The candidate as readers see tapes. The image, its source and the candidate must outlive it.
std::unique_ptr<TapeReader> readCandidate(const TapeImage &image, const Candidate &candidate);
llvm::Expected<std::unique_ptr<TapeSource>> sourceOf(const TapeImage &image, const Candidate &candidate);

} // namespace tapeback
