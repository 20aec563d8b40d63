// Rings in which a device says what it has completed, of a part of a tape: fewer completions, in other
// places.
#pragma once

#include "replayer/reduce/TapeImage.h"
#include <map>

namespace tapeback {

/// Where the completions of those packets that are kept come, and what the host says when it hands their
/// places back. Refers to the image.
class Completions {
public:
  /// Errors: the tape's.
  static llvm::Expected<Completions> of(const TapeImage &image, const std::vector<bool> &kept);

  /// A CommandDone, or what looks at its place: as it is in the part. `content`: the CommandDone's, whose
  /// phase is another; empty of others.
  void move(uint32_t packet, Packet &moved, PacketExtra &extra, std::vector<uint8_t> &content) const;
  /// A write that hands places back: what it says. False: nothing that had not been said before.
  bool release(uint32_t packet, Packet &written) const;

private:
  struct Ring {
    uint64_t size = 0;
    uint64_t onTape = 0;                ///< Completions so far.
    std::vector<uint64_t> inPart = {0}; ///< By completions on the tape: so many in the part.
    uint64_t saidOnTape = 0, saidInPart = 0;
    void begin(bool kept);
  };
  struct Release {
    uint64_t head;
    bool isNew;
  };
  explicit Completions(const TapeImage &image) : image(image) {}
  llvm::Error follow(uint32_t packet, bool kept);
  llvm::Error created(const Packet &packet, const PacketExtra &extra, bool kept);
  void released(uint32_t packet);

  const TapeImage &image;
  std::map<std::pair<uint16_t, uint64_t>, Ring> rings; ///< By device and base.
  std::map<uint32_t, uint64_t> numbers;                ///< By CommandDone: its number in the ring.
  std::map<uint32_t, Release> releases;
};

} // namespace tapeback
