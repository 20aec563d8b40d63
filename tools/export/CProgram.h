// A tape as a stand-alone C program against the C API, for whoever does not have Tapeback's tools.
#pragma once

#include "replayer/TapeSource.h"
#include "llvm/Support/raw_ostream.h"

namespace tapeback {

struct CProgramReport {
  uint64_t calls = 0;         ///< Packets that became calls.
  uint64_t checks = 0;        ///< Of these, checks.
  uint64_t triggerPoints = 0; ///< Comments where triggers fired.
  std::map<std::string, uint64_t>
      leftOut; ///< Kind of packet, how many: what the C API does by itself, or cannot.
};

/// Writes C99, with comments at the trigger points. The program exits 0 if every check holds, 1 if one does
/// not, 3 if the target fails or places memory elsewhere than the tape has it (addresses are literal).
/// Errors: usage if the tape is too large for a source file (16 MiB of contents, 100,000 packets), has
/// several devices, or starts in the middle of a run.
llvm::Expected<CProgramReport> exportCProgram(TapeSource &source, llvm::raw_ostream &os);

} // namespace tapeback
