// Tries a candidate: does it still fail, and in the same way?
#pragma once

#include "replayer/bisect/Lockstep.h"
#include "replayer/reduce/Candidate.h"

namespace tapeback {

/// How the bad target first parts from the good one, in words that survive removing packets.
struct FailureKind {
  std::string what;   ///< Kind of the packet and rule: "dma-completion content".
  std::string object; ///< Register, or "memory".
  std::string field;
  std::optional<uint64_t> offset; ///< First wrong byte.
  std::optional<uint64_t> xorClass;
};
FailureKind failureKindOf(const Divergence &divergence);
/// As matchSignatures: kind (what and object), place (field and offset too), exact (XOR class too).
SignatureMatch matchFailures(const FailureKind &a, const FailureKind &b);

struct TrialOptions {
  PlayerOptions player;
  bool fromReset = false;
  /// A wait in vain ends the run without divergence: the part lacks what it waits for.
  bool stopInVain = false;
};

struct TrialResult {
  std::optional<Divergence> divergence; ///< Nothing: the two do not differ.
  std::optional<Failure> goodFailure;   ///< The good target failed where the tape does not expect it.
};

/// One run on fresh targets. Errors: an endpoint that cannot be opened; a candidate that cannot be played at
/// all (a tape's or a usage failure) is a result without divergence.
llvm::Expected<TrialResult> tryCandidate(const TapeImage &image, const Candidate &candidate,
                                         const Endpoints &endpoints, const TrialOptions &options);

/// What came of each packet of the candidate on one target, with contents.
struct Recaptured {
  std::vector<Observation> observations;
  std::vector<std::vector<uint8_t>> contents;
};
llvm::Expected<Recaptured> recapture(TapeSource &candidate, const EndpointFactory &endpoint,
                                     const TrialOptions &options);

} // namespace tapeback
