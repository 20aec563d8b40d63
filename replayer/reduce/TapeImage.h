// A tape as reduce works on it: all its packets in memory, and what depends on what.
#pragma once

#include "replayer/TapeSource.h"

namespace tapeback {

/// What a packet is to the queues of its device.
struct QueueRole {
  enum class Kind : uint8_t { None, Submit, Doorbell, Rewind, Size, DeviceReset } kind = Kind::None;
  unsigned queue = 0;
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
  /// By packet: the mapping that it fills with what fresh memory has (zero), and comes and goes with; none:
  /// it does not. Without it a replay's poison would stand for what a program would find there.
  std::vector<uint32_t> fills;

  /// The candidate's own: not re-issued, or never part of a smaller tape (ticks, counters, fingerprints).
  bool isEvidenceOnly(size_t packet) const;

private:
  void findRoles();
  void findFills();
  llvm::Error findNeeds();
};

} // namespace tapeback
