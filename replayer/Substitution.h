// Values of this run that a program hands back: flush ids, tags, cookies.
//
// A register of policy `substitute` gives another value each run. Where the program then wrote, or waited
// for, the value that it had read, a replay uses the one that it has read itself. The description says where
// that may be (`flows-into`); a value that was never read there is left as it was recorded.
#pragma once

#include "hal/description/Description.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <deque>
#include <map>

namespace tapeback {

/// One device. Told of everything in the tape's order. Pure; bounded (the last 1,024 values of a register).
class Substitution {
public:
  /// `description` may be null; it must outlive this.
  explicit Substitution(const Description *description);

  /// All of register `reg`, of policy substitute, was read.
  void wasRead(unsigned reg, uint64_t recorded, uint64_t live);
  /// `value`, as recorded for all of register `reg`, with live values in place of recorded ones: those read
  /// last, if there are several.
  uint64_t live(unsigned reg, uint64_t value) const;
  /// The other way round: `value` was read from `reg` where `recorded` had been. Where it has the live value
  /// of what was recorded, the recorded one.
  uint64_t recorded(unsigned reg, uint64_t value, uint64_t recorded) const;
  void reset() { values.clear(); }

  /// Some such value may stand in an entry of that queue.
  bool flowsIntoEntries(uint64_t queue) const { return queue < intoQueue.size() && intoQueue[queue]; }
  /// Puts live values into an entry as it was recorded, and tells of each field that is another now.
  void
  liveEntry(uint64_t queue, llvm::MutableArrayRef<uint8_t> entry,
            llvm::function_ref<void(const EntryField &field, uint64_t recorded, uint64_t live)> each) const;

private:
  struct Pair {
    uint64_t recorded, live;
  };
  const Description *description;
  std::vector<bool> intoQueue;
  std::map<unsigned, std::deque<Pair>> values; ///< By register read, newest first.
};

} // namespace tapeback
