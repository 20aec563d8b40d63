// A part of a flight history at one moment, as a tape that can be read: what captures are written from.
#pragma once

#include "format/TapeReader.h"
#include "recorder/flight/FlightChunk.h"

namespace tapeback {

/// What a snapshot shares with the history, and what it has of its own.
struct FlightSnapshotParts {
  Manifest manifest;
  std::vector<DeviceRecord> devices;
  std::vector<std::string> spaces;
  std::vector<TapeClock> clocks;
  uint64_t base = 0, end = 0;                 ///< Packets of the recording.
  std::vector<Keyframe> keyframes;            ///< Of the base.
  std::vector<FlightContentPointer> contents; ///< Of these.
  std::vector<FlightChunkPointer> chunks;     ///< In order; the first has the base, the last the last packet.
  struct Window {
    uint64_t first = 0;
    bool quiescent = false; ///< At its end.
  };
  std::vector<Window> windows;
  std::vector<TapeReader::TriggerRecord> triggers;
  Outcome outcome;
};

/// One thread; may be another than the history's. Packets count from 0: packet 0 is a Loss (NotRecording) of
/// everything before the base, if there is anything; what refers to something before the base refers to it.
std::unique_ptr<TapeReader> makeFlightSnapshot(FlightSnapshotParts parts);

} // namespace tapeback
