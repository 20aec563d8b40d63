// A tape as reduce works on it: all its packets in memory, and what depends on what.
#pragma once

#include "replayer/TapeSource.h"

namespace tapeback {

/// What a packet is to the queues of its device.
struct QueueRole {
  /// Release: hands places of a ring of completions back.
  enum class Kind : uint8_t { None, Submit, Doorbell, Rewind, Size, DeviceReset, Release } kind = Kind::None;
  unsigned queue = 0;
  uint64_t base = 0; ///< Release: of the ring.
};

/// What a packet has to do with work that the device does by itself: entries of queues, activities.
struct PacketWork {
  uint32_t of = ~uint32_t(0);   ///< The packet that handed it over: itself, or a transfer's.
  uint32_t ends = ~uint32_t(0); ///< It shows as done what that packet handed over …
  bool andBefore = false;       ///< … and all that came before in the same queue.
  bool all = false;             ///< It shows that nothing is left to do.
  bool progress = false;        ///< It says how far a queue is.
  bool orders = false;          ///< An entry behind which its queue waits for another.
  unsigned activity = 0;        ///< Of a write that starts one.
};

/// Refers to the source, which must outlive it. Memory: 200 bytes a packet; more than maxPackets are refused.
struct TapeImage {
  static constexpr uint64_t maxPackets = 4'000'000;
  static constexpr uint32_t none = ~uint32_t(0);

  static llvm::Expected<TapeImage> load(TapeSource &source);

  TapeSource *source = nullptr;
  std::vector<Packet> packets;
  std::vector<PacketExtra> extras;
  std::vector<uint32_t> windows; ///< By packet: its window.
  std::vector<QueueRole> roles;  ///< By packet.
  /// By packet: the packet without which it means nothing (a completion's descriptor, a descriptor's Submit,
  /// a check's source, the command that raises what is waited for); none: it stands by itself.
  std::vector<uint32_t> needs;
  /// By packet: what it comes and goes with; none: nothing. The mapping that it fills with what fresh memory
  /// has (zero): without it a replay's poison would stand for what a program would find there. A completion's
  /// command: the device puts it into its ring whether or not somebody looks.
  std::vector<uint32_t> fills;
  std::vector<PacketWork> work; ///< By packet.
  /// By packet: the CommandDone at whose place in its ring this one looks; none: it does not.
  std::vector<uint32_t> about;
  bool hasCompletions = false; ///< There are CommandDones.
  /// By packet: a store of an entry that a Submit behind it tells of once more, and stores in its own place.
  std::vector<bool> restated;

  /// What an entry makes when it is done with success: a queue (by index) or a ring of completions.
  struct Creation {
    bool completions = false;
    unsigned index = 0;
    uint64_t base = 0, entries = 0;
  };
  /// Nothing if it makes none that the description knows.
  llvm::Expected<std::optional<Creation>> createdBy(const Packet &submit, const PacketExtra &extra) const;

  /// The candidate's own: not re-issued, or never part of a smaller tape (ticks, counters, fingerprints).
  bool isEvidenceOnly(size_t packet) const;

private:
  llvm::Error findRoles();
  void findFills();
  llvm::Error findNeeds();
  llvm::Error findWork();
  void findCompletions();
  void findRestated();
};

} // namespace tapeback
