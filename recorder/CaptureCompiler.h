// Compiles device descriptions into the capture table that the client library follows.
#pragma once

#include "hal/description/Description.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace tapeback {

/// A device that the recorded program may open.
struct CaptureSource {
  std::string alias;
  std::string uri;
  const Description *description = nullptr; ///< Null: nothing is captured by itself.
};

/// What the client reads by itself, as evidence.
struct EvidenceOptions {
  bool atMarkers = true, atFences = true;
  uint64_t periodNs = 0; ///< 0: not by time.
};

/// The bytes of a capture::Table, valid by construction. Usage failure if an alias or URI is too long, an
/// alias comes twice, or the descriptions are larger than the table may be.
llvm::Expected<std::vector<uint8_t>> compileCaptureTable(llvm::ArrayRef<CaptureSource> sources,
                                                         const EvidenceOptions &evidence = {});

} // namespace tapeback
