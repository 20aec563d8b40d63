// Start and stop conditions of a recording, of the simplest kind: a place in the packets, seen as they pass.
//
//   begin                        from the first packet on (start only)
//   marker:NAME                  at a marker of that name; marker:NAME#3 at its third occurrence
//   write:REG                    at any write of the register REG of the description
//   write:REG=VALUE[/MASK]       at a write with (written & MASK) == VALUE; MASK is all ones of the register
//   if absent write:SPACE+OFFSET[=…]       the same for a device without a description
//
// The trigger language proper takes this place later: a condition stays a pure function of the packets.
#pragma once

#include "format/Packet.h"
#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

/// Plain value. `matches` counts occurrences, so each packet must be shown to it once, in tape order.
class StartStopCondition {
public:
  /// The condition that holds at the first packet.
  static StartStopCondition begin() { return {}; }

  /// Parses TEXT. Register names are looked up in `descriptions` (one per device, null where there is none);
  /// a name that none of them has is a Usage failure that lists near names. `what` ("--start") is named in
  /// failures.
  static llvm::Expected<StartStopCondition> parse(llvm::StringRef text, llvm::StringRef what,
                                                  llvm::ArrayRef<const Description *> descriptions);

  bool isBegin() const { return kind == Kind::Begin; }

  /// `name` is a marker's name (empty for other packets), `space` the name of the packet's space.
  bool matches(const Packet &packet, llvm::StringRef space, llvm::StringRef name);

  /// False if no packet of that kind can match.
  bool mayMatch(PacketKind packets) const {
    return kind == Kind::Begin ||
           packets == (kind == Kind::Marker ? PacketKind::Marker : PacketKind::RegisterWrite);
  }

  const std::string &text() const { return source; }

private:
  enum class Kind : uint8_t { Begin, Marker, Write } kind = Kind::Begin;
  /// A register as the packets of one device show it. Device is absent for SPACE+OFFSET: any device.
  struct Place {
    std::optional<uint16_t> device;
    std::string space;
    uint64_t offset = 0;
    unsigned width = 0; ///< 0: whatever the access has.
  };
  llvm::Error parseMarker(llvm::StringRef rest, llvm::StringRef what);
  llvm::Error parseWrite(llvm::StringRef rest, llvm::StringRef what,
                         llvm::ArrayRef<const Description *> descriptions);
  bool matchesPlace(const Packet &packet, llvm::StringRef space, const Place &place) const;

  std::string source = "begin";
  std::string marker;
  uint64_t occurrence = 1, seen = 0;
  std::vector<Place> places;
  bool anyValue = true;
  uint64_t value = 0;
  std::optional<uint64_t> mask;
};

} // namespace tapeback
