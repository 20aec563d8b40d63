// The part of ShadowState that knows what the device is doing: running activities, transfers under way,
// submissions. Inside this folder only.
#pragma once

#include "format/Packet.h"
#include "hal/description/Description.h"
#include "hal/state/RowRange.h"
#include <map>
#include <optional>
#include <set>

namespace tapeback {

/// A transfer the device was told to do and that has not been observed complete.
struct OutstandingTransfer {
  std::optional<unsigned> activity;
  bool toDevice = false;
  RowRange host, device;
  uint64_t length = 0;           ///< In all.
  std::optional<unsigned> queue; ///< Of the Submit that asked for it.
  /// What it moved is not what its payload says, or not in that order: another queue may have come between.
  bool uncertain = false;
  BlobId payload; ///< To the device: what it reads. Empty: not captured.
  uint64_t payloadBytes = 0;
};

class ActivityTracker {
public:
  ActivityTracker(const Description *description, size_t maxOutstanding);

  /// A write of `part` under `mask` to a register whose value is now `whole`. Returns the activities that it
  /// started.
  std::vector<unsigned> written(uint64_t ordinal, unsigned reg, uint64_t mask, uint64_t whole);
  /// A value seen in a register, by read or poll. True if an activity was thereby observed complete,
  /// transfers and all.
  bool seen(unsigned reg, uint64_t mask, uint64_t part);

  /// Whether a write to the register may be a command, and whether that value, read, may end one.
  bool mayStart(unsigned reg) const { return reg < starts.size() && !starts[reg].empty(); }
  bool mayEnd(unsigned reg, uint64_t value) const;
  bool mayEnd(unsigned reg) const { return reg < ends.size() && !ends[reg].empty(); }

  void descriptor(uint64_t ordinal, const OutstandingTransfer &transfer);
  /// The transfer, if it was outstanding; `ended` is set if nothing more is to come after it.
  std::optional<OutstandingTransfer> completed(uint64_t descriptor, bool &ended);
  /// True if a transfer recorded for this very start is outstanding.
  bool hasTransfersOfLastStart(unsigned activity) const;
  /// Whether a transfer from the device into [first, last] is outstanding.
  bool deviceMayWrite(uint64_t first, uint64_t last) const;
  /// A transfer is about to be told. Those of other queues that are under way and may come before or after
  /// it, so that nobody can tell what either brought, become uncertain. True if the new one is, too.
  bool meetsOthers(const OutstandingTransfer &transfer);

  void submitted() { ++submissions; }
  void synchronised() { submissions = 0; } ///< What was submitted is known to be done.

  /// An operation was issued and has not come back.
  void pending(uint64_t ordinal, const Packet &packet);
  std::optional<Packet> cameBack(uint64_t ordinal);

  void reset();
  void lost(uint64_t ordinal); ///< From here on any activity may be running.

  bool idle() const;
  std::vector<std::string> names() const;

private:
  struct Running {
    uint64_t since = 0;
    uint64_t previousStart = noLink; ///< Transfers recorded after it belong to the present start.
    bool endSeen = false;
    bool uncertain = false; ///< Assumed after a loss.
  };
  struct Watch {
    unsigned activity;
    RegisterCondition condition;
  };
  bool hasOutstanding(unsigned activity) const;
  bool endIfComplete(unsigned activity);

  const Description *description;
  size_t maxOutstanding;
  std::vector<std::vector<Watch>> starts, ends; ///< By register.
  std::map<unsigned, Running> active;
  std::map<uint64_t, OutstandingTransfer> transfers;   ///< By the descriptor's ordinal.
  std::vector<std::set<uint64_t>> transfersOfActivity; ///< The same ordinals.
  std::vector<uint64_t> lastStart;                     ///< By activity; noLink if it never started.
  std::map<uint64_t, Packet> operations;               ///< Issued, not come back.
  std::map<unsigned, size_t> ofQueue;                  ///< How many transfers of each queue.
  uint64_t submissions = 0;
  bool overflowed = false; ///< Something that is not complete was not remembered.
};

} // namespace tapeback
