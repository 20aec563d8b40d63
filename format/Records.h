// The tape's records that are not packets: who made it, on what, and what went wrong.
#pragma once

#include "format/Packet.h"
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tapeback {

using Digest = std::array<uint8_t, 32>; ///< BLAKE3.
std::string toHex(const Digest &digest);

/// The tape's identity: free key/value facts with a fixed vocabulary (format/SPEC.md lists the keys:
/// workload, slice, compiler, firmware, driver, bitstream, host, tool-version, seed, capture-options, owner,
/// threshold …). A fact that is not known is absent, never empty.
struct Manifest {
  std::map<std::string, std::string> facts;
  std::optional<Digest> parentRoot; ///< recover, trim, reduce, redact: the tape this one was made from.
  std::string derivation; ///< How it was made from the parent ("trim w100..w140"); empty for originals.
};

/// A clock that packet times and ClockSample packets refer to. Clock 0 is always the host's monotonic clock.
struct TapeClock {
  std::string name; ///< "host-monotonic", "device", "tsc" …
  uint64_t ticksPerSecond = 1'000'000'000;
};

/// One device of the tape: what it was, and the description it was recorded with (whole text, so that a tape
/// replays without the lab's files).
struct DeviceRecord {
  std::string alias;                           ///< The name the program opened it by.
  std::string targetUri;                       ///< As recorded on.
  std::map<std::string, std::string> identity; ///< From TargetIdentity: vendor, device, version, serial …
  std::string description;                     ///< YAML text; empty if recorded without.
  std::string descriptionName;
};

/// A window: from one synchronisation point of the workload to the next. Windows count from 0 over the tape.
struct WindowInfo {
  uint64_t firstPacket = 0;
  uint64_t packetCount = 0;
  uint64_t firstTime = 0, lastTime = 0;
  bool quiescent = false; ///< At its end nothing was submitted that had not been observed complete.
};

/// A page (or part of one) of device-visible memory or of a device-internal window.
struct KeyframeExtent {
  uint16_t space = 0;
  uint64_t address = 0;
  uint64_t length = 0;
  BlobId content;
};
struct KeyframeRegister {
  uint16_t space = 0;
  uint64_t address = 0;
  uint8_t width = 0;
  uint64_t value = 0;
};
/// State as the recorder saw it *before* packet `packet`; synthesised from packets, never read from the
/// device.
struct Keyframe {
  uint64_t packet = 0; ///< The first packet after it.
  uint64_t window = 0; ///< The first window after it.
  uint16_t device = 0;
  bool restorable = false;
  std::string reason; ///< Why not, if not; which recipe, if so.
  std::vector<KeyframeRegister> registers;
  std::vector<KeyframeExtent> memory;   ///< Mapped device-visible memory whose content is known.
  std::vector<KeyframeExtent> mappings; ///< What is mapped (content unused).
  std::vector<KeyframeExtent> internal; ///< Device-internal windows known through transfers.
};

/// What makes two failures the same. Never raw window numbers or addresses: those do not survive trimming.
struct Signature {
  std::string
      oracle; ///< "check", "died", "hang", "target-error", "target-died", "error-register", "golden-digest".
  std::string name;   ///< The check's name, the register's, or the signal's.
  std::string object; ///< Buffer, descriptor, queue or register; empty if none.
  std::string field;
  std::optional<uint64_t> offset;   ///< Of the first wrong byte in the object.
  std::optional<uint64_t> xorClass; ///< good XOR bad of the first wrong byte or value.
  std::string marker;               ///< Last marker before it; empty if none.
  uint64_t markerOccurrence = 0;    ///< 1 for the first marker of that name; 0 if no marker.
  uint64_t command = 0;             ///< Commands issued since that marker.
  bool operator==(const Signature &) const = default;
};
/// Levels at which two signatures can be the same, strictest last.
enum class SignatureMatch : uint8_t { None = 0, SameKind = 1, SamePlace = 2, Exact = 3 };
SignatureMatch matchSignatures(const Signature &a, const Signature &b);
const char *signatureMatchName(SignatureMatch match);

/// How the recorded run ended. A tape has one, written before the index.
struct Outcome {
  enum class Kind : uint8_t { Unknown = 0, Passed = 1, Failed = 2 } kind = Kind::Unknown;
  std::optional<Signature> signature; ///< The first failure.
  std::optional<uint64_t> packet;     ///< Ordinal at which the oracle spoke.
  std::optional<int> programExit, programSignal;
  std::string text; ///< For people.
};

/// What `Loss` packets add up to, by cause.
struct LossSummary {
  std::map<LossCause, uint64_t> packets; ///< unknownCount once one of its losses could not be counted.
  bool any() const { return !packets.empty(); }
  /// Adds a Loss packet.
  void add(const Packet &loss);
  bool operator==(const LossSummary &) const = default;
};

/// Sums and places that the footer carries, so that `info` reads two blocks.
struct TapeSummary {
  uint64_t packets = 0, windows = 0, blobs = 0, blobBytes = 0, keyframes = 0;
  uint64_t firstTime = 0, lastTime = 0;
  Digest root{}; ///< The chain's value before Index and Footer: the tape's name.
  LossSummary loss;
};

} // namespace tapeback
