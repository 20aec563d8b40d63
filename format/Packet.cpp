// Names of the packet vocabulary, and the batch's small operations.
#include "format/Packet.h"

#include <array>
#include <cstddef>

namespace tapeback {

namespace {

// By number. A kind without a name here does not compile (the array's size is checked).
constexpr std::array<const char *, packetKindCount> kindNames = {
    "register-read", "register-write",   "poll",   "memory-write",   "memory-read",
    "memory-wait",   "acquire",          "submit", "dma-descriptor", "dma-completion",
    "interrupt",     "counter-snapshot", "marker", "span-begin",     "span-end",
    "clock-sample",  "oracle",           "reset",  "tick",           "loss",
    "memory-map",    "memory-unmap",     "open",   "close",          "late-completion",
    "expectation",   "command-done",
};
static_assert(kindNames.back() != nullptr);

} // namespace

const char *packetKindName(PacketKind kind) {
  const auto number = static_cast<size_t>(kind);
  return number < kindNames.size() ? kindNames[number] : nullptr;
}

bool linksToPacket(PacketKind kind) {
  return kind == PacketKind::DmaCompletion || kind == PacketKind::SpanEnd || kind == PacketKind::Oracle ||
         kind == PacketKind::LateCompletion;
}

const char *lossCauseName(LossCause cause) {
  switch (cause) {
  case LossCause::Unknown: return "unknown";
  case LossCause::RingFull: return "ring-full";
  case LossCause::CollectorGone: return "collector-gone";
  case LossCause::DiskError: return "disk-error";
  case LossCause::Damage: return "damage";
  case LossCause::Source: return "source";
  case LossCause::NotRecording: return "not-recording";
  }
  return "unknown"; // A later version's cause: all that is known of it is that packets are missing.
}

const PacketExtra &PacketBatch::extra(const Packet &packet) const {
  static const PacketExtra none;
  return packet.extra == 0 || packet.extra > extras.size() ? none : extras[packet.extra - 1];
}

void PacketBatch::append(Packet packet, const PacketExtra &extra) {
  packet.extra = 0;
  if (extra != PacketExtra()) {
    extras.push_back(extra);
    packet.extra = static_cast<uint32_t>(extras.size());
  }
  packets.push_back(packet);
}

} // namespace tapeback
