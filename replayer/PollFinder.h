// Finds loops of reads that wait for something, in tapes of programs that did not say so.
//
// Reads of one register that follow each other in a thread, nothing else of that thread in between, and whose
// value changes: the program waited for the change. The last change is where it went on; the reads before are
// turns, of which there may be more or fewer on another target. Reads behind the change are reads like
// others.
//
// A loop may look at several registers in turn: up to four, in one order, three times or more. Each of them
// has its own loop then, with its own last change.
//
// What was waited for are the bits that changed, within those that the description lets be polled: those that
// changed once, by the last turn, and stayed. Bits that changed more often, and what changed beside and above
// them, are counts and the like; they are what was waited for only if nothing else changed.
#pragma once

#include "replayer/AccessRules.h"
#include "replayer/TapeSource.h"
#include "llvm/ADT/SmallVector.h"
#include <map>
#include <tuple>

namespace tapeback {

/// What part a read plays.
struct PollRole {
  enum class Kind : uint8_t {
    None, ///< A read like others.
    Turn, ///< Of a loop that goes on.
    Exit, ///< The read by which the loop ended.
  } kind = Kind::None;
  uint64_t mask = 0, value = 0; ///< Exit: went on when (value read & mask) == value.
  uint64_t varied = 0;          ///< Exit: bits that changed anywhere in the loop; they are not compared.
  uint64_t duration = 0;        ///< Exit: how long it took when recorded, in nanoseconds.
};

/// One tape. Refers to the source. Looks ahead on the tape, each packet at most a bounded number of times.
class PollFinder {
public:
  explicit PollFinder(TapeSource &source);

  /// Cheap: if false, the read plays no part in a loop.
  bool mayBe(const PacketBatch &batch, size_t index, const AccessRule &rule) const;
  /// Of a read that came back. Packets must be asked for in the tape's order.
  llvm::Expected<PollRole> roleOf(const PacketBatch &batch, size_t index, const AccessRule &rule);

private:
  /// Reads first to exit are one loop; exit is its last turn's successor. Nothing if exit < first.
  struct Loop {
    uint64_t first = 1, exit = 0;
    PollRole role;
  };
  llvm::Expected<Loop> find(const PacketBatch &batch, size_t index, const AccessRule &rule);
  /// Registers that are read in turn from there on, in their order, each at least three times: 2 to
  /// mostRegisters of them, otherwise none. `next` gives the packets behind this one, null where it has no
  /// more.
  using Registers = llvm::SmallVector<Packet, 4>;
  llvm::Expected<Registers> turnsFrom(const Packet &first,
                                      llvm::function_ref<llvm::Expected<const Packet *>()> next) const;
  bool mayRepeat(const Packet &packet) const;
  llvm::Expected<const Packet *> at(const PacketBatch &batch, uint64_t ordinal, uint64_t total);

  TapeSource &source;
  /// By device, thread and register. Bounded.
  using Key = std::tuple<uint16_t, uint16_t, uint16_t, uint64_t>;
  std::map<Key, Loop> loops;
  uint64_t coveredUntil = 0;              ///< Behind the last packet of any of them.
  mutable std::vector<AccessRules> rules; ///< By device.
  PacketBatch ahead;
};

} // namespace tapeback
