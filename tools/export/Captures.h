// A tape as a capture of another tool: the way back from recorder/import.
#pragma once

#include "replayer/TapeSource.h"
#include "llvm/Support/raw_ostream.h"

namespace tapeback {

struct CaptureReport {
  uint64_t events = 0;        ///< Packets that are in it.
  uint64_t triggerPoints = 0; ///< Lines where triggers fired, which importers pass over or take for markers.
  std::map<std::string, uint64_t> changed; ///< Written as something poorer ("poll: its last read"), how many.
  std::map<std::string, uint64_t> leftOut; ///< What the format cannot carry, how many.
};

/// What the tape says of its trigger points, by the packet in front of which they are shown.
llvm::Expected<std::multimap<uint64_t, std::string>> triggerPointsOf(TapeReader &reader);

/// A row of the table of formats.
struct CaptureFormat {
  const char *name; ///< The importer's.
  /// Errors: the tape's, and Usage for a tape that has nothing to do with the format. Memory: bounded.
  llvm::Expected<CaptureReport> (*write)(TapeSource &source, llvm::raw_ostream &os);
};

llvm::ArrayRef<CaptureFormat> captureFormats();
/// Null if there is none of that name.
const CaptureFormat *findCaptureFormat(llvm::StringRef name);

} // namespace tapeback
