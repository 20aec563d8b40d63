// Everything that a replay would do to a device, grouped: what is written, reset, mapped and restored, what
// is read that reading changes, and what is waited for. No target is touched to find out.
#pragma once

#include "replayer/Replay.h"

namespace tapeback {

struct SideEffect {
  std::string kind; ///< "register-write", "reset", "memory-map", "read-with-effect", "wait", "restore", …
  uint16_t device = 0;
  std::string space;                     ///< "bar0", "memory"; empty if there is none.
  std::string reg;                       ///< Register, window or interrupt; empty if it has no name.
  uint64_t address = 0, lastAddress = 0; ///< Lowest and highest.
  uint64_t count = 0, bytes = 0;
  /// Of the tape; nothing for what happens before the first packet or after the last.
  std::optional<uint64_t> firstPacket, lastPacket;
  std::vector<uint64_t> values; ///< Register writes: the first few distinct ones, in order.
  bool moreValues = false;
  bool forbidden = false;   ///< The description forbids it, so that the replay would be refused.
  uint64_t longestWait = 0; ///< Waits: nanoseconds that one may take on the device's clock.
  std::string note;         ///< "before the first packet", "only after a failure".
};

struct SideEffects {
  std::vector<SideEffect> groups;         ///< By device, kind, register; unnamed addresses by page of 4 KiB.
  uint64_t ungrouped = 0;                 ///< Effects beyond the most groups.
  std::optional<uint64_t> firstForbidden; ///< Packet.
  uint64_t forbidden = 0;
};

/// Looks through packets [0, endPacket).
llvm::Expected<SideEffects> findSideEffects(TapeSource &source, const ReplayOptions &options);

/// "120 register-write bar0 STATUS = 0x1, 0x3 …, packets 12 to 890".
std::string sideEffectText(const SideEffect &effect);

} // namespace tapeback
