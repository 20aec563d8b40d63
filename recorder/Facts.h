// The manifest of a recording: what is known about it before the program runs.
#pragma once

#include "format/Records.h"
#include "recorder/Collector.h"
#include "recorder/RecordSession.h"

namespace tapeback {

/// Keys as in format/SPEC.md; what is not known is absent.
Manifest recordingManifest(const RecordOptions &options, const std::vector<CollectorDevice> &devices);

/// A command as a shell would take it.
std::string shellText(const std::vector<std::string> &command);

} // namespace tapeback
