// Completions in rings that a device writes: which commands a target has finished, in whatever order and
// wherever in the ring it says so.
//
// The recorded device finished commands in an order of its own. What counts in a replay is that the command
// of the tape's completion is finished too, and how; another target may say so earlier, later, or in another
// place of the ring.
#pragma once

#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace tapeback {

/// One device. Told of everything in the tape's order, and of every new entry of a ring. Addresses are
/// recorded ones. Pure; bounded (what does not fit is forgotten, and then never found done).
class CommandCompletion {
public:
  /// `description` may be null; it must outlive this.
  explicit CommandCompletion(const Description *description);

  /// Entry number `number` was put into a queue; empty if its content is not known.
  void submitted(uint64_t queue, uint64_t number, llvm::ArrayRef<uint8_t> entry);
  void reset();

  /// Where the next entry of the ring at `base` comes, of `size` entries.
  uint64_t next(uint64_t base, uint64_t size) const;
  /// What is there now. True if it is a new entry: noted, and the ring is one further.
  bool saw(uint64_t base, uint64_t size, llvm::ArrayRef<uint8_t> entry);
  /// Entries of the ring that were seen since it began.
  uint64_t seen(uint64_t base) const;
  /// What the target said of that command, once it has; then it is forgotten.
  const std::vector<uint8_t> *find(uint64_t queue, uint64_t number) const;
  void forget(uint64_t queue, uint64_t number);
  /// The tape's account: one more entry of the ring at `base` was seen. Returns how many.
  uint64_t recorded(uint64_t base) { return ++rings[base].recorded; }

private:
  struct Ring {
    uint64_t head = 0, seen = 0, recorded = 0;
    bool phase = true;
  };
  struct Outstanding {
    uint64_t number, tag;
  };
  static constexpr size_t mostOutstanding = 1 << 16, mostRings = 4096;

  const Description *description;
  std::vector<std::deque<Outstanding>> queues;
  std::map<uint64_t, Ring> rings; ///< By base.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint8_t>> done;
};

} // namespace tapeback
