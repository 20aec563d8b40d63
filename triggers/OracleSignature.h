// What a failure says: the signature of a failed check, of a target's failure, of a program's death.
//
// The recorder and the replayer both call these, so that a recorded and a replayed failure can be compared.
#pragma once

#include "format/Records.h"
#include "hal/description/Description.h"
#include "llvm/ADT/StringRef.h"

namespace tapeback {

/// Where in the workload it happened (ShadowState knows all three).
struct OraclePlace {
  std::string marker;
  uint64_t markerOccurrence = 0;
  uint64_t commandsSinceMarker = 0;
};

/// The signature of an Oracle packet that failed. `name` is its payload. `source` is the packet that the
/// actual value came from (PacketExtra::link), null if there is none; `space` is the name of the source's
/// space. `description` may be null. For replays: put the replayed value into `oracle.value` (memory checks:
/// the first wrong byte into `value`, its offset into `extra.count`) before the call.
Signature checkSignature(const Packet &oracle, const PacketExtra &extra, llvm::StringRef name,
                         const Packet *source, llvm::StringRef space, const Description *description,
                         const OraclePlace &place);

/// An operation that the target refused or did not survive. Object is the register's name or the kind of
/// operation.
Signature targetErrorSignature(const Packet &operation, llvm::StringRef space, const Description *description,
                               const OraclePlace &place);

/// The program died by `signal` (nonzero), or ended with `exitCode` (nonzero).
Signature diedSignature(int signal, int exitCode, const OraclePlace &place);

/// The machine that was the target died by `signal` (nonzero) or ended with `exitCode`: the same failure if
/// it ended alike and said the same, wherever in the workload. Its program's name is no part of what it said.
Signature machineDeathSignature(int signal, int exitCode, llvm::StringRef lastWords);

/// "STATUS", or "bar0+0x20" if the description does not know it.
std::string placeName(const Packet &access, llvm::StringRef space, const Description *description);

} // namespace tapeback
