// How far a device's queues are by the tape's account: what it takes to tell that a target is "at least as
// far" as the recorded device was.
//
// A target may be faster than the recorded one. What a program saw of a queue's progress (head, entries done,
// a fence's value) is then passed before the replay looks; what counts is that it was reached.
#pragma once

#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include <deque>
#include <map>

namespace tapeback {

/// A register that tells how far a queue is.
struct ProgressRegister {
  unsigned queue = 0;
  bool done = false; ///< The count of completed entries; otherwise the head.
};

/// One device. Told of everything that is issued, in the tape's order. Pure and bounded.
class QueueFollower {
public:
  /// `description` may be null; it must outlive this.
  explicit QueueFollower(const Description *description);

  /// The register as a whole was written.
  void written(unsigned reg, uint64_t value);
  /// An entry was put into queue `queue`; empty if it is not known.
  void submitted(uint64_t queue, llvm::ArrayRef<uint8_t> entry);
  void reset();
  /// No doorbell has rung since the last entry: the transfers told now are its own.
  bool isInEntry() const { return inEntry; }

  /// The register if it tells of progress.
  std::optional<ProgressRegister> find(unsigned reg) const;
  /// Whether a queue whose register reads `now` is at least where it was when it read `recorded`.
  bool isAsFar(ProgressRegister reg, uint64_t recorded, uint64_t now) const;
  /// Whether `value`, found at `address`, is that of a fence which the same queue passes only behind one
  /// whose value meets the condition.
  bool isBehindFence(uint64_t address, unsigned width, uint64_t mask, uint64_t expected,
                     uint64_t value) const;

private:
  struct Queue {
    uint64_t size = 0, tail = 0; ///< As last written; size 0: not known.
    uint64_t submitted = 0;      ///< Since the ring was empty at its start.
  };
  struct Fence {
    uint64_t queue, value;
  };
  const Description *description;
  std::vector<Queue> queues;
  std::map<uint64_t, std::deque<Fence>> fences; ///< By address, oldest first.
  bool inEntry = false;
};

} // namespace tapeback
