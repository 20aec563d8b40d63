// Compares two observations of one packet by the description's rules. The only place where anything is
// judged.
#pragma once

#include "hal/description/Description.h"
#include "replayer/AccessRules.h"
#include "replayer/Observation.h"

namespace tapeback {

/// One observation and the content that goes with it.
struct ObservedSide {
  const Observation &observation;
  llvm::ArrayRef<uint8_t> content;
};

struct Comparison {
  Rule rule = Rule::Same;
  /// Where it differs: first wrong byte (of the content, or of the value in memory order), and the two values
  /// there: for registers the whole values, for content the bytes.
  uint64_t offset = 0, expected = 0, actual = 0;
  bool hasPlace = false; ///< The three above mean something.
};

/// What a comparison needs to know besides the two sides. Each may be null.
struct ComparisonContext {
  const AccessRule *access = nullptr;          ///< Register accesses.
  const CounterDescription *counter = nullptr; ///< Counter snapshots.
};

/// `expected` is the tape (replay) or the good target (bisect). Symmetric in everything but names and
/// timeouts.
Comparison compareObservations(const Packet &packet, const PacketExtra &extra,
                               const ComparisonContext &context, ObservedSide expected, ObservedSide actual);

/// What of an observation counts, with everything cleared that is not compared: equal for two observations
/// exactly where the comparison finds no difference. What window digests are made of.
struct CanonicalObservation {
  uint8_t state = 0;
  uint64_t value[2] = {0, 0};
};
CanonicalObservation canonical(const Packet &packet, const ComparisonContext &context, ObservedSide side);

} // namespace tapeback
