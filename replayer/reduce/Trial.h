// Tries a candidate: does it still fail, and in the same way?
#pragma once

#include "replayer/bisect/Lockstep.h"
#include "replayer/reduce/Candidate.h"

namespace tapeback {

/// How the bad target first parts from the good one, in words that survive removing packets.
struct FailureKind {
  std::string what;   ///< Kind of the packet and rule: "dma-completion content"; of a death its code.
  std::string object; ///< Register, or "memory"; of a death what the target said.
  std::string field;  ///< Of a death: the kind of packet and the register at which it showed.
  std::optional<uint64_t> offset; ///< First wrong byte.
  std::optional<uint64_t> xorClass;
};
/// `death`: the target could not go on, and this is why.
FailureKind failureKindOf(const Divergence &divergence, const std::optional<Failure> &death = std::nullopt);
/// As matchSignatures: kind (what and object), place (field and offset too), exact (XOR class too).
SignatureMatch matchFailures(const FailureKind &a, const FailureKind &b);
/// What a dying target said, without what is different each time (process ids, addresses): the line of a
/// failed assertion or of a sanitizer if there is one, otherwise how it ended.
std::string deathWords(llvm::StringRef message);

struct TrialOptions {
  PlayerOptions player;
  bool fromReset = false;
  /// A wait in vain ends the run without divergence: the part lacks what it waits for.
  bool stopInVain = false;
};

struct TrialResult {
  std::optional<Divergence> divergence; ///< Nothing: the two do not differ, or the one did not die.
  FailureKind failure;                  ///< If there is one.
  std::optional<Failure> goodFailure;   ///< The good target failed where the tape does not expect it.
  bool death = false;                   ///< The failure is that the bad target died or hung …
  bool atRest = false;                  ///< … when everything had been issued.
  std::optional<MachineReport> machine; ///< Of the target that died, if it is a program started for it.
};

/// One run. Without a good endpoint the one target judges alone: it fails if it dies or hangs. Errors: an
/// endpoint that cannot be opened; a candidate that cannot be played at all (a tape's or a usage failure) is
/// a result without divergence.
llvm::Expected<TrialResult> tryCandidate(TapeSource &candidate, const Endpoints &endpoints,
                                         const TrialOptions &options);

/// What came of each packet of the candidate on one target, with contents.
struct Recaptured {
  std::vector<Observation> observations;
  std::vector<std::vector<uint8_t>> contents;
};
/// One more run, and what came of each packet. Fewer observations: it ended there.
struct CapturedTrial {
  TrialResult result;
  Recaptured good, bad;
};
llvm::Expected<CapturedTrial> captureCandidate(TapeSource &candidate, const Endpoints &endpoints,
                                               const TrialOptions &options);

} // namespace tapeback
