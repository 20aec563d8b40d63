// What each kind of packet has, and the names of what is in it. Internal to PacketPrinter.
#pragma once

#include "format/Packet.h"
#include "hal/description/Description.h"
#include <string>

namespace tapeback {

/// Which fields a kind has, and what they are called in JSON. Follows the comments at PacketKind.
struct KindShape {
  enum Uses : unsigned {
    Space = 1 << 0,
    Width = 1 << 1,
    Condition = 1 << 2, ///< mask and expected.
    Deadline = 1 << 3,
    Length = 1 << 4,
    Link = 1 << 5,
    Count = 1 << 6,
    Payload = 1 << 7,
    Name = 1 << 8, ///< The payload is a name.
    Rows = 1 << 9, ///< The range is `count` rows, `expected` bytes apart.
  };
  const char *address; ///< Null: not used.
  const char *value;
  unsigned uses;
};
/// Of unknown kinds: everything.
const KindShape &shapeOf(PacketKind kind);

/// packetKindName(), or "unknown-200".
std::string kindText(PacketKind kind);
const char *completionText(Completion completion);
const char *originText(Origin origin);
const char *resetText(uint64_t kind);

struct FlagName {
  uint8_t bit;
  const char *name;
};
constexpr FlagName flagNames[] = {
    {TransferToDevice, "to-device"},
    {TransferFromDevice, "from-device"},
    {Failed, "failed"},
    {Concurrent, "concurrent"},
    {Truncated, "truncated"},
    {NotCaptured, "not-captured"},
    {DeviceOwned, "device-owned"},
    {Prefix, "prefix"},
};

/// The clock of a packet's issue and complete times. (A ClockSample names the clock that it read.)
uint8_t clockOfStamps(const Packet &packet);

/// Rows that lie in device-visible memory one after another, `stride` bytes from one to the next.
struct RowShape {
  uint64_t rows = 1, rowBytes = 0, stride = 0;
};
/// Of a kind that has rows. One row if what the packet says makes no sense.
RowShape rowsOf(const PacketExtra &extra);

/// The bits of a register that an access saw: those of `packet.width` bytes from its address on, in their
/// place.
struct SeenBits {
  uint64_t value, mask;
};
SeenBits seenBits(const Packet &packet, const RegisterDescription &reg);

} // namespace tapeback
