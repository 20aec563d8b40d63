// In what order a device may be seen to have done things: exactly in order within a queue, across queues only
// where a barrier or a semaphore says so.
//
// When a run shows something as done (a fence's value, a count of completed entries), all that must be done
// before it is done, too: fences among that have to be in memory by then. Which ones those are is what this
// tells; looking is its user's business.
#pragma once

#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include <deque>
#include <map>
#include <vector>

namespace tapeback {

/// One device. Told of everything in the tape's order. Pure; bounded.
class CompletionOrder {
public:
  /// `description` may be null; it must outlive this.
  explicit CompletionOrder(const Description *description);

  /// An entry was put into queue `queue`; empty if it is not known.
  void submitted(uint64_t queue, llvm::ArrayRef<uint8_t> entry);
  /// The host, or a transfer, wrote there: what fences said there is gone.
  void overwritten(uint64_t address, uint64_t length);
  void reset();

  /// A fence that has to be in memory, or a later one of the same address.
  struct Due {
    unsigned queue = 0;
    uint64_t entry = 0; ///< Since the reset.
    uint64_t address = 0;
    unsigned width = 0;
    std::vector<uint64_t> values; ///< Its own first, then those of later entries with this address.
  };
  /// `value` was seen at `address`: it may be a fence's. What has to be there now, each fence told once.
  std::vector<Due> fenceSeen(uint64_t address, uint64_t value);
  /// The register that counts the completed entries of `queue` reads `count`.
  std::vector<Due> doneSeen(unsigned queue, uint64_t count);

private:
  struct Fence {
    uint64_t entry, address, value;
    unsigned width;
    bool gone = false; ///< Seen, looked at or overwritten.
  };
  struct Wait {
    uint64_t entry, semaphore, number; ///< The number-th wait on it in this queue, from 1.
  };
  struct Queue {
    uint64_t entries = 0; ///< Since the reset.
    uint64_t done = 0;    ///< So many are known to be done.
    uint64_t told = 0;    ///< Fences of so many have been told.
    std::deque<Fence> fences;
    std::deque<uint64_t> barriers;                    ///< Their entries.
    uint64_t firstBarrier = 0;                        ///< Number of barriers[0].
    std::map<uint64_t, std::deque<uint64_t>> signals; ///< By semaphore: entries.
    std::map<uint64_t, uint64_t> forgotten;           ///< Signals that are no longer listed, by semaphore.
    std::deque<Wait> waits;
    std::map<uint64_t, uint64_t> waited; ///< By semaphore: how often.
  };
  void follow();
  bool require(size_t queue, uint64_t done);
  std::vector<Due> collect();

  const Description *description;
  std::vector<Queue> queues;
};

} // namespace tapeback
