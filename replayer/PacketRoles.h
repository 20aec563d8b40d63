// What part a packet plays in a replay.
#pragma once

#include "format/Packet.h"

namespace tapeback {

inline bool isRegisterAccess(PacketKind kind) {
  return kind == PacketKind::RegisterRead || kind == PacketKind::RegisterWrite || kind == PacketKind::Poll;
}

/// What the recorder did by itself and only looked at something with.
inline bool isEvidence(const Packet &packet) {
  if (packet.origin != Origin::Recorder)
    return false;
  switch (packet.kind) {
  case PacketKind::RegisterRead:
  case PacketKind::Poll:
  case PacketKind::MemoryRead:
  case PacketKind::MemoryWait:
  case PacketKind::Acquire:
  case PacketKind::Interrupt:
  case PacketKind::CounterSnapshot: return true;
  // A second look that found something else than the first: late, stray, or the host's own stores. Looking
  // once more would tell no more.
  case PacketKind::DmaCompletion: return packet.value != 0;
  default: return false;
  }
}

/// Packets that tell of the run and ask nothing of the device.
inline bool isEvent(PacketKind kind) {
  switch (kind) {
  case PacketKind::Marker:
  case PacketKind::SpanBegin:
  case PacketKind::SpanEnd:
  case PacketKind::ClockSample:
  case PacketKind::Tick:
  case PacketKind::Loss:
  case PacketKind::Open:
  case PacketKind::Close:
  case PacketKind::Expectation: return true;
  default: return false;
  }
}

} // namespace tapeback
