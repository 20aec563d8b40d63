// From a record of the ring, which a hostile program may have written, to a packet that a tape may hold.
#pragma once

#include "format/Packet.h"
#include "recorder/ring/RingFormat.h"
#include "llvm/ADT/ArrayRef.h"
#include <optional>

namespace tapeback {

/// What the collector knows of a device when it looks at its records.
struct RingDevice {
  uint16_t number = 0;                 ///< On the tape.
  llvm::ArrayRef<uint16_t> spaces;     ///< Tape space ids by the program's number (1-based in records).
  uint32_t activities = 0, queues = 0; ///< Of its description.
};

/// Kinds that a record may begin as an operation, or be as an event.
bool isOperationKind(uint8_t kind);
bool isEventKind(uint8_t kind);

/// The packet and its extra as the record says, checked: enumerants, width, space, sizes against
/// `payloadBytes` (with the chunks). `link` is left as in the record. Nothing if the record makes no sense.
struct RingPacket {
  Packet packet;
  PacketExtra extra;
};
std::optional<RingPacket> readRecord(const ring::Record &record, uint64_t payloadBytes,
                                     const RingDevice &device);

/// Puts what a Complete record says into the packet of its Issue. False if it makes no sense for it.
bool completePacket(RingPacket &operation, const ring::Record &record, uint64_t payloadBytes);

/// True if the payload of that kind is a name (UTF-8) and not memory.
bool hasName(PacketKind kind);

} // namespace tapeback
