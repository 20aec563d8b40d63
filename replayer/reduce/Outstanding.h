// What a device may still be busy with, on the tape and in a part of it: a part in which the host is ahead of
// the device where it was not on the tape depends on which is quicker, and says nothing of what failed.
#pragma once

#include "replayer/reduce/TapeImage.h"
#include <deque>
#include <map>
#include <set>

namespace tapeback {

/// Refers to the image. Told of all packets in the tape's order. Work is outstanding from the packet that
/// hands it over until one that shows it as done: a wait for its fence, its completion, a read of what the
/// description calls done or idle. Where the tape itself breaks a rule, as far as can be seen here, the part
/// may, too: what a semaphore orders is not followed, only that it is still there.
class Outstanding {
public:
  explicit Outstanding(const TapeImage &image) : image(image) {}

  /// `kept`: in the part.
  void add(uint32_t packet, bool kept);
  /// The entry that was added last has overwritten one in the ring that may not have been fetched: more than
  /// size - 1 are outstanding.
  bool overfull(uint32_t submit, uint64_t size) const;
  /// It gives the device something to do, and queues are at work at once that were not on the tape: nothing
  /// that the host waited for, and no command that orders them, is between them any more.
  bool isUnordered(uint32_t packet) const;
  /// False: what this one looks at (a transfer's end, memory, a register) was at rest on the tape, and may
  /// not be in the part.
  bool isSettled(uint32_t packet) const;

private:
  struct Work {
    uint32_t packet;
    bool onTape, inPart; ///< Outstanding there.
    bool gone;           ///< Not in the part at all.
  };
  using Queue = std::pair<uint16_t, uint64_t>; ///< Device; queue or, above all queues, activity.
  struct Incoming {
    uint64_t from, to; ///< Memory.
    uint16_t device;
    uint32_t work;
  };
  static constexpr size_t mostWork = 4096;

  Queue queueOf(uint32_t packet) const;
  void end(std::deque<Work> &queue, const PacketWork &seen, bool kept);
  bool isOpenInPartOnly(uint32_t work) const;

  const TapeImage &image;
  std::map<Queue, std::deque<Work>> queues;
  std::vector<Incoming> incoming; ///< Transfers into memory that are outstanding somewhere.
};

} // namespace tapeback
